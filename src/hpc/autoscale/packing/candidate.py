"""A bucket as the engine sees it: its nodes, the shape of a new one, and the limits of new ones.

Nodes go by position: they are added at the end, and one that goes away leaves a position without a
shape. So a position is a node's identity in the engine, and first-fit order is position order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.expr import VACANT, Expr, Fit, Minimum
from hpc.autoscale.packing.limits import Limit, Reservation
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.segment_tree import Need, NodeIndex, Reading, Staircase
from hpc.autoscale.packing.shape import OF_BUCKET, NodeShape
from hpc.autoscale.packing.shares import NodeShare


class ChangeLog:
    """What happened to the candidates of a planner since it was made, for whoever remembers them.

    `added`: candidates that nodes were added to; `shapes`: beside each, what a node looked like.
    `reshaped`: candidates with nodes that got another shape by other means than placing work, or
    are not unclaimed any more; `lows`: beside each, the first position of those. Either may let
    them take what they refused before. `charged`: limits that were charged, of those that somebody
    wants to hear of.
    """

    def __init__(self) -> None:
        self.added: list[Candidate] = []
        self.shapes: list[NodeShape | None] = []
        self.reshaped: list[Candidate] = []
        self.lows: list[int] = []
        self.charged: list[Limit] = []
        self.plan: object = None

    def clear(self) -> None:
        """Forget everything; whoever read it must be forgotten too."""
        self.added.clear()
        self.shapes.clear()
        self.reshaped.clear()
        self.lows.clear()
        self.charged.clear()
        self.plan = None


class Candidate:
    """State of one bucket (and placement group).

    Changed by `Planner.apply`, and through `extend` and `reshape` where nodes were added or written
    to from outside. `shapes`: of the nodes, by position; None for one that is gone. `bucket_shape`
    is what ranking looks at, `new_shape` what a new node would be. `cores`: vCPUs of one node.
    `charged`: the limits that new nodes are charged to; `share`: that among them which says how
    many of all nodes are to be here, if any. `artificial`: stands for machines that
    cannot be ordered; ranked first. `reserved`: nodes promised elsewhere. `since_failure`: seconds
    since capacity last failed; None for never. `awaits`: some node is or was unclaimed. `turn`: in
    the declared order, it comes behind all with a lower one.
    """

    def __init__(
        self,
        name: str,
        bucket_shape: NodeShape,
        new_shape: NodeShape,
        cores: int,
        limits: Sequence[Limit],
        artificial: bool = False,
    ) -> None:
        self.name = name
        self.bucket_shape = bucket_shape
        self.new_shape = new_shape
        self.cores = cores
        self.limits = tuple(limits)
        self.charged = tuple(limit for limit in limits if limit.is_charged)
        self.share = next((limit for limit in limits if isinstance(limit, NodeShare)), None)
        self.artificial = artificial
        self.reserved = 0
        self.since_failure: float | None = None
        # a new node, and the same in want of capacity
        self._in_want: tuple[NodeShape, NodeShape] | None = None
        self.shapes: list[NodeShape | None] = []
        self._known_index: NodeIndex | None = None  # a cached property slows all attributes
        self.awaits = False
        self.turn: tuple[int, ...] = ()
        # of nodes that are not unclaimed, and of those that are
        self._readings: tuple[dict[str, Reading], dict[str, Reading]] = ({}, {})
        # the limit that was short when they were last asked
        self._tight: Limit | None = None
        self.changes = ChangeLog()
        # properties that all nodes share
        self._fixed: dict[str, object] | None = None

    def copied(self, limits: Sequence[Limit], has_nodes: bool) -> Candidate:
        """Another candidate like this one, with limits of its own, and with nodes or without."""
        common = self.name, self.bucket_shape, self.new_shape, self.cores
        made = Candidate(*common, limits, self.artificial)
        made.reserved, made.since_failure = self.reserved, self.since_failure
        made.shapes.extend(self.shapes if has_nodes else ())
        made.awaits = self.awaits and has_nodes
        return made

    @property
    def _index(self) -> NodeIndex:
        self._known_index = self._known_index or NodeIndex(self.shapes)
        return self._known_index

    def has_room_for(self, nodes: int) -> bool:
        """Whether the limits allow so many more nodes. Constant time where the limit that was short
        last time still is."""
        nodes += self.reserved
        cores = nodes * self.cores
        tight = self._tight
        # each new node is asked about, so this is written out
        if tight is not None and (
            tight.used_nodes + nodes > tight.max_nodes or tight.used_cores + cores > tight.max_cores
        ):
            return False
        for limit in self.charged:
            if (
                limit.used_nodes + nodes > limit.max_nodes
                or limit.used_cores + cores > limit.max_cores
            ):
                self._tight = limit
                return False
        return True

    def opening(self, expr: Expr) -> Fit | Reject | None:
        """How an expression fits a new node; None where none can be made."""
        if self.artificial:
            return None
        reject = self.at_rest(expr)
        return self.new_shape.fit(expr) if reject is None else reject

    def at_rest(self, expr: Expr) -> Reject | None:
        """Why no new node may be had so soon after capacity failed; None when it may."""
        if self.since_failure is None:
            return None
        shape = self.new_shape
        if self._in_want is None or self._in_want[0] is not shape:
            self._in_want = (shape, shape.table.revised(shape, self.since_failure, True))
        fit = self._in_want[1].fit(expr)
        return fit if isinstance(fit, Reject) and isinstance(shape.fit(expr), Fit) else None

    def room(self, reservation: Reservation) -> int:
        """How many new nodes the limits allow beside what is reserved; may be below 0."""
        return reservation.room(self.limits, self.cores) - self.reserved

    @property
    def is_in_use(self) -> bool:
        """Whether it has a node, existing or planned; nodes that are gone do not count."""
        shapes = self.shapes
        return bool(shapes) and (shapes[0] is not None or any(s is not None for s in shapes))

    def alike(self, position: int, most: int) -> int:
        """Where the nodes end that look like the one at a position, of at most `most`."""
        shapes = self.shapes
        shape = shapes[position]
        end = min(len(shapes), position + most)
        for other in range(position + 1, end):
            if shapes[other] is not shape:
                return other
        return end

    def next_meeting(self, needs: Needs, start: int) -> int:
        """The first position from `start` on that may have what an expression needs, as `needs` has
        it; -1 when none has."""
        size = len(self.shapes)
        if start < size and needs.trees:
            start = self._index.first(start, needs.trees, needs.searched)
        return start if start < size else -1

    def first_of_each(self, start: int) -> Iterator[tuple[NodeShape | None, int]]:
        """Each shape of nodes from a position on, with the first such position; in no order."""
        return self._index.alike().first_of_each(start)

    def first_with(self, name: str, texts: Iterable[str], start: int) -> int:
        """The first position from `start` on of a node that has one of some texts for a resource;
        -1 when there is none."""
        return self._index.texts(name).first(texts, start)

    def may_meet(self, expr: Expr, unclaimed: bool = False) -> bool:
        """Whether, for all that is known of each resource alone, some node, or unclaimed one, may
        have what an expression takes at least."""
        if not (shapes := self.shapes) or (unclaimed and not self.awaits):
            return False
        if (index := self._known_index or self._index).late or index.entered < len(shapes):
            index.catch_up()
        minima, readings = expr.minima or self._minima(expr), self._readings[unclaimed]
        for name, amount, sized in minima or ():
            reading = readings.get(name) or self._read(name, unclaimed)
            if (most := reading.tree[1]) <= 0 < amount or reading.lacks(most, amount, sized):
                return False
        return minima is not None

    def _minima(self, expr: Expr) -> Sequence[Minimum] | None:
        """What a node must have at least; None where no node of this bucket can ever fit."""
        if expr.minima or self.artificial:
            return expr.minima
        if self._fixed is None:
            properties = self.new_shape.template.properties
            self._fixed = {n: properties[n] for n in OF_BUCKET if n in properties}
        return expr.minima_of(self._fixed)

    def needs(self, expr: Expr, unclaimed: bool = False) -> Needs:
        """What an expression takes at least, for `next_meeting`; right whatever happens later."""
        trees: list[Need] = []
        readings: list[tuple[Reading, float]] = []
        minima = self._minima(expr)
        for name, amount, sized in [(VACANT, math.inf, False)] if minima is None else minima:
            reading = self._readings[unclaimed].get(name) or self._read(name, unclaimed)
            needed = reading.needed(amount, sized)
            trees.append((reading.tree, needed))
            readings.append((reading, needed))
        others = (*readings[:-1], readings[-1][0]) if len(readings) > 1 else None
        return Needs(trees, readings, self._index.staircase(others) if others else None)

    def _read(self, name: str, unclaimed: bool) -> Reading:
        reading = Reading(name, self.new_shape.units.get(name), unclaimed)
        self._readings[unclaimed][name] = reading
        self._index.track(reading)
        return reading

    def append(self, shape: NodeShape | None, count: int = 1) -> None:
        """Add so many nodes that look alike, behind those that are there."""
        if count == 1:
            self.shapes.append(shape)
        else:
            self.shapes += [shape] * count
        changes = self.changes
        changes.plan = None
        changes.added.append(self)
        changes.shapes.append(shape)

    def extend(self, shapes: Sequence[NodeShape | None]) -> None:
        """Add nodes behind those that are there; each has a shape of its own."""
        changes, lo = self.changes, len(self.shapes)
        self.shapes.extend(shapes)
        changes.plan = None
        changes.added += [self] * len(shapes)
        changes.shapes += shapes
        if any(shape is not None and shape.unclaimed for shape in set(shapes)):
            self.awaits = True
            self.raised(lo)

    def fill(self, lo: int, hi: int, shape: NodeShape) -> None:
        """Work was placed on nodes: they look like this now, and have less room than before."""
        self.shapes[lo:hi] = [shape] * (hi - lo)
        self._index.late.update(range(lo, hi))

    def fill_one(self, position: int, shape: NodeShape) -> None:
        """Work was placed on one node: it looks like this now, and has less room than before."""
        self.shapes[position] = shape
        if self._known_index is not None:  # one that is made later looks at all nodes
            self._known_index.late.add(position)

    def reshape(self, changed: Mapping[int, NodeShape | None]) -> None:
        """Give nodes, by position and at least one, other shapes for a reason other than placing
        work: refusals of before no longer count."""
        for position, shape in changed.items():
            self.shapes[position] = shape
            if shape is not None and shape.unclaimed:
                self.awaits = True
        self._index.late.update(changed)
        self.changes.plan = None
        self.raised(min(changed))

    def raised(self, lo: int) -> None:
        """Nodes from a position on may take what they have refused."""
        self._index.forget_searches(lo)
        self.changes.reshaped.append(self)
        self.changes.lows.append(lo)

    def __repr__(self) -> str:
        return f"Candidate({self.name}, {len(self.shapes)} nodes)"


class Needs(NamedTuple):
    """What an expression takes at least of each resource, for one candidate: to look it up in the
    trees, and in one node. `searched`: how far that was looked up, where it is of several."""

    trees: list[Need]
    readings: list[tuple[Reading, float]]
    searched: Staircase | None

    def are_met_by(self, shape: NodeShape) -> bool:
        """Whether a node of a shape may have what is needed of every resource."""
        for reading, amount in self.readings:  # noqa: SIM110  a generator takes twice as long
            if reading(shape) < amount:
                return False
        return True
