"""The buckets of a mock cluster: how many nodes they hold, and the limits that they share.

Buckets of one region and family share a quota, those of one region a larger one, those of one
nodearray its limits. Nothing here knows nodes but by name. Used by `mock.binding` alone.
"""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    NodearrayBucketStatus,
    NodearrayBucketStatusDefinition,
    NodearrayBucketStatusVirtualMachine,
    PlacementGroupStatus,
)
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.hpctypes import VMSize
from hpc.autoscale.node.vm_sizes import AuxVMSizeInfo, get_aux_vm_size_info, quota_family

UNLIMITED = 2**31 - 1


@dataclass(frozen=True)
class MockQuotas:
    """The cores that other buckets of the family and of the region use, and the quotas.

    None means that no other bucket uses any, or that there is no limit.
    """

    family_consumed_core_count: int | None
    family_quota_core_count: int | None
    family_quota_count: int | None
    regional_consumed_core_count: int | None
    regional_quota_core_count: int | None
    regional_quota_count: int | None


@dataclass(frozen=True)
class Slot:
    """A bucket, with its region and family, which say what other buckets share its limits."""

    array: ClusterNodearrayStatus
    bucket: NodearrayBucketStatus
    region: str
    spot: bool
    family: str

    @property
    def vm_size(self) -> str:
        definition = self.bucket.definition
        return definition.machine_type if definition else ""

    @property
    def vcpus(self) -> int:
        return self.bucket.virtual_machine.vcpu_count


class MockCapacity:
    """All buckets of a cluster, by id.

    Others may add to `nodearrays` meanwhile; buckets that are added so are not counted.
    """

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}

    def add_bucket(
        self,
        array: ClusterNodearrayStatus,
        vm_size: str,
        max_count: int,
        available_count: int,
        quotas: MockQuotas,
        placement_groups: list[str],
        valid: bool,
    ) -> NodearrayBucketStatus:
        """Add a bucket at the end of its nodearray.

        AssertionError for an unknown VM size, or for numbers that contradict each other.
        """
        region = array.nodearray["Region"]
        aux = get_aux_vm_size_info(region, VMSize(vm_size))
        if aux.vcpu_count < 0:
            raise AssertionError(f"{vm_size} is not a VM size of {region}")
        bucket = _new_bucket(array, vm_size, max_count, available_count, quotas, aux)
        bucket.placement_groups = [
            PlacementGroupStatus(name=name, active_count=0, active_core_count=0)
            for name in placement_groups
        ]
        bucket.valid = valid
        _check(bucket, vm_size)
        array.buckets.append(bucket)
        spot = bool(array.nodearray["Interruptible"])
        family = quota_family(region, VMSize(vm_size))
        self.slots[bucket.bucket_id] = Slot(array, bucket, region, spot, family)
        return bucket

    def of_array(self, name: str) -> list[Slot]:
        """The buckets of a nodearray, in order."""
        return [slot for slot in self.slots.values() if slot.array.name == name]

    def find(self, nodearray: str, vm_size: str | None) -> Slot:
        """The bucket of a nodearray with a VM size, which may be left out where there is one
        bucket.

        RuntimeError when there is no such bucket.
        """
        slots = self.of_array(nodearray)
        if not slots:
            known = {slot.array.name for slot in self.slots.values()}
            raise AutoscaleError(
                f"nodearray {nodearray} has no bucket, call add_bucket"
                f" first{did_you_mean(nodearray, known)}"
            )
        if len(slots) == 1:
            return slots[0]
        for slot in slots:
            if slot.vm_size == vm_size:
                return slot
        sizes = ", ".join(slot.vm_size for slot in slots)
        raise AutoscaleError(
            f"More than one bucket found for nodearray {nodearray}: expected one of {sizes} as"
            f" vm_size, found {vm_size}"
        )

    def take(self, bucket_id: str, node_name: str, placement_group: str | None) -> None:
        """Note that a node is in use."""
        slot = self.slots[bucket_id]
        if slot.bucket.active_nodes is None:
            slot.bucket.active_nodes = []
        slot.bucket.active_nodes.append(node_name)
        self._change(slot, 1, placement_group)

    def give_back(self, bucket_id: str, node_name: str, placement_group: str | None) -> None:
        """Note that a node is no longer in use."""
        slot = self.slots[bucket_id]
        if slot.bucket.active_nodes:
            slot.bucket.active_nodes.remove(node_name)
        self._change(slot, -1, placement_group)

    def _change(self, slot: Slot, count: int, placement_group: str | None) -> None:
        cores = count * slot.vcpus
        slot.bucket.active_count += count
        slot.bucket.active_core_count += cores
        if placement_group:
            group = _placement_group(slot.bucket, placement_group)
            group.active_count += count
            group.active_core_count += cores
        for other in self._sharing(slot):
            _consume(other.bucket, cores, same_family=other.family == slot.family)
        self._refresh_available()

    def _sharing(self, slot: Slot) -> Iterator[Slot]:
        """The buckets that draw on the same regional quota; on-demand and spot have one each."""
        for other in self.slots.values():
            if (other.region, other.spot) == (slot.region, slot.spot):
                yield other

    def _refresh_available(self) -> None:
        nodes: Counter[str] = Counter()
        cores: Counter[str] = Counter()
        for slot in self.slots.values():
            nodes[slot.array.name] += slot.bucket.active_count
            cores[slot.array.name] += slot.bucket.active_core_count
        for slot in self.slots.values():
            bucket, array = slot.bucket, slot.array
            free_cores = min(
                array.max_core_count - cores[array.name],
                (bucket.family_quota_core_count or 0) - (bucket.family_consumed_core_count or 0),
                (bucket.regional_quota_core_count or 0)
                - (bucket.regional_consumed_core_count or 0),
            )
            free = min(
                bucket.max_count - bucket.active_count,
                array.max_count - nodes[array.name],
                free_cores // slot.vcpus,
            )
            bucket.available_count = max(0, free)
            bucket.available_core_count = bucket.available_count * slot.vcpus


def _consume(bucket: NodearrayBucketStatus, cores: int, same_family: bool) -> None:
    bucket.regional_consumed_core_count = (bucket.regional_consumed_core_count or 0) + cores
    if same_family:
        bucket.family_consumed_core_count = (bucket.family_consumed_core_count or 0) + cores
        bucket.consumed_core_count += cores


def _placement_group(bucket: NodearrayBucketStatus, name: str) -> PlacementGroupStatus:
    """The placement group of that name. It is made when it is not there: any name will do."""
    for group in bucket.placement_groups:
        if group.name == name:
            return group
    group = PlacementGroupStatus(name=name, active_count=0, active_core_count=0)
    bucket.placement_groups.append(group)
    return group


def _new_bucket(
    array: ClusterNodearrayStatus,
    vm_size: str,
    max_count: int,
    available_count: int,
    quotas: MockQuotas,
    aux: AuxVMSizeInfo,
) -> NodearrayBucketStatus:
    active_cores = (max_count - available_count) * aux.vcpu_count
    family_consumed = _default(quotas.family_consumed_core_count, active_cores)
    group_size = array.nodearray["Azure"]["MaxScalesetSize"]
    family_cores = _default(quotas.family_quota_core_count, array.max_core_count)
    family_count = _default(quotas.family_quota_count, max_count)
    bucket = NodearrayBucketStatus(
        bucket_id=str(uuid.uuid4()),
        definition=NodearrayBucketStatusDefinition(machine_type=vm_size),
        virtual_machine=NodearrayBucketStatusVirtualMachine(
            vcpu_count=aux.vcpu_count,
            pcpu_count=aux.pcpu_count,
            gpu_count=aux.gpu_count,
            memory=float(aux.memory.convert_to("g").value),
            infiniband=aux.infiniband,
        ),
        invalid_reason="",
        active_nodes=[],
        active_count=max_count - available_count,
        active_core_count=active_cores,
        available_count=available_count,
        available_core_count=available_count * aux.vcpu_count,
        max_count=max_count,
        max_core_count=max_count * aux.vcpu_count,
        max_placement_group_size=group_size,
        max_placement_group_core_size=group_size * aux.vcpu_count,
        consumed_core_count=family_consumed,
        quota_count=family_count,
        quota_core_count=family_cores,
        family_consumed_core_count=family_consumed,
        family_quota_count=family_count,
        family_quota_core_count=family_cores,
        regional_consumed_core_count=_default(quotas.regional_consumed_core_count, family_consumed),
        regional_quota_count=_default(quotas.regional_quota_count, array.max_count),
        regional_quota_core_count=_default(quotas.regional_quota_core_count, array.max_core_count),
        last_capacity_failure=-1.0,
    )
    # limits of other kinds: none of it is in use, and nothing binds
    for name in dir(bucket):
        if "count" in name and getattr(bucket, name) is None:
            setattr(bucket, name, 0 if "consumed" in name else UNLIMITED)
    return bucket


def _check(bucket: NodearrayBucketStatus, vm_size: str) -> None:
    """AssertionError when more is in use than there is."""
    pairs = [
        ("active_count", bucket.active_count, bucket.max_count),
        (
            "family_consumed_core_count",
            bucket.family_consumed_core_count or 0,
            bucket.family_quota_core_count or 0,
        ),
        (
            "regional_consumed_core_count",
            bucket.regional_consumed_core_count or 0,
            bucket.regional_quota_core_count or 0,
        ),
    ]
    for name, used, limit in pairs:
        if not 0 <= used <= limit:
            raise AssertionError(
                f"bucket {vm_size}: expected {name} from 0 to {limit}, found {used}"
            )


def _default(value: int | None, default: int) -> int:
    return default if value is None else value
