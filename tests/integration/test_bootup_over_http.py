"""A node manager against a real HTTP server: nodes by name, what is asked after a lost reply, and
what is said of failures."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from builders.scripted_server import Answer, serving
from hpc.autoscale.ccbindings.errors import BadReply, CycleCloudError, InconsistentStatus
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.results import BootupResult
from hpc.autoscale.simulator import Simulator, serve

SIZE = "Standard_F4s_v2"
CORES = 4
NINE = [f"htc-{i}" for i in range(1, 10)]


def a_cloud(**region: Any) -> dict[str, Any]:
    nodearray = {"machine_types": [SIZE], "placement_groups": ["pg0"]}
    return {
        "clusters": {"my cluster": {"region": "westus2", "nodearrays": {"htc": nodearray}}},
        "regions": {"westus2": region},
    }


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with serve(a_cloud(quota=5 * CORES)) as running:
        yield running


def manager_of(simulator: Simulator) -> NodeManager:
    return new_node_manager({**simulator.connection("my cluster"), "retry": {"attempts": 2}})


def resume(simulator: Simulator, names: list[str]) -> tuple[BootupResult, list[Node]]:
    """What Slurm's integration does: a node for each name, by a hook that knows that one name."""
    manager = manager_of(simulator)
    nodes = []
    for name in names:
        manager.set_node_name_hook(lambda bucket, index, name=name: name)
        constraints = {"node.nodearray": "htc", "node.placement_group": None, "exclusive": True}
        result = manager.allocate(constraints, node_count=1, allow_existing=False)
        (node,) = result.nodes
        node.name_format = name
        nodes.append(node)
    return manager.bootup(nodes), nodes


def names_in(simulator: Simulator) -> list[str]:
    return sorted(record["Name"] for record in simulator.cluster("my cluster").nodes())


def requests_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The requests that left, without the address of the server, in order."""
    sent = [r.getMessage() for r in caplog.records if r.funcName == "send" and r.args]
    lines = [line.split(" ") for line in sent if ": HTTP " not in line]
    return [f"{line[0]} /{line[1].split('/', 3)[3]}" for line in lines]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_nine_names_make_nine_nodes_of_these_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In whatever order they are asked for; the log says how many sets that took."""
    with serve(a_cloud()) as simulator, caplog.at_level(logging.INFO):
        result, nodes = resume(simulator, NINE[::-1])
        assert bool(result) and names_in(simulator) == NINE
        assert [node.name for node in nodes] == NINE[::-1]
        records = {r["Name"]: r["NodeId"] for r in simulator.cluster("my cluster").nodes()}
        assert {n.name: n.delayed_node_id.node_id for n in nodes} == records
        assert "creating 9 nodes in 9 sets" in caplog.text
        resume(simulator, ["htc-10"])
    assert "creating 1 node in 1 set," in caplog.text


def test_names_that_there_is_no_room_for_are_the_ones_that_are_missing(
    simulator: Simulator, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that was asked for by name never becomes one of another name; what is missing is said
    at WARNING."""
    manager = manager_of(simulator)
    nodes = manager.allocate({"exclusive": True}, node_count=5).nodes
    for node, name in zip(nodes, ("c-5", "c-4", "c-3", "c-2", "c-1"), strict=True):
        node.name_format = name
        node._rename(name)
    other = manager_of(simulator)
    other.allocate({"exclusive": True}, node_count=2)
    other.bootup()
    with caplog.at_level(logging.WARNING):
        result = manager.bootup(nodes)
    assert sorted(node.name for node in result.nodes or []) == ["c-1", "c-2", "c-3"]
    assert [node.exists for node in nodes] == [False, False, True, True, True]
    (warning,) = warnings_in(caplog)
    assert f"cluster my cluster at {simulator.url}" in warning
    assert "2 of the nodes asked for were not created (c-5, c-4)" in warning
    assert "regional quota" in warning


def test_a_node_that_is_given_twice_is_one(simulator: Simulator) -> None:
    """Allocations that share a planned node both return it: one VM comes, and one goes."""
    manager = manager_of(simulator)
    given: list[Node] = []
    for _ in range(2):
        constraints = {"ncpus": 2, "node.placement_group": None}
        given += manager.allocate(constraints, slot_count=1).nodes
    assert given[0] is given[1]
    created = manager.bootup(given)
    assert [node.name for node in created.nodes or []] == names_in(simulator) == ["htc-1"]
    assert len(manager.shutdown_nodes([*given, *given]).nodes or []) == 1


@pytest.mark.parametrize("kind", ["lost_reply", "no_reply", "html", "cut_off"])
def test_names_survive_a_lost_reply(kind: str) -> None:
    """Each node is the one of its name, and none is made twice."""
    with serve(a_cloud()) as simulator:
        simulator.faults.add(kind, endpoint="create_nodes", calls=[1])
        result, nodes = resume(simulator, NINE)
        assert bool(result) and names_in(simulator) == [n.name for n in nodes] == NINE
        assert all(node.exists for node in nodes)


def test_a_name_in_use_fails_the_resume_with_a_warning(
    simulator: Simulator, caplog: pytest.LogCaptureFixture
) -> None:
    """It names cluster, server and node, and the error goes to the caller all the same."""
    manager = manager_of(simulator)
    (node,) = manager.allocate({"exclusive": True}, node_count=1).nodes
    node.name_format = "htc-1"
    resume(simulator, ["htc-1"])
    with caplog.at_level(logging.WARNING), pytest.raises(CycleCloudError, match="htc-1 is in use"):
        manager.bootup([node])
    (warning,) = warnings_in(caplog)
    assert f"cluster my cluster at {simulator.url}: bootup failed" in warning
    assert "the name htc-1 is in use" in warning


@pytest.mark.parametrize("call", ["bootup", "start_nodes"])
def test_a_start_that_is_refused_is_a_warning(
    simulator: Simulator, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """Deallocated nodes whose cores somebody else has by now: result and log say why, of which
    cluster and where."""
    resume(simulator, ["htc-1"])
    simulator.clock.settle()
    first = manager_of(simulator)
    first.deallocate_nodes(first.get_nodes())
    simulator.clock.settle()
    manager = manager_of(simulator)
    manager.cluster_bindings.scale("htc", total_node_count=5)
    with caplog.at_level(logging.WARNING):
        result = getattr(manager, call)(manager.get_nodes())
    assert (bool(result), result.nodes) == (False, [])
    (reason,) = result.reasons
    assert reason.startswith(f"cluster my cluster at {simulator.url}: htc-1: ")
    assert "regional quota" in reason
    (warning,) = warnings_in(caplog)
    assert "htc-1 cannot start" in warning and simulator.url in warning


def test_a_failed_create_names_cluster_and_server(simulator: Simulator) -> None:
    """In each of its reasons."""
    manager = manager_of(simulator)
    nodes = manager.allocate({"exclusive": True}, node_count=1).nodes
    resume(simulator, NINE[:5])
    result = manager.bootup(nodes)
    assert result.status == "Failed"
    assert result.reasons
    for reason in result.reasons:
        assert reason.startswith(f"cluster my cluster at {simulator.url}: ")


def test_after_a_lost_reply_it_is_asked_by_request_id_alone(
    simulator: Simulator, caplog: pytest.LogCaptureFixture
) -> None:
    """The id of the operation is not known then, so the server is not asked for one; creating and
    deleting alike."""
    for endpoint in ("create_nodes", "shutdown_nodes"):
        simulator.faults.add("lost_reply", endpoint=endpoint, calls=[1])
    manager = manager_of(simulator)
    manager.allocate({"exclusive": True}, node_count=2)
    with caplog.at_level(logging.DEBUG):
        made = manager.bootup()
        (request_id,) = made.request_ids
        gone = manager.delete(made.nodes or [])
    assert len(made.nodes or []) == len(gone.nodes or []) == 2
    nodes = "/clusters/my%20cluster/nodes"
    asked = [f"GET {nodes}?request_id={request_id}"] * 2
    later = [f"GET {nodes}?request_id={(gone.request_ids or [''])[0]}"] * 2
    assert requests_in(caplog) == [
        f"POST {nodes}/create",
        *asked,
        f"POST {nodes}/shutdown",
        *later,
    ]


def test_a_listing_that_is_not_about_the_operation_is_not_adopted(simulator: Simulator) -> None:
    """A proxy that drops the query answers with all nodes there are: none of them is taken for a
    new one."""
    resume(simulator, ["htc-1", "htc-2"])
    status = simulator.cluster("my cluster").status().to_dict()
    status["nodes"] = everything = simulator.cluster("my cluster").nodes()
    with serving() as server:
        path = "/clusters/my%20cluster"
        server.on("GET", f"{path}/status", Answer(body=status))
        server.on("GET", f"{path}/nodes", Answer(body={"nodes": everything}))
        created = {"operationId": "op", "sets": [{"added": 2}]}
        server.on("POST", f"{path}/nodes/create", Answer(202, created))
        config = {**simulator.connection("my cluster"), "url": server.url}
        manager = new_node_manager(config)
        planned = manager.allocate({"exclusive": True}, node_count=2, allow_existing=False).nodes
        for _ in range(2):
            with pytest.raises(InconsistentStatus, match="does not say for which operation"):
                manager.bootup()
        assert len(server.seen("POST", f"{path}/nodes/create")) == 1
    assert [node.delayed_node_id.node_id for node in planned] == [None, None]


def test_a_reply_without_nodes_is_not_one_that_lists_none(simulator: Simulator) -> None:
    """The error says which of the two it was."""
    resume(simulator, ["htc-1", "htc-2"])
    status = simulator.cluster("my cluster").status().to_dict()
    del status["nodes"]
    path = "/clusters/my%20cluster"
    for listed, error, said in (
        ({}, BadReply, "nodes: expected a list, found nothing"),
        ({"nodes": []}, InconsistentStatus, "lists no nodes at all"),
    ):
        with serving() as server:
            server.on("GET", f"{path}/status", Answer(body=status))
            server.on("GET", f"{path}/nodes", Answer(body=listed))
            config = {**simulator.connection("my cluster"), "url": server.url}
            with pytest.raises(error, match=said):
                new_node_manager(config)
