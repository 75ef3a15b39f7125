"""Loads chosen one after another: no numpy, no solver, never far from the best where small items
fill what big ones leave.

What runs already is filled first. Then the item that is dearest to place sets the terms: of all
bins and of several ways to fill a node around it, the load is taken that places the most worth for
its price, as often as it can be. An item's worth is what it costs on the bin that suits it best,
were there nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.leastcost.plan import Load, Lot, Rooms, left_over, real
from hpc.autoscale.packing.leastcost.problem import Bin, Problem, room_for

_FEWER = 1e-6


def greedy(problem: Problem) -> list[Lot]:
    """Lots that place as much as finds room. Cost: items with units x bins for each load that is
    chosen.

    Where the cheapest way uses the limits up, what spares them is tried, and the one that leaves
    less is taken."""
    wanted = [i for i, item in enumerate(problem.items) if item.units]
    some = problem if len(wanted) == len(problem.items) else problem.only(wanted)
    lots = _Greedy(some, [bin_.price for bin_ in some.bins]).lots()
    left = sum(left_over(some, lots))
    if left and some.limits:
        sparing = _Greedy(some, _shares(some)).lots()
        if sum(left_over(some, sparing)) < left:
            lots = sparing
    if some is problem:
        return lots
    return [lot._replace(load=tuple((wanted[i], n) for i, n in lot.load)) for lot in lots]


def _shares(problem: Problem) -> list[float]:
    """By bin: the greatest part of any limit that one node takes; 0 for what runs already."""
    found = []
    for bin_ in problem.bins:
        share = 1 / max(1, bin_.nodes) if bin_.price else 0.0
        for limit in (problem.limits[a] for a in bin_.limits if bin_.price):
            share = max(share, 1 / max(1, limit.nodes), bin_.candidate.cores / max(1, limit.cores))
        found.append(share)
    return found


class _Node:
    """One node in the making."""

    def __init__(self, problem: Problem, bin_: Bin, left: Sequence[int], kind: _Kind) -> None:
        self._items = problem.items
        self._profile = problem.profiles[bin_.profile]
        self._kind = kind
        self.free: list[Quantity] = list(bin_.capacity)
        self.load: dict[int, int] = {}
        self._left = left
        self._closed = False

    def room(self, item: int) -> int:
        """How many more units of an item there are and fit."""
        if self._closed:
            return 0
        wanted = self._left[item] - self.load.get(item, 0)
        simple = self._kind.simple[item]
        if simple is not None:
            for dimension, amount in simple:
                room = int(self.free[dimension] // amount)
                if room < wanted:
                    wanted = room
            return wanted
        for need in self._profile[item] if wanted > 0 else ():
            if need.closes and self.load:
                continue
            room = room_for(need, self.free)
            if room > 0:
                return min(wanted, room, 1 if need.closes and not self._items[item].alone else room)
        return 0

    def put(self, item: int, units: int) -> None:
        """Put so many units on it, as `room` allows."""
        for need in self._profile[item]:
            if (need.closes and self.load) or room_for(need, self.free) < units:
                continue
            for dimension, amount in need.amounts:
                self.free[dimension] -= amount * units
            self._closed = need.closes
            self.load[item] = self.load.get(item, 0) + units
            return

    def match(self, items: Sequence[int]) -> int:
        """Of some items that fit, the one whose shape goes best with the shape of what is free."""
        kind = self._kind
        parts = [
            f / whole if whole else 0.0 for f, whole in zip(self.free, kind.whole, strict=True)
        ]

        def alike(item: int) -> float:
            along = 0.0
            for dimension, share in kind.shares[item]:
                along += share * parts[dimension]
            return along

        return max(items, key=alike)


class _Kind:
    """What is worked out once for the nodes of a bin. `simple`: by item, the whole amounts of one
    that has a single way to lie on a node and leaves it open, None for others. `shares`: amounts as
    parts of a whole node, scaled to length 1."""

    def __init__(self, problem: Problem, bin_: Bin) -> None:
        self.whole = bin_.capacity
        whole = all(amount.__class__ is int for amount in bin_.capacity)
        self.simple: list[tuple[tuple[int, Quantity], ...] | None] = []
        self.shares: list[list[tuple[int, float]]] = []
        for needs in problem.profiles[bin_.profile]:
            first = needs[0] if needs else None
            plain = (
                whole
                and len(needs) == 1
                and first is not None
                and not first.closes
                and all(amount.__class__ is int for _, amount in first.amounts)
            )
            self.simple.append(first.amounts if plain and first is not None else None)
            shares = [
                (d, amount / self.whole[d])
                for d, amount in (first.amounts if first is not None else ())
                if self.whole[d]
            ]
            length = sum(share * share for _, share in shares) ** 0.5 or 1.0
            self.shares.append([(d, share / length) for d, share in shares])


class _Greedy:
    """`costs`: what a node of each bin is taken to cost."""

    def __init__(self, problem: Problem, costs: Sequence[float]) -> None:
        self.problem = problem
        self.costs = costs
        self.rooms = Rooms(problem)
        self.left = problem.units
        self.worth = worths(problem)
        self.order = sorted(range(len(problem.items)), key=lambda i: (-self.worth[i], i))
        self.hosts = [
            [b for b, bin_ in enumerate(problem.bins) if problem.copies(i, bin_)]
            for i in range(len(problem.items))
        ]
        self.kinds: dict[int, _Kind] = {}
        self.found: list[Lot] = []

    def lots(self) -> list[Lot]:
        for number, bin_ in enumerate(self.problem.bins):
            if not bin_.price:
                while self._use(number, self._best_load(number, None)):
                    pass
        for seed in self.order:
            while self.left[seed]:
                best = self._best(seed)
                if best is None or not self._use(*best):
                    break
        return self.found

    def _best(self, seed: int) -> tuple[int, Load] | None:
        """Of all bins and ways to fill one, the load with the most worth for its price."""
        best: tuple[float, int, Load] | None = None
        for number in self.hosts[seed]:
            cost = self.costs[number]
            if self.rooms.of(number) > 0 and cost:
                load = self._best_load(number, seed)
                # of equals the dearer, which means fewer nodes
                value = self._value(load) / cost * (1 + _FEWER * cost)
                if load and (best is None or value > best[0]):
                    best = (value, number, load)
        return None if best is None else best[1:]

    def _use(self, number: int, load: Load) -> bool:
        if not load:
            return False
        nodes = min(self.rooms.of(number), min(self.left[item] // n for item, n in load))
        if nodes < 1:
            return False
        self.rooms.use(number, nodes)
        self.found.append(Lot(number, load, nodes))
        for item, n in load:
            self.left[item] -= n * nodes
        return True

    def _value(self, load: Load) -> float:
        return sum(self.worth[item] * n for item, n in load)

    def _best_load(self, number: int, seed: int | None) -> Load:
        loads = (real(self.problem, number, load) for load in self._loads(number, seed))
        fitting = (load for load in loads if seed is None or any(i == seed for i, _ in load))
        return max(fitting, key=self._value, default=())

    def _loads(self, number: int, seed: int | None) -> Iterator[Load]:
        """Several ways to fill a node: around as many of the seed as fit, or one; by worth, or by
        what goes with the free rest."""
        bin_ = self.problem.bins[number]
        if number not in self.kinds:
            self.kinds[number] = _Kind(self.problem, bin_)
        items = [i for i in self.order if self.left[i]]
        seen: set[int] = set()
        for copies in (0, 1, 2) if seed is not None else (0,):
            for by_worth in (True, False):
                node = _Node(self.problem, bin_, self.left, self.kinds[number])
                if seed is not None:
                    most = node.room(seed)
                    units = min(most, copies or most)
                    if most < 1 or (by_worth and units in seen):
                        break
                    seen.add(units)
                    node.put(seed, units)
                if by_worth:
                    _fill_by_worth(node, items)
                else:
                    _fill_by_match(node, items)
                yield tuple(sorted(node.load.items()))


def _fill_by_worth(node: _Node, items: Sequence[int]) -> None:
    for item in items:
        room = node.room(item)
        if room > 0:
            node.put(item, room)


def _fill_by_match(node: _Node, items: Sequence[int]) -> None:
    rest = [item for item in items if node.room(item) > 0]
    while rest:
        item = node.match(rest)
        node.put(item, -(-node.room(item) // 2))
        rest = [item for item in rest if node.room(item) > 0]


def worths(problem: Problem) -> list[float]:
    """What a unit of each item costs on the bin that suits it best; the mean of the others for one
    that only finds room on what runs already."""
    found: list[float | None] = []
    for i in range(len(problem.items)):
        prices = [b.price / c for b in problem.bins if b.price and (c := problem.copies(i, b))]
        found.append(min(prices, default=None))
    known = [value for value in found if value is not None]
    usual = sum(known) / len(known) if known else 1.0
    return [usual if value is None else value for value in found]
