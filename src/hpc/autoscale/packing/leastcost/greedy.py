"""Loads chosen one after another: no numpy, no solver, never far from the best where small items fill what big ones leave.

What runs already is filled first. Then the item that is dearest to place sets the terms: of all bins and of several ways
to fill a node around it, the load is taken that places the most worth for its price, as often as it can be. An item's
worth is what it costs on the bin that suits it best, were there nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hpc.autoscale.packing.leastcost.plan import Load, Lot, Rooms, real
from hpc.autoscale.packing.leastcost.problem import Bin, Problem, room_for
from hpc.autoscale.packing.shape import Quantity

Choice = Callable[["_Node", Sequence[int]], int | None]


def greedy(problem: Problem) -> list[Lot]:
    """Lots that place as much as finds room. Cost: items x bins for each load that is chosen."""
    return _Greedy(problem).lots()


class _Node:
    """One node in the making."""

    def __init__(self, problem: Problem, bin_: Bin, left: Sequence[int]) -> None:
        self._items = problem.items
        self._profile = problem.profiles[bin_.profile]
        self.whole = bin_.capacity
        self.free: list[Quantity] = list(bin_.capacity)
        self.load: dict[int, int] = {}
        self._left = left
        self._closed = False

    def room(self, item: int) -> int:
        """How many more units of an item there are and fit."""
        if self._closed:
            return 0
        wanted = self._left[item] - self.load.get(item, 0)
        for need in self._profile[item] if wanted > 0 else ():
            if need.closes:
                if self.load:
                    continue
                room = room_for(need, self.free)
                wanted = wanted if self._items[item].alone else 1
            else:
                room = room_for(need, self.free)
            if room > 0:
                return min(wanted, room)
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

    def match(self, item: int) -> float:
        """How well the shape of an item goes with the shape of what is free: 1 is like it."""
        best = 0.0
        for need in self._profile[item]:
            if room_for(need, self.free) < 1:
                continue
            along = across = free = 0.0
            for dimension, whole in enumerate(self.whole):
                if whole:
                    free += (self.free[dimension] / whole) ** 2
            for dimension, amount in need.amounts:
                share = amount / self.whole[dimension]
                along += share * self.free[dimension] / self.whole[dimension]
                across += share * share
            best = max(best, along / (across * free) ** 0.5 if across and free else 1.0)
        return best


class _Greedy:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rooms = Rooms(problem)
        self.left = problem.units
        self.worth = worths(problem)
        self.order = sorted(range(len(problem.items)), key=lambda i: (-self.worth[i], i))
        self.hosts = [
            [b for b, bin_ in enumerate(problem.bins) if problem.copies(i, bin_)]
            for i in range(len(problem.items))
        ]
        self.found: list[Lot] = []

    def lots(self) -> list[Lot]:
        for number, bin_ in enumerate(self.problem.bins):
            if not bin_.price:
                while self._use(number, self._best_load(number, None)):
                    pass
        for seed in self.order:
            while self.left[seed]:
                best: tuple[float, int, Load] | None = None
                for number in self.hosts[seed]:
                    if self.rooms.of(number) > 0 and self.problem.bins[number].price:
                        load = self._best_load(number, seed)
                        value = self._value(load) / self.problem.bins[number].price
                        if load and (best is None or value > best[0] * (1 + 1e-9)):
                            best = (value, number, load)
                if best is None or not self._use(best[1], best[2]):
                    break
        return self.found

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
        """Several ways to fill a node: around as many of the seed as fit, or one; by worth, or by what goes with the
        free rest."""
        bin_ = self.problem.bins[number]
        items = [i for i in self.order if self.left[i]]
        seen: set[int] = set()
        for copies in (0, 1, 2) if seed is not None else (0,):
            for by_worth in (True, False):
                node = _Node(self.problem, bin_, self.left)
                if seed is not None:
                    most = node.room(seed)
                    units = min(most, copies or most)
                    if most < 1 or (by_worth and units in seen):
                        break
                    seen.add(units)
                    node.put(seed, units)
                self._fill(node, items, by_worth)
                yield tuple(sorted(node.load.items()))

    @staticmethod
    def _fill(node: _Node, items: Sequence[int], by_worth: bool) -> None:
        rest = list(items)
        while rest:
            roomy = [(i, room) for i in rest if (room := node.room(i))]
            if not roomy:
                return
            if by_worth:
                for item, _ in roomy:
                    room = node.room(item)
                    if room:
                        node.put(item, room)
                return
            item, room = max(roomy, key=lambda pair: node.match(pair[0]))
            node.put(item, -(-room // 2))
            rest = [i for i, _ in roomy]


def worths(problem: Problem) -> list[float]:
    """What a unit of each item costs on the bin that suits it best; the mean of the others for one that only finds room
    on what runs already."""
    found: list[float | None] = []
    for i in range(len(problem.items)):
        prices = [b.price / c for b in problem.bins if b.price and (c := problem.copies(i, b))]
        found.append(min(prices, default=None))
    known = [value for value in found if value is not None]
    usual = sum(known) / len(known) if known else 1.0
    return [usual if value is None else value for value in found]
