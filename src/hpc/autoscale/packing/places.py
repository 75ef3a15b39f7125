"""Where in a bucket the nodes of each shape are, for expressions whose refusal is not final.

Such an expression may find room where it found none before, so nothing can be remembered of positions. But most nodes look
alike: to ask each shape once, and where its first node is, takes far fewer steps than to go through the nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from hpc.autoscale.packing.shape import NodeShape


class Places:
    """Positions by shape, of a list of shapes that is the caller's: it grows at its end, and where it is changed the caller
    says so. Cost: a binary search for each shape that is asked for, and for each position that is changed.
    """

    __slots__ = ("_entered", "_shapes", "_where")

    def __init__(self, shapes: Sequence[NodeShape | None]) -> None:
        self._shapes = shapes
        # the shapes as they were when they were last looked at
        self._entered: list[NodeShape | None] = []
        self._where: dict[NodeShape | None, list[int]] = {}

    def changed(self, positions: Iterable[int]) -> None:
        """Nodes have other shapes now."""
        entered, shapes = self._entered, self._shapes
        for position in positions:
            if position >= len(entered) or entered[position] is shapes[position]:
                continue
            there = self._where[entered[position]]
            del there[bisect_left(there, position)]
            if not there:
                del self._where[entered[position]]
            entered[position] = shapes[position]
            insort(self._where.setdefault(shapes[position], []), position)

    def first_of_each(self, start: int) -> Iterator[tuple[NodeShape | None, int]]:
        """Each shape that is found from a position on, with its first position from there, in no order."""
        size = len(self._entered)
        for position, shape in enumerate(self._shapes[size:], size):
            self._where.setdefault(shape, []).append(position)
            self._entered.append(shape)
        for shape, positions in self._where.items():
            if positions[-1] >= start:
                yield shape, positions[bisect_left(positions, start) if start else 0]
