"""Nodes, buckets, clusters and managers for the tests of the node layer, with what a test names and defaults otherwise."""

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodearrayBucketStatusDefinition,
    NodearrayBucketStatusVirtualMachine,
    PlacementGroupStatus,
)
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.nodemanager.building import build
from hpc.autoscale.results import SatisfiedResult

F4 = "Standard_F4"


def node_arguments(**changed):
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


def a_node(**changed):
    """A node that belongs to no bucket."""
    return Node(**node_arguments(**changed))


def a_running_node(**changed):
    """The same, running."""
    running = {"state": "Ready", "target_state": "Started", "exists": True, "hostname": "ip-1"}
    return a_node(**{**running, **changed})


def some_limits(available=10, vcpus=4, **shared):
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


def a_definition(nodearray="htc", vm_size=F4, placement_group=None, resources=None, **changed):
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


def a_bucket(available=10, nodes=(), group_size=20, artificial=False, limits=None, **definition):
    """A bucket that belongs to no manager."""
    return NodeBucket(
        a_definition(**definition),
        some_limits(available) if limits is None else limits,
        group_size,
        list(nodes),
        artificial=artificial,
    )


def a_cluster(count=10, vm_size=F4, resources=None, **nodearray):
    """A mock cluster with the nodearray htc of one VM size."""
    cluster = MockClusterBinding("clusty")
    cluster.add_nodearray("htc", resources or {}, **nodearray)
    cluster.add_bucket("htc", vm_size, count, count)
    return cluster


def a_config(cluster, **keys):
    """A configuration for a mock cluster."""
    return {"cluster_name": "clusty", "_mock_bindings": cluster, "lock_file": None, **keys}


def a_manager(cluster=None, **keys):
    """A node manager over a mock cluster."""
    return new_node_manager(a_config(a_cluster() if cluster is None else cluster, **keys))


def names(nodes):
    """Names, in order."""
    return [node.name for node in nodes]


# -- what a server says, for the tests that build managers from it


def a_record(name="htc-1", **changed):
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


def bucket_status(vm_size=F4, vcpus=4, available=10, groups=(), **changed):
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


def array_status(name="htc", buckets=None, max_count=10_000, max_core_count=100_000, **record):
    """What a server says of one nodearray; `record` are keys of its own record."""
    own = {"Region": "westus2", "SubnetId": "rg/net/sub", "Configuration": {}, **record}
    return ClusterNodearrayStatus(
        name=name,
        max_count=max_count,
        max_core_count=max_core_count,
        nodearray={key: value for key, value in own.items() if value is not ...},
        buckets=[bucket_status()] if buckets is None else buckets,
    )


def cluster_status(*arrays, nodes=(), max_core_count=100_000):
    """What a server says of a cluster."""
    return ClusterStatus(
        state="Started",
        target_state="Started",
        max_count=10_000,
        max_core_count=max_core_count,
        nodearrays=list(arrays) or [array_status()],
        nodes=list(nodes),
    )


def build_from(status, records=(), **config):
    """The buckets of a status, with the same records in both listings."""
    status.nodes = list(records)
    return build(config, status, list(records))


def only_bucket(status, records=(), **config):
    """The one bucket of a status."""
    (bucket,) = build_from(status, records, **config).buckets
    return bucket


# -- constraints as integrations write them


class Tokens(BaseNodeConstraint):
    """Takes one token for each iteration; writes what it was asked to into the node as it does."""

    def __init__(self, write=None):
        self.write = write

    def satisfied_by_node(self, node):
        enough = node.available.get("tokens", 0) > 0
        return SatisfiedResult("success" if enough else "NoTokens", self, node, ["no tokens"])

    def minimum_space(self, node):
        return node.available.get("tokens", 0)

    def do_decrement(self, node):
        if node.available.get("tokens", 0) < 1:
            return False
        node.available["tokens"] -= 1
        if self.write is not None:
            self.write(node)
        return True

    def to_dict(self):
        return {"tokens": 1}

    def __str__(self):
        return "Tokens()"
