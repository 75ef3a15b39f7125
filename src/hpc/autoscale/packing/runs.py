"""The nodes of a bucket, in order, as runs of equal shape.

Positions never move: nodes are added at the end, and one that goes away leaves a position of shape None. So a position
is a node's identity in the engine, first-fit order is position order, and a thousand equal nodes are one run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from hpc.autoscale.packing.shape import NodeShape


class RunList:
    """Shapes by position, run-length encoded; neighbours of equal shape are one run.

    append: O(1). at, assign: O(log runs) to find, and a move of the run list's tail. walk: O(runs walked).
    """

    __slots__ = ("_shapes", "_starts", "size")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._shapes: list[NodeShape | None] = []
        self.size = 0

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._starts)

    def append(self, shape: NodeShape | None, count: int = 1) -> None:
        """Add `count` nodes at the end."""
        if count <= 0:
            return
        if not self._shapes or self._shapes[-1] is not shape:
            self._starts.append(self.size)
            self._shapes.append(shape)
        self.size += count

    def at(self, position: int) -> NodeShape | None:
        """The shape at a position."""
        return self._shapes[self._run_of(position)]

    def run_from(self, position: int) -> tuple[int, NodeShape | None]:
        """Where the run at a position ends, and its shape."""
        index = self._run_of(position)
        return self._end(index), self._shapes[index]

    def assign(self, lo: int, hi: int, shape: NodeShape | None) -> None:
        """Give the positions lo … hi-1 one shape."""
        if not 0 <= lo < hi <= self.size:
            raise IndexError(f"expected a range within 0…{self.size}, found {lo}…{hi}")
        first = self._run_of(lo)
        if hi - lo == 1 and self._assign_lone(first, lo, shape):
            return
        last = self._run_of(hi - 1)
        if first == last and self._shapes[first] is shape:
            return
        starts, shapes = [lo], [shape]
        if self._starts[first] < lo:
            starts.insert(0, self._starts[first])
            shapes.insert(0, self._shapes[first])
        if hi < self._end(last):
            starts.append(hi)
            shapes.append(self._shapes[last])
        self._starts[first : last + 1] = starts
        self._shapes[first : last + 1] = shapes
        self._merge(max(0, first - 1), first + len(starts) + 1)

    def _assign_lone(self, index: int, position: int, shape: NodeShape | None) -> bool:
        """`assign` for a run of one node that comes to be like no neighbour; False, and nothing done, for any other."""
        starts, shapes = self._starts, self._shapes
        if starts[index] != position or self._end(index) != position + 1:
            return False
        if index and shapes[index - 1] is shape:
            return False
        if index + 1 < len(shapes) and shapes[index + 1] is shape:
            return False
        shapes[index] = shape
        return True

    def walk(self, start: int = 0) -> Iterator[tuple[int, int, NodeShape | None]]:
        """(lo, hi, shape) of each run from `start` on, the first cut to begin there. Not to be changed meanwhile."""
        if start >= self.size:
            return
        index = self._run_of(start)
        lo = start
        while index < len(self._starts):
            hi = self._end(index)
            yield lo, hi, self._shapes[index]
            lo = hi
            index += 1

    def _run_of(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _end(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self._starts) else self.size

    def _merge(self, lo: int, hi: int) -> None:
        """Join neighbours of equal shape among the runs lo … hi-1."""
        for index in range(min(hi, len(self._shapes)) - 1, lo, -1):
            if self._shapes[index] is self._shapes[index - 1]:
                del self._shapes[index], self._starts[index]
