"""Jobs and hosts of a scheduler as they were read: values that a pass cannot change, and JSON of
them.

A pass reads thousands of jobs and hosts, and most are as they were. So what tells one from another
is a tuple here, which costs little to make and to compare; JSON is made of those alone that have
changed. The way back, from JSON to jobs and hosts, is here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.job import Job, as_read
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal.changes import NO_ROWS, Rows, distinct
from hpc.autoscale.node.constraints.base import json_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.reported import as_reported, is_as_reported
from hpc.autoscale.redaction import redact_texts

_JOB, _HOST = ("name", 1), ("fqdn", 0)
"""Where the name of a job and of a host is: in an object, and in a value."""


def _lined_up(
    items: Sequence[object], old: Sequence[tuple[Any, ...]], where: tuple[str, int]
) -> Sequence[tuple[Any, ...] | None]:
    """For each item the old value of its name. Mostly the order is as it was; where the first of a
    queue has ended, all have moved up."""
    attribute, at = where
    ends = items[:1], items[-1:]
    if len(items) == len(old) and all(
        getattr(item, attribute, None) == value[at]
        for some, values in zip(ends, (old[:1], old[-1:]), strict=True)
        for item, value in zip(some, values, strict=True)
    ):
        return old
    known = {value[at]: value for value in old}
    return [known.get(getattr(item, attribute, None)) for item in items]


def job_rows(jobs: Sequence[object], before: Rows = NO_ROWS) -> Rows:
    """The jobs of a reading. What is no job is told by its type alone. `before`: those of the last
    reading; the value of a job that is as it was there is the same object."""
    # there are tens of thousands, so nothing is made or called that need not be
    values = [
        (
            was
            if was is not None and job.__class__ is Job and as_read(job) == was[-1]
            else _job_value(job)
        )
        for job, was in zip(jobs, _lined_up(jobs, before.values, _JOB), strict=True)
    ]
    keys = [str(value[1]) for value in values]
    own = before.keys if keys == before.keys else distinct(keys)
    return Rows(own, values, job_json, _BareJobs())


def _job_value(job: object) -> tuple[Any, ...]:
    """What a job is, and at the end all that was said of it, where that is easy to compare."""
    if not isinstance(job, Job):
        return ("none", type(job).__name__, None)
    kind: Any = "job"
    if isinstance(job, UnusableJob):
        kind = ("unusable", job.reason, job.runs_who_knows_where)
    name, _, *same, hosts, metadata, parsed = as_read(job)
    compiled = asked_by(job)[0]
    hosts, metadata = _own(hosts), _own(metadata)
    plain = None if parsed is not None else (name, compiled, *same, hosts, metadata, None)
    return (kind, name, compiled, *same, list(hosts or ()), dict(metadata or {}), plain)


class _BareJobs:
    """What a job is without objects. Most jobs share what they need with others, which is written
    once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: tuple[Any, ...]) -> Any:
        kind, name, compiled, *same, _ = value
        if kind == "none":
            return (kind, name)
        known = self._known.get(id(compiled))
        if known is None:
            known = self._known[id(compiled)] = (_constraints_json(compiled), compiled)
        return (kind, name, known[0], same)


def _constraints_json(compiled: Any) -> Any:
    if compiled.source is not None:
        return json_of(compiled.source)
    return [constraint.to_dict() for constraint in compiled.constraints]


def _own(value: Any) -> Any:
    """A copy of what JSON has lists and objects for, at any depth."""
    if isinstance(value, dict):
        return {key: _own(below) for key, below in value.items()}
    return type(value)(map(_own, value)) if value.__class__ in (list, tuple) else value


def job_json(value: tuple[Any, ...]) -> dict[str, Any]:
    """The JSON form of a job, in the keys of `Job.to_dict`."""
    if value[0] == "none":
        return {"kind": "none", "type": value[1]}
    kind, name, compiled, iterations, remaining, count, colocated, packing, *others = value
    hosts, metadata, _ = others
    found: dict[str, Any] = {"name": name, "constraints": _constraints_json(compiled)}
    found["iterations"] = iterations
    if remaining != iterations:
        found["iterations-remaining"] = remaining
    found.update({"node-count": count, "packing-strategy": packing})
    if colocated:
        found["colocated"] = True
    if hosts:
        found["executing-hostnames"] = list(hosts)
    if metadata:
        found["metadata"] = redact_texts(metadata)
    if kind != "job":
        found.update(kind=kind[0], reason=kind[1], **{"runs-who-knows-where": kind[2]})
    return found


def job_from(found: Mapping[str, Any]) -> Any:
    """The job of a JSON form."""
    if found.get("kind") == "none":
        return object()
    if found.get("kind") == "unusable":
        hosts = None if found["runs-who-knows-where"] else found.get("executing-hostnames", [])
        job: Job = UnusableJob(found["name"], found["reason"], hosts)
    else:
        job = Job.from_dict(found)
    job.metadata = dict(found.get("metadata") or {})
    return job


_OF_THE_KIND = ("vm_size", "location", "nodearray", "managed", "exists")
"""What all hosts of a scheduler have in common, unless a driver makes nodes of another kind."""

_HOST_KEYS = (
    *("hostname", "resources", "available", "job-ids", "metadata", "node-id"),
    *("marked-for-deletion", "closed", "required", "bucket-id"),
)
_KIND = ("unknown", "unknown", "unknown", False, True)
_USUAL: dict[str, Any] = {
    "metadata": {},
    "job-ids": [],
    "state": "running",
    **dict.fromkeys(("marked-for-deletion", "closed", "keep-alive", "required"), False),
    **dict.fromkeys(("node-id", "bucket-id")),
    "kind": _KIND,
}


def host_rows(hosts: Sequence[Node], before: Rows = NO_ROWS) -> Rows:
    """The scheduler's nodes of a reading; `before` as in `job_rows`."""
    values = [
        was if was is not None and is_as_reported(host, was) else as_reported(host)
        for host, was in zip(hosts, _lined_up(hosts, before.values, _HOST), strict=True)
    ]
    keys = [str(value[0]) for value in values]
    own = before.keys if keys == before.keys else distinct(keys)
    return Rows(own, values, host_json, _bare_host)


def _bare_host(value: tuple[Any, ...]) -> Any:
    """What a host is without sets; jobs in their order."""
    name, totals, free, jobs, *others, plain = value
    return (name, totals, free, sorted(jobs), others, plain[:8])


def host_json(value: tuple[Any, ...]) -> dict[str, Any]:
    """The JSON form of a scheduler's node: what is not as it usually is."""
    *others, plain = value
    found = dict(zip(_HOST_KEYS, others, strict=True))
    found["job-ids"] = sorted(found["job-ids"])
    _, found["state"], found["keep-alive"] = plain[:3]
    found["kind"] = plain[3:8]
    if found["available"] == found["resources"]:
        del found["available"]
    usual = {k for k, each in found.items() if k in _USUAL and each == _USUAL[k]}
    shown: dict[str, Any] = redact_texts({k: v for k, v in found.items() if k not in usual})
    return shown


def host_from(found: Mapping[str, Any]) -> Node:
    """The scheduler's node of a JSON form."""
    known = {**_USUAL, **found}
    resources = ht.with_sizes(dict(known.get("resources") or {}))
    kind = dict(zip(_OF_THE_KIND, known["kind"], strict=True))
    node_id = DelayedNodeId(known["hostname"], known["node-id"])
    host: Node
    if tuple(known["kind"]) == _KIND:
        host = SchedulerNode(known["hostname"], resources, known["bucket-id"])
        host.delayed_node_id = node_id
    else:
        host = TempNode(known["hostname"], resources, known["bucket-id"], node_id=node_id, **kind)
    host.available.clear()
    host.available.update(ht.with_sizes(dict(known.get("available", resources))))
    for job in known["job-ids"]:
        host.assign(job)
    host.metadata = dict(known["metadata"])
    host.state = host.target_state = ht.NodeStatus(known["state"])
    host.marked_for_deletion = bool(known["marked-for-deletion"])
    if known["required"]:
        host.required = True
    if known["closed"]:
        host.closed = True
    return host
