"""What hosts of the scheduler say, written to the nodes of the cluster that they are.

`Node.update` is the rule for one host. Thousands of hosts say one of a few things of nodes that are
alike, so what comes of it is worked out by the first of them and kept as a shape; the others get
that shape, and nothing is made for them that nobody looks at. Here is also what becomes of nodes
that are no hosts yet.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.hpctypes import kind_and_value
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import Amounts, NodeClass, TrackedDict, class_of_unread, same
from hpc.autoscale.node.node.state import BucketNodes, place_of
from hpc.autoscale.packing import layers
from hpc.autoscale.packing.shape import NodeShape


class _Heard(NamedTuple):
    """What was said of a node, and what it was: the same comes of what is equal."""

    home: BucketNodes
    node_class: NodeClass
    shape: NodeShape
    available: tuple[object, ...]
    totals: tuple[object, ...]
    is_busy: bool


class Joining:
    """Writes what hosts say to nodes that nothing else is written to meanwhile.

    Cost: the same as `Node.update` for the first two hosts that say something of nodes that are
    alike, and a fifth of it for each further one.
    """

    def __init__(self) -> None:
        # what nodes are afterwards, by what they were and what was said of them; None where that
        # was said once, () where it must be written to each
        self._known: dict[object, tuple[NodeClass, NodeShape] | tuple[()] | None] = {}
        # classes of nodes that have what hosts said, by what they were before
        self._classes: dict[object, NodeClass] = {}
        # at FINE, each difference is logged
        is_told_each = logging.getLogger().isEnabledFor(logging.FINE)
        self._is_on = not is_told_each and "hosts" not in layers.OFF

    def join(self, node: Node, host: Node) -> None:
        """`node.update(host)`."""
        place = place_of(node) if self._is_on else None
        heard = _heard(node, host, *place) if place is not None else None
        if place is None or heard is None:
            node.update(host)
            return
        home, position, _ = place
        known = self._known.get(heard)
        if known:
            _take_over(node, host, home, position, *known)
            return
        node.update(host)
        if known is None:
            is_first = heard not in self._known
            self._known[heard] = None if is_first else self._learn(heard, node, position)

    def _learn(
        self, heard: _Heard, node: Node, position: int
    ) -> tuple[NodeClass, NodeShape] | tuple[()]:
        """What a node is, now that its host was heard, if a node that is made of that class and
        looked into under that shape is just so; () where its equals must be written to."""
        home, before, shape = heard.home, heard.node_class, heard.home.shapes[position]
        if shape is None or not (heard.is_busy or shape.free == heard.shape.free):
            return ()  # of a host without jobs, a difference is logged
        if _is_told_by_shape(node, home, before):
            return before, shape
        after = self._classes.get((before, heard.totals))
        if after is None or not _is_told_by_shape(node, home, after):
            after = self._classes[before, heard.totals] = _class_of(node, before)
        return after, shape


def _heard(
    node: Node, host: Node, home: BucketNodes, position: int, shape: NodeShape
) -> _Heard | None:
    """None where what comes of it cannot be told from the class of the node and its shape, or
    somebody has looked into the node."""
    node_class = class_of_unread(node)
    if node_class is None or type(node) is not Node or not node.exists:
        return None
    if position in home.assigned:
        return None
    there = {name: value(node) for name, value in node_class.own}
    available = _said(host.available, there)
    totals = _said(host.resources, there)
    if available is None or totals is None:
        return None
    return _Heard(home, node_class, shape, available, totals, bool(host.assignments))


def _take_over(
    node: Node,
    host: Node,
    home: BucketNodes,
    position: int,
    node_class: NodeClass,
    shape: NodeShape,
) -> None:
    """A node that nobody has looked into is of this class from now on, and looks like this; who is
    placed there, the host says."""
    node.__dict__["_class"] = node_class
    if shape is not home.shapes[position]:
        home.reshape({position: shape})
    if host.assignments:
        home.assigned[position] = tuple(host.assignments)
    if host.assignments or host.required:
        home.used.add(position)
    if host.metadata:
        node.metadata.update(deepcopy(host.metadata))


def _said(values: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[object, ...] | None:
    """What a host says of resources, to be compared; what each node has a value of its own for is
    left out. None where it says something else of that, or what cannot be compared."""
    found: list[object] = []
    for name, value in values.items():
        if name not in there:
            told = kind_and_value(value)
            if told is None:
                return None
            found += (name, told)
        elif not same(there[name], value):
            return None
    return tuple(found)


def _is_told_by_shape(node: Node, home: BucketNodes, node_class: NodeClass) -> bool:
    """Whether a node that is made of a class now, and looked into then, is as this one."""
    free = node_class.filled(node_class.free, node)
    available = Amounts(free, node, home.class_shape(node_class))
    totals = node_class.filled(node_class.totals, node)
    return _are_same(available, node.available) and _are_same(totals, node.resources)


def _class_of(node: Node, before: NodeClass) -> NodeClass:
    """The class of nodes that are like those of a class, but have what a node has."""
    sample = before.sample()
    own = dict.fromkeys([name for name, _ in before.own])
    sample.__dict__["_resources"] = TrackedDict({**node.resources, **own}, sample)
    sample.__dict__["_Node__available"] = Amounts({**node.available, **own}, sample)
    return before.like(sample, before.own)


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


class Bucket(Protocol):
    """What is asked of a `NodeBucket` here."""

    _nodes: BucketNodes


def await_hosts(buckets: Iterable[Bucket], hosts: Container[Node]) -> None:
    """Nodes that exist and are none of the hosts of the scheduler are not up, until they are
    written to: it can start nothing there, as if they still booted."""
    for bucket in buckets:
        bucket._nodes.reshape(_not_up(bucket._nodes, hosts))


def _not_up(nodes: BucketNodes, hosts: Container[Node]) -> dict[int, NodeShape | None]:
    """What the nodes of a bucket that are no hosts look like then, by position."""
    nodes.bind()
    found: dict[int, NodeShape | None] = {}
    known: dict[NodeShape, NodeShape] = {}
    for position, (node, shape) in enumerate(zip(nodes.handles, nodes.shapes, strict=True)):
        is_host = node is not None and (node in hosts or not node.managed)
        if shape is None or is_host or not shape.prop("exists"):
            continue
        if not shape.template.is_up:
            continue
        if shape not in known:
            known[shape] = shape.table.revised(shape, shape.last_capacity_failure, False)
        found[position] = known[shape]
    return found
