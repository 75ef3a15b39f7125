"""What a server says of a cluster, for the tests that build managers from it."""

from collections.abc import Iterable
from typing import Any

from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodearrayBucketStatusDefinition,
    NodearrayBucketStatusVirtualMachine,
    PlacementGroupStatus,
)
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.nodemanager.building import Built

F4 = "Standard_F4"


def a_record(name: str = "htc-1", **changed: Any) -> dict[str, Any]:
    """The record of a running node."""
    record = {
        "Name": name,
        "NodeId": f"id-{name}",
        "Template": "htc",
        "MachineType": F4,
        "Status": "Ready",
        "TargetState": "Started",
        "Hostname": f"ip-{name}",
        "PrivateIp": "10.0.0.4",
        "InstanceId": f"vm-{name}",
    }
    return {key: value for key, value in {**record, **changed}.items() if value is not ...}


def bucket_status(
    vm_size: str = F4,
    vcpus: int = 4,
    available: int = 10,
    groups: Iterable[tuple[str, int]] = (),
    **changed: Any,
) -> NodearrayBucketStatus:
    """What a server says of one bucket; `...` leaves a field out."""
    values = {
        "bucket_id": f"id-{vm_size}",
        "definition": NodearrayBucketStatusDefinition(machine_type=vm_size),
        "virtual_machine": NodearrayBucketStatusVirtualMachine(
            vcpu_count=vcpus, gpu_count=0, memory=8.0, infiniband=False
        ),
        "valid": True,
        "active_count": 0,
        "active_core_count": 0,
        "available_count": available,
        "available_core_count": available * vcpus,
        "max_count": available,
        "max_core_count": available * vcpus,
        "max_placement_group_size": 100,
        "max_placement_group_core_size": 100 * vcpus,
        "consumed_core_count": 0,
        "quota_count": 1000,
        "quota_core_count": 4000,
        "family_consumed_core_count": 0,
        "family_quota_core_count": 4000,
        "regional_consumed_core_count": 0,
        "regional_quota_core_count": 10_000,
        "placement_groups": [
            PlacementGroupStatus(name=g, active_count=n, active_core_count=n * vcpus)
            for g, n in groups
        ],
    }
    given = {k: v for k, v in {**values, **changed}.items() if v is not ...}
    return NodearrayBucketStatus(**given)


def array_status(
    name: str = "htc",
    buckets: list[NodearrayBucketStatus] | None = None,
    max_count: int = 10_000,
    max_core_count: int = 100_000,
    **record: Any,
) -> ClusterNodearrayStatus:
    """What a server says of one nodearray; `record` are keys of its own record."""
    own = {"Region": "westus2", "SubnetId": "rg/net/sub", "Configuration": {}, **record}
    return ClusterNodearrayStatus(
        name=name,
        max_count=max_count,
        max_core_count=max_core_count,
        nodearray={key: value for key, value in own.items() if value is not ...},
        buckets=[bucket_status()] if buckets is None else buckets,
    )


def cluster_status(
    *arrays: ClusterNodearrayStatus,
    nodes: Iterable[dict[str, Any]] = (),
    max_core_count: int = 100_000,
) -> ClusterStatus:
    """What a server says of a cluster."""
    return ClusterStatus(
        state="Started",
        target_state="Started",
        max_count=10_000,
        max_core_count=max_core_count,
        nodearrays=list(arrays) or [array_status()],
        nodes=list(nodes),
    )


def build_from(
    status: ClusterStatus, records: Iterable[dict[str, Any]] = (), **config: Any
) -> Built:
    """The buckets of a status, with the same records in both listings."""
    status.nodes = list(records)
    return Built(config, status, list(records))


def only_bucket(
    status: ClusterStatus, records: Iterable[dict[str, Any]] = (), **config: Any
) -> NodeBucket:
    """The one bucket of a status."""
    (bucket,) = build_from(status, records, **config).buckets
    return bucket
