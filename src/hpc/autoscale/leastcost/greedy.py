"""The greedy plan: patterns chosen one after another, without numpy and without a solver.

Nodes that run already are filled first. Then, as in first-fit decreasing, the item that is dearest
to place comes first: of all bins and several ways to fill a node around it, the pattern is taken
that has the highest value for its price, and it is used on as many nodes as it can be. The value of
a pattern is the sum of what its items cost each by itself on the bin that suits them best. What
goes on a node is the engine's answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hpc.autoscale.leastcost.problem import Lot, NodesLeft, Pattern, Problem

_FEWER = 1e-6


def greedy(problem: Problem) -> list[Lot]:
    """Lots that place as much as finds room. Cost: items with units x bins for each pattern that is
    chosen.

    Where the cheapest way uses the limits up, the one that spares them is tried, and the one that
    leaves less is taken."""
    lots = _Greedy(problem, [bin_.price for bin_ in problem.bins]).lots()
    left = sum(problem.left_over(lots))
    if left and problem.limits:
        sparing = _Greedy(problem, _shares_of_limits(problem)).lots()
        if sum(problem.left_over(sparing)) < left:
            return sparing
    return lots


def _shares_of_limits(problem: Problem) -> list[float]:
    """By bin: the greatest part of any limit that one node takes; 0 for what runs already."""
    found = []
    for bin_ in problem.bins:
        shares = [1 / max(1, bin_.nodes)]
        for limit in (problem.limits[a] for a in bin_.limits):
            shares += [1 / max(1, limit.nodes), bin_.candidate.cores / max(1, limit.cores)]
        found.append(max(shares) if bin_.price else 0.0)
    return found


class _Greedy:
    """`costs`: what a node of each bin is taken to cost."""

    def __init__(self, problem: Problem, costs: Sequence[float]) -> None:
        self.problem = problem
        self.costs = costs
        self.nodes_left = NodesLeft(problem)
        self.left = problem.units
        wanted = [i for i, units in enumerate(self.left) if units]
        # by item: the bins that take it, and what a unit costs by itself on the one that suits it
        # best; the mean of the others for one that only finds room on what runs already
        self.hosts: dict[int, list[int]] = {}
        least: dict[int, float] = {}
        for i in wanted:
            copies = [problem.copies(i, bin_) for bin_ in problem.bins]
            self.hosts[i] = [number for number, n in enumerate(copies) if n]
            each = [b.price / n for b, n in zip(problem.bins, copies, strict=True) if n and b.price]
            if each:
                least[i] = min(each)
        usual = sum(least.values()) / len(least) if least else 1.0
        self.worth = {i: least.get(i, usual) for i in wanted}
        self.order = sorted(wanted, key=lambda i: (-self.worth[i], i))
        self.found: list[Lot] = []

    def lots(self) -> list[Lot]:
        """Use patterns until nothing more finds room."""
        for number, bin_ in enumerate(self.problem.bins):
            if not bin_.price:
                while self._use(number, self._pattern(number)):
                    pass
        for seed in self.order:
            while self.left[seed]:
                best = self._best(seed)
                if best is None or not self._use(*best):
                    break
        return self.found

    def _best(self, seed: int) -> tuple[int, Pattern] | None:
        """Of all bins, each filled around as many units of an item as fit, one or two, the pattern
        of the highest value for its price."""
        best: tuple[float, int, Pattern] | None = None
        hosts = [n for n in self.hosts[seed] if self.costs[n] and self.nodes_left.of(n) > 0]
        left = self.left[seed]
        for number, units in product(hosts, dict.fromkeys((left, 1, min(2, left)))):
            pattern = self._pattern(number, (seed, units))
            worth = sum(self.worth[item] * n for item, n in pattern)
            # of equals the dearer, which means fewer nodes
            value = worth / self.costs[number] * (1 + _FEWER * self.costs[number])
            if any(i == seed for i, _ in pattern) and (best is None or value > best[0]):
                best = (value, number, pattern)
        return None if best is None else best[1:]

    def _use(self, number: int, pattern: Pattern) -> bool:
        """Use a pattern on as many nodes as it can be; whether there was one."""
        wanted = min((self.left[item] // n for item, n in pattern), default=0)
        nodes = min(self.nodes_left.of(number), wanted)
        if nodes < 1:
            return False
        self.nodes_left.use(number, nodes)
        self.found.append(Lot(number, pattern, nodes))
        for item, n in pattern:
            self.left[item] -= n * nodes
        return True

    def _pattern(self, number: int, *first: tuple[int, int]) -> Pattern:
        """A node of a bin, filled with so many units of some items, and with the dearest of the
        others."""
        profile = self.problem.profiles[self.problem.bins[number].profile]
        wanted = {**dict(first), **{i: self.left[i] for i in self.order if i not in dict(first)}}
        found = self.problem.feasible(number, [(i, n) for i, n in wanted.items() if profile[i]])
        return self.problem.feasible(number, sorted(found))
