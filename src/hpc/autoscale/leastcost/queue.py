"""A queue in the least-cost mode: a plan for the longest part of it that can be placed wholly, what
that plan means for each demand and node, and a copy of the engine's state to try ways on.

Where there is room for everything, the order of the queue does not matter and all of it is one
problem. Where there is not, those who came first are served first: the plan ends at a demand, if
need be within it, so that all before it is placed and nothing more of it can be.

From the plan to the nodes, each placement is asked of the engine on the node as it then is, so the
outcome is right even where the problem is a simpler picture. Units that the engine does not take
where the plan has them are left out."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from hpc.autoscale.leastcost.generation import (
    Effort,
    Solution,
    first_lots,
    has_many_items,
    solve,
)
from hpc.autoscale.leastcost.greedy import greedy
from hpc.autoscale.leastcost.problem import (
    Bin,
    Item,
    Lot,
    Pattern,
    PriceOf,
    Problem,
    Ranked,
    known_price,
    may_close,
)
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.plan import Plan, Request, Step, opened_of
from hpc.autoscale.packing.planner import Planner, copied_planner
from hpc.autoscale.packing.shape import NodeShape

_AS_GOOD_AS_BEST = 2e-4
"""A plan that is at most so far above its bound is not worth holding against other ways."""


class Wanted(NamedTuple):
    """A demand for `units` slots, with an expression that `is_plain`."""

    expr: Expr
    units: int


class Share(NamedTuple):
    """Demand number `demand` is planned with `units` of item `item`."""

    demand: int
    item: int
    units: int


class Layout(NamedTuple):
    """`plan`: all that changes, for the engine to apply. `placed`: the same by demand, as if the
    new nodes were there already. On every node the steps follow one another in the order of the
    demands here."""

    plan: Plan
    placed: dict[int, list[Step]]

    def units(self, demand: int) -> int:
        """Units placed of a demand."""
        return sum(step.units for step in self.placed.get(demand, ()))

    def moved(self, to: Mapping[Candidate, Candidate]) -> Layout:
        """This layout for other candidates in the same state."""

        def moved(steps: Sequence[Step]) -> list[Step]:
            parts = ((s.lo, s.hi, s.units, s.before, s.after, s.opened) for s in steps)
            return [Step(to[s.candidate], *each) for s, each in zip(steps, parts, strict=True)]

        placed = {demand: moved(steps) for demand, steps in self.placed.items()}
        return Layout(Plan(moved(self.plan.steps), self.plan.units), placed)


class QueuePlan(NamedTuple):
    """A plan for a queue, or for the first part of it. `shares`: who is planned with how much.
    `stopped_at`: the number of the demand at which room ends; None where all is planned.
    `unplaceable`: numbers of demands that fit nowhere even alone; they are not planned."""

    problem: Problem
    solution: Solution
    shares: list[Share]
    stopped_at: int | None
    unplaceable: list[int]

    @property
    def is_best(self) -> bool:
        """Whether all is placed, and no way to place it costs noticeably less."""
        solution = self.solution
        whole = self.stopped_at is None and not self.unplaceable and not any(solution.unplaced)
        reached = solution.price <= solution.bound * (1 + _AS_GOOD_AS_BEST)
        return whole and reached and not solution.unpriced


def plan_queue(
    queue: Sequence[Wanted], ranked: Ranked, price_of: PriceOf, effort: Effort | None
) -> QueuePlan | None:
    """Plan as much of a queue as there is room for, in its order. Changes nothing. None where
    thousands of different demands do not all find room, or numpy or highspy is missing for
    them."""
    items, item_of = _items(queue)
    problem = Problem.of(items, ranked, price_of)
    nowhere = set(problem.unplaceable)
    unplaceable = [d for d, item in enumerate(item_of) if item in nowhere]
    shares = [
        Share(d, item, wanted.units)
        for d, (item, wanted) in enumerate(zip(item_of, queue, strict=True))
        if item not in nowhere
    ]
    problem = _of_shares(problem, shares)
    lots = first_lots(problem)
    stopped_at: int | None = None
    if any(problem.left_over(lots)):
        if has_many_items(problem):
            return None
        shares, stopped_at = _first_part(problem, shares)
        problem, lots = _of_shares(problem, shares), []
    return QueuePlan(problem, solve(problem, effort, lots), shares, stopped_at, unplaceable)


def _items(queue: Sequence[Wanted]) -> tuple[list[Item], list[int]]:
    """Equal demands as one item, in the order of first appearance; the item of each demand."""
    numbers: dict[object, int] = {}
    items: list[Item] = []
    item_of = []
    closing: dict[Expr, bool] = {}
    for number, (expr, units) in enumerate(queue):
        if expr not in closing:
            closing[expr] = may_close(expr)
        alone = closing[expr] and units > 1
        item = numbers.setdefault((expr, number) if alone else expr, len(items))
        if item == len(items):
            items.append(Item(expr, 0, alone))
        items[item] = items[item]._replace(units=items[item].units + units)
        item_of.append(item)
    return items, item_of


def _of_shares(problem: Problem, shares: Sequence[Share]) -> Problem:
    units = [0] * len(problem.items)
    for share in shares:
        units[share.item] += share.units
    return problem.changed(units)


def _first_part(problem: Problem, shares: Sequence[Share]) -> tuple[list[Share], int]:
    """The longest first part of the shares that a greedy plan places, by bisection, and the demand
    at which it ends."""
    ends = list(accumulate(share.units for share in shares))

    def first(units: int) -> list[Share]:
        index = bisect_left(ends, units)
        whole = list(shares[:index])
        rest = units - (ends[index - 1] if index else 0)
        return [*whole, shares[index]._replace(units=rest)] if rest else whole

    fits, too_many = 0, ends[-1]
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        part = _of_shares(problem, first(middle))
        if any(part.left_over(greedy(part))):
            too_many = middle
        else:
            fits = middle
    return first(fits), shares[bisect_left(ends, fits + 1)].demand


def lay_out(problem: Problem, lots: Iterable[Lot], shares: Iterable[Share]) -> Layout:
    """Give the nodes of a plan to demands, first come, first served. Cost: the steps."""
    layout = _LayingOut(problem, shares)
    for lot in lots:
        layout.add(lot)
    return layout.finished()


class _LayingOut:
    """A layout in the making."""

    def __init__(self, problem: Problem, shares: Iterable[Share]) -> None:
        self._problem = problem
        # by item: [demand, units to be placed] in the order of the queue
        self._waiting: list[deque[list[int]]] = [deque() for _ in problem.items]
        self._rank: dict[int, tuple[int, int]] = {}
        for demand, item, units in shares:
            if units > 0:
                self._rank[demand] = (item, demand)
                self._waiting[item].append([demand, units])
        self._used: Counter[int] = Counter()
        self._opened: Counter[Candidate] = Counter()
        self._placed: dict[int, list[Step]] = {}
        self._nodes: list[Step] = []

    def add(self, lot: Lot) -> None:
        """Lay out the nodes of one lot."""
        bin_ = self._problem.bins[lot.bin]
        candidate = bin_.candidate
        for _ in range(lot.nodes):
            if not any(self._waiting[item] for item, _ in lot.pattern):
                break
            if bin_.opened:
                position = len(candidate.shapes) + self._opened[candidate]
            else:
                position = bin_.positions[self._used[lot.bin]]
            after = self._fill(bin_, position, lot.pattern)
            if after is None:
                break  # the engine takes nothing of it, on none of these nodes
            self._used[lot.bin] += 1
            self._opened[candidate] += bin_.opened
            step = Step(candidate, position, position + 1, 1, bin_.shape, after, bin_.opened)
            _extend(self._nodes, step)

    def _fill(self, bin_: Bin, position: int, pattern: Pattern) -> NodeShape | None:
        """Fill one node; what it then looks like, None when it takes nothing."""
        shape = bin_.shape
        took = False
        for item, units in pattern:
            waiting = self._waiting[item]
            while units and waiting:
                first = waiting[0]
                answer = self._problem.ask(shape, item, min(units, first[1]))
                if answer is None:
                    break
                times, after = answer
                step = Step(bin_.candidate, position, position + 1, times, shape, after, False)
                _extend(self._placed.setdefault(first[0], []), step)
                shape, took = after, True
                units -= times
                first[1] -= times
                if not first[1]:
                    waiting.popleft()
        return shape if took else None

    def finished(self) -> Layout:
        """The layout of all that was added."""
        units = sum(step.units for steps in self._placed.values() for step in steps)
        # every node is filled in the order of items, and with each in the order of the queue
        ordered = dict(sorted(self._placed.items(), key=lambda pair: self._rank[pair[0]]))
        return Layout(Plan(self._nodes, units), ordered)


def _extend(steps: list[Step], step: Step) -> None:
    """Add a step, as part of the last one where that is equal and on the node right before it."""
    joined = steps[-1].joined(step) if steps else None
    if joined is None:
        steps.append(step)
    else:
        steps[-1] = joined


class Score(NamedTuple):
    """What a way to place a queue comes to, so that the better of two is the greater: units placed,
    nodes of unknown price and price per hour of what is opened, the latter two below 0."""

    units: int = 0
    less_unpriced: int = 0
    less_price: float = 0.0

    def is_better_than(self, other: Score) -> bool:
        """Whether it is better by more than rounding."""
        if self[:2] != other[:2]:
            return self[:2] > other[:2]
        return self.less_price > other.less_price + 1e-9 * abs(other.less_price)


class EngineCopy:
    """A copy of the engine's state, to try placing demands on. Its candidates are in declared order
    until `planner.arrange` is set. `original_of`: candidates by their copies. `opened`: nodes of
    each original that were added to those that run. `score`: of what was placed so far.
    `has_nodes` false: there are no nodes yet, and limits are charged for those that there are."""

    def __init__(self, planner: Planner, price_of: PriceOf, has_nodes: bool = True) -> None:
        self.planner, self.original_of = copied_planner(planner, has_nodes)
        self._price_of = price_of
        self.opened: Counter[Candidate] = Counter()
        self.score = Score()

    def place(self, expr: Expr, request: Request) -> int:
        """Place one demand by first fit; how many units."""
        plan = self.planner.plan(self.planner.cursor(expr), request, explain=False)
        if plan:
            self._apply(plan)
        return plan.units

    def bears(self, others: int) -> bool:
        """Whether the limits of what was opened have room for so many nodes of any kind beside."""
        candidates = self.planner.candidates
        others += sum(each.reserved for each in candidates)
        cores = others * max(each.cores for each in candidates)
        charged = [each for each in candidates if self.opened[self.original_of[each]]]
        return all(limit.bears(others, cores) for each in charged for limit in each.limits)

    def plan(self, queue: Sequence[Wanted], effort: Effort | None) -> QueuePlan | None:
        """A plan for a queue, as `plan_queue` makes it."""
        return plan_queue(
            queue,
            lambda expr: self.planner.ranking(expr).candidates,
            lambda candidate: self._price_of(self.original_of[candidate]),
            effort,
        )

    def commit(self, plan: QueuePlan) -> Layout:
        """Apply a plan; what it means for the originals."""
        layout = lay_out(plan.problem, plan.solution.lots, plan.shares)
        if layout.plan:
            self.planner.adopt(layout.plan)
            self._apply(layout.plan)
        return layout.moved(self.original_of)

    def _apply(self, plan: Plan) -> None:
        self.planner.apply(plan)
        units, unpriced, price = self.score
        for copied, nodes in opened_of(plan.steps).items():
            candidate = self.original_of[copied]
            self.opened[candidate] += nodes
            each = known_price(self._price_of(candidate))
            if each is None:
                unpriced -= nodes
            else:
                price -= each * nodes
        self.score = Score(units + plan.units, unpriced, price)
