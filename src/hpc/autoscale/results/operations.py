"""Results of asking the cluster to do something with nodes."""

from typing import TYPE_CHECKING

from hpc.autoscale.results.base import HANDLERS, Later, Result, fire_result_handlers

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


class NodeOperationResult(Result):
    """Came of asking the cluster to do something with nodes; `nodes` is None when there was nothing
    to do."""

    def __init__(
        self,
        status: str,
        operation_id: str,
        request_ids: list[str] | None,
        nodes: "Later[Node]" = None,
        reasons: Later[str] = None,
    ) -> None:
        Result.__init__(self, status, reasons)
        self.operation_id = operation_id
        self.request_ids = request_ids
        self._nodes = nodes
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def nodes(self) -> "list[Node] | None":
        """The nodes that the cluster accepted the operation for, or None."""
        if callable(self._nodes):
            self._nodes = self._nodes()
        return self._nodes

    def __str__(self) -> str:
        name = type(self).__name__
        if self:
            names = [str(n) for n in self.nodes or []]
            return f"{name}(status={self.status}, nodes={names})"
        return f"{name}(status={self.status}, reason={self.reasons})"


class BootupResult(NodeOperationResult):
    """Nodes were created or started."""


class DeallocateResult(NodeOperationResult):
    """Nodes were deallocated."""


class DeleteResult(NodeOperationResult):
    """Nodes were deleted."""


class RemoveResult(NodeOperationResult):
    """Nodes were removed."""


class ShutdownResult(NodeOperationResult):
    """Nodes were shut down."""


class StartResult(NodeOperationResult):
    """Nodes were started."""


class TerminateResult(NodeOperationResult):
    """Nodes were terminated."""


class ReimageResult(NodeOperationResult):
    """Nodes were reimaged."""


class RestartResult(NodeOperationResult):
    """Nodes were restarted."""
