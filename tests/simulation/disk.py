"""The disk that a simulated process writes to, and the steps at which it can be killed.

The files are real and lie in memory (`/dev/shm` where there is one); what is injected is when a
write fails and when it is the last thing that a process does. Nothing is synced to a disk, what
SQLite keeps to undo a transaction is in memory too, and a process opens each file once and gets the
same connection again: that changes nothing of what it finds there, and half of a day went into it.
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

IN_MEMORY = Path("/dev/shm")

Step = Callable[[str], None]
"""Called with the name of a step before it is done; may raise, and then the step is not done."""


def directory() -> "tempfile.TemporaryDirectory[str]":
    """A new directory for the files of a day."""
    return tempfile.TemporaryDirectory(
        prefix="simulation-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None
    )


class Disk:
    """Where the writes of the process that runs go through. `step` hears of each."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.full = False
        self._idle: dict[str, _Connection] = {}

    def write(self, name: str) -> None:
        """Before something is written. OSError while the disk is full."""
        self.step(name)
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def commit(self) -> None:
        """Before a transaction is committed. OperationalError while the disk is full."""
        self.step("commit")
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let everything in this block write through this disk."""
        real_connect, real_replace = sqlite3.connect, os.replace

        def connect(database: Any, **kwargs: Any) -> sqlite3.Connection:
            known = self._idle.pop(str(database), None)
            if known is not None:
                return known
            kwargs.setdefault("factory", _Connection)
            kwargs["timeout"] = 0.0  # seconds of real time
            connection: sqlite3.Connection = real_connect(database, **kwargs)
            if isinstance(connection, _Connection):
                connection.disk = self
                is_kept = kwargs.get("uri") and "nodehistory" not in str(database)
                connection.kept_as = str(database) if is_kept else ""
                if not str(database).endswith("?mode=ro"):
                    connection.execute("PRAGMA synchronous = OFF")
                    connection.execute("PRAGMA journal_mode = MEMORY")
            return connection

        def replace(source: Any, target: Any, **kwargs: Any) -> None:
            name = os.path.basename(target)
            self.step(f"replace {name}")
            real_replace(source, target, **kwargs)
            self.step(f"replaced {name}")

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(sqlite3, "connect", connect))
            stack.enter_context(mock.patch.object(os, "replace", replace))
            stack.enter_context(mock.patch.object(os, "fsync", lambda _: self.write("fsync")))
            stack.callback(self._close)
            yield

    def keep(self, connection: "_Connection") -> bool:
        """Keep a connection that is not needed just now, unless there is another of the kind."""
        if connection.in_transaction:
            connection.rollback()
        return self._idle.setdefault(connection.kept_as, connection) is connection

    def _close(self) -> None:
        while self._idle:
            _, connection = self._idle.popitem()
            connection.disk = None
            connection.close()


class _Connection(sqlite3.Connection):
    """A connection whose commits go through a disk."""

    disk: Disk | None = None
    kept_as = ""
    """What it is found by when somebody opens the file again; empty for a file that may be taken
    away, garbled or locked."""

    def close(self) -> None:
        if not (self.disk is not None and self.kept_as and self.disk.keep(self)):
            super().close()

    def commit(self) -> None:
        if self.disk is not None and self.in_transaction:
            self.disk.commit()
        super().commit()
        if self.disk is not None:
            self.disk.step("committed")

    def __exit__(self, *error: Any) -> Any:
        if error[0] is not None:
            return super().__exit__(*error)
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return False
