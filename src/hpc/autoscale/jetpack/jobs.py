"""From the job dicts of `scale_by_jobs` to nodearray definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.requestsets.definitions import DEFAULT_NODEARRAY, RequestError, merged

_KEYS = ("name", "nodearray", "request_cpus", "average_runtime", "grouped")


def arrays_of_jobs(
    jobs: Iterable[Mapping[str, Any]], array_definitions: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A definition for each nodearray that jobs are for, with the given ones merged onto it.

    A grouped job is one group of its cores; definitions of `<nodearray>:grouped` are merged onto
    the groups of all sizes, those of `<nodearray>:<size>` onto the groups of that size.
    Definitions that no job is for are left out: callers hand over the same ones each time.
    RequestError for a job that cannot be understood.
    """
    jobs, array_definitions = listed(jobs), listed(array_definitions)
    for what, found in (("jobs", jobs), ("array_definitions", array_definitions)):
        if not isinstance(found, list):
            raise RequestError(f"{what}: expected a list, found {found!r}")
    cores: Counter[str] = Counter()
    groups: Counter[tuple[str, int]] = Counter()
    for index, job in enumerate(jobs):
        try:
            nodearray, cpus, is_grouped = _read(job)
        except RequestError as error:
            raise RequestError(f"{_where(index, job)}: {error}") from None
        if is_grouped:
            groups[nodearray, cpus] += 1
        else:
            cores[nodearray] += cpus
    given = _by_name(array_definitions)
    plain = [
        {"TargetCoreCount": count, **given.get(name, {}), "Name": name}
        for name, count in cores.items()
    ]
    grouped = [
        {
            "TargetGroupCount": count,
            "GroupCoreCount": size,
            **merged(given.get(f"{name}:grouped", {}), given.get(f"{name}:{size}", {})),
            "Name": name,
        }
        for (name, size), count in groups.items()
    ]
    return [*plain, *grouped]


def listed(given: Any) -> Any:
    """A list of what can be gone through; a text, a mapping and anything else as it is."""
    is_one = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    return given if is_one else list(given)


def _by_name(definitions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Definitions by their Name; those of one name are merged."""
    found: dict[str, Mapping[str, Any]] = {}
    for index, definition in enumerate(definitions):
        if not isinstance(definition, Mapping) or not isinstance(definition.get("Name"), str):
            raise RequestError(
                f"array_definitions[{index}]: expected a nodearray definition with a Name,"
                f" found {definition!r}"
            )
        name = definition["Name"]
        found[name] = merged(found.get(name, {}), definition)
    return found


def problem_of(job: object) -> str | None:
    """Why a job dict cannot be understood, in one line; None for one that can."""
    try:
        _read(job)
    except RequestError as error:
        return str(error)
    return None


def _read(job: object) -> tuple[str, int, bool]:
    """The nodearray and the cores of a job, and whether it is grouped."""
    if not isinstance(job, Mapping):
        raise RequestError(f"expected a job as a dict, found {job!r}")
    for key in job:
        hint = "" if key in _KEYS else did_you_mean(str(key), _KEYS)
        if hint:
            raise RequestError(f"unknown key {key!r}{hint}")
    cpus = job.get("request_cpus")
    if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 0:
        raise RequestError(f"request_cpus: expected a whole number of 0 or more, found {cpus!r}")
    is_grouped = bool(job.get("grouped"))
    if is_grouped and not cpus:
        raise RequestError("request_cpus: expected 1 or more of a grouped job, found 0")
    nodearray = job.get("nodearray") or DEFAULT_NODEARRAY
    if not isinstance(nodearray, str):
        raise RequestError(f"nodearray: expected a name, found {nodearray!r}")
    return nodearray, cpus, is_grouped


def _where(index: int, job: object) -> str:
    """Which of the jobs is meant."""
    name = job.get("name") if isinstance(job, Mapping) else None
    return f"jobs[{index}] ({name})" if name else f"jobs[{index}]"
