"""The one way in which a queue of jobs is placed, whoever asks: the calculator's own methods, the loop and the command line.

A strategy takes the whole queue and says of each job what it got. First fit, here, takes jobs one after another; least cost
(`leastcost`) plans many together. Why a job got no more is worked out when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hpc.autoscale import results
from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.results import AllocationResult

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node
    from hpc.autoscale.node.nodemanager import NodeManager


class Outcome:
    """What one job came to.

    `units`: slots that it was given now, or nodes where it asks for nodes. `missing`: those that it still lacks. `error`: what
    was raised while it was looked at; it was given nothing then.
    """

    __slots__ = ("_manager", "_result", "error", "job", "units")

    def __init__(
        self,
        manager: NodeManager,
        job: Job,
        units: int,
        result: AllocationResult[Node] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.job = job
        self.units = units
        self.error = error
        self._manager = manager
        self._result = result

    @property
    def missing(self) -> int:
        """Slots, or nodes where the job asks for nodes, that it lacks."""
        job = self.job
        if job.node_count > 0:
            return max(0, job.node_count - self.units)
        return max(0, job.iterations_remaining)

    @property
    def reasons(self) -> list[str]:
        """Why it got no more, one sentence each; of a job that was placed without asking for reasons, as things are when this
        is first read."""
        return self.result.reasons

    @property
    def was_told(self) -> bool:
        """Whether its result was made while it was placed. One that is made for a reader looks for the job on all nodes."""
        return self._result is not None

    @property
    def result(self) -> AllocationResult[Node]:
        """The same as a result; nobody is told of one that is made only now."""
        if self._result is None:
            with results.muted():
                self._result = self._made()
        return self._result

    def _made(self) -> AllocationResult[Node]:
        name, manager = self.job.name, self._manager
        if not self.units:
            status = _status_of_refusal(self.job)
            return AllocationResult(status, reasons=lambda: self.job._why_not(manager))

        def nodes() -> list[Node]:
            return [node for node in manager.get_nodes() if name in node.assignments]

        def why_not_all() -> list[str]:
            return self.job._why_not(manager) if self.missing else []

        return AllocationResult("success", nodes, self.units, why_not_all)


class Listener(Protocol):
    """Who hears of jobs while they are placed."""

    def begins(self, job: Job) -> None:
        """What handlers of results are told from here on is about this job."""

    def failed(self, job: Job, error: Exception) -> bool:
        """A job could not be looked at. Whether the others are to be placed all the same."""


class Strategy(Protocol):
    """A way to place a queue."""

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """Place jobs in their order; an outcome for each. An error that no listener takes is raised, and the jobs before it are
        placed by then."""


class FirstFit:
    """Each job on the first nodes that do, one job after another. `with_results`: the result of each job is made while it is
    placed."""

    def __init__(self, manager: NodeManager, with_results: bool = False) -> None:
        self._manager = manager
        self._with_results = with_results

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """See `Strategy`."""
        return [self.place_one(job, listener) for job in jobs]

    def place_one(self, job: Job, listener: Listener | None) -> Outcome:
        """Place one job, or what remains of it. One that scatters is placed as a whole or not at all; of any other, as much as
        there is room for."""
        try:
            if listener is not None:
                listener.begins(job)
            return self._place(job)
        except Exception as error:
            if listener is None or not listener.failed(job, error):
                raise
            return Outcome(self._manager, job, 0, error=error)

    def _place(self, job: Job) -> Outcome:
        manager, result = self._manager, None
        units = None if self._with_results else job._allocate_quietly(manager)
        if units is None:
            scatters = job.packing_strategy == PackingStrategy.SCATTER
            result = job._allocate(manager, True, scatters, _status_of_refusal(job))
            units = result.total_slots if result else 0
        return Outcome(manager, job, units, result)


def _status_of_refusal(job: Job) -> str:
    return "CompoundFailure" if job.packing_strategy == PackingStrategy.SCATTER else "Failed"
