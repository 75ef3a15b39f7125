"""Jobs and hosts of a scheduler as they were read: values that a pass cannot change, and JSON of
them.

A pass reads thousands of jobs and hosts, and most are as they were. So what tells one from another
is a tuple here, which costs little to make and to compare; JSON is made of those alone that have
changed. The way back, from JSON to jobs and hosts, is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from marshal import dumps, loads
from typing import Any, cast

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.job import Job, as_read
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal.changes import NO_ROWS, Rows, settled
from hpc.autoscale.node.constraints.base import json_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.reported import as_reported, name_as_reported, reported_alike
from hpc.autoscale.redaction import redact_texts


def job_rows(jobs: Sequence[object], before: Rows = NO_ROWS) -> Rows:
    """The jobs of a reading. What is no job is told by its type alone. `before`: those of the last
    reading; the value of a job that is as it was there is the same object.

    The value of a job is what `as_read` says of it; any other is a pair of a kind, with the type
    where it is no job, or else the same with constraints as JSON has them.
    """
    make = _JobValues()
    return settled(jobs, before, _as_read, _name_of_job, make, plain=job_json, bare=_BareJobs())


def _as_read(jobs: Sequence[object], values: Sequence[tuple[Any, ...]]) -> int:
    """How many at the start are jobs of which all is as these values say."""
    for count, (job, value) in enumerate(zip(jobs, values, strict=True)):
        # one of another class may have more to say
        if type(job) is not Job or as_read(job) != value:
            return count
    return len(jobs)


def _name_of_job(job: object) -> str:
    return str(job.name) if isinstance(job, Job) else type(job).__name__


class _JobValues:
    """What jobs are. Most have something in common with others, which is kept once."""

    def __init__(self) -> None:
        self._shared = _Shared()

    def __call__(self, job: object) -> tuple[Any, ...]:
        """The value of a job."""
        if not isinstance(job, Job):
            return ("none", type(job).__name__)
        kind: Any = "job"
        if isinstance(job, UnusableJob):
            kind = ("unusable", job.reason, job.runs_who_knows_where)
        name, compiled, *same, hosts, metadata, parsed = as_read(job)
        found = (name, compiled, *same, _own(hosts), self._shared(metadata), None)
        if parsed is None:
            return found if kind == "job" else (kind, found)
        # what parsers of integrations made is another object each time; as texts, 1 is not True
        asked = [_own(each.to_dict()) for each in asked_by(job)[0].constraints]
        return (kind, (name, asked, *found[2:-1], repr(asked)))


def _parts(value: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The kind of a value of a job, and the rest."""
    return cast(tuple[Any, tuple[Any, ...]], value) if len(value) == 2 else ("job", value)


class _Shared:
    """Copies of what JSON has lists and objects for, where equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def __call__(self, value: Any) -> Any:
        """The copy of this value, at any depth. What has something else in it shares nothing."""
        try:
            said = dumps(value, 2)
        except ValueError:
            return _own(value)
        found = self._known.get(said)
        if found is None:
            found = self._known[said] = loads(said)
        return found


class _BareJobs:
    """What a job is without objects. Most jobs share what they need with others, which is written
    once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: tuple[Any, ...]) -> Any:
        kind, said = _parts(value)
        if kind == "none":
            return value
        name, compiled, *same = said
        known = self._known.get(id(compiled))
        if known is None:
            known = self._known[id(compiled)] = (_constraints_json(compiled), compiled)
        return (kind, name, known[0], same)


def _constraints_json(compiled: Any) -> Any:
    if isinstance(compiled, list):
        return compiled
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
    kind, said = _parts(value)
    if kind == "none":
        return {"kind": "none", "type": said}
    name, compiled, iterations, remaining, count, colocated, packing, hosts, metadata, _ = said
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
    how: dict[str, Any] = {"plain": host_json, "bare": _bare_host}
    return settled(hosts, before, reported_alike, name_as_reported, _host_values(), **how)


def _host_values() -> Callable[[Node], tuple[Any, ...]]:
    """What makes of a host what was said of it, in the form of `as_reported`; nothing of that is
    the host's own. Most have something in common with others, which is kept once."""
    shared = _Shared()

    def value(host: Node) -> tuple[Any, ...]:
        (*others, totals, jobs, metadata), marks, free, *ids = as_reported(host)
        # those of a node tell it of each write, which takes longer
        totals, free = dict.copy(totals), dict(dict.items(free))
        kept = (*others, shared(totals), set(jobs), shared(metadata))
        return (kept, shared(marks), shared(free), *ids)

    return value


def _bare_host(value: tuple[Any, ...]) -> Any:
    """What a host is without sets; jobs in their order."""
    (*others, jobs, metadata), *more = value
    return (others, sorted(jobs), metadata, more)


def host_json(value: tuple[Any, ...]) -> dict[str, Any]:
    """The JSON form of a scheduler's node: what is not as it usually is."""
    said, (marked, closed, required, _), free, node_id, bucket = value
    hostname, state, kept, *kind, totals, jobs, metadata = said
    found = {
        "hostname": hostname,
        "resources": totals,
        "available": free,
        "job-ids": sorted(jobs),
        "metadata": metadata,
        "node-id": node_id,
        "marked-for-deletion": marked,
        "closed": closed,
        "required": required,
        "bucket-id": bucket,
        "state": state,
        "keep-alive": kept,
        "kind": tuple(kind),
    }
    if free == totals:
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
