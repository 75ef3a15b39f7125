"""Reading a journal: passes, each with everything that was known in it.

What a record builds on is the record before it in its file. A record that is cut off at the end of
the journal is none; one that is garbled is an error that says where it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpc.autoscale.errors import one_line
from hpc.autoscale.journal.again import is_packed_again, lines_of
from hpc.autoscale.journal.changes import changed
from hpc.autoscale.journal.errors import (
    GarbledRecord,
    JournalError,
    LostRecord,
    NewerJournal,
    OddRecord,
)
from hpc.autoscale.journal.files import files_in, missing_between
from hpc.autoscale.journal.frames import Chunk, frames, from_the_end
from hpc.autoscale.journal.records import GAP, LISTS, READ, VERSION, PassRecord, from_lists
from hpc.autoscale.journal.wellformed import check_config, check_rest, check_rows

Lists = dict[str, dict[str, Any]]

_MARK_LENGTH = 64
_SAID_AT_MOST = 3
_LATEST = 1e11  # unix seconds, in the year 5138
_OBJECTS = frozenset({"by", "config", "read", "did", "lists", "doors"})


class Journal:
    """A journal that is read: a directory, or one file of it.

    `skip_garbled`: go on after a garbled record with the next one that stands by itself, instead of
    raising. `problems` has a sentence on each place that was passed over so far, and `left_out` is
    how many of these are records. `fixed`: whoever goes through it again finds what was there the
    first time, and nothing that was written since.
    """

    def __init__(
        self, path: str | os.PathLike[str], skip_garbled: bool = False, fixed: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self.problems: list[str] = []
        self.left_out = 0
        self._last = 0
        self._skip_garbled = skip_garbled
        self._fixed = fixed
        self._files: list[tuple[Path, int]] | None = None

    def __iter__(self) -> Iterator[PassRecord]:
        """The passes in order. JournalError when there is no journal, GarbledRecord for a record
        that cannot be read, NewerJournal for one of a newer version."""
        there = self._there()
        self.problems, self.left_out = [], 0
        self._last = number = 0
        for name in missing_between([file for file, _ in there]):
            self.problems.append(f"journal {self.path}: {name}: not there, nor are its passes")
        for file, size in there:
            passes = FilePasses(file, self._skip_garbled, self.problems)
            try:
                for record in passes.more(number, size):
                    yield record
                    self._last = number = record.number
            except JournalError as error:
                if self._fixed or not isinstance(error.__cause__, FileNotFoundError):
                    raise
                self.problems.append(f"journal {file}: it was deleted while the journal was read")
            if passes.unfinished:
                self.problems.append(passes.unfinished)
            self.left_out += passes.left_out

    def without(self, which: str = "pass") -> JournalError:
        """What to raise where no pass was found in it, or not that of this name (`pass 9`). It says
        what was left out, because the pass may have been among that."""
        said = f"journal {self.path}: it has no {which}"
        if not self.problems:
            return JournalError(f"{said}: the last is pass {self._last}" if self._last else said)
        more = len(self.problems) - _SAID_AT_MOST
        shown = "; ".join(self.problems[:_SAID_AT_MOST]) + (f"; and {more} more" * (more > 0))
        return JournalError(f"{said} that can be read: {shown}")

    def _there(self) -> list[tuple[Path, int]]:
        """The files, and how long they are."""
        if self._files is not None:
            return self._files
        found = []
        try:
            for path in files_in(self.path):
                with suppress(FileNotFoundError):  # whoever writes may delete the oldest meanwhile
                    found.append((path, path.stat().st_size))
        except OSError as error:
            raise JournalError(f"journal {self.path}: {error.strerror or error}") from error
        self._files = found if self._fixed else None
        return found


class FilePasses:
    """The passes of one file of a journal, which can be read on when the file has grown.

    `end`: the byte up to which it was read. `first_at`: when its first pass was, in unix seconds.
    `unfinished`: a sentence on what was found at the end of the file and is no record yet, or on a
    file in which there is nothing. `problems` gets a sentence on each place that was passed over.
    """

    def __init__(self, path: Path, skip_garbled: bool, problems: list[str]) -> None:
        self.path = path
        self.problems = problems
        self.end = 0
        self.first_at: float | None = None
        self.unfinished = ""
        self._skip_garbled = skip_garbled
        self._read = 0
        self._passed_over = 0
        self._ends_badly = False
        self._lists: Lists | None = None
        self._has_gap = False
        self._known: dict[str, Any] = {"by": {}, "config": {}}
        self._mark = b""
        self._first_lost, self._lost, self._said_at = "", 0, 0

    def more(self, number: int, size: int | None = None) -> Iterator[PassRecord]:
        """The passes that have not been read yet; `number` is that of the pass before them. `size`:
        what is behind so many bytes is left out.

        JournalError when the file cannot be read, GarbledRecord and NewerJournal as of `Journal`.
        """
        self.unfinished, self._ends_badly = "", False
        try:
            size = self.path.stat().st_size if size is None else size
            if not size:
                self.unfinished = f"journal {self.path}: it has 0 bytes, and so no record of a pass"
                return
            with open(self.path, "rb") as file:
                try:
                    again = not self.end and is_packed_again(file, size)
                    found = lines_of(file, self._read) if again else frames(file, size, self.end)
                    for frame in found:
                        record = self._record(frame, number + 1, again)
                        if not again:
                            self.end = frame.end or self.end
                        del frame  # its text is as large as what is made of it
                        if record is not None:
                            number = record.number
                            yield record
                    if again and not self.unfinished:
                        self.end = size
                finally:
                    start = max(0, self.end - _MARK_LENGTH)
                    file.seek(start)
                    self._mark = file.read(self.end - start)
        except OSError as error:
            raise JournalError(f"journal {self.path}: {error.strerror or error}") from error

    @property
    def left_out(self) -> int:
        """How many records were passed over, with what is no record yet at the end."""
        return self._passed_over + self._ends_badly

    def is_the_same(self) -> bool:
        """Whether what was read of the file is still there, by its size and by its last bytes."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.end - len(self._mark))
                return file.read(len(self._mark)) == self._mark
        except OSError:
            return False

    def _record(self, frame: Chunk, number: int, again: bool) -> PassRecord | None:
        """A frame as a record; None for one that is passed over. `again`: its place is that in
        the text, as the file was compressed again."""
        where = f"journal {self.path}: record {self._read + 1} at byte {frame.offset}"
        where += " of the text" if again else ""
        if frame.is_cut_off:
            self._ends_badly = True
            self.unfinished = f"{where}: its end is missing, it is left out"
            return None
        try:
            document = _document(frame, where)
            self._lists = _lists_after(document, self._lists, where)
            self._known.update((key, document[key]) for key in ("by", "config") if key in document)
            _check_rest(document, where)
            record = _made(document, self._lists, self._known, number, where)
        except GarbledRecord as error:
            if not self._skip_garbled:
                raise
            if frame.end is None:  # it is looked at again, and may be whole by then
                self._ends_badly = True
                self.unfinished = str(error)
                return None
            self._has_gap = isinstance(error, OddRecord)
            if not self._has_gap:
                self._lists = None
            self._read += 1
            self._passed_over += 1
            self._say_lost(error)
            return None
        self._read += 1
        self._first_lost = ""
        if self.first_at is None:
            self.first_at = record.at
        if self._has_gap:
            record.doors = {**record.doors, GAP: True}
            self._has_gap = False
        return record

    def _say_lost(self, error: GarbledRecord) -> None:
        """Say what is passed over: of those in a row that build on one that cannot be read, the
        first and how many more there are."""
        said = str(error)
        if not isinstance(error, LostRecord):
            self._first_lost = ""
        elif not self._first_lost:
            self._first_lost, self._lost, self._said_at = said, 0, len(self.problems)
        else:
            self._lost += 1
            more = f"{self._lost} more do" if self._lost > 1 else "one more does"
            self.problems[self._said_at] = f"{self._first_lost}, as {more} after it"
            return
        self.problems.append(said)


def last_passes(path: str | os.PathLike[str]) -> Iterator[tuple[float, dict[str, Any]] | None]:
    """When the passes of a journal began, the last one first, and what each did but for lists of
    names and jobs; None for one that cannot be read. Reads those that are asked for."""
    try:
        files = files_in(path)
    except (JournalError, OSError):
        return
    for each in reversed(files):
        try:
            with open(each, "rb") as file:
                for frame in from_the_end(file, each.stat().st_size):
                    yield _at_and_did(frame, f"journal {each}")
        except OSError:
            yield None


def _at_and_did(frame: Chunk, where: str) -> tuple[float, dict[str, Any]] | None:
    try:
        document = _document(frame, where)
        _check_rest(document, where)
    except JournalError:
        return None
    did = document.get("did")
    return (float(document["at"]), did) if isinstance(did, dict) else None


class _Sharing:
    """Makes equal reasons of jobs that wait one object: long texts, each of thousands of jobs."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, found: dict[str, Any]) -> dict[str, Any]:
        for key in ("reason", "limit"):
            text = found.get(key)
            if isinstance(text, str):
                found[key] = self._known.setdefault(text, text)
        return found


def _document(frame: Chunk, where: str) -> dict[str, Any]:
    """What is written in a record."""
    if frame.text is None:
        raise GarbledRecord(f"{where}: {frame.problem}")
    try:
        document = json.loads(frame.text, object_hook=_Sharing())
        version = document["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise GarbledRecord(f"{where}: it is no record of a journal: {said}") from None
    if not isinstance(version, int) or version > VERSION:
        raise NewerJournal(
            f"{where}: expected a journal of version {VERSION} or older, found version {version}:"
            " read it with the version of hpc-autoscale that has written it, or a newer one"
        )
    at = document.get("at")
    # one that no calendar has is none, nor is NaN
    if not isinstance(at, int | float) or not 0 <= at < _LATEST:
        raise GarbledRecord(f"{where}: at: expected unix seconds, found {at!r}")
    found: dict[str, Any] = {key: what for key, what in document.items() if what is not None}
    for key in found.keys() & _OBJECTS:
        if not isinstance(found[key], dict):
            raise GarbledRecord(f"{where}: {key}: expected an object")
    try:
        check_config(found.get("config", {}))
    except JournalError as error:
        raise GarbledRecord(f"{where}: {error}") from None
    rows = found.get("decided", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise GarbledRecord(f"{where}: decided: expected a list of objects")
    return found


def _lists_after(document: dict[str, Any], before: Lists | None, where: str) -> Lists:
    """All lists as they are by this record."""
    if before is None and not document.get("whole"):
        raise LostRecord(f"{where}: it builds on a record that cannot be read")
    changes = {**document.get("read", {}), **document.get("lists", {})}
    start: Lists = {} if document.get("whole") or before is None else before
    after: Lists = {}
    for name in {**dict.fromkeys(LISTS), **start, **changes}:
        what = changes.get(name)
        known = start.get(name, {})
        try:
            after[name] = known if what is None else changed(known, what)
            check_rows(name, what or {})
        except JournalError as error:
            place = "read" if name in READ else "lists"
            raise GarbledRecord(f"{where}: {place}.{name}: {error}") from None
    return after


def _made(
    document: dict[str, Any], lists: Lists, known: dict[str, Any], number: int, where: str
) -> PassRecord:
    """The record of a document and its lists. GarbledRecord where rows of the status have no
    place."""
    try:
        return from_lists(document, lists, dict(known), number)
    except (LookupError, TypeError, AttributeError) as error:
        said = "its rows do not belong together"
        raise GarbledRecord(f"{where}: read.status: {said}: {one_line(error)}") from None


def _check_rest(document: dict[str, Any], where: str) -> None:
    """OddRecord where a value of a record cannot be, apart from its lists."""
    try:
        check_rest(document)
    except JournalError as error:
        raise OddRecord(f"{where}: {error}") from None
