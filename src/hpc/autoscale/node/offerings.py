"""What can be ordered, and which nodes of it are too small for work that is to be on new ones.

A new node has what the catalogue of VM sizes and `default_resources` say of it, and one whose host
is reported what the scheduler says. Where that is less, work that asks for more fits on new nodes
only, so that nodes of one offering are not as good as each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.amounts import is_amount

Offering = tuple[Any, ...]


def offering_of(node: Node) -> Offering:
    """What can be ordered: nodearray, VM size, region, spot or not, and placement group. Nodes with
    the same one can take each other's place."""
    return (node.nodearray, node.vm_size, node.location, node.spot, node.placement_group or None)


def least_used(nodes: Iterable[Node]) -> dict[str, float]:
    """Of each amount the least that work takes of any of these nodes; nothing of what it does not
    take of all."""
    found: dict[str, float] | None = None
    for node in nodes:
        used = _used(node)
        if found is not None:
            used = {name: min(found[name], used[name]) for name in found.keys() & used.keys()}
        found = used
    return found or {}


def lacking(node: Node, used: Mapping[str, float]) -> list[str]:
    """Of which amounts a node has less in all than this, sorted."""
    return sorted(
        name
        for name, amount in used.items()
        if (total := amount_of(node.resources.get(name))) is not None and total < amount
    )


def amount_of(value: object) -> float | None:
    """A value as a number, sizes in bytes; None for what is no amount."""
    return float(value) if is_amount(value) or isinstance(value, ht.Size) else None


def _used(node: Node) -> dict[str, float]:
    found = {}
    for name, total in node.resources.items():
        had, left = amount_of(total), amount_of(node.available.get(name))
        if had is not None and left is not None and had > left:
            found[name] = had - left
    return found
