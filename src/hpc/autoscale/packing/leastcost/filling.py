"""Thousands of different items: one node after another is filled to the brim with the items
themselves.

What the amounts are worth comes from the linear programme over amounts alone, which says what a
unit of each resource costs at the least. The dearest item that is left goes on a node first. Then
items are added that leave the least of the node unused, looking one item ahead in a table of the
dearest item that fits what would then be free. Of items that fill a node equally well, middling
ones are taken: small ones are what makes later nodes come out full. Needs numpy, which is imported
when the filling begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpc.autoscale.packing.leastcost.bound import amounts_master, charge_of
from hpc.autoscale.packing.leastcost.merging import sizes_of
from hpc.autoscale.packing.leastcost.plan import Lot, Rooms
from hpc.autoscale.packing.leastcost.problem import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_CELLS = 4_096
"""Of the table, in all dimensions together."""
_AHEAD = 150
"""So many items are looked at for a place, evenly spread over those that fit."""
_MIDDLING = 0.02
"""What an item's worth counts beside how full the node gets."""
_FULL_ENOUGH = 0.995
_NEAR_BEST = 0.99
"""Bins whose nodes could be worth so much for their price are tried."""
_MOST_TRIES = 3
_LEFT_TO_OTHERS = 0.03
"""This part of the units is too little choice to fill nodes from, and left over."""
_ANEW = 0.7
"""Worths are found anew when so much of the units is left."""
_TABLE_LASTS = 4
"""So many nodes are filled by one table, which still has what they took."""


def filled(problem: Problem, check: Callable[[], None]) -> list[Lot]:
    """Lots of single nodes that place most items, each node as full as can be. `check` is called
    for each node, and may raise. ImportError without numpy and highspy."""
    return _Filling(problem, check).run()


class _Filling:
    def __init__(self, problem: Problem, check: Callable[[], None]) -> None:
        import numpy as np

        self.problem = problem
        self.check = check
        sizes = sizes_of(problem)
        dimensions = len(problem.dimensions)
        nowhere = (math.inf,) * dimensions
        every = [sizes[i] for i in range(len(problem.items))]
        self.sizes: Floats = np.array([nowhere if s is None else s for s in every], dtype=float)
        self.left: Ints = np.array(problem.units)
        self.plain = np.isfinite(self.sizes).all(axis=1) & (self.left > 0)
        self.allowed = [np.array([bool(needs) for needs in p]) for p in problem.profiles]
        self.capacity: Floats = np.array([b.capacity for b in problem.bins], dtype=float)
        self.rooms = Rooms(problem)
        self.lots: list[Lot] = []
        # the table: by cell, the worth of the dearest item that takes no more of any resource
        self.cells = max(2, int(_CELLS ** (1 / max(1, dimensions))))
        largest = self.sizes[self.plain].max(axis=0, initial=0.0)
        self.step: Floats = np.where(largest > 0, largest, 1.0) / self.cells
        self.strides = np.array([(self.cells + 1) ** d for d in reversed(range(dimensions))])
        at = np.where(self.plain[:, None], np.ceil(self.sizes / self.step - 1e-9), 0)
        self.cell: Ints = np.minimum(at, self.cells).astype(int) @ self.strides

    def run(self) -> list[Lot]:
        """All lots."""
        total = int(self.left[self.plain].sum())
        if not total or not self.problem.dimensions:
            return []
        for number, bin_ in enumerate(self.problem.bins):
            if not bin_.price and self._look(total):
                for _ in range(self.rooms.of(number)):
                    self.check()
                    if not self._fill_existing(number):
                        break
        anew, turns = math.inf, 0
        while (left := int(self.left[self.plain].sum())) > total * _LEFT_TO_OTHERS:
            self.check()
            if left < anew:
                self._find_worths()
                anew, turns = left * _ANEW, 0
            if turns % _TABLE_LASTS == 0:
                self._make_table()
            turns += 1
            self._fill_new()
        return self.lots

    def _look(self, total: int) -> bool:
        """Find worths and make the table, for a bin that runs already; False where nothing is
        left."""
        if not self.lots:
            self._find_worths()
        self._make_table()
        return bool(self.left[self.plain].any())

    def _find_worths(self) -> None:
        """What each item is worth, and which bins are worth their price."""
        import numpy as np

        rest = self.rooms.rest(self.left.tolist())
        found = amounts_master(rest)
        each = np.zeros(len(rest.dimensions))
        costs = [bin_.price for bin_ in rest.bins]
        if found is not None:
            prices, used, largest = found
            for row, d in enumerate(used):
                each[d] = prices.items[row] / largest[d]
            costs = [
                bin_.price + charge_of(rest, prices, number) - prices.bins[number]
                for number, bin_ in enumerate(rest.bins)
            ]
        self.worth: Floats = np.where(
            self.plain, np.where(self.plain[:, None], self.sizes, 0) @ each, -1
        )
        self.order: Ints = np.argsort(self.worth, kind="stable")
        full = self.capacity @ each
        # a node that runs already is judged by what it could hold
        priced = np.array([bin_.price > 0 for bin_ in rest.bins])
        self.cost: Floats = np.where(priced, np.maximum(costs, 1e-12), np.maximum(full, 1e-12))
        near = np.flatnonzero(priced & (full >= self.cost * _NEAR_BEST))
        self.bins = near[np.argsort(-full[near], kind="stable")].tolist()

    def _make_table(self) -> None:
        import numpy as np

        self.index: Ints = self.order[(self.left[self.order] > 0) & self.plain[self.order]]
        self.columns = [np.ascontiguousarray(column) for column in self.sizes[self.index].T]
        self.values: Floats = self.worth[self.index]
        table = np.zeros((self.cells + 1) ** len(self.columns))
        table[self.cell[self.index]] = self.values
        table = table.reshape((self.cells + 1,) * len(self.columns))
        for axis in range(len(self.columns)):
            np.maximum.accumulate(table, axis=axis, out=table)
        self.table: Floats = table.reshape(-1)

    def _fill_existing(self, number: int) -> bool:
        """Fill a node that runs already; False where nothing fits on it."""
        import numpy as np

        fits = self._open(number)
        for column, free in zip(self.columns, self.capacity[number], strict=True):
            fits &= column <= free
        found = np.flatnonzero(fits)
        if len(found):
            self._take(number, self._load(number, int(found[-1]))[1])
        return bool(len(found))

    def _fill_new(self) -> None:
        """Fill a new node around the dearest item; one that fits no bin is left to others."""
        import numpy as np

        seeds = np.flatnonzero(self.left[self.index] > 0)
        if not len(seeds):
            return
        seed = int(seeds[-1])
        item = int(self.index[seed])
        size = self.sizes[item]
        best: tuple[float, int, dict[int, int]] | None = None
        tries = 0
        for number in self.bins:
            allowed = self.allowed[self.problem.bins[number].profile][item]
            if not allowed or (size > self.capacity[number]).any() or self.rooms.of(number) < 1:
                continue
            worth, load = self._load(number, seed)
            if best is None or worth > best[0]:
                best = (worth, number, load)
            tries += 1
            if worth >= _FULL_ENOUGH or tries == _MOST_TRIES:
                break
        if best is None:
            self.plain[item] = False
        else:
            self._take(best[1], best[2])

    def _open(self, number: int) -> NDArray[np.bool_]:
        """Which of the items in the table are left and may lie on a bin."""
        of: NDArray[np.bool_] = self.allowed[self.problem.bins[number].profile][self.index]
        return of & (self.left[self.index] > 0)

    def _load(self, number: int, seed: int) -> tuple[float, dict[int, int]]:
        """What goes on a node of a bin around an item, by place in the table's items; and what that
        is worth for each dollar of the node."""
        import numpy as np

        fits, free = self._open(number), self.capacity[number].tolist()
        load: dict[int, int] = {}
        worth, place = 0.0, seed
        while True:
            load[place] = load.get(place, 0) + 1
            worth += float(self.values[place])
            if load[place] >= self.left[self.index[place]]:
                fits[place] = False
            for d, column in enumerate(self.columns):
                free[d] -= float(column[place])
                fits &= column <= free[d] * (1 + 1e-12)
            found = np.flatnonzero(fits)
            if not len(found):
                return worth / float(self.cost[number]), load
            if len(found) > _AHEAD:
                found = found[np.linspace(0, len(found) - 1, _AHEAD).astype(int)]
            cell = np.zeros(len(found), dtype=int)
            for d, column in enumerate(self.columns):
                at = ((free[d] - column[found]) / self.step[d] + 1e-9).astype(int)
                cell += np.minimum(at, self.cells) * self.strides[d]
            own, other = self.values[found], self.table[cell]
            middling = np.where(other > 0, np.minimum(own, other), own)
            place = int(found[int((own + other + _MIDDLING * middling).argmax())])

    def _take(self, number: int, load: dict[int, int]) -> None:
        units = sorted((int(self.index[place]), count) for place, count in load.items())
        for item, count in units:
            self.left[item] -= count
        self.rooms.use(number, 1)
        self.lots.append(Lot(number, tuple(units), 1))
