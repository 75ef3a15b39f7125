"""The least-cost plan of a problem, and how far it may be above the least price.

The greedy plan comes first. With effort, and numpy and highspy installed, it is improved by column
generation (Gilmore and Gomory, 1961): a master problem over the patterns known so far gives dual
prices, the pricing problem finds patterns with negative reduced cost, which are added, until there
are none or the lower bound is reached. Rounding then makes whole nodes: the solution of the master
is rounded down, and the residual problem is planned greedily; the cheapest plan is kept. Problems
with very many items are filled node by node instead (`filling`), and not improved on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from hpc.autoscale.leastcost.greedy import greedy
from hpc.autoscale.leastcost.master import (
    Master,
    charge_of,
    lagrangian_bound,
    resource_relaxation,
    simple_bound,
)
from hpc.autoscale.leastcost.problem import Lot, NodesLeft, Problem

MOST_ITEMS = 200
"""Problems with more items are planned node by node."""

GREEDY = "greedy"
COLUMNS = "column generation"

CLOSE_ENOUGH = 1e-5
"""Relative gap at which a plan is as good as the best."""
_FIRST_ROUNDING = 8
"""Whole nodes are made after so many rounds, after twice as many, and so on, and at the end: never
when the time happens to be up. So a longer search tries all that a shorter one has tried."""

_MOST_LEFT = 0.05
"""Where filling leaves more than this part of the units, it is no plan for the problem."""
_WHOLE = 1e-6


class Effort(NamedTuple):
    """What may be spent. `seconds_left`: asked now and then; 0 or less ends the search. `rounds`:
    of column generation. With only rounds to limit it, the same problem gets the same plan."""

    seconds_left: Callable[[], float] = lambda: math.inf
    rounds: int = 1_000

    def is_spent(self) -> bool:
        """Whether time is up."""
        return self.seconds_left() <= 0


class Solution(NamedTuple):
    """A plan. `price`: per hour, of the nodes that do not run yet and have a price; `unpriced`: how
    many of them have none. `bound`: no plan that places as much with no more nodes without a price
    costs less. `method`: which way found it. `unplaced`: units by item for which there is no room;
    with any, the bound says nothing and is 0."""

    lots: tuple[Lot, ...]
    price: float
    bound: float
    method: str
    unplaced: tuple[int, ...]
    unpriced: int


def gap_of(price: float, bound: float) -> float | None:
    """The gap between a price and its lower bound, as a part of the bound; None where a bound of 0
    says nothing."""
    if price <= 0:
        return 0.0
    return price / bound - 1 if bound > 0 else None


def has_many_items(problem: Problem) -> bool:
    """Whether a problem has too many items for greedy plans and column generation."""
    return sum(item.units > 0 for item in problem.items) > MOST_ITEMS


def first_lots(problem: Problem) -> list[Lot]:
    """The plan that a search begins with. For too many items it is filled node by node, and there
    is none without numpy and highspy."""
    if not has_many_items(problem):
        return greedy(problem)
    try:
        from hpc.autoscale.leastcost.filling import filled

        lots = filled(problem)
    except ImportError:
        return []
    rest = problem.residual(lots)
    return [*lots, *greedy(rest)] if sum(rest.units) <= sum(problem.units) * _MOST_LEFT else []


def solve(
    problem: Problem, effort: Effort | None = None, start: Sequence[Lot] | None = None
) -> Solution:
    """A plan for as much of the problem as there is room for, not improved on where `effort` is
    None. `start`: the plan to begin with, where it is known."""
    lots, method = list(start or first_lots(problem)), GREEDY
    unplaced = tuple(problem.left_over(lots))
    priced = _as_priced(problem, lots)
    bound = 0.0 if any(unplaced) else simple_bound(priced)
    if effort is not None and not any(unplaced) and not _is_close(priced.price_of(lots), bound):
        # without the extra the greedy plan is the plan
        with suppress(ImportError):
            found, bound = _improved(priced, lots, bound, effort)
            lots, method = found or lots, COLUMNS if found else GREEDY
    price = priced.price_of(lots)
    unpriced = sum(lot.nodes for lot in lots if not problem.bins[lot.bin].priced)
    return Solution(tuple(lots), price, min(bound, price), method, unplaced, unpriced)


def _is_close(price: float, bound: float) -> bool:
    return price <= bound * (1 + CLOSE_ENOUGH)


def _as_priced(problem: Problem, lots: Sequence[Lot]) -> Problem:
    """The problem in which the nodes without a price that a plan uses cost nothing, and there are
    no others."""
    if all(bin_.priced for bin_ in problem.bins):
        return problem
    used = [0] * len(problem.bins)
    for lot in lots:
        used[lot.bin] += lot.nodes
    bins = [
        bin_ if bin_.priced else bin_._replace(price=0.0, nodes=n)
        for bin_, n in zip(problem.bins, used, strict=True)
    ]
    return problem.changed(problem.units, bins)


def _improved(
    problem: Problem, start: list[Lot], bound: float, effort: Effort
) -> tuple[list[Lot] | None, float]:
    """A cheaper plan than one that places everything, None where none is found; and the highest
    lower bound. ImportError without numpy and highspy, which are loaded before the time runs."""
    relaxation = resource_relaxation(problem)
    bound = max(bound, relaxation.bound if relaxation is not None else 0.0)
    if has_many_items(problem) or _is_close(problem.price_of(start), bound):
        return None, bound
    search = _Search(problem, start, bound, effort)
    search.run()
    return search.best if search.price < search.at_first else None, search.bound


class _Search:
    """Column generation from a plan that places everything. `best`: the best plan so far, of
    `price`; `bound`: the highest lower bound so far."""

    def __init__(
        self, problem: Problem, start: Sequence[Lot], bound: float, effort: Effort
    ) -> None:
        from hpc.autoscale.leastcost.knapsack import Knapsacks

        self.problem = problem
        self.effort = effort
        self.best = list(start)
        self.price = self.at_first = problem.price_of(start)
        self.bound = bound
        self.master = Master(problem)
        self.tables = Knapsacks(problem)
        self.under = self.tables if self.tables.exact else Knapsacks(problem, below=True)
        for lot in start:
            self.master.add(lot.bin, lot.pattern)
        for number, bin_ in enumerate(problem.bins):
            for i, item in enumerate(problem.items):
                units = min(item.units, problem.copies(i, bin_)) if bin_.price else 0
                pattern = problem.feasible(number, ((i, units),)) if units else ()
                if pattern:
                    self.master.add(number, pattern)

    def run(self) -> None:
        nodes: list[float] = []
        for number in range(1, self.effort.rounds + 1):
            if self._is_best() or self.effort.is_spent():
                break
            solved = self.master.solve()
            if solved is None:
                break
            nodes, least = solved
            if number >= _FIRST_ROUNDING and number & (number - 1) == 0:
                self._round(nodes)
            if not self._improve() or _is_close(least, self.bound):
                break
        if nodes and not self._is_best() and not self.effort.is_spent():
            self._round(nodes)

    def _is_best(self) -> bool:
        return _is_close(self.price, self.bound)

    def _improve(self) -> bool:
        """Add the patterns of negative reduced cost at the present dual prices, and raise the
        bound; False when there are none."""
        import numpy as np

        problem, duals = self.problem, self.master.duals()
        values = np.array(duals.items)
        best = self.tables.fill(values)
        wanted = [
            number
            for number, bin_ in enumerate(problem.bins)
            if best[number]
            > bin_.price + charge_of(problem, duals, number) - duals.bins[number] + 1e-9
        ]
        added = False
        for number, row in zip(wanted, self.tables.patterns(wanted), strict=True):
            pattern = tuple((i, int(row[i])) for i in np.flatnonzero(row).tolist())
            added = self.master.add(number, problem.feasible(number, pattern)) or added
        if self.under is not self.tables:
            best = self.under.fill(values)
        self.bound = max(self.bound, lagrangian_bound(problem, duals, best.tolist()))
        return added

    def _round(self, nodes: Sequence[float]) -> None:
        """Make whole nodes from parts of nodes by column: rounded down, and the rest greedily."""
        left = NodesLeft(self.problem)
        lots = []
        # columns that were added after the last solution are not in it
        for (number, pattern), part in zip(self.master.columns, nodes, strict=False):
            count = min(math.floor(part + _WHOLE), left.of(number))
            if count > 0:
                left.use(number, count)
                lots.append(Lot(number, pattern, count))
        residual = left.problem(self.problem.left_over(lots))
        self._keep([*lots, *greedy(residual)])

    def _keep(self, lots: list[Lot]) -> None:
        """Remember a plan if it places everything and costs less than the best so far."""
        price = self.problem.price_of(lots)
        if price < self.price * (1 - 1e-9) and not any(self.problem.left_over(lots)):
            self.best, self.price = lots, price
