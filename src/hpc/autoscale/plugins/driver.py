"""A scheduler driver made of a monitoring plug-in and an autoscale plug-in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.cli.drivers import GenericDriver
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.jetpack.jobs import arrays_of_jobs
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.plugins.roles import AutoscalePlugin, ClusterState, JobState, MonitoringPlugin

MAX_AGE_SECONDS = 300.0
"""How old a state that was just collected may be."""


class ScaleByJobs:
    """The autoscale plug-in that wants the cores of all jobs, of those that run as well.

    `array_definitions` are merged by Name onto the definitions that are made of the jobs, as in
    `jetpack.scale_by_jobs`.
    """

    past_seconds = 0.0

    def __init__(self, array_definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        self._definitions = list(array_definitions)

    def decide(
        self, now: ClusterState, past: Sequence[ClusterState]
    ) -> Iterable[Mapping[str, Any]]:
        """A definition for each nodearray that jobs are for."""
        jobs = [{k: v for k, v in job.items() if k != "hostnames"} for job in now.jobs]
        return arrays_of_jobs(jobs, self._definitions)


class PluginDriver(GenericDriver):
    """What `driver` in autoscale.json names for a system that is served by plug-ins.

    Nodes on which a job runs, as the monitoring plug-in says, are not deleted. The system is told
    nothing of nodes: derive from this class, and write the hooks of `SchedulerDriver`, where it has
    to be.
    """

    def __init__(
        self,
        monitoring: MonitoringPlugin,
        autoscale: AutoscalePlugin | None = None,
        name: str = "plugin",
    ) -> None:
        super().__init__(name)
        self._monitoring = monitoring
        self._autoscale = autoscale or ScaleByJobs()
        self._now: ClusterState | None = None

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """The jobs that run. What waits is wanted through nodearrays."""
        state = self._collect(config)
        return [_running(job) for job in state.jobs if job.get("hostnames")], []

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """What the autoscale plug-in decides."""
        now = self._now or self._collect(config)
        past: Sequence[ClusterState] = ()
        if self._autoscale.past_seconds > 0:
            stored = self._monitoring.states(now.taken_at - self._autoscale.past_seconds)
            past = [state for state in stored if state.taken_at < now.taken_at]
        return list(self._autoscale.decide(now, past))

    def _collect(self, config: dict[str, Any]) -> ClusterState:
        self._now = self._monitoring.collect()
        _check(self._now, self._monitoring)
        if not config.get("read_only"):
            self._monitoring.store(self._now)
        return self._now


def _check(state: object, monitoring: MonitoringPlugin) -> None:
    """AutoscaleError unless it is a state, and of now."""
    plugin = type(monitoring).__name__
    if not isinstance(state, ClusterState):
        raise AutoscaleError(f"{plugin}.collect: expected a ClusterState, found {state!r}")
    age = clock.time() - state.taken_at
    if age > MAX_AGE_SECONDS:
        raise AutoscaleError(
            f"{plugin}.collect: expected a state of the last {MAX_AGE_SECONDS:g} seconds, found one"
            f" that was taken {age:.0f} seconds ago"
        )


def _running(job: JobState) -> Job:
    running = Job(job["name"], {}, executing_hostnames=list(job["hostnames"]))
    running.metadata["job_state"] = "running"
    return running
