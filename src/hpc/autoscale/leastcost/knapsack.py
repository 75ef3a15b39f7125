"""The pricing problem of column generation: the most valuable pattern of each bin at given dual
prices.

It is a bounded knapsack with several resources, solved by dynamic programming over what is free on
a node (Gilmore and Gomory, 1966). Amounts are counted in grains. A grain is the greatest amount
that divides all amounts of a resource where that gives a table of bearable size, and more
otherwise. Amounts of items are then rounded up, so that patterns fit, or (`below`) down, so that no
pattern is worth more than the values found. This module needs numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpc.autoscale.leastcost.problem import Bin, Problem, Usage, most, room_for
from hpc.autoscale.packing.amounts import Quantity

Values = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_CELLS = 50_000
_FINEST = 10**9  # the largest denominator of an amount


class _Chunk(NamedTuple):
    """`copies` of an item taken or left together: `grains` by dimension, and by how many cells of
    the table that is."""

    item: int
    copies: int
    grains: tuple[int, ...]
    cells: int


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
        """For values by item: the value of the best pattern, by bin."""
        found = np.zeros(len(self._problem.bins))
        for table in self._tables:
            found[table.bins] = table.fill(values)
        return found

    def patterns(self, wanted: Sequence[int]) -> Counts:
        """The patterns behind the values asked for last: a row for each bin, units by item."""
        found = np.zeros((len(wanted), len(self._problem.items)), dtype=np.int64)
        where = {number: row for row, number in enumerate(wanted)}
        for table in self._tables:
            mine = [row for row, number in enumerate(table.bins) if number in where]
            if mine:
                rows = [where[table.bins[row]] for row in mine]
                found[rows] = table.patterns(mine)
        return found


class _Table:
    """The dynamic programme for the bins of one profile. Its cells are all sizes that a node can
    have, so one pass over the items serves all the bins."""

    def __init__(self, problem: Problem, bins: Sequence[int], below: bool) -> None:
        self.bins = list(bins)
        self._items = problem.items
        of = [problem.bins[number] for number in bins]
        profile = problem.profiles[of[0].profile]
        open_usages = [
            (i, usage)
            for i, usages in enumerate(profile)
            for usage in usages
            if not usage.closes and usage.amounts
        ]
        self._grains = _grains([usage for _, usage in open_usages], of)
        self.exact = all(grain.exact for grain in self._grains.values())
        sizes = [[g.within(bin_.capacity[d]) for d, g in self._grains.items()] for bin_ in of]
        self._shape = tuple(max(column) + 1 for column in zip(*sizes, strict=True)) or (1,)
        self._strides = [math.prod(self._shape[k + 1 :]) for k in range(len(self._grains))]
        self._cells = np.array([self._cells_of(size) for size in sizes])
        self._chunks = self._chunked(open_usages, of, below)
        self._taken = np.zeros((len(self._chunks), *self._shape), dtype=bool)
        self._best = np.zeros(self._shape, dtype=np.float32)
        self._sum = np.empty(self._shape, dtype=np.float32)
        self._free = [
            i
            for i, usages in enumerate(profile)
            if any(not n.amounts and not n.closes for n in usages)
        ]
        # items that may have a node to themselves, and how many units of them go on one of each bin
        self._closing: list[tuple[int, Counts]] = []
        for i, item in enumerate(problem.items):
            ways = [usage for usage in profile[i] if usage.closes]
            if ways:
                copies = [min(item.units, most(ways, b.capacity, item.alone)) for b in of]
                self._closing.append((i, np.array(copies)))
        self._closed_by = np.full(len(of), -1)

    def _cells_of(self, grains: Sequence[int]) -> int:
        return sum(n * stride for n, stride in zip(grains, self._strides, strict=True))

    def _chunked(
        self, usages: Sequence[tuple[int, Usage]], of: Sequence[Bin], below: bool
    ) -> list[_Chunk]:
        """Every item as chunks of 1, 2, 4, … copies (binary splitting), of which any number up to
        what can be wanted can be made."""
        found = []
        for i, usage in usages:
            amounts = dict(usage.amounts)
            grains = [g.of(amounts.get(d, 0), below) for d, g in self._grains.items()]
            copies = min(self._items[i].units, max(room_for(usage, b.capacity) for b in of))
            sizes = zip(grains, self._shape, strict=True)
            fitting = min((size - 1) // n for n, size in sizes if n) if any(grains) else copies
            left, size = min(copies, fitting), 1
            while left > 0:
                size = min(size, left)
                together = tuple(n * size for n in grains)
                found.append(_Chunk(i, size, together, self._cells_of(together)))
                left, size = left - size, size * 2
        return found

    def fill(self, values: Values) -> Values:
        best, spare = self._best, self._sum
        best.fill(0)
        for chunk, taken in zip(self._chunks, self._taken, strict=True):
            value = float(values[chunk.item]) * chunk.copies
            above = tuple(slice(n, None) for n in chunk.grains)
            below = tuple(slice(None, -n or None) for n in chunk.grains)
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

    def patterns(self, rows: Sequence[int]) -> Counts:
        cells = self._cells[list(rows)].copy()
        found = np.zeros((len(cells), len(self._items)), dtype=np.int64)
        for chunk, cells_taken in reversed(list(zip(self._chunks, self._taken, strict=True))):
            taken = cells_taken.reshape(-1)[cells]
            if taken.any():
                found[:, chunk.item] += taken * chunk.copies
                cells -= taken * chunk.cells
        for i in self._free:
            found[:, i] += self._items[i].units
        closed_by = self._closed_by[list(rows)]
        for i, copies in self._closing:
            mine = closed_by == i
            found[mine] = 0
            found[mine, i] = copies[list(rows)][mine]
        return found


class _Grain(NamedTuple):
    """How one resource is counted. `exact`: all amounts are multiples of `size`. A capacity that is
    a little short of a whole grain counts as whole, as in the engine."""

    size: Fraction
    exact: bool

    def within(self, capacity: Quantity) -> int:
        """Grains that go into a capacity."""
        return math.floor(Fraction(capacity) * (1 + Fraction(1, 10**9)) / self.size)

    def of(self, amount: Quantity, below: bool) -> int:
        """Grains that an amount takes."""
        grains = Fraction(amount) / self.size
        nearest = round(grains)
        if abs(grains - nearest) * 10**9 <= grains:
            return nearest
        return math.floor(grains) if below else math.ceil(grains)


def _grains(usages: Sequence[Usage], bins: Sequence[Bin]) -> dict[int, _Grain]:
    """By dimension that any of the items takes; the finest of them last, as rows of a table are
    quickest."""
    amounts: dict[int, set[Quantity]] = {}
    for usage in usages:
        for d, amount in usage.amounts:
            amounts.setdefault(d, set()).add(amount)
    largest = {d: Fraction(max(bin_.capacity[d] for bin_ in bins)) for d in amounts}
    grains = {d: _Grain(_divisor(each), True) for d, each in amounts.items()}
    while math.prod(int(largest[d] / grain.size) + 1 for d, grain in grains.items()) > MOST_CELLS:
        d = max(grains, key=lambda d: largest[d] / grains[d].size)
        grains[d] = _Grain(grains[d].size * Fraction(3, 2), False)
    return dict(sorted(grains.items(), key=lambda pair: largest[pair[0]] / pair[1].size))


def _divisor(amounts: set[Quantity]) -> Fraction:
    """The greatest amount of which all are multiples."""
    exact = [Fraction(amount).limit_denominator(_FINEST) for amount in amounts]
    parts = math.lcm(*(amount.denominator for amount in exact))
    return Fraction(math.gcd(*(int(amount * parts) for amount in exact)), parts) or Fraction(1)
