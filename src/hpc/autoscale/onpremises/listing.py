"""The nodes that stand for hosts on premises.

They are there in every pass and can be neither created nor deleted, as machines that a scheduler
alone knows. So work goes to them before anything is asked of the cloud, and no limit counts them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.node import host_arguments
from hpc.autoscale.onpremises.hosts import ON_PREMISES, OnPremisesHost, hosts_of, memory_in
from hpc.autoscale.onpremises.workers import HostState, known_states

READY = ht.NodeStatus("Ready")
OFF = ht.NodeStatus("Off")


def nodes_of(
    config: Mapping[str, Any], taken: Collection[str] = ()
) -> tuple[list[Node], list[str]]:
    """A node for each host of the configuration, and a sentence for each host that is left out.

    `taken`: names and short host names of nodes of the cloud, in lower case, which no host may
    have. A host whose worker could not be started takes no work while it rests. AutoscaleError
    when the section cannot be understood, or what is known of the hosts cannot be read.
    """
    hosts = hosts_of(config)
    if not hosts:
        return [], []
    known, now, taken = known_states(config), clock.time(), frozenset(taken)
    nodes: list[Node] = []
    problems: list[str] = []
    for host in hosts:
        if not taken.isdisjoint((host.name.lower(), short_name(host.hostname))):
            problems.append(
                f"host {host.name} on premises: set aside, a node of the cloud has its name"
            )
            continue
        nodes.append(_node_of(host, known.get(host.name, HostState()), now))
    return nodes, problems


def _node_of(host: OnPremisesHost, state: HostState, now: float) -> Node:
    resources = ht.with_sizes(dict(host.resources))
    rests = not state.is_up and state.rests_until(now) is not None
    runs = not host.is_commanded or (state.may_run and not rests)
    given = host_arguments(
        host.hostname,
        resources,
        name=ht.NodeName(host.name),
        node_id=DelayedNodeId(ht.NodeName(host.name), ht.NodeId(host.node_id)),
        nodearray=ht.NodeArrayName(host.nodearray),
        location=ht.Location(ON_PREMISES),
        vcpu_count=int(host.resources["ncpus"]),
        memory=memory_in(host.resources) or ht.Memory(0, "g"),
        state=READY if runs else OFF,
    )
    node = Node(**given)
    node.closed = rests
    return node


def is_on_premises(node: Node) -> bool:
    """Whether a node stands for a host of the section `on_premises`."""
    return not node.managed and node.location == ON_PREMISES
