"""The mock cluster as a test helper: setting the scene, and what integrations' tests look at."""

from typing import Any

import pytest

from builders.nodes import a_planned_node
from hpc.autoscale.ccbindings.errors import Conflict, OperationNotFound
from hpc.autoscale.ccbindings.mock import MockClusterBinding, MockNodeManagementResult
from hpc.autoscale.ccbindings.node_record import record_of
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.vm_sizes import all_possible_vm_sizes

# the catalogue knows neither family nor memory of the first, and not the family of the second
NO_FAMILY = ("Standard_D15i_v2", "Standard_D16as_v5_Promo")


@pytest.fixture
def mock() -> MockClusterBinding:
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {"slots": 4}, software_configuration={"slurm": {"hpc": False}})
    binding.add_bucket("htc", "Standard_F4", 100, 100)
    return binding


def planned(mock: MockClusterBinding, name: str, **more: Any) -> Node:
    bucket = mock.nodearrays["htc"].buckets[0]
    bucket_id = more.pop("bucket_id", bucket.bucket_id)
    node = a_planned_node(name=name, bucket_id=bucket_id, vm_size="Standard_F4", resources={})
    node.node_attribute_overrides.update(more)
    return node


def names(mock: MockClusterBinding) -> list[str]:
    return [record["Name"] for record in mock.get_nodes().nodes]


def test_a_new_mock() -> None:
    """Published attributes and their first values."""
    mock = MockClusterBinding()
    assert (mock.cluster_name, str(mock)) == ("clusty", "MockBindings()")
    assert (mock.max_core_count, mock.max_count, mock.subnet_id) == (10000, 1000, "subnetid1")
    assert (mock.state, mock.target_state, mock.last_used_ip) == (
        "Started",
        "Started",
        [10, 1, 0, 1],
    )
    assert (mock.nodes, mock.nodearrays, mock.operations) == ({}, {}, {})


def test_a_nodearray_has_its_record() -> None:
    """Region, subnet, spot, scale set size, and resources beside what autoscale had already."""
    configuration = {"autoscale": {"is_hpc": True, "resources": {"a": 1, "b": 1}}, "x": {"y": 1}}
    array = MockClusterBinding().add_nodearray(
        "hpc",
        {"b": 2},
        location="eastus",
        spot=True,
        software_configuration=configuration,
        max_placement_group_size=20,
    )
    assert array.nodearray == {
        "Name": "hpc",
        "Status": "Started",
        "Region": "eastus",
        "SubnetId": "subnetid1",
        "Interruptible": True,
        "Azure": {"MaxScalesetSize": 20},
        "Configuration": {
            "autoscale": {"is_hpc": True, "resources": {"a": 1, "b": 2}},
            "x": {"y": 1},
        },
    }
    assert configuration["autoscale"]["resources"] == {"a": 1, "b": 1}


def test_a_bucket_has_the_facts_of_its_size() -> None:
    """Cores, memory, limits, and what is not available is active."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {}, max_core_count=500, max_count=50)
    bucket = mock.add_bucket("htc", "Standard_F4", 20, 15, placement_groups=["pg0"])
    assert (bucket.virtual_machine.vcpu_count, bucket.virtual_machine.memory) == (4, 8.0)
    assert (bucket.active_count, bucket.active_core_count) == (5, 20)
    assert (bucket.available_core_count, bucket.max_core_count) == (60, 80)
    assert (bucket.family_consumed_core_count, bucket.regional_consumed_core_count) == (20, 20)
    assert (bucket.max_placement_group_size, bucket.max_placement_group_core_size) == (100, 400)
    assert bucket.last_capacity_failure == -1.0
    assert [(group.name, group.active_count) for group in bucket.placement_groups] == [("pg0", 0)]


def test_quotas_of_none_mean_no_quota_but_the_nodearrays() -> None:
    """None falls back on the limits of bucket and nodearray."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {}, max_core_count=500, max_count=50)
    none = dict.fromkeys(("family_quota_core_count", "family_quota_count"))
    none.update(dict.fromkeys(("regional_quota_core_count", "regional_quota_count")))
    bucket = mock.add_bucket("htc", "Standard_F4", 20, 20, **none)
    assert (bucket.family_quota_core_count, bucket.family_quota_count) == (500, 20)
    assert (bucket.regional_quota_core_count, bucket.regional_quota_count) == (500, 50)


def test_buckets_that_cannot_be(mock: MockClusterBinding) -> None:
    """An unknown nodearray is a RuntimeError; an unknown size or impossible counts an
    AssertionError."""
    with pytest.raises(RuntimeError, match=r"Please call add_nodearray first\."):
        mock.add_bucket("nope", "Standard_F4", 1, 1)
    with pytest.raises(AssertionError, match="Standard_Nope"):
        mock.add_bucket("htc", "Standard_Nope", 1, 1)
    with pytest.raises(AssertionError, match="active_count"):
        mock.add_bucket("htc", "Standard_F8", 1, 2)
    with pytest.raises(AssertionError, match="family_consumed_core_count"):
        mock.add_bucket("htc", "Standard_F8", 9, 9, 80, 40)


def test_every_size_of_the_catalogue_can_be_a_bucket() -> None:
    """Of many neither the family nor the memory is known, and a test may want any of them."""
    mock = MockClusterBinding()
    mock.add_nodearray("any", {}, max_core_count=10**9)
    for vm_size in all_possible_vm_sizes():
        assert mock.add_bucket("any", vm_size, 1, 1).virtual_machine.vcpu_count > 0
    buckets = new_node_manager({"_mock_bindings": mock}).get_buckets()
    assert [b.vm_size for b in buckets] == all_possible_vm_sizes()
    assert {b.available_count for b in buckets} == {1}


def test_an_unknown_family_is_a_family_of_its_own() -> None:
    """Nodes of one size leave the quota of another alone, and take from their own in every
    nodearray."""
    mock = MockClusterBinding()
    for array in ("a", "b"):
        mock.add_nodearray(array, {})
        for vm_size in NO_FAMILY:
            mock.add_bucket(array, vm_size, 10, 10)
    mock.add_node("a-1", "a", NO_FAMILY[0])
    used = {
        (name, bucket.definition.machine_type): bucket.family_consumed_core_count
        for name, array in mock.nodearrays.items()
        for bucket in array.buckets
    }
    first, second = NO_FAMILY
    assert used == {("a", first): 15, ("b", first): 15, ("a", second): 0, ("b", second): 0}


def test_work_for_a_size_of_unknown_family_and_memory() -> None:
    """Its cores are known and can be had; of its memory nobody can promise anything."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {})
    mock.add_bucket("htc", NO_FAMILY[0], 3, 3)
    manager = new_node_manager({"_mock_bindings": mock})
    assert manager.allocate({"ncpus": 10}, node_count=2).total_slots == 2
    refused = manager.allocate({"ncpus": 1, "memgb": 1}, slot_count=1)
    assert not refused and "memgb" in refused.message
    manager.bootup()
    again = new_node_manager({"_mock_bindings": mock})
    assert (len(again.get_nodes()), again.get_buckets()[0].family_available_count) == (2, 66664)


def test_a_node_that_is_there_already(mock: MockClusterBinding) -> None:
    """It is held, listed and counted, with the nodearray's resources."""
    node = mock.add_node("htc-1", "htc", placement_group="pg0", hostname="host", keep_alive=True)
    bucket = mock.nodearrays["htc"].buckets[0]
    assert mock.nodes["htc-1"] is node
    assert node.exists and node.resources == {"slots": 4}
    assert (bucket.active_count, bucket.available_count, bucket.active_nodes) == (1, 99, ["htc-1"])
    assert bucket.placement_groups[0].active_core_count == 4
    record = mock.get_nodes().nodes[0]
    assert record["Hostname"] == "host" and record["KeepAlive"] is True
    assert (record["CoreCount"], record["Memory"], record["InstanceId"]) == (4, 8.0, None)
    node.instance_id = "vm-7"
    assert mock.get_nodes().nodes[0]["InstanceId"] == "vm-7"


def test_configuration_is_shared_with_the_records(mock: MockClusterBinding) -> None:
    """What a test writes into a node's configuration shows in later listings, and in no other
    node."""
    first, second = mock.add_node("htc-1", "htc"), mock.add_node("htc-2", "htc")
    first.software_configuration["slurm"]["hpc"] = True
    records = mock.get_nodes().nodes
    assert [r["Configuration"]["slurm"]["hpc"] for r in records] == [True, False]
    assert second.software_configuration["slurm"]["hpc"] is False


def test_records_are_the_callers_own(mock: MockClusterBinding) -> None:
    """Writing into a listing does not change the cluster."""
    mock.add_node("htc-1", "htc")
    mock.get_nodes().nodes[0]["Name"] = "other"
    assert names(mock) == ["htc-1"]


def test_several_buckets_need_a_vm_size(mock: MockClusterBinding) -> None:
    """With one it is ignored; with two it must be one of them."""
    assert mock.add_node("htc-1", "htc", "Standard_Nope").vm_size == "Standard_F4"
    mock.add_bucket("htc", "Standard_F8", 10, 10)
    assert mock.add_node("htc-2", "htc", "Standard_F8").vcpu_count == 8
    with pytest.raises(RuntimeError, match="More than one bucket found"):
        mock.add_node("htc-3", "htc")
    with pytest.raises(RuntimeError, match="did you mean 'htc'"):
        mock.add_node("htc-3", "htcc")


@pytest.mark.parametrize(
    ("state", "target", "listed", "active"),
    [
        ("Started", "Started", True, 1),
        ("Ready", "Started", True, 1),
        ("Failed", "Started", True, 1),
        ("Deallocated", "Deallocated", True, 0),
        ("Terminating", "Terminated", False, 0),
        ("Off", "Off", False, 0),
    ],
)
def test_nodes_in_other_states(
    mock: MockClusterBinding, state: str, target: str, listed: bool, active: int
) -> None:
    """Where a node is headed decides whether it is listed and counted."""
    node = mock.add_node("htc-1", "htc", state=state)
    assert (node.state, node.target_state) == (state, target)
    assert bool(names(mock)) is listed
    assert mock.nodearrays["htc"].buckets[0].active_count == active


def test_states_are_updated_by_name_or_for_all(mock: MockClusterBinding) -> None:
    """Only the state; where nodes are headed stays."""
    for i in (1, 2):
        mock.add_node(f"htc-{i}", "htc")
    mock.update_state("Ready")
    mock.update_state("Failed", ["htc-2"])
    assert [record["Status"] for record in mock.get_nodes().nodes] == ["Ready", "Failed"]
    assert {record["TargetState"] for record in mock.get_nodes().nodes} == {"Started"}


def test_addresses_count_up(mock: MockClusterBinding) -> None:
    """From 10.1.0.2 on, one for each call, and over the end of a range by one."""
    for i in range(1, 6):
        mock.add_node(f"htc-{i}", "htc")
    mock.assign_ip(["htc-2", "htc-1"])
    assert mock.nodes["htc-2"].private_ip == "10.1.0.2"
    assert mock.nodes["htc-1"].private_ip == "10.1.0.3"
    mock.last_used_ip = [10, 1, 0, 253]
    mock.assign_ip(["htc-3", "htc-4"])
    assert [mock.nodes[f"htc-{i}"].private_ip for i in (3, 4)] == ["10.1.0.254", "10.1.1.1"]
    mock.last_used_ip = [10, 1, 255, 254]
    mock.assign_ip(["htc-5"])
    assert mock.get_nodes().nodes[4]["PrivateIp"] == "10.2.0.1"


def test_names_that_the_cluster_has_not(mock: MockClusterBinding) -> None:
    """Are refused with a guess, and nothing is done; a text is no list of names."""
    mock.add_node("htc-1", "htc", state="Ready")
    with pytest.raises(AutoscaleError, match="no node 'htc1'; did you mean 'htc-1'"):
        mock.assign_ip(["htc-1", "htc1"])
    with pytest.raises(AutoscaleError, match="no node 'htc-2'"):
        mock.update_state("Failed", ["htc-1", "htc-2"])
    with pytest.raises(AutoscaleError, match="expected a list of names of nodes, found 'htc-1'"):
        mock.update_state("Failed", "htc-1")
    assert (mock.last_used_ip, mock.nodes["htc-1"].state) == ([10, 1, 0, 1], "Ready")


def test_creating_keeps_the_names(mock: MockClusterBinding) -> None:
    """The cluster holds a node of its own; the caller's learns its id and that it is on its way."""
    node = planned(mock, "htc-7", Configuration={"slurm": {"partition": "p"}}, KeepAlive=True)
    result = mock.create_nodes([node], "rid")
    held = mock.nodes["htc-7"]
    assert held is not node
    assert node.delayed_node_id.node_id == held.delayed_node_id.node_id
    assert (node.state, node.target_state) == ("Allocating", "Started")
    assert (held.state, held.target_state, held.keep_alive) == ("Off", "Started", True)
    assert held.software_configuration["slurm"] == {"partition": "p"}
    assert held.metadata["__request_id__"] == "rid"
    assert mock.get_nodes(request_id="rid").nodes[0]["RequestId"] == "rid"
    assert mock.operations[result.operation_id].nodes[0].name == "htc-7"


def test_what_cannot_be_created(mock: MockClusterBinding) -> None:
    """An existing node, one with an id, one whose name is taken, two of one name."""
    mock.add_node("htc-1", "htc")
    node = planned(mock, "htc-2")
    mock.create_nodes([node])
    for nodes in (
        [mock.nodes["htc-1"]],
        [node],
        [planned(mock, "htc-1")],
        [planned(mock, "htc-3"), planned(mock, "htc-3")],
    ):
        with pytest.raises(AssertionError):
            mock.create_nodes(nodes)
    assert names(mock) == ["htc-1", "htc-2"]


def test_a_bucket_may_go_by_its_size(mock: MockClusterBinding) -> None:
    """A node planned on another bucket id is created where its nodearray and size say."""
    mock.create_nodes([planned(mock, "htc-1", bucket_id="made-up")])
    assert mock.nodearrays["htc"].buckets[0].active_count == 1


def test_the_name_of_a_gone_node_is_free(mock: MockClusterBinding) -> None:
    """As on a real cluster; the old node is not selected in its place."""
    old = mock.add_node("htc-1", "htc")
    mock.shutdown_nodes(names=["htc-1"])
    assert (old.state, old.target_state) == ("Terminating", "Terminated")
    assert "htc-1" in mock.nodes and names(mock) == []
    mock.create_nodes([planned(mock, "htc-1")])
    assert mock.shutdown_nodes(nodes=[old]).nodes == []
    assert names(mock) == ["htc-1"]


def test_a_removed_node_is_gone(mock: MockClusterBinding) -> None:
    """Also from the mock's own store."""
    mock.add_node("htc-1", "htc")
    mock.remove_nodes(names=["htc-1"])
    assert mock.nodes == {}


@pytest.mark.parametrize(("action", "state"), [("reimage", "Reimaging"), ("restart", "Restarting")])
def test_states_in_passing(mock: MockClusterBinding, action: str, state: str) -> None:
    """Reimaging and restarting nodes stay headed for Started."""
    node = mock.add_node("htc-1", "htc", state="Ready")
    getattr(mock, f"{action}_nodes")(nodes=[node])
    assert (node.state, node.target_state) == (state, "Started")


def test_starting_a_running_node_leaves_it_alone(mock: MockClusterBinding) -> None:
    """It is accepted and nothing changes."""
    node = mock.add_node("htc-1", "htc", state="Ready")
    assert mock.start_nodes(nodes=[node]).nodes[0].status == "OK"
    assert node.state == "Ready"


def test_failed_nodes_are_tried_again(mock: MockClusterBinding) -> None:
    """And named in the result."""
    mock.add_node("htc-1", "htc", state="Failed")
    mock.add_node("htc-2", "htc", state="Ready")
    assert [node.name for node in mock.retry_failed_nodes().nodes] == ["htc-1"]
    assert mock.nodes["htc-1"].state == "Acquiring"


def test_the_result_for_failures(mock: MockClusterBinding) -> None:
    """Error for a node in the state "Failure", OK for all others."""
    nodes = [mock.add_node("htc-1", "htc", state=s) for s in ("Failure", "Failed", "Ready")]
    result = MockNodeManagementResult("op", nodes)
    assert [node.status for node in result.nodes] == ["Error", "OK", "OK"]


def test_a_request_id_belongs_to_one_action(mock: MockClusterBinding) -> None:
    """Using it for another is refused."""
    mock.create_nodes([planned(mock, "htc-1")], "rid")
    with pytest.raises(Conflict, match="rid was used before"):
        mock.shutdown_nodes(names=["htc-1"], request_id="rid")


def test_scaling_that_makes_no_sense(mock: MockClusterBinding) -> None:
    """Both totals, none, or an unknown nodearray."""
    for arguments in ({}, {"total_core_count": 4, "total_node_count": 1}):
        with pytest.raises(Conflict):
            mock.scale("htc", **arguments)
    with pytest.raises(Conflict):
        mock.scale("nope", total_node_count=1)


def test_unknown_operations_are_runtime_errors(mock: MockClusterBinding) -> None:
    """As callers have always caught them."""
    assert issubclass(OperationNotFound, RuntimeError)
    with pytest.raises(RuntimeError):
        mock.get_nodes(operation_id="nope")


def test_buckets_of_a_family_share_their_quota() -> None:
    """Creating in one lowers what the other has, and deleting gives all of it back."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {})
    mock.add_nodearray("spot", {}, spot=True)
    small = mock.add_bucket("htc", "Standard_F4", 20, 20, family_quota_core_count=80)
    large = mock.add_bucket("htc", "Standard_F8", 10, 10, family_quota_core_count=80)
    spot = mock.add_bucket("spot", "Standard_F8", 10, 10, family_quota_core_count=80)
    for i in range(15):
        mock.add_node(f"htc-{i}", "htc", "Standard_F4")
    assert (small.available_count, large.available_count, spot.available_count) == (5, 2, 10)
    assert large.consumed_core_count == large.family_consumed_core_count == 60
    mock.shutdown_nodes(names=list(mock.nodes))
    assert (small.available_count, large.available_count) == (20, 10)
    assert (large.family_consumed_core_count, large.regional_consumed_core_count) == (0, 0)


def test_a_nodearrays_limit_holds_for_all_its_buckets() -> None:
    """Nodes in one bucket use up the nodearray's count for the other."""
    mock = MockClusterBinding()
    mock.add_nodearray("htc", {}, max_count=8)
    mock.add_bucket("htc", "Standard_F4", 10, 10)
    large = mock.add_bucket("htc", "Standard_F8", 10, 10)
    for i in range(6):
        mock.add_node(f"htc-{i}", "htc", "Standard_F4")
    assert large.available_count == 2


def test_listing_makes_no_record_twice(
    mock: MockClusterBinding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is made again only for a node that has changed, so thousands of nodes list
    quickly."""
    made = []
    for i in range(50):
        mock.add_node(f"htc-{i}", "htc")

    def counting(node: Node, request_id: str | None = None) -> dict[str, Any]:
        made.append(node.name)
        return record_of(node, request_id)

    monkeypatch.setattr("hpc.autoscale.ccbindings.mock.nodes.record_of", counting)
    for _ in range(3):
        mock.get_cluster_status(nodes=True)
    assert made == []
    mock.update_state("Ready", ["htc-7"])
    mock.get_nodes()
    assert made == ["htc-7"]


def test_name_formats_are_heeded(mock: MockClusterBinding) -> None:
    """A plain one is the name, and must be free; a number is the lowest free one, around names that
    are asked for."""
    nodes = [planned(mock, f"htc-{i}") for i in range(1, 6)]
    for node, form in zip(nodes, ("web-%d", "web-1", None, "web-%d", "x%03d"), strict=True):
        node.name_format = form
    nodes[4].name_offset = 0
    mock.create_nodes(nodes)
    assert sorted(names(mock)) == ["htc-3", "web-1", "web-2", "web-3", "x000"]
    for form, said in (("web-1", "in use"), ("%d-%d", "expected a name, or one %d")):
        again = planned(mock, "htc-9")
        again.name_format = form
        with pytest.raises(Conflict, match=said):
            mock.create_nodes([again])
