"""A queue at the least cost: which jobs are planned together, and who goes first.

Jobs that ask for slots (one or many) by constraints that the engine understands wholly are planned together, as far as
there is room. All others (gangs, jobs that scatter, constraints that must be asked node by node or that charge pools) are
placed one by one, as without this mode. Where the limits have room for more than all can need, nobody can take a place
from anybody: the others are placed first, and the rest is one plan. Otherwise the order of the queue holds: only what
stands together in the queue is planned together, and those who came first are served first. Called by
`DemandCalculator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.job.placement import FirstFit, Listener, Outcome
from hpc.autoscale.node.nodemanager.leastcost import Demand, LeastCost, Placement

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager
    from hpc.autoscale.packing.expr import Expr

MOST_PLANNED = 2_000
"""Different constraints in all plans for one queue together; what is left then is placed one by one."""
_PLAN = 50  # what a plan costs besides, in the same measure


class LeastCostQueue:
    """Places queues at the least cost. `first_fit` places what is in no plan."""

    def __init__(self, manager: NodeManager, least_cost: LeastCost, first_fit: FirstFit) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._first_fit = first_fit

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """See `Strategy`."""
        return _Pass(self._manager, self._least_cost, self._first_fit, listener).run(jobs)


class _Pass:
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
        self._planned = 0
        # expressions for which there is no room any more; there will be none later in this pass
        self._exhausted: set[Expr] = set()
        self._later: list[Job] = []
        # what jobs came to that were placed, or the rest of them, by themselves
        self._outcomes: dict[int, Outcome] = {}

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        before = [job.iterations_remaining for job in jobs]
        self._least_cost.start(self._manager)
        try:
            self._place(jobs)
        finally:
            self._least_cost.finish(self._manager)
        return [self._outcome(job, units) for job, units in zip(jobs, before, strict=True)]

    def _outcome(self, job: Job, before: int) -> Outcome:
        """What a job came to, in a plan and by itself."""
        alone = self._outcomes.get(id(job))
        placed = before - job.iterations_remaining
        if alone is None:
            return Outcome(self._manager, job, placed)
        if job.node_count > 0 or alone.units == placed:
            return alone
        return Outcome(self._manager, job, placed, error=alone.error)

    def _one_by_one(self, job: Job) -> None:
        self._outcomes[id(job)] = self._first_fit.place_one(job, self._listener)

    def _place(self, jobs: Sequence[Job]) -> None:
        takes_part = [self._takes_part(job) for job in jobs]
        if not all(takes_part) and self._is_room_for_all(jobs, takes_part):
            for job, takes in zip(jobs, takes_part, strict=True):
                if not takes:
                    self._one_by_one(job)
            jobs = [job for job, takes in zip(jobs, takes_part, strict=True) if takes]
            takes_part = [True] * len(jobs)
        start = 0
        while start < len(jobs):
            if takes_part[start] and self._planned < MOST_PLANNED:
                end = start + 1
                while end < len(jobs) and takes_part[end]:
                    end += 1
                start = self._plan(jobs, start, end)
            else:
                self._one_by_one(jobs[start])
                start += 1
        for job in self._later:
            self._one_by_one(job)

    def _is_room_for_all(self, jobs: Sequence[Job], takes_part: Sequence[bool]) -> bool:
        planned = [job for job, takes in zip(jobs, takes_part, strict=True) if takes]
        others = sum(
            job.node_count if job.node_count > 0 else max(0, job.iterations_remaining)
            for job, takes in zip(jobs, takes_part, strict=True)
            if not takes
        )
        demands = [Demand(job._compile(), job.iterations_remaining, job.name) for job in planned]
        return self._least_cost.has_room_for_all(self._manager, demands, others)

    def _takes_part(self, job: Job) -> bool:
        try:
            return self._is_plain(job)
        except Exception:
            if self._listener is None:
                raise
            return False  # placed by itself, it raises that again, and only there it is taken

    def _is_plain(self, job: Job) -> bool:
        plain = (
            job.node_count <= 0
            and not job.colocated
            and job.packing_strategy == PackingStrategy.PACK
            and job.iterations_remaining > 0
        )
        return plain and self._least_cost.takes_part(self._manager, job._compile())

    def _plan(self, jobs: Sequence[Job], start: int, end: int) -> int:
        """Plan the jobs start … end-1 as far as there is room; where to go on."""
        taking = [i for i in range(start, end) if self._expr(jobs[i]) not in self._exhausted]
        planned: set[int] = set()
        if taking:
            placed = self._carried_out([jobs[index] for index in taking])
            if placed is None:
                for job in jobs[start:end]:
                    self._one_by_one(job)
                return end
            if placed.stopped_at is not None:
                end = taking[placed.stopped_at] + 1
            planned = set(taking) - {taking[number] for number in placed.homeless}
        for index in range(start, end):
            job = jobs[index]
            if index not in planned:
                self._later.append(job)
            elif job.iterations_remaining:
                self._one_by_one(job)
                if job.iterations_remaining:
                    self._exhausted.add(self._expr(job))
        return end

    def _carried_out(self, jobs: Sequence[Job]) -> Placement | None:
        """Place jobs by one plan. None, and nothing is done, where that fails and the listener takes errors: each job can be tried
        by itself then."""
        demands = [Demand(job._compile(), job.iterations_remaining, job.name) for job in jobs]
        self._planned += len({self._expr(job) for job in jobs}) + _PLAN
        try:
            placed = self._least_cost.place(self._manager, demands)
        except Exception:
            if self._listener is None:
                raise
            return None
        for job, units in zip(jobs, placed.units, strict=True):
            job.iterations_remaining -= units
        placed.tell(lambda number: self._begins(jobs[number]))
        return placed

    def _begins(self, job: Job) -> None:
        if self._listener is not None:
            self._listener.begins(job)

    def _expr(self, job: Job) -> Expr:
        return self._manager._sorted(job._compile()).common
