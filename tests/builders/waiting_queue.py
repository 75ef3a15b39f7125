"""A scheduler whose jobs want a whole node each, and wait for ever."""

from typing import Any

from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode


class WaitingQueue(GenericDriver):
    """Its driver, with so many jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__("queue")
        self.wanted = jobs

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return [Job(f"j{i}", {"ncpus": 1, "exclusive": True}) for i in range(self.wanted)], []
