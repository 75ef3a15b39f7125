"""What has changed in a list since it was last written, and the list made of that again.

A list is one of rows: each has a key of its own, and a value. Most rows of a cluster and of a queue
are the same from pass to pass, in the same order, and a change names those alone that are not.
Pure: nothing here knows what the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.journal.errors import JournalError


def _same(value: Any) -> Any:
    return value


class Rows(NamedTuple):
    """A list to be written. Rows are the same when their `values` are equal; `plain` makes of a
    value what JSON has for it, and `bare` what is the same in every process for the same value:
    texts, numbers, and lists, tuples and dictionaries of them."""

    keys: list[str]
    values: list[Any]
    plain: Callable[[Any], Any] = _same
    bare: Callable[[Any], Any] = _same

    @staticmethod
    def of(items: Iterable[Any], key: Callable[[Any], object]) -> Rows:
        """Items that JSON can hold as they are, by a key each."""
        values = list(items)
        return Rows(distinct([str(key(value)) for value in values]), values)

    @staticmethod
    def of_texts(texts: Iterable[str]) -> Rows:
        """Texts, which are their own keys."""
        keys = distinct(list(texts))
        return Rows(keys, [None] * len(keys))


NO_ROWS = Rows([], [])


def distinct(keys: list[str]) -> list[str]:
    """The same keys, those that were there before with a number behind."""
    if len(set(keys)) == len(keys):
        return keys
    taken: set[str] = set()
    found = []
    for key in keys:
        own, number = key, 1
        while own in taken:
            number += 1
            own = f"{key}\x1f{number}"
        taken.add(own)
        found.append(own)
    return found


def given(key: str) -> str:
    """The key as it was before `distinct`."""
    return key.partition("\x1f")[0]


_PIECE = 64


def change(before: Rows, after: Rows, marks: Sequence[Any] | None = None) -> dict[str, Any] | None:
    """What makes the one list of the other, in terms of JSON; None where they are the same.

    `marks`: what stands for the values after when they are compared, where the values before are
    such marks.
    """
    new = after.values if marks is None else marks
    if before.keys == after.keys:
        rows = [[after.keys[i], after.plain(after.values[i])] for i in _others(before.values, new)]
        return {"set": rows} if rows else None
    known = dict(zip(before.keys, before.values, strict=True))
    missing = object()
    found: dict[str, Any] = {}
    keys = after.keys
    different = [i for i, key in enumerate(keys) if known.get(key, missing) != new[i]]
    if different:
        found["set"] = [[keys[i], after.plain(after.values[i])] for i in different]
    there = set(keys)
    gone = [key for key in before.keys if key not in there]
    if gone:
        found["gone"] = gone
    stayed = [key for key in before.keys if key in there]
    added = [i for i, key in enumerate(keys) if key not in known]
    if stayed != [key for key in keys if key in known]:
        found["order"] = _moved([*stayed, *(keys[i] for i in added)], keys)
    elif added and added[0] < len(stayed):
        found["at"] = added
    return found


def _others(old: Sequence[Any], new: Sequence[Any]) -> Iterator[int]:
    """Where two lists of one length differ. Most pieces are the same, and are compared as such."""
    for first in range(0, len(new), _PIECE):
        was, now = old[first : first + _PIECE], new[first : first + _PIECE]
        if was != now:
            yield from (first + i for i in range(len(now)) if was[i] != now[i])


def whole(rows: Rows) -> dict[str, Any]:
    """A list by itself."""
    pairs = zip(rows.keys, rows.values, strict=True)
    return {"all": [[key, rows.plain(value)] for key, value in pairs]}


def _moved(expected: Sequence[str], wanted: Sequence[str]) -> list[Any]:
    """From which row on the order is another one than expected, and the keys from there until it
    is as expected again."""
    count = len(wanted)
    first = next(i for i in range(count) if expected[i] != wanted[i])
    last = next(i for i in range(count, 0, -1) if expected[i - 1] != wanted[i - 1])
    return [first, list(wanted[first:last])]


def changed(before: Mapping[str, Any], what: Mapping[str, Any] | None) -> dict[str, Any]:
    """The list after a change, by key and in order; the list before it is left as it is.

    JournalError for a change of something else.
    """
    try:
        return _changed(before, what)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise JournalError(f"a change does not fit what was there before ({problem})") from None


def _changed(before: Mapping[str, Any], what: Mapping[str, Any] | None) -> dict[str, Any]:
    if what is None:
        return dict(before)
    if "all" in what:
        return dict(what["all"])
    after = dict(before)
    for key in what.get("gone", ()):
        del after[key]
    stayed = list(after)
    after.update((key, value) for key, value in what.get("set", ()))
    if "at" in what:
        order = _inserted(stayed, list(after)[len(stayed) :], what["at"])
        after = {key: after[key] for key in order}
    if "order" in what:
        first, keys = what["order"]
        order = list(after)
        if set(order[first : first + len(keys)]) != set(keys):
            raise ValueError("other rows would move")
        order[first : first + len(keys)] = keys
        after = {key: after[key] for key in order}
    return after


def _inserted(stayed: Sequence[str], added: Sequence[str], places: Sequence[int]) -> list[str]:
    """Rows that stayed, with those that were added at these places. ValueError for other places."""
    order = list(stayed)
    for place, key in zip(places, added, strict=True):
        if not 0 <= place <= len(order):
            raise ValueError("a row would stand nowhere")
        order.insert(place, key)
    return order
