"""The answer to GET status: every bucket with its limits, what is in use, and what may be added.

It is computed from the node records and the limits each time; nothing is remembered.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.attributes import node_record, nodearray_record
from hpc.autoscale.simulator.creation_requests import room_for
from hpc.autoscale.simulator.description import MachineType, Nodearray
from hpc.autoscale.simulator.limits import (
    QUOTAS,
    Tally,
    bucket_scope,
    group_scope,
    place_limits,
    quota_limits,
)
from hpc.autoscale.simulator.nodes import SimNode

if TYPE_CHECKING:
    from hpc.autoscale.simulator.cluster import SimCluster

_Members = Mapping[tuple[str, str], list[SimNode]]


def cluster_status(cluster: "SimCluster", with_nodes: bool) -> models.ClusterStatus:
    """The status of a cluster.

    `with_nodes` adds the records of the nodes that are not off, and their names in the buckets.
    """
    nodes = cluster.nodes()
    tally = cluster.cloud.tally()
    members: dict[tuple[str, str], list[SimNode]] = defaultdict(list)
    for node in nodes:
        members[node.nodearray.name, node.machine_type.name].append(node)
    description = cluster.description
    return models.ClusterStatus(
        state="Started",
        target_state="Started",
        max_count=description.max_count,
        max_core_count=description.max_core_count,
        nodearrays=[
            models.ClusterNodearrayStatus(
                name=array.name,
                max_count=array.max_count,
                max_core_count=array.max_core_count,
                nodearray=nodearray_record(description, array),
                buckets=[
                    _bucket(cluster, array, size, tally, members, with_nodes)
                    for size in array.machine_types.values()
                ],
            )
            for array in description.nodearrays.values()
        ],
        nodes=[node_record(node) for node in nodes if not node.parked] if with_nodes else None,
    )


def _bucket(
    cluster: "SimCluster",
    array: Nodearray,
    size: MachineType,
    tally: Tally,
    members: _Members,
    with_nodes: bool,
) -> models.NodearrayBucketStatus:
    mine = members.get((array.name, size.name), [])
    active = tally.taken(bucket_scope(cluster.name, array, size))
    available, _ = room_for(cluster, array, size, tally)
    most = min(limit.size() for limit in place_limits(cluster.description, array, size))
    group_size = min(array.max_placement_group_size, most)
    bucket = models.NodearrayBucketStatus(
        bucket_id=cluster.bucket_ids[array.name, size.name.lower()],
        definition=models.NodearrayBucketStatusDefinition(machine_type=size.name),
        valid=not size.invalid_reason,
        invalid_reason=size.invalid_reason,
        active_count=active.nodes,
        active_core_count=active.cores,
        active_nodes=[node.name for node in mine if node.counts] if with_nodes else None,
        available_count=available,
        available_core_count=available * size.vcpus,
        max_count=most,
        max_core_count=most * size.vcpus,
        max_placement_group_size=group_size,
        max_placement_group_core_size=group_size * size.vcpus,
        last_capacity_failure=cluster.seconds_since_capacity_failure(array, size),
        spot_placement_score=size.spot_placement_score,
        placement_groups=_groups(cluster, array, size, tally, mine),
        virtual_machine=models.NodearrayBucketStatusVirtualMachine(
            vcpu_count=size.vcpus,
            pcpu_count=size.pcpus,
            gpu_count=size.gpus,
            memory=size.memory_gb,
            infiniband=size.infiniband,
            vcpu_quota_count=size.quota_vcpus,
        ),
    )
    _fill_quotas(bucket, cluster, array, size, tally)
    return bucket


def _groups(
    cluster: "SimCluster", array: Nodearray, size: MachineType, tally: Tally, mine: list[SimNode]
) -> list[models.PlacementGroupStatus]:
    """The placement groups that the description names, and those that a node is in."""
    in_use = (node.placement_group for node in mine if node.placement_group)
    statuses = []
    for name in dict.fromkeys([*array.placement_groups, *in_use]):
        taken = tally.taken(group_scope(cluster.name, array, size, name))
        statuses.append(
            models.PlacementGroupStatus(
                name=name, active_count=taken.nodes, active_core_count=taken.cores
            )
        )
    return statuses


def _fill_quotas(
    bucket: models.NodearrayBucketStatus,
    cluster: "SimCluster",
    array: Nodearray,
    size: MachineType,
    tally: Tally,
) -> None:
    """Write the quotas, and what is used of them, into a bucket.

    For spot there is no family quota: its numbers are 0.
    """
    limits = quota_limits(cluster.cloud.regions[array.region], array, size)
    smallest = min(limits, key=lambda limit: limit.most)
    bucket.quota_count = smallest.size()
    bucket.quota_core_count = smallest.most
    figures = {quota.status: (0, 0, 0) for quota in QUOTAS}
    for limit in limits:
        cores = tally.taken(limit.scope).cores
        figures[limit.status] = limit.size(), limit.most, cores
    for status, (nodes, cores, taken) in figures.items():
        setattr(bucket, f"{status}_quota_count", nodes)
        setattr(bucket, f"{status}_quota_core_count", cores)
        setattr(bucket, f"{status}_consumed_core_count", taken)
    of_all = "regional" if array.spot else "family"
    bucket.consumed_core_count = figures[of_all][2]
