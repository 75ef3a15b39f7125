"""Where in a bucket the nodes are that look alike, or have the same of one resource.

Used where a tree of maxima does not help. An expression whose refusal is not final may find room where it found none before, so
nothing can be remembered of positions: to ask each shape once, and where its first node is, takes far fewer steps than to go
through the nodes. An expression that wants one text of a resource is meant for few nodes, and those are looked up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from hpc.autoscale.packing.shape import NodeShape

Key = TypeVar("Key")


class Places(Generic[Key]):
    """Positions by a key of their shapes, of a list of shapes that is the caller's: it grows at its end, and where it is
    changed the caller says so. Cost: a binary search for each key that is asked for, and for each position that is changed.
    """

    __slots__ = ("_entered", "_key", "_shapes", "_where")

    def __init__(
        self, shapes: Sequence[NodeShape | None], key: Callable[[NodeShape | None], Key]
    ) -> None:
        self._shapes = shapes
        self._key = key
        # the keys as they were when they were last looked at
        self._entered: list[Key] = []
        self._where: dict[Key, list[int]] = {}

    def changed(self, positions: Iterable[int]) -> None:
        """Nodes have other shapes now."""
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
        """Each key that is found from a position on, with its first position from there, in no order."""
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
    """The key of nodes that look alike."""
    return shape


def by_text(name: str) -> Callable[[NodeShape | None], str | None]:
    """The key of nodes that have the same text for a resource; None for those that have none."""

    def text(shape: NodeShape | None) -> str | None:
        found = None if shape is None else shape.free.get(name)
        return found if isinstance(found, str) else None

    return text
