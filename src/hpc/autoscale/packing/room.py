"""Where in a bucket there may be room, found without looking at every node.

A tree over the bucket's positions holds, for each resource that some demand asks a minimum of, the most that any node
of a subtree has free. First-fit then skips whole subtrees that cannot hold the demand. The answer is a candidate: what
it skips cannot fit, what it returns may.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hpc.autoscale.packing.shape import NodeShape

Reading = Callable[[NodeShape | None], float]
"""How much of one resource a node has; -inf where it cannot serve at all, +inf where the tree cannot tell."""

Need = tuple[list[float], float]


_FEW = 64


class RoomTree:
    """Maxima over positions. track: O(n) once for each resource. set: O(range) for each tracked resource; what is set
    for a few positions is taken into the tree when it is next asked, once however often it was set, in O(log n) each.
    first: O(log n) where nodes are alike in what they lack. Positions beyond the tree cannot serve: it grows when one
    can."""

    __slots__ = ("_capacity", "_trees", "late")

    def __init__(self) -> None:
        self._capacity = 1
        self._trees: list[tuple[list[float], Reading]] = []
        # by position: shapes that are not in the tree yet; a position that is there already may be written here
        self.late: dict[int, NodeShape | None] = {}

    def track(self, reading: Reading, shapes: Sequence[NodeShape | None]) -> list[float]:
        """Take a resource into the tree; `shapes` are those of all positions. Returned is the tree of that resource, whose
        item 1 is the most of all positions, to be handed back in a `Need`; it stays the same list, and is to be used
        right after `catch_up`."""
        self.catch_up()
        if len(shapes) > self._capacity:
            self._grow(len(shapes))
        tree = _tree([reading(s) for s in shapes], self._capacity)
        self._trees.append((tree, reading))
        return tree

    def set(self, lo: int, hi: int, shape: NodeShape | None) -> None:
        """Positions lo … hi-1 have this shape now."""
        if not self._trees:
            return
        if hi - lo <= _FEW:
            self.late.update(dict.fromkeys(range(lo, hi), shape))
            return
        self.catch_up()
        if not self._covers(hi - 1, shape):
            hi = self._capacity
            if lo >= hi:
                return
        capacity = self._capacity
        for tree, reading in self._trees:
            tree[capacity + lo : capacity + hi] = [reading(shape)] * (hi - lo)
            first, last = (capacity + lo) >> 1, (capacity + hi - 1) >> 1
            while first:
                for node in range(first, last + 1):
                    left, right = tree[2 * node], tree[2 * node + 1]
                    tree[node] = left if left >= right else right
                first >>= 1
                last >>= 1

    def catch_up(self) -> None:
        """Take in what was set for few positions."""
        if not self.late:
            return
        for position, shape in self.late.items():
            if not self._covers(position, shape):
                continue
            leaf = self._capacity + position
            for tree, reading in self._trees:
                most, node = reading(shape), leaf
                while node and tree[node] != most:
                    tree[node] = most
                    beside = tree[node ^ 1]
                    most = most if most >= beside else beside
                    node >>= 1
        self.late.clear()

    def first(self, start: int, needs: Sequence[Need]) -> int:
        """The first position from `start` on where every need may be met; -1 when there is none.

        Each turn descends one level or leaves a subtree for the one to its right, so it ends.
        """
        self.catch_up()
        capacity = self._capacity
        if start >= capacity:
            return -1
        node = capacity + start
        while node & 1 == 0:
            node >>= 1
        while True:
            for tree, amount in needs:
                if tree[node] < amount:
                    break
            else:
                if node >= capacity:
                    return node - capacity
                node <<= 1
                continue
            while node & 1:
                node >>= 1
            if not node:
                return -1
            node += 1

    def _covers(self, position: int, shape: NodeShape | None) -> bool:
        """Whether a position is in the tree, which grows where a node of this shape could serve there."""
        if position >= self._capacity:
            if all(reading(shape) == -math.inf for _, reading in self._trees):
                return False
            self._grow(position + 1)
        return True

    def _grow(self, size: int) -> None:
        old = self._capacity
        self._capacity = 1 << (size - 1).bit_length()
        for tree, _ in self._trees:
            tree[:] = _tree(tree[old:], self._capacity)


def _tree(leaves: Sequence[float], capacity: int) -> list[float]:
    """The maxima over leaves, of which there may be fewer than `capacity`: item i is the greater of items 2i and 2i + 1."""
    levels = [[*leaves, *[-math.inf] * (capacity - len(leaves))]]
    while len(levels[-1]) > 1:
        level = levels[-1]
        levels.append(list(map(max, level[::2], level[1::2])))
    return [-math.inf, *(most for level in reversed(levels) for most in level)]
