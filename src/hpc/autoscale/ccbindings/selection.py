"""Which nodes a management call is for.

The published calls select in six ways and want exactly one of them. `Selection` is that choice once
made; `SelectingBinding` turns the seven published methods into one, for bindings to implement, and
`RefusingBinding` turns all commands into one refusal, for bindings that can only be read.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings.errors import InvalidSelection
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import (
    NodeCreationResult,
    NodeManagementRequest,
    NodeManagementResult,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


@dataclass(frozen=True)
class Selection:
    """The nodes that a management call is for, named in one of six ways.

    Exactly one of the fields must be given and not be empty; anything else is an InvalidSelection.
    """

    nodes: Sequence["Node"] = ()
    names: Sequence[str] = ()
    node_ids: Sequence[str] = ()
    hostnames: Sequence[str] = ()
    ip_addresses: Sequence[str] = ()
    custom_filter: str = ""

    def __post_init__(self) -> None:
        given = [name for name, value in vars(self).items() if value]
        if len(given) != 1:
            raise InvalidSelection(
                f"You must specify one and only one of {', '.join(vars(self))}; found"
                f" {' and '.join(given) or 'none of them'}"
            )
        for name in ("names", "node_ids", "hostnames", "ip_addresses"):
            if isinstance(getattr(self, name), str):
                raise InvalidSelection(f"{name}: expected a list, found {getattr(self, name)!r}")

    def request(self, request_id: str) -> NodeManagementRequest:
        """The request that selects these nodes. Raises InvalidSelection for nodes that have no id
        yet."""
        ids = list(self.node_ids)
        for node in self.nodes:
            if not node.delayed_node_id.node_id:
                raise InvalidSelection(
                    f"node {node.name} has no node id: it has not been created or was not read back"
                )
            ids.append(node.delayed_node_id.node_id)
        return NodeManagementRequest(
            ids=ids or None,
            names=list(self.names) or None,
            hostnames=list(self.hostnames) or None,
            ip_addresses=list(self.ip_addresses) or None,
            filter=self.custom_filter or None,
            request_id=request_id,
        )


class SelectingBinding(ClusterBindingInterface):
    """A binding that carries out every management call in the same way."""

    @abstractmethod
    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        """Carry out `action`, named as in the protocol (`start`, `shutdown`, …), on the selected
        nodes."""

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("start", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("deallocate", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("remove", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("shutdown", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("reimage", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("restart", selection, request_id)

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
        selection = _select(nodes, names, node_ids, hostnames, ip_addresses, custom_filter)
        return self._manage("terminate", selection, request_id)


class RefusingBinding(SelectingBinding):
    """A binding that refuses every command of the interface. Which ones it takes all the same, a
    subclass overrides; reads are a subclass's own."""

    @abstractmethod
    def _refusal(self, call: str) -> Exception:
        """What is raised for a command, named by its method (`create_nodes`, `start_nodes`, …)."""

    def create_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeCreationResult:
        raise self._refusal("create_nodes")

    def delete_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeManagementResult:
        raise self._refusal("delete_nodes")

    def retry_failed_nodes(self) -> NodeManagementResult:
        raise self._refusal("retry_failed_nodes")

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        raise self._refusal("scale")

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        raise self._refusal(f"{action}_nodes")


def _select(
    nodes: Sequence["Node"] | None,
    names: Sequence[str] | None,
    node_ids: Sequence[str] | None,
    hostnames: Sequence[str] | None,
    ip_addresses: Sequence[str] | None,
    custom_filter: str | None,
) -> Selection:
    return Selection(
        nodes or (),
        names or (),
        node_ids or (),
        hostnames or (),
        ip_addresses or (),
        custom_filter or "",
    )
