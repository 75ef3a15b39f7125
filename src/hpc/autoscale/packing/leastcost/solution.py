"""The least-cost plan of a problem, with what is known of how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hpc.autoscale.packing.leastcost.bound import simple_bound
from hpc.autoscale.packing.leastcost.generation import CLOSE_ENOUGH, Effort, generate
from hpc.autoscale.packing.leastcost.merged import greedy_lots
from hpc.autoscale.packing.leastcost.plan import Lot, left_over, price_of
from hpc.autoscale.packing.leastcost.problem import Problem

GREEDY = "greedy"
COLUMNS = "column generation"


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

    @property
    def gap(self) -> float | None:
        """By how much the price may be above the least, as a part of the bound; None when that is
        not known."""
        return gap_of(self.price, self.bound)


def gap_of(price: float, bound: float) -> float | None:
    """`Solution.gap`."""
    if price <= 0:
        return 0.0
    return price / bound - 1 if bound > 0 else None


def solve(
    problem: Problem, effort: Effort | None = None, start: Sequence[Lot] | None = None
) -> Solution:
    """A plan for as much of the problem as there is room for. `start`: the greedy one, where it is
    known.

    `effort` None: greedily. With effort, and numpy and highspy installed, a plan that places
    everything is improved by column generation."""
    lots, method = list(start or greedy_lots(problem)), GREEDY
    unplaced = tuple(left_over(problem, lots))
    settled = _settled(problem, lots)
    price = price_of(settled, lots)
    bound = 0.0 if any(unplaced) else simple_bound(settled)
    if effort is not None and not any(unplaced) and price > bound * (1 + CLOSE_ENOUGH):
        # without the extra the greedy plan is the plan
        with suppress(ImportError):
            found = generate(settled, lots, bound, effort)
            lots, bound = found.lots, found.bound
            price, method = price_of(settled, lots), COLUMNS if found.searched else GREEDY
    unpriced = sum(lot.nodes for lot in lots if not problem.bins[lot.bin].priced)
    return Solution(tuple(lots), price, min(bound, price), method, unplaced, unpriced)


def _settled(problem: Problem, lots: Sequence[Lot]) -> Problem:
    """The same with no more nodes without a price than the lots have, which are taken as given:
    they cost nothing."""
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
