"""Nodes, buckets, small clusters and managers, with what a test names and defaults otherwise."""

from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import Memory, NodeName
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.testing import Nodearray, a_cluster, a_config

F4 = "Standard_F4"


def node_arguments(**changed: Any) -> dict[str, Any]:
    """All keyword arguments of `Node`, those of a planned node of four cores."""
    name = changed.get("name", "htc-1")
    node_id = changed.pop("id", None)
    arguments = {
        "node_id": DelayedNodeId(name, node_id),
        "name": name,
        "nodearray": "htc",
        "bucket_id": "b1",
        "hostname": None,
        "private_ip": None,
        "instance_id": None,
        "vm_size": F4,
        "location": "westus2",
        "spot": False,
        "vcpu_count": 4,
        "memory": Memory(8, "g"),
        "infiniband": False,
        "state": "Off",
        "target_state": "Off",
        "power_state": "Off",
        "exists": False,
        "placement_group": None,
        "managed": True,
        "resources": {"ncpus": 4},
        "software_configuration": {},
        "keep_alive": False,
    }
    return {**arguments, **changed}


def a_planned_node(**changed: Any) -> Node:
    """A node that belongs to no bucket."""
    return Node(**node_arguments(**changed))


def a_running_node(**changed: Any) -> Node:
    """A running node that belongs to no bucket."""
    running = {"state": "Ready", "target_state": "Started", "exists": True, "hostname": "ip-1"}
    return a_planned_node(**{**running, **changed})


def some_limits(available: int = 10, vcpus: int = 4, **shared: Any) -> BucketLimits:
    """The limits of a bucket; `shared` replaces the accounts that it shares with others."""
    ample = {
        "regional_limits": _SharedLimit("Region(westus2)", 0, 10_000),
        "cluster_limits": _SharedLimit("Cluster", 0, 10_000),
        "nodearray_limits": _SharedLimit("NodeArray(htc)", 0, 10_000),
        "family_limits": _SharedLimit("VM Family(f)", 0, 10_000),
        "placement_group_limits": None,
    }
    return BucketLimits(
        vcpus,
        **{**ample, **shared},
        active_core_count=0,
        active_count=0,
        available_core_count=available * vcpus,
        available_count=available,
        max_core_count=available * vcpus,
        max_count=available,
    )


def a_definition(
    nodearray: str = "htc",
    vm_size: str = F4,
    placement_group: str | None = None,
    resources: Mapping[str, Any] | None = None,
    **changed: Any,
) -> NodeDefinition:
    """What the new nodes of a bucket are."""
    arguments = {
        "nodearray": nodearray,
        "bucket_id": f"{nodearray}-{vm_size}",
        "vm_size": vm_size,
        "location": "westus2",
        "spot": False,
        "subnet": "rg/net/sub",
        "vcpu_count": 4,
        "gpu_count": 0,
        "memory": Memory(8, "g"),
        "placement_group": placement_group,
        "resources": {"ncpus": 4} if resources is None else resources,
        "software_configuration": {},
    }
    return NodeDefinition(**{**arguments, **changed})


def a_bucket(
    available: int = 10,
    nodes: Iterable[Node] = (),
    group_size: int = 20,
    artificial: bool = False,
    limits: BucketLimits | None = None,
    last_capacity_failure: float | None = None,
    priority: int = 0,
    **definition: Any,
) -> NodeBucket:
    """A bucket that belongs to no manager."""
    return NodeBucket(
        a_definition(**definition),
        some_limits(available) if limits is None else limits,
        group_size,
        list(nodes),
        last_capacity_failure=last_capacity_failure,
        priority=priority,
        artificial=artificial,
    )


def an_htc_cluster(
    count: int = 10,
    vm_size: str = F4,
    resources: Mapping[str, Any] | None = None,
    software_configuration: Mapping[str, Any] | None = None,
    max_count: int = 100_000,
    **nodearray: Any,
) -> MockClusterBinding:
    """A mock cluster with the nodearray htc of one VM size; `nodearray` is what else `Nodearray`
    can say."""
    array = Nodearray(
        {vm_size: count},
        resources=resources or {},
        configuration=software_configuration or {},
        max_count=max_count,
        **nodearray,
    )
    return a_cluster(htc=array)


def a_manager(cluster: MockClusterBinding | None = None, **keys: Any) -> NodeManager:
    """A node manager over a mock cluster."""
    return new_node_manager(a_config(an_htc_cluster() if cluster is None else cluster, **keys))


def names(nodes: Iterable[Node]) -> list[NodeName]:
    """Names, in order."""
    return [node.name for node in nodes]
