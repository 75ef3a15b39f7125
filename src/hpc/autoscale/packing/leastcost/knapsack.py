"""The most valuable load of a node, for all bins at once, by dynamic programming over what is free.

Amounts are counted in steps: the greatest that divides all of them where that gives a table of
bearable size, and a coarser one otherwise. With a coarser step `below` says how amounts are
rounded: up for loads that fit (the default), or down for values that no load exceeds. Bins that
share a profile share a table: its cells are all sizes that a node can have. Needs numpy, which is
imported when a table is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.leastcost.problem import Bin, Need, Problem, most, room_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Counts = NDArray[np.int64]

MOST_CELLS = 50_000
_FINEST = 10**9  # parts of 1 that an amount is told apart by
ROUNDING = 4e-6
"""Relative error of a value, which is summed up in single precision."""


class _Chunk(NamedTuple):
    """`copies` of an item taken or left together, in steps by dimension."""

    item: int
    copies: int
    steps: tuple[int, ...]


class Knapsacks:
    """Tables for all profiles of a problem. `exact`: no amount had to be rounded."""

    def __init__(self, problem: Problem, below: bool = False) -> None:
        self._problem = problem
        numbers: dict[int, list[int]] = {}
        for number, bin_ in enumerate(problem.bins):
            numbers.setdefault(bin_.profile, []).append(number)
        self._tables = [_Table(problem, bins, below) for bins in numbers.values()]
        self.exact = all(table.exact for table in self._tables)

    def fill(self, values: Values) -> Values:
        """For values by item: the value of the best load, by bin."""
        import numpy as np

        found = np.zeros(len(self._problem.bins))
        for table in self._tables:
            found[table.bins] = table.fill(values)
        return found

    def loads(self, wanted: Sequence[int]) -> Counts:
        """The loads behind the values that were asked last: a row for each bin, units by item."""
        import numpy as np

        found = np.zeros((len(wanted), len(self._problem.items)), dtype=np.int64)
        where = {number: row for row, number in enumerate(wanted)}
        for table in self._tables:
            mine = [row for row, number in enumerate(table.bins) if number in where]
            if mine:
                rows = [where[table.bins[row]] for row in mine]
                found[rows] = table.loads(mine)
        return found


class _Table:
    """The bins of one profile."""

    def __init__(self, problem: Problem, bins: Sequence[int], below: bool) -> None:
        import numpy as np

        self.bins = list(bins)
        self._items = problem.items
        of = [problem.bins[number] for number in bins]
        profile = problem.profiles[of[0].profile]
        open_needs = [
            (i, need)
            for i, needs in enumerate(profile)
            for need in needs
            if not need.closes and need.amounts
        ]
        self._steps = _steps([need for _, need in open_needs], of)
        self.exact = all(step.exact for step in self._steps.values())
        dimensions = list(self._steps)
        sizes = [[self._steps[d].within(bin_.capacity[d]) for d in dimensions] for bin_ in of]
        self._shape = tuple(max(column) + 1 for column in zip(*sizes, strict=True)) or (1,)
        strides = [math.prod(self._shape[k + 1 :]) for k in range(len(self._shape))]
        self._cells = np.array(
            [sum(n * stride for n, stride in zip(size, strides, strict=True)) for size in sizes]
            if dimensions
            else [0] * len(of)
        )
        self._chunks = list(self._chunked(open_needs, of, dimensions, below))
        self._offsets = [
            sum(n * stride for n, stride in zip(chunk.steps, strides, strict=True))
            for chunk in self._chunks
        ]
        self._taken = np.zeros((len(self._chunks), *self._shape), dtype=bool)
        self._best = np.zeros(self._shape, dtype=np.float32)
        self._sum = np.empty(self._shape, dtype=np.float32)
        self._free = [
            i
            for i, needs in enumerate(profile)
            if any(not n.amounts and not n.closes for n in needs)
        ]
        self._closing = self._closing_copies(profile, of)
        self._closed_by = np.full(len(of), -1)

    def _closing_copies(
        self, profile: Sequence[Sequence[Need]], of: Sequence[Bin]
    ) -> list[tuple[int, Counts]]:
        """The items that may have a node to themselves, and how many units of them go on one of
        each bin."""
        import numpy as np

        found = []
        for i, needs in enumerate(profile):
            closing = [need for need in needs if need.closes]
            if closing:
                item = self._items[i]
                copies = [min(item.units, most(closing, b.capacity, item.alone)) for b in of]
                found.append((i, np.array(copies)))
        return found

    def _chunked(
        self,
        needs: Sequence[tuple[int, Need]],
        of: Sequence[Bin],
        dimensions: Sequence[int],
        below: bool,
    ) -> list[_Chunk]:
        """Every item as chunks of 1, 2, 4, … copies, of which any number up to what can be wanted
        can be made."""
        found = []
        for i, need in needs:
            amounts = dict(need.amounts)
            steps = tuple(
                self._steps[d].of(amounts[d], below) if d in amounts else 0 for d in dimensions
            )
            copies = min(self._items[i].units, max(room_for(need, b.capacity) for b in of))
            sizes = zip(steps, self._shape, strict=True)
            fitting = min((size - 1) // n for n, size in sizes if n) if any(steps) else copies
            left, size = min(copies, fitting), 1
            while left > 0:
                size = min(size, left)
                found.append(_Chunk(i, size, tuple(n * size for n in steps)))
                left, size = left - size, size * 2
        return found

    def fill(self, values: Values) -> Values:
        import numpy as np

        best, spare = self._best, self._sum
        best.fill(0)
        for chunk, taken in zip(self._chunks, self._taken, strict=True):
            value = float(values[chunk.item]) * chunk.copies
            above = tuple(slice(n, None) for n in chunk.steps)
            below = tuple(slice(None, -n or None) for n in chunk.steps)
            target, room = best[above], spare[above]
            np.add(best[below], np.float32(value), out=room)
            np.greater(room, target, out=taken[above])
            np.maximum(target, room, out=target)
        found: Values = best.reshape(-1)[self._cells].astype(np.float64)
        for i in self._free:
            found += max(0.0, values[i]) * self._items[i].units
        self._closed_by.fill(-1)
        for i, copies in self._closing:
            alone = values[i] * copies
            self._closed_by[alone > found] = i
            found = np.maximum(found, alone)
        return found

    def loads(self, rows: Sequence[int]) -> Counts:
        import numpy as np

        cells = self._cells[list(rows)].copy()
        found = np.zeros((len(cells), len(self._items)), dtype=np.int64)
        for index in range(len(self._chunks) - 1, -1, -1):
            chunk = self._chunks[index]
            taken = self._taken[index].reshape(-1)[cells]
            if taken.any():
                found[:, chunk.item] += taken * chunk.copies
                cells -= taken * self._offsets[index]
        for i in self._free:
            found[:, i] += self._items[i].units
        closed_by = self._closed_by[list(rows)]
        for i, copies in self._closing:
            mine = closed_by == i
            found[mine] = 0
            found[mine, i] = copies[list(rows)][mine]
        return found


class _Step:
    """How one resource is counted. A capacity a little short of a whole step is taken for whole, as
    the engine does."""

    def __init__(self, size: Fraction, exact: bool) -> None:
        self.size = size
        self.exact = exact

    def within(self, capacity: Quantity) -> int:
        """Steps that go into a capacity."""
        return math.floor(Fraction(capacity) * (1 + Fraction(1, 10**9)) / self.size)

    def of(self, amount: Quantity, below: bool) -> int:
        """Steps that an amount takes."""
        steps = Fraction(amount) / self.size
        nearest = round(steps)
        if abs(steps - nearest) * 10**9 <= steps:
            return nearest
        return math.floor(steps) if below else math.ceil(steps)


def _steps(needs: Sequence[Need], bins: Sequence[Bin]) -> dict[int, _Step]:
    """By dimension that any of the items takes; the finest of them last, as rows of a table are
    quickest."""
    amounts: dict[int, set[Quantity]] = {}
    for need in needs:
        for d, amount in need.amounts:
            amounts.setdefault(d, set()).add(amount)
    largest = {d: Fraction(max(bin_.capacity[d] for bin_ in bins)) for d in amounts}
    steps = {d: _Step(_divisor(each), True) for d, each in amounts.items()}
    while math.prod(int(largest[d] / step.size) + 1 for d, step in steps.items()) > MOST_CELLS:
        d = max(steps, key=lambda d: largest[d] / steps[d].size)
        steps[d] = _Step(steps[d].size * Fraction(3, 2), False)
    return dict(sorted(steps.items(), key=lambda pair: largest[pair[0]] / pair[1].size))


def _divisor(amounts: set[Quantity]) -> Fraction:
    """The greatest amount of which all are multiples."""
    found = Fraction(0)
    for amount in amounts:
        exact = Fraction(amount).limit_denominator(_FINEST)
        numerator = math.gcd(
            found.numerator * exact.denominator, exact.numerator * found.denominator
        )
        found = Fraction(numerator, found.denominator * exact.denominator)
    return found or Fraction(1)


__all__: list[Any] = ["MOST_CELLS", "ROUNDING", "Knapsacks"]
