"""Which nodes a management call is for.

The published calls select in six ways and want exactly one of them. `Selection` is that choice once
made; `SelectingBinding` turns the seven published methods into one, for bindings to implement.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings.errors import InvalidSelection
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import NodeManagementRequest, NodeManagementResult

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
