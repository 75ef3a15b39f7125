"""Joining the scheduler's nodes to those of the cluster."""

import pytest

from builders.calculators import a_calculator, running, shown
from builders.hosts import no_name_service as no_name_service
from builders.nodes import a_manager, an_htc_cluster, names
from builders.replies import a_record
from builders.simulated_cloud import F2, World, a_description
from hpc.autoscale.ccbindings.models import NodeList
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.traces.binding import SimulatedBinding


def seen(hostname, *jobs, **resources):
    """A node as the scheduler reports it."""
    node = SchedulerNode(hostname, resources)
    for job in jobs:
        node.assign(job)
    return node


def test_joining_by_short_host_name():
    """In any case; the scheduler's amounts and assignments win."""
    calculator = a_calculator()
    calculator.update_scheduler_nodes([seen("IP-1.example.com", "job", ncpus=4, gold=1)])
    node, other = calculator.node_mgr.get_nodes()
    assert (node.name, node.resources["gold"], node.assignments) == ("htc-1", 1, {"job"})
    assert (node.required, other.required) == (True, False)
    assert len(calculator.node_mgr.get_nodes()) == 2


def test_hosts_that_are_called_by_their_addresses():
    """An address has no domain: two hosts whose addresses begin alike are two."""
    calculator = a_calculator(running(1))
    told = [seen("10.0.0.1", "a", ncpus=4), seen("10.0.0.2", "b", ncpus=4)]
    calculator.update_scheduler_nodes(told)
    hosts = {n.hostname: n.assignments for n in calculator.node_mgr.get_nodes()}
    assert hosts == {"ip-1": set(), "10.0.0.1": {"a"}, "10.0.0.2": {"b"}}


def test_joining_by_node_id_beats_the_host_name():
    """Host names may be used again; ids are not."""
    calculator = a_calculator()
    first, second = calculator.node_mgr.get_nodes()
    told = seen("ip-1", "job", ccnodeid=second.delayed_node_id.node_id)
    calculator.update_scheduler_nodes([told])
    assert (first.assignments, second.assignments) == (set(), {"job"})


def test_a_node_id_that_is_gone(caplog):
    """The host is not the node that has its host name now; it gets no work, and what runs there is
    not forgotten."""
    calculator = a_calculator(running(1))
    calculator.update_scheduler_nodes([seen("ip-1", "old job", ncpus=4, ccnodeid="old")])
    calculator.add_job(Job("new", {"ncpus": 1}, iterations=8))
    assert {n.name: n.assignments for n in calculator.node_mgr.get_nodes()} == {
        "htc-1": {"new"},
        "htc-2": {"new"},
        "ip-1": {"old job"},
    }
    assert "has the host name of htc-1, and says it is node old" in caplog.text


@pytest.mark.parametrize("way", ["own id", "resource", "metadata"])
def test_a_host_that_carries_a_node_id_counts_once(way):
    """However it carries it, and whatever it is called."""
    calculator = a_calculator(running(1))
    node_id = calculator.node_mgr.get_nodes()[0].delayed_node_id.node_id
    host = seen("other-name", "job", ncpus=4)
    if way == "own id":
        host.delayed_node_id.node_id = node_id
    elif way == "resource":
        host = seen("other-name", "job", ncpus=4, ccnodeid=node_id)
    else:
        host.metadata["ccnodeid"] = node_id
    calculator.update_scheduler_nodes([host])
    (node,) = calculator.node_mgr.get_nodes()
    assert (node.name, node.assignments) == ("htc-1", {"job"})


def test_a_node_of_an_earlier_manager_counts_once():
    """Nodes of the cluster may be handed in as existing nodes, too."""
    cluster = running(1)
    (earlier,) = a_manager(cluster).get_nodes()
    earlier._hostname = None
    calculator = a_calculator(cluster)
    calculator.update_scheduler_nodes([earlier])
    assert names(calculator.node_mgr.get_nodes()) == ["htc-1"]


@pytest.mark.parametrize("garbage", [["id"], {}, 7, "", None])
def test_a_node_id_that_is_none(garbage):
    """What is no text names no node."""
    calculator = a_calculator()
    calculator.update_scheduler_nodes(
        [seen("ip-1", "a", ccnodeid=garbage), seen("tux", ccnodeid=garbage)]
    )
    assert calculator.node_mgr.get_nodes()[0].assignments == {"a"}


def test_a_warning_for_hosts_of_another_cluster(caplog):
    """They say which node they are, and the cluster does not know it."""
    calculator = a_calculator()
    calculator.update_scheduler_nodes([seen("far", ccnodeid="id-far"), seen("tux")])
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([w for w in warned if "id-far" in w]) == 1
    assert not any("tux" in w for w in warned)
    assert names(calculator.node_mgr.get_nodes())[2:] == ["far", "tux"]


def test_unknown_hosts_are_machines():
    """They take work, and cannot be created or deleted."""
    calculator = a_calculator(running(0))
    calculator.update_scheduler_nodes([seen("tux", ncpus=2)])
    calculator.add_job(Job("a", {"ncpus": 1}, iterations=3))
    demand = calculator.get_demand()
    assert (names(demand.new_nodes), sorted(names(demand.matched_nodes))) == (
        ["htc-1"],
        ["htc-1", "tux"],
    )
    calculator.node_mgr.delete(demand.matched_nodes)
    assert "tux" in names(calculator.node_mgr.get_nodes())


def test_joining_again_changes_nothing():
    """Pass after pass on one calculator."""
    calculator = a_calculator()
    for _ in range(3):
        calculator.update_scheduler_nodes([seen("ip-1", "a", ncpus=4), seen("tux", ncpus=2)])
    assert names(calculator.node_mgr.get_nodes()) == ["htc-1", "htc-2", "tux"]
    assert calculator.node_mgr.get_nodes()[0].available["ncpus"] == 4


def test_the_same_host_twice_in_one_report():
    """Is one machine."""
    calculator = a_calculator(running(0))
    calculator.update_scheduler_nodes([seen("tux", ncpus=2), seen("tux", ncpus=3)])
    assert [n.resources["ncpus"] for n in calculator.node_mgr.get_nodes()] == [2]


def test_the_clusters_own_amounts_may_be_kept():
    """With `override_resources` false only metadata comes over, and what runs there."""
    calculator = a_calculator()
    told = seen("ip-1", "job", ncpus=99)
    told.metadata.update(override_resources=False, x={"y": 1})
    calculator.update_scheduler_nodes([told])
    node = calculator.node_mgr.get_nodes()[0]
    assert (node.resources["ncpus"], node.available["ncpus"], node.metadata["x"]) == (
        4,
        4,
        {"y": 1},
    )
    assert (node.assignments, node.required) == ({"job"}, True)
    told.metadata["x"]["y"] = 2
    assert node.metadata["x"] == {"y": 1}


def test_a_host_may_have_no_metadata():
    """None of it is as good as an empty mapping."""
    calculator = a_calculator()
    told = seen("ip-1", "job", ncpus=99)
    told.metadata = None
    calculator.update_scheduler_nodes([told])
    assert calculator.node_mgr.get_nodes()[0].resources["ncpus"] == 99


def test_a_host_name_that_stands_for_two_nodes():
    """Nobody knows which of them is meant; but only when the scheduler reports it."""
    cluster = running()
    cluster.nodes["htc-2"]._hostname = "ip-1"
    calculator = a_calculator(cluster)
    calculator.update_scheduler_nodes([seen("tux")])
    with pytest.raises(RuntimeError, match="htc-1, htc-2"):
        calculator.update_scheduler_nodes([seen("ip-1")])


@pytest.mark.parametrize("resting", ["htc-1", "htc-2"])
def test_of_two_nodes_with_one_address_the_one_that_exists_is_meant(resting):
    """Azure gives the address of a deallocated node to another; the host name follows from it."""
    cluster = running(2)
    for node in cluster.nodes.values():
        node._settle(None, "10.1.0.4")
    cluster.nodes[resting].state = cluster.nodes[resting].target_state = "Deallocated"
    cluster.nodes[resting].exists = False
    calculator = a_calculator(cluster, assume_standalone_hostnames=True)
    calculator.update_scheduler_nodes([seen("ip-0A010004", "job", ncpus=4)])
    found = {node.name: node.assignments for node in calculator.node_mgr.get_nodes()}
    assert found == {resting: set(), **{n: {"job"} for n in ("htc-1", "htc-2") if n != resting}}


def test_of_two_nodes_with_one_address_that_both_rest_neither_is_meant(caplog):
    """The host is no machine either, and the pass goes on."""
    cluster = running(2)
    for node in cluster.nodes.values():
        node._settle(None, "10.1.0.4")
        node.state = node.target_state = "Deallocated"
        node.exists = False
    calculator = a_calculator(cluster, assume_standalone_hostnames=True)
    calculator.update_scheduler_nodes([seen("ip-0A010004", ncpus=4)])
    calculator.add_job(Job("a", {"ncpus": 1}))
    assert names(calculator.node_mgr.get_nodes())[2:] == ["ip-0A010004"]
    assert calculator.node_mgr.get_nodes()[2].assignments == set()
    assert "it has the host name of htc-1, htc-2, and they do not exist now" in caplog.text


def test_a_deallocated_node_that_the_scheduler_lists_is_no_machine():
    """It would get work that it cannot do."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Deallocated", hostname="ip-1")
    calculator = a_calculator(cluster)
    calculator.update_scheduler_nodes([seen("ip-1", ncpus=4)])
    assert names(calculator.node_mgr.get_nodes()) == ["htc-1"]
    assert shown(calculator.get_demand())[:2] == ([], [])


@pytest.mark.parametrize(
    ("status", "target"),
    [("Terminating", "Terminated"), ("Deallocating", "Deallocated"), ("Off", "Off")],
)
@pytest.mark.parametrize("told", [{"hostname": "IP-1.x"}, {"hostname": "other", "by_id": True}])
def test_a_node_that_is_going_is_no_machine(status, target, told, caplog):
    """The scheduler lists it for a while; work that were placed on it would wait for ever."""
    cluster = an_htc_cluster(resources={"ncpus": 4})
    record = a_record(Status=status, TargetState=target, Hostname="ip-1.example")
    cluster.get_nodes = lambda operation_id=None, request_id=None: NodeList(nodes=[record])
    calculator = a_calculator(cluster)
    resources = {"ncpus": 4, **({"ccnodeid": "id-htc-1"} if told.get("by_id") else {})}
    calculator.update_scheduler_nodes([seen(told["hostname"], **resources)])
    calculator.add_job(Job("a", {"ncpus": 1}))
    assert names(calculator.get_demand().new_nodes) == ["htc-2"]
    assert len(calculator.get_demand().unmatched_nodes) == 1
    assert "does not know" not in caplog.text


def test_made_up_host_names_join_nothing():
    """Those of planned nodes are not real."""
    calculator = a_calculator(running(0))
    calculator.add_job(Job("a", {"ncpus": 1}))
    (planned,) = calculator.get_demand().new_nodes
    calculator.update_scheduler_nodes([seen(planned.hostname, ncpus=1)])
    assert len(calculator.node_mgr.get_nodes()) == 2


def test_joined_nodes_take_what_the_scheduler_says_is_left():
    """A node with two free cores takes two more."""
    calculator = a_calculator(running(1))
    told = seen("ip-1", "old", ncpus=4)
    told.available["ncpus"] = 2
    calculator.update_scheduler_nodes([told])
    calculator.add_job(Job("new", {"ncpus": 1}, iterations=3))
    assert [(n.name, sorted(n.assignments)) for n in calculator.node_mgr.get_nodes()] == [
        ("htc-1", ["new", "old"]),
        ("htc-2", ["new"]),
    ]


def test_a_node_that_rests_and_has_work_takes_room():
    """Its host is reported with a job, so it is started; no other node is planned in its place."""
    site = World(a_description({"htc": {"machine_types": [F2], "max_core_count": 4}}))
    site.create(2, nodearray="htc")
    site.after(40)
    hostname = site.record("htc-1")["Hostname"]
    site.manage("deallocate", names=["htc-1"])
    site.after(40)
    config = {"cluster_name": "c1", "_mock_bindings": SimulatedBinding(site.cluster)}
    host = SchedulerNode(hostname, {"ccnodeid": site.record("htc-1")["NodeId"], "ncpus": 2})
    host.available["ncpus"] = 0
    host.assign("j0")
    calculator = new_demand_calculator(config, existing_nodes=[host])
    calculator.add_job(Job("j1", {"ncpus": 2}, iterations=5))
    assert [str(node.name) for node in calculator.get_demand().new_nodes] == ["htc-1"]
