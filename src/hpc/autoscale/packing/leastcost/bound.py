"""What no plan can cost less than, for prices that items and limits are given.

With any prices for the items, what a node holds is worth at most as much as the best load of its
bin. Where that is no more than the node costs, the worth of all items bounds the cost from below;
prices that are too high for that are scaled down until they are not, and nodes of which there are
only so many are paid for by what they could hold. With the duals of the linear programme over all
loads this is the optimum of that programme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpc.autoscale.packing.leastcost.knapsack import ROUNDING
from hpc.autoscale.packing.leastcost.master import Master
from hpc.autoscale.packing.leastcost.problem import Need, Problem

if TYPE_CHECKING:
    from hpc.autoscale.packing.leastcost.knapsack import Values
    from hpc.autoscale.packing.leastcost.master import Prices


def bound_of(problem: Problem, prices: Prices, best: Values) -> float:
    """A lower bound on the price of placing everything. `best`: at least the value of the best
    load, by bin."""
    worth = sum(price * n for price, n in zip(prices.items, problem.units, strict=True))
    for a, limit in enumerate(problem.limits):
        worth += prices.limit_nodes[a] * limit.nodes + prices.limit_cores[a] * limit.cores
    scale = 1.0
    for number, bin_ in enumerate(problem.bins):
        value = float(best[number]) * (1 + ROUNDING)
        charge = charge_of(problem, prices, number)
        due = -prices.bins[number]
        if bin_.price + charge + due <= 0 or not bin_.price:
            due = max(0.0, value - charge)
        elif value > 0:
            # all prices go down together, what is due and charged too: only the node's own price
            # stays
            scale = max(scale, (value - charge - due) / bin_.price)
        worth -= due * bin_.nodes
    return max(0.0, worth / scale)


def charge_of(problem: Problem, prices: Prices, number: int) -> float:
    """What one more node of a bin takes from the limits, at their prices."""
    bin_ = problem.bins[number]
    return -sum(
        prices.limit_nodes[a] + prices.limit_cores[a] * bin_.candidate.cores for a in bin_.limits
    )


def simple_bound(problem: Problem) -> float:
    """A bound from each resource by itself: what is wanted of it, less what runs already, at the
    least price for which it can be had. Needs nothing but the standard library."""
    found = 0.0
    for d, wanted in enumerate(_wanted(problem)):
        wanted -= sum(b.capacity[d] * b.nodes for b in problem.bins if not b.price)
        having = [b.price / b.capacity[d] for b in problem.bins if b.price and b.capacity[d]]
        found = max(found, wanted * min(having, default=0.0))
    return found * (1 - 1e-9)


def resource_bound(problem: Problem) -> float:
    """A bound from all resources together: the price of parts of nodes that have what is wanted,
    within all limits. ImportError without highspy."""
    master, _, _ = _amounts_master(problem)
    solved = master.solve()
    return 0.0 if solved is None else max(0.0, solved[1] * (1 - 1e-6))


def amounts_master(problem: Problem) -> tuple[Prices, list[int], list[float]] | None:
    """What parts of nodes with all that is wanted are worth: prices of amounts, the dimensions that
    their rows are about, and by dimension the amount that a price is for. None when the limits do
    not allow it. ImportError without highspy."""
    master, used, largest = _amounts_master(problem)
    return None if master.solve() is None else (master.prices(), used, largest)


def _amounts_master(problem: Problem) -> tuple[Master, list[int], list[float]]:
    wanted = _wanted(problem)
    largest = [
        max((float(b.capacity[d]) for b in problem.bins), default=0.0) for d in range(len(wanted))
    ]
    used = [d for d, n in enumerate(wanted) if n > 0 and largest[d] > 0]
    master = Master(problem, [wanted[d] / largest[d] for d in used])
    for number, bin_ in enumerate(problem.bins):
        load = [(row, bin_.capacity[d] / largest[d]) for row, d in enumerate(used)]
        master.add_amounts(number, [(row, amount) for row, amount in load if amount])
    return master, used, largest


def _wanted(problem: Problem) -> list[float]:
    """What is wanted of each resource at least."""
    found = [0.0] * len(problem.dimensions)
    for i, item in enumerate(problem.items):
        ways = [dict(need.amounts) for needs in _ways(problem, i) for need in needs]
        for d in range(len(found)):
            found[d] += item.units * min((way.get(d, 0) for way in ways), default=0)
    return found


def _ways(problem: Problem, item: int) -> set[tuple[Need, ...]]:
    return {profile[item] for profile in problem.profiles}
