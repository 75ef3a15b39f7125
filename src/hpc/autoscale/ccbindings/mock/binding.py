"""The mock cluster: a binding that keeps everything in memory and does at once what it is told.

Nothing moves by itself: a node stays in the state that a call or `update_state` put it in.
"""

import itertools
from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, TypeVar

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.creation_sets import partition_by_set, plain_name
from hpc.autoscale.ccbindings.errors import Conflict, OperationNotFound
from hpc.autoscale.ccbindings.mock.capacity import Slot
from hpc.autoscale.ccbindings.mock.cluster import MockCluster
from hpc.autoscale.ccbindings.mock.nodes import MockNode, new_node
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    NodeManagementResult,
    NodeManagementResultNode,
)
from hpc.autoscale.ccbindings.selection import SelectingBinding, Selection
from hpc.autoscale.errors import check_kinds

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node

R = TypeVar("R", NodeCreationResult, NodeManagementResult)

# What each action makes of a node: its state and its target state.
_OUTCOMES = {
    "start": ("Acquiring", "Started"),
    "restart": ("Restarting", "Started"),
    "reimage": ("Reimaging", "Started"),
    "deallocate": ("Deallocated", "Deallocated"),
    "shutdown": ("Terminating", "Terminated"),
    "terminate": ("Terminating", "Terminated"),
    "remove": ("Terminated", "Terminated"),
}


class MockClusterBinding(MockCluster, SelectingBinding):
    """A binding to a cluster in memory, to be set up with the methods of `MockCluster`."""

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self._cluster_name

    def __str__(self) -> str:
        return "MockBindings()"

    __repr__ = __str__

    # -- looking

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The live nodearrays; with `nodes` also the records that `get_nodes` lists."""
        status = ClusterStatus(
            state=self.state,
            target_state=self.target_state,
            max_count=self.max_count,
            max_core_count=self.max_core_count,
            nodearrays=list(self.nodearrays.values()),
            nodes=self.get_nodes().nodes if nodes else None,
        )
        status.is_bounded = self.holds_max_count
        return status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """The records of the nodes that run, will run or are deallocated.

        Of an operation, they are those of all its nodes that still exist.
        """
        if operation_id is None and request_id is None:
            return NodeList(nodes=[node.record() for node in self.nodes.values() if node.listed])
        check_kinds("get_nodes", str | None, operation_id=operation_id, request_id=request_id)
        operation_id = operation_id or self._operation_of(str(request_id))
        if operation_id not in self.operations:
            raise _unknown(f"No operation found for id {operation_id}")
        return NodeList(
            nodes=[node.record() for node in self._touched(operation_id)],
            operation=self._operation_status[operation_id],
        )

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Accepts everything: a mock bucket may count nodes that were never added."""

    # -- changing

    def create_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeCreationResult:
        """Create nodes, as many as their buckets have room for; the others stay as they are.

        Their names are those that they have, or follow from their name formats. AssertionError for
        a node that exists, has an id or has the name of another; Conflict for a name format without
        a number that does not name one new node. A request id is carried out once.
        """
        done = self._done(request_id, NodeCreationResult)
        if done is not None:
            return done
        asked = self._check_new(nodes)
        created: list[MockNode] = []
        sets = []
        for group in partition_by_set(nodes):
            slot = self._slot_of(group[0])
            added = group[: slot.bucket.available_count]
            for node in added:
                created.append(self._create(slot, node, self._new_name(node, asked), request_id))
            refused = f"only {len(added)} of {len(group)} are available"
            message = None if len(added) == len(group) else refused
            sets.append(NodeCreationResultSet(added=len(added), message=message))
        operation_id = self._finished("create", created)
        result = NodeCreationResult(operation_id=operation_id, sets=sets)
        self._results[request_id or operation_id] = result
        return result

    def delete_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeManagementResult:
        """Shut nodes down."""
        return self.shutdown_nodes(nodes=nodes, request_id=request_id)

    def retry_failed_nodes(self) -> NodeManagementResult:
        """Start every node in the state "Failed" again."""
        failed = [node for node in self.nodes.values() if node.state == "Failed"]
        for node in failed:
            self._move(node, *_OUTCOMES["start"])
        return self.operations[self._finished("retry", failed)]

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        """Add nodes to a nodearray until it has a total of cores or of nodes.

        They come from the first buckets that have room. Exactly one of the two totals has to be
        given.
        """
        if (total_core_count is None) == (total_node_count is None):
            raise _conflict("expected one of totalCoreCount and totalNodeCount")
        if nodearray not in self.nodearrays:
            raise _conflict(f"no nodearray {nodearray}")
        by_cores = total_core_count is not None
        total = (total_core_count if by_cores else total_node_count) or 0
        slots = self._capacity.of_array(nodearray)
        numbered = (f"{nodearray}-{number}" for number in itertools.count(1))
        names = (name for name in numbered if not self._is_taken(name))
        present = sum(
            slot.bucket.active_core_count if by_cores else slot.bucket.active_count
            for slot in slots
        )
        created: list[MockNode] = []
        sets = []
        for slot in slots:
            size = slot.vcpus if by_cores else 1
            wanted = max(0, -(-(total - present) // size))
            count = min(wanted, slot.bucket.available_count)
            for name in itertools.islice(names, count):
                created.append(new_node(slot, name, "Off", "Started"))
                self._hold(created[-1])
            present += count * size
            sets.append(NodeCreationResultSet(added=count))
        operation_id = self._finished("create", created)
        return NodeCreationResult(operation_id=operation_id, sets=sets)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        done = self._done(request_id, NodeManagementResult)
        if done is not None:
            return done
        state, target_state = _OUTCOMES[action]
        kept: list[MockNode] = []
        moved: list[MockNode] = []
        for node in self._select(selection):
            (kept if node.keep_alive and target_state != "Started" else moved).append(node)
        for node in moved:
            if action != "start" or not node.in_use:
                self._move(node, state, target_state)
        operation_id = self._finished(action, moved)
        if action == "remove":
            for node in moved:
                del self.nodes[node.name]
        result = self.operations[operation_id]
        result.nodes.extend(
            NodeManagementResultNode(
                id=node.delayed_node_id.node_id,
                name=node.name,
                status="Error",
                error="KeepAlive is set",
            )
            for node in kept
        )
        self._results[request_id or operation_id] = result
        return result

    def _check_new(self, nodes: Sequence["Node"]) -> set[str]:
        """The names that planned nodes ask for, all of which are free."""
        names: set[str] = set()
        for node in nodes:
            if node.exists:
                raise AssertionError(f"node {node.name} exists already")
            if node.delayed_node_id.node_id:
                raise AssertionError(f"node {node.name} has an id already")
            form = node.name_format
            name = plain_name(form) if form else node.name
            if name is None:
                _check_format(str(form))
            elif name in names or self._is_taken(name):
                said = f"the name {name} is in use"
                raise _conflict(said) if form else AssertionError(said)
            else:
                names.add(name)
        return names

    def _new_name(self, node: "Node", asked: set[str]) -> str:
        """The name that a planned node gets: its own, or that of its name format.

        The number in a name format is the lowest that no node has and that no name in `asked` has.
        """
        form = node.name_format
        if not form or plain_name(form):
            return form or node.name
        numbers = itertools.count(1 if node.name_offset is None else node.name_offset)
        names = (form % number for number in numbers)
        return next(name for name in names if name not in asked and not self._is_taken(name))

    def _is_taken(self, name: str) -> bool:
        held = self.nodes.get(name)
        return held is not None and held.listed

    def _slot_of(self, node: "Node") -> Slot:
        """The bucket of a planned node: by its bucket id, else by its nodearray and VM size."""
        slot = self._capacity.slots.get(node.bucket_id)
        return slot or self._capacity.find(node.nodearray, node.vm_size)

    def _create(self, slot: Slot, node: "Node", name: str, request_id: str | None) -> MockNode:
        """The node that the cluster has for a planned node, under this name.

        The planned node learns the id, and that it is being started.
        """
        attributes = deepcopy(dict(node.node_attribute_overrides))
        keep_alive = node.keep_alive or bool(attributes.get("KeepAlive"))
        held = new_node(
            slot,
            name,
            node.state,
            "Started",
            placement_group=node.placement_group,
            keep_alive=keep_alive,
            spot=node.spot,
            attributes=attributes,
        )
        held.metadata["__request_id__"] = request_id
        self._hold(held)
        node.delayed_node_id.node_id = held.delayed_node_id.node_id
        node.target_state = ht.NodeStatus("Started")
        node.state = ht.NodeStatus("Allocating")
        return held

    def _done(self, request_id: str | None, kind: type[R]) -> R | None:
        """The result of a request id that was carried out before.

        Conflict when it was used for a request of another kind.
        """
        done = self._results.get(request_id or "")
        if done is None or isinstance(done, kind):
            return done
        raise _conflict(f"request id {request_id} was used before")

    def _select(self, selection: Selection) -> list[MockNode]:
        if selection.custom_filter:
            raise _conflict("the mock cluster does not evaluate filters")
        # a node that was never created has no id, and its name may be in use by another
        ids = {*selection.node_ids, *(n.delayed_node_id.node_id for n in selection.nodes)} - {None}
        names, hostnames = set(selection.names), set(selection.hostnames)
        addresses = set(selection.ip_addresses)
        return [
            node
            for node in self.nodes.values()
            if node.delayed_node_id.node_id in ids
            or node.name in names
            or node.hostname in hostnames
            or node.private_ip in addresses
        ]

    def _operation_of(self, request_id: str) -> str:
        done = self._results.get(request_id)
        if done is None:
            raise _unknown(f"No operation found for request id {request_id}")
        return done.operation_id


def _check_format(form: str) -> None:
    try:
        form % 1
    except (TypeError, ValueError):
        raise _conflict(f"name_format: expected a name, or one %d in it, found {form!r}") from None


def _conflict(message: str) -> Conflict:
    return Conflict("MockBindings()", 409, message)


def _unknown(message: str) -> OperationNotFound:
    return OperationNotFound("MockBindings()", 404, message)
