"""The longest part of a queue that can be placed wholly, at the least price.

Where there is room for everything, the order of the queue does not matter and all of it is one
problem. Where there is not, those who came first are served first: the queue is cut, within a
demand if need be, so that all before the cut is placed and nothing more of the demand at the cut
is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.leastcost.generation import Effort
from hpc.autoscale.packing.leastcost.layout import Layout, Share, lay_out
from hpc.autoscale.packing.leastcost.merged import greedy_lots, is_merged
from hpc.autoscale.packing.leastcost.modes import may_close
from hpc.autoscale.packing.leastcost.plan import Lot, left_over
from hpc.autoscale.packing.leastcost.problem import Item, PriceOf, Problem
from hpc.autoscale.packing.leastcost.solution import Solution, solve
from hpc.autoscale.packing.limits import Limit

_PARTS = 100
_AS_GOOD_AS_BEST = 2e-4
"""A plan that is at most so far above its bound is not worth holding against other ways."""


class Wanted(NamedTuple):
    """A demand for `units` slots, with an expression that `is_plain`."""

    expr: Expr
    units: int


class Cut(NamedTuple):
    """A plan for a queue up to a cut. `shares`: who gets how much. `stopped_at`: the number of the
    demand at the cut; None where all is placed. `homeless`: numbers of demands that fit nowhere,
    whatever else is placed; they are not planned."""

    problem: Problem
    solution: Solution
    shares: list[Share]
    stopped_at: int | None
    homeless: list[int]

    @property
    def is_best(self) -> bool:
        """Whether all is placed, and no way to place it costs less than by a hair."""
        solution = self.solution
        whole = self.stopped_at is None and not self.homeless and not any(solution.unplaced)
        reached = solution.price <= solution.bound * (1 + _AS_GOOD_AS_BEST)
        return whole and reached and not solution.unpriced

    def layout(self) -> Layout:
        """What each demand gets, and what the nodes then look like."""
        return lay_out(self.problem, self.solution.lots, self.shares)


def moved(cut: Cut, to: Mapping[Candidate, Candidate]) -> Cut:
    """The same plan for other candidates, which are in the same state as those it was made for."""
    bins = [bin_._replace(candidate=to[bin_.candidate]) for bin_ in cut.problem.bins]
    return cut._replace(problem=cut.problem.changed(cut.problem.units, bins))


def plan_queue(
    queue: Sequence[Wanted],
    ranked: Callable[[Expr], Sequence[Candidate]],
    price_of: PriceOf,
    effort: Effort | None,
) -> Cut:
    """Plan as much of a queue as there is room for, in its order. Changes nothing."""
    items, item_of = _items(queue)
    problem = Problem.of(items, ranked, price_of)
    nowhere = set(problem.homeless)
    homeless = [d for d, item in enumerate(item_of) if item in nowhere]
    shares = [
        Share(d, item, wanted.units)
        for d, (item, wanted) in enumerate(zip(item_of, queue, strict=True))
        if item not in nowhere
    ]
    problem = _of_shares(problem, shares)
    lots: list[Lot] | None = greedy_lots(problem)
    stopped_at: int | None = None
    if lots is not None and any(left_over(problem, lots)):
        shares, stopped_at = _cut(problem, shares)
        problem, lots = _of_shares(problem, shares), None
    solution = solve(problem, effort, lots)
    return Cut(problem, solution, shares, stopped_at, homeless)


def _items(queue: Sequence[Wanted]) -> tuple[list[Item], list[int]]:
    """Equal demands as one item, in the order of first appearance; the item of each demand."""
    numbers: dict[object, int] = {}
    units: list[int] = []
    item_of = []
    keys: list[tuple[Expr, bool]] = []
    closing: dict[Expr, bool] = {}
    for number, wanted in enumerate(queue):
        expr = wanted.expr
        if expr not in closing:
            closing[expr] = may_close(expr)
        alone = closing[expr] and wanted.units > 1
        key = (expr, number) if alone else expr
        item = numbers.setdefault(key, len(units))
        if item == len(units):
            units.append(0)
            keys.append((expr, alone))
        units[item] += wanted.units
        item_of.append(item)
    items = [Item(expr, n, alone) for (expr, alone), n in zip(keys, units, strict=True)]
    return items, item_of


def _of_shares(problem: Problem, shares: Sequence[Share]) -> Problem:
    units = [0] * len(problem.items)
    for share in shares:
        units[share.item] += share.units
    return problem.changed(units)


def _cut(problem: Problem, shares: Sequence[Share]) -> tuple[list[Share], int]:
    """The shares up to the cut, and the demand at it."""
    ends = list(accumulate(share.units for share in shares))

    def first(units: int) -> list[Share]:
        index = bisect_left(ends, units)
        whole = list(shares[:index])
        rest = units - (ends[index - 1] if index else 0)
        return [*whole, shares[index]._replace(units=rest)] if rest else whole

    fits, too_many = 0, ends[-1]
    # to the unit, but for queues that take long to plan
    near_enough = too_many // _PARTS if is_merged(problem) else 1
    while too_many - fits > max(1, near_enough):
        middle = (fits + too_many) // 2
        part = _of_shares(problem, first(middle))
        if any(left_over(part, greedy_lots(part, roughly=True))):
            too_many = middle
        else:
            fits = middle
    return first(fits), shares[bisect_left(ends, fits + 1)].demand


def room_for_all(
    wanted: Mapping[Expr, int],
    ranked: Callable[[Expr], Sequence[Candidate]],
    candidates: Sequence[Candidate],
    others: int,
) -> bool:
    """Whether so many units by expression certainly find room on new nodes, also after `others`
    nodes of any candidates were opened. Each expression is given to the candidate with the most
    room for it, alone; False says nothing."""
    nodes: dict[Limit, int] = {}
    cores: dict[Limit, int] = {}
    largest = max((candidate.cores for candidate in candidates), default=0)
    for expr, units in wanted.items():
        roomiest, most = None, 0
        for candidate in ranked(expr):
            fit = candidate.opening(expr)
            if isinstance(fit, Fit):
                room = min((a.room(candidate.cores) for a in candidate.limits), default=0)
                room = (room - candidate.reserved) * (1 if may_close(expr) else fit.count)
                if room > most:
                    roomiest, most = candidate, room
        if roomiest is None or most < units:
            return False
        fit = roomiest.opening(expr)
        each = fit.count if isinstance(fit, Fit) and not may_close(expr) else 1
        needed = -(-units // each) + roomiest.reserved
        for limit in roomiest.limits:
            nodes[limit] = nodes.get(limit, 0) + needed
            cores[limit] = cores.get(limit, 0) + needed * roomiest.cores
    return all(
        limit.bears(nodes[limit] + others, cores[limit] + others * largest) for limit in nodes
    )
