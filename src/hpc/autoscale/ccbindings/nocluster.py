"""A binding for a pass in which CycleCloud cannot be read: it has nothing, and takes no command.

What else there is, such as hosts on premises, can be looked at with it. Made by
`autoscaler.hosts_alone`.
"""

from __future__ import annotations

from hpc.autoscale.ccbindings.errors import ClusterAway
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.ccbindings.selection import RefusingBinding


class NoCluster(RefusingBinding):
    """Nothing of a cluster, of which nobody knows what it has (`never_read`). ClusterAway, with
    `reason`, for each command."""

    def __init__(self, cluster_name: str, reason: str) -> None:
        self._name = cluster_name
        self._reason = reason
        self.never_read = (cluster_name,)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self._name

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """No nodearrays and no limits."""
        return ClusterStatus(
            state="Unknown",
            target_state="Started",
            max_count=0,
            max_core_count=0,
            nodearrays=[],
            nodes=[] if nodes else None,
        )

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """No nodes. Of an operation nobody knows."""
        if operation_id is not None or request_id is not None:
            raise self._away()
        return NodeList(nodes=[])

    def _refusal(self, call: str) -> ClusterAway:
        return self._away()

    def _away(self) -> ClusterAway:
        return ClusterAway(self._name, self._reason)
