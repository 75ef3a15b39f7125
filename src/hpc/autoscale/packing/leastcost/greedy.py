"""The greedy plan: patterns chosen one after another, without numpy and without a solver.

Nodes that run already are filled first. Then, as in first-fit decreasing, the item that is dearest
to place comes first: of all bins and of several ways to fill a node around it, the pattern is taken
that has the highest value for its price, and it is used on as many nodes as it can be. The value of
a pattern is the sum of what its items cost each by itself on the bin that suits them best. One of
the ways to fill a node is the dot-product heuristic of vector bin packing (Panigrahy et al.,
2011)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.leastcost.problem import Lot, NodesLeft, Pattern, Problem, room_for

_FEWER = 1e-6


def greedy(problem: Problem) -> list[Lot]:
    """Lots that place as much as finds room. Cost: items with units x bins for each pattern that is
    chosen.

    Where the cheapest way uses the limits up, the one that spares them is tried, and the one that
    leaves less is taken."""
    wanted = [i for i, item in enumerate(problem.items) if item.units]
    profiles = [tuple(profile[i] for i in wanted) for profile in problem.profiles]
    some = problem._replace(items=[problem.items[i] for i in wanted], profiles=profiles)
    lots = _Greedy(some, [bin_.price for bin_ in some.bins]).lots()
    left = sum(some.left_over(lots))
    if left and some.limits:
        sparing = _Greedy(some, _shares_of_limits(some)).lots()
        if sum(some.left_over(sparing)) < left:
            lots = sparing
    return [lot._replace(pattern=tuple((wanted[i], n) for i, n in lot.pattern)) for lot in lots]


def _shares_of_limits(problem: Problem) -> list[float]:
    """By bin: the greatest part of any limit that one node takes; 0 for what runs already."""
    found = []
    for bin_ in problem.bins:
        shares = [1 / max(1, bin_.nodes)]
        for limit in (problem.limits[a] for a in bin_.limits):
            shares += [1 / max(1, limit.nodes), bin_.candidate.cores / max(1, limit.cores)]
        found.append(max(shares) if bin_.price else 0.0)
    return found


class _OpenNode:
    """A node of a bin that is being filled by a greedy plan in the making."""

    def __init__(self, plan: _Greedy, number: int) -> None:
        bin_ = plan.problem.bins[number]
        self._items = plan.problem.items
        self._profile = plan.problem.profiles[bin_.profile]
        self._whole = bin_.capacity
        self._shares = plan.shares_of(number)
        self._free: list[Quantity] = list(bin_.capacity)
        self._left = plan.left
        self._closed = False
        self.units: dict[int, int] = {}

    def room(self, item: int) -> int:
        """How many more units of an item there are and fit."""
        wanted = self._left[item] - self.units.get(item, 0)
        if self._closed or wanted <= 0:
            return 0
        for usage in self._profile[item]:
            if usage.closes and self.units:
                continue
            room = room_for(usage, self._free, wanted)
            if room:
                return 1 if usage.closes and not self._items[item].alone else room
        return 0

    def put(self, item: int, units: int) -> None:
        """Put so many units on it, as `room` allows."""
        for usage in self._profile[item]:
            if (usage.closes and self.units) or room_for(usage, self._free) < units:
                continue
            for dimension, amount in usage.amounts:
                self._free[dimension] -= amount * units
            self._closed = usage.closes
            self.units[item] = self.units.get(item, 0) + units
            return

    def fill_in_order(self, items: Sequence[int]) -> None:
        """Put as many units of each item on it as fit."""
        for item in items:
            room = self.room(item)
            if room > 0:
                self.put(item, room)

    def fill_by_match(self, items: Sequence[int]) -> None:
        """Put half of what fits of an item on it, of the item whose amounts go best with what is
        free: their dot product is the largest. And so on until nothing fits."""
        rest = [item for item in items if self.room(item) > 0]
        while rest:
            parts = [
                free / whole if whole else 0.0
                for free, whole in zip(self._free, self._whole, strict=True)
            ]
            found, best = rest[0], -1.0
            for item in rest:
                product = 0.0
                for dimension, share in self._shares[item]:
                    product += share * parts[dimension]
                if product > best:
                    found, best = item, product
            self.put(found, -(-self.room(found) // 2))
            rest = [item for item in rest if self.room(item) > 0]


class _Greedy:
    """`costs`: what a node of each bin is taken to cost."""

    def __init__(self, problem: Problem, costs: Sequence[float]) -> None:
        self.problem = problem
        self.costs = costs
        self.nodes_left = NodesLeft(problem)
        self.left = problem.units
        self.worth = _worths(problem)
        every = range(len(problem.items))
        self.order = sorted(every, key=lambda i: (-self.worth[i], i))
        bins = list(enumerate(problem.bins))
        self.hosts = [[b for b, bin_ in bins if problem.copies(i, bin_)] for i in every]
        self._shares: dict[int, list[list[tuple[int, float]]]] = {}
        self.found: list[Lot] = []

    def shares_of(self, number: int) -> list[list[tuple[int, float]]]:
        """By item: pairs of a dimension and the part of a whole node of bin `number` that a unit
        takes in its first way, as a vector of length 1."""
        if number not in self._shares:
            bin_ = self.problem.bins[number]
            found = self._shares[number] = []
            for usages in self.problem.profiles[bin_.profile]:
                amounts = usages[0].amounts if usages else ()
                shares = [(d, n / bin_.capacity[d]) for d, n in amounts if bin_.capacity[d]]
                length = sum(share * share for _, share in shares) ** 0.5 or 1.0
                found.append([(d, share / length) for d, share in shares])
        return self._shares[number]

    def lots(self) -> list[Lot]:
        """Use patterns until nothing more finds room."""
        for number, bin_ in enumerate(self.problem.bins):
            if not bin_.price:
                while self._use(number, self._best_pattern(number, None)):
                    pass
        for seed in self.order:
            while self.left[seed]:
                best = self._best(seed)
                if best is None or not self._use(*best):
                    break
        return self.found

    def _best(self, seed: int) -> tuple[int, Pattern] | None:
        """Of all bins and ways to fill one around an item, the pattern of the highest value for its
        price."""
        best: tuple[float, int, Pattern] | None = None
        for number in self.hosts[seed]:
            cost = self.costs[number]
            if self.nodes_left.of(number) > 0 and cost:
                pattern = self._best_pattern(number, seed)
                # of equals the dearer, which means fewer nodes
                value = self._value(pattern) / cost * (1 + _FEWER * cost)
                if pattern and (best is None or value > best[0]):
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

    def _value(self, pattern: Pattern) -> float:
        return sum(self.worth[item] * n for item, n in pattern)

    def _best_pattern(self, number: int, seed: int | None) -> Pattern:
        patterns = (self.problem.feasible(number, p) for p in self._patterns(number, seed))
        fitting = (p for p in patterns if seed is None or any(i == seed for i, _ in p))
        return max(fitting, key=self._value, default=())

    def _patterns(self, number: int, seed: int | None) -> Iterator[Pattern]:
        """Several ways to fill a node of bin `number`: around as many units of the seed as fit, one
        or two; with the dearest items, or with those that match what is free."""
        items = [i for i in self.order if self.left[i]]
        seen: set[int] = set()
        for copies in (0, 1, 2) if seed is not None else (0,):
            for in_order in (True, False):
                node = _OpenNode(self, number)
                if seed is not None:
                    most = node.room(seed)
                    units = min(most, copies or most)
                    if most < 1 or (in_order and units in seen):
                        break
                    seen.add(units)
                    node.put(seed, units)
                if in_order:
                    node.fill_in_order(items)
                else:
                    node.fill_by_match(items)
                yield tuple(sorted(node.units.items()))


def _worths(problem: Problem) -> list[float]:
    """What a unit of each item costs by itself on the bin that suits it best; the mean of the
    others for one that only finds room on what runs already."""
    found: list[float | None] = []
    for i in range(len(problem.items)):
        prices = [b.price / c for b in problem.bins if b.price and (c := problem.copies(i, b))]
        found.append(min(prices, default=None))
    known = [value for value in found if value is not None]
    usual = sum(known) / len(known) if known else 1.0
    return [usual if value is None else value for value in found]
