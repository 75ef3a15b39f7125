"""Section 14, second half: the client of the `cyclecloud` package, and objects of its classes, in
place of ours."""

import importlib
from types import SimpleNamespace

import pytest

from builders import foreign_client
from builders.foreign_client import ForeignSession
from builders.nodes import a_manager, an_htc_cluster, names
from builders.published import row
from hpc.autoscale.ccbindings import clusters
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import serve

CLOUD = {
    "clusters": {
        "c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": ["Standard_F4s_v2"]}}}
    }
}


@pytest.fixture(scope="module")
def server():
    """A CycleCloud over HTTP."""
    with serve(CLOUD) as running:
        yield running


@pytest.fixture
def theirs(monkeypatch):
    """Another client is installed, over a cluster with one node; its module of functions."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    return foreign_client.install(monkeypatch, cluster)


@row("api.clusters")
@row("client.Client")
def test_an_installed_client_is_used_with_its_own_session(theirs):
    """The whole way from its status to created and deleted nodes, through its objects only."""
    session = ForeignSession({"url": "https://cc", "username": "u", "verify_certificates": True})
    binding = ClusterBinding({"cluster_name": "c"}, session, SimpleNamespace(session=session))
    node_mgr = a_manager(binding)
    assert binding.clusters_module is theirs
    node_mgr.allocate({"ncpus": 4}, node_count=3)
    booted = node_mgr.bootup()
    gone = node_mgr.shutdown_nodes(node_mgr.get_nodes()[:1])
    assert names(booted.nodes) == ["htc-2", "htc-3"]
    assert names(gone.nodes) == ["htc-1"]
    assert [r["Name"] for r in binding.get_nodes().nodes] == ["htc-2", "htc-3"]
    assert {"get_cluster_status", "create_nodes", "shutdown_nodes"} <= set(theirs.calls)
    assert "https://cc" in str(binding)


@row("client.Client")
@row("ccbindings.new_cluster_bindings")
def test_an_installed_client_is_what_a_configuration_leads_to(theirs):
    """new_cluster_bindings connects it, by the configuration; managers live on it from pass to
    pass."""
    config = {"cluster_name": "c", "url": "https://cc", "username": "u", "password": "p"}
    config["cyclecloud_client"] = "installed"
    first = new_node_manager(config)
    assert isinstance(first.cluster_bindings.client, foreign_client.ForeignClient)
    assert first.cluster_bindings.client.config["verify_certificates"] is True
    assert first.cluster_bindings.clusters_module is theirs
    first.allocate({"ncpus": 4}, node_count=3)
    assert names(first.bootup().nodes) == ["htc-2", "htc-3"]
    second = new_node_manager(config)
    assert names(second.get_nodes()) == ["htc-1", "htc-2", "htc-3"]
    assert names(second.delete(second.get_nodes()[1:]).nodes) == ["htc-2", "htc-3"]
    assert names(new_node_manager(config).get_nodes()) == ["htc-1"]


@row("session.request")
def test_an_installed_clients_session_carries_what_it_has_no_function_for(theirs):
    """Retrying failed nodes is a request made by hand."""
    session = ForeignSession({})
    binding = ClusterBinding({"cluster_name": "c"}, session, None)
    binding.retry_failed_nodes()
    assert session.requested == [("POST", "/cloud/actions/retry/c")]


@row("model.ClusterStatus")
@row("model.NodeList")
@row("model.management")
def test_a_binding_of_somebody_elses_may_answer_in_their_objects(theirs):
    """An object given as `_mock_bindings` whose results are of the installed client's classes."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")

    class Theirs:
        """Written for upstream: no class of ours in sight."""

        cluster_name = "c"

        def get_cluster_status(self, nodes=False):
            module = importlib.import_module("cyclecloud.model.ClusterStatusModule")
            return module.ClusterStatus.from_dict(cluster.get_cluster_status(nodes).to_dict())

        def get_nodes(self, operation_id=None, request_id=None):
            module = importlib.import_module("cyclecloud.model.NodeListModule")
            return module.NodeList(nodes=cluster.get_nodes(operation_id).nodes)

        def shutdown_nodes(self, nodes=None, request_id=None, **more):
            module = importlib.import_module("cyclecloud.model.NodeManagementResultModule")
            done = cluster.shutdown_nodes(names=[n.name for n in nodes])
            return module.NodeManagementResult.from_dict(done.to_dict())

    node_mgr = a_manager(Theirs())
    assert names(node_mgr.get_nodes()) == ["htc-1"]
    assert node_mgr.get_buckets()[0].available_count == 9
    assert names(node_mgr.shutdown_nodes(node_mgr.get_nodes()).nodes) == ["htc-1"]


@row("model.creation")
def test_requests_may_be_objects_of_the_other_client(theirs, server):
    """Our functions take them."""
    module = importlib.import_module("cyclecloud.model.NodeCreationRequestModule")
    request = module.NodeCreationRequest.from_dict(
        {
            "sets": [
                {"nodearray": "htc", "count": 1, "definition": {"machineType": "Standard_F4s_v2"}}
            ]
        }
    )
    session = Client(server.connection("c")).session
    status, made = clusters.create_nodes(session, "c", request)
    assert (status.status_code, made.sets[0].added) == (202, 1)
