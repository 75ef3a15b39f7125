"""What has changed in a list since it was last written, and the list made of that again.

A list is one of rows: each has a key of its own, and a value. Most rows of a cluster and of a queue
are the same from pass to pass, in the same order, and a change names those alone that are not.
Pure: nothing here knows what the rows are.
"""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale.journal.errors import JournalError
from hpc.autoscale.journal.pairs import Pairs


def _same(value: Any) -> Any:
    return value


class Since(NamedTuple):
    """How rows differ from others, `mark` of which is given: the places of those that are other
    ones, of them those that were not there, and the keys of those that are gone. All others are
    where they were, but for that."""

    mark: object
    others: list[int]
    added: list[int]
    gone: list[str]


if TYPE_CHECKING:
    Digests = array[Any]
else:  # Python 3.11 knows no kinds of arrays
    Digests = array
"""A number of 64 bits for each row, which tells its value from others (`digests`)."""

Values = list[Any] | Pairs | Digests


class Rows(NamedTuple):
    """A list to be written. Rows are the same when their `values` are equal; `plain` makes of a
    value what JSON has for it.

    `source`: bytes that say the same where they are the same, if there are any. `digested`: these
    rows as digests, their source too, where those are known. `mark` is of these rows alone, and
    `since` says how they differ from others (`settled`).
    """

    keys: list[str]
    values: Values
    plain: Callable[[Any], Any] = _same
    source: bytes | None = None
    digested: Rows | None = None
    mark: object = None
    since: Since | None = None

    @property
    def are_digests(self) -> bool:
        """Whether that is all that is known of the values, and of the source."""
        return isinstance(self.values, array)

    @staticmethod
    def of(items: Iterable[Any], key: Callable[[Any], object]) -> Rows:
        """Items that JSON can hold as they are, by a key each."""
        values = list(items)
        return Rows(distinct([str(key(value)) for value in values]), values)

    @staticmethod
    def of_texts(texts: Iterable[str], before: Rows | None = None) -> Rows:
        """Texts, which are their own keys; the rows `before` if these have them. A list of them
        must not be written to afterwards."""
        keys = texts if isinstance(texts, list) else list(texts)
        if before is not None and keys == before.keys:
            return before
        return Rows(distinct(keys), [None] * len(keys))


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


_FEW = 8
_PIECE = 256
"""Rows that are compared at once. Most are the same, and then nothing is looked at one by one."""

Alike = Callable[[Sequence[Any], Any], int]
"""Of some items and as many values: how many at the start are the same."""


def leading(found: Sequence[Any], known: Sequence[Any]) -> int:
    """How many are equal at the start of two lists, or two tuples, of one length."""
    if found == known:
        return len(found)
    pairs = enumerate(zip(found, known, strict=True))
    return next((i for i, (a, b) in pairs if a is not b and a != b), len(found))


def settled(
    items: Sequence[Any],
    before: Rows,
    alike: Alike,
    name_of: Callable[[Any], str],
    made: Callable[[Any], Any],
    kind: type[list[Any]] | type[Pairs] = list,
    plain: Callable[[Any], Any] = _same,
) -> Rows:
    """Items as rows, where the value of a row that is as it was `before` is the very same object:
    what is done with it afterwards costs next to nothing. `before` itself where all are.

    `alike` holds items against values of before. `made` makes the value of an item that is another
    one, or new. `kind`: what the values are kept in. `plain` as in `Rows`.
    """
    if items and not (before.keys and isinstance(before.values, kind)):
        names, values = [name_of(item) for item in items], kind(made(item) for item in items)
        return Rows(distinct(names), values, plain, mark=object())
    settling = _Settling(before, alike, name_of, made)
    settling.take(items)
    return settling.rows(plain)


class _Settling:
    """Items held against what was before, in their order."""

    def __init__(
        self,
        before: Rows,
        alike: Alike,
        name_of: Callable[[Any], str],
        made: Callable[[Any], Any],
    ) -> None:
        self._before, self._alike, self._name_of, self._made = before, alike, name_of, made
        self._keys: list[str] = []
        self._values: Any = before.values[:0]
        self._others: list[int] = []
        self._added: list[int] = []
        self._gone: list[str] = []
        self._have_moved = False
        self._until = 0  # of the rows before, all up to this one are above, or gone
        self._at = 0  # and those from there to this one are as they were
        self._places: dict[str, int] | None = None
        self._asked = 0

    def take(self, items: Sequence[Any]) -> None:
        """All items. They are looked at in smaller pieces where many are other ones."""
        done, piece = 0, _PIECE
        while done < len(items):
            some = items[done : done + piece]
            values = self._before.values[self._at : self._at + len(some)]
            count = self._alike(some[: len(values)], values)
            self._at += count
            done += count
            piece = min(2 * piece, _PIECE)
            if count < len(some):
                self._take_another(items[done])
                done += 1
                piece = max(1, piece // 8)

    def rows(self, plain: Callable[[Any], Any]) -> Rows:
        """All that was taken."""
        old = self._before
        self._gone += old.keys[self._at :]
        if not (self._others or self._gone or self._have_moved):
            return old
        self._catch_up()
        names, mark = {self._keys[i] for i in self._added}, object()
        if self._have_moved or len(names) < len(self._added):
            return Rows(distinct(self._keys), self._values, plain, mark=mark)
        since = Since(old.mark, self._others, self._added, self._gone)
        return Rows(self._keys, self._values, plain, mark=mark, since=since)

    def _take_another(self, item: Any) -> None:
        """An item that is not the next one as it was."""
        name, old = self._name_of(item), self._before
        place = self._place_of(name)
        self._catch_up()
        if place is None:
            self._added.append(len(self._keys))
            self._add(name, self._made(item))
            return
        self._have_moved = self._have_moved or place < self._at
        is_next = place == self._at  # which was seen to be another one
        self._gone += old.keys[self._at : place]
        self._at = self._until = place
        if is_next or not self._alike([item], old.values[place : place + 1]):
            value = self._made(item)
            # what is hard to compare may have made the same once more
            if value != old.values[place]:
                self._add(old.keys[place], value)
                self._until += 1
        self._at += 1

    def _place_of(self, name: str) -> int | None:
        """Where there was a row of this name, which is mostly the next one. To look through all is
        best where few are others."""
        keys = self._before.keys
        if keys[self._at : self._at + 1] == [name]:
            return self._at
        if self._places is None and self._asked < _FEW:
            self._asked += 1
            return keys.index(name) if name in keys else None
        if self._places is None:
            self._places = {key: place for place, key in enumerate(keys)}
        return self._places.get(name)

    def _catch_up(self) -> None:
        self._keys += self._before.keys[self._until : self._at]
        self._values += self._before.values[self._until : self._at]
        self._until = self._at

    def _add(self, key: str, value: Any) -> None:
        self._others.append(len(self._keys))
        self._keys.append(key)
        self._values.append(value)


def change(before: Rows, after: Rows, marks: Values | None = None) -> dict[str, Any] | None:
    """What makes the one list of the other, in terms of JSON; None where they are the same.

    `marks`: what stands for the values after when they are compared, where the values before are
    such marks.
    """
    mark = before.mark
    if after is before or (mark is not None and after.mark is mark):
        return None
    keys, have_moved = after.keys, False
    if mark is not None and after.since is not None and after.since.mark is mark:
        _, places, added, gone = after.since
    else:
        old, new = before.values, after.values if marks is None else marks
        runs, added, gone, have_moved = _aligned(before.keys, keys)
        differ = (
            j + index
            for i, j, count in runs
            for index in _others(old[i : i + count], new[j : j + count])
        )
        places = sorted([*differ, *added])
    found: dict[str, Any] = {}
    if places:
        found["set"] = [[keys[i], after.plain(after.values[i])] for i in places]
    if gone:
        found["gone"] = gone
    if have_moved:
        there = set(keys)
        stayed = [key for key in before.keys if key in there]
        found["order"] = _moved([*stayed, *(keys[i] for i in added)], keys)
    elif added and added[0] < len(before.keys) - len(gone):
        found["at"] = added
    return found or None


Run = tuple[int, int, int]
"""Rows that follow each other in two lists: from where on in either, and how many."""


def _aligned(old: list[str], new: list[str]) -> tuple[list[Run], list[int], list[str], bool]:
    """Two lists of keys held against each other: what is in both, which of the new ones were added,
    which of the old ones are gone, and whether those in both have another order."""
    i = _alike(old, new)
    same_at_end = _alike(old[i:][::-1], new[i:][::-1])
    end, new_end = len(old) - same_at_end, len(new) - same_at_end
    there, known = set(new[i:new_end]), set(old[i:end])
    runs: list[Run] = [(0, 0, i)]
    added: list[int] = []
    gone: list[str] = []
    j = i
    while i < end or j < new_end:
        count = _alike(old, new, i, j)
        if count:
            runs.append((i, j, count))
            i, j = i + count, j + count
        elif i < end and old[i] not in there:
            gone.append(old[i])
            i += 1
        elif j < new_end and new[j] not in known:
            added.append(j)
            j += 1
        else:
            return _moved_about(old, new)
    return [*runs, (i, j, len(old) - i)], added, gone, False


def _moved_about(old: list[str], new: list[str]) -> tuple[list[Run], list[int], list[str], bool]:
    """As `_aligned`, of lists that have what is in both in another order."""
    there, places = set(new), {key: place for place, key in enumerate(old)}
    return (
        [(places[key], j, 1) for j, key in enumerate(new) if key in places],
        [j for j, key in enumerate(new) if key not in places],
        [key for key in old if key not in there],
        True,
    )


def _alike(old: Sequence[str], new: Sequence[str], i: int = 0, j: int = 0) -> int:
    """How many follow each other in both lists, from these places on."""
    count, most = 0, min(len(old) - i, len(new) - j)
    while count < most:
        piece = min(_PIECE, most - count)
        was, now = old[i + count : i + count + piece], new[j + count : j + count + piece]
        if was != now:
            return count + next(n for n in range(piece) if was[n] != now[n])
        count += piece
    return count


def _others(old: Values, new: Values) -> Iterator[int]:
    """Where two lists of one length differ."""
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
    except KeyError as error:
        problem = f"it names the row {error}, which is not there"
    except _Misfit as error:
        problem = str(error)
    except (AttributeError, IndexError, TypeError, ValueError):
        problem = (
            "expected an object with rows as [key, row] under all or set, and keys and places under"
            f" gone, at and order, found {reprlib.repr(what)}"
        )
    raise JournalError(f"a change does not fit what was there before: {problem}")


class _Misfit(ValueError):
    """A change of the right form that is one of something else."""


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
            raise _Misfit("other rows would move")
        order[first : first + len(keys)] = keys
        after = {key: after[key] for key in order}
    return after


def _inserted(stayed: Sequence[str], added: Sequence[str], places: Sequence[int]) -> list[str]:
    """Rows that stayed, with those that were added at these places. _Misfit for other places."""
    order = list(stayed)
    for place, key in zip(places, added, strict=True):
        if not 0 <= place <= len(order):
            raise _Misfit("a row would stand nowhere")
        order.insert(place, key)
    return order
