"""The one way in which a queue of jobs is placed, whoever asks: the calculator's own methods, the
loop and the command line.

A strategy takes the whole queue and says of each job what it got. First fit, here, takes jobs one
after another; least cost (`leastcost`) plans many together. Why a job got no more is worked out
when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hpc.autoscale.job.job import Job, Outcome

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager


class Listener(Protocol):
    """Who hears of jobs while they are placed."""

    def begins(self, job: Job) -> None:
        """What handlers of results are told from here on is about this job."""

    def failed(self, job: Job, error: Exception) -> bool:
        """A job could not be looked at. Whether the others are to be placed all the same."""


class Strategy(Protocol):
    """A way to place a queue."""

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """Place jobs in their order; an outcome for each. An error that no listener takes is
        raised, and the jobs before it are placed by then."""


class FirstFit:
    """Each job on the first nodes that do, one job after another. `explain`: the result of
    each job is made while it is placed."""

    def __init__(self, manager: NodeManager, explain: bool = False) -> None:
        self._manager = manager
        self._explain = explain

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """See `Strategy`."""
        return [self.place_one(job, listener) for job in jobs]

    def place_one(self, job: Job, listener: Listener | None) -> Outcome:
        """Place one job, or what remains of it. One that scatters is placed as a whole or not at
        all; of any other, as much as there is room for."""
        try:
            if listener is not None:
                listener.begins(job)
            return job._allocate(self._manager, explain=self._explain)
        except Exception as error:
            if listener is None or not listener.failed(job, error):
                raise
            return Outcome(self._manager, job, 0, error=error)
