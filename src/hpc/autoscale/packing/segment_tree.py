"""Where in a candidate there may be room, found without looking at every node.

Three indexes over the positions of a list. A segment tree holds at each point the greatest of the
numbers below it: item i is the greater of items 2i and 2i + 1, and the numbers themselves are its
second half, a power of two of them. `NodeIndex` keeps one for each resource that some request asks
a minimum of (a `Reading`), so that first fit skips whole subtrees that cannot hold the request;
what is skipped cannot fit, what is returned may. A `Staircase` says how far others have searched.
`SegmentTree` is one for numbers that are set one by one. `Places` has the positions of each shape,
or of each text of a resource, for expressions that a maximum does not help.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, cast

from hpc.autoscale.packing.amounts import just_enough
from hpc.autoscale.packing.expr import VACANT
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.shown import Unit

Number = TypeVar("Number", int, float)
Key = TypeVar("Key")

# so many positions are brought up to date one by one, however close they are
_FEW = 8

Need = tuple[Sequence[float], float]
"""A tree, and how much is needed."""


def climb(tree: list[Number], node: int) -> None:
    """Set right what is above a node that was written, as far as it changes. O(log n)."""
    most = tree[node]
    while node > 1:
        beside = tree[node ^ 1]
        most = most if most >= beside else beside
        node >>= 1
        if tree[node] == most:
            return
        tree[node] = most


def first_meeting(needs: Sequence[Need], start: int, capacity: int) -> int:
    """The first place from `start` on where every need may be met; -1 when there is none. The trees
    are of `capacity` numbers each. With one need the answer is a place that meets it; O(log n)
    where places are alike in what they lack.

    Each turn descends one level or leaves a subtree for the one to its right, so it ends.
    """
    if start >= capacity:
        return -1
    node = capacity + start
    while node & 1 == 0:
        node >>= 1
    # most have one or two needs, and those are looked at without a loop
    one, of_one = needs[0]
    other, of_other = needs[-1]
    rest = needs[1:-1]
    while True:
        if (
            one[node] >= of_one
            and other[node] >= of_other
            and (not rest or all(tree[node] >= amount for tree, amount in rest))
        ):
            if node >= capacity:
                return node - capacity
            node <<= 1
            continue
        while node & 1:
            node >>= 1
        if not node:
            return -1
        node += 1


class SegmentTree:
    """Numbers in places, -1 where nothing was set."""

    def __init__(self, length: int) -> None:
        self._capacity = 1 << max(0, length - 1).bit_length()
        self._tree = [-1] * (2 * self._capacity)

    def set(self, place: int, number: int) -> None:
        """Put a number in its place. O(log n)."""
        leaf = self._capacity + place
        if self._tree[leaf] != number:
            self._tree[leaf] = number
            climb(self._tree, leaf)

    def first(self, least: int, start: int) -> int:
        """The first place from `start` on with a number of at least `least`, which is above -1; -1
        when there is none."""
        return first_meeting([(self._tree, least)], start, self._capacity)


class Places(Generic[Key]):
    """Positions by a key of their shapes, of a list of shapes that is the caller's: it grows at its
    end, and where it is changed the caller says so. Cost: a binary search for each key that is
    asked for, and for each position that is changed."""

    def __init__(
        self, shapes: Sequence[NodeShape | None], key: Callable[[NodeShape | None], Key]
    ) -> None:
        self._shapes = shapes
        self._key = key
        # the keys as they were when they were last looked at
        self._entered: list[Key] = []
        self._where: dict[Key, list[int]] = {}

    def changed(self, positions: Iterable[int]) -> None:
        """Enter the keys of nodes that have other shapes now."""
        entered = self._entered
        for position in positions:
            if position >= len(entered):
                continue
            was, key = entered[position], self._key(self._shapes[position])
            if was == key:
                continue
            there = self._where[was]
            del there[bisect_left(there, position)]
            if not there:
                del self._where[was]
            entered[position] = key
            insort(self._where.setdefault(key, []), position)

    def first_of_each(self, start: int) -> Iterator[tuple[Key, int]]:
        """Each key from a position on, with its first position from there, in no order."""
        self._catch_up()
        for key, positions in self._where.items():
            if positions[-1] >= start:
                yield key, positions[bisect_left(positions, start) if start else 0]

    def first(self, keys: Iterable[Key], start: int) -> int:
        """The first position from `start` on that has one of some keys; -1 when there is none."""
        self._catch_up()
        found = [there for key in keys if (there := self._where.get(key)) and there[-1] >= start]
        return min((there[bisect_left(there, start)] for there in found), default=-1)

    def _catch_up(self) -> None:
        size = len(self._entered)
        for position, key in enumerate(map(self._key, self._shapes[size:]), size):
            self._where.setdefault(key, []).append(position)
            self._entered.append(key)


def by_shape(shape: NodeShape | None) -> NodeShape | None:
    """The shape itself, as the key of nodes that look alike."""
    return shape


def by_text(name: str) -> Callable[[NodeShape | None], str | None]:
    """The key of nodes that have the same text for a resource; None for those that have none."""

    def text(shape: NodeShape | None) -> str | None:
        found = None if shape is None else shape.free.get(name)
        return found if isinstance(found, str) else None

    return text


class Reading:
    """How much a node has of a resource, in the `unit` that new nodes had it in when it was first
    asked for.

    -inf where a node cannot serve at all, +inf where only the node itself can tell. `unclaimed`:
    those serve that are `NodeShape.unclaimed`, else the others. `known`: what was read, by shape;
    look there first. `tree`: the maxima over a candidate's positions, kept by its `NodeIndex`.
    """

    def __init__(self, name: str, unit: Unit | None, unclaimed: bool = False) -> None:
        self._name = name
        self._unclaimed = unclaimed
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

    def lacks(self, available: float, amount: float, sized: bool) -> bool:
        """Whether what is there is less than what is `needed`; in few steps where it is enough."""
        least = amount if sized else amount * self.factor
        return available < least and available < just_enough(least)

    def all(self, shapes: Sequence[NodeShape | None]) -> list[float]:
        """How much nodes of each of some shapes have."""
        found = list(map(self.known.get, shapes))
        return list(map(self, shapes)) if None in found else cast(list[float], found)

    def _read(self, shape: NodeShape) -> float:
        if shape.unclaimed is not self._unclaimed or shape.unfit() is not None:
            return -math.inf
        if self._name == VACANT:
            return float(shape.vacant)
        available = shape.free.get(self._name)
        if not isinstance(available, (int, float)) or available != available:
            return -math.inf  # a maximum over what is not a number could hide other nodes
        return available if shape.units.get(self._name) == self.unit else math.inf


class Staircase:
    """How far nodes were searched for amounts of one resource, by those who ask the same of all
    others: who asks for no less finds nothing there either. Both rise together."""

    def __init__(self) -> None:
        self.heard = 0  # of so many times that nodes got more
        self._amounts: list[float] = []
        self._firsts: list[int] = []

    def first(self, amount: float) -> int:
        """The first position that may have an amount, as far as is known."""
        place = bisect_right(self._amounts, amount)
        return self._firsts[place - 1] if place else 0

    def note(self, amount: float, first: int) -> None:
        """No position before `first` has an amount, which was not known so far."""
        lo = bisect_left(self._amounts, amount)
        hi = bisect_right(self._firsts, first, lo)
        self._amounts[lo:hi], self._firsts[lo:hi] = [amount], [first]

    def forget(self, lo: int) -> None:
        """Nodes from a position on may have more now than they had."""
        place = bisect_left(self._firsts, lo)
        if place < len(self._firsts):
            self._firsts[place:] = [lo]
            del self._amounts[place + 1 :]


class NodeIndex:
    """Maxima over the positions of a list of shapes, which is the caller's: it grows at its end,
    and where it is changed the caller says so (`late`). The trees are brought up to date
    when they are next asked, once however often a position was changed; O(log n) for one, O(1) each
    for many in a row. track: O(n) once for each resource. first: O(log n) where nodes are alike in
    what they lack."""

    def __init__(self, shapes: Sequence[NodeShape | None]) -> None:
        self._shapes = shapes
        self._capacity = 1
        # how many positions are in the trees
        self.entered = 0
        self._readings: list[Reading] = []
        self._alike: Places[NodeShape | None] | None = None
        self._texts: dict[str, Places[str | None]] = {}
        # positions that have another shape than the trees know
        self.late: set[int] = set()
        self._staircases: defaultdict[Hashable, Staircase] = defaultdict(Staircase)
        # from where on nodes got more than they had, each time
        self._raised: list[int] = []

    def track(self, reading: Reading) -> None:
        """Keep `reading.tree` from now on, whose item 1 is the most of all positions. It stays the
        same list, and is to be used right after `catch_up`."""
        self.catch_up()
        reading.tree[:] = [-math.inf] * (2 * self._capacity)
        self._enter_all([reading], 0, self.entered)
        self._readings.append(reading)

    def catch_up(self) -> None:
        """Bring the trees up to date with the list of shapes."""
        size, late = len(self._shapes), self.late
        if self.entered < size:
            if size > self._capacity:
                self._capacity = 1 << (size - 1).bit_length()
                for reading in self._readings:
                    reading.tree[:] = [-math.inf] * (2 * self._capacity)
                self.entered = 0
            late.update(range(self.entered, size))
            self.entered = size
        if not late:
            return
        lo, hi = (min(late), max(late) + 1) if len(late) > _FEW else (0, math.inf)
        if hi - lo <= 2 * len(late):
            self._enter_all(self._readings, lo, int(hi))
        else:
            self._enter(late)
        if self._alike is not None:
            self._alike.changed(late)
        for places in self._texts.values():
            places.changed(late)
        late.clear()

    def alike(self) -> Places[NodeShape | None]:
        """Where the nodes of each shape are; kept from now on."""
        self.catch_up()
        if self._alike is None:
            self._alike = Places(self._shapes, by_shape)
        return self._alike

    def texts(self, name: str) -> Places[str | None]:
        """Where the nodes are that have each text for a resource; kept from now on."""
        self.catch_up()
        if name not in self._texts:
            self._texts[name] = Places(self._shapes, by_text(name))
        return self._texts[name]

    def staircase(self, others: Hashable) -> Staircase:
        """What is known of all who ask the same of all resources but the last of their needs."""
        return self._staircases[others]

    def forget_searches(self, lo: int) -> None:
        """Nodes from a position on may have more now than they had."""
        self._raised.append(lo)

    def first(self, start: int, needs: Sequence[Need], searched: Staircase | None = None) -> int:
        """The first position from `start` on where every need may be met; -1 when there is none.
        `searched`: where to begin, for it takes long to find a node that has enough of each of two
        resources behind many that have enough of either."""
        self.catch_up()
        if searched is None:
            return first_meeting(needs, start, self._capacity)
        if news := self._raised[searched.heard :]:
            searched.forget(min(news))
            searched.heard += len(news)
        amount = needs[-1][1]
        begin = searched.first(amount)
        found = first_meeting(needs, begin, self._capacity) if begin < self.entered else -1
        end = found if found >= 0 else self.entered
        if end > begin:
            searched.note(amount, end)
        return first_meeting(needs, start, self._capacity) if 0 <= found < start else found

    def _enter_all(self, readings: Sequence[Reading], lo: int, hi: int) -> None:
        """Bring the trees up to date for positions in a row, level by level."""
        shapes = self._shapes[lo:hi]
        for reading in readings:
            tree = reading.tree
            start, end = self._capacity + lo, self._capacity + hi
            tree[start:end] = reading.all(shapes)
            while end - start > 1:
                start, end = start >> 1, (end + 1) >> 1
                left, right = tree[2 * start : 2 * end : 2], tree[2 * start + 1 : 2 * end : 2]
                # a third of the time that `max` of each takes
                tree[start:end] = [a if a > b else b for a, b in zip(left, right, strict=True)]
            climb(tree, start)

    def _enter(self, positions: Iterable[int]) -> None:
        """Bring the trees up to date for positions that are not in a row, one by one."""
        shapes, capacity = self._shapes, self._capacity
        for reading in self._readings:
            tree, known = reading.tree, reading.known
            for position in positions:
                shape, leaf = shapes[position], capacity + position
                most = known[shape] if shape in known else reading(shape)
                if tree[leaf] != most:
                    tree[leaf] = most
                    climb(tree, leaf)
