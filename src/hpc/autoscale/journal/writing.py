"""Writing a journal: a record has what has changed since the record before.

A writer remembers what it wrote last. The next record builds on that as long as nobody else has
written in between; otherwise, and at the start of a file, a record stands by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.journal.changes import NO_ROWS, Rows, change, changed, whole
from hpc.autoscale.journal.files import Directory, FileEnd, Keeping
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.journal.records import (
    EMPTY,
    LISTS,
    READ,
    VERSION,
    PassRecord,
    Written,
    as_written,
    from_lists,
)
from hpc.autoscale.redaction import Hiding


class JournalWriter:
    """Appends to the journal in a directory, which is made when it is first written to.

    Processes may write to one journal side by side. A record that cannot be written, because the
    disk is full or the directory is read-only, is a JournalError, and the next one stands by
    itself.
    """

    def __init__(self, path: str | os.PathLike[str], keeping: Keeping | None = None) -> None:
        self._directory = Directory(path, keeping)
        self._last: Written | None = None
        self._place: FileEnd | None = None
        self._began = 0.0

    @property
    def path(self) -> str:
        """The directory."""
        return str(self._directory.path)

    @property
    def lists(self) -> Mapping[str, Rows]:
        """The lists of the last record; none where the next one will stand by itself."""
        return {} if self._last is None else self._last.lists

    def will_stand_alone(self) -> bool:
        """Whether the next record will stand by itself, unless others write meanwhile."""
        if self._last is None or self._place is None:
            return True
        place = self._directory.newest()
        return place != self._place or self._directory.is_full(place, self._began, clock.time())

    def write(self, record: PassRecord) -> None:
        """Append a pass. What its lists hold must not be changed afterwards. JournalError when it
        cannot be written."""
        self.append(as_written(record))

    def append(self, record: Written) -> None:
        """The same for a record whose lists are rows."""
        now = clock.time()
        last, self._last = self._last, None
        if last is not None:  # what was not heard this time stays as it was
            record.lists = {**last.lists, **record.lists}
        with self._directory.locked():
            place = self._directory.newest()
            if place is None:
                place, last = self._directory.next_file(None), None
            elif place != self._place:
                place, last = self._directory.repaired(place), None
            begins = place.end == 0
            if not begins and (self._place is None or place.path != self._place.path):
                self._began = self._directory.began(place)
            if not begins and self._directory.is_full(place, self._began, now):
                place, begins = self._directory.next_file(place), True
            if begins:
                self._began, last = now, None
            text = _text(document(last, record), record.hiding)
            self._place = self._directory.append(place, packed(text.encode() + b"\n", now))
            if begins:
                self._directory.forget_old(now)
        self._last = record


def document(last: Written | None, record: Written) -> dict[str, Any]:
    """A record as it is written: what differs from the last one, or all of it."""
    found: dict[str, Any] = {"version": VERSION, "at": record.at}
    if last is None:
        found["whole"] = True
    for name in ("by", "config"):
        value = getattr(record, name)
        if last is None or value != getattr(last, name):
            found[name] = value
    lists: dict[str, Any] = {}
    for name, rows in record.lists.items():
        if last is None:
            # of lists that need not be there, an empty one is another thing than none
            if rows.keys or name not in EMPTY:
                lists[name] = whole(rows)
        elif (what := change(last.lists.get(name, NO_ROWS), rows)) is not None:
            lists[name] = what
    found["read"] = {name: lists.pop(name) for name in READ if name in lists}
    found["decided"] = record.decided
    found["did"] = record.did
    if lists:
        found["lists"] = lists
    if record.doors:
        found["doors"] = record.doors
    return found


def _text(what: dict[str, Any], hiding: Hiding) -> str:
    """A line of the journal, without any secret that is known."""
    text = json.dumps(what, separators=(",", ":"), default=_plain)
    if hiding(text) == text:
        return text
    # within a number, or in a word of this form, it would be no secret, and no record any more
    own = {
        key: value if key == "version" else hiding.throughout(value)
        for key, value in json.loads(text).items()
    }
    return json.dumps(own, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """What JSON has for values that are none of its own."""
    for form in ("to_json", "to_dict"):
        convert = getattr(value, form, None)
        if callable(convert):
            return convert()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if hasattr(value, "items"):
        return dict(value)
    return str(value)


def as_read(record: Written) -> PassRecord:
    """A record as a reader of it would have it."""
    found = json.loads(_text(document(None, record), record.hiding))
    every = {**found["read"], **found.get("lists", {})}
    lists: dict[str, dict[str, Any]] = {name: {} for name in LISTS}
    lists.update((name, changed({}, what)) for name, what in every.items())
    return from_lists(found, lists, found, 0)
