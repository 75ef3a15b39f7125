"""Which nodes a user means by host names and node names, and what jobs do on them.

`base.CommandLine._find_nodes` reads the cluster, the jobs and the scheduler's hosts, and asks here.
Nothing is read or changed here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hpc.autoscale.autoscaler import learning
from hpc.autoscale.cli.unknown import check_is_read
from hpc.autoscale.errors import AutoscaleError, MistakenWord, did_you_mean
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.identity import Identities, names_of, short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.util import partition


class NodeWork:
    """The jobs that run on nodes, and those that are about to.

    `hosts` are the scheduler's, as it reports them: a host may have another name there than
    CycleCloud gives to the node that it is. `gone`: ids of nodes that there were before.
    """

    def __init__(
        self,
        jobs: Sequence[Job] = (),
        hosts: Sequence[SchedulerNode] = (),
        nodes: Sequence[Node] = (),
        gone: Collection[str] = (),
    ) -> None:
        self._busy = learning.busy_nodes(nodes, jobs, hosts, gone)
        identities = Identities(nodes, gone)
        self._hostnames: dict[object, set[str]] = {}
        self._hosts_named: set[str] = set()
        for host in hosts:
            self._hosts_named.add(short_name(host.hostname))
            for node in identities.might_be(host):
                known = self._hostnames.setdefault(key_of(node), set())
                known.add(short_name(host.hostname))
        self._waiting: set[str] = set()
        self._running: dict[str, list[str]] = {}
        for job in jobs:
            name = str(getattr(job, "name", job))
            if (getattr(job, "metadata", None) or {}).get("job_state") != "running":
                self._waiting.add(name)
            for host in getattr(job, "executing_hostnames", None) or ():
                self._running.setdefault(short_name(host), []).append(name)

    def hostnames_of(self, node: Node) -> set[str]:
        """The short host names of a node, both CycleCloud's and the scheduler's.

        A node without a host name is known by a made-up one.
        """
        of_scheduler = self._hostnames.get(key_of(node), set())
        return {short_name(node.hostname_or_uuid), *of_scheduler}

    def on(self, node: Node) -> str:
        """The work of a node in words, as in `has jobs: 12`; empty when it is idle."""
        running = set(node.assignments - self._waiting)
        as_hosts = self._hostnames.get(key_of(node), set())
        # a host of its name that says it is another node has jobs of that one
        for host in as_hosts | (self.hostnames_of(node) - self._hosts_named):
            running.update(self._running.get(host, ()))
        is_busy = key_of(node) in self._busy
        if is_busy and not running:  # jobs may name the node in the place of a host
            running.update(*(self._running.get(name, ()) for name in names_of(node)))
        if running:
            return f"has jobs: {', '.join(sorted(running))}"
        soon = sorted(map(str, node.assignments))
        if soon:
            return f"is about to get jobs: {', '.join(soon)}"
        return "has jobs" if is_busy else ""


def find_nodes(
    nodes: Sequence[Node],
    work: NodeWork,
    hostnames: Sequence[str],
    node_names: Sequence[str],
    node_mgr: NodeManager,
) -> list[Node]:
    """The nodes that are meant by host names and node names, in any case of letters.

    `["*"]` in either place means all nodes. A host name that no node has is taken for a host that
    only the scheduler knows. AutoscaleError for an unknown node name, also for one that a cluster
    which does not answer may have, for an empty name, and for a name that several nodes have.
    """
    if list(hostnames) == ["*"] or list(node_names) == ["*"]:
        return list(nodes)
    by_host: dict[str, list[Node]] = {}
    for node in nodes:
        for short in work.hostnames_of(node):
            by_host.setdefault(short, []).append(node)
    by_name = partition(nodes, lambda node: node.name.lower())
    found: dict[int, Node] = {}
    for hostname in (_required(given, "host name") for given in hostnames):
        meant = by_host.setdefault(short_name(hostname), [SchedulerNode(hostname, {})])
        node = _the_one(meant, f"host name {hostname}")
        found[id(node)] = node
    for name in (_required(given, "node name") for given in node_names):
        named = by_name.get(name.lower())
        if named is None:
            check_is_read(name, node_mgr)
            raise AutoscaleError(f"there is no node {name!r}{did_you_mean(name, by_name)}")
        exact = [node for node in named if node.name == name]
        node = _the_one(exact or named, f"node name {name}")
        found[id(node)] = node
    return list(found.values())


def is_planned(node: Node) -> bool:
    """Whether a node of CycleCloud is only planned: it was not asked for yet."""
    return node.managed and not node.exists and not node.delayed_node_id.node_id


def _the_one(meant: Sequence[Node], name: str) -> Node:
    """The only node that a name means, which is the one that exists where another does not;
    AutoscaleError when there are several."""
    existing = [node for node in meant if node.exists] or meant
    if len(existing) == 1:
        return existing[0]
    names = ", ".join(
        f"{node.name} ({node.state}, {node.delayed_node_id.node_id or 'not of CycleCloud'})"
        for node in meant
    )
    raise AutoscaleError(f"{name} stands for {len(meant)} nodes: {names}; say which by name (-N)")


def _required(text: str, what: str) -> str:
    """A name without the spaces around it, as behind the comma of a list."""
    name = text.strip()
    if not name:
        raise MistakenWord(f"expected a {what}, found an empty one")
    return name
