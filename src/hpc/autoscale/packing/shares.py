"""Shares of new nodes: how many of them each part of the candidates gets, by weight.

A `NodeShare` is a limit that the candidates of one part, such as a region, have in common: it
counts their nodes. New nodes go where the nodes that are there fall short of the share of all, by
largest remainder; a part that can take no more leaves its share to the others. What is in use is
not moved. `search` opens nodes in this order wherever candidates have shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpc.autoscale.packing.limits import NO_LIMIT, Limit


class NodeShare(Limit):
    """The part of all nodes that some candidates are to have: `weight`, a whole number, of the sum
    of all weights. `nodes`: how many they have now. With weight 0 they get no more. While it
    `is_first` they are asked before others, whatever they have."""

    is_first = False

    def __init__(self, name: str, weight: int, nodes: int = 0) -> None:
        super().__init__(name, max_nodes=NO_LIMIT if weight else 0, used_nodes=nodes)
        self.weight = weight

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        return f"{self.name} has weight {self.weight}, so it gets no new nodes"


def apportioned(weights: Sequence[int], total: int) -> list[int]:
    """So many seats for each weight, `total` in all: its whole part of them, and one more for the
    largest remainders; of equal ones the first. The sum of the weights is above 0."""
    whole = sum(weights)
    seats = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(total * weights[i] % whole))
    for index in by_remainder[: total - sum(seats)]:
        seats[index] += 1
    return seats


def new_nodes(weights: Sequence[int], there: Sequence[int], nodes: int) -> list[int]:
    """How many of `nodes` new nodes each part gets, which has so many already. Those that have more
    than their share get none, and the others are filled up by weight among themselves."""
    short = [index for index, weight in enumerate(weights) if weight]
    found = [0] * len(weights)
    while short:
        total = nodes + sum(there[index] for index in short)
        seats = apportioned([weights[index] for index in short], total)
        missing = {i: seat - there[i] for i, seat in zip(short, seats, strict=True)}
        if min(missing.values()) >= 0:
            for index, count in missing.items():
                found[index] = count
            break
        short = [index for index, count in missing.items() if count >= 0]
    return found


def in_turn(shares: Sequence[NodeShare]) -> Iterator[NodeShare]:
    """Parts in the order in which they are asked for one new node; those without weight last.

    What they have now counts, whatever happens before the next is asked for. Each costs as much as
    the first, and few are needed.
    """
    left = sorted(shares, key=lambda share: not share.is_first)
    there = [share.used_nodes for share in left]
    while left:
        turn = new_nodes([share.weight for share in left], there, 1)
        place = turn.index(1) if 1 in turn and not left[0].is_first else 0
        there.pop(place)
        yield left.pop(place)


class InTurn(Sequence[int]):
    """Numbers of candidates in the order in which they are asked for one new node: first those
    without a share, then those of each part in its turn. `parts`: the numbers of each part, in
    their order. Worked out as far as somebody looks."""

    def __init__(
        self, shares: Sequence[NodeShare], parts: Mapping[NodeShare | None, Sequence[int]]
    ) -> None:
        self._parts = parts
        self._known = list(parts.get(None, ()))
        self._turns = in_turn(shares)
        self._length = sum(map(len, parts.values()))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        while len(self._known) < self._length:
            if isinstance(place, int) and 0 <= place < len(self._known):
                break
            self._known += self._parts.get(next(self._turns), ())
        return self._known[place]
