"""Hosts that have less than their nodes were made for, so that the loop makes others in vain: a
node is made for work that fits on new nodes only, comes up, idles and goes, in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.offerings import Offering, amount_of, lacking, least_used, offering_of
from hpc.autoscale.plaintext import shorten

_NAMED_RESOURCES = 3


def notes_on_smaller_hosts(demand: DemandResult, reported: Collection[object]) -> Iterator[str]:
    """A sentence on each sort of nodes that are planned although nodes of the same sort are without
    work, whose hosts have less. `reported`: keys of the nodes whose hosts the scheduler reports."""
    without_work: defaultdict[Offering, list[Node]] = defaultdict(list)
    for node in demand.unmatched_nodes if demand.new_nodes else ():
        if not node.closed and key_of(node) in reported:
            without_work[offering_of(node)].append(node)
    planned: defaultdict[Offering, list[Node]] = defaultdict(list)
    for node in demand.new_nodes if without_work else ():
        planned[offering_of(node)].append(node)
    for offering, nodes in planned.items():
        idle = without_work.get(offering, ())
        new, used = nodes[0], least_used(nodes) if idle else {}
        said = [(node, _less_than(new, node, used)) for node in idle]
        smaller = [(node, what) for node, what in said if what]
        if smaller:
            names = shorten(node.name for node, _ in smaller)
            yield (
                f"nodes are made in {new.nodearray} for work that does not fit on {names}, of"
                " whose hosts the scheduler reports less than new nodes are said to have:"
                f" {', '.join(smaller[0][1][:_NAMED_RESOURCES])}."
                " They will be no larger: let default_resources say what it reports"
            )


def _less_than(new: Node, node: Node, used: dict[str, float]) -> list[str]:
    """Of which resources a node has less than a new one, and less than work takes there, in
    words."""
    found = []
    for name in lacking(node, used):
        has, wanted = node.resources.get(name), new.resources.get(name)
        if (amount_of(has) or 0.0) < (amount_of(wanted) or 0.0):
            found.append(f"{name} {has} of {wanted}")
    return found
