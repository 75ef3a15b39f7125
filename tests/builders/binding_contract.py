"""What every binding to a cluster promises, as tests; a class of tests for each binding inherits
them.

The inheriting class has a fixture `binding`: a cluster with a nodearray `htc`, whose first bucket
is Standard_F4 with room for exactly 10 nodes and nothing in use, and without nodes. Not a test
module itself.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from builders.nodes import a_planned_node
from hpc.autoscale.ccbindings import ClusterBindingInterface
from hpc.autoscale.ccbindings.errors import CycleCloudError, OperationNotFound
from hpc.autoscale.ccbindings.models import NodearrayBucketStatus
from hpc.autoscale.node.node import Node

ROOM = 10


def bucket_of(binding: ClusterBindingInterface) -> NodearrayBucketStatus:
    """The bucket that the tests use, as it is now."""
    arrays = {array.name: array for array in binding.get_cluster_status().nodearrays}
    return arrays["htc"].buckets[0]


def planned(binding: ClusterBindingInterface, *names: str, **more: Any) -> list[Node]:
    """New nodes of that bucket."""
    bucket = bucket_of(binding)
    return [
        a_planned_node(name=name, bucket_id=bucket.bucket_id, resources={}, **more)
        for name in names
    ]


def named(binding: ClusterBindingInterface, name: str) -> Node:
    """A new node of that bucket that is to have exactly this name."""
    (node,) = planned(binding, name)
    node.name_format = name
    return node


def created(binding: ClusterBindingInterface, *names: str, **more: Any) -> list[dict[str, Any]]:
    """Records of nodes that were just created."""
    result = binding.create_nodes(planned(binding, *names, **more), str(uuid.uuid4()))
    return list(binding.get_nodes(operation_id=result.operation_id).nodes)


def record_of(binding: ClusterBindingInterface, node_id: str) -> dict[str, Any] | None:
    """The record of a node in the listing of all."""
    return next((r for r in binding.get_nodes().nodes if r["NodeId"] == node_id), None)


class BindingContract:
    """The promises."""

    @pytest.fixture
    def settle(self) -> Callable[[], None]:
        """Lets nodes arrive where they are headed, in a cluster where that takes time."""
        return lambda: None

    def test_nodes_of_the_status_come_when_asked_for(
        self, binding: ClusterBindingInterface
    ) -> None:
        """Without asking there is no list; with it, it agrees with the listing."""
        records = created(binding, "htc-1")
        assert binding.get_cluster_status().nodes is None
        status = binding.get_cluster_status(nodes=True)
        assert records[0]["NodeId"] in [record["NodeId"] for record in status.nodes or []]
        binding.check_listing(status, binding.get_nodes())

    def test_replies_are_valid(self, binding: ClusterBindingInterface) -> None:
        """Every reply has what the protocol requires."""
        result = binding.create_nodes(planned(binding, "htc-1"))
        for model in (
            result,
            binding.get_cluster_status(nodes=True),
            binding.get_nodes(),
            binding.get_nodes(operation_id=result.operation_id),
            binding.shutdown_nodes(names=["htc-1"]),
        ):
            model.validate()

    def test_creating(self, binding: ClusterBindingInterface) -> None:
        """As many as asked, headed for Started, and the bucket counts them."""
        records = created(binding, "htc-1", "htc-2", "htc-3")
        assert len({record["NodeId"] for record in records}) == 3
        assert {record["TargetState"] for record in records} == {"Started"}
        assert {(r["Template"], r["MachineType"]) for r in records} == {("htc", "Standard_F4")}
        bucket = bucket_of(binding)
        assert (bucket.active_count, bucket.available_count) == (3, ROOM - 3)
        assert (bucket.active_core_count, bucket.available_core_count) == (12, 4 * (ROOM - 3))

    def test_nine_names_are_nine_sets(self, binding: ClusterBindingInterface) -> None:
        """Nodes that are asked for by name get these names, each in a set of its own."""
        names = [f"htc-{i}" for i in (9, 2, 3, 4, 5, 6, 7, 8, 21)]
        nodes = [named(binding, name) for name in names]
        result = binding.create_nodes(nodes, "nine")
        assert [one.added for one in result.sets] == [1] * 9
        records = binding.get_nodes(request_id="nine").nodes
        assert sorted(record["Name"] for record in records) == sorted(names)

    def test_a_name_is_for_one_node(self, binding: ClusterBindingInterface) -> None:
        """In use, or asked for twice, it refuses the whole request."""
        created(binding, "htc-1")
        for wanted in (["htc-2", "htc-1"], ["htc-3", "htc-3"]):
            with pytest.raises(CycleCloudError, match=wanted[-1]):
                binding.create_nodes([named(binding, name) for name in wanted])
        assert [record["Name"] for record in binding.get_nodes().nodes] == ["htc-1"]

    def test_a_format_leaves_the_number_open(self, binding: ClusterBindingInterface) -> None:
        """The lowest one that is free, from the offset on."""
        nodes = planned(binding, "htc-1", "htc-2", "htc-3")
        for node, offset in zip(nodes, (None, 7, 7), strict=True):
            node.name_format, node.name_offset = "pg0-%d", offset
        result = binding.create_nodes(nodes)
        records = binding.get_nodes(operation_id=result.operation_id).nodes
        assert sorted(record["Name"] for record in records) == ["pg0-1", "pg0-7", "pg0-8"]

    def test_results_are_in_the_order_of_the_sets(self, binding: ClusterBindingInterface) -> None:
        """One result for each group of equal nodes."""
        nodes = [
            *planned(binding, "htc-2", "htc-3", placement_group="pg0"),
            *planned(binding, "htc-1"),
        ]
        assert [one.added for one in binding.create_nodes(nodes).sets] == [1, 2]

    def test_placement_groups_count_their_nodes(self, binding: ClusterBindingInterface) -> None:
        """A group that was not there before is there afterwards."""
        records = created(binding, "htc-1", "htc-2", placement_group="pg0")
        assert {record["PlacementGroupId"] for record in records} == {"pg0"}
        groups = {group.name: group.active_count for group in bucket_of(binding).placement_groups}
        assert groups["pg0"] == 2

    def test_more_than_there_is_room_for(self, binding: ClusterBindingInterface) -> None:
        """What fits is created, and a message says why not all."""
        names = [f"htc-{i}" for i in range(1, ROOM + 6)]
        result = binding.create_nodes(planned(binding, *names))
        assert sum(one.added for one in result.sets) == ROOM
        assert any(one.message for one in result.sets)
        assert bucket_of(binding).available_count == 0
        assert len(binding.get_nodes(operation_id=result.operation_id).nodes) == ROOM

    def test_a_request_id_creates_once(self, binding: ClusterBindingInterface) -> None:
        """The second time nothing is created, and the nodes of the first are found."""
        nodes = planned(binding, "htc-1", "htc-2")
        for _ in range(3):
            result = binding.create_nodes(nodes, "the-one-id")
            assert [one.added for one in result.sets] == [2]
            assert len(binding.get_nodes(operation_id=result.operation_id).nodes) == 2
        assert len(binding.get_nodes(request_id="the-one-id").nodes) == 2
        assert bucket_of(binding).active_count == 2

    def test_a_request_that_never_happened(self, binding: ClusterBindingInterface) -> None:
        """Is told apart from one that touched nothing."""
        with pytest.raises(OperationNotFound, match="No operation found for request id"):
            binding.get_nodes(request_id="never-sent")
        with pytest.raises(OperationNotFound):
            binding.get_nodes(operation_id="never-sent")

    def test_shutting_down(self, binding: ClusterBindingInterface) -> None:
        """Accepted, headed for Terminated, and its place is free."""
        first, second = created(binding, "htc-1", "htc-2")
        result = binding.shutdown_nodes(node_ids=[first["NodeId"]])
        assert [(n.id, n.status) for n in result.nodes] == [(first["NodeId"], "OK")]
        for record in binding.get_nodes(operation_id=result.operation_id).nodes:
            assert record["TargetState"] == "Terminated"
        assert bucket_of(binding).available_count == ROOM - 1
        kept = record_of(binding, second["NodeId"])
        assert kept is not None and kept["TargetState"] == "Started"

    @pytest.mark.parametrize("action", ["terminate", "remove"])
    def test_ending_in_other_ways(self, binding: ClusterBindingInterface, action: str) -> None:
        """Terminate and remove free the place too."""
        (record,) = created(binding, "htc-1")
        result = getattr(binding, f"{action}_nodes")(names=[record["Name"]])
        assert [node.status for node in result.nodes] == ["OK"]
        assert bucket_of(binding).active_count == 0

    def test_a_management_request_id_acts_once(self, binding: ClusterBindingInterface) -> None:
        """Repeating it is accepted and changes nothing."""
        (record,) = created(binding, "htc-1")
        for _ in range(2):
            result = binding.terminate_nodes(node_ids=[record["NodeId"]], request_id="end-it")
            assert [node.id for node in result.nodes] in ([record["NodeId"]], [])
        assert bucket_of(binding).available_count == ROOM

    def test_unknown_names_are_not_in_the_result(self, binding: ClusterBindingInterface) -> None:
        """The rest is carried out."""
        (record,) = created(binding, "htc-1")
        result = binding.shutdown_nodes(names=[record["Name"], "htc-99"])
        assert [node.name for node in result.nodes] == [record["Name"]]

    def test_nodes_that_must_be_kept(self, binding: ClusterBindingInterface) -> None:
        """KeepAlive is kept through the listing, and refuses to be ended, node by node."""
        (kept,) = created(binding, "htc-1", keep_alive=True)
        (other,) = created(binding, "htc-2")
        assert kept["KeepAlive"] is True
        result = binding.terminate_nodes(node_ids=[kept["NodeId"], other["NodeId"]])
        said = {node.id: (node.status, bool(node.error)) for node in result.nodes}
        # a result that was worked out after a lost reply has only the nodes that were touched
        assert said.pop(kept["NodeId"], ("Error", True)) == ("Error", True)
        assert said == {other["NodeId"]: ("OK", False)}
        assert bucket_of(binding).active_count == 1

    def test_deallocating_and_starting_again(
        self, binding: ClusterBindingInterface, settle: Callable[[], None]
    ) -> None:
        """A deallocated node stays in the listing and takes no place until it is started."""
        (record,) = created(binding, "htc-1")
        node_id = record["NodeId"]
        binding.deallocate_nodes(node_ids=[node_id])
        listed = record_of(binding, node_id)
        assert listed is not None and listed["TargetState"] == "Deallocated"
        assert bucket_of(binding).active_count == 0
        settle()
        result = binding.start_nodes(node_ids=[node_id])
        assert [node.status for node in result.nodes] == ["OK"]
        listed = record_of(binding, node_id)
        assert listed is not None and listed["TargetState"] == "Started"
        assert bucket_of(binding).active_count == 1

    def test_scaling_adds_what_is_missing(self, binding: ClusterBindingInterface) -> None:
        """Up to the total, in nodes or in cores, and never fewer."""
        created(binding, "htc-1")
        for total, expected in (({"total_node_count": 3}, 3), ({"total_core_count": 17}, 5)):
            binding.scale("htc", **total)
            assert bucket_of(binding).active_count == expected
        binding.scale("htc", total_node_count=1)
        assert bucket_of(binding).active_count == 5

    def test_selecting_takes_exactly_one_way(self, binding: ClusterBindingInterface) -> None:
        """No selector, or two, is a RuntimeError."""
        with pytest.raises(RuntimeError, match="one and only one"):
            binding.shutdown_nodes()
        with pytest.raises(RuntimeError, match="one and only one"):
            binding.shutdown_nodes(names=["a"], node_ids=["b"])

    def test_retrying_failed_nodes(self, binding: ClusterBindingInterface) -> None:
        """Is accepted also when none has failed."""
        assert binding.retry_failed_nodes().nodes == []
