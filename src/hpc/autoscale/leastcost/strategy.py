"""A queue at the least cost: several ways to place it are tried on copies of the engine's state,
and the best of them is carried out.

The first way is to plan jobs together: those that ask for slots (one or many) by constraints that
the engine understands wholly, as far as there is room. All others (gangs, jobs that scatter or draw
on shared pools) are placed one by one in it, on the nodes that are cheapest for them. Where the
limits have room for more than all can need, nobody can take a place from anybody: the others are
placed first, and the rest is one plan. Otherwise the order of the queue holds: only what stands
together in the queue is planned together, and those who came first are served first. The other ways
are first fit under each order policy.

Shared pools have no copy: they are charged while a way is tried, and then given back.

What cannot be tried on a copy (constraints that must be asked node by node, or that charge pools in
a way of their own) parts the queue; each part is tried by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.job.placement import FirstFit, Listener, asked_by
from hpc.autoscale.leastcost.execution import LeastCost
from hpc.autoscale.leastcost.queue import EngineCopy, Layout, QueuePlan, Wanted
from hpc.autoscale.node.constraints import (
    SharedConsumableConstraint,
    SharedNonConsumableConstraint,
    pool_room,
)
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.order import OrderPolicy, cheapest
from hpc.autoscale.packing.planner import StalePlan
from hpc.autoscale.results.costs import PlanCost

MOST_PLANNED = 2_000
"""Different constraints in all plans for one queue together; what is left then is placed one by
one."""
_CHARGES = (SharedConsumableConstraint, SharedNonConsumableConstraint)
"""Those of which it is known what they charge."""

_PLAN = 50
"""What any plan costs besides, in different constraints."""


def new_strategy(manager: NodeManager, config: Mapping[str, Any]) -> LeastCostQueue:
    """The strategy that a configuration asks for whose objective is the cost."""
    return LeastCostQueue(LeastCost.from_config(manager, config))


class _QueuedJob:
    """One job of a queue. `request`: what is left of it when the queue begins.
    `can_be_tried`: the engine alone can say where it would go. `is_plain`: it can be planned
    together with others."""

    def __init__(self, least_cost: LeastCost, job: Job) -> None:
        self.job = job
        self.compiled, self.request = asked_by(job)[:2]
        sorted_ = least_cost.placer.sorting_of(self.compiled)
        self.expr = sorted_.common
        self._pooled = sorted_.pooled
        # subclasses may charge what nobody knows how to give back
        are_known = all(type(each) in _CHARGES for each in self._pooled)
        self.can_be_tried = self.request.units > 0 and are_known and not sorted_.needs_probe
        is_slots = self.can_be_tried and job.node_count <= 0 and not self.request.whole
        self.is_plain = is_slots and not self._pooled and least_cost.can_plan(self.expr)

    def try_on(self, copy: EngineCopy, units: int) -> int:
        """Place so many units on a copy by first fit, as far as its pools have enough, which are
        charged for that; how many it was."""
        room = min(units, pool_room(self._pooled)) if self._pooled else units
        if room < (units if self.request.whole else 1):
            return 0
        placed = copy.place(self.expr, self.request._replace(units=room))
        if placed:
            for each in self._pooled:
                each.pay(placed)
        return placed


@contextmanager
def _pools_kept(part: Sequence[_QueuedJob]) -> Iterator[None]:
    """Afterwards the pools of jobs are as they were."""
    kept = [(each, each.saved()) for queued in part for each in queued._pooled]
    try:
        yield
    finally:
        for each, was in kept:
            each.restore(was)


class _Planned(NamedTuple):
    """Jobs that were planned together, and where they are to go, by their numbers."""

    jobs: Sequence[_QueuedJob]
    layout: Layout
    plan: QueuePlan


_Move = _Planned | _QueuedJob
"""What is done in one go: jobs of a plan, or a job by first fit."""


class LeastCostQueue:
    """Places queues at the least cost; first fit places what is in no plan."""

    def __init__(self, least_cost: LeastCost) -> None:
        self._least_cost = least_cost
        self._first_fit = FirstFit(least_cost.manager)
        self._listener: Listener | None = None
        self._explain = False
        # what jobs came to that were placed, or the rest of them, by themselves
        self._outcomes: dict[int, Outcome] = {}

    @property
    def cost(self) -> PlanCost | None:
        """See `Strategy`."""
        return self._least_cost.cost

    def place(self, jobs: Sequence[Job], listener: Listener | None, explain: bool) -> list[Outcome]:
        """See `Strategy`."""
        self._listener, self._explain = listener, explain
        self._outcomes.clear()
        before = [job.iterations_remaining for job in jobs]
        self._least_cost.start(len(jobs))
        try:
            for part in self._parts(jobs):
                if isinstance(part, Job):
                    self._place_alone(part)
                elif part:
                    self._place_part(part)
        finally:
            self._least_cost.finish()
        return [self._outcome(job, units) for job, units in zip(jobs, before, strict=True)]

    def _outcome(self, job: Job, before: int) -> Outcome:
        """What a job came to, in a plan and by itself."""
        alone = self._outcomes.get(id(job))
        placed = before - job.iterations_remaining
        if alone is None:
            return Outcome(self._least_cost.manager, job, placed)
        if job.node_count > 0 or alone.units == placed:
            return alone
        return Outcome(self._least_cost.manager, job, placed, error=alone.error)

    def _place_alone(self, job: Job) -> None:
        self._outcomes[id(job)] = self._first_fit.place_one(job, self._listener, self._explain)

    def _parts(self, jobs: Sequence[Job]) -> list[Job | list[_QueuedJob]]:
        """The queue, parted at the jobs that cannot be tried, which are by themselves. Where there
        is room for all, these come first, and the rest is one part."""
        queue: list[Job | _QueuedJob] = []
        for job in jobs:
            try:
                queued = _QueuedJob(self._least_cost, job)
            except Exception:
                if self._listener is None:
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
            if isinstance(each, _QueuedJob) and parts and isinstance(parts[-1], list):
                parts[-1].append(each)
            else:
                parts.append([each] if isinstance(each, _QueuedJob) else each)
        return parts

    def _is_room(self, part: Sequence[_QueuedJob], others: int = 0) -> bool:
        """Whether new nodes alone have room for a part and so many nodes of others. It then does
        not matter who goes first."""
        copy, wanted = self._least_cost.copy(cheapest, has_nodes=False), 0
        for queued in part:
            if queued.is_plain:
                wanted += queued.request.units
                copy.place(queued.expr, queued.request)
            else:
                others += queued.request.units
        return copy.score.units == wanted and copy.bears(others)

    def _place_part(self, part: list[_QueuedJob]) -> None:
        """Place jobs in the best of the ways that were tried. Where a plan is near its bound, no
        other is tried."""
        least_cost = self._least_cost
        planned = _PlannedWay(least_cost, least_cost.copy(cheapest))
        is_plain = all(queued.is_plain for queued in part)
        try:
            with _pools_kept(part):
                planned.run(part, others_first=not is_plain and self._is_room(part))
        except Exception:
            if self._listener is None:
                raise
            self._make(part)
            return
        moves: Sequence[_Move] = planned.moves
        first = moves[0].plan if isinstance(moves[0], _Planned) else None
        best, name = planned.copy, ""
        policy: OrderPolicy = cheapest
        if first is None or not first.is_best or len(moves) > 1:
            total = sum(queued.request.units for queued in part)
            for other, tried in least_cost.policies().items():
                copy = least_cost.copy(tried)
                with _pools_kept(part):
                    for queued in part:
                        queued.try_on(copy, queued.request.units)
                        hoped = copy.score._replace(units=total)
                        if best.score.units == total and best.score.is_better_than(hoped):
                            break
                if copy.score.is_better_than(best.score):
                    best, moves, policy, name = copy, part, tried, other
        with least_cost.placer.asked_in_order_of(policy):
            self._make(moves)
        if name and is_plain and first is not None and first.stopped_at is None:
            least_cost.note_first_fit(name, best.opened, first.solution)

    def _make(self, moves: Sequence[_Move]) -> None:
        """Place jobs for good, as was tried on a copy. Jobs of a plan that cannot be carried out
        are placed one by one."""
        for move in moves:
            jobs = self._carry_out(move) if isinstance(move, _Planned) else (move,)
            for job in (queued.job for queued in jobs):
                if job.node_count > 0 or job.iterations_remaining > 0:
                    self._place_alone(job)

    def _carry_out(self, planned: _Planned) -> Sequence[_QueuedJob]:
        """Carry out a plan; the jobs of one that cannot be. Errors are raised where no listener
        takes them."""
        jobs, layout, plan = planned
        try:
            self._least_cost.carry_out([queued.job.name for queued in jobs], layout, plan.solution)
        except StalePlan:
            return jobs
        except Exception:
            if self._listener is None:
                raise
            return jobs
        for number, queued in enumerate(jobs):
            queued.job.iterations_remaining -= layout.units(number)
            if number in layout.placed and results.HANDLERS:
                if self._listener is not None:
                    self._listener.begins(queued.job)
                self._least_cost.tell(queued.compiled, layout.placed[number])
        return ()


class _PlannedWay:
    """The way of placing jobs that plans them together, as far as they can be planned, tried on a
    copy of the engine's state. `moves`: what was done, one after another."""

    def __init__(self, least_cost: LeastCost, copy: EngineCopy) -> None:
        self.copy = copy
        self.moves: list[_Move] = []
        self._least_cost = least_cost
        # how much of a job is still to be placed, once some of it was
        self._left: dict[_QueuedJob, int] = {}
        # constraints in plans so far
        self._planned = 0
        # expressions for which there is no room any more; there will be none later in this pass
        self._exhausted: set[Expr] = set()
        self._later: list[_QueuedJob] = []

    def run(self, part: Sequence[_QueuedJob], others_first: bool) -> None:
        """Place all that has room. `others_first`: what is not plain is placed before all plans,
        not in its turn."""
        if others_first:
            for queued in part:
                if not queued.is_plain:
                    self._place(queued)
            part = [queued for queued in part if queued.is_plain]
        start = 0
        while start < len(part):
            if part[start].is_plain and self._planned < MOST_PLANNED:
                end = start + 1
                while end < len(part) and part[end].is_plain:
                    end += 1
                start += self._plan(part[start:end])
            else:
                self._place(part[start])
                start += 1
        for queued in self._later:
            self._place(queued)

    def _units_left(self, queued: _QueuedJob) -> int:
        return self._left.get(queued, queued.request.units)

    def _place(self, queued: _QueuedJob) -> None:
        """Place what is left of a job by first fit."""
        left = self._units_left(queued)
        self.moves.append(queued)
        self._left[queued] = left - queued.try_on(self.copy, left)

    def _plan(self, part: Sequence[_QueuedJob]) -> int:
        """Plan jobs as far as there is room; how many were looked at."""
        end = len(part)
        taking = [i for i, queued in enumerate(part) if queued.expr not in self._exhausted]
        planned: set[int] = set()
        if taking:
            jobs = [part[index] for index in taking]
            self._planned += len({queued.expr for queued in jobs}) + _PLAN
            wanted = [Wanted(queued.expr, self._units_left(queued)) for queued in jobs]
            plan = self._least_cost.plan(self.copy, wanted)
            if plan is None:
                for queued in part:
                    self._place(queued)
                return end
            layout = self.copy.commit(plan)
            self.moves.append(_Planned(jobs, layout, plan))
            for number, queued in enumerate(jobs):
                self._left[queued] = self._units_left(queued) - layout.units(number)
            if plan.stopped_at is not None:
                end = taking[plan.stopped_at] + 1
            planned = set(taking) - {taking[number] for number in plan.unplaceable}
        for index, queued in enumerate(part[:end]):
            if index not in planned:
                self._later.append(queued)
            elif self._units_left(queued):
                self._place(queued)
                if self._units_left(queued):
                    self._exhausted.add(queued.expr)
        return end
