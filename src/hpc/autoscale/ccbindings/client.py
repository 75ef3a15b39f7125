"""The client object: a session and the clusters behind it, shaped like the client that CycleCloud
offers for download.

Code that was written for that one finds `client.session`, `client.clusters.get(name)`,
`cluster._client`, `get_status` and `scale_by_*` here. The endpoints themselves are in `clusters`.
"""

from collections.abc import Mapping
from typing import Any

from hpc.autoscale.ccbindings import clusters, settings
from hpc.autoscale.ccbindings.models import ClusterStatus
from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.session import Session


class Client:
    """A client for the server that `config` or the keyword arguments describe; keyword arguments
    win.

    Keys: `url`, `username`, `password`, and optionally `verify_certificates` (true), `ca_file`
    (certificates to trust), `timeout` in seconds (60), `retry`. Other keys are ignored. Raises
    ConfigurationException for a key that is missing or unusable.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, pacing: Pacing | None = None, **more: Any
    ) -> None:
        given = {**(config or {}), **more}
        ca_file = settings.text(given, "ca_file") if given.get("ca_file") is not None else None
        self.session = Session(
            settings.text(given, "url"),
            settings.text(given, "username"),
            settings.text(given, "password"),
            verify_certificates=settings.flag(given, "verify_certificates", default=True),
            ca_file=ca_file,
            timeouts=settings.timeouts(given),
            pacing=pacing or settings.pacing(given),
        )
        self.clusters = Clusters(self)


class Clusters:
    """The clusters of a client, by name. Asking for one sends no request to the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getitem__(self, name: str) -> "Cluster":
        return Cluster(name, self._client)

    def get(self, name: str, default: Any = None) -> "Cluster":
        """The cluster of that name; `default` is accepted for likeness to a mapping."""
        return self[name]


class Cluster:
    """One cluster of the server."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The records of all nodes of the cluster, read anew each time."""
        return clusters.get_nodes(self._client.session, self.name)[1].nodes

    def get_status(self, nodes: bool = False) -> ClusterStatus:
        """Limits, nodearrays and buckets; with `nodes` also the nodes that are in use."""
        return clusters.get_cluster_status(self._client.session, self.name, nodes)[1]

    def scale_by_cores(self, node_array: str, total_core_count: int) -> None:
        """Add nodes to a nodearray until it has this many cores."""
        clusters.scale(
            self._client.session, self.name, node_array, total_core_count=total_core_count
        )

    def scale_by_nodes(self, node_array: str, total_node_count: int) -> None:
        """Add nodes to a nodearray until it has this many."""
        clusters.scale(
            self._client.session, self.name, node_array, total_node_count=total_node_count
        )
