"""The one way in which a queue of jobs is placed, whoever asks: the calculator's own methods, the
loop and the command line.

A strategy takes the whole queue and says of each job what it got. First fit, here, takes jobs one
after another. Others stand above this package, and are found by the objective of the configuration.
Why a job got no more is worked out when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hpc.autoscale.errors import check_kinds
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.node.nodemanager.manager import placer_of

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager
    from hpc.autoscale.node.nodemanager.placing import Ask, Decision
    from hpc.autoscale.node.nodemanager.probing import Sorted
    from hpc.autoscale.results.costs import PlanCost


class Listener(Protocol):
    """Who hears of jobs while they are placed."""

    def begins(self, job: Job) -> None:
        """What handlers of results are told from here on is about this job."""

    def failed(self, job: Job, error: Exception) -> bool:
        """A job could not be looked at. Whether the others are to be placed all the same."""


class Strategy(Protocol):
    """A way to place the queues of one calculator."""

    @property
    def cost(self) -> PlanCost | None:
        """What all queues so far come to; None where nobody asked for prices."""

    def place(self, jobs: Sequence[Job], listener: Listener | None, explain: bool) -> list[Outcome]:
        """Place jobs in their order; an outcome for each. An error that no listener takes is
        raised, and the jobs before it are placed by then. `explain`: the result of each job that is
        placed by itself is made while it is placed."""


STRATEGIES: Mapping[str, str] = MappingProxyType(
    {"cost": "hpc.autoscale.leastcost.strategy:new_strategy"}
)
"""By the objective of a configuration (`packing.objective`), what makes its strategy from a manager
and the configuration. It is imported when a configuration asks for it: most never do, it takes long
to import, and nothing here knows it."""


def new_strategy(manager: NodeManager, config: Mapping[str, Any]) -> Strategy:
    """The strategy that a configuration asks for; first fit where it asks for none."""
    path = STRATEGIES.get((config.get("packing") or {}).get("objective", ""))
    if path is None:
        return FirstFit(manager)
    from pkgutil import resolve_name  # first fit needs none

    made: Strategy = resolve_name(path)(manager, config)
    return made


def asked_by(job: Job) -> Ask:
    """What a strategy must know of a job: its constraints, and what remains to be placed of it."""
    return job._ask()


def considered(job: Job, manager: NodeManager) -> tuple[Decision, Sorted]:
    """What would become of a job as things are now, and its constraints by who can answer for them.
    Nothing is changed."""
    return placer_of(manager).considered(asked_by(job))


class FirstFit:
    """Each job on the first nodes that do, one job after another."""

    cost: PlanCost | None = None

    def __init__(self, manager: NodeManager) -> None:
        self._manager = manager

    def place(self, jobs: Sequence[Job], listener: Listener | None, explain: bool) -> list[Outcome]:
        """See `Strategy`."""
        return [self.place_one(job, listener, explain) for job in jobs]

    def place_one(self, job: Any, listener: Listener | None, explain: bool) -> Outcome:
        """Place one job, or what remains of it. One that scatters is placed as a whole or not at
        all; of any other, as much as there is room for. InvalidArgument for what is no job."""
        try:
            if listener is not None:
                listener.begins(job)
            if not isinstance(job, Job):  # asked here: there are tens of thousands
                check_kinds("placing jobs", Job, job=job)
            outcome: Outcome = job._allocate(self._manager, explain=explain)
            return outcome
        except Exception as error:
            if listener is None or not listener.failed(job, error):
                raise
            return Outcome(self._manager, job, 0, error=error)
