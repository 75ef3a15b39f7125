"""Two plug-ins for a system that is a directory of job files.

    jobs/waiting/NAME.json           a job that waits
    jobs/running/HOSTNAME/NAME.json  a job that runs on a host
    jobs/why-waiting.json            why they wait, by nodearray or, set aside, by name

A file has what `hpc.autoscale.jetpack.scale_by_jobs` takes of a job: `{"request_cpus": 4}`, and
`nodearray` and `grouped` if need be. Whoever starts a job moves its file, and whoever ends it
removes it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hpc.autoscale import clock
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.plugins import (
    ClusterState,
    JobState,
    PluginDriver,
    ScaleByJobs,
    StateLog,
)
from hpc.autoscale.results.verdicts import Stand, Verdict

REASONS = "why-waiting.json"


class JobFiles:
    """The monitoring plug-in: what there is in the directory now, and what there was."""

    def __init__(self, directory: str, states: str) -> None:
        self._directory = Path(directory)
        self._log = StateLog(states)
        self.states = self._log.states

    def collect(self) -> ClusterState:
        """The jobs in the directory. OSError when it cannot be read.

        Jobs that wait are read first: one that starts meanwhile is seen twice, and not overlooked.
        """
        jobs: dict[str, JobState] = {}
        set_aside: dict[str, str] = {}
        for path in sorted((self._directory / "waiting").iterdir()):
            with _naming(path, set_aside):
                jobs[path.stem] = {**_read(path), "hostnames": []}
        for host in sorted((self._directory / "running").iterdir()):
            try:
                running = sorted(host.iterdir())
            except NotADirectoryError:
                set_aside[host.name] = f"{host}: expected the directory of a host, found a file"
                continue
            for path in running:
                # whatever is in the file, something runs on that host
                job: JobState = {"name": path.stem, "request_cpus": 0}
                with _naming(path, set_aside):
                    job = _read(path)
                jobs[path.stem] = {**job, "hostnames": [host.name]}
        return ClusterState(clock.time(), list(jobs.values()), set_aside=set_aside)

    def store(self, state: ClusterState) -> None:
        """Keep a state. What waits no more is forgotten."""
        self._log.store(state)
        waits = any(not job.get("hostnames") for job in state.jobs)
        arrays = {str(job.get("nodearray") or "execute") for job in state.jobs}
        reasons = self._reasons()
        kept = {
            name: why
            for name, why in reasons.items()
            if name in state.set_aside or (waits and name.partition("#")[0] in arrays)
        }
        if kept != reasons:
            self._write(kept)

    def explain(self, name: str, verdict: Verdict) -> None:
        """Put why jobs wait where people look; called when that is news."""
        reasons = self._reasons()
        reasons.pop(name, None)
        if verdict.stand in (Stand.WAITS, Stand.NEVER):
            reasons[name] = verdict.causes[0].text
        self._write(reasons)

    def _reasons(self) -> dict[str, str]:
        try:
            found = json.loads((self._directory / REASONS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, reasons: Mapping[str, str]) -> None:
        """Replace the file as a whole: others read it at any time."""
        unfinished = self._directory / f"{REASONS}.{os.getpid()}"
        unfinished.write_text(json.dumps(reasons, indent=2), encoding="utf-8")
        os.replace(unfinished, self._directory / REASONS)


@contextmanager
def _naming(path: Path, set_aside: dict[str, str]) -> Iterator[None]:
    """A file that is no JSON object, or cannot be read, is set aside; one that is gone has started,
    or ended, just now."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        set_aside[path.stem] = f"{path}: it cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        set_aside[path.stem] = f"{path}: {error}"


def _read(path: Path) -> JobState:
    """A job. ValueError for a file that is none; what it says is checked by PluginDriver."""
    job = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(job, dict):
        raise ValueError(f"expected a JSON object, found {job!r:.100}")
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
    """What `driver` in autoscale.json names: `jobfiles:driver`.

    ConfigurationException when `job_files` does not say where the jobs are."""
    section = config.get("job_files")
    if not isinstance(section, dict) or not isinstance(section.get("directory"), str):
        raise ConfigurationException(
            f'job_files: expected {{"directory": "<where the jobs are>"}}, found {section!r}'
        )
    monitoring = JobFiles(section["directory"], os.path.join(section["directory"], "states.db"))
    return PluginDriver(monitoring, KeepForAWhile(section.get("keep_for", 0)), "jobfiles")
