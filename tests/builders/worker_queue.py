"""A queue whose workers pull jobs: it says how many jobs there are, and where workers live."""

from collections.abc import Callable
from typing import Any

from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.workers import WorkerDemand


class WorkerQueue(GenericDriver):
    """Its driver. `demands` are asked for at each reading; `later` is called before the second one
    of a pass. `live` are the hosts of workers: the NodeId of each, and the jobs that it runs.
    `joined`, `drained`: names of the nodes that the hooks were called with."""

    def __init__(self, *demands: WorkerDemand) -> None:
        super().__init__("worker-queue")
        self.demands = list(demands)
        self.live: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.later: Callable[[WorkerQueue], None] | None = None
        self.drained: list[str] = []
        self._readings = 0

    def initialize(self) -> None:
        self._readings = 0

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self._readings += 1
        if self._readings > 1 and self.later is not None:
            self.later(self)
        jobs: list[Job] = [job for demand in self.demands for job in demand.jobs()]
        return jobs, [self._host(name) for name in self.live]

    def _host(self, name: str) -> SchedulerNode:
        node_id, running = self.live[name]
        host = SchedulerNode(name, {"ccnodeid": node_id})
        for job in running:
            host.assign(job)
        return host

    def handle_draining(self, nodes: list[Any]) -> list[Any]:
        self.drained += [node.name for node in nodes]
        return nodes
