"""Nodes that came through the manager itself, beside the jobs of a calculator.

A calculator's demand is about the nodes that were there when it was made, the machines that the scheduler reported, and
those that its jobs were placed on. What somebody else plans on the same manager is for that one to look after: it is among
the manager's nodes and new nodes, and in no list of the demand until a job of the calculator is placed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node

Sizes = Mapping[NodeBucket, int]
"""How many nodes each bucket has had so far."""

_NOBODY: frozenset[str] = frozenset()


class Apart:
    """What was asked of the manager itself. Noting is constant in cost; nobody is looked at before `since`."""

    def __init__(self) -> None:
        self._noted: list[tuple[NodeBucket, int, int, Set[str]]] = []

    def note(self, bucket: NodeBucket, lo: int, hi: int, given: Set[str] = _NOBODY) -> None:
        """The nodes of a bucket from a position to before another came so, or were given these assignments so."""
        self._noted.append((bucket, lo, hi, given))

    def since(self, sizes: Sizes) -> set[Node]:
        """Nodes that came so since the buckets had so many, and that nobody else has placed anything on."""
        found: dict[Node, set[str]] = {}
        for bucket, lo, hi, given in self._noted:
            for position in range(max(lo, sizes.get(bucket, 0)), hi):
                found.setdefault(bucket._handle(position), set()).update(given)
        return {node for node, given in found.items() if node.assignments <= given}


def sizes_of(buckets: Iterable[NodeBucket]) -> dict[NodeBucket, int]:
    """How many nodes each bucket has had by now, those that are gone included."""
    return {bucket: bucket._size for bucket in buckets}
