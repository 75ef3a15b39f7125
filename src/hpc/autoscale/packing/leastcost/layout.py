"""From a plan to nodes and demands: which unit of which demand lies on which node, and what the
nodes then look like.

Every step is asked of the engine, as the node is at that moment, so what comes out is right even
where the plan was made from a simpler picture. Units that the engine does not take where the plan
has them are left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.leastcost.plan import Load, Lot
from hpc.autoscale.packing.leastcost.problem import Bin, Problem
from hpc.autoscale.packing.plan import Plan, Step
from hpc.autoscale.packing.shape import NodeShape


class Share(NamedTuple):
    """Demand number `demand` wants `units` of item `item`."""

    demand: int
    item: int
    units: int


class Layout(NamedTuple):
    """`plan`: all that changes, for the engine to commit. `steps`: the same by demand, as if the
    new nodes were there already. On every node the steps follow one another in the order of the
    demands here."""

    plan: Plan
    placed: dict[int, list[Step]]

    def units(self, demand: int) -> int:
        """Units placed of a demand."""
        return sum(placed.units for placed in self.placed.get(demand, ()))


def lay_out(problem: Problem, lots: Iterable[Lot], shares: Iterable[Share]) -> Layout:
    """Give the nodes of a plan to demands, first come, first served. Cost: the steps."""
    work = _Work(problem, shares)
    for lot in lots:
        work.lot(lot)
    return work.layout()


class _Work:
    def __init__(self, problem: Problem, shares: Iterable[Share]) -> None:
        self._problem = problem
        self._queues: list[deque[list[int]]] = [deque() for _ in problem.items]
        self._rank: dict[int, tuple[int, int]] = {}
        for share in shares:
            if share.units > 0:
                self._rank[share.demand] = (share.item, share.demand)
                self._queues[share.item].append([share.demand, share.units])
        self._used: dict[int, int] = {}
        self._opened: dict[Candidate, int] = {}
        self._steps: dict[int, list[Step]] = {}
        self._nodes: list[Step] = []
        self._taken: dict[tuple[NodeShape, int, int], tuple[int, NodeShape] | None] = {}

    def lot(self, lot: Lot) -> None:
        bin_ = self._problem.bins[lot.bin]
        start = self._used.get(lot.bin, 0)
        used = 0
        for _ in range(lot.nodes):
            if not any(self._queues[item] for item, _ in lot.load):
                break
            if bin_.opened:
                position = len(bin_.candidate.shapes) + self._opened.get(bin_.candidate, 0)
            else:
                position = bin_.positions[start + used]
            shape = self._node(bin_, position, lot.load)
            if shape is None:
                break  # the engine takes nothing of it, on none of these nodes
            used += 1
            self._done(bin_, position, shape)
        self._used[lot.bin] = start + used

    def _node(self, bin_: Bin, position: int, load: Load) -> NodeShape | None:
        """Fill one node; what it then looks like, None when it takes nothing."""
        shape = bin_.shape
        took = False
        for item, units in load:
            queue = self._queues[item]
            while units and queue:
                first = queue[0]
                known = self._take(shape, item, min(units, first[1]))
                if known is None:
                    break
                times, after = known
                self._step(first[0], bin_, position, times, shape, after)
                shape, took = after, True
                units -= times
                first[1] -= times
                if not first[1]:
                    queue.popleft()
        return shape if took else None

    def _take(self, shape: NodeShape, item: int, units: int) -> tuple[int, NodeShape] | None:
        """How many of some units the engine puts on a node, and what it then looks like; each
        question is asked once."""
        key = (shape, item, units)
        if key not in self._taken:
            fit = shape.fit(self._problem.items[item].expr)
            self._taken[key] = None
            if isinstance(fit, Fit):
                times = min(units, fit.count)
                self._taken[key] = (times, shape.after(fit, times))
        return self._taken[key]

    def _step(
        self,
        demand: int,
        bin_: Bin,
        position: int,
        times: int,
        before: NodeShape,
        after: NodeShape,
    ) -> None:
        steps = self._steps.setdefault(demand, [])
        placed = Step(bin_.candidate, position, position + 1, times, before, after, False)
        _extend(steps, placed)

    def _done(self, bin_: Bin, position: int, shape: NodeShape) -> None:
        candidate = bin_.candidate
        if bin_.opened:
            self._opened[candidate] = self._opened.get(candidate, 0) + 1
        _extend(
            self._nodes, Step(candidate, position, position + 1, 1, bin_.shape, shape, bin_.opened)
        )

    def layout(self) -> Layout:
        units = sum(placed.units for steps in self._steps.values() for placed in steps)
        # every node is filled in the order of items, and with each in the order of the queue
        ordered = dict(sorted(self._steps.items(), key=lambda pair: self._rank[pair[0]]))
        return Layout(Plan(self._nodes, units), ordered)


def _extend(steps: list[Step], placed: Step) -> None:
    """Add a step, as part of the last one where that is of the same kind and right before it."""
    if steps:
        last = steps[-1]
        if last.hi == placed.lo and last[0] is placed.candidate and last[3:] == placed[3:]:
            steps[-1] = last._replace(hi=placed.hi)
            return
    steps.append(placed)


def opened_of(nodes: Sequence[Step]) -> dict[Candidate, int]:
    """How many nodes of each candidate a plan adds to those that run: new ones, and deallocated
    ones that are started."""
    found: dict[Candidate, int] = {}
    for placed in nodes:
        if placed.opened or placed.before.dormant:
            found[placed.candidate] = found.get(placed.candidate, 0) + placed.hi - placed.lo
    return found
