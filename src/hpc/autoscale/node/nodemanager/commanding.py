"""The side of `NodeManager` that asks the cluster to change, and learns from its answer.

The commands themselves are in `operations`; here their outcome is taken over by nodes, buckets and limits, and put into
the published results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.node import operations
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.records import refresh
from hpc.autoscale.node.operations import Created, Managed, Record
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.results import (
    BootupResult,
    DeallocateResult,
    DeleteResult,
    NodeOperationResult,
    ReimageResult,
    RemoveResult,
    RestartResult,
    ShutdownResult,
    StartResult,
    TerminateResult,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket
    from hpc.autoscale.node.nodemanager.naming import Names

R = TypeVar("R", bound=NodeOperationResult)

_GONE = ("Terminated", "Off")


class Commands:
    """Bootup, shutdown and the rest. `requests` keeps the ids of creates until their outcome is known."""

    _buckets: list[NodeBucket]
    _names: Names

    def __init__(self, cluster_bindings: ClusterBindingInterface) -> None:
        self._bindings = cluster_bindings
        self.requests = RequestLog()

    def get_nodes(self) -> list[Node]:
        """All nodes."""
        raise NotImplementedError

    @property
    def new_nodes(self) -> list[Node]:
        """Nodes to be created or started."""
        raise NotImplementedError

    @property
    def cluster_bindings(self) -> ClusterBindingInterface:
        """The cluster that is asked."""
        return self._bindings

    # -- more nodes

    def bootup(
        self,
        nodes: Sequence[Node] | None = None,
        request_id_start: str | None = None,
        request_id_create: str | None = None,
    ) -> BootupResult:
        """Start deallocated nodes and create planned ones (`new_nodes` when none are given).

        Nodes that exist already are left alone, so calling it twice creates nothing twice. What the server does not
        make is dropped from the plan, and the reasons say why. The nodes of the result are those that now exist.
        """
        wanted = [n for n in nodes or self.new_nodes if n.managed and not n.exists]
        if not wanted:
            return BootupResult("success", "", [], None, ["No new nodes required or created."])
        to_start = [n for n in wanted if n.delayed_node_id.node_id]
        to_create = [n for n in wanted if not n.delayed_node_id.node_id]
        operation_ids, request_ids, made, reasons = [], [], [], []
        if to_start:
            started = operations.start(self._bindings, to_start, request_id_start)
            operation_ids.append(started.operation_id)
            request_ids.append(started.request_id)
            made.extend(self._learn(started))
            reasons.extend(started.reasons)
        if to_create:
            created = operations.create(self._bindings, to_create, self.requests, request_id_create)
            operation_ids.append(created.operation_id)
            request_ids.append(created.request_id)
            made.extend(self._learn_created(created))
            reasons.extend(_why_not_made(created))
        status = "success" if made else "Failed"
        return BootupResult(status, ",".join(operation_ids), request_ids, made, reasons)

    def start_nodes(self, nodes: Sequence[Node], request_id: str | None = None) -> StartResult:
        """Start deallocated nodes."""
        return self._command("start_nodes", StartResult, nodes, request_id)

    def _learn_created(self, created: Created) -> list[Node]:
        made = []
        for offset, (node, record) in enumerate(created.adopted):
            refresh(node, record)
            node.delayed_node_id.operation_id = created.operation_id  # type: ignore[assignment]
            node.delayed_node_id.operation_offset = offset
            made.append(node)
        for record in created.surplus_records:
            made.extend(self._take_in(record))
        self._names.reserve(node.name for node in made)
        for node in created.not_made:
            self._drop(node)
        return made

    def _take_in(self, record: Record) -> list[Node]:
        """A node that the server made beyond what was asked: it exists, so it counts."""
        for bucket in self._buckets:
            key = (bucket.nodearray, bucket.vm_size, bucket.placement_group or None)
            if key == operations._set_of_record(record):
                node = bucket._new_node(str(record.get("Name")), "")
                refresh(node, record)
                bucket.add_nodes([node])
                if bucket.available_count:
                    bucket.limits.decrement(1)
                return [node]
        logging.warning("created node %s belongs to no known bucket", record.get("Name"))
        return []

    # -- fewer nodes

    def delete(self, nodes: Sequence[Node]) -> DeleteResult:
        """Shut nodes down for good."""
        return self._command("shutdown_nodes", DeleteResult, nodes)

    def shutdown_nodes(self, nodes: Sequence[Node]) -> ShutdownResult:
        """Terminate or deallocate, as each node's shutdown policy says."""
        return self._command("shutdown_nodes", ShutdownResult, nodes)

    def terminate_nodes(self, nodes: Sequence[Node]) -> TerminateResult:
        """Delete the VMs."""
        return self._command("terminate_nodes", TerminateResult, nodes)

    def deallocate_nodes(self, nodes: Sequence[Node]) -> DeallocateResult:
        """Stop the VMs and keep the nodes."""
        return self._command("deallocate_nodes", DeallocateResult, nodes)

    def remove_nodes(self, nodes: Sequence[Node]) -> RemoveResult:
        """Shut nodes down for good; published under this name too."""
        return self._command("shutdown_nodes", RemoveResult, nodes)

    def reimage_nodes(self, nodes: Sequence[Node]) -> ReimageResult:
        """Give nodes a fresh image."""
        return self._command("reimage_nodes", ReimageResult, nodes)

    def restart_nodes(self, nodes: Sequence[Node]) -> RestartResult:
        """Reboot nodes."""
        return self._command("restart_nodes", RestartResult, nodes)

    def _command(
        self, verb: str, result_type: type[R], nodes: Sequence[Node], request_id: str | None = None
    ) -> R:
        named = operations.manageable(nodes, verb)
        if not named:
            return result_type("success", "", None, [])
        call: Callable[..., Any] = getattr(self._bindings, verb)
        managed = operations.manage(self._bindings, call, named, request_id)
        accepted = self._learn(managed)
        status = "success" if accepted or not managed.reasons else "Failed"
        return result_type(
            status, managed.operation_id, [managed.request_id], accepted, managed.reasons
        )

    def _learn(self, managed: Managed) -> list[Node]:
        for node, record in managed.accepted:
            if record is not None:
                refresh(node, record)
            node.delayed_node_id.operation_id = managed.operation_id  # type: ignore[assignment]
            if node.target_state in _GONE:
                self._drop(node)
        return [node for node, _ in managed.accepted]

    def _drop(self, node: Node) -> None:
        """A node goes, or never came: its place under the limits is free again."""
        bucket = node._home
        if bucket is not None:
            bucket._remove(node)  # type: ignore[attr-defined]
            bucket.limits.increment(1)  # type: ignore[attr-defined]
        node.exists = False

    # -- looking again

    def get_nodes_by_request_id(self, request_id: str) -> list[Node]:
        """The nodes that a request has touched, as they are now. OperationNotFound when there was no such request."""
        return self._refreshed(self._bindings.get_nodes(request_id=request_id).nodes or [])

    def get_nodes_by_operation(self, operation_id: str) -> list[Node]:
        """The nodes that an operation has touched, as they are now."""
        return self._refreshed(self._bindings.get_nodes(operation_id=operation_id).nodes or [])

    def _refreshed(self, records: Sequence[Record]) -> list[Node]:
        nodes = self.get_nodes()
        by_id: dict[Any, Node] = {n.delayed_node_id.node_id: n for n in nodes}
        by_name: dict[Any, Node] = {n.name: n for n in nodes if not n.delayed_node_id.node_id}
        found = []
        for record in records:
            node = by_id.get(record["NodeId"]) if record.get("NodeId") else None
            node = node or by_name.get(record.get("Name"))
            if node is not None:
                refresh(node, record)
                found.append(node)
        return found


def _why_not_made(created: Created) -> list[str]:
    if not created.not_made:
        return list(created.messages)
    said = "; ".join(created.messages) or "the server did not say why"
    names = ", ".join(node.name for node in created.not_made[:3])
    more = f" and {len(created.not_made) - 3} more" if len(created.not_made) > 3 else ""
    return [
        f"{len(created.not_made)} of the nodes asked for were not created ({names}{more}): {said}"
    ]
