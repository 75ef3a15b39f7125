"""A scheduler driver made of a monitoring plug-in and an autoscale plug-in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.cli.drivers import GenericDriver
from hpc.autoscale.config.reported_hosts import reporting_no_hosts
from hpc.autoscale.errors import AutoscaleError, check_has, check_kinds, check_numbers
from hpc.autoscale.jetpack.jobs import arrays_of_jobs, problem_of
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.plugins.roles import AutoscalePlugin, ClusterState, JobState, MonitoringPlugin
from hpc.autoscale.requestsets.demand import RequestJob
from hpc.autoscale.results.verdicts import Verdict

MAX_AGE_SECONDS = 300.0
"""How old a state that was just collected may be."""


class ScaleByJobs:
    """The autoscale plug-in that wants the cores of all jobs, of those that run as well.

    `array_definitions` are merged by Name onto the definitions that are made of the jobs, as in
    `jetpack.scale_by_jobs`.
    """

    past_seconds = 0.0

    def __init__(self, array_definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        check_kinds("ScaleByJobs", Iterable, array_definitions=array_definitions)
        self._definitions = list(array_definitions)

    def decide(
        self, now: ClusterState, past: Sequence[ClusterState]
    ) -> Iterable[Mapping[str, Any]]:
        """A definition for each nodearray that jobs are for."""
        return arrays_of_jobs(map(_wish_of, now.jobs), self._definitions)


class PluginDriver(GenericDriver):
    """What `driver` in autoscale.json names for a system that is served by plug-ins.

    Nodes on which a job runs, as the monitoring plug-in says, are not deleted. Jobs that make no
    sense are set aside in the summary of the pass, and the others are served. The system is told
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
        check_has("PluginDriver", "collect", monitoring=monitoring)
        self._monitoring = monitoring
        self._autoscale = autoscale or ScaleByJobs()
        self._collected: ClusterState | None = None
        self._now: ClusterState | None = None
        self._unusable: list[UnusableJob] = []

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration; plug-ins report jobs alone, and no hosts."""
        return reporting_no_hosts(config)

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """The jobs that run, and those that cannot be used. What waits is wanted through
        nodearrays."""
        state = self._collect(config)
        jobs = enumerate(state.jobs, 1)
        running = [_running(number, job) for number, job in jobs if job.get("hostnames")]
        return [*running, *self._unusable], []

    @property
    def has_place_for_requests(self) -> bool:
        """What waits is wanted through nodearrays."""
        return True

    @property
    def has_place_for_verdicts(self) -> bool:
        """Whether the monitoring plug-in has `explain`."""
        return callable(getattr(self._monitoring, "explain", None))

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """Hand a verdict to the monitoring plug-in: by the nodearray for which jobs wait, or by the
        name of a job that was set aside."""
        tell = getattr(self._monitoring, "explain", None)
        if callable(tell):
            name = str(job.name)
            tell(name.rpartition("/")[2] if isinstance(job, RequestJob) else name, verdict)

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """What the autoscale plug-in decides."""
        now = self._now or self._collect(config)
        past: Sequence[ClusterState] = ()
        if self._autoscale.past_seconds > 0:
            stored = self._monitoring.states(now.taken_at - self._autoscale.past_seconds)
            past = [state for state in stored if state.taken_at < now.taken_at]
        return list(self._autoscale.decide(now, past))

    def _collect(self, config: dict[str, Any]) -> ClusterState:
        collected = self._monitoring.collect()
        _check(collected, self._monitoring)
        if collected is self._collected:
            raise AutoscaleError(
                f"{type(self._monitoring).__name__}.collect: expected the state of now, found the"
                " very object that it returned before"
            )
        self._collected = collected
        self._now, self._unusable = _sorted_out(collected)
        if not config.get("read_only"):
            self._monitoring.store(self._now)
        return self._now


def _check(state: object, monitoring: MonitoringPlugin) -> None:
    """AutoscaleError unless it is a state, and of now."""
    plugin = type(monitoring).__name__
    if not isinstance(state, ClusterState):
        raise AutoscaleError(f"{plugin}.collect: expected a ClusterState, found {state!r}")
    check_numbers(f"{plugin}.collect", taken_at=state.taken_at)
    check_kinds(f"{plugin}.collect", Sequence, jobs=state.jobs)
    check_kinds(f"{plugin}.collect", Mapping, set_aside=state.set_aside)
    age = clock.time() - state.taken_at
    if age > MAX_AGE_SECONDS:
        raise AutoscaleError(
            f"{plugin}.collect: expected a state of the last {MAX_AGE_SECONDS:g} seconds, found one"
            f" that was taken {age:.0f} seconds ago"
        )


def _sorted_out(state: ClusterState) -> tuple[ClusterState, list[UnusableJob]]:
    """The state with the jobs that can be used alone, and the others."""
    jobs: list[JobState] = []
    unusable = [UnusableJob(name, reason) for name, reason in state.set_aside.items()]
    for number, job in enumerate(state.jobs, 1):
        hosts, problem = _hosts(job), problem_of(_wish_of(job))
        if hosts is None and not problem:
            problem = "hostnames: expected a list of names, or none"
        if not problem:
            jobs.append(job)
            continue
        name = job.get("name") if isinstance(job, Mapping) else None
        unusable.append(UnusableJob(name or f"entry {number}", problem, hosts))
    return replace(state, jobs=jobs), unusable


def _wish_of(job: object) -> Any:
    """A job without the hosts on which it runs; what is no job, as it is."""
    if not isinstance(job, Mapping):
        return job
    return {key: value for key, value in job.items() if key != "hostnames"}


def _hosts(job: object) -> list[str] | None:
    """The hosts on which a job runs; None where that cannot be told."""
    found = (job.get("hostnames") or []) if isinstance(job, Mapping) else None
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        return None
    return list(found)


def _running(number: int, job: JobState) -> Job:
    """The job, by its name or the number of its entry. Ids are often numbers in what systems
    say."""
    name = str(job.get("name") or f"entry {number}")
    running = Job(name, {}, executing_hostnames=list(job["hostnames"]))
    running.metadata.update(job_state="running", ncpus=job["request_cpus"])
    if job.get("walltime") is not None:
        running.metadata["walltime"] = job["walltime"]
    return running
