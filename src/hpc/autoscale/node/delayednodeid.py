"""The identity of a node before and after the server has given it one."""

from __future__ import annotations

from hpc.autoscale.hpctypes import NodeId, NodeName, OperationId
from hpc.autoscale.util import random_uuid


class DelayedNodeId:
    """The name of a node, and its NodeId once CycleCloud has given it one.

    `transient_id` identifies the node within this process from the start. `operation_id` and
    `operation_offset` say which request creates the node, and at which place of that request.
    """

    __slots__ = ("_transient_id", "name", "node_id", "operation_id", "operation_offset")

    def __init__(
        self,
        name: NodeName,
        node_id: NodeId | None = None,
        operation_id: OperationId | None = None,
        operation_offset: int | None = None,
    ) -> None:
        self.name = name
        self.node_id = node_id
        self.operation_id = operation_id
        self.operation_offset = operation_offset
        self._transient_id: str | None = None

    @property
    def transient_id(self) -> str:
        """An id that is unique for each object; made when it is first asked for."""
        if self._transient_id is None:
            self._transient_id = random_uuid()
        return self._transient_id

    @transient_id.setter
    def transient_id(self, value: str) -> None:
        self._transient_id = value

    def clone(self) -> DelayedNodeId:
        """A copy with the same ids but for a transient id of its own."""
        return DelayedNodeId(self.name, self.node_id, self.operation_id, self.operation_offset)

    def to_json(self) -> str:
        """The NodeId, or an empty text while there is none."""
        return self.node_id or ""

    def __str__(self) -> str:
        return (
            f"DelayedNodeId(name={self.name}, node_id={self.node_id},"
            f" operation_id={self.operation_id}, "
            f"operation_offset={self.operation_offset}, transient_id={self.transient_id})"
        )

    __repr__ = __str__
