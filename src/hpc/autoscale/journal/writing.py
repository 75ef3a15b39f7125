"""Writing a journal: a record has what has changed since the record before.

A writer remembers what it wrote last, or has it from the process before (`handover`). The next
record builds on that as long as nobody else has written in between; otherwise, and at the start of
a file, a record stands by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.journal.changes import Rows, change, changed, whole
from hpc.autoscale.journal.digests import digest_of
from hpc.autoscale.journal.files import Directory, FileEnd, Keeping
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.journal.handover import LastRecord, forget, handed_over, keep, last_record
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
        self._of_another: LastRecord | None = None
        self._place: FileEnd | None = None
        self._has_left_word = False
        self._began = 0.0

    @property
    def path(self) -> str:
        """The directory."""
        return str(self._directory.path)

    @property
    def lists(self) -> Mapping[str, Rows]:
        """The lists of the last record; none where the next one will stand by itself. Where
        another process has written that, jobs and hosts, and the node records as digests."""
        if self._last is not None:
            return self._last.lists
        known = {} if self._of_another is None else self._of_another.lists
        return {
            name: rows
            for name, rows in known.items()
            if rows.source is not None or not rows.are_digests
        }

    def take_up(self) -> Mapping[str, Any]:
        """Go on where another process has left word of its last record (`append`): what it wanted
        remembered. Nothing where there is no such word, or it is doubtful."""
        try:
            place = self._directory.newest()
            self._of_another = last_record(self._directory.path, place)
            if self._of_another is None or place is None:
                return {}
            self._began = self._directory.began(place)
        except OSError:  # whoever writes the next record is told
            self._of_another = None
            return {}
        self._place = place
        return self._of_another.remembered

    def will_stand_alone(self) -> bool:
        """Whether the next record will stand by itself, unless others write meanwhile."""
        if (self._last or self._of_another) is None or self._place is None:
            return True
        place = self._directory.newest()
        return place != self._place or self._directory.is_full(place, self._began, clock.time())

    def write(self, record: PassRecord) -> None:
        """Append a pass. What its lists hold must not be changed afterwards. JournalError when it
        cannot be written."""
        self.append(as_written(record))

    def begin_anew(self) -> None:
        """Let the next record stand by itself, also that of the next process."""
        self._last = self._of_another = None
        with self._directory.locked():
            forget(self._directory.path)
        self._has_left_word = False

    def append(self, record: Written, remembered: Mapping[str, Any] | None = None) -> bool:
        """Append a pass whose lists are rows, as `write` does; whether its record stands by itself.
        `remembered`: leave word of this record for the next process, which is told this (JSON)."""
        now = clock.time()
        last, self._last = self._last, None
        other, self._of_another = self._of_another, None
        if last is not None:  # what was not heard this time stays as it was
            record.lists = {**last.lists, **record.lists}
        with self._directory.locked():
            place, goes_on = self._next_place(now)
            if not goes_on:
                last, other = None, None
            mine = None
            if other is not None or remembered is not None:
                mine = _for_the_next(record, other, remembered)
            said = _json(document(last, record, other, mine))
            text = _hidden(said, record.hiding)
            content = packed(text.encode() + b"\n", now)
            self._place = self._directory.append(place, content)
            if mine is not None and remembered is not None:
                if text != said:
                    mine = _for_the_next(record, other, remembered, rows_too=False)
                keep(self._directory.path, mine, self._place, content, record.hiding)
                self._has_left_word = True
            elif last is None or self._has_left_word:
                forget(self._directory.path)
                self._has_left_word = False
            if place.end == 0:
                self._directory.forget_old(now)
        self._last = record
        return not goes_on

    def _next_place(self, now: float) -> tuple[FileEnd, bool]:
        """Where the next record goes, and whether it goes on from the last one that is known
        here."""
        place = self._directory.newest()
        if place is None:
            self._began = now
            return self._directory.next_file(None), False
        is_known = place == self._place
        if not is_known:
            place = self._directory.repaired(place)
        if place.end and (self._place is None or place.path != self._place.path):
            self._began = self._directory.began(place)
        if place.end and not self._directory.is_full(place, self._began, now):
            return place, is_known
        self._began = now
        return self._directory.next_file(place) if place.end else place, False


def _for_the_next(
    record: Written,
    before: LastRecord | None,
    remembered: Mapping[str, Any] | None,
    rows_too: bool = True,
) -> LastRecord:
    parts = {name: digest_of(getattr(record, name)) for name in _PARTS}
    return handed_over(record.lists, parts, remembered or {}, before, _json, rows_too)


_PARTS = ("by", "config")
"""What is written only when it has changed, beside the lists."""


def document(
    last: Written | None,
    record: Written,
    other: LastRecord | None = None,
    mine: LastRecord | None = None,
) -> dict[str, Any]:
    """A record as it is written: what differs from the last one, or from that of another process
    (`other`), where `mine` is what this one says; or all of it."""
    found: dict[str, Any] = {"version": VERSION, "at": record.at}
    if other is None or mine is None:
        known = {} if last is None else {name: getattr(last, name) for name in _PARTS}
        parts = {name: known.get(name) == getattr(record, name) for name in _PARTS}
        before: Mapping[str, Rows] = {} if last is None else last.lists
    else:
        parts = {name: other.parts.get(name) == mine.parts[name] for name in _PARTS}
        before = other.lists
    is_whole = last is None and other is None
    if is_whole:
        found["whole"] = True
    found.update((name, getattr(record, name)) for name in _PARTS if not parts[name])
    lists: dict[str, Any] = {}
    for name, rows in record.lists.items():
        if name not in before:
            # of lists that need not be there, an empty one is another thing than none
            if rows.keys or not is_whole or name not in EMPTY:
                lists[name] = whole(rows)
        else:
            marks = mine.lists[name].values if mine and before[name].are_digests else None
            if (what := change(before[name], rows, marks)) is not None:
                lists[name] = what
    found["read"] = {name: lists.pop(name) for name in READ if name in lists}
    found["decided"] = record.decided
    found["did"] = record.did
    if lists:
        found["lists"] = lists
    if record.doors:
        found["doors"] = record.doors
    return found


def _hidden(text: str, hiding: Hiding) -> str:
    """A line of the journal without any secret that is known: the very text if there is none."""
    if hiding(text) == text:
        return text
    # within a number, or in a word of this form, it would be no secret, and no record any more
    own = {
        key: value if key == "version" else hiding.throughout(value)
        for key, value in json.loads(text).items()
    }
    return json.dumps(own, separators=(",", ":"))


def _json(value: Any) -> str:
    # metadata of an integration may have keys that JSON has not
    return json.dumps(value, separators=(",", ":"), default=_plain, skipkeys=True)


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
    found = json.loads(_hidden(_json(document(None, record)), record.hiding))
    every = {**found["read"], **found.get("lists", {})}
    lists: dict[str, dict[str, Any]] = {name: {} for name in LISTS}
    lists.update((name, changed({}, what)) for name, what in every.items())
    return from_lists(found, lists, found, 0)
