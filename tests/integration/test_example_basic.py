"""The basic example over a mock cluster, pass after pass."""

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale.example.basic import BasicDriver, autoscale_driver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.testing import a_config


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A directory for the history, and nobody to ask for addresses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)


@pytest.fixture
def moment(monkeypatch):
    """What the history takes for the time; to be set."""
    times = [1_000_000.0]
    monkeypatch.setattr(SQLiteNodeHistory, "now", lambda self: times[-1])
    return times


@pytest.fixture
def cluster():
    """Up to ten nodes of four cores, and so many slots."""
    return an_htc_cluster(10, resources={"slots": 4})


def on_premises(slots=4):
    """A machine that CycleCloud does not know."""
    return SchedulerNode("tux", {"slots": slots})


def a_job(name="1", **constraint):
    """A job that wants a node to itself."""
    return Job(name, {"exclusive": True, "slots": 1, **constraint})


def hostnames(nodes):
    """Host names in alphabetical order."""
    return sorted(str(node.hostname) for node in nodes)


def test_a_job_uses_the_machine_that_is_there(cluster):
    """Nothing is created for it."""
    demand = autoscale_driver(a_config(cluster), BasicDriver([a_job()], [on_premises()]))
    assert (demand.new_nodes, hostnames(demand.matched_nodes)) == ([], ["tux"])
    assert cluster.nodes == {}


def test_a_second_job_starts_a_node(cluster):
    """Both want a machine to themselves."""
    jobs = [a_job("1"), a_job("2")]
    demand = autoscale_driver(a_config(cluster), BasicDriver(jobs, [on_premises()]))
    assert [node.name for node in demand.new_nodes] == ["htc-1"]
    assert len(demand.matched_nodes) == 2
    assert list(cluster.nodes) == ["htc-1"]


@pytest.mark.parametrize("wish", [{"slots": 5}, {"colour": "red"}, {"nodearray": "hpc"}])
def test_a_job_that_fits_nowhere_leaves_the_machine_unmatched(cluster, wish):
    """And the cluster as it was."""
    demand = autoscale_driver(a_config(cluster), BasicDriver([a_job(**wish)], [on_premises()]))
    assert (demand.new_nodes, demand.matched_nodes) == ([], [])
    assert hostnames(demand.unmatched_nodes) == ["tux"]


def test_the_nodes_are_printed(cluster, capsys):
    """As a table, those of the cluster and our own."""
    autoscale_driver(a_config(cluster), BasicDriver([a_job("1"), a_job("2")], [on_premises()]))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["NAME", "HOSTNAME"]
    assert sorted(row.split()[0] for row in rows) == ["htc-1", "tux"]


def test_a_life_cycle(cluster, moment):
    """A node is created for a job, becomes a machine of the scheduler, and goes when it has been
    idle for long enough."""
    driver = BasicDriver([Job("1", {"ncpus": 4})], [])
    autoscale_driver(a_config(cluster), driver)
    assert list(cluster.nodes) == ["htc-1"]
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0A010002")  # it has come up

    driver.jobs = [Job("1", {"ncpus": 4})]
    demand = autoscale_driver(a_config(cluster), driver)
    assert (demand.new_nodes, len(demand.matched_nodes)) == ([], 1)
    assert hostnames(driver.scheduler_nodes) == ["ip-0A010002"]

    driver.jobs.clear()
    moment.append(moment[-1] + 2)
    autoscale_driver(a_config(cluster), driver)
    assert cluster.nodes["htc-1"].target_state == "Started"

    moment.append(moment[-1] + 2)
    demand = autoscale_driver(a_config(cluster), driver)
    assert [node.name for node in demand.unmatched_nodes] == ["htc-1"]
    assert cluster.nodes["htc-1"].target_state == "Terminated"
    assert driver.scheduler_nodes == []


def test_what_may_not_go_stays(cluster, moment):
    """A node that is kept alive, and a machine that CycleCloud did not start."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0A010002", keep_alive=True)
    driver = BasicDriver([], [on_premises()])
    for _ in range(2):
        autoscale_driver(a_config(cluster), driver)
        moment.append(moment[-1] + 100)
    assert cluster.nodes["htc-1"].target_state == "Started"
    assert hostnames(driver.scheduler_nodes) == ["ip-0A010002", "tux"]


def test_a_driver_of_ones_own_is_told(cluster, moment):
    """What joins, what has been idle, and what is gone; what it does not let go stays."""
    told = []

    class Talkative(BasicDriver):
        def handle_join_cluster(self, nodes):
            told.append(("join", [node.name for node in nodes]))

        def handle_draining(self, nodes):
            told.append(("drain", [node.name for node in nodes]))
            return nodes[:1]

        def handle_post_delete(self, nodes):
            told.append(("gone", [node.name for node in nodes]))

    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    autoscale_driver(a_config(cluster), Talkative([], []))
    moment.append(moment[-1] + 100)
    told.clear()
    autoscale_driver(a_config(cluster), Talkative([], []))
    both = ["htc-1", "htc-2"]
    assert [(what, sorted(names)) for what, names in told[:2]] == [("join", both), ("drain", both)]
    assert [what for what, _ in told] == ["join", "drain", "gone"]
    states = sorted(node.target_state for node in cluster.nodes.values())
    assert states == ["Started", "Terminated"]
