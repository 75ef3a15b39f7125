"""The loop against a real HTTP server: how many nodes come into being, whatever happens to the
replies."""

import pytest

from builders.waiting_queue import WaitingQueue
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import serve

CORES = 4
SIZE = "Standard_F4s_v2"


def a_cloud(**region):
    """One nodearray of 4-core nodes in a region with these limits."""
    nodearray = {"machine_types": [SIZE]}
    return {
        "clusters": {"c": {"region": "southcentralus", "nodearrays": {"htc": nodearray}}},
        "regions": {"southcentralus": region},
    }


@pytest.fixture
def scaled(tmp_path):
    """Run one pass over a simulated cluster, as a new process would; its summary."""

    def run(simulator, jobs):
        config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(tmp_path / "nodehistory.db"),
            "retry": {"attempts": 1},
        }
        return Autoscaler(config, WaitingQueue(jobs)).run_once()

    return run


def created(simulator):
    """How many nodes the server has ever made."""
    return len([entry for entry in simulator.journal.entries() if entry["event"] == "created"])


LIMITS = {
    "regional quota": ({"quota": 25 * CORES}, "Region(southcentralus)"),
    "family quota": ({"family_quotas": {"standardFSv2Family": 25 * CORES}}, "VM Family"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_quota_is_filled_exactly_named_and_never_exceeded(scaled, limit):
    """60 nodes wanted, 25 allowed: 25 are made, the limit is named, and no later pass makes
    more."""
    region, name = LIMITS[limit]
    with serve(a_cloud(**region)) as simulator:
        first = scaled(simulator, 60)
        assert len(first.created) == 25
        assert len(first.unsatisfied) == 35
        assert all(name in job.limit for job in first.unsatisfied)
        for _ in range(3):
            simulator.clock.advance(30)
            again = scaled(simulator, 60)
            assert again.created == ()
            assert len(again.unsatisfied) == 35
        assert created(simulator) == 25
        assert len(simulator.cluster("c").nodes()) == 25


def test_several_buckets_together_keep_to_the_limit_of_the_whole_cluster(scaled):
    """60 nodes wanted of two nodearrays with 15 each, in a cluster of 25: no more than that is
    asked for, and the limit is named."""
    cloud = a_cloud()
    array = {"machine_types": [SIZE], "max_count": 15}
    cloud["clusters"]["c"] |= {"max_count": 25, "nodearrays": {"htc": array, "more": array}}
    with serve(cloud) as simulator:
        first = scaled(simulator, 60)
        assert (len(first.requested), len(first.created)) == (25, 25)
        assert all("Cluster has 25 of 25 nodes" in job.limit for job in first.unsatisfied)
        simulator.clock.advance(30)
        assert scaled(simulator, 60).requested == ()


@pytest.mark.parametrize("kind", ["lost_reply", "html", "truncated", "cut_off"])
def test_a_create_whose_reply_is_lost_or_garbled_makes_exactly_what_was_wanted(scaled, kind):
    """The server acted and the answer never arrived in a usable form: after the next pass the
    number is right."""
    with serve(a_cloud()) as simulator:
        simulator.faults.add(kind, endpoint="create_nodes", calls=[1])
        scaled(simulator, 7)
        simulator.clock.advance(5)
        scaled(simulator, 7)
        assert len(simulator.cluster("c").nodes()) == 7
        assert created(simulator) == 7


def test_a_create_that_never_arrived_is_made_once(scaled):
    """The request was lost before the server acted: the same number of nodes in the end."""
    with serve(a_cloud()) as simulator:
        simulator.faults.add("no_reply", endpoint="create_nodes", calls=[1])
        scaled(simulator, 7)
        scaled(simulator, 7)
        assert created(simulator) == 7


def test_a_create_of_unknown_outcome_is_settled_by_the_next_pass(scaled):
    """Reply lost and nobody to ask afterwards: the pass says so, and the next one creates nothing
    twice."""
    with serve(a_cloud()) as simulator:
        simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
        simulator.faults.add("status", endpoint="get_nodes", calls=[2, 3, 4, 5], status=500)
        first = scaled(simulator, 7)
        assert first.errors and not first.created
        simulator.faults.clear()
        second = scaled(simulator, 7)
        assert second.created == ()
        assert created(simulator) == 7


def test_a_listing_without_its_nodes_changes_nothing(scaled):
    """Buckets that count nodes while the listing has none are no evidence: the pass ends before it
    decides."""
    with serve(a_cloud()) as simulator:
        scaled(simulator, 5)
        simulator.faults.add("empty_nodes", endpoint="get_nodes")
        with pytest.raises(CycleCloudError, match="htc"):
            scaled(simulator, 5)
        simulator.faults.clear()
        assert scaled(simulator, 5).created == ()
        assert len(simulator.cluster("c").nodes()) == 5


@pytest.mark.parametrize("fault", [{"kind": "empty_nodes"}, {"kind": "status", "status": 500}])
def test_nothing_is_deleted_without_another_look_at_the_cluster(tmp_path, fault):
    """The node list is fetched once in a pass; before nodes go, the status must list them too."""
    with serve(a_cloud()) as simulator:
        config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(tmp_path / "nodehistory.db"),
            "retry": {"attempts": 1},
            "idle_timeout": 0,
        }
        Autoscaler(config, WaitingQueue(2)).run_once()
        simulator.clock.settle()
        Autoscaler(config, WaitingQueue(2)).run_once()
        assert Autoscaler(config, WaitingQueue(0)).run_once().errors == ()  # idle for one pass
        # the first status of the pass is asked for without nodes
        simulator.faults.add(**fault, endpoint="get_cluster_status", calls=[2])
        summary = Autoscaler(config, WaitingQueue(0)).run_once()
        assert summary.deleted == ()
        assert [error.phase for error in summary.errors] == [
            "reading the cluster again before deleting"
        ]
        simulator.faults.clear()
        assert len(Autoscaler(config, WaitingQueue(0)).run_once().deleted) == 2


def test_the_node_list_is_fetched_once_in_a_pass(scaled, monkeypatch):
    """With 5,000 nodes it has megabytes."""
    asked = []
    original = Session.read

    def noted(self, path, query=None, *args, **kwargs):
        asked.append((path, dict(query or {})))
        return original(self, path, query, *args, **kwargs)

    monkeypatch.setattr(Session, "read", noted)
    with serve(a_cloud()) as simulator:
        scaled(simulator, 0)
    listings = [path for path, query in asked if path.endswith("/nodes") or query.get("nodes")]
    assert listings == ["/clusters/c/nodes"]


def test_a_node_outside_of_nodearrays_is_left_alone(tmp_path):
    """The scheduler's own, in a cluster whose name has a space: it is no node to place work on, to
    fail or to delete."""
    clusters = a_cloud()["clusters"]
    clusters["my cluster"] = {**clusters.pop("c"), "nodes": {"scheduler": {"machine_type": SIZE}}}
    with serve({"clusters": clusters}) as simulator:
        cluster = simulator.cluster("my cluster")
        config = {
            **simulator.connection("my cluster"),
            "lock_file": None,
            "nodehistorydb": str(tmp_path / "nodehistory.db"),
            "idle_timeout": 0,
            "boot_timeout": 1,
        }
        simulator.clock.settle()
        names = []
        for jobs in (2, 2, 0, 0, 0):
            assert Autoscaler(config, WaitingQueue(jobs)).run_once().errors == ()
            simulator.clock.settle()
            names.append([(node["Name"], node["Status"]) for node in cluster.nodes()])
        cluster.fail("scheduler")
        assert Autoscaler(config, WaitingQueue(0)).run_once().errors == ()
        assert [node.name for node in new_node_manager(config).get_nodes()] == []
        alone, ready = ("scheduler", "Ready"), [("htc-1", "Ready"), ("htc-2", "Ready")]
        assert names == [*[[alone, *ready]] * 3, [alone], [alone]]
        assert [node["Status"] for node in cluster.nodes()] == ["Failed"]
