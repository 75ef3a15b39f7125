"""Section 13, first half: cluster bindings, the mock cluster, credentials."""

import os
import stat

import pytest

from builders.nodes import a_manager, an_htc_cluster, names
from builders.published import row
from hpc.autoscale import ccbindings
from hpc.autoscale.ccbindings import ClusterBindingInterface, auth, interface, new_cluster_bindings
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.reproduce import ReproduceFromResponse
from hpc.autoscale.node.node import Node
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import ConfigurationException

SERVER = {"cluster_name": "c", "url": "https://cc", "username": "u", "password": "p"}


@row("ccbindings.new_cluster_bindings")
def test_records_of_whatever_binding_is_configured():
    """Slurm reads Name, TargetState and Status of dicts; a mock object is returned as it is."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Preparing")
    binding = new_cluster_bindings(a_config(cluster))
    (record,) = binding.get_nodes().nodes
    assert binding is cluster
    assert isinstance(record, dict)
    assert (record["Name"], record["TargetState"], record["Status"]) == (
        "htc-1",
        "Started",
        "Preparing",
    )


@row("ccbindings.new_cluster_bindings")
def test_a_server_or_saved_replies():
    """Without a mock it is the server's, read-only when configured so; a dict stands for saved
    replies."""
    config = dict(SERVER)
    status = an_htc_cluster().get_cluster_status(nodes=True).to_dict()
    saved = new_cluster_bindings({"_mock_bindings": {"cluster_response": status}})
    real, dry = new_cluster_bindings(config), new_cluster_bindings({**SERVER, "read_only": True})
    assert isinstance(saved, ReproduceFromResponse)
    assert isinstance(real, ClusterBinding)
    assert (real.cluster_name, real.read_only, dry.read_only) == ("c", False, True)
    assert config == SERVER
    with pytest.raises(AssertionError, match="unsupported _mock_bindings"):
        new_cluster_bindings({"_mock_bindings": {"name": "other"}})
    with pytest.raises(ConfigurationException):
        new_cluster_bindings({**SERVER, "cluster_name": None})


@row("ccbindings.ClusterBindingInterface")
def test_the_interface_comes_from_the_package():
    """The same class as in its module, of which all bindings are."""
    assert ccbindings.ClusterBindingInterface is interface.ClusterBindingInterface
    assert isinstance(MockClusterBinding(), ClusterBindingInterface)
    assert isinstance(new_cluster_bindings(SERVER), ClusterBindingInterface)
    with pytest.raises(TypeError):
        ClusterBindingInterface()


@row("mock.MockClusterBinding")
def test_a_mock_cluster_is_ready_to_be_filled():
    """With or without a name; its figures are plain attributes."""
    mock = MockClusterBinding()
    assert (mock.cluster_name, MockClusterBinding("other").cluster_name) == ("clusty", "other")
    assert (mock.max_core_count, mock.max_count) == (10_000, 1_000)
    assert (mock.nodes, mock.nodearrays, mock.operations) == ({}, {}, {})
    assert (mock.state, mock.target_state, mock.subnet_id) == ("Started", "Started", "subnetid1")
    mock.max_core_count = 8
    mock.add_nodearray("htc", {})
    mock.add_bucket("htc", "Standard_F4", 10, 10)
    assert len(a_manager(mock).allocate({"ncpus": 4}, node_count=5).nodes) == 2
    assert str(mock) == "MockBindings()"


@row("mock.add_nodearray")
def test_a_nodearray_of_the_mock():
    """By the keywords that Slurm uses, and all others; configuration and resources reach nodes and
    buckets."""
    mock = MockClusterBinding()
    mock.add_nodearray(name="plain", resources={})
    made = mock.add_nodearray(
        "spot",
        resources={"owner": "alice"},
        location="eastus",
        max_core_count=64,
        max_count=7,
        spot=True,
        software_configuration={"slurm": {"hpc": True}, "autoscale": {"is_hpc": True}},
        max_placement_group_size=5,
    )
    mock.add_bucket("spot", "Standard_F8s", 10, 10, placement_groups=["pg0"])
    in_group, plain = a_manager(mock).get_buckets()
    assert mock.nodearrays["spot"] is made
    assert (plain.location, plain.spot, plain.resources["owner"]) == ("eastus", True, "alice")
    assert (plain.limits.nodearray_max_count, plain.software_configuration["slurm"]["hpc"]) == (
        7,
        True,
    )
    assert (in_group.placement_group, in_group.available_count, plain.available_count) == (
        "pg0",
        5,
        7,
    )


@row("mock.add_bucket")
def test_a_bucket_of_the_mock():
    """Four arguments by position, the rest by name; numbers of the size come from the table."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {})
    made = mock.add_bucket(
        "htc",
        "Standard_F4",
        100,
        60,
        family_consumed_core_count=160,
        family_quota_core_count=200,
        family_quota_count=50,
        regional_consumed_core_count=160,
        regional_quota_core_count=176,
        regional_quota_count=44,
        placement_groups=["a", "b"],
    )
    with pytest.raises(RuntimeError, match="Please call add_nodearray first"):
        mock.add_bucket("none", "Standard_F4", 1, 1)
    with pytest.raises(AssertionError):
        mock.add_bucket("htc", "Standard_None", 1, 1)
    with pytest.raises(AssertionError):
        mock.add_bucket("htc", "Standard_F4", 10, 20)
    assert (made.active_count, made.available_count, made.max_core_count) == (40, 60, 400)
    assert [g.name for g in made.placement_groups] == ["a", "b"]
    assert (made.virtual_machine.vcpu_count, made.virtual_machine.memory) == (4, 8.0)
    buckets = a_manager(mock).get_buckets()
    assert [(b.placement_group, b.available_count) for b in buckets] == [
        ("a", 4),
        ("b", 4),
        (None, 4),
    ]
    assert (buckets[2].limits.family_available_count, buckets[2].max_count) == (10, 100)


@row("mock.add_node")
def test_a_node_of_the_mock_is_the_one_it_holds():
    """Its nested configuration is shared with later records; what is set on it, the next manager
    sees."""
    mock = an_htc_cluster(software_configuration={"slurm": {"partition": "htc"}})
    mock.add_bucket("htc", "Standard_F8s", 10, 10)
    node = mock.add_node(
        "htc-1",
        "htc",
        "Standard_F8s",
        state="Ready",
        target_state="Started",
        placement_group="pg0",
        hostname="ip-1.x",
        keep_alive=True,
    )
    before = mock.get_nodes().nodes[0]
    node.software_configuration["slurm"]["partition"] = "changed"
    after = mock.get_nodes().nodes[0]
    (seen,) = a_manager(mock).get_nodes()
    with pytest.raises(RuntimeError, match="More than one bucket found"):
        mock.add_node("htc-2", "htc")
    assert isinstance(node, Node)
    assert mock.nodes == {"htc-1": node}
    assert before["Configuration"]["slurm"]["partition"] == "changed"
    assert after["Configuration"]["slurm"]["partition"] == "changed"
    assert (seen.vm_size, seen.placement_group, seen.hostname, seen.keep_alive) == (
        *("Standard_F8s", "pg0", "ip-1", True),
    )
    assert (node.exists, seen.exists, seen.state) == (True, True, "Ready")


@row("mock.add_node")
def test_defaults_of_a_node_of_the_mock():
    """It runs, without a host name, in the one bucket that there is, whose numbers go along."""
    mock = an_htc_cluster()
    node = mock.add_node("htc-1", "htc", vm_size="of no interest")
    bucket = mock.nodearrays["htc"].buckets[0]
    assert (node.state, node.target_state, node.hostname) == ("Started", "Started", None)
    assert (node.vm_size, bool(node.delayed_node_id.node_id)) == ("Standard_F4", True)
    assert (bucket.available_count, bucket.active_count, bucket.active_nodes) == (9, 1, ["htc-1"])


@row("mock.state")
def test_addresses_are_handed_out_in_order():
    """Slurm's tests assert exact ones: 10.1.0.2, .3 … in the order of the calls."""
    mock = an_htc_cluster()
    for number in range(1, 5):
        mock.add_node(f"htc-{number}", "htc")
    mock.assign_ip(["htc-3", "htc-1"])
    mock.assign_ip(["htc-2"])
    addresses = {r["Name"]: r["PrivateIp"] for r in mock.get_nodes().nodes}
    assert addresses == {
        "htc-1": "10.1.0.3",
        "htc-2": "10.1.0.4",
        "htc-3": "10.1.0.2",
        "htc-4": None,
    }
    assert [n.private_ip for n in a_manager(mock).get_nodes()][:2] == ["10.1.0.3", "10.1.0.4"]


@row("mock.state")
def test_states_and_shutting_down_by_name():
    """update_state of some or all; what is shut down is Terminating and no longer listed, but still
    held."""
    mock = an_htc_cluster()
    for number in (1, 2, 3):
        mock.add_node(f"htc-{number}", "htc", placement_group="pg0" if number == 1 else None)
    mock.update_state("Ready")
    mock.update_state("Preparing", ["htc-2"])
    result = mock.shutdown_nodes(names=["htc-3"])
    records = mock.get_nodes().nodes
    assert [(r["Name"], r["Status"], r["PlacementGroupId"]) for r in records] == [
        ("htc-1", "Ready", "pg0"),
        ("htc-2", "Preparing", None),
    ]
    assert {r["TargetState"] for r in records} == {"Started"}
    gone = mock.nodes["htc-3"]
    assert (gone.state, gone.target_state) == ("Terminating", "Terminated")
    assert [(n.name, n.status) for n in result.nodes] == [("htc-3", "OK")]


@row("mock.state")
def test_the_mock_is_one_store_for_all_managers():
    """A node that one manager created is there for the next, by the same name and id."""
    mock = an_htc_cluster()
    first = a_manager(mock)
    first.allocate({"ncpus": 4}, node_count=2)
    first.bootup()
    mock.update_state("Ready", ["htc-1"])
    second = a_manager(mock)
    assert [(n.name, n.state) for n in second.get_nodes()] == [("htc-1", "Ready"), ("htc-2", "Off")]
    assert [n.delayed_node_id.node_id for n in first.get_nodes()] == [
        n.delayed_node_id.node_id for n in second.get_nodes()
    ]
    assert names(second.allocate({"ncpus": 4}, node_count=3).nodes) == ["htc-1", "htc-2", "htc-3"]


def _fake_jetpack(directory, script):
    directory.mkdir(parents=True)
    path = directory / "jetpack"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def no_jetpack(tmp_path, monkeypatch):
    """A machine that is no node of a cluster."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("CYCLECLOUD_HOME", str(tmp_path / "jetpack-home"))
    for name in ("CYCLECLOUD_URL", "CYCLECLOUD_USERNAME", "CYCLECLOUD_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@row("ccbindings.auth")
def test_credentials_come_from_jetpack_where_they_are_missing(no_jetpack, monkeypatch):
    """It is found below CYCLECLOUD_HOME or on PATH, and asked when user name or password is not
    configured."""
    path = _fake_jetpack(no_jetpack / "jetpack-home" / "bin", 'echo "$2"')
    without = {key: SERVER[key] for key in ("cluster_name", "url")}
    binding = new_cluster_bindings(without)
    assert auth._find_jetpack() == path
    assert auth.get_cyclecloud_access_credentials() == (
        "cyclecloud.config.username",
        "cyclecloud.config.password",
    )
    assert binding.session._config.get("username") == "cyclecloud.config.username"
    on_path = _fake_jetpack(no_jetpack / "bin", "echo x")
    monkeypatch.setenv("PATH", f"{no_jetpack / 'bin'}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert auth._find_jetpack() == on_path


@row("ccbindings.auth")
def test_without_jetpack_the_error_is_about_the_configuration(no_jetpack):
    """JetpackNotFoundError where it is looked for; a ConfigurationException where it is needed."""
    with pytest.raises(auth.JetpackNotFoundError):
        auth._find_jetpack()
    with pytest.raises(ConfigurationException):
        new_cluster_bindings({"cluster_name": "c", "url": "https://cc"})
    _fake_jetpack(no_jetpack / "jetpack-home" / "bin", "exit 1")
    with pytest.raises(ConfigurationException):
        new_cluster_bindings({"cluster_name": "c", "url": "https://cc"})
