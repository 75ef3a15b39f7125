"""A queue at the least cost: which jobs are planned together, and who goes first.

Jobs that ask for slots (one or many) by constraints that the engine understands wholly are planned together, as far as
there is room. All others (gangs, jobs that scatter, constraints that must be asked node by node or that charge pools) are
placed one by one, as without this mode. Where the limits have room for more than all can need, nobody can take a place
from anybody: the others are placed first, and the rest is one plan. Otherwise the order of the queue holds: only what
stands together in the queue is planned together, and those who came first are served first. Called by
`DemandCalculator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.node.nodemanager.leastcost import Demand, LeastCost

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager
    from hpc.autoscale.packing.expr import Expr

MOST_PLANNED = 2_000
"""Different constraints in all plans for one queue together; what is left then is placed one by one."""
_PLAN = 50  # what a plan costs besides, in the same measure


def add_jobs(
    manager: NodeManager,
    least_cost: LeastCost,
    jobs: Sequence[Job],
    one_by_one: Callable[[Job], object],
) -> None:
    """Place jobs in order at the least cost. `one_by_one` places a job, or the rest of one, by itself."""
    _Pass(manager, least_cost, one_by_one).run(jobs)


class _Pass:
    def __init__(
        self, manager: NodeManager, least_cost: LeastCost, one_by_one: Callable[[Job], object]
    ) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._one_by_one = one_by_one
        self._planned = 0
        # expressions for which there is no room any more; there will be none later in this pass
        self._exhausted: set[Expr] = set()
        self._later: list[Job] = []

    def run(self, jobs: Sequence[Job]) -> None:
        self._least_cost.start(self._manager)
        try:
            self._place(jobs)
        finally:
            self._least_cost.finish(self._manager)

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
        plain = (
            job.node_count <= 0
            and not job.colocated
            and job.packing_strategy == PackingStrategy.PACK
            and job.iterations_remaining > 0
        )
        return plain and self._least_cost.takes_part(self._manager, job._compile())

    def _plan(self, jobs: Sequence[Job], start: int, end: int) -> int:
        """Plan the jobs start … end-1 as far as there is room; where to go on."""
        taking, demands = [], []
        for index in range(start, end):
            compiled = jobs[index]._compile()
            if self._expr(jobs[index]) not in self._exhausted:
                taking.append(index)
                units, name = jobs[index].iterations_remaining, jobs[index].name
                demands.append(Demand(compiled, units, name))
        if demands:
            self._planned += len({self._expr(jobs[index]) for index in taking}) + _PLAN
            placed = self._least_cost.place(self._manager, demands)
            for index, units in zip(taking, placed.units, strict=True):
                jobs[index].iterations_remaining -= units
            if placed.stopped_at is not None:
                end = taking[placed.stopped_at] + 1
        planned = set(taking) - {taking[number] for number in placed.homeless} if demands else set()
        for index in range(start, end):
            job = jobs[index]
            if index not in planned:
                self._later.append(job)
            elif job.iterations_remaining:
                self._one_by_one(job)
                if job.iterations_remaining:
                    self._exhausted.add(self._expr(job))
        return end

    def _expr(self, job: Job) -> Expr:
        return self._manager._sorted(job._compile()).common
