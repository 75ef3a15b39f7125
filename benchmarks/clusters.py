"""From a workload to what the library is given: a mock cluster, amounts that are free on its nodes,
and jobs.

Used by `measure`, and by whoever wants the plan of a workload. Asks the library for published
things only, so that one harness can measure several versions of it.
"""

from collections.abc import Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node

# what stands in for "no limit": far more than any workload asks for
MANY_CORES = 100_000_000
MANY_NODES = 1_000_000


def mock_cluster(
    workload: dict[str, Any],
    resources: dict[str, Any] | None = None,
    with_hostnames: bool = False,
) -> MockClusterBinding:
    """The buckets and nodes of a workload. `resources`: what every node has besides the usual."""
    binding = MockClusterBinding()
    binding.max_core_count = MANY_CORES
    binding.max_count = MANY_NODES
    families = workload.get("quotas", {}).get("family_cores", {})
    for bucket in workload["buckets"]:
        quota = families.get(bucket["family"], MANY_CORES)
        if bucket["nodearray"] not in binding.nodearrays:
            binding.add_nodearray(
                bucket["nodearray"],
                dict(resources or {}),
                location=bucket["location"],
                max_core_count=MANY_CORES,
                max_count=MANY_NODES,
                max_placement_group_size=bucket["pg_size"],
            )
        binding.add_bucket(
            bucket["nodearray"],
            bucket["vm_size"],
            bucket["max_count"],
            bucket["max_count"],
            family_quota_core_count=quota,
            family_quota_count=quota // bucket["vcpus"],
            regional_quota_core_count=MANY_CORES,
            regional_quota_count=MANY_NODES,
            placement_groups=bucket["pgs"] or None,
        )
    for node in workload["nodes"]:
        bucket = workload["buckets"][node["bucket"]]
        binding.add_node(
            node["name"],
            bucket["nodearray"],
            vm_size=bucket["vm_size"],
            state="Ready",
            hostname=f"host-{node['name']}" if with_hostnames else None,
        )
    return binding


def write_free_amounts(nodes: Sequence[Node], workload: dict[str, Any]) -> None:
    """Write what is free on each existing node through its handle, as an integration does that asks
    its scheduler."""
    if not workload["nodes"]:
        return
    by_name = {str(node.name): node for node in nodes}
    for each in workload["nodes"]:
        available = by_name[each["name"]].available
        free = each["free"]
        available["ncpus"] = free["ncpus"]
        available["memgb"] = ht.Memory(free["memgb"], "g")
        available["ngpus"] = free["ngpus"]


def scheduler_nodes(workload: dict[str, Any]) -> list[SchedulerNode]:
    """The nodes of a cluster with host names, as its scheduler reports them: those that are not
    idle run a job."""
    reported = []
    for node in workload["nodes"]:
        free = node["free"]["ncpus"]
        host = SchedulerNode(f"host-{node['name']}", {"ncpus": free})
        if free < workload["buckets"][node["bucket"]]["vcpus"]:
            host.assign(f"job-on-{node['name']}")
        reported.append(host)
    return reported


def make_jobs(workload: dict[str, Any], also: Sequence[dict[str, Any]] = ()) -> list[Job]:
    """The jobs of a workload, each with the further constraints `also`."""
    return [
        Job(
            each["name"],
            [*each["constraints"], *also],
            iterations=each["iterations"],
            node_count=each["node_count"],
            colocated=each["colocated"],
        )
        for each in workload["jobs"]
    ]


def plan_of(calculator: DemandCalculator, jobs: Sequence[Job]) -> dict[str, Any]:
    """What came of a pass, as plain values: what `check_plan` checks. Memory in GiB."""
    demand = calculator.get_demand()
    return {
        "nodes": [
            {
                "name": str(node.name),
                "nodearray": str(node.nodearray),
                "vm_size": str(node.vm_size),
                "placement_group": node.placement_group,
                "exists": bool(node.exists),
                "available": {name: _plain(node.available[name]) for name in _amounts(node)},
                "assignments": sorted(node.assignments),
            }
            for node in calculator.node_mgr.get_nodes()
        ],
        "remaining": {job.name: job.iterations_remaining for job in jobs},
        "new": [str(node.name) for node in demand.new_nodes],
    }


def _amounts(node: Node) -> list[str]:
    return [
        name
        for name, value in node.available.items()
        if isinstance(value, (int, float, ht.Size)) and not isinstance(value, bool)
    ]


def _plain(value: Any) -> float:
    return float(value.convert_to("g").value) if isinstance(value, ht.Size) else float(value)
