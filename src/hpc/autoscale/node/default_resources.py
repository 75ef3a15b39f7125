"""Default resources: what nodes have without the cluster saying so, defined in the configuration or by an integration.

A definition has a selection, a name, a value and perhaps one arithmetic step. Definitions apply in order and the first
that gives a node a name wins. No text is ever evaluated as code. A definition whose value names the node itself (its
id, name, host name, address) is *deferred*: it decides nothing for the engine unless a constraint reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.node.constraints import NodeConstraint, get_constraints
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.shape import IDENTITY

Modify = Callable[[Any, Any], Any]

MODIFIERS: Mapping[str, Modify] = {
    "add": lambda value, by: value + by,
    "subtract": lambda value, by: value - by,
    "multiply": lambda value, by: value * by,
    "divide": lambda value, by: value / by,
    "divide_floor": lambda value, by: value // by,
}

_RESOURCE = "node.resources."
_CONFIGURATION = "node.software_configuration."


class DefaultResourceError(AutoscaleError):
    """A definition that cannot be used; the text says which, what was expected and what was found."""


NODE_ID = "ccnodeid"
"""The resource that holds the NodeId, whoever defines it and how."""

MISSING = object()
"""What a value refers to does not exist on this node, so that the definition says nothing about it."""


class Value:
    """Where the value of a definition comes from. Called with a node; None is a value, MISSING means no value."""

    deferred = False

    def __call__(self, node: Node) -> Any:
        raise NotImplementedError


class Literal(Value):
    """The same for every node."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, node: Node) -> Any:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


class GetFromBaseNode(Value):
    """A property of the node, written `node.<attr>`."""

    def __init__(self, attr: str) -> None:
        self.attr = attr
        self.deferred = attr in IDENTITY or attr in ("delayed_node_id", "_node_index")

    def __call__(self, node: Node) -> Any:
        return getattr(node, self.attr)

    def __repr__(self) -> str:
        return f"node.{self.attr}"


class MemoryDefault(Value):
    """The node's memory in another unit, written `node.memory[<magnitude>]`."""

    def __init__(self, mag: str) -> None:
        self.mag = mag

    def __call__(self, node: Node) -> Any:
        return node.memory.convert_to(self.mag)

    def __repr__(self) -> str:
        return f"node.memory[{self.mag}]"


class NodeIdDefault(Value):
    """The NodeId, once the server has given one."""

    deferred = True

    def __call__(self, node: Node) -> Any:
        return node.delayed_node_id.node_id

    def __repr__(self) -> str:
        return "node.delayed_node_id.node_id"


class _FromResource(Value):
    """Another resource of the node, as it is when asked; with `.value`, the number of a size without its unit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, node: Node) -> Any:
        found = node.resources.get(self.name)
        if found is None and self.name.endswith(".value"):
            size = node.resources.get(self.name[: -len(".value")])
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


class _Called(Value):
    """What an integration's own function makes of the node."""

    def __init__(self, function: Callable[[Node], Any]) -> None:
        self.function = function

    def __call__(self, node: Node) -> Any:
        return self.function(node)

    def __repr__(self) -> str:
        return repr(self.function)


def value_from(given: Any, where: str = "value") -> Value:
    """What a definition's value means: `node.<property>`, `node.resources.<name>[.value]`,
    `node.software_configuration.<key>`, `size::…`, `memory::…`, a function of the node, or itself.
    """
    if isinstance(given, Value):
        return given
    if isinstance(given, str):
        return _value_from_text(given, where)
    return _Called(given) if callable(given) else Literal(given)


def _value_from_text(text: str, where: str) -> Value:
    if text.startswith("`"):
        raise DefaultResourceError(
            f"{where}: expected a value, found the expression {text}: text is not run as code. "
            "Use node.…, a modifier, or a function given to add_default_resource"
        )
    if text.startswith(_RESOURCE):
        return _FromResource(text[len(_RESOURCE) :])
    if text.startswith(_CONFIGURATION):
        return _FromConfiguration(text[len(_CONFIGURATION) :])
    if text.startswith("node."):
        return _property_value(text[len("node.") :], where)
    size = {"size::": ht.Size, "memory::": ht.Memory}.get(text[: text.find("::") + 2])
    if size is None:
        return Literal(text)
    try:
        return Literal(size.value_of(text))
    except ht.SizeError as e:
        raise DefaultResourceError(f"{where}: {e}") from e


def _property_value(attr: str, where: str) -> Value:
    readable = [n for n in dir(Node) if not n.startswith("_") and not callable(getattr(Node, n))]
    readable += ["instance_id", "managed"]
    readable += ["create_time_unix", "last_match_time_unix", "delete_time_unix"]
    if attr not in readable:
        raise DefaultResourceError(
            f"{where}: Invalid node.attribute: node has no property {attr!r}{did_you_mean(attr, readable)}"
        )
    return GetFromBaseNode(attr)


class DefaultResource:
    """One definition."""

    def __init__(
        self,
        selection: Sequence[NodeConstraint],
        name: str,
        value: Value,
        modifier: str | None = None,
        magnitude: Any = None,
        allow_none: bool = True,
    ) -> None:
        if bool(modifier) != bool(magnitude):
            raise AssertionError(
                f"default resource {name!r}: a modifier and its magnitude go together, found "
                f"{modifier!r} and {magnitude!r}"
            )
        if modifier and modifier not in MODIFIERS:
            raise DefaultResourceError(
                f"default resource {name!r}: expected one of {', '.join(MODIFIERS)}, found "
                f"{modifier!r}{did_you_mean(modifier, MODIFIERS)}"
            )
        self.selection = tuple(selection)
        self.name = name
        self.value = value
        self.modifier = modifier
        self.magnitude = magnitude
        self.allow_none = allow_none
        self._warned = False

    def apply(self, node: Node) -> bool:
        """Give the node the resource unless it has it, is not selected, or the value cannot be made; True when the
        node was changed."""
        if node.resources.get(self.name) is not None:
            return False
        if not all(constraint.satisfied_by_node(node) for constraint in self.selection):
            return False
        value = self.value(node)
        if value is MISSING:
            self._warn_missing(node)
            return False
        if value is None and (not self.allow_none or self.name in node.resources):
            return False
        if self.modifier and value is not None:
            value = self._modified(value)
            if value is None:
                return False
        node._resources[self.name] = value
        node.available[self.name] = value
        return True

    def _warn_missing(self, node: Node) -> None:
        if not self._warned:
            self._warned = True
            logging.warning(
                "default resource %r: %s has no %r, so it is not defined",
                self.name,
                node,
                self.value,
            )

    def _modified(self, value: Any) -> Any:
        by = self.magnitude
        try:
            if isinstance(value, ht.Size) and isinstance(by, str):
                by = type(value).value_of(by) if self.modifier in ("add", "subtract") else float(by)
            elif isinstance(by, str):
                by = float(by)
            if not isinstance(value, (int, float, ht.Size)):
                raise TypeError(f"{value!r} is not a number or a size")
            return MODIFIERS[self.modifier or ""](value, by)
        except (TypeError, ValueError, ZeroDivisionError, RuntimeError) as e:
            logging.error(
                "default resource %r: cannot %s %r and %r, so it is not defined: %s",
                self.name,
                self.modifier,
                value,
                self.magnitude,
                e,
            )
            return None

    def __repr__(self) -> str:
        step = f" {self.modifier} {self.magnitude}" if self.modifier else ""
        return f"DefaultResource({self.name} = {self.value!r}{step})"


class Defaults:
    """All definitions, in order."""

    def __init__(self) -> None:
        self.definitions: list[DefaultResource] = []

    @property
    def deferred(self) -> frozenset[str]:
        """Names whose values differ from node to node by definition."""
        found: set[str] = set()
        for d in self.definitions:
            from_deferred = isinstance(d.value, _FromResource) and d.value.name in found
            if d.value.deferred or from_deferred or d.name == NODE_ID:
                found.add(d.name)
        return frozenset(found)

    def add(self, definition: DefaultResource) -> None:
        """Another definition, after all others."""
        self.definitions.append(definition)

    def apply(self, node: Node) -> None:
        """Apply all definitions, again while one of them makes another apply that came before it."""
        for _ in range(len(self.definitions)):
            changed = [definition for definition in self.definitions if definition.apply(node)]
            if not changed:
                return


def definition_from(
    selection: Mapping[str, Any] | Sequence[Any],
    resource_name: str,
    default_value: Any,
    modifier: str | None = None,
    modifier_magnitude: Any = None,
    allow_none: bool = True,
) -> DefaultResource:
    """A definition from what `NodeManager.add_default_resource` is given."""
    constraints = get_constraints(
        selection if isinstance(selection, (dict, list, tuple)) else [selection]
    )
    value = value_from(default_value, f"default resource {resource_name!r}")
    return DefaultResource(
        constraints, resource_name, value, modifier, modifier_magnitude, allow_none
    )


def definitions_from_config(entries: Any) -> list[DefaultResource]:
    """The `default_resources` of a configuration. DefaultResourceError names the entry and the key."""
    if not isinstance(entries, (list, tuple)):
        raise DefaultResourceError(f"default_resources: Expected a list, found {entries!r}")
    return [_from_entry(entry, f"default_resources[{i}]") for i, entry in enumerate(entries)]


def _from_entry(entry: Any, where: str) -> DefaultResource:
    if not isinstance(entry, Mapping):
        raise DefaultResourceError(f"{where}: Expected select, name and value, found {entry!r}")
    for key, kinds, said in (
        ("select", (Mapping,), "a mapping"),
        ("name", (str,), "a text"),
        ("value", (str, int, float, bool), "a text, number or boolean"),
    ):
        if not isinstance(entry.get(key), kinds):
            found = repr(entry[key]) if key in entry else "nothing"
            raise DefaultResourceError(
                f"default_resources: Expected {said} at {where}.{key}, found {found}"
            )
    steps = [key for key in MODIFIERS if key in entry]
    if len(steps) > 1:
        raise DefaultResourceError(
            f"default_resources: Expected at most one of {', '.join(MODIFIERS)} at {where}, found {', '.join(steps)}"
        )
    unknown = [key for key in entry if key not in ("select", "name", "value", *MODIFIERS)]
    if unknown:
        hint = did_you_mean(unknown[0], ["select", "name", "value", *MODIFIERS])
        raise DefaultResourceError(
            f"default_resources: unknown key {unknown[0]!r} at {where}{hint}"
        )
    step = steps[0] if steps else None
    return definition_from(
        dict(entry["select"]), entry["name"], entry["value"], step, entry[step] if step else None
    )


SYSTEM_DEFAULTS: Sequence[tuple[str, Any]] = (
    ("ncpus", "node.vcpu_count"),
    ("pcpus", "node.pcpu_count"),
    ("ngpus", "node.gpu_count"),
    ("memb", MemoryDefault("b")),
    ("memkb", MemoryDefault("k")),
    ("memmb", MemoryDefault("m")),
    ("memgb", MemoryDefault("g")),
    ("memtb", MemoryDefault("t")),
    ("nodearray", "node.nodearray"),
    (NODE_ID, NodeIdDefault()),
)
"""Name and value of what every node has unless `disable_default_resources` is set; order is the published one."""
