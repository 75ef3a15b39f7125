"""Reading a journal while it grows: each time only what was added.

Called by those who show a journal live. What writers do to a journal is to append, to begin another
file, and to delete the oldest ones; whatever else has happened to it, it is read anew.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from hpc.autoscale.journal.errors import JournalError
from hpc.autoscale.journal.files import files_in
from hpc.autoscale.journal.reader import FilePasses
from hpc.autoscale.journal.records import PassRecord

Stamps = dict[Path, tuple[int, ...]]


class Follower:
    """A journal, a directory or one file of it, that is read on again and again. What is garbled
    is passed over. Not to be used by several threads at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begin()

    def _begin(self) -> None:
        self._stamps: Stamps = {}
        self._files: dict[Path, FilePasses] = {}
        self._problems: list[str] = []
        self._number = 0

    @property
    def problems(self) -> list[str]:
        """A sentence on each place that was passed over, and on the end of the journal where that
        is no record yet."""
        rest = (each.unfinished for each in self._files.values())
        return [*self._problems, *filter(None, rest)]

    @property
    def began(self) -> float | None:
        """When the first pass was of which the journal still has a record, in unix seconds; None
        where it has none."""
        return next((f.first_at for f in self._files.values() if f.first_at is not None), None)

    def poll(self, take: Callable[[PassRecord], object], anew: Callable[[], object]) -> bool:
        """Hand over the passes that are new, in order; whether the journal has changed at all.

        `anew` is called first where the journal is another one than before: then all its passes
        are handed over. JournalError when there is no journal, or when it cannot be read.
        """
        try:
            stamps = _stamps(files_in(self.path))
        except OSError as error:
            raise JournalError(f"journal {self.path}: {error.strerror or error}") from error
        if stamps == self._stamps:
            return False
        if not self._goes_on(stamps):
            self._begin()
            anew()
        self._files = {path: each for path, each in self._files.items() if path in stamps}
        for path in stamps:
            if self._files.get(path) is None:
                self._files[path] = FilePasses(path, True, self._problems)
            elif self._stamps.get(path) == stamps[path]:
                continue
            for record in self._files[path].more(self._number):
                self._number = record.number
                take(record)
            # only now: what could not be read is tried again
            self._stamps[path] = stamps[path]
        self._stamps = stamps
        return True

    def _goes_on(self, stamps: Stamps) -> bool:
        """Whether this is what was read before, with more behind it or without its beginning."""
        if not self._files:
            return False
        newest = next(reversed(self._files))
        before, now = self._stamps.get(newest), stamps.get(newest)
        if now is None or (before is not None and before[:2] != now[:2]):
            return False
        if not self._files[newest].is_the_same():
            return False
        older = itertools.takewhile(lambda path: path != newest, stamps)
        return all(self._stamps.get(path) == stamps[path] for path in older)


def _stamps(paths: Iterable[Path]) -> Stamps:
    """What tells another file from the same one, and a change of it: device, inode, size, time."""
    found: Stamps = {}
    for path in paths:
        try:
            stat = path.stat()
        except FileNotFoundError:  # it was too old
            continue
        found[path] = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found
