"""Node classes: what nodes that are made alike have in common, held once.

A cluster has thousands of nodes of few classes. A `NodeClass` is made of one sample; each further
node is a copy of its attributes, and its containers are made when somebody first looks at them.
Which nodes are alike is for the callers to know: `nodemanager.records` for those of the cluster,
`bucket.definition` for planned ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.node.tracked import Amounts, TrackedDict, can_be_shared, copied

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node

_new, _set = object.__new__, object.__setattr__

Own = tuple[str, Callable[["Node"], Any]]
"""A resource that each node has a value of its own for, and where that comes from."""

# Attributes that are made when somebody first looks at them.
MADE_LATE = (
    "delayed_node_id",
    "_hostname",
    "_resources",
    "_Node__available",
    "_Node__assignments",
    "_Node__node_attribute_overrides",
    "metadata",
)


class NodeClass:
    """What nodes that are made alike have in common, taken from a sample.

    `own`: resources that each node has a value of its own for; the sample has a placeholder for
    each. `totals` and `free`: what they have and have available. `identify` gives a node, as its
    `__dict__`, its names, from what its bucket knows of it: a record, or the name of a planned
    node. `finish` gives it what only the node itself can tell.
    """

    __slots__ = ("_is_plain", "attributes", "finish", "free", "identify", "own", "totals")

    def __init__(
        self,
        sample: Node,
        own: Iterable[Own] = (),
        identify: Callable[[dict[str, Any], Any], None] | None = None,
        finish: Callable[[Node], None] | None = None,
        **changes: Any,
    ) -> None:
        """`changes`: attributes of the nodes that differ from those of the sample."""
        self.totals = dict(sample._resources)
        self.free = dict(sample.available)
        self.own = tuple(own)
        self.identify = identify
        self.finish = finish
        self._is_plain = can_be_shared(self.totals) and can_be_shared(self.free)
        attributes = sample.__getstate__()
        for name in (*MADE_LATE, "_aux", "_closed", "_used", "_counted"):
            attributes.pop(name, None)
        # with a place for each that a node is given, a copy need not grow
        own_names = {"_class": self, "_node_id": None, "_home": None, "_position": -1}
        self.attributes = {**attributes, **own_names, **changes}

    def filled(self, shared: Mapping[str, Any], node: Node) -> dict[str, Any]:
        """Amounts as one node has them, which may be written to."""
        found = dict(shared) if self._is_plain else copied(shared)
        for name, value in self.own:
            found[name] = value(node)
        return found

    def node(self, source: Any, cls: type[Node]) -> Node:
        """A node of this class; `source` is what `identify` takes."""
        made = _new(cls)
        # several times as fast as to set one attribute after another
        own = self.attributes.copy()
        if self.identify is None:
            own["_name"] = source
        else:
            self.identify(own, source)
        _set(made, "__dict__", own)
        return made

    def sample(self, cls: type[Node]) -> Node:
        """A node of this class, without what is each one's own."""
        made = _new(cls)
        _set(made, "__dict__", self.attributes.copy())
        made.__dict__["_resources"] = TrackedDict(copied(self.totals), made)
        made.__dict__["_Node__available"] = Amounts(copied(self.free), made)
        return made

    def adopt(self, nodes: Iterable[Node]) -> None:
        """Make nodes of another class, whose amounts nobody has looked at, nodes of this one."""
        for node in nodes:
            node.__dict__["_class"] = self


def given_node_id(node: Node) -> ht.NodeId | None:
    """The NodeId that a node was made with, if it was made of a class."""
    found: ht.NodeId | None = node.__dict__.get("_node_id")
    return found


def by_class(nodes: Iterable[Node]) -> tuple[dict[NodeClass, list[Node]], list[Node]]:
    """Those whose amounts are still those of their class, and that nobody has looked into, by
    class; and all others."""
    found: dict[NodeClass, list[Node]] = {}
    others: list[Node] = []
    for node in nodes:
        own = node.__dict__
        node_class = own.get("_class")
        if node_class is None or "_resources" in own or "_Node__available" in own:
            others.append(node)
        else:
            found.setdefault(node_class, []).append(node)
    return found, others


def free_of_each(nodes: Iterable[Node], name: str) -> list[Any]:
    """`available.get(name)` of each node. Nodes that the engine knows need not be looked into
    for a plain number."""
    found: list[Any] = []
    for node in nodes:
        home = node._home
        shape = home.shapes[node._position] if home is not None and home.is_bound else None
        if shape is None or name not in shape.free or name in shape.units:
            found.append(node.available.get(name))
        else:
            found.append(shape.free[name])
    return found
