"""The greedy plan of a problem with thousands of different items: items of nearly the same size are
grouped, the groups are planned as items, and the nodes are then filled with the items themselves.

This is the grouping of item sizes of Fernandez de la Vega and Lueker (1981), with mean sizes. When
a node of the plan is filled, each place goes to the item of its group that comes nearest to what
the places after it leave, and the last to the one that fills the node best; so what was rounded in
the plan evens out on every node. Only nodes are kept that come out nearly as full as planned. What
is left over is grouped and planned anew; from round to round less is asked of a node, and in the
last round every node is kept. What is still left is planned item by item."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat

from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.leastcost.greedy import greedy
from hpc.autoscale.packing.leastcost.problem import (
    Item,
    Lot,
    NodesLeft,
    Pattern,
    Problem,
    Usage,
    room_for,
)

Amounts = tuple[Quantity, ...]
"""What one unit takes, by dimension."""

_ByItem = Sequence[Amounts | None]
"""By item: see `amounts_of`."""

MOST_ITEMS = 200
"""Up to so many items are planned each by itself."""

_MOST_GROUPS, _MOST_ROUGHLY = 100, 60
_AT_LEAST = (0.98, 0.97, 0.95, 0.9, 0.0)
"""By round: the part of what was planned for a node that it must come out with to be kept. Further
rounds are as the last one."""
_WITHOUT_ROOM = 0.9  # where so much of what a round was to place is left, limits are short
_AT_ONCE, _MOST_LEFT = 100, 500
_MOST_MISSES = 3
_NEIGHBOURS = 24
_FINEST = 64


def has_many_items(problem: Problem) -> bool:
    """Whether a problem has too many items to plan each by itself."""
    return sum(item.units > 0 for item in problem.items) > MOST_ITEMS


def greedy_lots(problem: Problem, roughly: bool = False) -> list[Lot]:
    """The greedy plan of any problem. `roughly`: with less effort where there are many items, and
    perhaps not of everything."""
    return plan_groups(problem, roughly) if has_many_items(problem) else greedy(problem)


def plan_groups(problem: Problem, roughly: bool = False) -> list[Lot]:
    """Lots of single nodes that place as much as finds room, by plans of groups. `roughly`: every
    node is kept in the first round, and what is left at the end is left over."""
    amounts = [amounts_of(problem, i) for i in range(len(problem.items))]
    lots: list[Lot] = []
    rest = problem
    for at_least in chain((0.0,) if roughly else _AT_LEAST, repeat(0.0)):
        if not any(rest.units):
            return lots
        members = _members(rest, _MOST_ROUGHLY if roughly else _MOST_GROUPS, amounts)
        before = sum(rest.units)
        lots += _GroupFilling(rest, members, amounts, at_least).run()
        rest = problem.residual(lots)
        if not at_least and sum(rest.units) > before * _WITHOUT_ROOM:
            break
    return lots if roughly else [*lots, *_one_by_one(problem, lots)]


def _one_by_one(problem: Problem, lots: list[Lot]) -> list[Lot]:
    """A plan for what else finds room, some items at a time. With very many items left there is no
    room, rather than bad luck."""
    found: list[Lot] = []
    wanted = [i for i, units in enumerate(problem.left_over(lots)) if units]
    for start in range(0, min(len(wanted), _MOST_LEFT), _AT_ONCE):
        rest = problem.residual([*lots, *found])
        some = frozenset(wanted[start : start + _AT_ONCE])
        units = [n if i in some else 0 for i, n in enumerate(rest.units)]
        found += greedy(rest.changed(units))
    return found


def amounts_of(problem: Problem, item: int) -> Amounts | None:
    """What a unit of an item takes, where that is the same on all nodes where it may lie, leaves
    them open, and keeps fitting as others are added; None otherwise."""
    ways = {profile[item] for profile in problem.profiles if profile[item]}
    usages = ways.pop() if len(ways) == 1 else ()
    if len(usages) != 1 or usages[0].closes or not problem.items[item].expr.monotone:
        return None
    return _by_dimension(problem, usages[0])


def _by_dimension(problem: Problem, usage: Usage) -> Amounts:
    amounts = dict(usage.amounts)
    return tuple(amounts.get(d, 0) for d in range(len(problem.dimensions)))


def _members(problem: Problem, most: int, amounts: _ByItem) -> Sequence[Sequence[int]]:
    """The items with units in about `most` groups. Items without `amounts` of their own stay by
    themselves."""
    items = [i for i, item in enumerate(problem.items) if item.units]
    known = [each for i in items if (each := amounts[i]) is not None]
    largest = [max((each[d] for each in known), default=0) for d in range(len(problem.dimensions))]
    members = [[i] for i in items]
    if len(members) > most:
        used = sum(amount > 0 for amount in largest)
        levels = max(1, math.floor(most ** (1 / max(1, used)) + 1e-9))
        members = _cells(problem, items, amounts, largest, levels)
        # sizes that are close together leave cells empty, and allow for finer ones
        while (
            levels < _FINEST
            and len(finer := _cells(problem, items, amounts, largest, levels + 1)) <= most
        ):
            levels, members = levels + 1, finer
    return members


def _grouped(problem: Problem, members: Sequence[Sequence[int]], amounts: _ByItem) -> Problem:
    """The problem whose items are groups of items."""
    grains = [_grain(amounts, d) for d in range(len(problem.dimensions))]
    grouped = []
    means: list[tuple[Usage, ...] | None] = []
    for group in members:
        first = problem.items[group[0]]
        grouped.append(Item(first.expr, sum(problem.items[i].units for i in group), first.alone))
        means.append(_mean(problem, group, amounts, grains) if len(group) > 1 else None)
    profiles = [
        tuple(
            mean if mean and profile[group[0]] else profile[group[0]]
            for group, mean in zip(members, means, strict=True)
        )
        for profile in problem.profiles
    ]
    return problem._replace(items=grouped, profiles=profiles, unplaceable=())


def _cells(
    problem: Problem,
    items: Iterable[int],
    amounts: _ByItem,
    largest: Sequence[Quantity],
    levels: int,
) -> list[list[int]]:
    """Items whose amounts, rounded up to `levels` parts of the largest, are the same and that may
    lie on the same bins."""
    found: dict[object, list[int]] = {}
    for item in items:
        each = amounts[item]
        key: object = item
        if each is not None:
            cell = tuple(
                math.ceil(amount * levels / most) if most else 0
                for amount, most in zip(each, largest, strict=True)
            )
            key = (cell, tuple(bool(profile[item]) for profile in problem.profiles))
        found.setdefault(key, []).append(item)
    return list(found.values())


def _grain(amounts: _ByItem, dimension: int) -> int:
    """The greatest whole amount that divides all in a dimension; 0 where they are not whole."""
    found = [each[dimension] for each in amounts if each is not None]
    whole = [amount for amount in found if isinstance(amount, int)]
    return math.gcd(*whole) if len(whole) == len(found) else 0


def _mean(
    problem: Problem, group: Sequence[int], amounts: _ByItem, grains: Sequence[int]
) -> tuple[Usage, ...]:
    """What a unit of a group takes in the mean, in whole grains."""
    found = []
    units = sum(problem.items[i].units for i in group)
    for d, grain in enumerate(grains):
        total = sum(problem.items[i].units * each[d] for i in group if (each := amounts[i]))
        mean: Quantity = total / units
        if grain:
            mean = max(1, round(mean / grain)) * grain if total else 0
        if mean:
            found.append((d, mean))
    return (Usage(tuple(found), False),)


class _GroupFilling:
    """Fills the nodes of a plan of groups with the items themselves. `at_least`: a node is kept
    when it comes out with that part of what was planned."""

    def __init__(
        self, problem: Problem, members: Sequence[Sequence[int]], amounts: _ByItem, at_least: float
    ) -> None:
        self.problem = problem
        self.members = members
        self.grouped = _grouped(problem, members, amounts)
        self.at_least = at_least
        self.left = problem.units
        # by group of more than one: (amounts, item) of those with units left, sorted
        self.sorted: Mapping[int, list[tuple[Amounts, int]]] = {
            number: sorted((amounts[i] or (), i) for i in group)
            for number, group in enumerate(members)
            if len(group) > 1
        }

    def run(self) -> list[Lot]:
        """Lots of single nodes. Of a lot no more is tried after three nodes that were not kept."""
        nodes_left = NodesLeft(self.problem)
        found = []
        for lot in greedy(self.grouped):
            misses = 0
            for _ in range(lot.nodes):
                if misses == _MOST_MISSES or nodes_left.of(lot.bin) < 1:
                    break
                pattern = self._fill(lot)
                if pattern:
                    nodes_left.use(lot.bin, 1)
                    found.append(Lot(lot.bin, pattern, 1))
                else:
                    misses += 1
        return found

    def _fill(self, lot: Lot) -> Pattern:
        """Fill one node of a lot; nothing when it is not kept."""
        bin_ = self.problem.bins[lot.bin]
        whole = bin_.capacity
        scale = [1 / amount if amount else 0.0 for amount in whole]
        profile = self.grouped.profiles[bin_.profile]
        free: list[Quantity] = list(whole)
        places: list[tuple[int, Amounts]] = []
        for number, units in lot.pattern:
            places += [(number, _by_dimension(self.problem, profile[number][0]))] * units
        places.sort(key=lambda place: -sum(n * w for n, w in zip(place[1], scale, strict=True)))
        after = [float(sum(amounts[d] for _, amounts in places)) for d in range(len(whole))]
        planned = sum(n * w for n, w in zip(after, scale, strict=True))
        taken: list[tuple[int, int, Amounts]] = []
        for number, amounts in places:
            after = [n - amount for n, amount in zip(after, amounts, strict=True)]
            wish = [n - rest for n, rest in zip(free, after, strict=True)]
            found = self._pick(number, wish, free, scale, bin_.profile)
            if found is not None:
                item, own = found
                free = [n - amount for n, amount in zip(free, own, strict=True)]
                taken.append((number, item, own))
                self.left[item] -= 1
                if number in self.sorted and not self.left[item]:
                    members = self.sorted[number]
                    del members[bisect_left(members, (own, item))]
        filled = sum((n - f) * w for n, f, w in zip(whole, free, scale, strict=True))
        if taken and filled >= planned * self.at_least:
            return tuple(sorted(Counter(item for _, item, _ in taken).items()))
        for number, item, own in taken:
            self.left[item] += 1
            if number in self.sorted and self.left[item] == 1:
                insort(self.sorted[number], (own, item))
        return ()

    def _pick(
        self,
        number: int,
        wish: Sequence[float],
        free: Sequence[Quantity],
        scale: Sequence[float],
        profile: int,
    ) -> tuple[int, Amounts] | None:
        """The item of a group that fits what is free and comes nearest to an amount, of those next
        to it in order; and what it takes."""
        if number not in self.sorted:
            item = self.members[number][0]
            usages = self.problem.profiles[profile][item]
            fits = self.left[item] > 0 and any(room_for(usage, free) for usage in usages)
            return (item, _by_dimension(self.problem, usages[0])) if fits else None
        members = self.sorted[number]
        at = bisect_left(members, (tuple(wish),))
        nearest, found = math.inf, None
        for amounts, item in members[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS]:
            distance = 0.0
            for d, amount in enumerate(amounts):
                if amount > free[d]:
                    break
                distance += abs(wish[d] - amount) * scale[d]
            else:
                if distance < nearest:
                    nearest, found = distance, (item, amounts)
        return found
