"""Hosts that have less than their nodes were made for, so that the loop makes others in vain.

A node that boots has what the catalogue of VM sizes and `default_resources` say of it; once its
host is reported it has what the scheduler says. Where that is less, work that asks for more fits on
new nodes and on no host: a node is made for it, comes up, idles and goes, in turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeGuard

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.amounts import is_amount
from hpc.autoscale.plaintext import shorten

_NAMED_RESOURCES = 3


def notes_on_smaller_hosts(demand: DemandResult, reported: Collection[object]) -> Iterator[str]:
    """A sentence on each sort of nodes that are planned although nodes of the same sort are without
    work, whose hosts have less. `reported`: keys of the nodes whose hosts the scheduler reports."""
    without_work: dict[object, list[Node]] = {}
    for node in demand.unmatched_nodes if demand.new_nodes else ():
        if not node.closed and key_of(node) in reported:
            without_work.setdefault(_sort_of(node), []).append(node)
    planned = {_sort_of(node): node for node in demand.new_nodes} if without_work else {}
    for sort, new in planned.items():
        smaller = [node for node in without_work.get(sort, ()) if _lacks(node, new)]
        if smaller:
            names = shorten(node.name for node in smaller)
            what = ", ".join(_lacks(smaller[0], new)[:_NAMED_RESOURCES])
            yield (
                f"nodes are made in {new.nodearray} for work that does not fit on {names}, of"
                f" whose hosts the scheduler reports less than new nodes are said to have: {what}."
                " They will be no larger: let default_resources say what it reports"
            )


def _sort_of(node: Node) -> object:
    return (node.nodearray, node.vm_size, node.location, node.placement_group or None)


def _lacks(node: Node, new: Node) -> list[str]:
    """Of which resources a node has less than a new one, in words."""
    found = []
    for name, wanted in new.resources.items():
        has = node.resources.get(name)
        if _is_amount(has) and _is_amount(wanted) and float(has) < float(wanted):
            found.append(f"{name} {has} of {wanted}")
    return found


def _is_amount(value: object) -> TypeGuard[float | ht.Size]:
    return is_amount(value) or isinstance(value, ht.Size)
