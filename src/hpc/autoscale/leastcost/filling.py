"""A plan for thousands of different items that fills one node after another with the items
themselves.

The linear programme over amounts alone gives dual prices of the resources, and so a value of each
item. The most valuable item that is left goes on a node first. Then items are added that leave the
least of the node's value unused, looking one item ahead in a table of the most valuable item that
fits what would then be free. Of items that fill a node equally well, those of middling value are
taken: small ones are what makes later nodes come out full. This module needs numpy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpc.autoscale.leastcost.master import charge_of, resource_relaxation
from hpc.autoscale.leastcost.problem import Lot, NodesLeft, Problem
from hpc.autoscale.packing.amounts import Quantity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CELLS = 4_096
"""Of the table, in all dimensions together."""
_AHEAD = 150
"""So many items are looked at for a place, evenly spread over those that fit."""
_MIDDLING = 0.02
"""The weight of an item's own value beside that of a full node."""
_FULL_ENOUGH = 0.995
_NEAR_BEST = 0.99
"""Bins whose nodes, filled wholly, are worth so much for their price are tried first."""
_MOST_TRIES = 3
_LEFT_TO_OTHERS = 0.03
"""The last part of the units is too little choice to fill nodes from, and is left over."""
_ANEW = 0.7
"""Dual prices are found anew when this part of the units is left."""
_TABLE_LASTS = 4
"""So many nodes are filled by one table, in which items stay that they used up."""


def filled(problem: Problem) -> list[Lot]:
    """Lots of single nodes that place most items, each node as full as can be."""
    return _Filling(problem).run()


def _amounts_of(problem: Problem, item: int) -> tuple[Quantity, ...] | None:
    """What a unit of an item takes by dimension, where that is the same on all nodes where it may
    lie, leaves them open, and keeps fitting as others are added; None otherwise."""
    ways = {profile[item] for profile in problem.profiles if profile[item]}
    usages = ways.pop() if len(ways) == 1 else ()
    if len(usages) != 1 or usages[0].closes or not problem.items[item].expr.monotone:
        return None
    amounts = dict(usages[0].amounts)
    return tuple(amounts.get(d, 0) for d in range(len(problem.dimensions)))


class _Filling:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        dimensions = len(problem.dimensions)
        nowhere = (math.inf,) * dimensions
        sizes = [_amounts_of(problem, i) for i in range(len(problem.items))]
        self.sizes: Floats = np.array([nowhere if s is None else s for s in sizes], dtype=float)
        self.left: Ints = np.array(problem.units)
        self.plain = np.isfinite(self.sizes).all(axis=1) & (self.left > 0)
        self.allowed = [np.array([bool(needs) for needs in p]) for p in problem.profiles]
        self.capacity: Floats = np.array([b.capacity for b in problem.bins], dtype=float)
        self.nodes_left = NodesLeft(problem)
        self.lots: list[Lot] = []
        # the table: by cell, the value of the dearest item that takes no more of any resource
        self.cells = max(2, int(_CELLS ** (1 / max(1, dimensions))))
        largest = self.sizes[self.plain].max(axis=0, initial=0.0)
        self.step: Floats = np.where(largest > 0, largest, 1.0) / self.cells
        self.strides = np.array([(self.cells + 1) ** d for d in reversed(range(dimensions))])
        at = np.where(self.plain[:, None], np.ceil(self.sizes / self.step - 1e-9), 0)
        self.cell: Ints = np.minimum(at, self.cells).astype(int) @ self.strides

    def run(self) -> list[Lot]:
        total = int(self.left[self.plain].sum())
        if not total or not self.problem.dimensions:
            return []
        self._fill_all_existing()
        anew, filled_nodes = math.inf, 0
        while (left := int(self.left[self.plain].sum())) > total * _LEFT_TO_OTHERS:
            if left < anew:
                self._find_values()
                anew, filled_nodes = left * _ANEW, 0
            if filled_nodes % _TABLE_LASTS == 0:
                self._make_table()
            filled_nodes += 1
            self._fill_new()
        return self.lots

    def _fill_all_existing(self) -> None:
        for number, bin_ in enumerate(self.problem.bins):
            if bin_.price or not self.left[self.plain].any():
                continue
            if not self.lots:
                self._find_values()
            self._make_table()
            for _ in range(self.nodes_left.of(number)):
                if not self._fill_existing(number):
                    break

    def _find_values(self) -> None:
        """The value of each item at the present dual prices, and which bins are worth their price.
        Without dual prices, because limits are short, nothing has a value."""
        rest = self.nodes_left.problem(self.left.tolist())
        found = resource_relaxation(rest)
        each = np.zeros(len(rest.dimensions))
        costs = [bin_.price for bin_ in rest.bins]
        if found is not None:
            each = np.array(found.by_dimension)
            costs = [
                bin_.price + charge_of(rest, found.duals, number) - found.duals.bins[number]
                for number, bin_ in enumerate(rest.bins)
            ]
        self.value: Floats = np.where(
            self.plain, np.where(self.plain[:, None], self.sizes, 0) @ each, -1
        )
        self.order: Ints = np.argsort(self.value, kind="stable")
        full = self.capacity @ each
        # a node that runs already is judged by what it could hold
        priced = np.array([bin_.price > 0 for bin_ in rest.bins])
        self.cost: Floats = np.where(priced, np.maximum(costs, 1e-12), np.maximum(full, 1e-12))
        # of those that are about as good as the best, large ones first; then the others
        worth = np.minimum(full / self.cost, _NEAR_BEST)
        self.bins = [n for n in np.lexsort((-full, -worth)).tolist() if priced[n]]

    def _make_table(self) -> None:
        self.index: Ints = self.order[(self.left[self.order] > 0) & self.plain[self.order]]
        self.columns = [np.ascontiguousarray(column) for column in self.sizes[self.index].T]
        self.values: Floats = self.value[self.index]
        table = np.zeros((self.cells + 1) ** len(self.columns))
        table[self.cell[self.index]] = self.values
        table = table.reshape((self.cells + 1,) * len(self.columns))
        for axis in range(len(self.columns)):
            np.maximum.accumulate(table, axis=axis, out=table)
        self.table: Floats = table.reshape(-1)

    def _fill_existing(self, number: int) -> bool:
        """Fill a node that runs already; False where nothing fits on it."""
        fits = self._open(number)
        for column, free in zip(self.columns, self.capacity[number], strict=True):
            fits &= column <= free
        found = np.flatnonzero(fits)
        if len(found):
            self._take(number, self._pattern(number, int(found[-1]))[1])
        return bool(len(found))

    def _fill_new(self) -> None:
        """Fill a new node around the most valuable item; one that fits no bin is left over."""
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
            if (
                not allowed
                or (size > self.capacity[number]).any()
                or self.nodes_left.of(number) < 1
            ):
                continue
            value, units = self._pattern(number, seed)
            if best is None or value > best[0]:
                best = (value, number, units)
            tries += 1
            if value >= _FULL_ENOUGH or tries == _MOST_TRIES:
                break
        if best is None:
            self.plain[item] = False
        else:
            self._take(best[1], best[2])

    def _open(self, number: int) -> NDArray[np.bool_]:
        """Which of the items in the table are left and may lie on a bin."""
        of: NDArray[np.bool_] = self.allowed[self.problem.bins[number].profile][self.index]
        return of & (self.left[self.index] > 0)

    def _pattern(self, number: int, seed: int) -> tuple[float, dict[int, int]]:
        """What goes on a node of a bin around an item, by place in the table; and its
        value for each dollar of the node."""
        fits, free = self._open(number), self.capacity[number].tolist()
        units: dict[int, int] = {}
        value, place = 0.0, seed
        while True:
            units[place] = units.get(place, 0) + 1
            value += float(self.values[place])
            if units[place] >= self.left[self.index[place]]:
                fits[place] = False
            for d, column in enumerate(self.columns):
                free[d] -= float(column[place])
                fits &= column <= free[d] * (1 + 1e-12)
            found = np.flatnonzero(fits)
            if not len(found):
                return value / float(self.cost[number]), units
            if len(found) > _AHEAD:
                found = found[np.linspace(0, len(found) - 1, _AHEAD).astype(int)]
            cell = np.zeros(len(found), dtype=int)
            for d, column in enumerate(self.columns):
                at = ((free[d] - column[found]) / self.step[d] + 1e-9).astype(int)
                cell += np.minimum(at, self.cells) * self.strides[d]
            own, other = self.values[found], self.table[cell]
            middling = np.where(other > 0, np.minimum(own, other), own)
            place = int(found[int(np.argmax(own + other + _MIDDLING * middling))])

    def _take(self, number: int, units: dict[int, int]) -> None:
        pattern = tuple(sorted((int(self.index[place]), n) for place, n in units.items()))
        for item, count in pattern:
            self.left[item] -= count
        self.nodes_left.use(number, 1)
        self.lots.append(Lot(number, pattern, 1))
