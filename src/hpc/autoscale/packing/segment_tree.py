"""Where in a bucket there may be room, found without looking at every node.

A tree over the bucket's positions holds, for each resource that some demand asks a minimum of, the most that any node
of a subtree has free. First-fit then skips whole subtrees that cannot hold the demand. The answer is a candidate: what
it skips cannot fit, what it returns may.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from hpc.autoscale.packing.maxima import Need, climb, first_meeting
from hpc.autoscale.packing.places import Places, by_shape, by_text
from hpc.autoscale.packing.reading import Reading
from hpc.autoscale.packing.shape import NodeShape

_FEW = 64


class SegmentTrees:
    """Maxima over the positions of a list of shapes, which is the caller's: it grows at its end, and where it is changed
    the caller says so (`late`, `changed`). The trees are brought up to date when they are next asked, once however often
    a position was changed; O(log n) for one, O(1) each for many in a row. track: O(n) once for each resource. first: O(log n)
    where nodes are alike in what they lack."""

    __slots__ = ("_alike", "_capacity", "_entered", "_readings", "_shapes", "_texts", "late")

    def __init__(self, shapes: Sequence[NodeShape | None]) -> None:
        self._shapes = shapes
        self._capacity = 1
        # how many positions are in the trees
        self._entered = 0
        self._readings: list[Reading] = []
        self._alike: Places[NodeShape | None] | None = None
        self._texts: dict[str, Places[str | None]] = {}
        # positions that have another shape than the trees know
        self.late: set[int] = set()

    def track(self, reading: Reading) -> None:
        """Keep `reading.tree` from now on, whose item 1 is the most of all positions. It stays the same list, and is to be
        used right after `catch_up`."""
        self.catch_up()
        reading.tree[:] = [-math.inf] * (2 * self._capacity)
        self._enter_all([reading], 0, self._entered)
        self._readings.append(reading)

    def changed(self, lo: int, hi: int) -> None:
        """Positions lo … hi-1 have other shapes now."""
        if hi - lo <= _FEW:
            self.late.update(range(lo, hi))
            return
        self.catch_up()
        self._enter_all(self._readings, lo, hi)
        self._tell_places(range(lo, hi))

    def catch_up(self) -> None:
        """Take in what has changed."""
        size = len(self._shapes)
        if self._entered < size:
            while size > self._capacity:
                self._double()
            if size - self._entered > 8:
                self._enter_all(self._readings, self._entered, size)
            else:
                self._enter(range(self._entered, size))
            self._entered = size
        if self.late:
            self._enter(self.late)
            self._tell_places(self.late)
            self.late.clear()

    def _tell_places(self, positions: Collection[int]) -> None:
        if self._alike is not None:
            self._alike.changed(positions)
        for places in self._texts.values():
            places.changed(positions)

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

    def first(self, start: int, needs: Sequence[Need]) -> int:
        """The first position from `start` on where every need may be met; -1 when there is none."""
        self.catch_up()
        return first_meeting(needs, start, self._capacity)

    def _double(self) -> None:
        """Room for as many positions more. What was a tree is the left half of a greater one."""
        for reading in self._readings:
            old, tree = reading.tree[:], reading.tree
            tree[1:] = old[1:2]
            width = 1
            while width < len(old):
                tree += old[width : 2 * width]
                tree += [-math.inf] * width
                width *= 2
        self._capacity *= 2

    def _enter_all(self, readings: Sequence[Reading], lo: int, hi: int) -> None:
        """Take in positions in a row."""
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
        """Take in positions here and there."""
        shapes, capacity = self._shapes, self._capacity
        for reading in self._readings:
            tree, known = reading.tree, reading.known
            for position in positions:
                shape, leaf = shapes[position], capacity + position
                most = known[shape] if shape in known else reading(shape)
                if tree[leaf] != most:
                    tree[leaf] = most
                    climb(tree, leaf)
