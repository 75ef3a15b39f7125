"""What the strategy asks of a cluster: prices, copies of the engine's state, and plans that are
made true on buckets and nodes; what they cost is added up.

Prices come from the catalogue or the user's own list, and the time that may be spent from the
configuration. Which jobs take part and what happens to the others is the business of `strategy`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.leastcost.generation import COLUMNS, Effort, Solution, gap_of
from hpc.autoscale.leastcost.problem import PriceOf, is_plain
from hpc.autoscale.leastcost.queue import (
    EngineCopy,
    Layout,
    QueuePlan,
    Wanted,
)
from hpc.autoscale.leastcost.searches import SEARCHES, Searches
from hpc.autoscale.node.constraints import Compiled
from hpc.autoscale.node.nodemanager.manager import NodeManager, placer_of
from hpc.autoscale.node.nodemanager.placing import Decision
from hpc.autoscale.node.nodemanager.policies import (
    arrange_by,
    arrangement,
    offering_of,
    policy_named,
)
from hpc.autoscale.node.nodemanager.reporting import report
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.order import BUILT_IN, OrderPolicy, declared
from hpc.autoscale.packing.plan import Plan, Request, Step, opened_of
from hpc.autoscale.results import AllocationResult
from hpc.autoscale.results.costs import FIRST_FIT, PlanCost

USUAL_SECONDS = 0.25
MOST_ROUNDS = 1_000


@cache
def _say_what_is_missing(key: str) -> None:
    """Once: a user who asks for more than the greedy plan is not to believe that it was looked
    for."""
    logging.warning(
        "packing.%s: HiGHS is missing, so plans stay greedy: pip install 'hpc-autoscale[optimize]'",
        key,
    )


class LeastCost:
    """The least-cost mode of one calculator, on the nodes of a manager. `seconds` may be spent on
    planning one queue, by `clock`, which is the CPU time of the thread: a busy machine makes no
    worse plans. `rounds`: of column generation, 0 for none. `searches` hears how far they go, or
    says it."""

    def __init__(
        self,
        manager: NodeManager,
        seconds: float = USUAL_SECONDS,
        rounds: int = MOST_ROUNDS,
        clock: Callable[[], float] = time.thread_time,
        searches: Searches | None = None,
    ) -> None:
        self.manager = manager
        self.placer = placer_of(manager)
        self.seconds = seconds
        self.rounds = rounds
        self.clock = clock
        self.searches = searches or Searches()
        self.cost: PlanCost | None = None
        self._left = seconds
        self._plain: dict[Expr, bool] = {}
        # nodes by candidate that ran when the queue began
        self._before: dict[Candidate, int] = {}
        # of each plan for the queue: nodes that it added by candidate, its bound and its method
        self._noted: list[tuple[Mapping[Candidate, int], float, str]] = []
        # how many queues had a plan, and whether each was of one job
        self._queues = 0
        self._is_one_by_one = True

    @staticmethod
    def from_config(manager: NodeManager, config: Mapping[str, Any]) -> LeastCost:
        """As a configuration has it that asks for the least cost."""
        packing = config["packing"]
        rounds = int(packing.get("optimize_rounds", MOST_ROUNDS))
        asked = [key for key in ("optimize_seconds", "optimize_rounds") if packing.get(key)]
        if asked and rounds and not (find_spec("highspy") and find_spec("numpy")):
            _say_what_is_missing(asked[0])
        seconds = float(packing.get("optimize_seconds", USUAL_SECONDS))
        return LeastCost(manager, seconds, rounds, searches=config.get(SEARCHES))

    def can_plan(self, expr: Expr) -> bool:
        """Whether a job can be planned with others: nodes that look alike are alike to it."""
        plain = self._plain.get(expr)
        if plain is None:
            plain = self._plain[expr] = is_plain(expr)
        return plain

    def copy(self, policy: OrderPolicy, has_nodes: bool = True) -> EngineCopy:
        """A copy of the engine's state, with or without the nodes that there are, whose buckets are
        asked in the order of a policy."""
        self.placer.sync()
        copy = EngineCopy(self.placer.planner, self._price_of(), has_nodes)
        bucket_of, original_of = self.placer.bucket_of, copy.original_of
        arrange_by(policy, copy.planner, lambda copied: bucket_of(original_of[copied]))
        return copy

    def policies(self) -> dict[str, OrderPolicy]:
        """First fit under each of these is tried: all of the library and the one that is set, but
        for those that come to the declared order."""
        self.placer.sync()
        found: dict[str, OrderPolicy] = dict(BUILT_IN)
        of_manager = self.manager.order_policy
        name = of_manager if isinstance(of_manager, str) else repr(of_manager)
        found[name] = policy_named(of_manager) if isinstance(of_manager, str) else of_manager
        known = {s: offering_of(self.placer.bucket_of(s)) for s in self.placer.planner.candidates}

        def is_declared(policy: OrderPolicy) -> bool:
            candidates, by_need, *_ = arrangement(policy, known)
            return by_need is None and list(candidates) == list(known)

        return {n: p for n, p in found.items() if p is declared or not is_declared(p)}

    def plan(self, copy: EngineCopy, queue: Sequence[Wanted]) -> QueuePlan | None:
        """The plan for a queue in the time that is left, None where it cannot be planned; nothing
        is changed."""
        started: list[float] = []

        def left() -> float:
            # the time runs from when it is first asked for
            started.append(self.clock())
            return self._left - (started[-1] - started[0])

        effort = Effort(self.searches.watch(left), self.rounds) if self.rounds else None
        plan = copy.plan(queue, effort)
        self._left = left()
        return plan

    def carry_out(self, names: Sequence[str], layout: Layout, solution: Solution) -> None:
        """Make a plan for jobs of these names true. What naming a node raises, and StalePlan where
        nodes are not as they were when it was made, leave nothing changed."""
        if layout.plan:
            placed = [(names[number], steps) for number, steps in layout.placed.items()]
            self.placer.carry_out_jointly(layout.plan, placed)
            self._noted.append((opened_of(layout.plan.steps), solution.bound, solution.method))

    def tell(self, compiled: Compiled, steps: Sequence[Step]) -> None:
        """Tell handlers of results what became of a demand that found room."""
        placer, units = self.placer, sum(step.units for step in steps)
        ranking = placer.planner.ranking(placer.sorting_of(compiled).common)
        plan = Plan(steps, units)
        report(placer, compiled, Request(units), Decision("success", ranking, [], plan, list))
        # on one node there may be several steps
        nodes = {id(node): node for node in placer.nodes_of(plan)}
        AllocationResult("success", list(nodes.values()), units)

    def start(self, jobs: int) -> None:
        """A new queue of so many jobs: all the time is there again."""
        self._is_one_by_one = self._is_one_by_one and jobs == 1
        self.placer.sync()
        self._left = self.seconds
        candidates = self.placer.planner.candidates
        self._before = {candidate: _running(candidate) for candidate in candidates}
        self._noted.clear()

    def note_first_fit(
        self, policy: str, opened: Mapping[Candidate, int], planned: Solution
    ) -> None:
        """First fit under a policy has placed all that a plan was made for, and at a lower
        price."""
        if not planned.unpriced and not any(planned.unplaced):
            self._noted.append((opened, planned.bound, policy))

    def finish(self) -> None:
        """The queue is done: add what it opened, in plans and beside them, to the cost."""
        price_of = self._price_of()
        was = self.cost or PlanCost(0.0, 0.0, 0.0, FIRST_FIT, {})
        nodes = {candidate: _running(candidate) - n for candidate, n in self._before.items()}
        price, found = _add_up(nodes, price_of)
        unpriced = dict(Counter(was.unpriced) + found)
        planned, bound, method = was.planned_per_hour, was.lower_bound, was.method
        for opened, at_least, way in self._noted:
            part, _ = _add_up(opened, price_of)
            planned, bound = planned + part, bound + min(at_least, part)
            method = COLUMNS if method == COLUMNS else way
        self._queues += bool(self._noted)
        if self._noted or price or found:
            price += was.price_per_hour
            gap, others = gap_of(planned, bound), max(0.0, price - planned)
            about = max(1, self._queues), self._is_one_by_one
            self.cost = PlanCost(price, bound, gap, method, unpriced, others, *about)
            level = logging.warning if unpriced else logging.info
            level("Least cost: %s", self.cost)

    def _price_of(self) -> PriceOf:
        known: dict[Candidate, float | None] = {}

        def price(candidate: Candidate) -> float | None:
            if candidate not in known:
                bucket = self.placer.bucket_of(candidate)
                known[candidate] = price_per_hour(bucket.location, bucket.vm_size, bucket.spot)
            return known[candidate]

        return price


def _running(candidate: Candidate) -> int:
    """How many nodes of a candidate run, or are to."""
    return sum(shape is not None and not shape.dormant for shape in candidate.shapes)


def _add_up(opened: Mapping[Candidate, int], price_of: PriceOf) -> tuple[float, Counter[str]]:
    """The price of nodes, and how many of each bucket have none."""
    price, unpriced = 0.0, Counter[str]()
    for candidate, nodes in opened.items():
        each = price_of(candidate)
        if each is None:
            unpriced[candidate.name] += max(0, nodes)
        else:
            price += each * max(0, nodes)
    return price, +unpriced
