"""Column generation: loads are added where they would lower the price, until none would or the
bound is reached.

The linear programme over the known loads says what a unit of each item is worth; the most valuable
load of each bin at those prices is worth adding when it is worth more than its node. The same
values give a lower bound. At the end nodes are made whole: what the programme says is rounded down,
and the rest is planned once more, by a search over the known loads and by the greedy way; the
cheapest is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from hpc.autoscale.packing.leastcost.bound import bound_of, charge_of, resource_bound
from hpc.autoscale.packing.leastcost.filling import filled
from hpc.autoscale.packing.leastcost.greedy import greedy
from hpc.autoscale.packing.leastcost.knapsack import Knapsacks
from hpc.autoscale.packing.leastcost.master import Master
from hpc.autoscale.packing.leastcost.merged import greedy_lots, is_merged, rest_of
from hpc.autoscale.packing.leastcost.plan import Load, Lot, Rooms, left_over, price_of, real
from hpc.autoscale.packing.leastcost.problem import Problem

CLOSE_ENOUGH = 1e-5
"""Relative gap at which the programme is as good as solved."""
_FIRST_ROUNDING = 8
"""Whole nodes are made after so many rounds, after twice as many, and so on, and at the end: never
when the time happens to be up. So a longer search tries all that a shorter one has tried."""

_WHOLE = 1e-6
_MOST_NODES = 50
"""Of the search tree."""


class Effort(NamedTuple):
    """What may be spent. `seconds_left`: asked now and then; 0 or less ends the search. `rounds`:
    of column generation. With only rounds to limit it, the same problem gets the same plan."""

    seconds_left: Callable[[], float] = lambda: math.inf
    rounds: int = 1_000

    def is_spent(self) -> bool:
        """Whether time is up."""
        return self.seconds_left() <= 0


class _OutOfTime(Exception):
    """The time is up; what is not finished counts for nothing."""


class Found(NamedTuple):
    """The best plan that was found and the highest bound. `searched`: the plan is not a greedy
    one."""

    lots: list[Lot]
    bound: float
    searched: bool


def generate(problem: Problem, start: Sequence[Lot], bound: float, effort: Effort) -> Found:
    """Improve on a plan that places everything. ImportError without numpy and highspy; loading them
    is not counted."""
    effort = _loaded(effort)
    bound = max(bound, resource_bound(problem))
    if price_of(problem, start) <= bound * (1 + CLOSE_ENOUGH):
        return Found(list(start), bound, False)
    if not is_merged(problem):
        return _Generation(problem, start, bound, effort).run()
    searched = _filled(problem, effort)
    if any(left_over(problem, searched)) or price_of(problem, searched) >= price_of(problem, start):
        return Found(list(start), bound, False)
    return Found(searched, bound, True)


def _filled(problem: Problem, effort: Effort) -> list[Lot]:
    """The plan of a problem with very many items: nodes filled one by one, and the rest greedily;
    none where the time is up."""

    def check() -> None:
        if effort.is_spent():
            raise _OutOfTime

    try:
        lots = filled(problem, check)
        return [*lots, *greedy_lots(rest_of(problem, lots))]
    except _OutOfTime:
        return []


def _loaded(effort: Effort) -> Effort:
    """The same effort once the solver is loaded."""
    before = effort.seconds_left()
    import_module("numpy")
    import_module("highspy")
    lost = before - effort.seconds_left()
    if not math.isfinite(lost):
        return effort
    return effort._replace(seconds_left=lambda: effort.seconds_left() + lost)


class _Generation:
    def __init__(
        self, problem: Problem, start: Sequence[Lot], bound: float, effort: Effort
    ) -> None:
        self.problem = problem
        self.effort = effort
        self.best = list(start)
        self.price = self.at_first = price_of(problem, start)
        self.bound = bound
        self.master = Master(problem)
        self.tables = Knapsacks(problem)
        self.under = self.tables if self.tables.exact else Knapsacks(problem, below=True)
        for lot in start:
            self.master.add(lot.bin, lot.load)
        for number, bin_ in enumerate(problem.bins):
            for i, item in enumerate(problem.items):
                units = min(item.units, problem.copies(i, bin_)) if bin_.price else 0
                load = real(problem, number, ((i, units),)) if units else ()
                if load:
                    self.master.add(number, load)

    def run(self) -> Found:
        nodes: list[float] = []
        for number in range(1, self.effort.rounds + 1):
            if self._is_best() or self.effort.is_spent():
                break
            solved = self.master.solve()
            if solved is None:
                break
            nodes, least = solved
            if number >= _FIRST_ROUNDING and number & (number - 1) == 0:
                self._round(nodes, False)
            if not self._improve() or least <= self.bound * (1 + CLOSE_ENOUGH):
                break
        if nodes and not self._is_best() and not self.effort.is_spent():
            self._round(nodes, True)
        return Found(self.best, min(self.bound, self.price), self.price < self.at_first)

    def _is_best(self) -> bool:
        return self.price <= self.bound * (1 + CLOSE_ENOUGH)

    def _improve(self) -> bool:
        """Add the loads that are worth more than they cost at the prices of now; False when there
        are none."""
        import numpy as np

        problem, prices = self.problem, self.master.prices()
        values = np.array(prices.items)
        best = self.tables.fill(values)
        wanted = [
            number
            for number, bin_ in enumerate(problem.bins)
            if best[number]
            > bin_.price + charge_of(problem, prices, number) - prices.bins[number] + 1e-9
        ]
        added = False
        for number, row in zip(wanted, self.tables.loads(wanted), strict=True):
            load = tuple((i, int(row[i])) for i in np.flatnonzero(row).tolist())
            added = self.master.add(number, real(problem, number, load)) or added
        if self.under is not self.tables:
            best = self.under.fill(values)
        self.bound = max(self.bound, bound_of(problem, prices, best))
        return added

    def _round(self, nodes: Sequence[float], searching: bool) -> None:
        """Whole numbers of nodes from parts of nodes; `searching`: the rest is also searched
        for."""
        rooms = Rooms(self.problem)
        lots = []
        # loads that were added after the last solution are not in it
        for (number, load), part in zip(self.master.columns, nodes, strict=False):
            count = min(math.floor(part + _WHOLE), rooms.of(number))
            if count > 0:
                rooms.use(number, count)
                lots.append(Lot(number, load, count))
        rest = rooms.rest(left_over(self.problem, lots))
        if not any(rest.units):
            self._keep(lots)
            return
        self._keep([*lots, *greedy(rest)])
        if searching and not self._is_best() and not self.effort.is_spent():
            self._keep([*lots, *self._search(rest)])

    def _search(self, rest: Problem) -> list[Lot]:
        """The rest, by branch and bound over the known loads."""
        master = Master(rest)
        columns: list[tuple[int, Load]] = []
        for number, load in self.master.columns:
            if rest.bins[number].nodes:
                capped = tuple((i, min(n, rest.units[i])) for i, n in load if rest.units[i])
                if capped and master.add(number, capped):
                    columns.append((number, capped))
        seconds = self.effort.seconds_left()
        # the rest is a small part of the price, and need be found no better than the whole
        gap = CLOSE_ENOUGH * max(1.0, self.price / max(price_of(rest, greedy(rest)), 1e-9))
        whole = master.solve_whole(seconds, _MOST_NODES, gap) if columns else None
        return [
            Lot(number, load, count)
            for (number, load), count in zip(columns, whole or [], strict=bool(whole))
            if count > 0
        ]

    def _keep(self, lots: list[Lot]) -> None:
        """Remember a plan if it places everything and costs less than the best so far."""
        price = price_of(self.problem, lots)
        if price < self.price * (1 - 1e-9) and not any(left_over(self.problem, lots)):
            self.best, self.price = lots, price
