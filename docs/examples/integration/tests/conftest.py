"""Fixtures for tests of kinds of jobs: a cluster, and a pass of the loop over some jobs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filequeue.driver import FileQueueDriver
from filequeue.scheduler import FileQueue
from hpc.autoscale.autoscaler import Autoscaler, PassSummary
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import Nodearray, a_cluster, a_config


class DriverOfTheseJobs(FileQueueDriver):
    """FileQueueDriver, with other jobs than the queue has."""

    jobs: tuple[Job, ...] = ()

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return list(self.jobs), super()._read_jobs_and_nodes(config)[1]


@pytest.fixture
def cluster() -> MockClusterBinding:
    """A cluster of ten nodes of four cores, and eight of 120 in groups of at most four."""
    hpc = Nodearray({"Standard_HB120rs_v3": 8}, max_placement_group_size=4)
    return a_cluster(htc={"Standard_F4s_v2": 10}, hpc=hpc)


@pytest.fixture
def run_pass(
    cluster: MockClusterBinding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., PassSummary]:
    """One pass of the loop over these jobs."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    FileQueue(tmp_path / "queue.json").create()
    config = a_config(cluster, filequeue={"path": str(tmp_path / "queue.json")})

    def run(*jobs: Job) -> PassSummary:
        driver = DriverOfTheseJobs(config)
        driver.jobs = jobs
        return Autoscaler(config, driver).run_once()

    return run
