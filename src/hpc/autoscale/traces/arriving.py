"""When the jobs of a workload come: at their time, or when those have ended that they wait for."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from hpc.autoscale.traces.scheduling import Task


class Arrivals:
    """The jobs that have not come yet.

    With `dependencies`, a job comes when all those have ended that came before it in the record
    and that it names: `think` seconds later where the record says that, and otherwise not before
    its own time. The name of an array stands for all its tasks. Names of jobs that are not played
    are passed over.
    """

    def __init__(self, tasks: Sequence[Task], dependencies: bool = False) -> None:
        self._due: list[tuple[float, int, Task]] = []
        self._missing: dict[int, set[int]] = {}
        self._followers: dict[int, list[Task]] = {}
        known: dict[str, set[int]] = {}
        for task in tasks:
            named = task.job.after if dependencies else ()
            first = set().union(*(known.get(name, ()) for name in named))
            known[task.job.name] = {task.number}
            if task.job.array:
                known.setdefault(task.job.array, set()).add(task.number)
            if not first:
                self._due.append((task.job.submitted, task.number, task))
                continue
            self._missing[task.number] = first
            for number in first:
                self._followers.setdefault(number, []).append(task)
        heapq.heapify(self._due)

    @property
    def is_empty(self) -> bool:
        """Whether all have come."""
        return not (self._due or self._missing)

    def next_due(self) -> float | None:
        """When the next one comes, as far as that is known."""
        return self._due[0][0] if self._due else None

    def take(self, now: float) -> list[Task]:
        """The tasks that come until now, in their order."""
        come = []
        while self._due and self._due[0][0] <= now:
            at, _, task = heapq.heappop(self._due)
            task.came = at
            come.append(task)
        return come

    def ended(self, task: Task, now: float) -> None:
        """A job has ended: those come that waited for it alone."""
        for follower in self._followers.pop(task.number, ()):
            missing = self._missing[follower.number]
            missing.discard(task.number)
            if not missing:
                del self._missing[follower.number]
                job = follower.job
                at = max(job.submitted, now) if job.think is None else now + job.think
                heapq.heappush(self._due, (at, follower.number, follower))
