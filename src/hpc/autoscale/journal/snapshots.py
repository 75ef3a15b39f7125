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
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal.changes import Rows, distinct
from hpc.autoscale.node.constraints.base import json_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.record import as_reported
from hpc.autoscale.redaction import redact_texts


def job_rows(jobs: Sequence[object]) -> Rows:
    """The jobs of a reading. What is no job is told by its type alone."""
    keys, values = [], []
    for job in jobs:
        if isinstance(job, Job):
            keys.append(str(job.name))
            values.append(_job_value(job))
        else:
            keys.append(type(job).__name__)
            values.append((type(job).__name__,))
    return Rows(distinct(keys), values, job_json)


def _job_value(job: Job) -> tuple[Any, ...]:
    kind: Any = "job"
    if isinstance(job, UnusableJob):
        kind = ("unusable", job.reason, job.runs_who_knows_where)
    metadata = job.metadata
    return (
        kind,
        job.name,
        asked_by(job)[0],
        job.iterations,
        job.iterations_remaining,
        job.node_count,
        job.colocated,
        job.packing_strategy,
        tuple(job.executing_hostnames),
        dict(metadata) if metadata else None,
    )


def job_json(value: tuple[Any, ...]) -> dict[str, Any]:
    """The JSON form of a job, in the keys of `Job.to_dict`."""
    if len(value) == 1:
        return {"kind": "none", "type": value[0]}
    kind, name, compiled, iterations, remaining, count, colocated, packing, hosts, metadata = value
    if compiled.source is not None:
        constraints = json_of(compiled.source)
    else:
        constraints = [constraint.to_dict() for constraint in compiled.constraints]
    found: dict[str, Any] = {"name": name, "constraints": constraints, "iterations": iterations}
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
    *("hostname", "resources", "available", "job-ids", "metadata", "state", "node-id"),
    *("marked-for-deletion", "closed", "keep-alive", "required", "bucket-id", "kind"),
)
_KIND = ("unknown", "unknown", "unknown", False, True)
_USUAL: dict[str, Any] = {
    "metadata": {},
    "job-ids": (),
    "state": "running",
    **dict.fromkeys(("marked-for-deletion", "closed", "keep-alive", "required"), False),
    **dict.fromkeys(("node-id", "bucket-id")),
    "kind": _KIND,
}


def host_rows(hosts: Sequence[Node]) -> Rows:
    """The scheduler's nodes of a reading."""
    keys = [str(host.hostname) for host in hosts]
    return Rows(distinct(keys), [as_reported(host) for host in hosts], host_json)


def host_json(value: tuple[Any, ...]) -> dict[str, Any]:
    """The JSON form of a scheduler's node: what is not as it usually is."""
    found = dict(zip(_HOST_KEYS, value, strict=True))
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
