"""A least-cost plan: so many nodes of a bin get such a load. And what is left of a problem once
part of it is planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.leastcost.problem import LimitLeft, Problem

Load = tuple[tuple[int, int], ...]
"""(item, units) of what one node takes, in order of items."""


class Lot(NamedTuple):
    """`nodes` nodes of bin `bin` that get the same load."""

    bin: int
    load: Load
    nodes: int


def price_of(problem: Problem, lots: Iterable[Lot]) -> float:
    """Price per hour of the nodes that do not run yet."""
    return sum(problem.bins[lot.bin].price * lot.nodes for lot in lots)


def real(problem: Problem, number: int, load: Load) -> Load:
    """What of a load the engine takes on an untouched node of a bin. Where everything has one way
    to lie on a node and stays fit as others are added, that is all of it, and the engine is not
    asked."""
    bin_ = problem.bins[number]
    profile = problem.profiles[bin_.profile]
    if all(len(profile[i]) == 1 and problem.items[i].expr.monotone for i, _ in load):
        return load
    shape, found = bin_.shape, []
    for item, units in load:
        taken = 0
        while taken < units:
            fit = shape.fit(problem.items[item].expr)
            if not isinstance(fit, Fit):
                break
            times = min(units - taken, fit.count)
            shape = shape.after(fit, times)
            taken += times
        if taken:
            found.append((item, taken))
    return tuple(found)


def left_over(problem: Problem, lots: Iterable[Lot]) -> list[int]:
    """Units by item that the lots do not place; they may place more than is wanted."""
    left = problem.units
    for lot in lots:
        for item, units in lot.load:
            left[item] -= units * lot.nodes
    return [max(0, n) for n in left]


class Rooms:
    """How many nodes of each bin may still be used, all limits considered."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.nodes = [bin_.nodes for bin_ in problem.bins]
        self.limits = [[limit.nodes, limit.cores] for limit in problem.limits]

    def of(self, number: int) -> int:
        """Nodes of a bin that may still be used."""
        bin_, room = self._problem.bins[number], self.nodes[number]
        cores = bin_.candidate.cores
        for a in bin_.limits:
            nodes_left, cores_left = self.limits[a]
            room = min(room, nodes_left, cores_left // cores if cores > 1 else cores_left)
        return max(0, room)

    def use(self, number: int, nodes: int) -> None:
        """So many of them are used."""
        bin_ = self._problem.bins[number]
        self.nodes[number] -= nodes
        for a in bin_.limits:
            self.limits[a][0] -= nodes
            self.limits[a][1] -= nodes * bin_.candidate.cores

    def rest(self, units: Sequence[int]) -> Problem:
        """The problem of placing `units` of the items in the room that is left."""
        bins = [
            bin_._replace(nodes=nodes)
            for bin_, nodes in zip(self._problem.bins, self.nodes, strict=True)
        ]
        return self._problem.changed(units, bins, [LimitLeft(*limit) for limit in self.limits])
