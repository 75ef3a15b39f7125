"""The state of a mock cluster, and setting it up: nodearrays, buckets, nodes, operations.

`binding` puts the calls of the binding interface on top of it.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.mock.capacity import MockCapacity, MockQuotas
from hpc.autoscale.ccbindings.mock.nodes import MockNode, new_node
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    NodearrayBucketStatus,
    NodeCreationResult,
    NodeManagementResult,
    NodeManagementResultNode,
    OperationStatus,
)
from hpc.autoscale.errors import AutoscaleError, did_you_mean

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node

# Where a node that is added in one of these states is headed; any other is on its way to be
# started.
_TARGETS = {
    "Off": "Off",
    "Terminating": "Terminated",
    "Terminated": "Terminated",
    "Deallocating": "Deallocated",
    "Deallocated": "Deallocated",
}


class MockNodeManagementResult(NodeManagementResult):
    """The result of a management action.

    A node in the state "Failure" has the status "Error", every other node "OK".
    """

    def __init__(self, operation_id: str, nodes: Sequence["Node"]) -> None:
        super().__init__(
            operation_id=operation_id,
            nodes=[
                NodeManagementResultNode(
                    id=node.delayed_node_id.node_id,
                    name=node.name,
                    status="Error" if node.state == "Failure" else "OK",
                )
                for node in nodes
            ],
        )


class MockCluster:
    """A cluster in memory. `nodes`, `nodearrays`, limits and states may be written to between
    calls. A `max_count` that was written is held; the one that is there at first never was."""

    def __init__(self, cluster_name: str = "clusty") -> None:
        self._cluster_name = cluster_name
        # no other mock is this cluster, though it may have the name: what one has made must not be
        # missed in another, as by tests that share the files of a request log
        self.identity = f"mock cluster {cluster_name} {uuid.uuid4()}"
        self.nodes: dict[str, MockNode] = {}
        self.nodearrays: dict[str, ClusterNodearrayStatus] = {}
        self.operations: dict[str, MockNodeManagementResult] = {}
        self.max_core_count = 10_000
        self._max_count = 1_000
        self.holds_max_count = False
        self.subnet_id = "subnetid1"
        self.state = "Started"
        self.target_state = "Started"
        self.last_used_ip = [10, 1, 0, 1]
        self._capacity = MockCapacity()
        self._operation_status: dict[str, OperationStatus] = {}
        self._results: dict[str, NodeCreationResult | NodeManagementResult] = {}

    @property
    def max_count(self) -> int:
        """How many nodes the cluster may have."""
        return self._max_count

    @max_count.setter
    def max_count(self, nodes: int) -> None:
        self._max_count, self.holds_max_count = nodes, True

    def add_nodearray(
        self,
        name: str,
        resources: Mapping[str, Any],
        location: str = "westus2",
        max_core_count: int = 1_000_000,
        max_count: int = 100_000,
        spot: bool = False,
        software_configuration: Mapping[str, Any] | None = None,
        max_placement_group_size: int = 100,
    ) -> ClusterNodearrayStatus:
        """Add a nodearray without buckets.

        `resources` win over those that the configuration has for autoscaling.
        """
        configuration = dict(software_configuration or {})
        autoscale = dict(configuration.get("autoscale") or {})
        autoscale["resources"] = {**(autoscale.get("resources") or {}), **resources}
        configuration["autoscale"] = autoscale
        array = ClusterNodearrayStatus(
            name=name,
            max_core_count=max_core_count,
            max_count=max_count,
            nodearray={
                "Name": name,
                "Status": "Started",
                "Region": location,
                "SubnetId": self.subnet_id,
                "Configuration": configuration,
                "Interruptible": spot,
                "Azure": {"MaxScalesetSize": max_placement_group_size},
            },
            buckets=[],
        )
        self.nodearrays[name] = array
        return array

    def add_bucket(
        self,
        nodearray_name: str,
        vm_size: str,
        max_count: int,
        available_count: int,
        family_consumed_core_count: int | None = None,
        family_quota_core_count: int | None = 1_000_000,
        family_quota_count: int | None = 10_000,
        regional_consumed_core_count: int | None = None,
        regional_quota_core_count: int | None = 1_000_000,
        regional_quota_count: int | None = 10_000,
        placement_groups: Sequence[str] | None = None,
        valid: bool = True,
    ) -> NodearrayBucketStatus:
        """Add a bucket to a nodearray.

        What is not available counts as used by nodes that are not listed. RuntimeError for an
        unknown nodearray; AssertionError for a VM size that the catalogue does not have in the
        nodearray's region, and for more in use than there is.
        """
        if nodearray_name not in self.nodearrays:
            raise AutoscaleError(f"Please call add_nodearray first. Found no {nodearray_name!r}")
        quotas = MockQuotas(
            family_consumed_core_count,
            family_quota_core_count,
            family_quota_count,
            regional_consumed_core_count,
            regional_quota_core_count,
            regional_quota_count,
        )
        return self._capacity.add_bucket(
            self.nodearrays[nodearray_name],
            vm_size,
            max_count,
            available_count,
            quotas,
            list(placement_groups or []),
            valid,
        )

    def add_node(
        self,
        name: str,
        nodearray: str,
        vm_size: str | None = None,
        state: str = "Started",
        target_state: str | None = None,
        hostname: str | None = None,
        spot: bool = False,
        placement_group: str | None = None,
        keep_alive: bool = False,
    ) -> MockNode:
        """Add a node that exists already; returns the object that the cluster holds.

        `vm_size` matters only in a nodearray with several buckets; RuntimeError when no bucket has
        it.
        """
        slot = self._capacity.find(nodearray, vm_size)
        target_state = target_state or _TARGETS.get(state, "Started")
        node = new_node(
            slot, name, state, target_state, hostname, placement_group, keep_alive, spot
        )
        self._hold(node)
        self._finished("create", [node])
        return node

    def update_state(self, state: str, node_names: Sequence[str] | None = None) -> None:
        """Put the named nodes, or all, in a state; their target state stays."""
        for node in self._named(list(self.nodes) if node_names is None else node_names):
            node.state = ht.NodeStatus(state)

    def assign_ip(self, node_names: Sequence[str]) -> None:
        """Give the named nodes the next private addresses, from 10.1.0.2 on."""
        for node in self._named(node_names):
            self.last_used_ip = _next_ip(self.last_used_ip)
            address = ".".join(map(str, self.last_used_ip))
            node._Node__private_ip = address  # type: ignore[attr-defined]

    def _named(self, names: Iterable[str]) -> list[MockNode]:
        """The nodes of these names, all of them or an error."""
        if isinstance(names, str):
            raise AutoscaleError(f"expected a list of names of nodes, found {names!r}")
        found = []
        for name in names:
            if name not in self.nodes:
                hint = did_you_mean(str(name), self.nodes)
                raise AutoscaleError(f"the cluster has no node {name!r}{hint}")
            found.append(self.nodes[name])
        return found

    def _hold(self, node: MockNode) -> None:
        """Add a node to the cluster; it replaces a node of that name that is gone."""
        before = self.nodes.get(node.name)
        if before is not None and before.in_use:
            self._release(before)
        self.nodes[node.name] = node
        if node.in_use:
            self._capacity.take(node.bucket_id, node.name, node.placement_group)
        # made now, so that listing never has to make thousands of them
        node.record()

    def _release(self, node: MockNode) -> None:
        self._capacity.give_back(node.bucket_id, node.name, node.placement_group)

    def _move(self, node: MockNode, state: str, target_state: str) -> None:
        """Put a node in a state with a target state, and update the counts of its bucket."""
        was_in_use = node.in_use
        node.state = ht.NodeStatus(state)
        node.target_state = ht.NodeStatus(target_state)
        if was_in_use and not node.in_use:
            self._release(node)
        elif node.in_use and not was_in_use:
            self._capacity.take(node.bucket_id, node.name, node.placement_group)

    def _finished(self, action: str, nodes: Sequence[MockNode]) -> str:
        """Remember an operation under a new id."""
        operation_id = str(uuid.uuid4())
        now = clock.in_utc(clock.time())
        self.operations[operation_id] = MockNodeManagementResult(operation_id, nodes)
        self._operation_status[operation_id] = OperationStatus(action=action, start_time=now)
        return operation_id

    def _touched(self, operation_id: str) -> list[MockNode]:
        """The nodes of an operation that still exist."""
        results = self.operations[operation_id].nodes
        held = [(self.nodes.get(result.name), result.id) for result in results]
        return [node for node, node_id in held if node and node.delayed_node_id.node_id == node_id]


def _next_ip(address: Sequence[int]) -> list[int]:
    """The next address for a host: its last number is 1 to 254, its third 0 to 255."""
    first, second, third, last = address
    if last < 254:
        return [first, second, third, last + 1]
    if third < 255:
        return [first, second, third + 1, 1]
    return [first, second + 1, 0, 1]
