"""What of the requests of recorded jobs is looked at in a run, and what is not, by numbers of jobs.

Cores and hosts always count. Memory, GPUs, queues, partitions and dependencies do where a run is
told to: a record says of them what was true of another machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpc.autoscale.errors import ConfigurationException, did_you_mean

if TYPE_CHECKING:
    from hpc.autoscale.traces.workload import TraceJob


@dataclass(frozen=True)
class Uses:
    """What a run looks at beside cores and hosts.

    `queues` and `partitions` say to which nodearray those of the record belong: jobs of them run
    only there.
    """

    memory: bool = False
    gpus: bool = False
    dependencies: bool = False
    queues: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)

    def nodearray_of(self, job: TraceJob) -> str:
        """The one nodearray on which a job may run; empty for any."""
        return self.partitions.get(job.partition) or self.queues.get(job.queue) or ""

    def check(self, jobs: Sequence[TraceJob], nodearrays: Collection[str]) -> None:
        """ConfigurationException for a name that neither the record nor the cluster has."""
        for kind, given, of in (
            ("queue", self.queues, (job.queue for job in jobs)),
            ("partition", self.partitions, (job.partition for job in jobs)),
        ):
            known = {name for name in of if name} if given else set()
            for name, nodearray in given.items():
                if name not in known:
                    found = ", ".join(sorted(known)) or "none"
                    raise ConfigurationException(
                        f"{kind}s: expected a {kind} of the recorded jobs ({found}), found"
                        f" {name!r}{did_you_mean(name, known)}"
                    )
                if nodearray not in nodearrays:
                    raise ConfigurationException(
                        f"{kind}s: expected a nodearray of the simulated cluster"
                        f" ({', '.join(nodearrays)}), found {nodearray!r}"
                        f"{did_you_mean(nodearray, nodearrays)}"
                    )


def not_looked_at(jobs: Iterable[TraceJob], uses: Uses) -> dict[str, int]:
    """How many jobs asked for something that a run does not look at, by what that is.

    Where all jobs are of one queue or partition, nothing is lost by not looking at it.
    """
    every = list(jobs)
    queues = {job.queue for job in every}
    partitions = {job.partition for job in every}
    asked = {
        "memory": [not uses.memory and job.memory is not None for job in every],
        "gpus": [not uses.gpus and bool(job.gpus) for job in every],
        "queues": [
            len(queues) > 1 and bool(job.queue) and job.queue not in uses.queues for job in every
        ],
        "partitions": [
            len(partitions) > 1 and bool(job.partition) and job.partition not in uses.partitions
            for job in every
        ],
        "dependencies": [not uses.dependencies and bool(job.after) for job in every],
    }
    return {what: count for what, those in asked.items() if (count := sum(those))}
