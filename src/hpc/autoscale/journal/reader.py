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

from hpc.autoscale.journal.changes import changed
from hpc.autoscale.journal.errors import GarbledRecord, JournalError, NewerJournal
from hpc.autoscale.journal.files import files_in
from hpc.autoscale.journal.frames import Chunk, frames
from hpc.autoscale.journal.records import LISTS, READ, VERSION, PassRecord, from_lists

Lists = dict[str, dict[str, Any]]


class Journal:
    """A journal that is read: a directory, or one file of it.

    `skip_garbled`: go on after a garbled record with the next one that stands by itself, instead of
    raising. `problems` has a sentence on each place that was passed over so far. `fixed`: whoever
    goes through it again finds what was there the first time, and nothing that was written since.
    """

    def __init__(
        self, path: str | os.PathLike[str], skip_garbled: bool = False, fixed: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self.problems: list[str] = []
        self._skip_garbled = skip_garbled
        self._fixed = fixed
        self._files: list[tuple[Path, int]] | None = None

    def __iter__(self) -> Iterator[PassRecord]:
        """The passes in order. JournalError when there is no journal, GarbledRecord for a record
        that cannot be read, NewerJournal for one of a newer version."""
        self.problems = []
        number = 0
        for file, size in self._there():
            for record in self._passes(file, size, number):
                yield record
                number = record.number

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

    def _passes(self, path: Path, size: int, number: int) -> Iterator[PassRecord]:
        lists: Lists | None = None
        known: dict[str, Any] = {}
        try:
            with open(path, "rb") as file:
                for index, frame in enumerate(frames(file, size), 1):
                    where = f"journal {path}: record {index} at byte {frame.offset}"
                    if frame.is_cut_off:
                        self.problems.append(f"{where}: its end is missing, it is left out")
                        return
                    try:
                        document = _document(frame, where)
                        lists = _lists_after(document, lists, where)
                    except GarbledRecord as error:
                        if not self._skip_garbled:
                            raise
                        self.problems.append(str(error))
                        lists = None
                        continue
                    known = {**known, **{k: document[k] for k in ("by", "config") if k in document}}
                    number += 1
                    yield from_lists(document, lists, {"by": {}, "config": {}, **known}, number)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._fixed:
                self.problems.append(f"journal {path}: it was deleted while the journal was read")
                return
            raise JournalError(f"journal {path}: {error.strerror or error}") from error


def _document(frame: Chunk, where: str) -> dict[str, Any]:
    """What is written in a record."""
    if frame.text is None:
        raise GarbledRecord(f"{where}: {frame.problem}")
    try:
        document = json.loads(frame.text)
        version = document["version"]
    except (ValueError, KeyError, TypeError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise GarbledRecord(f"{where}: it is no record of a journal: {said}") from None
    if not isinstance(version, int) or version > VERSION:
        raise NewerJournal(
            f"{where}: expected a journal of version {VERSION} or older, found version {version}:"
            " read it with the version of hpc-autoscale that has written it, or a newer one"
        )
    if not isinstance(document.get("at"), int | float):
        raise GarbledRecord(f"{where}: at: expected unix seconds, found {document.get('at')!r}")
    found: dict[str, Any] = document
    return found


def _lists_after(document: dict[str, Any], before: Lists | None, where: str) -> Lists:
    """All lists as they are by this record."""
    if before is None and not document.get("whole"):
        raise GarbledRecord(f"{where}: it builds on a record that cannot be read")
    changes = {**document.get("read", {}), **document.get("lists", {})}
    start: Lists = {} if document.get("whole") or before is None else before
    after: Lists = {}
    for name in {**dict.fromkeys(LISTS), **start, **changes}:
        what = changes.get(name)
        known = start.get(name, {})
        try:
            after[name] = known if what is None else changed(known, what)
        except JournalError as error:
            place = "read" if name in READ else "lists"
            raise GarbledRecord(f"{where}: {place}.{name}: {error}") from None
    return after
