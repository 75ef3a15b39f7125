"""A whole dry pass of the loop over a workload: `Autoscaler.run_once`, with a driver that hands
over the queue. Called by `measure`."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpc.autoscale.autoscaler import Autoscaler, new_calculator
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import NodeHistory, NullNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.results import DefaultContextHandler


class QueueDriver(GenericDriver):
    """Makes the jobs of the queue when it is read, as a driver does. `prepare`: what is done to the
    manager outside of the clock; `excluded`: the CPU seconds that it took."""

    def __init__(
        self, queue: Callable[[], list[Job]], prepare: Callable[[NodeManager], None]
    ) -> None:
        super().__init__("benchmark")
        self._queue = queue
        self._prepare = prepare
        self.jobs: list[Job] = []
        self.excluded = 0.0

    def new_node_history(self, config: dict[str, Any]) -> NodeHistory:
        """None is kept."""
        return NullNodeHistory()

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """Placement groups are those of the workload."""
        start = time.process_time()
        self._prepare(node_mgr)
        self.excluded += time.process_time() - start

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self.jobs = self._queue()
        return self.jobs, []


class LoopPass:
    """One pass, and what it left. `with_handler`: a handler of results is registered, as the
    command line has one."""

    def __init__(
        self, config: Mapping[str, Any], driver: QueueDriver, with_handler: bool = False
    ) -> None:
        self._driver = driver
        handler = DefaultContextHandler("[benchmark]") if with_handler else None
        self._loop = Autoscaler(
            # no hosts are reported, as the driver knows of none
            {
                "cluster_name": "benchmark",
                "autoscale": {"scheduler_reports_hosts": False},
                **config,
            },
            driver,
            dry_run=True,
            new_calculator=self._new_calculator,
            result_handler=handler,
        )
        self.calculator: DemandCalculator | None = None

    def _new_calculator(
        self, config: dict[str, Any], driver: SchedulerDriver
    ) -> tuple[DemandCalculator, Sequence[Job]]:
        self.calculator, jobs = new_calculator(config, driver)
        return self.calculator, jobs

    def run(self) -> float:
        """CPU seconds of the pass, its summary as text included."""
        start = time.process_time()
        str(self._loop.run_once())
        return time.process_time() - start - self._driver.excluded
