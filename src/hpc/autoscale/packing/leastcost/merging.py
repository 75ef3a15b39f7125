"""Thousands of different items: those of nearly the same size are planned as one, and then told
apart again.

A class of items stands in the plan with its mean size. When a node of the plan is filled, each
place goes to the member of its class that comes nearest to what the places after it leave, and the
last to the one that fills the node best; so what is rounded off in the plan evens out on every
node. Nodes that do not come out as full as they were planned are not kept, and what they were to
hold is planned once more with the sizes that are left."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.leastcost.plan import Load, Lot, Rooms
from hpc.autoscale.packing.leastcost.problem import Item, Need, Problem, room_for

Size = tuple[Quantity, ...]
"""Amounts by dimension."""


Sizes = Mapping[int, Size | None]

_NEIGHBOURS = 24
_FINEST = 64


class Classes(NamedTuple):
    """The problem of the classes, the items of each, and the sizes of the items."""

    problem: Problem
    members: list[list[int]]
    sizes: Sizes


def merge(problem: Problem, most: int, sizes: Sizes) -> Classes:
    """Items of nearly the same size as one, so that there are about `most`; only those with units
    count. Items that may lie on a node in several ways, or alone, or differently on different
    nodes, stay by themselves."""
    items = [i for i, item in enumerate(problem.items) if item.units]
    some = [size for i in items if (size := sizes[i]) is not None]
    largest = [max((size[d] for size in some), default=0) for d in range(len(problem.dimensions))]
    members = [[i] for i in items]
    if len(members) > most:
        used = sum(amount > 0 for amount in largest)
        levels = max(1, math.floor(most ** (1 / max(1, used)) + 1e-9))
        members = _grouped(problem, items, sizes, largest, levels)
        # sizes that keep together leave cells empty, and allow for finer ones
        while (
            levels < _FINEST
            and len(finer := _grouped(problem, items, sizes, largest, levels + 1)) <= most
        ):
            levels, members = levels + 1, finer
    return Classes(_merged(problem, members, sizes), members, sizes)


def sizes_of(problem: Problem) -> Sizes:
    """The amounts of items that are the same wherever they may lie; None for others."""
    return {i: _size_of(problem, i) for i in range(len(problem.items))}


def _size_of(problem: Problem, item: int) -> Size | None:
    found: tuple[Need, ...] | None = None
    for profile in problem.profiles:
        needs = profile[item]
        if needs and found is None:
            found = needs
        elif needs and needs != found:
            return None
    if found is None or len(found) != 1 or found[0].closes:
        return None
    if not problem.items[item].expr.monotone:
        return None
    amounts = dict(found[0].amounts)
    return tuple(amounts.get(d, 0) for d in range(len(problem.dimensions)))


def _grouped(
    problem: Problem,
    items: Iterable[int],
    sizes: Sizes,
    largest: Sequence[Quantity],
    levels: int,
) -> list[list[int]]:
    found: dict[object, list[int]] = {}
    for item in items:
        size = sizes[item]
        key: object = item
        if size is not None:
            cell = tuple(
                math.ceil(amount * levels / most) if most else 0
                for amount, most in zip(size, largest, strict=True)
            )
            key = (cell, tuple(bool(profile[item]) for profile in problem.profiles))
        found.setdefault(key, []).append(item)
    return list(found.values())


def _merged(problem: Problem, members: Sequence[Sequence[int]], sizes: Sizes) -> Problem:
    grain = [_grain(sizes.values(), d) for d in range(len(problem.dimensions))]
    items, means = [], []
    for group in members:
        first = problem.items[group[0]]
        units = sum(problem.items[i].units for i in group)
        items.append(Item(first.expr, units, first.alone))
        means.append(_mean(problem, group, sizes, grain) if len(group) > 1 else None)
    profiles = [
        tuple(
            profile[group[0]] if mean is None or not profile[group[0]] else mean
            for group, mean in zip(members, means, strict=True)
        )
        for profile in problem.profiles
    ]
    return Problem(items, problem.bins, profiles, problem.dimensions, problem.limits)


def _grain(sizes: Iterable[Size | None], dimension: int) -> int:
    """The greatest whole amount that divides all in a dimension; 0 where they are not whole."""
    found = 0
    for size in sizes:
        if size is not None:
            amount = size[dimension]
            if not isinstance(amount, int):
                return 0
            found = math.gcd(found, amount)
    return found


def _mean(
    problem: Problem,
    group: Sequence[int],
    sizes: Sizes,
    grain: Sequence[int],
) -> tuple[Need, ...]:
    amounts = []
    units = sum(problem.items[i].units for i in group)
    for d, step in enumerate(grain):
        total: float = 0
        for i in group:
            size = sizes[i]
            total += problem.items[i].units * (size[d] if size is not None else 0)
        mean: Quantity = total / units
        if step:
            mean = max(1, round(mean / step)) * step if total else 0
        if mean:
            amounts.append((d, mean))
    return (Need(tuple(amounts), False),)


class _Members:
    """Items of one class that are still to be placed, by size."""

    def __init__(self, problem: Problem, items: Sequence[int], sizes: Sizes) -> None:
        self._sizes = sizes
        self._left = {i: problem.items[i].units for i in items}
        self._order = sorted((sizes[i] or (), i) for i in items)

    def nearest(
        self, wish: Sequence[float], free: Sequence[Quantity], scale: Sequence[float]
    ) -> int | None:
        """The one that fits what is free and is nearest to a size, of those next to it; sizes by
        `scale`."""
        at = bisect_left(self._order, (tuple(wish),))
        best, found = math.inf, None
        for size, item in self._order[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS]:
            away = 0.0
            for d, amount in enumerate(size):
                if amount > free[d]:
                    break
                away += abs(wish[d] - amount) * scale[d]
            else:
                if away < best:
                    best, found = away, item
        return found

    def take(self, item: int) -> None:
        """One unit of an item is placed."""
        self._left[item] -= 1
        if not self._left[item]:
            del self._order[bisect_left(self._order, (self._sizes[item] or (), item))]

    def give_back(self, item: int) -> None:
        """One unit of an item is not placed after all."""
        self._left[item] += 1
        if self._left[item] == 1:
            insort(self._order, (self._sizes[item] or (), item))


def tell_apart(
    problem: Problem, classes: Classes, lots: Sequence[Lot], at_least: float
) -> list[Lot]:
    """Lots of the items themselves from lots of their classes. A node is kept when it is at least
    that part as full as planned; of a lot nothing is tried any more after three that are not."""
    return _Apart(problem, classes, at_least).run(lots)


class _Apart:
    def __init__(self, problem: Problem, classes: Classes, at_least: float) -> None:
        self.problem = problem
        self.classes = classes
        self.at_least = at_least
        self.members = [
            _Members(problem, group, classes.sizes) if len(group) > 1 else None
            for group in classes.members
        ]
        self.left = problem.units
        self.rooms = Rooms(problem)
        self.found: list[Lot] = []

    def run(self, lots: Sequence[Lot]) -> list[Lot]:
        for lot in lots:
            misses = 0
            for _ in range(lot.nodes):
                if misses > 2 or self.rooms.of(lot.bin) < 1:
                    break
                load = self._node(lot)
                if load:
                    self.rooms.use(lot.bin, 1)
                    self.found.append(Lot(lot.bin, load, 1))
                else:
                    misses += 1
        return self.found

    def _node(self, lot: Lot) -> Load:
        """One node as a lot has it, filled with the items themselves; nothing when it does not come
        out well."""
        bin_ = self.problem.bins[lot.bin]
        whole = bin_.capacity
        scale = [1 / amount if amount else 0.0 for amount in whole]
        profile = self.classes.problem.profiles[bin_.profile]
        free: list[Quantity] = list(whole)
        places: list[tuple[int, Size]] = []
        for number, units in lot.load:
            amounts = dict(profile[number][0].amounts)
            size = tuple(amounts.get(d, 0) for d in range(len(whole)))
            places += [(number, size)] * units
        places.sort(key=lambda place: -sum(n * w for n, w in zip(place[1], scale, strict=True)))
        after = [float(sum(size[d] for _, size in places)) for d in range(len(whole))]
        planned = sum(n * w for n, w in zip(after, scale, strict=True))
        taken: list[tuple[int, int, Size]] = []
        for number, size in places:
            after = [n - amount for n, amount in zip(after, size, strict=True)]
            wish = [n - rest for n, rest in zip(free, after, strict=True)]
            item = self._pick(number, wish, free, scale, bin_.profile)
            if item is None:
                continue
            own = self._size(item, bin_.profile)
            free = [n - amount for n, amount in zip(free, own, strict=True)]
            taken.append((number, item, own))
            self._take(number, item)
        filled = sum((n - f) * w for n, f, w in zip(whole, free, scale, strict=True))
        if not taken or filled < planned * self.at_least:
            for number, item, _ in taken:
                self._give_back(number, item)
            return ()
        counted: dict[int, int] = {}
        for _, item, _ in taken:
            counted[item] = counted.get(item, 0) + 1
        return tuple(sorted(counted.items()))

    def _size(self, item: int, profile: int) -> Size:
        needs = self.problem.profiles[profile][item]
        amounts = dict(needs[0].amounts) if needs else {}
        return tuple(amounts.get(d, 0) for d in range(len(self.problem.dimensions)))

    def _pick(
        self,
        number: int,
        wish: Sequence[float],
        free: Sequence[Quantity],
        scale: Sequence[float],
        profile: int,
    ) -> int | None:
        members = self.members[number]
        if members is not None:
            return members.nearest(wish, free, scale)
        item = self.classes.members[number][0]
        needs = self.problem.profiles[profile][item]
        fits = self.left[item] > 0 and any(room_for(need, free) for need in needs)
        return item if fits else None

    def _take(self, number: int, item: int) -> None:
        self.left[item] -= 1
        members = self.members[number]
        if members is not None:
            members.take(item)

    def _give_back(self, number: int, item: int) -> None:
        self.left[item] += 1
        members = self.members[number]
        if members is not None:
            members.give_back(item)
