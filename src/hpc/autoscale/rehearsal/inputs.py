"""What a pass was made from, as far as it decides: its fingerprint.

Two passes that were made from the same configuration, limits, nodes and jobs decide the same, if
time does not tell. So what is kept of each is what a person would name when it has changed. Values
that change all the time and decide nothing are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from hpc.autoscale.autoscaler.summary import name_of_job
from hpc.autoscale.ccbindings.models import ClusterStatus
from hpc.autoscale.errors import counted
from hpc.autoscale.redaction import redact

_LIMITS = (
    "max_count",
    "max_core_count",
    "quota_count",
    "quota_core_count",
    "family_quota_count",
    "family_quota_core_count",
    "regional_quota_count",
    "regional_quota_core_count",
    "max_placement_group_size",
    "valid",
)
"""What of a bucket, a nodearray and a cluster says how much there may be."""


@dataclass(frozen=True)
class Inputs:
    """`configuration`: a hash for each key of autoscale.json, secrets left out. `limits`: by bucket
    and name. `nodes`: by name, with their id and state. `jobs`: by name, with their state and how
    much they want; those of request sets are among them. `hosts`: those of the scheduler by name,
    with how many jobs they have."""

    configuration: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    jobs: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)

    def with_limits(self, status: ClusterStatus) -> Inputs:
        """These inputs with the limits of a status, unless there are some."""
        return self if self.limits else replace(self, limits=dict(_limits_of(status)))

    def with_nodes(self, records: Iterable[Mapping[str, Any]]) -> Inputs:
        """These inputs with the nodes of a listing, unless there are some."""
        if self.nodes:
            return self
        kept = ("NodeId", "Status", "TargetState", "KeepAlive")
        nodes = {
            str(record.get("Name")): " ".join(str(record[k]) for k in kept if record.get(k))
            for record in records
        }
        return replace(self, nodes=nodes)

    def with_jobs(self, jobs: Iterable[Any]) -> Inputs:
        """These inputs with the jobs that are to be placed, unless there are some."""
        if self.jobs:
            return self
        return replace(self, jobs={name_of_job(job): _wish(job) for job in jobs})

    def with_hosts(self, hosts: Iterable[Any]) -> Inputs:
        """These inputs with the hosts of a reading, unless there are some."""
        if self.hosts:
            return self
        return replace(self, hosts={_name_of_host(host): _load(host) for host in hosts})

    @property
    def fingerprint(self) -> str:
        """One text for all of it."""
        return digest_of(asdict(self))

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {**asdict(self), "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Inputs:
        """What a JSON form says. TypeError, KeyError or ValueError for what is none."""
        found = cls(**{each.name: dict(saved[each.name]) for each in fields(cls)})
        if found.fingerprint != saved["fingerprint"]:
            raise ValueError("its fingerprint is another")
        return found


def digests_of(config: Mapping[str, Any]) -> dict[str, str]:
    """A hash for each key of a configuration, without secrets and live objects."""
    plain = {key: value for key, value in config.items() if not key.startswith("_")}
    for key in ("lock_file", "read_only", "logging"):  # what no decision depends on
        plain.pop(key, None)
    return {key: digest_of(value) for key, value in redact(plain).items()}


def digest_of(value: Any) -> str:
    """A short hash of what JSON can hold."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _wish(job: Any) -> str:
    state = (getattr(job, "metadata", None) or {}).get("job_state") or ""
    count = getattr(job, "node_count", 0)
    wanted = f"{count} nodes" if count else f"{getattr(job, 'iterations_remaining', '?')} slots"
    return f"{state} {wanted}".strip()


def _name_of_host(host: Any) -> str:
    return str(getattr(host, "hostname", None) or host)


def _load(host: Any) -> str:
    jobs = counted(len(getattr(host, "assignments", ())), "job")
    return f"{jobs} and is given up" if getattr(host, "marked_for_deletion", False) else jobs


def _limits_of(status: ClusterStatus) -> Iterator[tuple[str, str]]:
    yield from _of("cluster", status)
    for array in status.nodearrays or ():
        yield from _of(f"nodearray {array.name}", array)
        for bucket in array.buckets or ():
            size = bucket.definition.machine_type if bucket.definition else bucket.bucket_id
            yield from _of(f"{array.name}/{size}", bucket)


def _of(place: str, model: Any) -> Iterator[tuple[str, str]]:
    for name in _LIMITS:
        value = getattr(model, name, None)
        if value is not None:
            yield f"{place} {name}", str(value)
