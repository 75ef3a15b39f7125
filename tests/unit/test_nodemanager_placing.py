"""Placing through a `NodeManager`: how much, all or nothing, and which nodes get work."""

import pytest

from builders.nodes import a_manager, an_htc_cluster, names
from hpc.autoscale.node.constraints import get_constraint, get_constraints


def two_sizes(**nodearray):
    """A cluster with two VM sizes in htc, and a node of the second one."""
    cluster = an_htc_cluster(**nodearray)
    cluster.add_bucket("htc", "Standard_F8", 10, 10)
    cluster.add_node("htc-1", "htc", "Standard_F8", state="Ready", hostname="ip-1")
    return cluster


def placed(result):
    """Names of the nodes used, and the slots."""
    return names(result.nodes), result.total_slots


# -- allocate


@pytest.mark.parametrize("counts", [{}, {"node_count": 0}, {"slot_count": 0}, {"node_count": None}])
def test_nothing_requested(counts):
    """Neither count is above 0."""
    result = a_manager().allocate({"ncpus": 1}, **counts)
    assert (result.status, result.nodes) == ("NothingRequested", [])


def test_slots_win_over_nodes():
    """Where both are given."""
    assert placed(a_manager().allocate({"ncpus": 1}, node_count=3, slot_count=2)) == (["htc-1"], 2)


@pytest.mark.parametrize("constraints", [{}, [], None, [{}]])
def test_without_constraints_each_slot_takes_a_node(constraints):
    """One slot per node."""
    assert placed(a_manager().allocate(constraints, slot_count=3))[1] == 3
    assert len(a_manager().allocate(constraints, slot_count=3).nodes) == 3


def test_without_an_amount_all_slots_go_on_one_node():
    """Integrations always ask for an amount or for exclusive nodes."""
    assert placed(a_manager().allocate({"node.nodearray": "htc"}, slot_count=5)) == (["htc-1"], 5)


def test_new_nodes_only():
    """For every form of constraint (W18). Nodes planned before count as new."""
    cluster = two_sizes()
    manager = a_manager(cluster)
    for constraint in ({"ncpus": 1}, [{"ncpus": 1}], get_constraint({"ncpus": 1})):
        assert (
            manager.allocate(constraint, slot_count=1, allow_existing=False).nodes[0].name
            == "htc-2"
        )


def test_all_or_nothing():
    """In one bucket or not at all; without it, as much as there is."""
    cluster = an_htc_cluster(3)
    cluster.add_bucket("htc", "Standard_F8", 3, 3)
    manager = a_manager(cluster)
    before = manager.to_dict()
    for counts in ({"node_count": 4}, {"slot_count": 4}):
        refused = manager.allocate({"exclusive": True, "ncpus": 3}, all_or_nothing=True, **counts)
        if "node_count" in counts:
            assert (refused.status, bool(refused.reasons)) == ("NoAllocationSelected", True)
            assert manager.to_dict() == before
    partial = a_manager(cluster).allocate({"exclusive": True}, node_count=9)
    assert (bool(partial), partial.total_slots) == (True, 6)


def test_the_assignment_is_noted():
    """On every node used, under the id given, or one made up."""
    manager = a_manager()
    nodes = manager.allocate({"ncpus": 4}, slot_count=2, assignment_id="job").nodes
    assert [node.assignments for node in nodes] == [{"job"}, {"job"}]
    assert all(node.required for node in nodes)
    (other,) = manager.allocate({"ncpus": 1}, slot_count=1).nodes
    assert len(other.assignments) == 1


def test_the_nodes_of_a_result_stay_readable():
    """Also when they are read after one of them is gone."""
    manager = a_manager()
    result = manager.allocate({"ncpus": 4}, slot_count=2)
    first, _ = manager.get_nodes()
    manager._provisioner._drop(first)
    assert names(result.nodes) == ["htc-1", "htc-2"]
    assert names(manager.get_nodes()) == ["htc-2"]


def test_existing_nodes_first():
    """Across all buckets, unless the configuration says bucket by bucket (W19)."""
    cluster = two_sizes()
    assert names(a_manager(cluster).allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-1"]
    declared = a_manager(cluster, packing={"order": "declared"})
    assert names(declared.allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-2"]


@pytest.mark.parametrize("wanted", ["memory::4g", 4])
def test_an_amount_of_memory_finds_room_on_nodes_that_are_there(wanted):
    """As a size and as a number of GiB; what is left of a node counts."""
    manager = a_manager(two_sizes())
    found = [placed(manager.allocate({"memgb": wanted}, slot_count=1)) for _ in range(5)]
    assert found == [(["htc-1"], 1)] * 4 + [(["htc-2"], 1)]


def test_no_room_says_which_limit():
    """The reasons name the bucket and what stopped it."""
    manager = a_manager(an_htc_cluster(2))
    manager.allocate({"exclusive": True}, node_count=2)
    reasons = manager.allocate({"exclusive": True}, node_count=1).reasons
    assert any("NoCapacity" in reason and "Standard_F4" in reason for reason in reasons)


def test_no_candidates_says_why():
    """One reason for all buckets alike."""
    result = a_manager(two_sizes()).allocate({"ncpus": 100}, slot_count=1)
    assert result.status == "NoCandidatesFound"
    assert all("InsufficientResource" in reason for reason in result.reasons)


def test_allocate_at_least_is_not_there():
    """It never was."""
    with pytest.raises(NotImplementedError):
        a_manager().allocate_at_least(None, 1, None)


# -- who gets work


@pytest.mark.parametrize(
    "state", ["Failed", "Terminating", "Stopping", "Deallocating", "Error", "Unavailable"]
)
def test_troubled_nodes_get_no_work(state):
    """W7: they are there and count, but nothing is placed on them."""
    cluster = an_htc_cluster(5)
    cluster.add_node("htc-1", "htc", state=state, target_state="Started", hostname="ip-1")
    manager = a_manager(cluster)
    assert names(manager.allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-2"]
    assert manager.get_buckets()[0].available_count == 3


def test_failed_nodes_are_listed_apart():
    """The list is the caller's own."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Failed")
    cluster.add_node("htc-2", "htc", state="Ready")
    manager = a_manager(cluster)
    failed = manager.get_failed_nodes()
    assert (names(failed), names(manager.get_non_failed_nodes())) == (["htc-1"], ["htc-2"])
    failed.append(None)
    assert len(manager.get_failed_nodes()) == 1


def test_a_write_to_a_node_counts_at_once():
    """Amounts, state, closed, assignments; whatever an integration writes between two questions."""
    cluster = an_htc_cluster(1)
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    manager = a_manager(cluster)
    (node,) = manager.get_nodes()

    def fits(**constraint):
        return bool(manager.allocate(constraint, slot_count=1))

    node.available["ncpus"] = 0
    assert not fits(ncpus=1)
    node.available["ncpus"] = 2
    assert fits(ncpus=1)
    node.state = "Failed"
    assert not fits(ncpus=1)
    node.state = "Ready"
    assert fits(ncpus=1)
    assert not fits(exclusive=True)
    node._Node__nodearray = "mine"
    assert not fits(**{"node.nodearray": "htc"})
    node._Node__nodearray = "htc"
    assert fits(**{"node.nodearray": "htc"})
    node.assignments.clear()
    assert fits(exclusive=True)
    node.assignments.clear()
    assert not fits(**{"node.nodearray": "htc"})


def test_exclusive_nodes():
    """Several iterations of one request share a node; later requests never get it."""
    manager = a_manager()
    wanted = {"ncpus": 1, "exclusive": True}
    assert placed(manager.allocate(wanted, slot_count=10, assignment_id="a")) == (
        ["htc-1", "htc-2", "htc-3"],
        10,
    )
    assert names(manager.allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-4"]
    assert names(manager.allocate(wanted, slot_count=1, assignment_id="a").nodes) == ["htc-5"]


# -- deallocated nodes


def resting(count=2, available=10):
    """A cluster with deallocated nodes."""
    cluster = an_htc_cluster(available)
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Deallocated", hostname=f"ip-{i}")
    return cluster


def test_a_deallocated_node_rests_until_it_is_needed():
    """It is listed, is no new node, and costs nothing."""
    manager = a_manager(resting())
    assert [(n.name, n.exists, n.state) for n in manager.get_nodes()] == [
        ("htc-1", False, "Deallocated"),
        ("htc-2", False, "Deallocated"),
    ]
    assert (manager.new_nodes, manager.get_buckets()[0].available_count) == ([], 10)


def test_a_deallocated_node_is_charged_once_when_it_is_used():
    """It comes before a new one, and is new itself then."""
    manager = a_manager(resting())
    bucket = manager.get_buckets()[0]
    for slots, used, left in ((1, ["htc-1"], 9), (3, ["htc-1"], 9), (5, ["htc-2", "htc-3"], 7)):
        assert names(manager.allocate({"ncpus": 1}, slot_count=slots).nodes) == used
        assert bucket.available_count == left
    assert names(manager.new_nodes) == ["htc-1", "htc-2", "htc-3"]


def test_a_deallocated_node_needs_room():
    """At the quota it stays where it is."""
    manager = a_manager(resting(2, available=1))
    assert placed(manager.allocate({"ncpus": 4}, slot_count=3)) == (["htc-1"], 1)


def test_a_kept_deallocated_node_is_no_reason_to_start_it():
    """KeepAlive keeps it from being deleted; nobody needs it."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Deallocated", keep_alive=True)
    manager = a_manager(cluster)
    assert (manager.new_nodes, manager.get_nodes()[0].required) == ([], True)
    manager.allocate({"ncpus": 1}, slot_count=1)
    assert (names(manager.new_nodes), manager.get_buckets()[0].available_count) == (["htc-1"], 9)


@pytest.mark.parametrize(
    "asked", [[{"and": [{"ncpus": 4}, {"ncpus": 8}]}], [{"ncpus": 4}, {"ncpus": 8}]]
)
def test_a_node_may_have_room_for_what_a_new_one_has_not(asked):
    """A bucket is asked for each condition by itself, whether an `and` or the list has them."""
    manager = a_manager(two_sizes())
    (node,) = manager.get_nodes()
    node.available["ncpus"] = 12
    _, bucket = manager.get_buckets()
    assert all(constraint.satisfied_by_bucket(bucket) for constraint in get_constraints(asked))
    assert placed(manager.allocate(asked, slot_count=1)) == (["htc-1"], 1)
    assert manager.allocate(asked, slot_count=1).status == "NoAllocationSelected"
