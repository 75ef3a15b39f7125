"""Creating and starting nodes without doing it: what a read-only binding answers in the server's
place.

The nodes that would have been created are remembered, so that whoever asks for them afterwards
finds them. Used by `legacy.ClusterBinding` alone.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale.ccbindings.creation_sets import partition_by_set
from hpc.autoscale.ccbindings.errors import InvalidSelection
from hpc.autoscale.ccbindings.models import (
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    NodeManagementResult,
    NodeManagementResultNode,
)
from hpc.autoscale.ccbindings.node_record import record_of
from hpc.autoscale.ccbindings.selection import Selection
from hpc.autoscale.hpctypes import NodeId, NodeStatus

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


class DryRun:
    """The nodes that a dry run has made or started, by name, and the operations on them."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self._operations: dict[str, list[str]] = {}

    def create(self, nodes: Sequence["Node"], request_id: str) -> NodeCreationResult:
        """Answer as if all nodes had been created, and mark them as created."""
        groups = partition_by_set(nodes)
        for node in nodes:
            node.delayed_node_id.node_id = NodeId(f"dryrun-{uuid.uuid4()}")
            self._started(node, request_id)
        return NodeCreationResult(
            operation_id=self._operation(request_id, [node.name for node in nodes]),
            sets=[NodeCreationResultSet(added=len(group)) for group in groups],
        )

    def start(
        self,
        selection: Selection,
        request_id: str,
        existing: Callable[[], Iterable[dict[str, Any]]],
    ) -> NodeManagementResult:
        """Answer as if the selected nodes had been started.

        `existing` lists the nodes of the cluster; it is called only when the selection needs them.
        """
        if selection.custom_filter:
            raise InvalidSelection("Can not use custom_filter in read only mode.")
        for node in selection.nodes:
            self._started(node, request_id)
        names: list[str] = [node.name for node in selection.nodes]
        names = names or self._select(selection, existing)
        results = [
            NodeManagementResultNode(id=self.records[n].get("NodeId"), name=n, status="OK")
            for n in names
        ]
        operation_id = self._operation(request_id, names)
        return NodeManagementResult(operation_id=operation_id, nodes=results)

    def listing(self, operation_id: str | None, request_id: str | None) -> NodeList:
        """The remembered nodes, or those of one operation when it was a dry one."""
        names = self._operations.get(operation_id or request_id or "", list(self.records))
        return NodeList(nodes=[self.records[name] for name in names])

    def _started(self, node: "Node", request_id: str) -> None:
        node.exists = True
        node.target_state = NodeStatus("Started")
        self.records[node.name] = record_of(node, request_id)

    def _operation(self, request_id: str, names: list[str]) -> str:
        operation_id = str(uuid.uuid4())
        self._operations[operation_id] = self._operations[request_id] = names
        return operation_id

    def _select(
        self, selection: Selection, existing: Callable[[], Iterable[dict[str, Any]]]
    ) -> list[str]:
        """The names of the selected nodes, remembered ones first.

        Nodes of the cluster that are selected are remembered from then on.
        """
        wanted = {
            "Name": set(selection.names),
            "NodeId": set(selection.node_ids),
            "Hostname": set(selection.hostnames),
            "PrivateIp": set(selection.ip_addresses),
        }

        def matches(record: dict[str, Any]) -> bool:
            return any(record.get(key) in values for key, values in wanted.items())

        remembered = sum(map(matches, self.records.values()))
        if remembered < sum(map(len, wanted.values())):
            for record in existing():
                if matches(record) and record["Name"] not in self.records:
                    self.records[record["Name"]] = {**record, "TargetState": "Started"}
        return [name for name, record in self.records.items() if matches(record)]
