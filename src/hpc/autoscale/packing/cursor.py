"""What is remembered of the candidates for one expression, from one request to the next.

Thousands of requests with the same expression ask the same candidates. A `Cursor` remembers from
which node of each candidate on there may be room, how the expression fits the shapes it has met,
and how it fits a new node of each, so that nothing is asked again before something changes. It
reads candidates and never writes to them. Used by `planner` and `search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from hpc.autoscale.packing.candidate import Candidate, Journal, Needs
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.packing.plan import Step
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape

NEAR = 24
"""So many nodes are looked at one by one before the tree is asked: most often it is one of them."""

_NEAR_WHILE_NEW = 2
"""So many nodes are looked at one by one before the tree is asked, as long as few shapes are known
to refuse: to look at a shape for the first time takes longer than to ask the tree."""


class NewNodes(NamedTuple):
    """What a request needs of one candidate when new nodes are opened for it: how many `nodes` take
    all of it, and which `share` of a node one unit takes, of the resource of which it takes most.
    """

    nodes: int
    share: float


ByNeed = Callable[["Cursor", int, int], Sequence[int]]
"""The numbers of the candidates of a cursor in the order in which they are asked for new nodes, for
so many units with at most so many on one node (`Cursor.needed`)."""

_MOST_ORDERS = 1_000

Found = tuple[int, NodeShape, Fit]
"""A node that takes a unit: its position, what it looks like, and how the expression fits it."""


class Cursor:
    """Candidates in the order in which they are asked for an expression, and which of their nodes
    are worth asking. Candidates go by their numbers here.

    `journal`: what has happened to the candidates; read by `catch_up`. `by_need`: in which order
    new nodes are opened, where that depends on what is needed; `by_share`: nodes with room are
    looked at in the same order, for one unit. Cost of a request: what is in
    the journal since the last one, or the number of candidates where that is less, and the nodes
    that may still take it.
    """

    __slots__ = (
        "_after_one",
        "_alive",
        "_amounts",
        "_by_need",
        "_first",
        "_fits",
        "_full",
        "_journal",
        "_needs",
        "_new",
        "_openings",
        "_pin",
        "_read_added",
        "_read_reshaped",
        "_refused",
        "_where",
        "candidates",
        "expr",
        "monotone",
    )

    def __init__(
        self,
        expr: Expr,
        candidates: Sequence[Candidate],
        journal: Journal,
        by_need: ByNeed | None = None,
        by_share: bool = False,
    ) -> None:
        self.candidates = tuple(candidates)
        self._by_need = by_need
        self.expr = expr
        self._new: list[Fit | Reject | None] = [None] * len(self.candidates)
        # by units, and how many of them one node takes at most
        self._openings: dict[tuple[int, int], Sequence[int]] = {}
        if by_share and by_need is not None:
            order = self._by_need_of(by_need, 1, UNBOUNDED)
            self.candidates = tuple([self.candidates[index] for index in order])
            self._new = [self._new[index] for index in order]
            self._openings[1, UNBOUNDED] = range(len(order))
        self.monotone = expr.monotone
        # False where there is not enough of something; that is no reason to be told
        self._fits: dict[NodeShape | None, Fit | Reject | Literal[False]] = {}
        # what shapes look like when they are full, and after one unit
        self._full: dict[NodeShape, NodeShape] = {}
        self._after_one: dict[NodeShape | None, NodeShape] = {}
        # those that do not take a unit
        self._refused: set[NodeShape | None] = {None}
        self._journal = journal
        self._read_added, self._read_reshaped = len(journal.added), len(journal.reshaped)
        # by candidate: whether a node may have room, and the first that may; all before it have
        # refused, and refuse still
        self._alive = bytearray(len(self.candidates))
        self._first = [len(candidate.shapes) for candidate in self.candidates]
        for index, candidate in enumerate(self.candidates):
            if candidate.shapes and candidate.may_meet(expr):
                self._alive[index] = 1
                self._first[index] = 0
        self._needs: list[Needs | None] = [None] * len(self.candidates)
        self._where: dict[Candidate, int] | None = None
        # False: not looked at yet
        self._pin: tuple[str, tuple[str, ...]] | Literal[False] | None = False
        self._amounts: Sequence[tuple[str, int, bool]] | Literal[False] | None = False

    def catch_up(self) -> None:
        """Take into account what has happened to the candidates since the last time."""
        added, reshaped = self._journal.added, self._journal.reshaped
        if self._read_reshaped != len(reshaped):
            for candidate, lo in reshaped[self._read_reshaped :]:
                index = self._numbers().get(candidate)
                if index is not None:
                    self._first[index] = min(lo, self._first[index])
                    self._alive[index] = 1
            self._read_reshaped = len(reshaped)
        new = len(added) - self._read_added
        if not new:
            return
        where, alive = self._numbers(), self._alive
        for candidate in self.candidates if new > len(self.candidates) else set(added[-new:]):
            index = where.get(candidate, -1)
            if index >= 0 and not alive[index]:
                self._revive(index)
        self._read_added = len(added)

    def _numbers(self) -> dict[Candidate, int]:
        if self._where is None:
            self._where = {candidate: index for index, candidate in enumerate(self.candidates)}
        return self._where

    def _revive(self, index: int) -> None:
        """Ask a candidate again that had refused on all its nodes, if it has a new one that may
        fit. Most nodes are opened for another request, which fills them."""
        shapes, refused, first = self.candidates[index].shapes, self._refused, self._first[index]
        size = len(shapes)
        if self.monotone:
            while first < size:
                shape = shapes[first]
                if shape is not None and not shape.closed and shape not in refused:
                    break
                first += 1
            self._first[index] = first
        self._alive[index] = first < size

    def in_use(self) -> Iterator[tuple[int, Candidate]]:
        """The candidates that may have a node with room, each with its number."""
        index = self._alive.find(1)
        while index >= 0:
            yield index, self.candidates[index]
            index = self._alive.find(1, index + 1)

    def may_use(self, index: int) -> bool:
        """Whether a candidate may have a node with room."""
        return bool(self._alive[index])

    def fit(self, shape: NodeShape) -> Fit | Reject:
        """How the expression fits nodes of a shape; worked out once for each shape."""
        found = self._fits.get(shape)
        if not found:
            found = self._fits[shape] = shape.fit(self.expr)
        return found

    def after(self, shape: NodeShape, fit: Fit, times: int) -> NodeShape:
        """What a shape looks like once its fit was taken so many times."""
        if times != fit.count:
            if times > 1:
                return shape.after(fit, times)
            one = self._after_one.get(shape)
            if one is None:
                one = self._after_one[shape] = shape.after(fit, 1)
            return one
        found = self._full.get(shape)
        if found is None:
            found = self._full[shape] = shape.after(fit, times)
            if found not in self._fits and (found.closed or self._whole_amounts()):
                # an amount does not fit once more
                self._refused.add(found)
                self._fits[found] = False
        return found

    def slot(self) -> Step | None:
        """One unit on the first node that takes it, in the first candidate that has one, or on a
        new node; None where there is room for neither. Of a monotone expression only."""
        alive, known, refused = self._alive, self._after_one, self._refused
        if self._read_reshaped != len(self._journal.reshaped):
            self.catch_up()
        index = alive.find(1)
        if index and self._read_added != len(self._journal.added):
            # as long as the first candidate has room, nodes that were added to others do not matter
            self.catch_up()
            index = alive.find(1)
        while index >= 0:
            candidate, position = self.candidates[index], self._first[index]
            shape = candidate.shapes[position]
            if shape in refused or (shape not in known and self._one_more(shape) is None):
                position = self._next_slot(index, position)
                if position < 0:
                    self.catch_up()
                    index = alive.find(1, index + 1)
                    continue
                shape = candidate.shapes[position]
            if shape is not None:
                return Step(candidate, position, position + 1, 1, shape, known[shape], False)
        return self._new_slot()

    def _next_slot(self, index: int, position: int) -> int:
        """The first position of a candidate behind one that refuses that takes a unit.

        -1, and the candidate need not be asked again, when there is none.
        """
        shapes, known, refused = self.candidates[index].shapes, self._after_one, self._refused
        size, start = len(shapes), position + 1
        # most often it is one of the next few, and then the tree need not be brought up to date
        few = NEAR
        if len(refused) <= NEAR:
            few = _NEAR_WHILE_NEW
            start = self._next_with_room(index, start)
        while 0 <= start < size:
            near = min(size, start + few)
            for position in range(start, near):
                shape = shapes[position]
                if shape not in refused and (shape in known or self._one_more(shape) is not None):
                    self._first[index] = position
                    return position
            start = self._next_with_room(index, near)
        self.exhaust(index)
        return -1

    def _one_more(self, shape: NodeShape | None) -> NodeShape | None:
        """What a node looks like after one unit; None where none fits."""
        after: NodeShape | None = None
        if shape is not None:
            amounts, frame = self._whole_amounts(), shape.frame
            less = frame.less(shape, amounts) if amounts and frame is not None else False
            if less is not False:
                after = less
            elif isinstance(fit := self.fit(shape), Fit):
                after = shape.after(fit, 1)
        if shape is None or after is None:
            self._refused.add(shape)
            return None
        self._after_one[shape] = after
        return after

    def _whole_amounts(self) -> Sequence[tuple[str, int, bool]] | None:
        if self._amounts is False:
            self._amounts = self.expr.whole_amounts()
        return self._amounts

    def _new_slot(self) -> Step | None:
        """One unit on a new node of the first candidate that may have one."""
        for index in self.openings(1):
            candidate = self.candidates[index]
            if candidate.is_still_full:
                continue
            new = self.opening(index)
            if isinstance(new, Fit) and candidate.has_room_for(1):
                shape = candidate.new_shape
                after = self.after(shape, new, 1)
                size = len(candidate.shapes)
                return Step(candidate, size, size + 1, 1, shape, after, True)
        return None

    def exhaust(self, index: int) -> None:
        """No node of a candidate that is there now takes a unit."""
        self._alive[index] = 0
        self._first[index] = len(self.candidates[index].shapes)

    def find(self, index: int) -> tuple[Found | None, Reject | None]:
        """The first node of a candidate that fits, None when there is none; and why the first of
        those that had room before it did not fit.

        Nodes before it need not be asked again, if the expression is monotone.
        """
        if not self.monotone:
            return self.find_next(index, 0)
        if not self._alive[index]:
            return None, None
        found, why = self.find_next(index, self._first[index])
        if found is None:
            self.exhaust(index)
        else:
            self._first[index] = found[0]
        return found, why

    def find_next(self, index: int, start: int) -> tuple[Found | None, Reject | None]:
        """The first node of a candidate that fits from a position on, and the first refusal of
        those that had room before it; None for either when there is none."""
        if not self.monotone:
            return self._find_by_shape(index, start)
        shapes, fits = self.candidates[index].shapes, self._fits
        size = len(shapes)
        why: Reject | None = None
        while 0 <= start < size:
            near = min(size, start + NEAR)
            for position, fit in enumerate(map(fits.get, shapes[start:near]), start):
                if fit is None:
                    fit = self._meet(index, shapes[position])
                if fit is not False:
                    shape = shapes[position]
                    if shape is not None and isinstance(fit, Fit):
                        return (position, shape, fit), why
                    if isinstance(fit, Reject):
                        why = why or fit
            start = self._next_with_room(index, near)
        return None, why

    def _find_by_shape(self, index: int, start: int) -> tuple[Found | None, Reject | None]:
        """What `find_next` answers for an expression that is not monotone: every shape that nodes
        from the position on have is asked."""
        found: Found | None = None
        why: tuple[int, Reject] | None = None
        for shape, position in self.candidates[index].first_of_each(start):
            fit = self._fits.get(shape)
            if fit is None:
                fit = self._meet(index, shape)
            if shape is not None and isinstance(fit, Fit):
                if found is None or position < found[0]:
                    found = position, shape, fit
            elif isinstance(fit, Reject) and (why is None or position < why[0]):
                why = position, fit
        if why is None or (found is not None and found[0] < why[0]):
            return found, None
        return found, why[1]

    def _meet(self, index: int, shape: NodeShape | None) -> Fit | Reject | Literal[False]:
        """How the expression fits the shape of a node of a candidate; False where it has not the
        room."""
        if shape in self._fits:
            return self._fits[shape]
        if shape is None or not self._needs_of(index).are_met_by(shape):
            self._refused.add(shape)
            self._fits[shape] = False
            return False
        fit = self.fit(shape)
        if isinstance(fit, Reject):
            self._refused.add(shape)
        return fit

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
            needs = self._needs[index] = self.candidates[index].needs(self.expr)
        return needs

    def opening(self, index: int) -> Fit | Reject | None:
        """How the expression fits a new node of a candidate; None where none can be made."""
        found = self._new[index]
        if found is None:
            found = self._new[index] = self.candidates[index].opening(self.expr)
        return found

    @property
    def orders_by_need(self) -> bool:
        """Whether it depends on how much is wanted where new nodes are opened first."""
        return self._by_need is not None

    def openings(self, units: int, per_node: int = UNBOUNDED) -> Sequence[int]:
        """The candidates in the order in which they are asked for new nodes for so many units."""
        if self._by_need is None:
            return range(len(self.candidates))
        found = self._openings.get((units, per_node))
        if found is None:
            if len(self._openings) >= _MOST_ORDERS:
                self._openings.clear()
            found = self._by_need_of(self._by_need, units, per_node)
            self._openings[units, per_node] = found
        return found

    def needed(self, index: int, units: int, per_node: int) -> NewNodes | None:
        """What so many units need of a candidate, where new nodes of it take all; None where it can
        have none."""
        fit = self.opening(index)
        if not isinstance(fit, Fit):
            return None
        each = min(fit.count, per_node)
        share = _share(fit, self.candidates[index].new_shape, min(each, units), per_node)
        return NewNodes(-(-units // each), share)

    def _by_need_of(self, by_need: ByNeed, units: int, per_node: int) -> Sequence[int]:
        found = by_need(self, units, per_node)
        if self.expr.weighs:
            shapes = [self.candidates[index].bucket_shape for index in found]
            count = len(found)
            weights = [self.expr.weigh(shape, float(count - i)) for i, shape in enumerate(shapes)]
            by_weight = sorted(range(count), key=weights.__getitem__, reverse=True)
            found = [found[place] for place in by_weight]
        return found


def _share(fit: Fit, shape: NodeShape, each: int, per_node: int) -> float:
    """Which part of a new node one unit takes, where `each` go on one; of a node that then takes
    nothing else, all is divided among them."""
    if fit.closes or each == per_node:
        return 1 / each
    found = 0.0
    for name, amount in fit.take:
        whole = shape.free[name]
        if isinstance(whole, (int, float)) and whole > 0:
            share = amount / whole
            if share > found:
                found = share
    return found


def pinned_resource(expr: Expr) -> tuple[str, tuple[str, ...]] | None:
    """The first resource that must be one of some texts, and those; None where there is none."""
    for condition in expr.conditions():
        found = condition.one_of
        if found is not None and not found.wild and found.name[:5] != "node.":
            return found.name, found.texts
    return None
