"""A demand placed at once, without a plan: most are of slots that one node or some nodes take, and nobody asks why not.

What comes of it is what `strategy.plan` and a commit come to; where that would be more than is done here, the answer says so.
Called by the node manager, which makes it true on its handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hpc.autoscale.packing.candidate import Candidate, Journal
from hpc.autoscale.packing.compound import Amounts, whole_amounts
from hpc.autoscale.packing.cursor import NEAR, ByNeed, Cursor
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.shape import NodeShape

_NEAR_WHILE_NEW = 2
"""As `NEAR`, as long as most shapes are new."""

Spot = tuple[Candidate, int, NodeShape, NodeShape]
"""One node that takes some or all of a demand: its candidate and position, and what it looks like before and after."""

Run = tuple[Candidate, int, int]
"""Nodes from a position of a candidate to before another."""


class Direct(Cursor):
    """A cursor that places what it is asked for. A plan that was asked for before is void then."""

    __slots__ = ("_after_one", "_amounts")

    def __init__(
        self,
        expr: Expr,
        candidates: Sequence[Candidate],
        journal: Journal,
        may_meet: bool = True,
        by_need: ByNeed | None = None,
    ) -> None:
        super().__init__(expr, candidates, journal, may_meet, by_need)
        # what shapes look like after one slot
        self._after_one: dict[NodeShape | None, NodeShape] = {}
        # False: not looked at yet
        self._amounts: Amounts | Literal[False] | None = False

    def fill_one(self, units: int) -> Spot | Literal[False] | None:
        """Place all `units` slots on the first node that fits, in the first candidate that has one, and say where. False: no
        node that is there fits. None: ask `strategy.plan`.
        """
        self._journal.is_planned = False
        if units == 1 and self.monotone:
            return self._fill_slot()
        self.catch_up()
        index = self._alive.find(1)
        while index >= 0:
            position, _ = self.find(index)
            candidate = self.candidates[index]
            shape = candidate.shapes[position] if position >= 0 else None
            if shape is None:
                index = self._alive.find(1, index + 1)
                continue
            fit = self.fit(shape)
            if not isinstance(fit, Fit) or fit.count < units or shape.dormant:
                return None
            after = shape.after(fit, units)
            candidate.fill_one(position, after)
            return candidate, position, shape, after
        return False

    def _fill_slot(self) -> Spot | Literal[False] | None:
        """`fill_one` for one slot of a monotone expression, as most jobs are."""
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
            if shape is None or shape.dormant:
                return None
            after = known[shape]
            candidate.fill_one(position, after)
            return candidate, position, shape, after
        return False

    def _next_slot(self, index: int, position: int) -> int:
        """The first position of a candidate behind one that refuses that takes a slot; -1, and the candidate need not be asked
        again, when there is none."""
        shapes, known, refused = self.candidates[index].shapes, self._after_one, self._refused
        size, start = len(shapes), position + 1
        # most often it is one of the next few, and then the tree need not be brought up to date
        few = NEAR if len(refused) > NEAR else _NEAR_WHILE_NEW
        while 0 <= start < size:
            near = min(size, start + few)
            for position in range(start, near):
                shape = shapes[position]
                if shape not in refused and (shape in known or self._one_more(shape) is not None):
                    self._first[index] = position
                    return position
            start = self._next_with_room(index, near)
        self._alive[index] = 0
        self._first[index] = size
        return -1

    def _one_more(self, shape: NodeShape | None) -> NodeShape | None:
        """What a node looks like after one slot; None where none fits."""
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

    def _whole_amounts(self) -> Amounts | None:
        if self._amounts is False:
            self._amounts = whole_amounts(self.expr)
        return self._amounts

    def _stays(self, index: int, shape: NodeShape | None) -> bool:
        """Whether a node of a candidate that has taken all that fitted may take something the next time."""
        if shape not in self._fits and shape and (shape.closed or self._whole_amounts()):
            # an amount does not fit once more
            self._refused.add(shape)
            self._fits[shape] = False
        return isinstance(self._meet(index, shape), Fit)

    def open_one(self, units: int) -> Spot | Literal[False] | None:
        """Place all `units` slots on a new node, where no node that is there fits, and say where. False: not one slot fits
        on a new node of any candidate. None: a new node would take some of them only."""
        self._journal.is_planned = False
        for index in self.openings(units):
            candidate = self.candidates[index]
            if candidate.is_still_full:
                continue
            new = self.opening(index)
            if not isinstance(new, Fit):
                continue
            if new.count < units:
                if candidate.has_room_for(1):
                    return None
                continue
            shape = candidate.new_shape
            after = self._after_one.get(shape) if units == 1 else None
            if after is None:
                after = shape.after(new, units)
                if units == 1:
                    self._after_one[shape] = after
            if candidate.open_one(after):
                return candidate, len(candidate.shapes) - 1, shape, after
        return False

    def fill_some(self, units: int) -> tuple[list[Spot], int]:
        """Place up to `units` slots of a monotone expression on nodes that are there: where, and how many are left."""
        self._journal.is_planned = False
        self.catch_up()
        spots: list[Spot] = []
        index = self._alive.find(1)
        while index >= 0 and units:
            candidate = self.candidates[index]
            position, _ = self.find(index)
            # the first node that may take something the next time
            first = -1
            while position >= 0:
                shape = candidate.shapes[position]
                fit = self._fits.get(shape)
                after = shape
                if (
                    shape is not None
                    and isinstance(fit, Fit)
                    and (not shape.dormant or candidate.charge_some(1))
                ):
                    times = min(fit.count, units)
                    after = self.after(shape, fit, times)
                    candidate.fill_one(position, after)
                    spots.append((candidate, position, shape, after))
                    units -= times
                if first < 0 and (not units or after is shape or self._stays(index, after)):
                    first = position
                if not units:
                    break
                position, _ = self.find_next(index, position + 1)
            self._alive[index] = first >= 0
            self._first[index] = first if first >= 0 else len(candidate.shapes)
            index = self._alive.find(1, index + 1)
        return spots, units

    def open_some(self, units: int) -> tuple[list[Run], int]:
        """Place up to `units` slots on new nodes, as many as the limits allow, where no node that is there fits: where, and
        how many are left."""
        self._journal.is_planned = False
        runs: list[Run] = []
        for index in self.openings(units):
            if not units:
                break
            candidate = self.candidates[index]
            new = None if candidate.is_still_full else self.opening(index)
            if not isinstance(new, Fit):
                continue
            nodes = candidate.charge_some(-(-units // new.count))
            opened, units = self._opened(index, new, nodes, new.count, units)
            runs += opened
        return runs, units

    def open_whole(self, index: int, units: int, per_node: int) -> list[Run]:
        """Place all `units` slots on new nodes of one candidate, at most `per_node` on each: where. Nowhere, and nothing is done,
        where the limits have no room for so many."""
        self._journal.is_planned = False
        candidate, new = self.candidates[index], self.opening(index)
        each = min(new.count, per_node) if isinstance(new, Fit) else 0
        if not isinstance(new, Fit) or not candidate.charge_all(nodes := -(-units // each)):
            return []
        return self._opened(index, new, nodes, each, units)[0]

    def _opened(
        self, index: int, new: Fit, nodes: int, each: int, units: int
    ) -> tuple[list[Run], int]:
        """Add nodes that were charged for and take up to `each` of so many units: where, and how many are left."""
        candidate, runs = self.candidates[index], []
        full = min(nodes, units // each)
        rest = units - full * each if nodes > full else 0
        for count, times in ((full, each), (nodes - full, rest)):
            if count:
                size, after = len(candidate.shapes), self.after(candidate.new_shape, new, times)
                candidate.append(after, count)
                if times == new.count:
                    # it need not be asked when the candidate is next looked at
                    self._stays(index, after)
                runs.append((candidate, size, size + count))
        return runs, units - full * each - rest
