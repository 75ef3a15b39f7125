"""A scheduler whose jobs want a whole node each, and wait for ever."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode


class WaitingQueue(GenericDriver):
    """Its driver, with so many jobs, and with hosts."""

    def __init__(self, jobs: int) -> None:
        super().__init__("queue")
        self.wanted = jobs
        self.hosts: Sequence[SchedulerNode] = ()

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs = [Job(f"j{i}", {"ncpus": 1, "exclusive": True}) for i in range(self.wanted)]
        return jobs, [deepcopy(host) for host in self.hosts]
