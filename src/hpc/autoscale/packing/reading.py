"""How much of one resource a node has, as a number that can be compared. Asked by candidates and by
their trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from hpc.autoscale.packing.amounts import Unit, just_enough
from hpc.autoscale.packing.expr import VACANT
from hpc.autoscale.packing.shape import NodeShape


class Reading:
    """How much a node has of a resource, in the `unit` that new nodes had it in when it was first
    asked for.

    -inf where a node cannot serve at all, +inf where only the node itself can tell. `known`: what
    was read, by shape; look there first. `tree`: the maxima over a candidate's positions, kept by
    its `SegmentTrees`.
    """

    __slots__ = ("_name", "factor", "known", "tree", "unit")

    def __init__(self, name: str, unit: Unit | None) -> None:
        self._name = name
        self.tree: list[float] = []
        self.factor = 1 if unit is None else unit.factor
        self.unit = unit
        self.known: dict[NodeShape | None, float] = {None: -math.inf}

    def __call__(self, shape: NodeShape | None) -> float:
        found = self.known.get(shape)
        if found is None:
            found = self.known[shape] = -math.inf if shape is None else self._read(shape)
        return found

    def needed(self, amount: float, sized: bool) -> float:
        """The least of this reading that may do for an amount: of bytes (`sized`), or in the unit
        that nodes have it in."""
        return just_enough(amount if sized else amount * self.factor)

    def all(self, shapes: Sequence[NodeShape | None]) -> list[float]:
        """How much each of some shapes has."""
        found = list(map(self.known.get, shapes))
        return list(map(self, shapes)) if None in found else cast(list[float], found)

    def _read(self, shape: NodeShape) -> float:
        if shape.unfit() is not None:
            return -math.inf
        if self._name == VACANT:
            return float(shape.vacant)
        available = shape.free.get(self._name)
        if not isinstance(available, (int, float)) or available != available:
            return -math.inf  # a maximum over what is not a number could hide other nodes
        return available if shape.units.get(self._name) == self.unit else math.inf
