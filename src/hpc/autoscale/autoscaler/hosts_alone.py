"""What a pass does for hosts on premises while CycleCloud cannot be read.

Work is placed on hosts as if there were no cloud, and the workers of those that got some are
started. Nothing is stopped, and nothing is noted of nodes: of what the cloud has nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import commanding, learning
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.ccbindings import MADE_BY
from hpc.autoscale.ccbindings.nocluster import NoCluster
from hpc.autoscale.errors import one_line
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.node import Node
from hpc.autoscale.onpremises.listing import is_on_premises


def serve(
    config: Mapping[str, Any],
    driver: SchedulerDriver,
    new_calculator: learning.NewCalculator,
    start: Callable[[list[Node]], Sequence[str]],
    faults: Faults,
    error: Exception,
) -> None:
    """Place work on hosts on premises, let the driver join those that got some, and start their
    workers with `start`, which returns the names of those that were started. `error`: why the
    cluster cannot be read."""
    name = str(config.get("cluster_name") or "of the cloud")
    # without the memory of what boots: nodes that nobody lists would be forgotten there
    alone = {key: value for key, value in config.items() if key != "backoffdb"}
    alone[MADE_BY] = lambda _: NoCluster(name, one_line(error))
    calculator, jobs = new_calculator(alone, driver)
    learning.add_jobs(calculator, jobs, logging.set_context)
    demand = calculator.finish()
    hosts = [node for node in demand.compute_nodes if is_on_premises(node) and node.required]
    commanding.join(driver, hosts, faults)
    logging.warning(
        "CycleCloud cannot be read, and hosts on premises are served alone; started: %s",
        ", ".join(start(hosts)) or "none",
    )
