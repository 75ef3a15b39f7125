"""Where the value of a default resource comes from.

It is a property of the node, another resource, the result of a function, or a literal value. A
value that names the node (its id, name, host name, address) is *deferred*: it decides nothing for
the engine unless a constraint reads it. No text is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.node.identity import NODE_ID as NODE_ID
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.node_class import given_node_id
from hpc.autoscale.packing.shape import IDENTITY

_RESOURCE = "node.resources."
_CONFIGURATION = "node.software_configuration."
# properties that name a node, of which it makes its resources before they change
_NAMES = ("name", "hostname", "fqdn", "private_ip", "instance_id")


class DefaultResourceError(AutoscaleError):
    """A definition cannot be used. The text says which, what was expected and what was found."""


MISSING = object()
"""What a value refers to does not exist on this node, so that the definition says nothing about
it."""


class Value:
    """The source of the value of a definition. It is called with a node.

    None is a value; MISSING means that the node has no value.
    """

    deferred = False

    alike = False
    """Whether planned nodes that are made alike get the same value."""

    reads: frozenset[str] = frozenset()
    """Of a value that is alike: the attributes of the node that it comes from, its resources
    aside."""

    def __call__(self, node: Node) -> Any:
        raise NotImplementedError

    @property
    def personal(self) -> Callable[[Node], Any] | None:
        """A function that gives at any time the value that a node of the cluster had when it was
        made.

        None where there is no such function.
        """
        return None


class Literal(Value):
    """A value that is the same for every node."""

    alike = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, node: Node) -> Any:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


class GetFromBaseNode(Value):
    """The value of a property of the node, written `node.<attr>`."""

    def __init__(self, attr: str) -> None:
        self.attr = attr
        self.deferred = attr in IDENTITY or attr in ("delayed_node_id", "_node_index")
        self.alike = attr in QUERYABLE_PROPERTIES and not self.deferred
        self.reads = frozenset({attr})

    def __call__(self, node: Node) -> Any:
        return getattr(node, self.attr)

    @property
    def personal(self) -> Callable[[Node], Any] | None:
        return self if self.attr in _NAMES else None

    def __repr__(self) -> str:
        return f"node.{self.attr}"


class MemoryDefault(Value):
    """The memory of the node in another unit, written `node.memory[<magnitude>]`."""

    alike = True
    reads = frozenset({"memory"})

    def __init__(self, mag: str) -> None:
        self.mag = mag

    def __call__(self, node: Node) -> Any:
        return node.memory.convert_to(self.mag)

    def __repr__(self) -> str:
        return f"node.memory[{self.mag}]"


class NodeIdDefault(Value):
    """The NodeId of the node, once the server has given it one."""

    deferred = True
    alike = True  # a planned node has none

    def __call__(self, node: Node) -> Any:
        return node.delayed_node_id.node_id

    @property
    def personal(self) -> Callable[[Node], Any] | None:
        return given_node_id

    def __repr__(self) -> str:
        return "node.delayed_node_id.node_id"


class FromResource(Value):
    """The value that another resource of the node has when this is asked.

    With `.value` it is the number of a size without its unit.
    """

    alike = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.whole = name.removesuffix(".value")

    def __call__(self, node: Node) -> Any:
        found = node.resources.get(self.name)
        if found is None and self.whole != self.name:
            size = node.resources.get(self.whole)
            found = size.value if isinstance(size, ht.Size) else size
        return MISSING if found is None else found

    def __repr__(self) -> str:
        return f"{_RESOURCE}{self.name}"


class _FromConfiguration(Value):
    """A top-level entry of the node's software configuration."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, node: Node) -> Any:
        found = node.software_configuration.get(self.key)
        return MISSING if found is None else found

    def __repr__(self) -> str:
        return f"{_CONFIGURATION}{self.key}"


class Called(Value):
    """The result of an integration's own function of the node."""

    def __init__(self, function: Callable[[Node], Any]) -> None:
        self.function = function

    def __call__(self, node: Node) -> Any:
        return self.function(node)

    def __repr__(self) -> str:
        return repr(self.function)


def value_from(given: Any, where: str = "value") -> Value:
    """The source of a value, from what a definition says.

    A text may be `node.<property>`, `node.resources.<name>[.value]`,
    `node.software_configuration.<key>`, `size::…` or `memory::…`; a function is called with the
    node; everything else stands for itself.
    """
    if isinstance(given, Value):
        return given
    if isinstance(given, str):
        return _value_from_text(given, where)
    return Called(given) if callable(given) else Literal(given)


def _value_from_text(text: str, where: str) -> Value:
    if text.startswith("`"):
        raise DefaultResourceError(
            f"{where}: expected a value, found the expression {text}: text is not run as code. "
            "Use node.…, a modifier, or a function given to add_default_resource"
        )
    if text.startswith(_RESOURCE):
        return FromResource(text[len(_RESOURCE) :])
    if text.startswith(_CONFIGURATION):
        return _FromConfiguration(text[len(_CONFIGURATION) :])
    if text.startswith("node."):
        return _property_value(text[len("node.") :], where)
    size = ht.size_class(text)
    try:
        return Literal(text if size is None else size.value_of(text))
    except ht.SizeError as e:
        raise DefaultResourceError(f"{where}: {e}") from e


@cache
def _readable() -> list[str]:
    found = [n for n in dir(Node) if not n.startswith("_") and not callable(getattr(Node, n))]
    return [*found, "instance_id"]


def _property_value(attr: str, where: str) -> Value:
    if attr not in QUERYABLE_PROPERTIES and attr not in _readable():
        raise DefaultResourceError(
            f"{where}: Invalid node.attribute: node has no property"
            f" {attr!r}{did_you_mean(attr, _readable())}"
        )
    return GetFromBaseNode(attr)
