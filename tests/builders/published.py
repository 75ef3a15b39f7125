"""What the conformance tests have in common: small clusters, nodes and jobs, made through published names only."""

import os
import subprocess
import sys

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import new_node_manager

row = pytest.mark.row


def a_cluster(count=10, vm_size="Standard_F4", **nodearray):
    """A mock cluster with the nodearray `htc` of one VM size: four cores and 8 GB, unless told otherwise."""
    cluster = MockClusterBinding("clusty")
    cluster.add_nodearray("htc", {}, **nodearray)
    cluster.add_bucket("htc", vm_size, count, count)
    return cluster


def a_config(cluster, **keys):
    """A configuration for a mock cluster."""
    return {"cluster_name": "clusty", "_mock_bindings": cluster, "lock_file": None, **keys}


def a_manager(cluster=None, **keys):
    """A node manager over a mock cluster."""
    return new_node_manager(a_config(a_cluster() if cluster is None else cluster, **keys))


def node_arguments(**changed):
    """All keyword arguments of `Node`, those of a planned node of four cores."""
    name = changed.get("name", "htc-1")
    arguments = {
        "node_id": DelayedNodeId(name),
        "name": name,
        "nodearray": "htc",
        "bucket_id": "b1",
        "hostname": None,
        "private_ip": None,
        "instance_id": None,
        "vm_size": "Standard_F4",
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


def names(nodes):
    """The names of nodes, in their order."""
    return [node.name for node in nodes]


def python(code, *argv, **environment):
    """Run Python code in a process of its own; the completed process, of which nothing is asserted."""
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
