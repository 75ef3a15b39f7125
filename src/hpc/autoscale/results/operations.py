"""Results of asking the cluster to do something with nodes."""

from typing import Generic

from hpc.autoscale.results.base import HANDLERS, Later, N, Result, fire_result_handlers


class NodeOperationResult(Result, Generic[N]):
    """Came of asking the cluster to do something with nodes; `nodes` is None when there was nothing
    to do."""

    def __init__(
        self,
        status: str,
        operation_id: str,
        request_ids: list[str] | None,
        nodes: Later[N] = None,
        reasons: Later[str] = None,
    ) -> None:
        Result.__init__(self, status, reasons)
        self.operation_id = operation_id
        self.request_ids = request_ids
        self._nodes = nodes
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def nodes(self) -> list[N] | None:
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


class BootupResult(NodeOperationResult[N]):
    """Nodes were created or started."""


class DeallocateResult(NodeOperationResult[N]):
    """Nodes were deallocated."""


class DeleteResult(NodeOperationResult[N]):
    """Nodes were deleted."""


class RemoveResult(NodeOperationResult[N]):
    """Nodes were removed."""


class ShutdownResult(NodeOperationResult[N]):
    """Nodes were shut down."""


class StartResult(NodeOperationResult[N]):
    """Nodes were started."""


class TerminateResult(NodeOperationResult[N]):
    """Nodes were terminated."""


class ReimageResult(NodeOperationResult[N]):
    """Nodes were reimaged."""


class RestartResult(NodeOperationResult[N]):
    """Nodes were restarted."""
