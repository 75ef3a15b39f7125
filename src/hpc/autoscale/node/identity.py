"""Which node of the cluster a host of the scheduler is, by one rule for all callers.

A host may say which node it is: by a NodeId of its own, or by `ccnodeid` among its resources or in
its metadata. Then it is that node or none, whatever it is called, because host names and addresses
are used again. Only a host that says nothing is known by its short host name. What a driver does
with a node is not decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.node import Node

NODE_ID = "ccnodeid"
"""The resource, or key of metadata, in which a host says which node it is."""


def short_name(hostname: object) -> str:
    """A host name as names are compared: without its domain, in lower case.

    Empty where there is no host name.
    """
    return str(hostname or "").partition(".")[0].lower()


def claimed_ids(host: Node) -> tuple[str, ...]:
    """The NodeIds by which a host says which node it is.

    Values that are no text, or empty, are left out.
    """
    said: list[Any] = [host._server_id, host.resources.get(NODE_ID)]
    if host.metadata:
        said.append(host.metadata.get(NODE_ID))
    claimed = [each for each in said if each and isinstance(each, str)]
    return tuple(claimed if len(claimed) < 2 else dict.fromkeys(claimed))


class Identities:
    """The nodes of a cluster, to be found for hosts of the scheduler.

    Planned nodes cannot be found: their host names are made up. Deallocated ones can. `gone` are
    NodeIds of nodes that there were before: a host that names one of them is none of the others.
    """

    def __init__(self, nodes: Iterable[Node], gone: Collection[str] = ()) -> None:
        self._gone = gone
        self._by_id: dict[str, Node] = {}
        self._by_name: dict[str, list[Node]] = {}
        for node in nodes:
            node_id = node._server_id
            if node_id:
                self._by_id[node_id] = node
            if (node_id or node.exists) and (hostname := node.hostname):
                self._by_name.setdefault(str(hostname).lower(), []).append(node)

    def find(self, host: Node) -> Node | None:
        """The node that a host is; None when the cluster has no such node.

        When several nodes have the host's name, it is the one that exists; AutoscaleError when
        several of them exist.
        """
        claimed = claimed_ids(host)
        if claimed:
            return next((self._by_id[each] for each in claimed if each in self._by_id), None)
        named = self.named(host.hostname)
        if len(named) > 1:
            named = [node for node in named if node.exists]
        if len(named) > 1:
            names = ", ".join(node.name for node in named)
            raise AutoscaleError(f"host name {host.hostname} stands for several nodes: {names}")
        return named[0] if named else None

    def might_be(self, host: Node) -> list[Node]:
        """The nodes that a host may be, for callers who must not miss the right one.

        It is the node whose NodeId the host names; none when it names one that is gone, because
        host names and addresses are used again; where it names none, or one that was never known,
        all nodes that have its host name.
        """
        claimed = claimed_ids(host)
        named = [self._by_id[each] for each in claimed if each in self._by_id]
        if named or any(each in self._gone for each in claimed):
            return named
        return self.named(host.hostname)

    def named(self, hostname: object) -> list[Node]:
        """The nodes with this host name, of which only the short form is compared."""
        return self._by_name.get(short_name(hostname), [])
