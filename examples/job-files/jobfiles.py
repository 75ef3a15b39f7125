"""Two plug-ins for a system that is a directory of job files.

    jobs/waiting/NAME.json           a job that waits
    jobs/running/HOSTNAME/NAME.json  a job that runs on a host

A file has what `hpc.autoscale.jetpack.scale_by_jobs` takes of a job: `{"request_cpus": 4}`, and
`nodearray` and `grouped` if need be. Whoever starts a job moves its file, and whoever ends it
removes it.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.plugins import (
    ClusterState,
    JobState,
    PluginDriver,
    ScaleByJobs,
    StateLog,
)


class JobFiles:
    """The monitoring plug-in: what there is in the directory now, and what there was."""

    def __init__(self, directory: str, states: str) -> None:
        self._directory = Path(directory)
        log = StateLog(states)
        self.store, self.states = log.store, log.states

    def collect(self) -> ClusterState:
        """The jobs in the directory. OSError when it cannot be read.

        Jobs that wait are read first: one that starts meanwhile is seen twice, and not overlooked.
        """
        jobs: dict[str, JobState] = {}
        for path in sorted((self._directory / "waiting").iterdir()):
            job = _read(path)
            if job is not None:
                jobs[path.stem] = job
        for host in sorted((self._directory / "running").iterdir()):
            for path in sorted(host.iterdir()):
                # whatever is in the file, something runs on that host
                job = _read(path) or {"name": path.stem, "request_cpus": 0}
                jobs[path.stem] = {**job, "hostnames": [host.name]}
        return ClusterState(clock.time(), list(jobs.values()))


def _read(path: Path) -> JobState | None:
    """A job; None, and a line in the log, for a file that is none."""
    try:
        job = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None  # it has started, or ended, just now
    except ValueError as error:
        logging.warning("%s is set aside: %s", path, error)
        return None
    cpus = job.get("request_cpus") if isinstance(job, dict) else None
    if not isinstance(cpus, int) or cpus < 0:
        logging.warning("%s is set aside: expected request_cpus, found %.100r", path, job)
        return None
    return cast(JobState, {**job, "name": path.stem})


class KeepForAWhile:
    """The autoscale plug-in: the most cores that were needed within some minutes.

    So that nodes do not come and go with each gap between two jobs.
    """

    def __init__(self, seconds: float) -> None:
        self.past_seconds = seconds
        self._by_jobs = ScaleByJobs()

    def decide(
        self, now: ClusterState, past: Sequence[ClusterState]
    ) -> Iterable[Mapping[str, Any]]:
        """For each nodearray the definition, among those of all states, with the most cores."""
        most: dict[object, Mapping[str, Any]] = {}
        for state in (*past, now):
            for array in self._by_jobs.decide(state, ()):
                key = (array["Name"], array.get("GroupCoreCount"))
                if key not in most or _size(array) > _size(most[key]):
                    most[key] = array
        return list(most.values())


def _size(array: Mapping[str, Any]) -> int:
    return int(array.get("TargetGroupCount", array.get("TargetCoreCount", 0)))


def driver(config: dict[str, Any]) -> PluginDriver:
    """What `driver` in autoscale.json names: `jobfiles:driver`."""
    section = config["job_files"]
    monitoring = JobFiles(section["directory"], os.path.join(section["directory"], "states.db"))
    return PluginDriver(monitoring, KeepForAWhile(section.get("keep_for", 0)), "jobfiles")
