"""A demand calculator over a cluster in memory that has nodes, and its demand by names."""

from typing import Any

from builders.nodes import a_manager, an_htc_cluster, names
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.nodehistory import NodeHistory


def running(
    count: int = 2, state: str = "Ready", available: int = 10, **cluster: Any
) -> MockClusterBinding:
    """A cluster with running nodes htc-1 (ip-1), htc-2 (ip-2), …"""
    made = an_htc_cluster(available, **cluster)
    for i in range(1, count + 1):
        made.add_node(f"htc-{i}", "htc", state=state, target_state="Started", hostname=f"ip-{i}")
    return made


def a_calculator(
    cluster: MockClusterBinding | None = None, history: NodeHistory | None = None, **config: Any
) -> DemandCalculator:
    """A calculator over a mock cluster; one with two running nodes where none is given."""
    cluster = running() if cluster is None else cluster
    return DemandCalculator({}, a_manager(cluster, **config), history)


def shown(demand: DemandResult) -> tuple[list[str], ...]:
    """Sorted names by what the demand says of nodes: new, matched, unmatched, failed. Among equals
    a queue goes by host name, which for new nodes is made up."""
    lists = (demand.new_nodes, demand.matched_nodes, demand.unmatched_nodes, demand.failed_nodes)
    return tuple(sorted(names(nodes)) for nodes in lists)
