"""Values of two parts each, kept as two lists.

Python's garbage collector looks at every tuple that has more in it than texts and numbers, in each
pass, and a journal keeps one for each job and host. What many of them share is a part of its own
here, so that the rest is nothing to look at: of 160,000 objects in a loop over 5,000 nodes and
7,000 jobs, 27,000 are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from marshal import dumps, loads
from typing import Any, overload

from hpc.autoscale.journal.portable import portable, restored

_SHARED = 10_000
"""Different values that are kept once, at most."""


class Pairs:
    """Pairs of what is each row's own, and what it may share with others. As a list of them."""

    __slots__ = ("own", "shared")

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        every = list(pairs)
        self.own: list[Any] = [own for own, _ in every]
        self.shared: list[Any] = [shared for _, shared in every]

    @classmethod
    def of(cls, own: list[Any], shared: list[Any]) -> Pairs:
        """The pairs of two lists, which become its own."""
        found = cls()
        found.own, found.shared = own, shared
        return found

    def __len__(self) -> int:
        return len(self.own)

    def __iter__(self) -> Iterator[Any]:
        return zip(self.own, self.shared, strict=True)

    @overload
    def __getitem__(self, at: int) -> tuple[Any, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> Pairs: ...

    def __getitem__(self, at: int | slice) -> tuple[Any, Any] | Pairs:
        own, shared = self.own[at], self.shared[at]
        if isinstance(at, int):
            return (own, shared)
        return Pairs.of(own, shared)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pairs):
            return NotImplemented
        return self.own == other.own and self.shared == other.shared

    __hash__ = None  # type: ignore[assignment]

    def __iadd__(self, more: Pairs) -> Pairs:
        self.own += more.own
        self.shared += more.shared
        return self

    def append(self, pair: tuple[Any, Any]) -> None:
        """One more."""
        own, shared = pair
        self.own.append(own)
        self.shared.append(shared)


def shared(values: list[Any] | tuple[Any, ...], *first: Any) -> tuple[Any, ...]:
    """`first`, as they are, and copies of texts, numbers, sizes, lists, tuples and dictionaries, at
    any depth, which must not be written to: equal tuples are one object. Values with something else
    in them share nothing."""
    try:
        return _made_of(dumps(values, 2), *first)
    except ValueError:
        pass
    try:
        return _restored_of(dumps(portable(tuple(values)), 2), *first)
    except ValueError:
        return (*first, *copied(values))


@lru_cache(_SHARED)
def _made_of(said: bytes, *first: Any) -> tuple[Any, ...]:
    return (*first, *loads(said))


@lru_cache(_SHARED)
def _restored_of(said: bytes, *first: Any) -> tuple[Any, ...]:
    return (*first, *restored(loads(said)))


def copied(value: Any) -> Any:
    """A copy of what JSON has lists and objects for, at any depth."""
    if isinstance(value, dict):
        return {key: copied(below) for key, below in value.items()}
    return type(value)(map(copied, value)) if value.__class__ in (list, tuple) else value
