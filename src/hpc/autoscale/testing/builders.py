"""Small clusters, nodes and jobs in one line each, for tests of integrations and of this library.

Whatever a test does not say has a plain default: four cores, West US 2, a cluster called clusty.
Nothing here runs anything; `stage` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import get_aux_vm_size_info, suggest_vm_size
from hpc.autoscale.simulator import Simulator, serve
from hpc.autoscale.simulator.handles import ClusterHandle

CLUSTER_NAME = "clusty"
LOCATION = "westus2"
VM_SIZE = "Standard_F4s_v2"
"""Four cores and 8 GiB."""


@dataclass(frozen=True)
class Nodearray:
    """A nodearray: how many nodes there may be of each VM size, in order of preference, and what
    else it says.

    `resources` are those that its nodes have for the scheduler; `configuration` is the rest of what
    its template says.
    """

    sizes: Mapping[str, int]
    location: str = LOCATION
    spot: bool = False
    resources: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    placement_groups: Sequence[str] = ()
    max_placement_group_size: int = 100
    max_count: int = 10_000
    max_core_count: int = 1_000_000


def a_cluster(
    name: str = CLUSTER_NAME, /, **nodearrays: Nodearray | Mapping[str, int]
) -> MockClusterBinding:
    """A cluster in memory, as in `a_cluster(htc={"Standard_F4s_v2": 10})`; without nodearrays it
    has that one.

    AssertionError for a VM size that its region does not have.
    """
    cluster = MockClusterBinding(name)
    for array_name, array in _read(nodearrays).items():
        cluster.add_nodearray(
            array_name,
            array.resources,
            location=array.location,
            max_core_count=array.max_core_count,
            max_count=array.max_count,
            spot=array.spot,
            software_configuration=array.configuration,
            max_placement_group_size=array.max_placement_group_size,
        )
        for vm_size, count in array.sizes.items():
            cluster.add_bucket(
                array_name, vm_size, count, count, placement_groups=array.placement_groups
            )
    return cluster


def a_config(cluster: MockClusterBinding, /, **keys: Any) -> dict[str, Any]:
    """A configuration for a cluster in memory, without a lock; `keys` are further ones of
    autoscale.json."""
    return {
        "cluster_name": cluster.cluster_name,
        "_mock_bindings": cluster,
        "lock_file": None,
        **keys,
    }


def a_description(
    name: str = CLUSTER_NAME, /, **nodearrays: Nodearray | Mapping[str, int]
) -> dict[str, Any]:
    """The same cluster as `a_cluster` makes, as the simulator reads it: a dict to add regions,
    lifecycle or faults to."""
    arrays = {key: _described(array) for key, array in _read(nodearrays).items()}
    return {"clusters": {name: {"region": LOCATION, "nodearrays": arrays}}}


@dataclass(frozen=True)
class SimulatedCluster:
    """A cluster behind a server: `config` connects to it, `handle` looks into it and orders
    accidents, `simulator` has its clock and its faults."""

    simulator: Simulator
    handle: ClusterHandle
    config: dict[str, Any]


@contextmanager
def a_simulated_cluster(
    name: str = CLUSTER_NAME, /, **nodearrays: Nodearray | Mapping[str, int]
) -> Iterator[SimulatedCluster]:
    """A cluster behind a real server on 127.0.0.1, for the time of a `with` block; its clock moves
    when it is told to.

    Needs the extra `simulator`.
    """
    with serve(a_description(name, **nodearrays)) as simulator:
        config = {**simulator.connection(name), "lock_file": None}
        yield SimulatedCluster(simulator, simulator.cluster(name), config)


def a_node(
    name: str = "htc-1",
    /,
    *,
    hostname: str | None = None,
    state: str = "Ready",
    vm_size: str = VM_SIZE,
    location: str = LOCATION,
    jobs: Sequence[str] = (),
    exists: bool = True,
    keep_alive: bool = False,
    spot: bool = False,
    placement_group: str | None = None,
    **resources: Any,
) -> Node:
    """A node as a driver is given it, with `jobs` assigned and the cores of its VM size as `ncpus`
    unless told otherwise.

    Its nodearray is what stands before the last dash of its name. A ready node has a host name, by
    default its own name; one that is only planned (`exists=False`) has no id. RuntimeError for an
    unknown VM size.
    """
    size = get_aux_vm_size_info(ht.Location(location), ht.VMSize(vm_size))
    if size.vcpu_count < 1:
        meant = suggest_vm_size(vm_size)
        hint = f"; did you mean {meant!r}?" if meant and meant != vm_size else ""
        raise AutoscaleError(f"node {name}: {vm_size} is not a VM size of {location}{hint}")
    target = ht.NodeStatus("Started" if exists else "Off")
    node = Node(
        node_id=DelayedNodeId(ht.NodeName(name), ht.NodeId(f"id-{name}") if exists else None),
        name=ht.NodeName(name),
        nodearray=ht.NodeArrayName(name.rpartition("-")[0] or name),
        bucket_id=ht.BucketId(f"bucket-of-{vm_size}"),
        hostname=ht.Hostname(hostname or name) if hostname or state == "Ready" else None,
        private_ip=None,
        instance_id=None,
        vm_size=ht.VMSize(vm_size),
        location=ht.Location(location),
        spot=spot,
        vcpu_count=size.vcpu_count,
        memory=size.memory,
        infiniband=size.infiniband,
        state=ht.NodeStatus(state),
        target_state=target,
        power_state=target,
        exists=exists,
        placement_group=ht.PlacementGroup(placement_group) if placement_group else None,
        managed=True,
        resources={"ncpus": size.vcpu_count, **resources},
        software_configuration={},
        keep_alive=keep_alive,
    )
    for job in jobs:
        node.assign(job)
    return node


def a_host(
    hostname: str, /, *jobs: str, free: Mapping[str, Any] | None = None, **resources: Any
) -> SchedulerNode:
    """A node as a driver reports it: `jobs` run on it, `resources` is what it has, `free` what is
    left of some of it."""
    host = SchedulerNode(hostname, resources)
    host.available.update(free or {})
    for job in jobs:
        host.assign(job)
    return host


def a_job(
    name: str = "job",
    /,
    needs: Any = None,
    *,
    tasks: int = 1,
    nodes: int = 0,
    colocated: bool = False,
) -> Job:
    """A waiting job, as in `a_job("train", {"ngpus": 1}, tasks=3)`: one core for each task unless
    `needs` says otherwise.

    `nodes` instead of tasks: so many whole nodes, one task on each.
    """
    return Job(
        name,
        {"ncpus": 1} if needs is None else needs,
        iterations=tasks,
        node_count=nodes,
        colocated=colocated,
    )


@contextmanager
def a_mock_clock(now: float = 1_000_000_000.0) -> Iterator[clock.MockClock]:
    """A clock that stands still until it is told to move, as the clock of the process for the time
    of a `with` block."""
    mock = clock.MockClock(now)
    previous = clock.use_clock(mock)
    try:
        yield mock
    finally:
        clock.use_clock(previous)


def _read(nodearrays: Mapping[str, Nodearray | Mapping[str, int]]) -> dict[str, Nodearray]:
    given = nodearrays or {"htc": {VM_SIZE: 10}}
    return {
        name: array if isinstance(array, Nodearray) else Nodearray(array)
        for name, array in given.items()
    }


def _described(array: Nodearray) -> dict[str, Any]:
    configuration = dict(array.configuration)
    autoscale = dict(configuration.get("autoscale") or {})
    autoscale["resources"] = {**(autoscale.get("resources") or {}), **array.resources}
    return {
        "region": array.location,
        "machine_types": [{"name": name, "max_count": n} for name, n in array.sizes.items()],
        "spot": array.spot,
        "placement_groups": list(array.placement_groups),
        "max_placement_group_size": array.max_placement_group_size,
        "max_count": array.max_count,
        "max_core_count": array.max_core_count,
        "attributes": {"Configuration": {**configuration, "autoscale": autoscale}},
    }
