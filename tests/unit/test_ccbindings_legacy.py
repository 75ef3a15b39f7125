"""The binding over a clusters module: what it asks for, dry runs, and other people's clients."""

from types import SimpleNamespace
from typing import Any

import pytest

from hpc.autoscale.ccbindings import clusters, errors, legacy
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.legacy import ClusterBinding, ReadOnlyModeException
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node

CONFIG = {"cluster_name": "c", "password": "hunter2", "retry": {"attempts": 1}}
ACTIONS = ["start", "deallocate", "remove", "shutdown", "reimage", "restart", "terminate"]


def make_node(name: str, node_id: str | None = None) -> Node:
    return Node(
        node_id=DelayedNodeId(name, node_id),
        name=name,
        nodearray="htc",
        bucket_id="b",
        hostname=f"host-{name}",
        private_ip=None,
        instance_id=None,
        vm_size="Standard_F4",
        location="westus2",
        spot=False,
        vcpu_count=4,
        memory=Memory(8, "g"),
        infiniband=False,
        state="Off",
        target_state="Off",
        power_state="Off",
        exists=node_id is not None,
        placement_group=None,
        managed=True,
        resources={},
        software_configuration={},
        keep_alive=False,
    )


class FakeClusters:
    """The functions of a clusters module, which note their arguments; `fails` is raised by all of
    them."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = fails
        self.listed = [{"Name": "old-1", "NodeId": "id-old", "Hostname": "h"}]

    def __getattr__(self, name: str) -> Any:
        results = {
            "get_cluster_status": ClusterStatus(nodes=list(self.listed)),
            "get_nodes": NodeList(nodes=self.listed),
            "create_nodes": NodeCreationResult(operation_id="op", sets=[]),
            "scale": NodeCreationResult(operation_id="op", sets=[]),
        }

        def function(session: Any, cluster: str, *args: Any) -> Any:
            self.calls.append((name, session, cluster, *args))
            if self.fails:
                raise self.fails
            return None, results.get(name, NodeManagementResult(operation_id="op", nodes=[]))

        return function


def new_binding(module: Any, read_only: bool = False) -> ClusterBinding:
    return ClusterBinding(CONFIG, "session", "client", module, read_only)


def test_a_create_is_one_request_with_an_id() -> None:
    """Sets, counts and the caller's request id; an id of its own when there is none."""
    fake = FakeClusters()
    binding = new_binding(fake)
    binding.create_nodes([make_node("htc-1"), make_node("htc-2")], "rid")
    binding.create_nodes([make_node("htc-3")])
    (_, session, cluster, first), (*_, second) = fake.calls
    assert (session, cluster, first.request_id) == ("session", "c", "rid")
    assert [(one.nodearray, one.count) for one in first.sets] == [("htc", 2)]
    assert second.request_id not in (None, "", "rid")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({"nodes": [make_node("htc-1", "id1")]}, {"ids": ["id1"]}),
        ({"names": ["n"]}, {"names": ["n"]}),
        ({"node_ids": ["i"]}, {"ids": ["i"]}),
        ({"hostnames": ["h"]}, {"hostnames": ["h"]}),
        ({"ip_addresses": ["a"]}, {"ip_addresses": ["a"]}),
        ({"custom_filter": 'State === "Failed"'}, {"filter": 'State === "Failed"'}),
    ],
)
def test_management_calls_select_in_six_ways(
    action: str, selector: dict[str, Any], field: dict[str, Any]
) -> None:
    """Each selector has its field in the request, which carries the request id."""
    fake = FakeClusters()
    getattr(new_binding(fake), f"{action}_nodes")(**selector, request_id="rid")
    name, _, _, request = fake.calls[0]
    assert name == f"{action}_nodes"
    assert request.to_dict() == {**field, "requestId": "rid"}


@pytest.mark.parametrize(
    "selector",
    [{}, {"names": []}, {"names": ["a"], "node_ids": ["b"]}, {"nodes": [], "custom_filter": ""}],
)
def test_exactly_one_selector(selector: dict[str, Any]) -> None:
    """None, an empty one or two are a RuntimeError, and nothing is asked."""
    fake = FakeClusters()
    with pytest.raises(RuntimeError, match="You must specify one and only one"):
        new_binding(fake).shutdown_nodes(**selector)
    assert fake.calls == []


def test_a_text_is_no_list_of_names() -> None:
    """A single name is not taken apart into letters."""
    with pytest.raises(errors.InvalidSelection, match="names: expected a list"):
        new_binding(FakeClusters()).shutdown_nodes(names="htc-1")


def test_a_node_without_an_id_cannot_be_selected() -> None:
    """It is named, instead of selecting nothing."""
    with pytest.raises(errors.InvalidSelection, match="node htc-1 has no node id"):
        new_binding(FakeClusters()).shutdown_nodes(nodes=[make_node("htc-1")])


def test_deleting_is_shutting_down() -> None:
    """delete_nodes leaves it to each node's shutdown policy."""
    fake = FakeClusters()
    new_binding(fake).delete_nodes([make_node("htc-1", "id1")])
    assert fake.calls[0][0] == "shutdown_nodes"


def test_reads_and_scale_pass_their_arguments() -> None:
    """In the order of the clusters module."""
    fake = FakeClusters()
    binding = new_binding(fake)
    binding.get_nodes("op", "rid")
    binding.get_cluster_status(nodes=True)
    binding.scale("htc", total_node_count=3)
    assert [call[3:] for call in fake.calls] == [("op", "rid"), (True,), ("htc", None, 3)]


def test_retry_goes_through_the_session_of_another_client() -> None:
    """Its module has no function for it, so the request is built by hand."""
    sent = []

    class Module:
        _RequestContext = SimpleNamespace

    def request(context: Any, method: str, **more: Any) -> Any:
        sent.append((context.path, method))
        return SimpleNamespace(status_code=200), "whatever"

    binding = ClusterBinding(CONFIG, SimpleNamespace(request=request), None, Module())
    result = binding.retry_failed_nodes()
    assert sent == [("/cloud/actions/retry/c", "POST")]
    assert result.nodes == []


def test_what_it_shows_of_itself() -> None:
    """Cluster, server, user and verification; never the password."""
    client = Client(url="https://x:9443/", username="u", password="hunter2")
    text = str(ClusterBinding(CONFIG, client.session, client))
    assert "c" in text and "https://x:9443" in text and "u" in text and "True" in text
    assert "hunter2" not in text + repr(client.session)


def test_our_session_goes_with_our_functions() -> None:
    """And a session of another client needs that client, or a module."""
    client = Client(url="https://x", username="u", password="p")
    assert ClusterBinding(CONFIG, client.session, client).clusters_module is clusters
    with pytest.raises(ConfigurationException, match="clusters_module"):
        ClusterBinding(CONFIG, object(), None)


@pytest.mark.parametrize("kind", [KeyError, TypeError, AssertionError, OSError, ValueError])
def test_no_exception_of_another_client_gets_out(kind: type[Exception]) -> None:
    """Reads raise our error with the cluster's name; of changes it is unknown whether they
    happened."""
    binding = new_binding(FakeClusters(kind("hunter2 " * 1000)))
    with pytest.raises(
        errors.CycleCloudError, match=f"cluster c: get_nodes: .*{kind.__name__}"
    ) as e:
        binding.get_nodes()
    assert "hunter2" not in str(e.value) and len(str(e.value)) < 4000
    with pytest.raises(errors.MutationUnconfirmed) as raised:
        binding.create_nodes([make_node("htc-1")], "rid")
    assert raised.value.request_id == "rid"


def test_a_refusal_reported_by_another_client() -> None:
    """Its exceptions have the body of the reply as their text."""
    refused = FakeClusters(Exception('{"Message": "No.", "Detail": "Because."}'))
    with pytest.raises(errors.CycleCloudError, match=r"cluster c: create_nodes: No. Because.") as e:
        new_binding(refused).create_nodes([make_node("htc-1")])
    assert not isinstance(e.value, errors.MutationUnconfirmed)
    unknown = FakeClusters(Exception('{"Message": "No operation found for request id x"}'))
    with pytest.raises(errors.OperationNotFound):
        new_binding(unknown).get_nodes(request_id="x")


def test_a_function_that_an_older_client_lacks() -> None:
    """A missing endpoint is an error of ours."""
    with pytest.raises(errors.CycleCloudError, match="reimage_nodes"):
        new_binding(SimpleNamespace()).reimage_nodes(names=["n"])


def test_models_of_another_client_become_ours() -> None:
    """By their `to_dict`, or by their attributes where they have none."""
    with_dict = SimpleNamespace(to_dict=lambda: {"nodes": [{"name": "n"}]})
    for foreign in (with_dict, SimpleNamespace(nodes=[{"name": "n"}])):
        module = SimpleNamespace(get_nodes=lambda *args, foreign=foreign: (None, foreign))
        assert new_binding(module).get_nodes().nodes[0]["Name"] == "n"


class TestDryRun:
    """A read-only binding."""

    def test_creating(self) -> None:
        """Nothing is sent; the nodes exist as far as anybody can see through this binding."""
        fake = FakeClusters()
        binding = new_binding(fake, read_only=True)
        nodes = [make_node("htc-1"), make_node("htc-2")]
        result = binding.create_nodes(nodes, "rid")
        assert [one.added for one in result.sets] == [2]
        assert all(node.exists and node.target_state == "Started" for node in nodes)
        assert all(str(node.delayed_node_id.node_id).startswith("dryrun-") for node in nodes)
        for listing in (
            binding.get_nodes(),
            binding.get_nodes(result.operation_id),
            binding.get_nodes(request_id="rid"),
        ):
            assert [record["Name"] for record in listing.nodes] == ["htc-1", "htc-2"]
        assert fake.calls == []

    def test_status_has_both(self) -> None:
        """The cluster's nodes and those of the dry run."""
        binding = new_binding(FakeClusters(), read_only=True)
        binding.create_nodes([make_node("htc-1")])
        nodes = binding.get_cluster_status(nodes=True).nodes or []
        assert [record["Name"] for record in nodes] == ["old-1", "htc-1"]
        binding.check_listing(ClusterStatus(nodearrays=[], nodes=nodes), binding.get_nodes())

    @pytest.mark.parametrize(
        "selector", [{"names": ["old-1"]}, {"node_ids": ["id-old"]}, {"hostnames": ["h"]}]
    )
    def test_starting_what_the_cluster_has(self, selector: dict[str, Any]) -> None:
        """Any selector but a filter finds it, by reading only."""
        fake = FakeClusters()
        binding = new_binding(fake, read_only=True)
        result = binding.start_nodes(**selector)
        assert [(node.id, node.status) for node in result.nodes] == [("id-old", "OK")]
        assert binding.get_nodes(result.operation_id).nodes[0]["TargetState"] == "Started"
        assert [call[0] for call in fake.calls] == ["get_nodes"]

    def test_starting_nodes_at_hand(self) -> None:
        """Nodes of the caller are marked as started."""
        binding = new_binding(FakeClusters(), read_only=True)
        node = make_node("htc-1", "id1")
        binding.start_nodes(nodes=[node])
        assert node.target_state == "Started"
        assert binding.get_nodes().nodes[0]["NodeId"] == "id1"

    def test_filters_are_not_evaluated(self) -> None:
        """A filter cannot be resolved without the server."""
        with pytest.raises(RuntimeError, match="custom_filter"):
            new_binding(FakeClusters(), read_only=True).start_nodes(custom_filter="true")

    @pytest.mark.parametrize("action", [a for a in ACTIONS if a != "start"])
    def test_everything_else_is_refused(self, action: str) -> None:
        """With the name of the call."""
        fake = FakeClusters()
        binding = new_binding(fake, read_only=True)
        with pytest.raises(ReadOnlyModeException, match=f"Can not call {action}_nodes in read"):
            getattr(binding, f"{action}_nodes")(names=["old-1"])
        assert fake.calls == []

    def test_so_are_scale_delete_and_retry(self) -> None:
        """The calls without selectors too."""
        binding = new_binding(FakeClusters(), read_only=True)
        for call in (
            lambda: binding.scale("htc", total_node_count=1),
            lambda: binding.delete_nodes([make_node("htc-1", "id1")]),
            binding.retry_failed_nodes,
        ):
            with pytest.raises(legacy.ReadOnlyModeException):
                call()
