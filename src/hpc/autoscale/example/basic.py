"""The shortest integration that there is: a scheduler that is two lists, and one pass of
autoscaling for it.

To be read, and to be used in tests. A real integration writes a `SchedulerDriver` and leaves the
pass to `hpc.autoscale.autoscaler`, which also knows what to do when something fails.
"""

from collections.abc import Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node

IDLE_SECONDS = 3

_COLUMNS = ["name", "hostname", "nodearray", "vm_size", "state", "required", "job_ids"]


class BasicDriver:
    """A scheduler whose queue is `jobs` and whose machines are `scheduler_nodes`.

    Derive from it for a scheduler that must be told when nodes come and go.
    """

    def __init__(self, jobs: Sequence[Job], scheduler_nodes: Sequence[SchedulerNode]) -> None:
        self.jobs = list(jobs)
        self.scheduler_nodes = list(scheduler_nodes)

    def handle_join_cluster(self, nodes: Sequence[Node]) -> None:
        """Called in each pass with all nodes of the cluster.

        Nodes that have a host name by then become machines of this scheduler.
        """
        known = {machine.hostname for machine in self.scheduler_nodes}
        for node in nodes:
            if node.exists and node.hostname and node.hostname not in known:
                logging.info("%s joins", node)
                known.add(node.hostname)
                self.scheduler_nodes.append(SchedulerNode(node.hostname, dict(node.resources)))

    def handle_draining(self, nodes: Sequence[Node]) -> list[Node]:
        """Called with the nodes that have been idle; returns those that may be deleted.

        Nodes that are to be kept alive are not among them, nor machines that CycleCloud did not
        start.
        """
        return [node for node in nodes if node.managed and not node.keep_alive]

    def handle_post_delete(self, nodes: Sequence[Node]) -> None:
        """Called with the nodes that have been deleted, which stop being machines of this
        scheduler.
        """
        gone = {node.hostname for node in nodes if node.hostname}
        self.scheduler_nodes = [m for m in self.scheduler_nodes if m.hostname not in gone]


def autoscale_driver(config: dict[str, Any], driver: BasicDriver) -> DemandResult:
    """One pass: create what the jobs need, delete what has been idle for more than `IDLE_SECONDS`,
    print the nodes.

    Returns the demand as it was before anything was created or deleted. Idle times are kept in
    `nodehistory.db` in the working directory. Raises what the library raises.
    """
    demand_calculator = new_demand_calculator(config, existing_nodes=driver.scheduler_nodes)
    for job in driver.jobs:
        demand_calculator.add_job(job)
    demand_result = demand_calculator.finish()

    demand_calculator.bootup()
    driver.handle_join_cluster(demand_result.compute_nodes)

    demand_calculator.update_history()
    idle = demand_calculator.find_unmatched_for(at_least=IDLE_SECONDS)
    drained = driver.handle_draining(idle)
    if drained:
        demand_calculator.delete(drained)
        driver.handle_post_delete(drained)

    print_demand(_COLUMNS, demand_result)
    return demand_result
