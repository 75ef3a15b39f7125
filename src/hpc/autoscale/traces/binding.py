"""The simulator's cluster model as a cluster binding, without HTTP between them.

The loop asks it what it asks a server, and gets the models that the server's answers would become.
What a server is asked for and cannot do here (usage, filters over HTTP) is not needed by the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings import creation_sets
from hpc.autoscale.ccbindings.errors import HttpError, OperationNotFound
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationRequest,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.ccbindings.selection import SelectingBinding, Selection
from hpc.autoscale.simulator.cluster import SimCluster
from hpc.autoscale.simulator.errors import NotFound, RequestRefused
from hpc.autoscale.util import random_uuid

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


class SimulatedBinding(SelectingBinding):
    """A cluster of the simulator, in this process. Whoever owns it lets its time pass."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self._cluster.name

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        """Ask for new nodes like these planned ones."""
        groups = creation_sets.partition_by_set(nodes)
        sets = [creation_sets.creation_set(group) for group in groups]
        request = NodeCreationRequest(request_id=request_id or random_uuid(), sets=sets)
        request.validate()
        try:
            return self._cluster.create(request)
        except RequestRefused as error:
            raise HttpError("create_nodes", error.status_code, str(error)) from error

    def delete_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeManagementResult:
        """Shut nodes down."""
        return self.shutdown_nodes(nodes=nodes, request_id=request_id)

    def retry_failed_nodes(self) -> NodeManagementResult:
        """Have the cluster try again on every failed node."""
        self._cluster.retry_failed()
        return NodeManagementResult(operation_id="", nodes=[])

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """Nodearrays, buckets and limits."""
        return self._cluster.status(nodes)

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records, or those of one operation. Raises OperationNotFound."""
        try:
            return self._cluster.node_list(operation_id, request_id)
        except NotFound as error:
            raise OperationNotFound("get_nodes", error.status_code, str(error)) from error

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        """Add nodes to a nodearray until it has a total of cores or of nodes."""
        return self._cluster.scale(nodearray, total_core_count, total_node_count)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        request = selection.request(request_id or random_uuid())
        request.validate()
        try:
            return self._cluster.manage(action, request)
        except RequestRefused as error:
            raise HttpError(f"{action}_nodes", error.status_code, str(error)) from error
