"""Names that are no UTF-8, as `qstat` and `os.listdir` give them, stop nobody's jobs."""

import pytest

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.gangs.file import GangFile
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import a_cluster, a_config

NAME = b"caf\xe9".decode("utf-8", "surrogateescape")


class Queue(GenericDriver):
    """Says what it is told to."""

    def __init__(self, jobs, hosts):
        super().__init__("queue")
        self._found = jobs, hosts

    def _read_jobs_and_nodes(self, config):
        return self._found


@pytest.fixture
def run(tmp_path):
    """A pass over a cluster with room for ten nodes."""
    cluster = a_cluster(htc={"Standard_F4s_v2": 10})
    config = a_config(cluster, nodehistorydb=str(tmp_path / "h.db"))
    config["gangsdb"] = str(tmp_path / "gangs.db")

    def run_pass(jobs=(), hosts=()):
        jobs = [*jobs, Job("plain", {"ncpus": 4})]
        return Autoscaler(config, Queue(jobs, list(hosts))).run_once()

    return run_pass


def test_a_gang(run, tmp_path):
    """It gets its nodes, and is remembered by its name."""
    gang = {"constraints": {"ncpus": 4}, "node_count": 2, "colocated": True}
    first, second = (run([Job(NAME, **gang)]) for _ in range(2))
    assert len(first.created) == 3
    assert (first.errors, second.errors, second.created) == ((), (), ())
    assert [each.job for each in GangFile(str(tmp_path / "gangs.db")).read()[0]] == [NAME]


def test_the_node_id_that_a_host_names(run):
    """It is no node's."""
    summary = run(hosts=[SchedulerNode("h", {"ncpus": 1, "ccnodeid": NAME})])
    assert (len(summary.created), summary.errors) == (1, ())
