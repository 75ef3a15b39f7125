"""Several processes, lost replies and kills: every node that is wanted is made once, and every node
that was to go goes, over HTTP."""

import pytest

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.simulator import serve

SIZE = "Standard_F4s_v2"
CLOUD = {"clusters": {"c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}}


class Queue(GenericDriver):
    """A scheduler whose jobs want a whole node each, and wait for ever."""

    def __init__(self, jobs):
        super().__init__("queue")
        self.wanted = jobs

    def _read_jobs_and_nodes(self, config):
        return [Job(f"j{i}", {"ncpus": 1, "exclusive": True}) for i in range(self.wanted)], []


@pytest.fixture
def simulator():
    """A cluster without nodes."""
    with serve(CLOUD) as running:
        yield running


@pytest.fixture
def config(simulator, tmp_path):
    """What processes are told; nodes may be idle for an hour."""
    return {
        **simulator.connection("c"),
        "lock_file": None,
        "nodehistorydb": str(tmp_path / "nodehistory.db"),
        "requests_file": str(tmp_path / "requests.db"),
        "retry": {"attempts": 1},
        "idle_timeout": 3600,
    }


@pytest.fixture
def nodes(simulator):
    """How many nodes are there and to stay."""

    def count():
        return len([n for n in simulator.cluster("c").nodes() if n["TargetState"] == "Started"])

    return count


@pytest.fixture
def ready(simulator, config):
    """Three nodes that are ready, and one pass that saw them."""
    Autoscaler(config, Queue(3)).run_once()
    simulator.clock.settle()
    Autoscaler(config, Queue(3)).run_once()


@pytest.fixture
def delete_two(simulator, config):
    """Somebody deletes two nodes, and does not hear what became of it; the removals on record."""

    def delete(kind, **more):
        node_mgr = new_node_manager(config)
        simulator.faults.add(kind, endpoint="shutdown_nodes", **more)
        simulator.faults.add("status", endpoint="get_nodes", status=500)
        with pytest.raises(CycleCloudError):
            node_mgr.delete(node_mgr.get_nodes()[1:])
        simulator.faults.clear()
        return [removal.name for removal in RequestLog(config["requests_file"]).removals]

    return delete


# -- removals


@pytest.mark.usefixtures("ready")
def test_a_removal_that_never_arrived_is_made_by_the_next_pass(
    simulator, config, delete_two, nodes
):
    """Long before those nodes have been idle for long enough."""
    assert delete_two("no_reply") == ["htc-2", "htc-3"]
    assert nodes() == 3
    simulator.clock.advance(10)
    assert Autoscaler(config, Queue(1)).run_once().errors == ()
    assert nodes() == 1
    assert RequestLog(config["requests_file"]).removals == []


@pytest.mark.usefixtures("ready")
def test_a_removal_whose_reply_was_lost_is_settled(config, delete_two, nodes):
    """The nodes went; nothing is removed twice, and nothing else goes."""
    delete_two("lost_reply")
    assert nodes() == 1
    Autoscaler(config, Queue(1)).run_once()
    assert nodes() == 1
    assert RequestLog(config["requests_file"]).removals == []


@pytest.mark.usefixtures("ready")
def test_a_node_that_got_work_meanwhile_is_not_removed(config, delete_two, nodes):
    """The removal is called off for good, whatever becomes of the work."""
    delete_two("no_reply")
    Autoscaler(config, Queue(3)).run_once()
    assert RequestLog(config["requests_file"]).removals == []
    Autoscaler(config, Queue(0)).run_once()
    assert nodes() == 3


@pytest.mark.usefixtures("ready")
def test_a_removal_is_kept_while_the_server_is_away(simulator, config, delete_two, nodes):
    """Pass after pass, once for each node."""
    delete_two("no_reply")
    simulator.faults.add("no_reply", endpoint="shutdown_nodes")
    for _ in range(3):
        assert Autoscaler(config, Queue(1)).run_once().errors
        removals = RequestLog(config["requests_file"]).removals
        assert [removal.name for removal in removals] == ["htc-2", "htc-3"]
    simulator.faults.clear()
    Autoscaler(config, Queue(1)).run_once()
    assert nodes() == 1


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_removal_that_was_refused_is_over(config, delete_two, nodes, status):
    """The server has answered: whoever asked decides anew."""
    assert delete_two("status", status=status) == []
    Autoscaler(config, Queue(1)).run_once()
    assert nodes() == 3


@pytest.mark.usefixtures("ready")
def test_a_dry_run_finishes_nothing(config, delete_two, nodes):
    """And leaves every file as it was."""
    delete_two("no_reply")
    before = RequestLog(config["requests_file"]).removals
    Autoscaler(config, Queue(1), dry_run=True).run_once()
    assert nodes() == 3
    assert RequestLog(config["requests_file"]).removals == before != []
