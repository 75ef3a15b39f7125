"""Which node of the cluster a host of the scheduler is, by one rule for all callers.

A host may say which node it is: by a NodeId of its own, or by `ccnodeid` among its resources or in
its metadata. Then it is that node or none, whatever it is called, because host names and addresses
are used again. Only a host that says nothing is known by its short host name. With several clusters
a NodeId may have the name of its cluster before it, as in `east/4f…`, or not: a machine itself does
not know what its cluster is called. What a driver does with a node is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config.clusters import SEPARATOR, split_name
from hpc.autoscale.errors import AutoscaleError, check_kinds
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_id_of

NODE_ID = "ccnodeid"
"""The resource, or key of metadata, in which a host says which node it is."""

_HEXADECIMAL = re.compile("[0-9a-f]")


def short_name(hostname: object) -> str:
    """A host name as names are compared: without its domain, in lower case.

    Empty where there is no host name.
    """
    return ht.without_domain(str(hostname or "")).lower()


def names_of(node: Node) -> set[str]:
    """What a node itself is called, as names are compared; of one of several clusters with the
    cluster and without."""
    name = short_name(node.name)
    return {name, split_name(name)[1]}


def claimed_ids(host: Node) -> tuple[str, ...]:
    """The NodeIds by which a host says which node it is.

    Values that are no text, or empty, are left out.
    """
    said: list[Any] = [server_id_of(host), host.resources.get(NODE_ID)]
    if host.metadata:
        check_kinds(f"host {host.hostname}", Mapping, metadata=host.metadata)
        said.append(host.metadata.get(NODE_ID))
    claimed = [each for each in said if each and isinstance(each, str)]
    return tuple(claimed if len(claimed) < 2 else dict.fromkeys(claimed))


def _form(node_id: str) -> str:
    """What ids that are made in the same way have in common: where digits and letters a to f
    are."""
    return _HEXADECIMAL.sub("0", node_id.lower())


class Identities:
    """The nodes of a cluster, to be found for hosts of the scheduler.

    Planned nodes cannot be found: their host names are made up. Deallocated ones can. `gone` are
    NodeIds of nodes that there were before: a host that names one of them is none of the others.
    """

    def __init__(self, nodes: Iterable[Node], gone: Collection[str] = ()) -> None:
        self._gone = gone
        self._by_id: dict[str, Node] = {}
        self._by_own_id: dict[str, list[Node]] = {}
        self._by_name: dict[str, list[Node]] = {}
        for node in nodes:
            node_id = server_id_of(node)
            if node_id:
                self._by_id[node_id] = node
                if SEPARATOR in node_id:
                    self._by_own_id.setdefault(split_name(node_id)[1], []).append(node)
            if (node_id or node.exists) and (hostname := node.hostname):
                self._by_name.setdefault(str(hostname).lower(), []).append(node)

    def find(self, host: Node) -> Node | None:
        """The node that a host is; None when the cluster has no such node.

        When several nodes have the host's name, it is the one that exists; AutoscaleError when
        several of them exist. What nodes of several clusters have is no sign of any of them.
        """
        claimed = claimed_ids(host)
        if claimed:
            said = next((nodes for each in claimed if (nodes := self._with_id(each))), [])
            short = short_name(host.hostname)
            if len(said) > 1:
                said = [node for node in said if short_name(node.hostname) == short]
            return said[0] if len(said) == 1 else None
        named = self.named(host.hostname)
        if len(named) > 1:
            named = [node for node in named if node.exists]
        if len({split_name(str(server_id_of(node)))[0] for node in named}) > 1:
            return None
        if len(named) > 1:
            names = ", ".join(node.name for node in named)
            raise AutoscaleError(f"host name {host.hostname} stands for several nodes: {names}")
        return named[0] if named else None

    def might_be(self, host: Node) -> list[Node]:
        """The nodes that a host may be, for callers who must not miss the right one.

        It is the node whose NodeId the host names; none when it names another one, which may be
        gone or was never known, because host names and addresses are used again; where it names
        none, or says something that is not of the form of NodeIds, all nodes that have its host
        name.
        """
        claimed = claimed_ids(host)
        named = [node for each in claimed for node in self._with_id(each)]
        return named if named or any(map(self._is_another, claimed)) else self.named(host.hostname)

    def pairs(self, hosts: Iterable[Node]) -> list[tuple[Node, Node]]:
        """Those of the hosts that can be one of the nodes only, each with that."""
        found = ((self.might_be(host), host) for host in hosts)
        return [(nodes[0], host) for nodes, host in found if len(nodes) == 1]

    def _with_id(self, claimed: str) -> list[Node]:
        """The nodes that a NodeId stands for: one, unless it names no cluster and several have
        it."""
        node = self._by_id.get(claimed)
        return [node] if node is not None else self._by_own_id.get(claimed, [])

    def _is_another(self, claimed: str) -> bool:
        """Whether what is no NodeId of the cluster now is one all the same."""
        known = claimed in self._gone or claimed in self._gone_by_own_id
        return known or _form(split_name(claimed)[1]) in self._forms

    @cached_property
    def _gone_by_own_id(self) -> frozenset[str]:
        return frozenset(split_name(each)[1] for each in self._gone if SEPARATOR in each)

    @cached_property
    def _forms(self) -> set[str]:
        """The forms of the NodeIds of the cluster, which are all alike where a server makes them:
        what has the form of none of them was put there by somebody else."""
        return {_form(split_name(node_id)[1]) for node_id in self._by_id}

    def named(self, hostname: object) -> list[Node]:
        """The nodes with this host name, of which only the short form is compared."""
        return self._by_name.get(short_name(hostname), [])
