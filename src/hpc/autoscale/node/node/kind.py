"""Nodes that are made alike: what they have in common is held once, and what is each one's own is made when looked at.

A cluster has thousands of nodes of few kinds. A `Kind` is made of one sample; each further node is a copy of its
attributes, without containers until somebody asks for them. Which nodes are alike is for the callers to know:
`nodemanager.records` for those of the cluster, `bucket.mould` for planned ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node.record import can_be_shared, copied
from hpc.autoscale.node.node.tracked import TrackedDict, TrackedSet

if TYPE_CHECKING:
    from hpc.autoscale.node.node.handle import Node

_new, _set = object.__new__, object.__setattr__

Own = tuple[str, Callable[["Node"], Any]]
"""A resource that each node has a value of its own for, and where that comes from."""

# Attributes that are made when first looked at.
_LAZY = (
    "delayed_node_id",
    "_hostname",
    "_resources",
    "_Node__available",
    "_Node__assignments",
    "_Node__node_attribute_overrides",
    "metadata",
)
# Attributes that are looked up in the kind, until they are written to: what nobody asks for often.
_SHARED = (
    "_bucket_id",
    "_vm_size",
    "_location",
    "_spot",
    "_vcpu_count",
    "_memory",
    "_infiniband",
    "_gpu_count",
    "managed",
    "_Node__nodearray",
    "_Node__power_state",
    "_Node__software_configuration",
)
# Attributes that only say how to make the others.
_MAKING = ("_kind", "_alike", "_left", "_assigned", "_node_id")

# Resources may be named after these: they are made before one of these changes.
IDENTITY = frozenset(["_name", "_hostname", "_Node__private_ip", "instance_id"])

# What the engine sees of a node, its amounts and assignments aside: nodes of a kind differ once it is written to.
LOOKS = frozenset(
    [
        "_Node__nodearray",
        "_Node__placement_group",
        "_Node__keep_alive",
        "state",
        "target_state",
        "exists",
        "_bucket_id",
        "_vm_size",
        "_location",
        "_spot",
        "_vcpu_count",
        "_memory",
        "_infiniband",
        "_gpu_count",
    ]
)
# Attributes of which each write may change a decision.
REPORTED = LOOKS | IDENTITY | {"_Node__closed", "_allocated"}


class _Lazy:
    """An attribute that is made when it is first read; from then on, and where it is set first, an ordinary one."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        if node is None:
            return self
        if node._kind is None:
            raise AttributeError(f"{self._name} was not set yet")
        found = node.__dict__[self._name] = self._make(node)
        return found


class _Shared:
    """An attribute that nodes of a kind have in common, unless they have one of their own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        if node is None:
            return self
        if node._kind is None:
            raise AttributeError(f"{self._name} was not set yet")
        return node._kind.shared[self._name]


def shared() -> Any:
    """An attribute that nodes of a kind have in common."""
    return _Shared()


def lazy(make: Callable[[Any], Any]) -> Any:
    """An attribute of nodes that were made of a kind, made by `make(node)` when it is first read."""
    return _Lazy(make)


def delayed_node_id(node: Node) -> DelayedNodeId:
    """The identity of a node that was made of a kind."""
    return DelayedNodeId(node.name, given_node_id(node))


def given_node_id(node: Node) -> ht.NodeId | None:
    """The NodeId that such a node was made with."""
    found: ht.NodeId | None = node.__dict__.get("_node_id")
    return found


def made_up_hostname(node: Node) -> ht.Hostname:
    """A host name for a node that has none because it is only planned."""
    return ht.Hostname(util.uuid("hostname"))


def totals(node: Any) -> TrackedDict:
    """The totals of a node that was made of a kind."""
    return TrackedDict(node._kind.filled(node._kind.totals, node), node)


def available(node: Any) -> TrackedDict:
    """What such a node has available."""
    return TrackedDict(node._kind.filled(node._left, node), node)


def assignments(node: Any) -> TrackedSet:
    """Who was placed on such a node."""
    return TrackedSet(node._assigned, node)


def whole_state(node: Node) -> dict[str, Any]:
    """All attributes of a node, with everything made that is made when looked at."""
    made = {name: getattr(node, name) for name in (*_SHARED, *_LAZY)}
    own = {name: value for name, value in node.__dict__.items() if name not in _MAKING}
    return {**made, **own}


def free_of_each(nodes: Iterable[Node], name: str) -> list[Any]:
    """`available.get(name)` of each node, for which nothing need be made."""
    found: list[Any] = []
    seen: object = found  # no kind yet
    has_own = False
    for node in nodes:
        own = node.__dict__
        available = own.get("_Node__available")
        if available is None:
            kind = own.get("_kind")
            if kind is not seen:
                seen, has_own = kind, kind is None or name in kind.personal
            available = node.available if has_own else own["_left"]
        found.append(available.get(name))
    return found


def untouched(nodes: Iterable[Node]) -> tuple[dict[Kind, list[Node]], list[Node]]:
    """Those that are still as their kind made them, and of which nobody holds the amounts, by kind; and all others."""
    by_kind: dict[Kind, list[Node]] = {}
    others: list[Node] = []
    for node in nodes:
        own = node.__dict__
        kind = own.get("_alike")
        if (
            kind is None
            or own["_left"] is not kind.free
            or "_resources" in own
            or "_Node__available" in own
        ):
            others.append(node)
        elif kind in by_kind:
            by_kind[kind].append(node)
        else:
            by_kind[kind] = [node]
    return by_kind, others


def _without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values but for these; a dict that had entries deleted takes longer to copy."""
    left_out = frozenset(names)
    return {name: value for name, value in values.items() if name not in left_out}


class Kind:
    """What nodes that are made alike have in common, taken from a sample. `own`: resources that each node has a value of its
    own for; the sample has something in their places. `free` is what they have available, `names` and `values` the same.
    """

    __slots__ = (
        "_plain",
        "attributes",
        "free",
        "names",
        "own",
        "personal",
        "shared",
        "totals",
        "values",
    )

    def __init__(self, sample: Node, own: Iterable[Own] = ()) -> None:
        self.totals = dict(sample._resources)
        self.free = dict(sample.available)
        self.names, self.values = tuple(self.free), tuple(self.free.values())
        self.own = tuple(own)
        self.personal = frozenset(name for name, _ in self.own)
        self._plain = can_be_shared(self.totals) and can_be_shared(self.free)
        state = whole_state(sample)
        self.shared = {name: state[name] for name in _SHARED}
        # the smaller, the sooner thousands of them are copied
        self.attributes = {
            # a place for each that will be set, so that a copy need not grow
            "_name": "",
            "_node_id": None,
            "_home": None,
            "_position": -1,
            **_without(state, (*_SHARED, *_LAZY, "_aux")),
            "_kind": self,
            # how a deallocated node looks depends on whether it is in demand
            "_alike": None if sample.state == "Deallocated" else self,
            "_left": self.free,
            "_assigned": (),
        }

    @property
    def can_be_shared(self) -> bool:
        """Whether nodes can share values of the amounts they have."""
        return self._plain

    def filled(self, shared: Mapping[str, Any], node: Node) -> dict[str, Any]:
        """Amounts as one node has them, which may be written to."""
        found = dict(shared) if self._plain else copied(shared)
        for name, value in self.own:
            found[name] = value(node)
        return found

    def in_group(self, placement_group: str | None) -> Kind:
        """The kind of the same nodes in another placement group."""
        made = object.__new__(Kind)
        for name in Kind.__slots__:
            setattr(made, name, getattr(self, name))
        made.attributes = {**self.attributes, "_Node__placement_group": placement_group}
        made.attributes["_kind"] = made
        if self.attributes["_alike"] is not None:
            made.attributes["_alike"] = made
        return made

    def sample(self, cls: type[Node]) -> Node:
        """A node of this kind, without what is each one's own."""
        made, own = stamp(cls, self.attributes)
        own["_resources"] = TrackedDict(copied(self.totals), made)
        own["_Node__available"] = TrackedDict(copied(self.free), made)
        return made

    def adopt(self, nodes: Iterable[Node]) -> None:
        """Make untouched nodes of another kind nodes of this one."""
        for node in nodes:
            own = node.__dict__
            own["_kind"] = own["_alike"] = self
            own["_left"] = self.free


def stamp(cls: type[Node], attributes: dict[str, Any]) -> tuple[Node, dict[str, Any]]:
    """A node with the attributes of a kind, or some made from them, and its `__dict__`, for those of its own to be set:
    several times as fast as setting attributes, and as a mapping of them would be."""
    made = _new(cls)
    own = attributes.copy()
    _set(made, "__dict__", own)
    return made, own
