"""Section 10, second half: allocating, creating and deleting nodes."""

from types import SimpleNamespace

import pytest

from builders.nodes import a_manager, an_htc_cluster, names
from builders.published import row
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import MinResourcePerNode
from hpc.autoscale.results import BootupResult, DeleteResult, ShutdownResult, TerminateResult


@row("node_mgr.allocate")
@pytest.mark.parametrize(
    "constraints",
    [
        {"ncpus": 1},
        [{"ncpus": 1}],
        [MinResourcePerNode("ncpus", 1)],
        MinResourcePerNode("ncpus", 1),
    ],
    ids=["dict", "list", "list of objects", "object"],
)
def test_constraints_in_any_form(constraints):
    """Also by keyword; all nodes used carry the assignment id."""
    result = a_manager().allocate(constraints=constraints, slot_count=6, assignment_id="job-1")
    assert (names(result.nodes), result.total_slots) == (["htc-1", "htc-2"], 6)
    assert [n.assignments for n in result.nodes] == [{"job-1"}] * 2
    assert [n.available["ncpus"] for n in result.nodes] == [0, 2]


@row("node_mgr.allocate")
@pytest.mark.parametrize("counts", [{}, {"node_count": 0, "slot_count": None}, {"slot_count": 0}])
def test_nothing_asked_for_is_a_failure(counts):
    """With a reason, and no nodes."""
    result = a_manager().allocate({"ncpus": 1}, **counts)
    assert (bool(result), result.status, result.nodes) == (False, "NothingRequested", [])
    assert result.reasons


@row("node_mgr.allocate")
def test_slots_fill_what_was_opened_before():
    """Two, four and two slots on nodes of four: two nodes in all."""
    node_mgr = a_manager()
    used = [names(node_mgr.allocate({"ncpus": 1}, slot_count=n).nodes) for n in (2, 4, 2)]
    assert used == [["htc-1"], ["htc-1", "htc-2"], ["htc-2"]]
    assert names(node_mgr.new_nodes) == ["htc-1", "htc-2"]


@row("node_mgr.allocate")
def test_node_count_takes_one_iteration_of_each():
    """Nodes with room are used before new ones, unless `allow_existing` is False, with a dict
    too."""
    cluster = an_htc_cluster()
    for name in ("htc-1", "htc-2"):
        cluster.add_node(name, "htc", state="Ready")
    node_mgr = a_manager(cluster)
    first = node_mgr.allocate({"ncpus": 1}, node_count=3)
    new = node_mgr.allocate({"ncpus": 4}, node_count=1, allow_existing=False)
    assert names(first.nodes) == ["htc-1", "htc-2", "htc-3"]
    assert [n.available["ncpus"] for n in first.nodes] == [3, 3, 3]
    assert names(new.nodes) == ["htc-4"]


@row("node_mgr.allocate")
def test_all_or_nothing():
    """Nine of ten is a success without it and a failure with it, which leaves no trace."""
    node_mgr = a_manager()
    node_mgr.allocate({"ncpus": 4}, node_count=1)
    failed = node_mgr.allocate({"ncpus": 4}, node_count=10, all_or_nothing=True)
    unchanged = node_mgr.get_buckets()[0].available_count
    part = node_mgr.allocate({"ncpus": 4}, node_count=10)
    assert (bool(failed), unchanged, len(part.nodes)) == (False, 9, 9)
    assert names(part.nodes)[0] == "htc-2"


@row("node_mgr.allocate")
def test_a_partly_used_cluster_at_its_limit_still_takes_jobs():
    """And a job that cannot be placed says why."""
    node_mgr = a_manager(an_htc_cluster(count=1))
    assert node_mgr.allocate({"ncpus": 1}, slot_count=1)
    assert node_mgr.allocate({"ncpus": 1}, slot_count=1)
    refused = node_mgr.allocate({"ncpus": 3}, slot_count=1)
    assert not refused
    assert "htc" in " ".join(refused.reasons)


@row("node_mgr.set_node_name_hook")
def test_the_hook_is_asked_once_for_each_free_name():
    """Slurm's hook knows one name, and raises unless the index is 1."""
    asked = []
    node_mgr = a_manager()
    for name in ("slurm-7", "slurm-3"):

        def hook(bucket, index, name=name):
            if index != 1:
                raise RuntimeError(f"{name} is in use")
            asked.append((bucket.nodearray, index, name))
            return name

        node_mgr.set_node_name_hook(hook)
        result = node_mgr.allocate({"exclusive": True}, node_count=1, allow_existing=False)
        assert names(result.nodes) == [name]
    assert asked == [("htc", 1, "slurm-7"), ("htc", 1, "slurm-3")]


@row("node_mgr.set_node_name_hook")
def test_a_hook_is_asked_again_while_its_name_is_in_use():
    """With rising index; what it raises reaches the caller, and nothing has been placed."""
    node_mgr = a_manager()
    node_mgr.set_node_name_hook(lambda bucket, index: f"x-{index}")
    assert names(node_mgr.allocate({"ncpus": 4}, node_count=2).nodes) == ["x-1", "x-2"]
    node_mgr.set_node_name_hook(lambda bucket, index: {1: "x-1"}[index])
    with pytest.raises(KeyError):
        node_mgr.allocate({"ncpus": 4}, node_count=1)
    assert node_mgr.get_buckets()[0].available_count == 8


@row("node_mgr.bootup")
def test_bootup_creates_what_is_new():
    """Given nodes or, with none or an empty list, all new ones; states and ids come from the
    cluster."""
    node_mgr = a_manager()
    nodes = node_mgr.allocate({"ncpus": 4}, node_count=3).nodes
    first = node_mgr.bootup(nodes[:1])
    rest = node_mgr.bootup([])
    again = node_mgr.bootup()
    assert [type(r) for r in (first, rest, again)] == [BootupResult] * 3
    assert (names(first.nodes), names(rest.nodes)) == (["htc-1"], ["htc-2", "htc-3"])
    assert bool(again) and again.operation_id == ""
    assert sorted(node_mgr.cluster_bindings.nodes) == ["htc-1", "htc-2", "htc-3"]
    assert all(n.delayed_node_id.node_id and n.target_state == "Started" for n in nodes)


class Journal:
    """A clusters module over a mock cluster, which notes the request ids."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.sent = []

    def get_cluster_status(self, session, name, nodes):
        return SimpleNamespace(status_code=200), self.cluster.get_cluster_status(nodes)

    def get_nodes(self, session, name, operation_id=None, request_id=None):
        return SimpleNamespace(status_code=200), self.cluster.get_nodes(operation_id, request_id)

    def create_nodes(self, session, name, request):
        self.sent.append(("create", request.request_id))
        (wanted,) = request.sets
        present = self.cluster.nodearrays[wanted.nodearray].buckets[0].active_count
        total = present + wanted.count
        made = self.cluster.scale(wanted.nodearray, total_node_count=total)
        return SimpleNamespace(status_code=202), made

    def start_nodes(self, session, name, request):
        self.sent.append(("start", request.request_id))
        return SimpleNamespace(status_code=202), self.cluster.start_nodes(node_ids=request.ids)


@row("node_mgr.bootup")
def test_deallocated_nodes_are_started_and_both_request_ids_are_sent():
    """Symphony relies on each id being that of its own request."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Deallocated", target_state="Deallocated")
    journal = Journal(cluster)
    binding = ClusterBinding({"cluster_name": "clusty"}, object(), object(), journal)
    node_mgr = a_manager(binding)
    nodes = node_mgr.allocate({"ncpus": 4}, node_count=2).nodes
    result = node_mgr.bootup(nodes, request_id_start="start-1", request_id_create="create-1")
    assert names(nodes) == ["htc-1", "htc-2"]
    assert journal.sent == [("start", "start-1"), ("create", "create-1")]
    assert sorted(names(result.nodes)) == ["htc-1", "htc-2"]
    assert result.operation_id.count(",") == 1


@row("node_mgr.get_nodes_by_request_id")
def test_nodes_of_a_request():
    """As they are now; an unknown id is an error with the text that Symphony looks for."""
    node_mgr = a_manager()
    node_mgr.allocate({"ncpus": 4}, node_count=2)
    node_mgr.bootup(request_id_create="req-1")
    node_mgr.cluster_bindings.update_state("Ready")
    found = node_mgr.get_nodes_by_request_id("req-1")
    assert [(n.name, n.state) for n in found] == [("htc-1", "Ready"), ("htc-2", "Ready")]
    with pytest.raises(Exception, match="No operation found for request id"):
        node_mgr.get_nodes_by_request_id("req-2")


def _ready(count=3):
    cluster = an_htc_cluster()
    for number in range(1, count + 1):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"ip-{number}")
    return cluster, a_manager(cluster)


@row("node_mgr.delete")
@row("node_mgr.shutdown_nodes")
@row("node_mgr.terminate_nodes")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        ("delete", DeleteResult),
        ("shutdown_nodes", ShutdownResult),
        ("terminate_nodes", TerminateResult),
    ],
)
def test_nodes_are_given_up(verb, kind):
    """The cluster is told, the result names them, and they are gone from the manager."""
    cluster, node_mgr = _ready()
    result = getattr(node_mgr, verb)(node_mgr.get_nodes()[:2])
    assert type(result) is kind
    assert (bool(result), names(result.nodes)) == (True, ["htc-1", "htc-2"])
    assert names(node_mgr.get_nodes()) == ["htc-3"]
    assert [r["Name"] for r in cluster.get_nodes().nodes] == ["htc-3"]
    assert cluster.nodes["htc-1"].target_state == "Terminated"
    assert result.operation_id in cluster.operations


@row("node_mgr.shutdown_nodes")
def test_unmanaged_nodes_are_left_alone():
    """With a warning; the result is false only for an error."""
    _, node_mgr = _ready(1)
    result = node_mgr.shutdown_nodes([SchedulerNode("onprem"), *node_mgr.get_nodes()])
    nothing = node_mgr.shutdown_nodes([SchedulerNode("onprem")])
    assert (bool(result), names(result.nodes)) == (True, ["htc-1"])
    assert (bool(nothing), nothing.nodes) == (True, [])


class Refusing(MockClusterBinding):
    """A cluster that will not let go of anything."""

    def shutdown_nodes(self, *args, **kwargs):
        result = super().shutdown_nodes(*args, **kwargs)
        for node in result.nodes:
            node.status, node.error = "Error", "it is locked"
        return result


@row("node_mgr.shutdown_nodes")
def test_a_shutdown_that_is_refused_is_false():
    """With the cluster's reason."""
    cluster = Refusing()
    cluster.add_nodearray("htc", {})
    cluster.add_bucket("htc", "Standard_F4", 10, 10)
    cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster)
    result = node_mgr.shutdown_nodes(node_mgr.get_nodes())
    assert not result
    assert "it is locked" in result.message or "it is locked" in " ".join(result.reasons)
