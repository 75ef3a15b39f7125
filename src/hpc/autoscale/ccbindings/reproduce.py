"""A cluster made of saved replies, to look into the decisions of an autoscaler elsewhere.

It can be read and not changed. The command line and `_mock_bindings` of the configuration make it.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.ccbindings.replies import M
from hpc.autoscale.ccbindings.selection import RefusingBinding
from hpc.autoscale.errors import ConfigurationException, unreadable


class ReproduceFromResponse(RefusingBinding):
    """The cluster in `config["cluster_response"]` and, optionally, `config["node_list"]` or
    `config["nodes_response"]`.

    Each is a reply as JSON holds it, or the path of a file with one. AssertionError when
    `cluster_response` is missing and on every attempt to change something; ConfigurationException
    when a file or a reply cannot be read.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        if not config.get("cluster_response"):
            raise AssertionError("expected cluster_response, a saved reply or the path of one")
        self._status = _load("cluster_response", config["cluster_response"], ClusterStatus)
        if self._status.nodes is None:
            self._status.nodes = []
        key = "node_list" if config.get("node_list") else "nodes_response"
        saved = config.get(key) or {"nodes": self._status.nodes}
        self._node_list = _load(key, saved, NodeList)

    @property
    def cluster_name(self) -> str:
        """A name that no cluster has."""
        return "mock-reproduce-cluster"

    def __str__(self) -> str:
        return "ReproduceFromResponse()"

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The saved status; its nodes are an empty list when none were saved."""
        return self._status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """The saved listing; the nodes of the status when none was saved."""
        return self._node_list

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Accepts everything: saved replies are often saved without their nodes, and cannot be
        acted on anyway."""

    def _refusal(self, call: str) -> AssertionError:
        return AssertionError(f"{call}: a cluster made of saved replies cannot be changed")


def _load(key: str, saved: Any, model: type[M]) -> M:
    """A saved reply as a model: read from a path (with `~`), or converted from the value itself."""
    where = key
    if isinstance(saved, str | os.PathLike):
        where = f"{key} {os.fspath(saved)!r}"
        try:
            with open(os.path.expanduser(saved), encoding="utf-8") as file:
                saved = json.load(file)
        except OSError as error:
            raise ConfigurationException(f"{where}: {unreadable(error)}") from None
        except ValueError as error:
            raise ConfigurationException(f"{where}: expected a file of JSON: {error}") from None
    reply = model.adopt(saved)
    if not isinstance(reply, model):
        raise ConfigurationException(
            f"{where}: expected a {model.__name__}, found {type(saved).__name__}"
        )
    return reply
