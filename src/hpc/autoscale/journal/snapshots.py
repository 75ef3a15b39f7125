"""Jobs and hosts of a scheduler as they were read: values that a pass cannot change, and JSON of
them.

A pass reads thousands of jobs and hosts, and most are as they were. So what is known of one is a
pair of tuples here (`pairs`), which costs little to compare with what a driver has made: its own,
and what it has in common with others. JSON is made of those alone that have changed. The way back,
from JSON to jobs and hosts, is here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.job import Job, as_read, read_alike
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal.changes import NO_ROWS, Rows, settled
from hpc.autoscale.journal.errors import JournalError
from hpc.autoscale.journal.pairs import Pairs, copied, shared
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource
from hpc.autoscale.node.constraints.base import Compiled, NodeConstraint, json_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.reported import as_reported, name_as_reported, reported_alike
from hpc.autoscale.redaction import redact_texts
from hpc.autoscale.workers import WorkerDemand, WorkerJob

_FOREIGN = "foreign-constraints"


def foreign_constraints(jobs: Iterable[Mapping[str, Any]]) -> str:
    """The classes of constraints in the JSON forms of jobs that only an integration knows."""
    return ", ".join(sorted({name for job in jobs for name in job.get(_FOREIGN, ())}))


def job_rows(jobs: Sequence[object], before: Rows = NO_ROWS) -> Rows:
    """The jobs of a reading. What is no job is told by its type alone. `before`: those of the last
    reading; the value of a job that is as it was there is the same object.

    The value of a job is what `as_read` says of it. Of one that is not as usual, a kind stands
    behind that, and what is said of that kind; where it has constraints of its own, these are as
    JSON has them, and beside them stands which pools they draw on.
    """
    made = _JobValues()
    return settled(jobs, before, _jobs_alike, _name_of_job, made, Pairs, plain=job_json)


def _jobs_alike(jobs: Sequence[object], values: Pairs) -> int:
    return read_alike(jobs, values.own, values.shared)


def _name_of_job(job: object) -> str:
    return str(job.name) if isinstance(job, Job) else type(job).__name__


class _JobValues:
    """The values of the jobs of one reading."""

    def __init__(self) -> None:
        # pools of one name and source, in the order in which they are met
        self._pools: defaultdict[tuple[str, str], list[SharedConsumableResource]]
        self._pools = defaultdict(list)

    def __call__(self, job: object) -> tuple[Any, Any]:
        if not isinstance(job, Job):
            return (type(job).__name__, None), ("none",)
        own, (needs, objects, *more) = as_read(job)
        kind = _kind_of(job)
        if objects is not None:
            # what parsers of integrations made is another object each time; as texts, 1 is not True
            constraints = asked_by(job)[0].constraints
            asked = [copied(each.to_dict()) for each in constraints]
            pools = [self._number(p) for c in _drawing(constraints) for p in c.shared_resources]
            foreign = sorted({_class_of(each) for each in _every(constraints) if _is_foreign(each)})
            return own, (asked, (repr(asked), pools, foreign), *shared(more), *kind)
        common = shared(more, needs, None)
        return own, (*common, *kind) if kind else common

    def _number(self, pool: SharedConsumableResource) -> int:
        """Which one of its name and source a pool is: two jobs that draw on one say the same."""
        known = self._pools[_label(pool)]
        number = next((i for i, each in enumerate(known) if each is pool), len(known))
        if number == len(known):
            known.append(pool)
        return number


def _label(pool: SharedConsumableResource) -> tuple[str, str]:
    return str(pool.resource_name), str(pool.source)


def _drawing(constraints: Iterable[NodeConstraint]) -> Iterator[SharedConsumableConstraint]:
    """The constraints that draw on pools, at any depth."""
    return (each for each in _every(constraints) if isinstance(each, SharedConsumableConstraint))


def _every(constraints: Iterable[NodeConstraint]) -> Iterator[NodeConstraint]:
    """The constraints at any depth."""
    for each in constraints:
        yield each
        yield from _every(each.get_children())


def _class_of(constraint: NodeConstraint) -> str:
    return type(constraint).__qualname__


def _is_foreign(constraint: NodeConstraint) -> bool:
    """Whether it is of an integration, so that its JSON says nothing to others."""
    return not type(constraint).__module__.startswith("hpc.autoscale.")


def _kind_of(job: Job) -> tuple[Any, ...]:
    """What a job is beside a job, and what is said of that; nothing for a usual one."""
    if isinstance(job, UnusableJob):
        said = {"reason": job.reason, "runs-who-knows-where": job.runs_who_knows_where}
        return ("unusable", said)
    if isinstance(job, WorkerJob):
        return ("workers", {"demand": {key: copied(getattr(job.demand, key)) for key in _DEMAND}})
    return ()


_DEMAND = [each.name for each in fields(WorkerDemand) if each.name != "constraints"]
"""What is kept of a demand for workers. Its constraints are among those of the job."""


def _constraints_json(needs: Any) -> Any:
    if not isinstance(needs, Compiled):
        return needs
    if needs.source is not None:
        return json_of(needs.source)
    return [constraint.to_dict() for constraint in needs.constraints]


def job_json(value: tuple[Any, Any]) -> dict[str, Any]:
    """The JSON form of a job, in the keys of `Job.to_dict`."""
    (name, hosts), (needs, *more) = value
    if needs == "none":
        return {"kind": "none", "type": name}
    as_objects, metadata, iterations, remaining, count, packing, colocated, *kind = more
    found: dict[str, Any] = {"name": name, "constraints": _constraints_json(needs)}
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
    objects = (as_objects or ())[1:]
    found.update(
        (key, said) for key, said in zip(("pools", _FOREIGN), objects, strict=False) if said
    )
    if kind:
        name, said = kind
        found.update(kind=name, **redact_texts(said))
    return found


def jobs_from(found: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The jobs of one reading, of their JSON forms. Those that drew on one pool do so again."""
    pools: dict[tuple[Any, ...], SharedConsumableResource] = {}
    return [_with_pools(_job_from(each), each.get("pools"), pools) for each in found]


def _with_pools(
    job: Any, numbers: Sequence[int] | None, pools: dict[tuple[Any, ...], SharedConsumableResource]
) -> Any:
    """The job, with the pools of those before it in the place of its own. Those of a journal that
    does not say which are its own stay that."""
    if numbers:
        left = iter(numbers)
        for each in _drawing(asked_by(job)[0].constraints):
            each.shared_resources[:] = [
                pools.setdefault((*_label(pool), next(left)), pool)
                for pool in each.shared_resources
            ]
    return job


def _job_from(found: Mapping[str, Any]) -> Any:
    if found.get("kind") == "none":
        return object()
    if found.get("kind") == "unusable":
        hosts = None if found["runs-who-knows-where"] else found.get("executing-hostnames", [])
        job: Job = UnusableJob(found["name"], found["reason"], hosts)
    elif found.get("kind") == "workers":
        job = WorkerJob(WorkerDemand(**found["demand"]), found["name"], found["constraints"])
        job.iterations_remaining = found.get("iterations-remaining", job.iterations)
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
    """The scheduler's nodes of a reading; `before` as in `job_rows`. The value of a node is what
    `as_reported` says of it."""
    return settled(
        hosts, before, _hosts_alike, name_as_reported, _host_value, Pairs, plain=host_json
    )


def _hosts_alike(hosts: Sequence[Node], values: Pairs) -> int:
    return reported_alike(hosts, values.own, values.shared)


def _host_value(host: Node) -> tuple[Any, Any]:
    own, ((*said, totals), size, marks, free) = as_reported(host)
    # those of a node tell it of each write, which takes longer
    kept = (*said, dict.copy(totals))
    return own, shared((kept, size, marks, dict.copy(free)))


def host_json(value: tuple[Any, Any]) -> dict[str, Any]:
    """The JSON form of a scheduler's node: what is not as it usually is."""
    (hostname, node_id, bucket, jobs), (said, size, marks, free) = value
    (state, kept, *where, metadata, totals), (marked, closed, required, _) = said, marks
    found = {
        "hostname": hostname,
        "resources": totals,
        "available": free,
        "job-ids": list(jobs),
        "metadata": metadata,
        "node-id": node_id,
        "marked-for-deletion": marked,
        "closed": closed,
        "required": required,
        "bucket-id": bucket,
        "state": state,
        "keep-alive": kept,
        "kind": (*size, *where),
    }
    if free == totals:
        del found["available"]
    usual = {k for k, each in found.items() if k in _USUAL and each == _USUAL[k]}
    shown: dict[str, Any] = redact_texts({k: v for k, v in found.items() if k not in usual})
    return shown


def host_from(found: Mapping[str, Any]) -> Node:
    """The scheduler's node of a JSON form. JournalError for one of another length."""
    known = {**_USUAL, **{key: value for key, value in found.items() if value is not None}}
    if len(known["kind"]) != len(_OF_THE_KIND):
        said = f"host {known['hostname']}: kind: expected {len(_OF_THE_KIND)} values"
        raise JournalError(f"{said}, found {known['kind']!r}")
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
