"""From a calculated demand to what it is decided from who may stop."""

from __future__ import annotations

from collections.abc import Collection

from hpc.autoscale.autostop.decision import Answer, Code, KnownNode, Surplus
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.node.guards import AWAY
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import trouble_of
from hpc.autoscale.requestsets.demand import group_of
from hpc.autoscale.workers.keeping import definition_of


def surplus_of(
    demand: DemandResult,
    requests: Collection[str] = (),
    busy: Collection[object] = (),
    reported: Collection[str] | None = None,
) -> Surplus:
    """The nodes of a demand that exist and that CycleCloud manages.

    `requests`: the names of the jobs that stand for request sets, for which one node is as good as
    another. `busy`: the NodeIds of nodes on which, as the scheduler has it, something runs.
    `reported`: the nodearrays of which anybody says what is wanted; None for all.
    """
    known = frozenset(requests)
    failed = set(map(id, demand.failed_nodes))
    found = []
    for node in demand.compute_nodes:
        node_id = node.delayed_node_id.node_id
        if not (node.managed and node.exists and node_id):
            continue
        found.append(
            KnownNode(
                str(node_id),
                str(node.name),
                (
                    str(node.nodearray),
                    str(node.vm_size),
                    str(node.placement_group or ""),
                    definition_of(node),
                ),
                node.instance_id and str(node.instance_id),
                group_of(node),
                wanted=bool(node.required),
                # work that takes a node whole closes it, too
                serves=bool(node.required)
                or not (node.closed or id(node) in failed or trouble_of(node)),
                refusal=_refusal(node, known, node_id in busy, reported),
            )
        )
    return Surplus(found)


def _refusal(
    node: Node, requests: frozenset[str], busy: bool, reported: Collection[str] | None
) -> Answer | None:
    """What keeps this very node, whatever else demand could take; None when nothing does."""
    name = str(node.name)
    if node.keep_alive:
        return Answer(Code.KEEP_ALIVE, f"{name} is to be kept alive (KeepAlive)", name)
    jobs = sorted(map(str, set(node.assignments) - requests))
    if jobs:
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        return Answer(Code.HAS_WORK, f"{name} has work: {', '.join(jobs[:3])}{more}", name)
    if busy:
        return Answer(Code.HAS_WORK, f"{name} has work, or may have some", name)
    if node.state == AWAY:
        # no demand is placed on it, whatever is wanted
        said = "its cluster does not answer"
        return Answer(Code.DEMAND_UNKNOWN, f"whether {name} is wanted is unknown: {said}", name)
    if reported is not None and node.nodearray not in reported:
        said = f"no request set has ever named nodearray {node.nodearray}"
        return Answer(Code.DEMAND_UNKNOWN, f"whether {name} is wanted is unknown: {said}", name)
    return None
