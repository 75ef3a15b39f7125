"""A queue at the least cost: several ways to place it are tried, and the best of them is carried
out.

The first way is to plan jobs together: those that ask for slots (one or many) by constraints that
the engine understands wholly, as far as there is room. All others (gangs, jobs that scatter) are
placed one by one in it, on the nodes that are cheapest for them. Where the limits have room for
more than all can need, nobody can take a place from anybody: the others are placed first, and the
rest is one plan. Otherwise the order of the queue holds: only what stands together in the queue is
planned together, and those who came first are served first. The other ways are first fit under each
order policy.

What is not left to a copy of the engine's state to try (constraints that must be asked node by
node, or that charge pools) parts the queue; each part is tried by itself. Called by
`DemandCalculator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.job.job import Job, Outcome, PackingStrategy
from hpc.autoscale.job.placement import FirstFit, Listener
from hpc.autoscale.node.nodemanager.leastcost import Demand, LeastCost
from hpc.autoscale.packing.leastcost.queue import EngineCopy, QueuePlan, Wanted
from hpc.autoscale.packing.order import cheapest

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager
    from hpc.autoscale.packing.expr import Expr

MOST_PLANNED = 2_000
"""Different constraints in all plans for one queue together; what is left then is placed one by
one."""
_PLAN = 50
"""What any plan costs besides, in different constraints."""


class _QueuedJob:
    """One job of a queue. `request`: what is left of it when the queue begins.
    `can_be_tried`: the engine alone can say where it would go. `is_plain`: it can be planned
    together with others."""

    def __init__(self, manager: NodeManager, least_cost: LeastCost, job: Job) -> None:
        self.job = job
        scatters = job.packing_strategy == PackingStrategy.SCATTER
        self.request = job._request(job.colocated or scatters)
        compiled = job._compile()
        demand = manager._placer.sorting_of(compiled)
        self.expr = demand.common
        self.can_be_tried = least_cost.can_try(demand) and self.request.units > 0
        self.is_plain = (
            self.can_be_tried
            and job.node_count <= 0
            and not (job.colocated or scatters)
            and least_cost.takes_part(manager, compiled)
        )
        self.demand = Demand(compiled, job.name)


class LeastCostQueue:
    """Places queues at the least cost. `first_fit` places what is in no plan."""

    def __init__(self, manager: NodeManager, least_cost: LeastCost, first_fit: FirstFit) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._first_fit = first_fit

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """See `Strategy`."""
        before = [job.iterations_remaining for job in jobs]
        target = _RealTarget(self._manager, self._least_cost, self._first_fit, listener)
        self._least_cost.start(self._manager, len(jobs))
        try:
            for part in self._parts(jobs, listener):
                if isinstance(part, Job):
                    target.place_job(part)
                elif part:
                    self._place_part(target, part)
        finally:
            self._least_cost.finish(self._manager)
        return [target.outcome(job, units) for job, units in zip(jobs, before, strict=True)]

    def _parts(
        self, jobs: Sequence[Job], listener: Listener | None
    ) -> list[Job | list[_QueuedJob]]:
        """The queue, parted at the jobs that cannot be tried, which are by themselves. Where there
        is room for all, these come first, and the rest is one part."""
        queue: list[Job | _QueuedJob] = []
        for job in jobs:
            try:
                queued = _QueuedJob(self._manager, self._least_cost, job)
            except Exception:
                if listener is None:
                    raise
                # placed by itself it raises the error again, and there the listener takes it
                queue.append(job)
            else:
                queue.append(queued if queued.can_be_tried else job)
        tried = [queued for queued in queue if isinstance(queued, _QueuedJob)]
        others = [job for job in queue if isinstance(job, Job)]
        if others and self._is_room(tried, sum(max(j.node_count, j.iterations) for j in others)):
            return [*others, tried]
        parts: list[Job | list[_QueuedJob]] = []
        for each in queue:
            if isinstance(each, Job):
                parts.append(each)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(each)
            else:
                parts.append([each])
        return parts

    def _is_room(self, part: Sequence[_QueuedJob], others: int = 0) -> bool:
        """Whether the limits have room for more than a part and so many nodes of others can
        need."""
        others += sum(queued.request.units for queued in part if not queued.is_plain)
        plain = [Wanted(queued.expr, queued.request.units) for queued in part if queued.is_plain]
        return self._least_cost.has_room_for_all(self._manager, plain, others)

    def _place_part(self, target: _RealTarget, part: list[_QueuedJob]) -> None:
        """Place jobs in the best of the ways that were tried."""
        manager, least_cost = self._manager, self._least_cost
        others_first = not all(a.is_plain for a in part) and self._is_room(part)
        first: QueuePlan | None = None
        if all(queued.is_plain for queued in part):
            first = target.make_plan(part)
            if first is not None and first.is_best:
                target.plans = [first]
                _PlannedWay(target, part, others_first).run()
                return
        tried_on = _CopyTarget(least_cost, least_cost.copy(manager, cheapest), first)
        _PlannedWay(tried_on, part, others_first).run()
        best, way = tried_on.copy.score, ""
        total = sum(queued.request.units for queued in part)
        policies = least_cost.policies(manager)
        for name, policy in policies.items():
            copy = least_cost.copy(manager, policy)
            for queued in part:
                copy.place(queued.expr, queued.request)
                if best.units == total and best.is_better_than(copy.score._replace(units=total)):
                    break
            if copy.score.is_better_than(best):
                best, way = copy.score, name
        if not way:
            target.plans = tried_on.plans
            with manager._placer.asked_in_order_of(cheapest):
                _PlannedWay(target, part, others_first).run()
            return
        with manager._placer.asked_in_order_of(policies[way]):
            for queued in part:
                target.place(queued)
        if first is not None and first.stopped_at is None:
            least_cost.note_first_fit(manager, way, first.solution)


class _PlannedWay:
    """The way of placing jobs that plans them together, as far as they can be planned.
    `others_first`: those that cannot be are placed before all plans, not in their turn."""

    def __init__(
        self, target: _CopyTarget | _RealTarget, part: Sequence[_QueuedJob], others_first: bool
    ) -> None:
        self._target = target
        self._part = part
        self._others_first = others_first
        self._planned = 0
        # expressions for which there is no room any more; there will be none later in this pass
        self._exhausted: set[Expr] = set()
        self._later: list[_QueuedJob] = []

    def run(self) -> None:
        """Place all that has room."""
        part = self._part
        if self._others_first:
            for queued in part:
                if not queued.is_plain:
                    self._target.place(queued)
            part = [queued for queued in part if queued.is_plain]
        start = 0
        while start < len(part):
            if part[start].is_plain and self._planned < MOST_PLANNED:
                end = start + 1
                while end < len(part) and part[end].is_plain:
                    end += 1
                start += self._plan(part[start:end])
            else:
                self._target.place(part[start])
                start += 1
        for queued in self._later:
            self._target.place(queued)

    def _plan(self, part: Sequence[_QueuedJob]) -> int:
        """Plan jobs as far as there is room; how many were looked at."""
        end = len(part)
        taking = [i for i, queued in enumerate(part) if queued.expr not in self._exhausted]
        planned: set[int] = set()
        if taking:
            self._planned += len({part[index].expr for index in taking}) + _PLAN
            plan = self._target.plan([part[index] for index in taking])
            if plan is None:
                for queued in part:
                    self._target.place(queued)
                return end
            if plan.stopped_at is not None:
                end = taking[plan.stopped_at] + 1
            planned = set(taking) - {taking[number] for number in plan.unplaceable}
        for index, queued in enumerate(part[:end]):
            if index not in planned:
                self._later.append(queued)
            elif self._target.left(queued):
                self._target.place(queued)
                if self._target.left(queued):
                    self._exhausted.add(queued.expr)
        return end


class _CopyTarget:
    """A copy of the engine's state. `first`: the first plan, where it is known. `plans`: all plans
    that were made, to be carried out on the cluster."""

    def __init__(self, least_cost: LeastCost, copy: EngineCopy, first: QueuePlan | None) -> None:
        self.copy = copy
        self.plans: list[QueuePlan | None] = []
        self._first = first
        self._least_cost = least_cost
        self._left: dict[_QueuedJob, int] = {}

    def left(self, queued: _QueuedJob) -> int:
        """How much of a job is still to be placed."""
        return self._left.get(queued, queued.request.units)

    def place(self, queued: _QueuedJob) -> None:
        """Place what is left of a job by first fit."""
        request = queued.request._replace(units=self.left(queued))
        if request.units > 0:
            self._left[queued] = request.units - self.copy.place(queued.expr, request)

    def plan(self, part: Sequence[_QueuedJob]) -> QueuePlan | None:
        """Plan jobs together and place what is planned. None where that raised an error or there is
        no plan: nothing was placed, and the jobs are to be placed one by one."""
        plan, self._first = self._first, None
        if plan is None:
            wanted = [Wanted(queued.expr, self.left(queued)) for queued in part]
            plan = self._least_cost.plan(self.copy.planner, wanted, self.copy.price_of)
            self.plans.append(plan and plan.moved(self.copy.original_of))
        else:
            self.plans.append(plan)
            plan = plan.moved(self.copy.copy_of)
        if plan is None:
            return None
        layout = plan.layout()
        if layout.plan:
            self.copy.commit(layout.plan)
        for number, queued in enumerate(part):
            self._left[queued] = self.left(queued) - layout.units(number)
        return plan


class _RealTarget:
    """The manager, on which a queue is placed for good. `plans`: made before on a copy, to be
    carried out one after another."""

    def __init__(
        self,
        manager: NodeManager,
        least_cost: LeastCost,
        first_fit: FirstFit,
        listener: Listener | None,
    ) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._first_fit = first_fit
        self._listener = listener
        self.plans: list[QueuePlan | None] = []
        # what jobs came to that were placed, or the rest of them, by themselves
        self._outcomes: dict[int, Outcome] = {}

    def outcome(self, job: Job, before: int) -> Outcome:
        """What a job came to, in a plan and by itself."""
        alone = self._outcomes.get(id(job))
        placed = before - job.iterations_remaining
        if alone is None:
            return Outcome(self._manager, job, placed)
        if job.node_count > 0 or alone.units == placed:
            return alone
        return Outcome(self._manager, job, placed, error=alone.error)

    def left(self, queued: _QueuedJob) -> int:
        """See `_CopyTarget`."""
        return queued.job.iterations_remaining

    def place(self, queued: _QueuedJob) -> None:
        """See `_CopyTarget`."""
        self.place_job(queued.job)

    def place_job(self, job: Job) -> None:
        """Place a job by first fit."""
        self._outcomes[id(job)] = self._first_fit.place_one(job, self._listener)

    def make_plan(self, part: Sequence[_QueuedJob]) -> QueuePlan | None:
        """Plan jobs; None where there is no plan, or the listener takes the error."""
        wanted = [Wanted(queued.expr, self.left(queued)) for queued in part]
        try:
            return self._least_cost.plan_for(self._manager, wanted)
        except Exception:
            if self._listener is None:
                raise
            return None

    def plan(self, part: Sequence[_QueuedJob]) -> QueuePlan | None:
        """See `_CopyTarget`. Errors are raised where no listener takes them."""
        plan = self.plans.pop(0) if self.plans else self.make_plan(part)
        if plan is None:
            return None
        least_cost, manager, demands = self._least_cost, self._manager, [a.demand for a in part]
        try:
            layout = least_cost.place(manager, demands, plan)
        except Exception:
            if self._listener is None:
                raise
            return None
        for number, queued in enumerate(part):
            queued.job.iterations_remaining -= layout.units(number)
        least_cost.tell(manager, demands, layout, lambda number: self._begins(part[number].job))
        return plan

    def _begins(self, job: Job) -> None:
        if self._listener is not None:
            self._listener.begins(job)
