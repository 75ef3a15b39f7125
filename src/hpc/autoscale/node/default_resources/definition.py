"""What default resources are: where a value comes from, one definition, the ordered list of all
definitions, and the standard ones.

A value is a property of the node, another resource, the result of a function, or a literal. One
that names the node (its id, name, host name, address) is *deferred*: it decides nothing for the
engine unless a constraint reads it. Definitions apply in order. The first that gives a node a
resource of some name wins; only a value of None can be replaced by a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale import results
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.node.constraints import NodeConstraint
from hpc.autoscale.node.identity import NODE_ID as NODE_ID
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.contents import (
    NodeClass,
    NodeView,
    can_be_shared,
    class_of_unread,
    same,
    server_id_of,
)
from hpc.autoscale.node.node.decrementing import lowered
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import IDENTITY_NAMES, Fit
from hpc.autoscale.packing.shape import IDENTITY

Finish = Callable[[Node], None]

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
        return server_id_of

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
        return f"node.resources.{self.name}"


class FromConfiguration(Value):
    """A top-level entry of the node's software configuration."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, node: Node) -> Any:
        found = node.software_configuration.get(self.key)
        return MISSING if found is None else found

    def __repr__(self) -> str:
        return f"node.software_configuration.{self.key}"


class Called(Value):
    """The result of an integration's own function of the node."""

    def __init__(self, function: Callable[[Node], Any]) -> None:
        self.function = function

    def __call__(self, node: Node) -> Any:
        return self.function(node)

    def __repr__(self) -> str:
        return repr(self.function)


MODIFIERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda value, by: value + by,
    "subtract": lambda value, by: value - by,
    "multiply": lambda value, by: value * by,
    "divide": lambda value, by: value / by,
    "divide_floor": lambda value, by: value // by,
}

_OF_GROUPS = frozenset(
    name
    for attribute in ("placement_group", "colocated", "infiniband")
    for name in (attribute, f"node.{attribute}")
)


class DefaultResource:
    """One definition: which nodes it selects, the name of the resource, and its value.

    `selects_by`: the names of the properties and resources that decide which nodes are selected,
    written as in `Expr.reads`.

    DefaultResourceError for an arithmetic step that is unknown or whose magnitude is no number;
    AssertionError for a step without a magnitude, or a magnitude without a step.
    """

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
        self.name = name
        self.value = value
        self.modifier = modifier
        self.magnitude = _checked_magnitude(name, modifier, magnitude) if modifier else None
        self.allow_none = allow_none
        compiled = [(constraint, lowered(constraint)) for constraint in selection]
        exprs = [expr for _, expr in compiled if expr is not None]
        self._selected = AllOf(exprs) if exprs else None
        self.selects_by = frozenset[str]() if self._selected is None else self._selected.reads
        self._asked = [constraint for constraint, expr in compiled if expr is None]
        self._complained = False

    @property
    def alike(self) -> bool:
        """Whether planned nodes of one template all get the same value from it, or all get none."""
        return self.value.alike and not self._asked and self.selects_by.isdisjoint(IDENTITY_NAMES)

    @property
    def personal(self) -> Callable[[Node], Any] | None:
        """A function that gives the value of any node of the cluster, where each has a value of its
        own.

        None where no such function is known. It may be used when every node lacks the resource.
        """
        plain = self.allow_none and not self.modifier
        return self.value.personal if plain and not self._asked and not self.selects_by else None

    def reads_any(self, names: Collection[str]) -> bool:
        """Whether the selection or the value depends on one of these resources."""
        value = self.value
        if isinstance(value, FromResource) and not {value.name, value.whole}.isdisjoint(names):
            return True
        return not self.selects_by.isdisjoint(names)

    def apply(self, node: Node) -> bool:
        """Give the node the resource; True when the node was changed.

        Nothing happens when the node has it, is not selected, or the value cannot be made.
        """
        if node._resources.get(self.name) is not None or not self._selects(node):
            return False
        value = self._value_for(node)
        if value is MISSING or (value is None and self.name in node._resources):
            return False
        node._resources[self.name] = value
        node.available[self.name] = value
        return True

    def withdraw(self, node: Node) -> None:
        """Take the resource from the node if this definition gave it and none of it is used."""
        found = node.resources.get(self.name)
        unused = same(found, node.available.get(self.name))
        if found is None or not unused or not self._selects(node):
            return
        if same(found, self._value_for(node)):
            node._resources[self.name] = node.available[self.name] = None

    def _selects(self, node: Node) -> bool:
        selected = self._selected
        if selected is not None and not isinstance(selected.fit(NodeView(node)), Fit):
            return False
        if not self._asked:
            return True
        with results.muted():
            return all(constraint.satisfied_by_node(node) for constraint in self._asked)

    def _value_for(self, node: Node) -> Any:
        """The value for a node, or MISSING when this definition gives it none."""
        try:
            value = self.value(node)
        except Exception as e:
            raise DefaultResourceError(
                f"default resource {self.name!r}: expected a value for {_said(node)}, found"
                f" {type(e).__name__}: {e}"
            ) from e
        if value is MISSING:
            self._complain("%s has no %r", node, self.value)
            return MISSING
        if isinstance(value, Mapping):
            self._complain("%r is no single value", self.value)
            return MISSING
        if value is None:
            return None if self.allow_none and not self.modifier else MISSING
        return self._modified(value) if self.modifier else value

    def _modified(self, value: Any) -> Any:
        by = self.magnitude
        try:
            if not isinstance(value, (int, float, ht.Size)):
                raise TypeError(f"{value!r} is not a number or a size")
            if isinstance(by, str):
                sized = isinstance(value, ht.Size) and self.modifier in ("add", "subtract")
                by = type(value).value_of(by) if sized else _number(by)  # type: ignore[union-attr]
            return MODIFIERS[self.modifier or ""](value, by)
        except (TypeError, ValueError, ArithmeticError, RuntimeError) as e:
            self._complain("cannot %s %r and %r: %s", self.modifier, value, self.magnitude, e)
            return MISSING

    def _complain(self, why: str, *args: object) -> None:
        """Log once why the resource is not defined, as thousands of nodes may be concerned."""
        if not self._complained:
            self._complained = True
            logging.warning(f"default resource %r is not defined: {why}", self.name, *args)

    def __repr__(self) -> str:
        step = f" {self.modifier} {self.magnitude}" if self.modifier else ""
        return f"DefaultResource({self.name} = {self.value!r}{step})"


def _said(node: Node) -> str:
    size = f"{node.nodearray}, {node.vm_size}"
    is_example = node.name == f"{node.nodearray}-0"
    return f"new nodes of {size}" if is_example else f"node {node.name} ({size})"


def _checked_magnitude(name: str, modifier: str, magnitude: Any) -> Any:
    if not isinstance(modifier, str) or modifier not in MODIFIERS:
        raise DefaultResourceError(
            f"default resource {name!r}: expected one of {', '.join(MODIFIERS)}, found "
            f"{modifier!r}{did_you_mean(str(modifier), MODIFIERS)}"
        )
    sized = modifier in ("add", "subtract")
    try:
        if isinstance(magnitude, str):
            ht.Size.value_of(magnitude) if sized else _number(magnitude)
        elif isinstance(magnitude, bool) or not isinstance(magnitude, (int, float, ht.Size)):
            raise ValueError
    except ValueError:
        expected = "a number or a size such as '1g'" if sized else "a number"
        raise DefaultResourceError(
            f"default resource {name!r}: expected {expected} to {modifier}, found {magnitude!r}"
        ) from None
    return magnitude


def _number(text: str) -> int | float:
    """The number that a text stands for, an int where it has no fraction. ValueError otherwise."""
    try:
        return int(text)
    except ValueError:
        return float(text)


class Defaults:
    """All definitions, in order.

    `deferred` has the names of resources whose values differ from node to node by definition;
    `personal` has these and the properties that differ. `ignore_groups` says that the default
    resources of a new node do not depend on its placement group, as far as the engine sees them.
    """

    def __init__(self) -> None:
        self.definitions: list[DefaultResource] = []
        self.deferred: frozenset[str] = frozenset()
        self.personal: frozenset[str] = IDENTITY_NAMES
        self.ignore_groups = True
        self._applier: Finish | None = None

    @contextmanager
    def adding(self, definitions: Iterable[DefaultResource]) -> Iterator[bool]:
        """Add definitions after all others, and apply them within; whether there are any. Where
        that fails they are not kept."""
        added, before = list(definitions), dict(vars(self))
        for definition in added:
            self.add(definition)
        try:
            yield bool(added)
        except BaseException:
            vars(self).update(before)
            raise

    def add(self, definition: DefaultResource) -> None:
        """Add a definition after all others."""
        self._applier = None
        self.definitions = [*self.definitions, definition]
        value = definition.value
        refers_to_one = isinstance(value, FromResource) and value.name in self.deferred
        if value.deferred or refers_to_one or definition.name == NODE_ID:
            self.deferred |= {definition.name}
            self.personal |= self.deferred
        self.ignore_groups = all(
            d.name in self.deferred
            or (d.alike and _OF_GROUPS.isdisjoint(d.value.reads | d.selects_by))
            for d in self.definitions
        )

    def apply(self, node: Node) -> None:
        """Apply all definitions to a node.

        It is repeated while one definition makes another apply that came before it.
        """
        _settle(self.definitions, node)

    def prepare(self, prototype: Node) -> Finish | None:
        """Give the prototype of planned nodes the resources that all of its copies will have.

        The result is a function that gives a copy its other resources; None when there are no
        others. Together they do what `apply` does to each copy.
        """
        definitions = list(self.definitions)
        alike = list(takewhile(lambda definition: definition.alike, definitions))
        rest = definitions[len(alike) :]
        if not rest:
            self.applier()(prototype)
            return None
        for definition in alike:
            definition.apply(prototype)
        return _finisher(rest, _lacking(definitions, prototype))

    def apply_to(self, nodes: Iterable[Node]) -> None:
        """Call `apply` for each node.

        What is the same for nodes that the definitions cannot tell apart is worked out once.
        """
        if self.definitions:
            names = dict.fromkeys(definition.name for definition in self.definitions)
            left = [node for node in self._refine(nodes) if _lacks_any(names, node)]
            apply = self.applier() if left else self.apply
            for node in left:
                apply(node)

    def _refine(self, nodes: Iterable[Node]) -> list[Node]:
        """Apply the definitions, class by class, to nodes that are as their node class made them.

        The result is the nodes that are left, for which each must be asked.
        """
        left: list[Node] = []
        refined: dict[NodeClass, NodeClass | None] = {}
        for node in nodes:
            node_class = class_of_unread(node)
            if node_class is not None and node_class not in refined:
                refined[node_class] = self.refined(node_class)
            finer = refined[node_class] if node_class is not None else None
            if finer is None:
                left.append(node)
            else:
                node.__dict__["_class"] = finer
        return left

    def refined(self, node_class: NodeClass) -> NodeClass | None:
        """The node class that nodes of a class have with the default resources.

        None when each node must be asked.
        """
        if not self.definitions:
            return node_class
        sample = node_class.sample()
        own = dict(node_class.own)
        alike = []
        for definition in self.definitions:
            name, personal = definition.name, definition.personal
            if name in own:
                if own[name] is not server_id_of:  # the only one that every node has a value of
                    return None
            elif personal is not None:
                if sample._resources.get(name) is None:
                    own[name] = personal
                    sample._resources[name] = sample.available[name] = None
            elif definition.alike and not definition.value.deferred:
                alike.append(definition)
                definition.apply(sample)
            else:
                return None
        if any(definition.reads_any(own) or definition.name in own for definition in alike):
            return None
        _settle(_lacking(alike, sample), sample)
        return node_class.like(sample, own.items())

    def applier(self) -> Finish:
        """A function that does what `apply` does, for many nodes one after another.

        What is the same for nodes that the definitions cannot tell apart is worked out once. It may
        be used as long as no definition is added.
        """
        if self._applier is None:
            self._applier = self._new_applier()
        return self._applier

    def _new_applier(self) -> Finish:
        alike = list(takewhile(lambda d: d.alike and not d.value.deferred, self.definitions))
        rest = self.definitions[len(alike) :]
        attributes = sorted({name for d in alike for name in d.value.reads})
        selecting = sorted({name for d in alike for name in d.selects_by})
        known: dict[object, tuple[dict[str, Any], Finish]] = {}

        def apply(node: Node) -> None:
            key = _key_of(node, attributes, selecting)
            found = known.get(key) if key is not None else None
            if found is not None:
                given, finish = found
                node._resources.update(given)
                node.available.update(given)
                finish(node)
                return
            before = dict(node._resources)
            for definition in alike:
                definition.apply(node)
            given = {k: v for k, v in node._resources.items() if before.get(k, MISSING) is not v}
            finish = _finisher(rest, _lacking(self.definitions, node))
            if key is not None and can_be_shared(given):
                known[key] = (given, finish)
            finish(node)

        return apply

    def withdraw_identity(self, node: Node) -> None:
        """Take back the resources that follow from the identity of a node, which is about to
        change.

        `apply` gives them anew.
        """
        for definition in self.definitions:
            if definition.name in self.deferred or isinstance(definition.value, Called):
                definition.withdraw(node)


def _settle(definitions: Sequence[DefaultResource], node: Node) -> None:
    for _ in range(len(definitions)):
        changed = [definition for definition in definitions if definition.apply(node)]
        if not changed:
            return


def _lacks_any(names: Iterable[str], node: Node) -> bool:
    """Whether the node lacks one of these resources.

    Most nodes that defaults are applied to again have them all.
    """
    return None in map(node._resources.get, names)


def _lacking(definitions: Sequence[DefaultResource], node: Node) -> list[DefaultResource]:
    """The definitions that may still apply: those whose resource the node lacks."""
    return [d for d in definitions if node._resources.get(d.name) is None]


def _finisher(rest: Sequence[DefaultResource], lacking: Sequence[DefaultResource]) -> Finish:
    """A function that continues `Defaults.apply` where the first definitions are applied."""

    def finish(node: Node) -> None:
        for definition in rest:
            definition.apply(node)
        _settle(lacking, node)

    return finish


def _key_of(node: Node, attributes: Sequence[str], selecting: Sequence[str]) -> object:
    """All that the definitions go by that treat equal nodes alike, as a value that can be hashed.

    It has these attributes of the node, its resources, and (`selecting`) what is available and its
    other properties. None where that cannot be told by value.
    """
    has = node._resources
    seen = [getattr(node, name) for name in attributes]
    for name in selecting:
        if name.startswith("node."):
            seen.append(getattr(node, name.removeprefix("node.")))
        else:
            seen.append(node.available.get(name, MISSING))
    seen.extend(has.values())
    # equal sizes may be written in different units, which their own numbers depend on
    kinds = [(v.__class__, v.magnitude) if isinstance(v, ht.Size) else v.__class__ for v in seen]
    key = (tuple(has), tuple(seen), tuple(kinds))
    try:
        hash(key)
    except TypeError:
        return None
    return key


SYSTEM_DEFAULTS: Mapping[str, Value] = {
    "ncpus": GetFromBaseNode("vcpu_count"),
    "pcpus": GetFromBaseNode("pcpu_count"),
    "ngpus": GetFromBaseNode("gpu_count"),
    "memb": MemoryDefault("b"),
    "memkb": MemoryDefault("k"),
    "memmb": MemoryDefault("m"),
    "memgb": MemoryDefault("g"),
    "memtb": MemoryDefault("t"),
    "nodearray": GetFromBaseNode("nodearray"),
    NODE_ID: NodeIdDefault(),
}
"""What every node has unless `disable_default_resources` is set; order is the published one."""
