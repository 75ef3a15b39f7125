"""Trees of maxima: the first of many numbers that is large enough, found in a few steps.

Item i of a tree is the greater of items 2i and 2i + 1; the numbers themselves are its second half, a power of two of them.
Used for the nodes of a bucket (`room`) and for the placement groups of a family (`groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)

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
    """The first place from `start` on where every need may be met; -1 when there is none. The trees are of `capacity` numbers
    each. With one need the answer is a place that meets it; O(log n) where places are alike in what they lack.

    Each turn descends one level or leaves a subtree for the one to its right, so it ends.
    """
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


class Row:
    """Numbers in places, -1 where nothing was set."""

    __slots__ = ("_capacity", "_length", "_tree")

    def __init__(self, length: int) -> None:
        self._length = length
        self._capacity = 1 << max(0, length - 1).bit_length()
        self._tree = [-1] * (2 * self._capacity)

    def all(self) -> list[int]:
        """The numbers."""
        return self._tree[self._capacity : self._capacity + self._length]

    def set(self, place: int, number: int) -> None:
        """Put a number in its place. O(log n)."""
        leaf = self._capacity + place
        if self._tree[leaf] != number:
            self._tree[leaf] = number
            climb(self._tree, leaf)

    def first(self, least: int, start: int) -> int:
        """The first place from `start` on with a number of at least `least`, which is above -1; -1 when there is none."""
        return first_meeting([(self._tree, least)], start, self._capacity)
