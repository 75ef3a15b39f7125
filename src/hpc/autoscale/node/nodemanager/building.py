"""From what the server says of a cluster to buckets with their nodes and limits.

Pure but for log lines: a status, the node records and the configuration go in, buckets come out. A nodearray, bucket or
record that makes no sense is set aside and reported in `Built.problems`; it never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
)
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit, _SpotLimit
from hpc.autoscale.node.nodemanager.records import NodeRecords, with_sizes

_UNLIMITED = 2**31 - 1


class Built(NamedTuple):
    """`buckets` in declared order; `names` of all nodes the server knows; `problems`, a sentence each."""

    buckets: list[NodeBucket]
    names: list[str]
    problems: list[str]


def build(
    config: Mapping[str, Any], status: ClusterStatus, records: Sequence[Mapping[str, Any]]
) -> Built:
    """The buckets of a cluster."""
    return _Builder(config, status, records).build()


class _Builder:
    def __init__(
        self,
        config: Mapping[str, Any],
        status: ClusterStatus,
        records: Sequence[Mapping[str, Any]],
    ) -> None:
        on_prem = set(config.get("_mimic_on_prem") or ())
        self.config = config
        self.status = status
        self.problems: list[str] = []
        self.records = NodeRecords(config, [r for r in records if r.get("Name") not in on_prem])
        self.vcpus: dict[tuple[Any, Any], int] = {
            (array.name, bucket.definition.machine_type): bucket.virtual_machine.vcpu_count or 0
            for array in status.nodearrays or ()
            for bucket in array.buckets or ()
            if bucket.definition is not None and bucket.virtual_machine is not None
        }
        self.regional: dict[tuple[str, bool], _SharedLimit] = {}
        self.families: dict[str, _SharedLimit] = {}
        listed = [r for r in status.nodes or () if r.get("Name") not in on_prem]
        self.cluster = _SharedLimit(
            "Cluster",
            sum(self._vcpus_of(r) for r in listed if _takes_place(r)),
            _number(status.max_core_count, _UNLIMITED),
        )

    def build(self) -> Built:
        buckets: list[NodeBucket] = []
        for array in self.status.nodearrays or ():
            if _setting(array.nodearray, "autoscale", "enabled") is False:
                logging.fine("nodearray %s has autoscale.enabled=false: left alone", array.name)
                continue
            if not array.buckets:
                self.problems.append(
                    f"nodearray {array.name}: expected at least one bucket (a VM size that can be used), found none; "
                    "check MachineType, region and quota of the nodearray in CycleCloud"
                )
                continue
            buckets.extend(self._nodearray(array))
        self.problems.extend(self.records.problems)
        for problem in self.problems:
            logging.warning("%s", problem)
        return Built(buckets, self.records.names, self.problems)

    def _nodearray(self, array: ClusterNodearrayStatus) -> Iterable[NodeBucket]:
        record: Mapping[str, Any] = array.nodearray or {}
        members = [r for r in self.records.of_nodearray(array.name) if _takes_place(r)]
        limit = _SharedLimit(
            f"NodeArray({array.name})",
            sum(self._vcpus_of(r) for r in members),
            _number(array.max_core_count, _UNLIMITED),
            len(members),
            _number(array.max_count, _UNLIMITED),
        )
        base = 1000 * int(record.get("Priority") or 1)
        for n, bucket in enumerate(array.buckets or ()):
            try:
                yield from self._bucket(array, record, limit, bucket, base - n)
            except (AttributeError, KeyError, TypeError, ValueError, AssertionError) as e:
                size = bucket.definition and bucket.definition.machine_type
                self.problems.append(
                    f"nodearray {array.name}, VM size {size}: set aside, its record cannot be used: {e!r}"
                )

    def _bucket(
        self,
        array: ClusterNodearrayStatus,
        record: Mapping[str, Any],
        nodearray_limit: _SharedLimit,
        bucket: NodearrayBucketStatus,
        priority: int,
    ) -> list[NodeBucket]:
        machine_type = _machine_type(bucket)
        spot = bool(record.get("Interruptible"))
        definition = self._definition(array.name, record, bucket, spot)
        vcpus = definition.vcpu_count
        if vcpus <= 0:
            raise ValueError(f"expected a number of vCPUs above 0, found {vcpus}")
        regional = self._regional_limit(definition.location, spot, bucket)
        family = self._family_limit(definition, spot, bucket, regional)
        available = min(nodearray_limit.room(vcpus), _number(bucket.available_count, 0))
        limits = BucketLimits(
            vcpus,
            regional,
            self.cluster,
            nodearray_limit,
            family,
            None,
            active_core_count=_number(bucket.active_core_count, 0),
            active_count=_number(bucket.active_count, 0),
            available_core_count=available * vcpus,
            available_count=available,
            max_core_count=_number(bucket.max_core_count, 0),
            max_count=_number(bucket.max_count, 0),
            name=f"Bucket({array.name}, {machine_type})",
        )
        group_size = _number(bucket.max_placement_group_size, 0)
        made = []
        for group, used_cores in self._placement_groups(array.name, machine_type, record, bucket):
            nodes = self.records.nodes(definition, group)
            made.append(
                NodeBucket(
                    _in_group(definition, group),
                    _group_limits(limits, group, group_size * vcpus, used_cores),
                    group_size,
                    nodes,
                    priority=priority,
                    last_capacity_failure=bucket.last_capacity_failure,
                    valid=bucket.valid is not False,
                    spot_placement_score=getattr(bucket, "spot_placement_score", None),
                )
            )
        return made

    def _definition(
        self,
        nodearray: str,
        record: Mapping[str, Any],
        bucket: NodearrayBucketStatus,
        spot: bool,
    ) -> NodeDefinition:
        machine = bucket.virtual_machine
        memory = record.get("Memory") or machine.memory
        configuration = record.get("Configuration") or {}
        machine_type = ht.VMSize(_machine_type(bucket))
        aux = vm_sizes.get_aux_vm_size_info(record["Region"], machine_type)
        return NodeDefinition(
            ht.NodeArrayName(nodearray),
            ht.BucketId(bucket.bucket_id),
            machine_type,
            ht.Location(record["Region"]),
            spot,
            ht.SubnetId(record.get("SubnetId") or ""),
            machine.vcpu_count,
            gpu_count(self.config, machine.gpu_count, aux.gpu_count),
            aux.memory if memory is None else ht.Memory(memory, "g"),
            None,
            with_sizes(_setting(record, "autoscale", "resources") or {}),
            configuration,
        )

    def _vcpus_of(self, record: Mapping[str, Any]) -> int:
        known = self.vcpus.get((record.get("Template") or "", record.get("MachineType") or ""))
        if known:
            return known
        if record.get("CoreCount"):
            return int(record["CoreCount"])
        aux = vm_sizes.get_aux_vm_size_info(record.get("Region"), record.get("MachineType"))
        return max(0, aux.vcpu_count)

    def _regional_limit(
        self, location: str, spot: bool, bucket: NodearrayBucketStatus
    ) -> _SharedLimit:
        return self.regional.setdefault(
            (location, spot),
            _SharedLimit(
                f"{'Spot' if spot else 'Region'}({location})",
                _number(bucket.regional_consumed_core_count, 0),
                _number(bucket.regional_quota_core_count, _UNLIMITED),
            ),
        )

    def _family_limit(
        self,
        definition: NodeDefinition,
        spot: bool,
        bucket: NodearrayBucketStatus,
        regional: _SharedLimit,
    ) -> _SharedLimit:
        if spot:
            return _SpotLimit(regional)
        family = vm_sizes.get_aux_vm_size_info(definition.location, definition.vm_size).vm_family
        name = f"{definition.vm_size if family == 'unknown' else family}, {definition.location}"
        # older servers report the family's figures under the plain names
        used, quota = bucket.family_consumed_core_count, bucket.family_quota_core_count
        if quota is None:
            used, quota = bucket.consumed_core_count, bucket.quota_core_count
        return self.families.setdefault(
            name,
            _SharedLimit(f"VM Family({name})", _number(used, 0), _number(quota, _UNLIMITED)),
        )

    def _placement_groups(
        self,
        nodearray: str,
        machine_type: str,
        record: Mapping[str, Any],
        bucket: NodearrayBucketStatus,
    ) -> list[tuple[str | None, int]]:
        """Placement groups with the cores in use in each; the bucket itself, outside of any, comes last."""
        used = {g.name: _number(g.active_core_count, 0) for g in bucket.placement_groups or ()}
        configured = self.config.get("nodearrays") or {}
        names: list[str] = sorted(used)
        for section in ("default", nodearray):
            names.extend((configured.get(section) or {}).get("placement_groups") or ())
        if record.get("PlacementGroupId"):
            names.append(record["PlacementGroupId"])
        names.extend(self.records.placement_groups(nodearray, machine_type))
        groups: list[tuple[str | None, int]] = [(n, used.get(n, 0)) for n in dict.fromkeys(names)]
        return [*groups, (None, 0)]


def _machine_type(bucket: NodearrayBucketStatus) -> str:
    if bucket.definition is None or not bucket.definition.machine_type:
        raise ValueError("expected a definition with a machineType, found none")
    return bucket.definition.machine_type


def gpu_count(config: Mapping[str, Any], reported: int | None, catalogue: int) -> int:
    """GPUs of a size: the higher of what CycleCloud reports and the catalogue (locked-down subscriptions report 0), or,
    with `"vm_sizes": {"gpu_count": "reported"}`, what is reported where that is above 0."""
    if (config.get("vm_sizes") or {}).get("gpu_count") == "reported" and reported:
        return reported
    return max(reported or 0, catalogue, 0)


def _in_group(d: NodeDefinition, group: str | None) -> NodeDefinition:
    return NodeDefinition(
        d.nodearray,
        d.bucket_id,
        d.vm_size,
        d.location,
        d.spot,
        d.subnet,
        d.vcpu_count,
        d.gpu_count,
        d.memory,
        ht.PlacementGroup(group) if group else None,
        d.resources,
        d.software_configuration,
    )


def _group_limits(
    limits: BucketLimits, group: str | None, max_cores: int, used_cores: int
) -> BucketLimits:
    if not group:
        return limits
    return limits.in_placement_group(
        _SharedLimit(f"PlacementGroup({group})", used_cores, max_cores)
    )


def _takes_place(record: Mapping[str, Any]) -> bool:
    """Whether a node counts against limits: booting, running and terminating ones do, those at rest do not."""
    target, status = record.get("TargetState"), record.get("Status")
    return bool(target) and (status != target or target == "Started")


def _setting(record: Mapping[str, Any] | None, *path: str) -> Any:
    found: Any = (record or {}).get("Configuration")
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def _number(value: Any, default: int) -> int:
    return default if value is None else int(value)
