"""Section 15: private and surprising places that callers reach into."""

import io
import json

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.published import row
from hpc.autoscale import hpclogging
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.limits import _SharedLimit
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import AliasDict


def printed(nodes, *columns):
    """The named columns of nodes, as JSON."""
    stream = io.StringIO()
    print_demand(list(columns), DemandResult([], nodes, [], []), stream, "json")
    return json.loads(stream.getvalue())


@row("private._resources")
def test_resources_written_behind_the_view_of_planned_nodes_and_of_buckets():
    """Grid Engine writes on nodes of a demand and on `bucket.example_node`; both show it, and
    nobody else does."""
    node_mgr = a_manager()
    bucket = node_mgr.get_buckets()[0]
    first, second = node_mgr.allocate({"ncpus": 4}, slot_count=2).nodes
    first._resources["hostgroup"] = "@htc"
    bucket.example_node._resources["hostgroup"] = "@any"
    bucket.example_node._resources.update({"slots": 4, "qname": "all.q"})
    shown = printed([first, second, bucket.example_node], "name", "hostgroup", "slots")
    assert {s["name"]: (s["hostgroup"], s["slots"]) for s in shown} == {
        "htc-1": ("@htc", None),
        "htc-2": (None, None),
        "htc-0": ("@any", 4),
    }
    assert bucket.example_node.resources["qname"] == "all.q"


@row("private._resources")
def test_a_node_written_to_stays_apart_from_its_likes():
    """What is available on one of several equal nodes counts for that one only."""
    node_mgr = a_manager(an_htc_cluster(count=3))
    nodes = node_mgr.allocate({"ncpus": 1}, node_count=3).nodes
    nodes[1]._resources["special"] = nodes[1].available["special"] = 1
    nodes[2].available["ncpus"] = 0
    bucket = node_mgr.get_buckets()[0]
    bucket.example_node.available["special"] = 1
    assert names(node_mgr.allocate({"special": 1}, node_count=1).nodes) == ["htc-2"]
    assert names(node_mgr.allocate({"ncpus": 3}, slot_count=9).nodes) == ["htc-1", "htc-2"]


@row("private.mangled_nodearray")
def test_the_class_is_called_node_and_keeps_its_nodearray_under_the_mangled_name():
    """Also on a node of a demand, and on one of a subclass."""

    class Mine(Node):
        pass

    planned = a_manager().allocate({"ncpus": 1}, slot_count=1).nodes[0]
    planned._Node__nodearray = "other"
    assert Node.__name__ == "Node"
    assert (planned.nodearray, planned._Node__nodearray) == ("other", "other")
    assert get_constraint({"node.nodearray": "other"}).satisfied_by_node(planned)
    assert not hasattr(Mine, "_Mine__nodearray")


@row("private.upstream_tests")
def test_what_upstreams_own_tests_reach_into(monkeypatch):
    """Private names that have to be there and to mean what they did."""
    monkeypatch.setattr(hpclogging, "_UID", 1)
    monkeypatch.setattr(hpclogging, "_GID", 2)
    aliases = AliasDict({"ncpus": 4})
    aliases.add_alias("slots", "ncpus")
    limit = _SharedLimit("Cluster", 4, 8)
    dcalc = new_demand_calculator(a_config(an_htc_cluster()), node_history=NullNodeHistory())
    job = Job("1", [{"ncpus": 1}])
    vm_sizes._inititialize_impl()
    assert dcalc._add_job(job).status == "success"
    assert [str(c) for c in job._constraints] == ["(Node.ncpus >= 1)"]
    assert (limit._available_count(4), aliases._key("slots")) == (1, "ncpus")
    assert (hpclogging._UID, hpclogging._GID) == (1, 2)
    assert "Standard_F4" in vm_sizes.VM_SIZES["southcentralus"]


@row("private.metadata_keys")
@pytest.mark.parametrize(("override", "expected"), [(True, 1), (False, 4), (None, 1)])
def test_override_resources_keeps_the_clusters_amounts(override, expected):
    """PBS says with this key that the scheduler's amounts are not to be taken over; its metadata
    is, in any case."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    host = SchedulerNode("ip-1.example.com", {"ncpus": 1})
    host.metadata["pbs_state"] = "free"
    if override is not None:
        host.metadata["override_resources"] = override
    dcalc = new_demand_calculator(a_config(cluster), [host], node_history=NullNodeHistory())
    (node,) = dcalc.get_compute_nodes()
    assert (node.name, node.available["ncpus"]) == ("htc-1", expected)
    assert node.metadata["pbs_state"] == "free"


@row("private.metadata_keys")
def test_a_running_job_makes_a_node_ready_for_the_history():
    """Whatever CycleCloud says of its state: it will not time out as booting."""
    cluster = an_htc_cluster()
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Preparing", hostname=f"ip-{number}")
    host = SchedulerNode("ip-1", {"ncpus": 4})
    host.metadata["_running_job_"] = True
    dcalc = new_demand_calculator(a_config(cluster), [host])
    dcalc.update_history()
    assert names(dcalc.find_booting(at_least=-1)) == ["htc-2"]


@row("node.metadata")
@row("nodehistory.find_ignored")
def test_a_node_may_say_itself_that_it_is_to_be_left_alone():
    """By the key `__ignore__`, which the history reads."""
    cluster = an_htc_cluster()
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"ip-{number}")
    found = []
    for ignore in (True, False):
        dcalc = new_demand_calculator(a_config(cluster))
        first, _ = dcalc.get_compute_nodes()
        first.metadata["__ignore__"] = ignore
        dcalc.update_history()
        found.append([hostname for _, hostname, _ in dcalc.node_history.find_ignored()])
    assert found == [["ip-1"], []]


@row("private.undeclared_attributes")
def test_attributes_of_their_own_on_our_objects():
    """Grid Engine sets two on the history, others set some on nodes; they stay where they were
    put."""
    node_mgr = a_manager()
    node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes[0].my_own = {"a": 1}
    with SQLiteNodeHistory("h.db") as history:
        history.create_timeout = 1800
        history.last_match_timeout = 300
        assert (history.create_timeout, history.last_match_timeout) == (1800, 300)
    assert node_mgr.get_nodes()[0].my_own == {"a": 1}
    assert not hasattr(a_planned_node(), "my_own")
