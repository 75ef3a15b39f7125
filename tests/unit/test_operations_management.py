"""Shutting down, putting to rest, starting: who is named, and what is learned from the answer."""

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.replies import a_record
from hpc.autoscale.ccbindings.errors import Conflict, CycleCloudUnreachable
from hpc.autoscale.ccbindings.models import (
    NodeList,
    NodeManagementResult,
    NodeManagementResultNode,
    OperationStatus,
)
from hpc.autoscale.errors import InvalidArgument
from hpc.autoscale.node import operations
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.requests import RequestLog


def left(manager):
    """How many nodes its bucket has room for."""
    return manager.get_buckets()[0].available_count


def running(count=3, **config):
    """A cluster with running nodes, and a manager over it."""
    cluster = an_htc_cluster(10)
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    return cluster, a_manager(cluster, **config)


@pytest.mark.parametrize("verb", ["delete", "shutdown_nodes", "terminate_nodes", "remove_nodes"])
def test_nodes_that_go_give_back_their_places(verb):
    """W17: they leave the bucket, and what they used is free for new ones."""
    cluster, manager = running()
    nodes = manager.get_nodes()
    result = getattr(manager, verb)(nodes[:2])
    assert (bool(result), result.nodes, len(result.request_ids)) == (True, nodes[:2], 1)
    assert (names(manager.get_nodes()), left(manager)) == (["htc-3"], 9)
    assert not any(node.exists for node in nodes[:2])
    assert len(manager.allocate({"exclusive": True}, node_count=20).nodes) == 10
    limits = manager.get_buckets()[0].limits
    assert limits.nodearray_consumed_core_count == 40
    assert cluster.nodes["htc-3"].state == "Ready"


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("delete", "delete_nodes"),
        ("remove_nodes", "shutdown_nodes"),
        ("shutdown_nodes", "shutdown_nodes"),
        ("terminate_nodes", "terminate_nodes"),
        ("deallocate_nodes", "deallocate_nodes"),
        ("reimage_nodes", "reimage_nodes"),
        ("restart_nodes", "restart_nodes"),
        ("start_nodes", "start_nodes"),
    ],
)
def test_the_call_behind_each_command(verb, call, monkeypatch):
    """As published; one of them is a surprise."""
    cluster, manager = running(1)
    original, seen = getattr(cluster, call), []

    def record(**arguments):
        seen.append((names(arguments["nodes"]), bool(arguments["request_id"])))
        return original(**arguments)

    monkeypatch.setattr(cluster, call, record)
    getattr(manager, verb)(manager.get_nodes())
    assert seen == [(["htc-1"], True)]


def test_what_goes_keeps_its_host_name():
    """The scheduler must still forget it by that name, whatever the server says of it by then."""
    cluster, manager = running(1, assume_standalone_hostnames=True)
    cluster.assign_ip(["htc-1"])
    later = a_manager(cluster, assume_standalone_hostnames=True)
    cluster.nodes["htc-1"]._hostname = None
    for made in (manager, later):
        (node,) = made.get_nodes()
        name = node.hostname
        assert made.restart_nodes([node]).nodes[0].hostname in (name, "ip-0A010002")
    (gone,) = later.delete(later.get_nodes()).nodes
    assert (gone.hostname, gone.private_ip) == ("ip-0A010002", "10.1.0.2")


def test_deleting_twice_gives_back_once():
    """The second call has no place to give back."""
    _, manager = running()
    nodes = manager.get_nodes()
    manager.delete(nodes)
    manager.delete(nodes)
    assert left(manager) == 10


def test_a_node_that_was_planned_keeps_the_host_name_that_it_got():
    """Also when the server has none for it any more."""
    cluster, manager = running(0)
    manager.allocate({"ncpus": 4}, slot_count=1)
    made = manager.bootup()
    cluster.nodes["htc-1"]._hostname = "real-1"
    (node,) = manager.get_nodes_by_request_id(made.request_ids[0])
    assert node.hostname == "real-1"
    cluster.nodes["htc-1"]._hostname = None
    (gone,) = manager.delete([node]).nodes
    assert gone.hostname == "real-1"


def test_what_goes_is_in_the_state_that_the_server_says():
    """As long as it is listed."""
    _, manager = running(2)
    nodes = manager.get_nodes()
    (gone,) = manager.shutdown_nodes(nodes[:1]).nodes
    assert (gone.state, gone.target_state, gone.exists) == ("Terminating", "Terminated", False)
    assert names(manager.get_nodes()) == ["htc-2"]


def test_nodes_that_are_put_to_rest():
    """They stay, cost nothing, and can be used again."""
    _, manager = running(2)
    result = manager.deallocate_nodes(manager.get_nodes()[:1])
    assert [(n.state, n.exists) for n in result.nodes] == [("Deallocated", False)]
    assert (names(manager.get_nodes()), left(manager)) == (["htc-1", "htc-2"], 9)
    manager.start_nodes(result.nodes)
    assert left(manager) == 8
    assert manager.get_nodes()[0].exists


def test_a_resting_node_that_goes_gives_back_nothing():
    """It had no place."""
    cluster = an_htc_cluster(10)
    cluster.add_node("htc-1", "htc", state="Deallocated")
    manager = a_manager(cluster)
    manager.delete(manager.get_nodes())
    assert (manager.get_nodes(), left(manager)) == ([], 10)


def told(limits):
    """Room of the bucket, and what is in use of it and of the region."""
    return limits.available_count, limits.active_count, limits.regional_consumed_core_count


def test_nodes_that_the_server_did_not_count_give_back_nothing():
    """They took nothing: what is planned meanwhile stays in use."""
    cluster, _ = running(2)
    bucket = cluster.nodearrays["htc"].buckets[0]
    bucket.active_count = bucket.active_core_count = bucket.regional_consumed_core_count = 0
    manager = a_manager(cluster)
    limits = manager.get_buckets()[0].limits
    existing = manager.get_nodes()
    manager.allocate({"exclusive": True, "node.exists": False}, node_count=3)
    assert told(limits) == (5, 3, 12)
    manager.delete(existing)
    assert told(limits) == (5, 3, 12)


@pytest.mark.parametrize(
    ("quota", "deleted", "left_over"), [(8, 1, 0), (8, 3, 0), (8, 4, 1), (40, 4, 9)]
)
def test_a_limit_that_is_exceeded_stays_full_until_it_is_not(quota, deleted, left_over):
    """Five nodes of four cores run, and somebody lowered the quota of the region."""
    cluster, _ = running(5)
    cluster.nodearrays["htc"].buckets[0].regional_quota_core_count = quota
    manager = a_manager(cluster)
    limits = manager.get_buckets()[0].limits
    manager.delete(manager.get_nodes()[:deleted])
    assert limits.regional_available_count == left_over
    assert limits.regional_consumed_core_count == min(quota, 4 * (5 - deleted))


def test_a_resting_node_that_the_scheduler_has_given_work_gives_back_nothing():
    """It took no place before it is started."""
    cluster = an_htc_cluster(10)
    cluster.add_node("htc-1", "htc", state="Deallocated")
    manager = a_manager(cluster)
    (node,) = manager.get_nodes()
    node.assign("job")
    manager.delete([node])
    assert told(manager.get_buckets()[0].limits) == (10, 0, 0)


def test_a_resting_node_that_the_scheduler_has_given_work_takes_a_place_when_it_starts():
    """And gives it back when it goes."""
    cluster = an_htc_cluster(10)
    cluster.add_node("htc-1", "htc", state="Deallocated")
    manager = a_manager(cluster)
    (node,) = manager.get_nodes()
    node.assign("job")
    limits = manager.get_buckets()[0].limits
    manager.bootup()
    assert told(limits) == (9, 1, 4)
    manager.delete([node])
    assert told(limits) == (10, 0, 0)


def test_a_node_that_starts_and_is_not_listed_stays():
    """What a server does not list after a start is not gone: only the next listing says so."""
    cluster = an_htc_cluster(10)
    cluster.add_node("htc-1", "htc", state="Deallocated")
    manager = a_manager(cluster)
    cluster.get_nodes = lambda **_: NodeList(nodes=[], operation=OperationStatus(action="start"))
    (node,) = manager.get_nodes()
    assert manager.start_nodes([node])
    assert (manager.get_nodes(), node.state) == ([node], "Deallocated")


def test_nodes_that_start_beyond_the_limit_are_the_first_to_go():
    """CycleCloud starts deallocated nodes whatever the limit says."""
    cluster = an_htc_cluster(1)
    cluster.add_node("htc-1", "htc", state="Ready")
    cluster.add_node("htc-2", "htc", state="Deallocated")
    manager = a_manager(cluster)
    limits = manager.get_buckets()[0].limits
    manager.start_nodes(manager.get_nodes()[1:])
    assert told(limits) == (0, 1, 8)
    manager.delete(manager.get_nodes()[:1])
    assert told(limits) == (0, 1, 4)
    manager.delete(manager.get_nodes())
    assert told(limits) == (1, 0, 0)


def test_nodes_that_were_put_into_a_bucket_give_back_nothing():
    """The limits were read before they came."""
    cluster, manager = running(1)
    cluster.add_node("htc-2", "htc", state="Ready")
    bucket = manager.get_buckets()[0]
    (missed,) = [node for node in a_manager(cluster).get_nodes() if node.name == "htc-2"]
    bucket.add_nodes([missed])
    manager.delete([missed])
    assert told(bucket.limits) == (9, 1, 4)


def test_nodes_that_are_looked_at_again_are_counted_as_they_are_now():
    """One that somebody else has started takes a place."""
    cluster = an_htc_cluster(10)
    cluster.add_node("htc-1", "htc", state="Deallocated")
    manager = a_manager(cluster)
    operation = cluster.start_nodes(names=["htc-1"]).operation_id
    (node,) = manager.get_nodes_by_operation(operation)
    limits = manager.get_buckets()[0].limits
    assert (node.exists, told(limits)) == (True, (9, 1, 4))
    manager.delete([node])
    assert told(limits) == (10, 0, 0)


@pytest.mark.parametrize(
    ("verb", "state"), [("reimage_nodes", "Reimaging"), ("restart_nodes", "Restarting")]
)
def test_nodes_that_stay(verb, state):
    """They are on their way back."""
    _, manager = running(2)
    result = getattr(manager, verb)(manager.get_nodes())
    assert [node.state for node in result.nodes] == [state, state]
    assert (len(manager.get_nodes()), left(manager)) == (2, 8)


def test_nodes_that_are_nobodys_are_never_named(caplog):
    """Neither machines on premises nor nodes without an id; alone they are a success without
    nodes."""
    _, manager = running(1)
    (planned_node,) = manager.allocate(
        {"exclusive": True, "node.exists": False}, node_count=1
    ).nodes
    others = [UnmanagedNode("tux"), planned_node]
    result = manager.delete(others)
    assert (bool(result), result.operation_id, result.nodes) == (True, "", [])
    assert ("tux" in caplog.text, "never created" in caplog.text) == (True, True)
    assert names(manager.delete([*others, *manager.get_nodes()]).nodes) == ["htc-1"]


@pytest.mark.parametrize("nodes", [["htc-1"], [None], 5, "htc-1"])
def test_what_is_no_node(nodes):
    """The name of one, for instance. Nothing is sent."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster)
    for command in (node_mgr.delete, node_mgr.bootup, node_mgr.start_nodes):
        with pytest.raises(InvalidArgument, match=r"expected (a list of )?nodes"):
            command(nodes)
    assert cluster.nodes["htc-1"].state == "Ready"


def test_what_the_server_refuses_stays():
    """Its reason is in the result; what it accepted is done."""
    cluster, manager = running(2)
    cluster.nodes["htc-1"]._Node__keep_alive = True
    result = manager.delete(manager.get_nodes())
    assert (bool(result), names(result.nodes)) == (True, ["htc-2"])
    assert any("htc-1" in r and "KeepAlive" in r for r in result.reasons)
    assert names(manager.get_nodes()) == ["htc-1"]
    refused = manager.delete(manager.get_nodes())
    assert (refused.status, refused.nodes) == ("Failed", [])


def test_a_node_that_the_server_does_not_know():
    """It is no success."""
    cluster, manager = running(1)
    del cluster.nodes["htc-1"]
    result = manager.delete(manager.get_nodes())
    assert result.status == "Failed"
    assert "the server knows no such node" in result.reasons[0]


def answer(*nodes, operation_id="op"):
    """A management result, as (id, name, status, error)."""
    keys = ("id", "name", "status", "error")
    return NodeManagementResult(
        operation_id=operation_id,
        nodes=[NodeManagementResultNode(**dict(zip(keys, n, strict=False))) for n in nodes],
    )


class Reply:
    """A binding whose listing of an operation is given, or cannot be read."""

    def __init__(self, records):
        self.records = records

    def get_nodes(self, operation_id=None, request_id=None):
        if self.records is None:
            raise CycleCloudUnreachable("http://server", "no reply", sent=True)
        return NodeList(nodes=self.records, operation=OperationStatus(action="shutdown"))


def test_answers_by_id_and_by_name():
    """OK, or nothing said, is accepted; a stranger in the answer changes nothing."""
    nodes = [a_planned_node(name=n, id=f"id-{n}") for n in "abcd"]
    said = answer(
        ("id-a", "a", "OK"), (None, "b"), ("id-c", "c", "Error", "busy"), ("id-x", "x", "OK")
    )
    reply = Reply([a_record("a", NodeId="id-a")])
    reply.delete_nodes = lambda **k: said
    managed = operations.manage(reply, "delete_nodes", nodes, "r")
    assert [(n.name, r and r["Name"]) for n, r in managed.accepted] == [("a", "a"), ("b", None)]
    assert managed.reasons == ["c: busy", "d: the server knows no such node"]
    assert (managed.operation_id, managed.request_id, managed.was_read) == ("op", "r", True)


def removed(said, requests, request_id="r"):
    """What a removal of the nodes a, b and c comes to; and those that stay in doubt."""
    nodes = [a_planned_node(name=n, id=f"id-{n}") for n in "abc"]
    reply = Reply([])
    reply.delete_nodes = said if callable(said) else lambda **k: said
    reasons = operations.manage(reply, "delete_nodes", nodes, request_id, None, requests).reasons
    return reasons, [(each.node_id, each.request_id) for each in requests.removals]


def test_an_answer_that_was_worked_out_settles_what_goes():
    """The listing may be older than the request, which may still arrive."""
    said = answer(("id-a", "a", "OK"), ("id-b", "b", "Error", "its target state is Started"))
    said.is_worked_out = True
    reasons, doubtful = removed(said, RequestLog())
    assert reasons == [
        "b: its target state is Started",
        "c: nobody knows what becomes of it; the reply was lost",
    ]
    assert doubtful == [("id-b", "r"), ("id-c", "r")]


def test_a_refusal_leaves_in_doubt_what_was_before():
    """It says nothing of another request, which may still arrive."""

    def refuse(**_):
        raise Conflict("http://server", 409, "busy", "busy")

    requests = RequestLog()
    requests.begin_removal("lost", "delete_nodes", [("id-a", "a"), ("id-b", "b")])
    with pytest.raises(Conflict):
        removed(refuse, requests)
    assert [r.request_id for r in requests.removals] == ["lost", "lost"]
    said = answer(("id-a", "a", "Error", "busy"), ("id-b", "b", "OK"), ("id-c", "c", "OK"))
    assert removed(said, requests)[1] == [("id-a", "lost")]


def test_an_effect_that_cannot_be_read_back_is_not_made_up():
    """The command was accepted; the node stays until the next listing says otherwise."""
    _, manager = running(1)
    manager.cluster_bindings.get_nodes = Reply(None).get_nodes
    result = manager.delete(manager.get_nodes())
    assert names(result.nodes) == ["htc-1"]
    assert [(n.name, n.exists) for n in manager.get_nodes()] == [("htc-1", True)]


# -- looking again


def test_nodes_by_operation():
    """As they are now; those that it no longer lists are gone, and give back their places."""
    cluster = an_htc_cluster(10)
    manager = a_manager(cluster)
    manager.allocate({"exclusive": True}, node_count=2)
    result = manager.bootup()
    _, gone = manager.get_nodes()
    cluster.update_state("Ready", ["htc-1"])
    cluster.nodes.pop("htc-2")
    (found,) = manager.get_nodes_by_operation(result.operation_id)
    assert (found.name, found.state) == ("htc-1", "Ready")
    assert (gone.exists, gone.state) == (False, "Off")
    assert (manager.get_nodes(), manager.new_nodes) == ([found], [])
    assert told(manager.get_buckets()[0].limits) == (9, 1, 4)


def test_a_node_that_was_terminated_by_others_is_not_started_again():
    """It is found as it is now, is no new node, and its place is free."""
    cluster = an_htc_cluster(10)
    manager = a_manager(cluster)
    manager.allocate({"exclusive": True}, node_count=1)
    result = manager.bootup()
    cluster.terminate_nodes(names=["htc-1"])
    (found,) = manager.get_nodes_by_operation(result.operation_id)
    assert (found.exists, found.target_state) == (False, "Terminated")
    assert (manager.get_nodes(), manager.bootup().nodes) == ([], None)
    assert told(manager.get_buckets()[0].limits) == (10, 0, 0)


@pytest.mark.parametrize("state", ["Ready", "Deallocating", "Stopping"])
def test_a_node_that_is_being_deallocated_is_no_new_node(state):
    """Bootup does not ask to start it, work or none; with work it does once the node is at rest."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc")
    manager = a_manager(cluster)
    manager.allocate({"exclusive": True}, node_count=1)
    result = manager.deallocate_nodes(manager.get_nodes())
    for now, new in ((state, []), ("Deallocated", ["htc-1"])):
        cluster.update_state(now)
        (node,) = manager.get_nodes_by_operation(result.operation_id)
        assert (node.state, node.exists, names(manager.new_nodes)) == (now, False, new)
    assert names(manager.bootup().nodes) == ["htc-1"]


def test_nodes_of_a_listing_without_its_operation_are_not_known_to_be_gone():
    """It may be of anything."""
    cluster = an_htc_cluster()
    manager = a_manager(cluster)
    manager.allocate({"exclusive": True}, node_count=1)
    result = manager.bootup()
    manager.cluster_bindings.get_nodes = lambda **query: NodeList(nodes=[])
    assert manager.get_nodes_by_operation(result.operation_id) == []
    assert [(node.name, node.exists) for node in manager.get_nodes()] == [("htc-1", True)]


def test_nodes_by_request_on_a_later_manager():
    """Found by their ids."""
    cluster = an_htc_cluster()
    manager = a_manager(cluster)
    manager.allocate({"exclusive": True}, node_count=2)
    manager.bootup(request_id_create="mine")
    cluster.update_state("Ready")
    found = a_manager(cluster).get_nodes_by_request_id("mine")
    assert [(n.name, n.state) for n in found] == [("htc-1", "Ready"), ("htc-2", "Ready")]


def test_a_listing_that_may_be_of_anything_says_of_no_node_that_it_is_gone():
    """Without its operation an empty one is no evidence: the node stays until the next listing."""
    _, manager = running(1)
    manager.cluster_bindings.get_nodes = lambda **query: NodeList(nodes=[])
    result = manager.delete(manager.get_nodes())
    assert names(result.nodes) == ["htc-1"]
    assert [(n.name, n.exists) for n in manager.get_nodes()] == [("htc-1", True)]
