"""The files of a journal: where the next record goes, what is too old, and which there are.

A journal is a directory of files `journal-000001.jsonl.gz` and so on. Whoever appends to it holds
its lock for that moment. The first record of each file stands by itself, so that old files can be
deleted and each file can be read alone.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hpc.autoscale.journal.again import is_packed_again
from hpc.autoscale.journal.errors import JournalError
from hpc.autoscale.journal.frames import end_of_whole, has_none, made_at

DAY = 24 * 3600.0
_NAME = re.compile(r"journal-(\d+)\.jsonl\.gz")


class Keeping(NamedTuple):
    """How much of a journal is kept, in bytes and in seconds. A file is full when it has an eighth
    of that, or is a day old."""

    size: int = 200_000_000
    age: float = 14 * DAY

    @property
    def file_size(self) -> int:
        """The size at which a file is full."""
        return max(1, self.size // 8)

    @property
    def file_age(self) -> float:
        """The age at which a file is full, in seconds."""
        return min(DAY, self.age)


class FileEnd(NamedTuple):
    """Where a record ends: in which file, and at which byte."""

    path: str
    end: int


def is_named_so(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the name that files of journals have."""
    return _NAME.fullmatch(os.path.basename(path)) is not None


def files_in(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a journal in order: those of a directory, or the one file that `path` names.

    JournalError when there is none, and for a file of something else.
    """
    place = Path(path)
    if place.is_dir():
        numbered = [
            (int(m[1]), each) for each in place.iterdir() if (m := _NAME.fullmatch(each.name))
        ]
        if not numbered:
            raise JournalError(f"journal {place}: there is no file journal-….jsonl.gz in it")
        return [each for _, each in sorted(numbered)]
    if not place.exists():
        raise JournalError(f"journal {place}: there is no such file or directory")
    with suppress(OSError), open(place, "rb") as file:  # whoever reads it says why it cannot
        size = os.fstat(file.fileno()).st_size
        if has_none(file, size) and not is_packed_again(file, size):
            hint = "; a configuration is given with -c" if place.suffix == ".json" else ""
            raise JournalError(
                f"{place}: expected a journal, which is a directory or a file"
                f" journal-….jsonl.gz, found a file that has no record of a pass{hint}"
            )
    return [place]


def missing_between(files: Sequence[Path]) -> Iterator[str]:
    """Which files of a journal are not there, though older ones are: the oldest go first. A text
    for each gap."""
    found = (_NAME.fullmatch(each.name) for each in files)
    for before, after in pairwise(int(name[1]) for name in found if name):
        if after - before > 1:
            first, last = _named(before + 1), _named(after - 1)
            yield first if first == last else f"{first} to {last}"


class Directory:
    """A journal that is written. Every method is for the one who holds the lock (`locked`)."""

    def __init__(self, path: str | os.PathLike[str], keeping: Keeping | None = None) -> None:
        self.path = Path(path)
        self.keeping = keeping or Keeping()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the journal, which is made if there is none. JournalError when it cannot be held, or
        when what is done meanwhile fails."""
        try:
            self.path.mkdir(mode=0o750, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise self._error(error) from error
        try:
            _lock(handle)
            yield
        except OSError as error:
            raise self._error(error) from error
        finally:
            os.close(handle)

    def _error(self, error: OSError) -> JournalError:
        return JournalError(f"journal {self.path}: {error.strerror or error}")

    def newest(self) -> FileEnd | None:
        """The end of the newest file, as it is on the disk; None when there is no file."""
        try:
            path = files_in(self.path)[-1]
        except JournalError:
            return None
        return FileEnd(str(path), path.stat().st_size)

    def is_full(self, place: FileEnd, began: float, now: float) -> bool:
        """Whether the next record is to begin a file, when this one began at a time."""
        return place.end >= self.keeping.file_size or not 0 <= now - began < self.keeping.file_age

    def began(self, place: FileEnd) -> float:
        """When a file was begun, in unix seconds."""
        with open(place.path, "rb") as file:
            return made_at(file) or os.fstat(file.fileno()).st_mtime

    def next_file(self, newest: FileEnd | None) -> FileEnd:
        """A file that is not there yet."""
        number = 1 if newest is None else int(_number(newest.path)) + 1
        return FileEnd(str(self.path / _named(number)), 0)

    def append(self, place: FileEnd, record: bytes) -> FileEnd:
        """Write a record at the end of a file; where it ends. What was written of one that does not
        find room is taken back. OSError when it cannot be written."""
        handle = os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            done = 0
            try:
                os.lseek(handle, place.end, os.SEEK_SET)
                view = memoryview(record)
                while done < len(view):
                    count = os.write(handle, view[done:])
                    if not count:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    done += count
            except OSError:
                with suppress(OSError):
                    os.ftruncate(handle, place.end)
                raise
        finally:
            os.close(handle)
        return FileEnd(place.path, place.end + len(record))

    def repaired(self, newest: FileEnd) -> FileEnd:
        """The end of the newest file once what is left of a record that was cut off is taken
        away; of one that was compressed again, which stays as it is, that of a file after it."""
        with open(newest.path, "rb") as file:
            if is_packed_again(file, newest.end):
                return self.next_file(newest)
            end = end_of_whole(file, newest.end)
        if end < newest.end:
            os.truncate(newest.path, end)
        return FileEnd(newest.path, end)

    def forget_old(self, now: float) -> None:
        """Delete files that are too old, and the oldest ones while all are too large; never the
        newest. A file is too old once one that is so much younger is full, so that a clock that
        jumps ahead, and is put right, deletes nothing."""
        *others, newest = files_in(self.path)
        known = [(each, each.stat()) for each in others]
        now = min([now, *(stat.st_mtime for _, stat in known[-1:])])
        room = self.keeping.size - newest.stat().st_size
        old: list[Path] = []
        for each, stat in reversed(known):
            room -= stat.st_size
            if room < 0 or now - stat.st_mtime > self.keeping.age:
                old.append(each)
        for each in reversed(old):  # whoever reads meanwhile finds no gap
            with suppress(FileNotFoundError):
                each.unlink()


def _named(number: int) -> str:
    return f"journal-{number:06}.jsonl.gz"


def _number(path: str) -> str:
    found = _NAME.fullmatch(os.path.basename(path))
    return found[1] if found else "0"


def _lock(handle: int) -> None:
    """Wait until nobody else holds the directory; where the system has no such lock, go on: a
    writer that finds that another one has written begins anew."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)
