"""What the rest of the library asks of a cluster: the binding interface.

Only the abstract class. `legacy.ClusterBinding` answers it over REST, `mock.MockClusterBinding` in
memory and `reproduce.ReproduceFromResponse` from saved replies; the node manager is what calls it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings import evidence
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


class ClusterBindingInterface(ABC):
    """One cluster, to look at and to change.

    The management calls select their nodes with exactly one of `nodes`, `names`, `node_ids`,
    `hostnames` (short ones), `ip_addresses` and `custom_filter` (an expression of CycleCloud's
    filter language); anything else is a RuntimeError. A `request_id` makes a call safe to repeat:
    the server carries out one id once. Every failure to talk to the server is an
    `errors.CycleCloudError`.
    """

    @property
    @abstractmethod
    def cluster_name(self) -> str:
        """The name of the cluster."""

    @property
    def where(self) -> str:
        """The cluster, and the address of its server if it has one, for messages."""
        return f"cluster {self.cluster_name}"

    @abstractmethod
    def create_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeCreationResult:
        """Ask for new nodes that are like these planned ones.

        The result has one set for each group of equal nodes.
        """

    @abstractmethod
    def delete_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeManagementResult:
        """Shut nodes down, which deletes them unless their shutdown policy says otherwise."""

    @abstractmethod
    def retry_failed_nodes(self) -> NodeManagementResult:
        """Have the server try again on every failed node of the cluster."""

    @abstractmethod
    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """Nodearrays, buckets and limits; with `nodes` also the nodes that are in use."""

    @abstractmethod
    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records, or those of one operation.

        Raises OperationNotFound when the server does not know the operation.
        """

    @abstractmethod
    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        """Add nodes to a nodearray until it has a total of cores or of nodes.

        Exactly one of the two totals has to be given. Nothing is ever removed.
        """

    @abstractmethod
    def start_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Boot nodes that are off or deallocated."""

    @abstractmethod
    def deallocate_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Stop the VMs and keep the nodes with their disks."""

    @abstractmethod
    def remove_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Terminate nodes and drop their records."""

    @abstractmethod
    def shutdown_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Terminate or deallocate, as each node's shutdown policy says."""

    @abstractmethod
    def reimage_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Give nodes a fresh image."""

    @abstractmethod
    def restart_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Reboot nodes."""

    @abstractmethod
    def terminate_nodes(
        self,
        nodes: Sequence["Node"] | None = None,
        names: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        hostnames: Sequence[str] | None = None,
        ip_addresses: Sequence[str] | None = None,
        custom_filter: str | None = None,
        request_id: str | None = None,
    ) -> NodeManagementResult:
        """Delete the VMs, and the records of nodes that are not fixed."""

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Raise InconsistentStatus unless these two replies may be acted on.

        It has to be called before anything is decided. A binding that is not a live server may
        accept what a server may not say.
        """
        evidence.check_listing(self.cluster_name, status, node_list)
