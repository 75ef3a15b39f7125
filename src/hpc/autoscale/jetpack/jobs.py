"""From the job dicts of `scale_by_jobs` to nodearray definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.requestsets.definitions import DEFAULT_NODEARRAY, RequestError

_KEYS = ("name", "nodearray", "request_cpus", "average_runtime", "grouped")


def arrays_of_jobs(
    jobs: Iterable[Mapping[str, Any]], array_definitions: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A definition for each nodearray that jobs are for, with the given ones merged onto it.

    RequestError for a job that cannot be understood. Definitions of nodearrays without a job are
    left out: callers hand over the same ones each time.
    """
    cores: dict[str, int] = {}
    for index, job in enumerate(jobs):
        nodearray, cpus = _read(job, f"jobs[{index}]")
        cores[nodearray] = cores.get(nodearray, 0) + cpus
    made = {name: {"Name": name, "TargetCoreCount": count} for name, count in cores.items()}
    for index, definition in enumerate(array_definitions):
        if not isinstance(definition, Mapping) or not isinstance(definition.get("Name"), str):
            raise RequestError(
                f"array_definitions[{index}]: expected a nodearray definition with a Name,"
                f" found {definition!r}"
            )
        if definition["Name"] in made:
            made[definition["Name"]].update(definition)
    return list(made.values())


def _read(job: object, where: str) -> tuple[str, int]:
    if not isinstance(job, Mapping):
        raise RequestError(f"{where}: expected a job as a dict, found {job!r}")
    where = f"{where} ({job['name']})" if job.get("name") else where
    for key in job:
        hint = "" if key in _KEYS else did_you_mean(str(key), _KEYS)
        if hint:
            raise RequestError(f"{where}: unknown key {key!r}{hint}")
    cpus = job.get("request_cpus")
    if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 0:
        raise RequestError(
            f"{where}: request_cpus: expected a whole number of 0 or more, found {cpus!r}"
        )
    if job.get("grouped"):
        raise RequestError(f"{where}: grouped is not supported yet")
    nodearray = job.get("nodearray") or DEFAULT_NODEARRAY
    if not isinstance(nodearray, str):
        raise RequestError(f"{where}: nodearray: expected a name, found {nodearray!r}")
    return nodearray, cpus
