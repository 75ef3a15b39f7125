"""The least-cost plan of a problem, with what is known of how good it is."""

from __future__ import annotations

from typing import NamedTuple

from hpc.autoscale.packing.leastcost.bound import simple_bound
from hpc.autoscale.packing.leastcost.generation import Effort, generate
from hpc.autoscale.packing.leastcost.greedy import greedy
from hpc.autoscale.packing.leastcost.plan import Lot, left_over, price_of
from hpc.autoscale.packing.leastcost.problem import Problem

GREEDY = "greedy"
COLUMNS = "column generation"


class Solution(NamedTuple):
    """A plan. `price`: per hour, of the nodes that do not run yet. `bound`: no plan that places everything costs less.
    `method`: which way found it. `unplaced`: units by item for which there is no room; with any, price and bound are of
    different things, and the bound says nothing."""

    lots: tuple[Lot, ...]
    price: float
    bound: float
    method: str
    unplaced: tuple[int, ...]

    @property
    def gap(self) -> float:
        """By how much the price may be above the least, as a part of the bound; 0 when nothing is to be paid."""
        return self.price / self.bound - 1 if self.bound > 0 else (0.0 if not self.price else 1.0)


def solve(problem: Problem, effort: Effort | None = None) -> Solution:
    """A plan for as much of the problem as there is room for.

    `effort` None: greedily. With effort, and numpy and highspy installed, a plan that places everything is improved by
    column generation.
    """
    lots, method = greedy(problem), GREEDY
    unplaced = tuple(left_over(problem, lots))
    price, bound = price_of(problem, lots), simple_bound(problem)
    if effort is not None and not any(unplaced) and price > bound and not effort.is_spent:
        try:
            better, bound = generate(problem, lots, bound, effort)
        except ImportError:
            better = lots
        if better is not lots and price_of(problem, better) < price:
            lots, price, method = better, price_of(problem, better), COLUMNS
    return Solution(tuple(lots), price, min(bound, price), method, unplaced)
