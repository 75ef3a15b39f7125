"""What is known in advance about the candidates that one expression is to be placed on.

Thousands of demands with the same expression ask the same candidates. A cursor remembers from which node on each candidate may
have room for it, how it fits the shapes it has met, and how it fits a new node of each candidate, so that nothing is asked
again before something changes. Used by `strategy`; `Direct` is the cursor that `Planner` keeps for each expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from hpc.autoscale.packing.candidate import Candidate, Journal, Needs
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.packing.pins import pinned_resource
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape

NEAR = 24
"""So many nodes are looked at one by one before the tree is asked: most often it is one of the next few."""


ByNeed = Callable[[Sequence[Candidate], Sequence[int]], Sequence[int]]
"""The positions of some candidates in the order in which they are asked for new nodes, by how many a demand needs of each."""

_MOST_ORDERS = 1_000


class Cursor:
    """Candidates in the order in which they are asked for an expression, and which of their nodes are worth asking.

    `journal`: the nodes that are new or have more room; read by `catch_up`. `may_meet` false: no node that is there has the
    room. `by_need`: in which order new nodes are opened, where that depends on how many are needed. Cost of a demand:
    what is in the journal since the last one, or the number of candidates where that is less, and the nodes that may still
    take it.
    """

    __slots__ = (
        "_alive",
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
        may_meet: bool = True,
        by_need: ByNeed | None = None,
    ) -> None:
        self.candidates = tuple(candidates)
        self._by_need = by_need
        # by units, and how many of them one node takes at most
        self._openings: dict[tuple[int, int], Sequence[int]] = {}
        self.monotone = expr.monotone
        self.expr = expr
        # False where there is not enough of something; that is no reason to be told
        self._fits: dict[NodeShape | None, Fit | Reject | Literal[False]] = {}
        # what shapes look like when they are full
        self._full: dict[NodeShape, NodeShape] = {}
        # those that do not take a slot
        self._refused: set[NodeShape | None] = {None}
        self._journal = journal
        self._read_added, self._read_reshaped = len(journal.added), len(journal.reshaped)
        # by candidate: whether a node may have room, and the first that may; all before it have refused, and refuse still
        self._alive = bytearray(len(self.candidates))
        self._first = [len(candidate.shapes) for candidate in self.candidates]
        for index, candidate in enumerate(self.candidates if may_meet else ()):
            if candidate.may_meet(expr):
                self._alive[index] = 1
                self._first[index] = 0
        self._new: list[Fit | Reject | None] = [None] * len(self.candidates)
        self._needs: list[Needs | None] = [None] * len(self.candidates)
        self._where: dict[Candidate, int] | None = None
        # False: not looked at yet
        self._pin: tuple[str, tuple[str, ...]] | Literal[False] | None = False

    def catch_up(self) -> None:
        """Take into limit what has happened to the candidates since the last time."""
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
        """Ask a candidate again that had refused on all its nodes, if it has a new one that may fit. Most nodes are opened for
        somebody else, who fills them."""
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
        """The candidates that may have a node with room, each with its number here."""
        index = self._alive.find(1)
        while index >= 0:
            yield index, self.candidates[index]
            index = self._alive.find(1, index + 1)

    def may_use(self, index: int) -> bool:
        """Whether a candidate may have a node with room."""
        return bool(self._alive[index])

    def fit(self, shape: NodeShape) -> Fit | Reject:
        """How the expression fits a shape."""
        found = self._fits.get(shape)
        if not found:
            found = self._fits[shape] = shape.fit(self.expr)
        return found

    def after(self, shape: NodeShape, fit: Fit, times: int) -> NodeShape:
        """What a shape looks like once its fit was taken so many times."""
        if times != fit.count:
            return shape.after(fit, times)
        found = self._full.get(shape)
        if found is None:
            found = self._full[shape] = shape.after(fit, times)
        return found

    def find(self, index: int) -> tuple[int, Reject | None]:
        """The position of the first node of a candidate that fits, -1 when there is none; and why the first of those that
        had room before it did not. Nodes before it need not be asked again, if the expression is monotone.
        """
        if not self.monotone:
            return self.find_next(index, 0)
        if not self._alive[index]:
            return -1, None
        position, why = self.find_next(index, self._first[index])
        self._alive[index] = position >= 0
        self._first[index] = position if position >= 0 else len(self.candidates[index].shapes)
        return position, why

    def find_next(self, index: int, start: int) -> tuple[int, Reject | None]:
        """`find`, from a position on."""
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
                    if isinstance(fit, Fit):
                        return position, why
                    why = why or fit
            start = self._next_with_room(index, near)
        return -1, why

    def _find_by_shape(self, index: int, start: int) -> tuple[int, Reject | None]:
        """`find_next` where nothing is known of positions."""
        found = refused = len(self.candidates[index].shapes)
        why: Reject | None = None
        for shape, position in self.candidates[index].first_of_each(start):
            fit = self._fits.get(shape)
            if fit is None:
                fit = self._meet(index, shape)
            if isinstance(fit, Fit):
                found = min(found, position)
            elif fit is not False and position < refused:
                refused, why = position, fit
        if found == len(self.candidates[index].shapes):
            return -1, why
        return found, why if refused < found else None

    def _meet(self, index: int, shape: NodeShape | None) -> Fit | Reject | Literal[False]:
        """How the expression fits the shape of a node of a candidate; False where it has not the room."""
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
        """The first position of a candidate from `start` on that may have room; -1 when none has."""
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
        """The candidates in the order in which they are asked for new nodes for so many units; those that can have none,
        and so cost nothing, are first."""
        if self._by_need is None:
            return range(len(self.candidates))
        found = self._openings.get((units, per_node))
        if found is None:
            if len(self._openings) >= _MOST_ORDERS:
                self._openings.clear()
            found = self._by_need_of(self._by_need, units, per_node)
            self._openings[units, per_node] = found
        return found

    def _by_need_of(self, by_need: ByNeed, units: int, per_node: int) -> Sequence[int]:
        indices, needed, others = [], [], []
        for index in range(len(self.candidates)):
            fit = self.opening(index)
            if isinstance(fit, Fit):
                indices.append(index)
                needed.append(-(-units // min(fit.count, per_node)))
            else:
                others.append(index)
        order = by_need([self.candidates[index] for index in indices], needed)
        found = [indices[place] for place in order]
        if self.expr.weighs:
            shapes = [self.candidates[index].bucket_shape for index in found]
            count = len(found)
            weights = [self.expr.weigh(shape, float(count - i)) for i, shape in enumerate(shapes)]
            by_weight = sorted(range(count), key=weights.__getitem__, reverse=True)
            found = [found[place] for place in by_weight]
        return [*others, *found]
