"""What is remembered of the candidates for one expression, from one request to the next.

Thousands of requests with the same expression ask the same candidates. A `Cursor` remembers from
which node of each candidate on there may be room, which of the shapes it has met take a unit, and
how the expression fits a new node of each, so that nothing is asked again before something changes.
It reads candidates and never writes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import Literal, NamedTuple

from hpc.autoscale.packing.candidate import Candidate, ChangeLog, Needs
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.packing.plan import Step
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import Frame, NodeShape
from hpc.autoscale.packing.shares import InTurn, NodeShare, in_turn

# so many nodes are looked at one by one before the tree is asked: most often it is one of them
_NEAR = 64
# at most so many shapes that were not met before: a first look takes longer than to ask the tree
_FEW = 8
_MOST_ORDERS = 1_000


class NewNodes(NamedTuple):
    """What a request needs of one candidate when new nodes are opened for it: how many `nodes` take
    all of it, and which `share` of a node one unit takes, of the resource of which it takes most.
    """

    nodes: int
    share: float


ByNeed = Callable[["Cursor", int, int], Sequence[int]]
"""The numbers of the candidates of a cursor in the order in which they are asked for new nodes, for
so many units with at most so many on one node (`Cursor.needed`)."""


Parts = Mapping[NodeShare | None, Sequence[int]]
"""The numbers of candidates by their share, None for those without; in each in their order."""

Found = tuple[int, NodeShape, Fit]
"""A node that takes a unit: its position, what it looks like, and how the expression fits it."""


class Cursor:
    """Candidates in the order in which they are asked for an expression, and which of their nodes
    are worth asking. Candidates go by their numbers here.

    `changes`: what has happened to the candidates; read by `catch_up`. `by_need`: in which order
    new nodes are opened, where that depends on what is needed; those with room are looked at as for
    one unit. `unclaimed`: unclaimed nodes alone are looked at, and no new ones opened. Cost of a
    request: what has changed since the last one, the candidates once where that may take it, and
    the nodes that may still take it.

    Unclaimed nodes stand for the new nodes that an earlier pass ordered: another cursor,
    `unclaimed`, looks at them, after all others and in the order for new ones.
    """

    def __init__(
        self,
        expr: Expr,
        candidates: Sequence[Candidate],
        changes: ChangeLog,
        by_need: ByNeed | None = None,
        may_share: bool = True,
        unclaimed: bool = False,
    ) -> None:
        self.expr = expr
        self.monotone = expr.monotone
        self.candidates = tuple(candidates)
        self._by_need = by_need
        self._is_unclaimed = unclaimed
        self._as_they_are = range(0 if unclaimed else len(self.candidates))
        # what a job itself prefers goes before what share each part is to have
        shares = dict.fromkeys(c.share for c in self.candidates if c.share) if may_share else ()
        self._shares = () if expr.weighs else tuple(shares)
        self.shares_out = bool(self._shares)
        # the last order by shares, and what it was made of
        self._turns: tuple[object, Sequence[int]] | None = None
        # the candidates of each share in their order, and that of which they are
        self._parts: tuple[Sequence[int], Parts] | None = None
        # how the expression fits a new node of each, once it was asked
        self._new: list[Fit | Reject | None] = [None] * len(self.candidates)
        # by units, and how many of them one node takes at most
        self._openings: dict[tuple[int, int], Sequence[int]] = {}
        if by_need is not None:
            order = self._by_need_of(by_need, 1, UNBOUNDED)
            self.candidates = tuple([self.candidates[index] for index in order])
            self._new = [self._new[index] for index in order]
            self._openings[1, UNBOUNDED] = range(len(order))
        self._changes = changes
        self._read_shapes, self._read_reshaped = len(changes.shapes), len(changes.reshaped)
        self._numbers: dict[Candidate, int] = {}
        # by candidate: whether a node may have room, and the first that may; of a monotone
        # expression all before it have refused, and refuse still
        self._alive, self.first = bytearray(), list[int]()
        for each in self.candidates:
            self._alive.append(may_meet := each.may_meet(expr, unclaimed))
            self.first.append(0 if may_meet else len(each.shapes))
        self._needs: list[Needs | None] = [None] * len(self.candidates)
        # shapes that take no unit, and those that do with what they look like after one, None where
        # that was not worked out yet
        self._refused: set[NodeShape | None] = {None}
        self._after_one: dict[NodeShape | None, NodeShape | None] = {}
        self._fits: dict[NodeShape, Fit | Reject] = {}
        # what shapes look like when they are full
        self._full: dict[NodeShape, NodeShape] = {}
        # as `Frame.places` has it
        self._places: dict[Frame | None, Sequence[tuple[int, int]] | Literal[False] | None] = {}
        # False: not looked at yet
        self._pin: tuple[str, tuple[str, ...]] | Literal[False] | None = False
        self.unclaimed: Cursor | None = None
        self._look_for_unclaimed([each for each in self.candidates if each.awaits])

    def _look_for_unclaimed(self, awaiting: Sequence[Candidate]) -> None:
        if self.unclaimed is not None:
            self.unclaimed.catch_up()
        elif awaiting and not self._is_unclaimed:
            order = (None, False, True)
            self.unclaimed = Cursor(self.expr, self.candidates, self._changes, *order)

    def _reshaped(self) -> tuple[int, frozenset[Candidate]]:
        """Candidates with nodes that were reshaped since the last time, and from where on."""
        changes, read = self._changes, self._read_reshaped
        self._read_reshaped = len(changes.reshaped)
        reshaped = frozenset(changes.reshaped[read:])
        self._look_for_unclaimed([each for each in reshaped if each.awaits])
        return min(changes.lows[read:]), reshaped

    def catch_up(self) -> None:
        """Take into account what has happened to the candidates since the last time."""
        changes, refused = self._changes, self._refused
        read, self._read_shapes = self._read_shapes, len(changes.shapes)
        # of many, each candidate is asked whether it has some of them
        fresh = changes.shapes[read:] if self._read_shapes - read <= _NEAR else None
        for shape in set(fresh) - refused if self.monotone and fresh and len(fresh) < _FEW else ():
            if shape is not None and shape not in self._after_one:
                self._meet(shape)
        is_old = self._read_reshaped == len(changes.reshaped)
        low, reshaped = (0, frozenset[Candidate]()) if is_old else self._reshaped()
        if self.monotone and not reshaped and fresh is not None and refused.issuperset(fresh):
            return
        self._numbers = self._numbers or {each: i for i, each in enumerate(self.candidates)}
        alive, first = self._alive, self.first
        added = self._numbers if fresh is None else changes.added[read:]
        for candidate in self._numbers.keys() & {*added, *reshaped}:
            index = self._numbers[candidate]
            start, size = first[index], len(candidate.shapes)
            if candidate in reshaped:
                start, alive[index] = min(low, start), 1
            elif alive[index] or start == size:
                continue
            elif self.monotone and size - start > _NEAR:
                start = self._next_with_room(index, start)
                alive[index] = start >= 0
            elif not (self.monotone and refused.issuperset(candidate.shapes[start:])):
                alive[index] = 1
            first[index] = start if alive[index] else size

    def in_use(self) -> Iterator[int]:
        """The candidates that may have a node with room that is not unclaimed, in order."""
        index = self._alive.find(1)
        while index >= 0:
            yield index
            index = self._alive.find(1, index + 1)

    def unclaimed_of(self, units: int, per_node: int) -> Sequence[int]:
        """The candidates that may have an unclaimed node with room, in the order for new ones."""
        if self.unclaimed is None or 1 not in (alive := self.unclaimed._alive):
            return ()
        return [index for index in self.openings(units, per_node) if alive[index]]

    def may_use(self, index: int) -> bool:
        """Whether a candidate may have a node with room."""
        return bool(self._alive[index] or (self.unclaimed and self.unclaimed.may_use(index)))

    # -- what nodes take

    def fit(self, shape: NodeShape) -> Fit | Reject:
        """How the expression fits nodes of a shape; worked out once for each shape."""
        found = self._fits.get(shape)
        if found is None:
            found = self._fits[shape] = shape.fit(self.expr)
        return found

    def _meet(self, shape: NodeShape, index: int = -1) -> bool:
        """Whether nodes of a candidate with a shape that was not met before take a unit."""
        frame = shape.frame
        if shape.unclaimed is not self._is_unclaimed:
            self._refused.add(shape)
            return False
        try:
            places = self._places[frame]
        except KeyError:
            amounts = self.expr.whole_amounts()
            places = False if frame is None or amounts is None else frame.places(amounts)
            self._places[frame] = places
        fits = places is not None
        if places:
            values = shape.values
            for place, amount in places:
                if values[place] < amount:  # type: ignore[operator]
                    fits = False
                    break
        elif fits:
            # that takes less time than to fit
            met = index < 0 or self._needs_of(index).are_met_by(shape)
            fits = met and isinstance(self.fit(shape), Fit)
        if fits:
            self._after_one[shape] = None
        else:
            self._refused.add(shape)
        return fits

    def after(self, shape: NodeShape, fit: Fit, times: int) -> NodeShape:
        """What a shape looks like once its fit was taken so many times."""
        if times == 1:
            return self._after_one.get(shape) or self._one_more(shape)
        if times != fit.count:
            return shape.after(fit, times)
        found = self._full.get(shape)
        if found is None:
            found = self._full[shape] = shape.after(fit, times)
            if found.closed or self.expr.whole_amounts():
                # an amount does not fit once more
                self._refused.add(found)
        return found

    def _one_more(self, shape: NodeShape) -> NodeShape:
        """What a shape that takes a unit looks like after one."""
        places = self._places.get(shape.frame)
        if shape.frame is not None and places:
            after = shape.frame.less(shape, places)
        else:
            fit = self.fit(shape)
            after = shape.after(fit, 1) if isinstance(fit, Fit) else shape
        self._after_one[shape] = after
        return after

    # -- nodes that are there

    def slot(self) -> Step | None:
        """One unit on the first node that takes it, in the first candidate that has one, or on a
        new node; None where there is room for neither. Of a monotone expression only."""
        alive, changes = self._alive, self._changes
        if self._read_reshaped != len(changes.reshaped):
            self.catch_up()
        index = alive.find(1) if 1 in alive else -1
        if index and self._read_shapes != (size := len(changes.shapes)):
            # as long as the first candidate has room, nodes that were added to others do not
            # matter, and most are filled by the request that they are opened for
            read = self._read_shapes
            if size - read > _NEAR or not self._refused.issuperset(changes.shapes[read:]):
                self.catch_up()
                index = alive.find(1)
            self._read_shapes = size
        while index >= 0:
            candidate, position = self.candidates[index], self.first[index]
            shape = candidate.shapes[position]
            after = self._after_one.get(shape)
            if shape is None or after is None:
                found = self._seek(index)
                if found is None:
                    self.catch_up()
                    index = alive.find(1, index + 1)
                    continue
                position, shape = found
                after = self._after_one.get(shape) or self._one_more(shape)
            return Step(candidate, position, position + 1, 1, shape, after, False)
        return self._slot_to_come()

    def _slot_to_come(self) -> Step | None:
        if self.unclaimed is not None and (step := self.unclaimed.slot()) is not None:
            return step
        as_they_are = self._by_need is None and not self.shares_out
        for index in self._as_they_are if as_they_are else self.openings(1):
            candidate = self.candidates[index]
            if candidate.has_room_for(1):
                fit = self._new[index] or self.opening(index)
                if isinstance(fit, Fit):
                    shape, size = candidate.new_shape, len(candidate.shapes)
                    after = self._after_one.get(shape) or self._one_more(shape)
                    return Step(candidate, size, size + 1, 1, shape, after, True)
        return None

    def find(self, index: int, start: int = -1) -> Found | None:
        """The first node of a candidate that takes a unit, from a position on; None when there is
        none. Without a position it is any node, and those before it are not asked again."""
        found = self._seek(index, start) if self.monotone else self._seek_shapes(index, start)
        if found is None or not isinstance(fit := self.fit(found[1]), Fit):
            return None
        return (*found, fit)

    def _seek(self, index: int, start: int = -1) -> tuple[int, NodeShape] | None:
        is_first = start < 0
        if is_first and not self._alive[index]:
            return None
        start = self.first[index] if is_first else start
        shapes, takes, refused = self.candidates[index].shapes, self._after_one, self._refused
        size = len(shapes)
        if self._needs[index] is None:
            start = self._next_with_room(index, start)
        while 0 <= start < size:
            near, left = start + _NEAR, _FEW
            for shape in filterfalse(refused.__contains__, shapes[start:near]):
                if shape is not None and (shape in takes or self._meet(shape, index)):
                    position = shapes.index(shape, start)
                    if is_first:
                        self.first[index] = position
                    return position, shape
                left -= 1
                if not left:
                    near = shapes.index(shape, start) + 1
                    break
            start = self._next_with_room(index, near) if near < size else -1
        if is_first:
            self._alive[index] = 0
            self.first[index] = size
        return None

    def _seek_shapes(self, index: int, start: int) -> tuple[int, NodeShape] | None:
        """`_seek` for an expression that is not monotone: every shape that nodes from the position
        on have is asked."""
        found: tuple[int, NodeShape] | None = None
        for shape, position in self.candidates[index].first_of_each(max(start, 0)):
            if shape is None or shape in self._refused or (found and position > found[0]):
                continue
            if shape in self._after_one or self._meet(shape, index):
                found = position, shape
        return found

    def _next_with_room(self, index: int, start: int) -> int:
        """The first position from `start` on of a node that may have room; -1 when none has."""
        candidate, needs = self.candidates[index], self._needs_of(index)
        if self._pin is False:
            self._pin = pinned_resource(self.expr)
        if self._pin is None:
            return candidate.next_meeting(needs, start)
        found = -1
        while found != start and start >= 0:
            found = candidate.first_with(*self._pin, start)
            start = candidate.next_meeting(needs, found) if found >= 0 else -1
        return start

    def _needs_of(self, index: int) -> Needs:
        needs = self._needs[index]
        if needs is None:
            needs = self.candidates[index].needs(self.expr, self._is_unclaimed)
            self._needs[index] = needs
        return needs

    def why_none(self, index: int, start: int) -> Reject:
        """Why no node of a candidate from a position on takes a unit: what the first of them says
        that has the room, or that none has it."""
        candidate = self.candidates[index]
        for shape in dict.fromkeys(candidate.shapes[start:]):
            asked = self.unclaimed or self if shape is not None and shape.unclaimed else self
            if shape is not None and asked._needs_of(index).are_met_by(shape):
                fit = self.fit(shape)
                if isinstance(fit, Reject):
                    return fit
        return Reject("NodesFull", len(candidate.shapes))

    # -- new nodes

    def opening(self, index: int) -> Fit | Reject | None:
        """How the expression fits a new node of a candidate; None where none can be made."""
        found = self._new[index]
        if found is None:
            found = self._new[index] = self.candidates[index].opening(self.expr)
        return found

    @property
    def orders_by_need(self) -> bool:
        """Whether it depends on how much is wanted where new nodes are opened first."""
        return self._by_need is not None or self.shares_out

    def openings(self, units: int, per_node: int = UNBOUNDED) -> Sequence[int]:
        """The candidates in the order in which they are asked for new nodes for so many units."""
        if not self.shares_out:
            return self._openings_alone(units, per_node)
        made_of = (units, per_node, *((s.used_nodes, s.is_first) for s in self._shares))
        if self._turns is None or self._turns[0] != made_of:
            self._turns = made_of, InTurn(self._shares, self.parts(units, per_node))
        return self._turns[1]

    def parts(self, units: int, per_node: int) -> Parts:
        """The order of `openings`, each share by itself."""
        order = self._openings_alone(units, per_node)
        if self._parts is None or self._parts[0] is not order:
            found: dict[NodeShare | None, list[int]] = {share: [] for share in self._shares}
            for index in order:
                found.setdefault(self.candidates[index].share, []).append(index)
            self._parts = order, found
        return self._parts[1]

    def shares_in_turn(self) -> list[NodeShare]:
        """All shares in the order in which they are asked for new nodes."""
        return list(in_turn(self._shares))

    def _openings_alone(self, units: int, per_node: int) -> Sequence[int]:
        """The order of `openings`, were there no shares."""
        if self._by_need is None:
            return self._as_they_are
        found = self._openings.get((units, per_node))
        if found is None:
            if len(self._openings) >= _MOST_ORDERS:
                self._openings.clear()
            found = self._by_need_of(self._by_need, units, per_node)
            self._openings[units, per_node] = found
        return found

    def needed(self, index: int, units: int, per_node: int) -> NewNodes | None:
        """What so many units need of new nodes of a candidate; None where it can have none."""
        fit = self.opening(index)
        if not isinstance(fit, Fit):
            return None
        each = min(fit.count, per_node)
        share = _share(fit, self.candidates[index].new_shape, min(each, units), per_node)
        return NewNodes(-(-units // each), share)

    def _by_need_of(self, by_need: ByNeed, units: int, per_node: int) -> Sequence[int]:
        found = by_need(self, units, per_node)
        if self.expr.weighs:
            those, count, weigh = [self.candidates[i] for i in found], len(found), self.expr.weigh
            weighed = [weigh(c.bucket_shape, float(count - i)) for i, c in enumerate(those)]
            weights = [(c.artificial, weight) for c, weight in zip(those, weighed, strict=True)]
            by_weight = sorted(range(count), key=weights.__getitem__, reverse=True)
            found = [found[place] for place in by_weight]
        return found


def _share(fit: Fit, shape: NodeShape, each: int, per_node: int) -> float:
    """Which part of a new node one unit takes, where `each` go on one; of a node that then takes
    nothing else, all is divided among them."""
    if fit.closes or each == per_node:
        return 1 / each
    takes = [(amount, shape.free[name]) for name, amount in fit.take]
    return max([n / w for n, w in takes if isinstance(w, (int, float)) and w > 0], default=0.0)


def pinned_resource(expr: Expr) -> tuple[str, tuple[str, ...]] | None:
    """The first resource that must be one of some texts, and those; None where there is none."""
    for condition in expr.conditions():
        found = condition.one_of
        if found is not None and not found.wild and found.name[:5] != "node.":
            return found.name, found.texts
    return None
