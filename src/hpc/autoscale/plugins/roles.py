"""What the two plug-ins have to be able to do, and the state that one hands to the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, Protocol, TypedDict


class JobState(TypedDict):
    """A job of the system, in the form that `jetpack.scale_by_jobs` takes, and where it runs.

    `request_cpus`: vCPUs. `nodearray`: None for `execute`. `average_runtime`: seconds. `grouped`:
    whether it needs nodes that are tightly coupled. `hostnames`: the hosts on which it runs; none
    while it waits. `walltime`: how long its user lets it run, in seconds or as 1-12:00:00; it goes
    into the journal.
    """

    name: str
    request_cpus: int
    nodearray: NotRequired[str | None]
    average_runtime: NotRequired[float | None]
    grouped: NotRequired[bool]
    hostnames: NotRequired[Sequence[str]]
    walltime: NotRequired[float | str | None]


@dataclass(frozen=True)
class ClusterState:
    """What a system was like at a time, `taken_at` (unix seconds).

    `jobs`: those that wait and those that run. `facts`: whatever else the plug-ins want to know, as
    can be written as JSON. `set_aside`: by the names of jobs that nobody can make sense of, why; it
    is not stored. One of them that runs somewhere is among `jobs` as well.
    """

    taken_at: float
    jobs: Sequence[JobState] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    set_aside: Mapping[str, str] = field(default_factory=dict)


class MonitoringPlugin(Protocol):
    """Collects and stores the state of a system. `StateLog` has `store` and `states`.

    One that has a method `explain(name, verdict)` as well is told why jobs wait, when that is news:
    by nodearray, or by the name of a job that was set aside (`hpc.autoscale.results.verdicts`).
    """

    def collect(self) -> ClusterState:
        """What the system is like now. Raise when that cannot be known, or not all of it: the pass
        ends then, and nothing is changed. An empty state is one in which nothing runs or waits."""

    def store(self, state: ClusterState) -> None:
        """Keep a state. Never called in dry runs."""

    def states(self, since: float) -> Sequence[ClusterState]:
        """The states stored that were taken at `since` (unix seconds) or later, oldest first."""


class AutoscalePlugin(Protocol):
    """Decides which nodes are wanted."""

    past_seconds: float
    """For how many seconds before now it wants to know past states; 0 for none."""

    def decide(
        self, now: ClusterState, past: Sequence[ClusterState]
    ) -> Iterable[Mapping[str, Any]]:
        """The complete wish, as nodearray definitions like those of `jetpack.update`.

        Nodes on which something runs count: what it does not want may go when nothing runs there.
        `past`: earlier states, oldest first.
        """
