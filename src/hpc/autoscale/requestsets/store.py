"""The SQLite file of request sets: one row for each set, replaced as a whole.

A connection is opened for each question and closed after it, so that any number of processes can
share the file. A file that cannot be read is an error and never an empty answer: without it nobody
knows which nodes are wanted. What is in the definitions is not looked at here.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpc.autoscale.errors import AutoscaleError

FILE = "requestsets.db"
BUSY_SECONDS = 30.0
"""How long to wait for another process that is writing."""
KEPT_SECONDS = 86_400.0
"""How long a set that has lapsed is still listed."""

_VERSION = 1
_TABLES = (
    "CREATE TABLE request_sets (name TEXT PRIMARY KEY, reported_at REAL NOT NULL,"
    " lapses_at REAL NOT NULL, arrays TEXT NOT NULL)",
    # what was ever wanted: no other nodearray is anything that reporters decide about
    "CREATE TABLE nodearrays (name TEXT PRIMARY KEY)",
)


class RequestStoreError(AutoscaleError):
    """The file of request sets cannot be read or written; nothing was changed in it."""


@dataclass(frozen=True)
class RequestSet:
    """The complete wish of one reporter, in force from `reported_at` until `lapses_at` (unix
    seconds, the end excluded)."""

    name: str
    reported_at: float
    lapses_at: float
    arrays: Sequence[Mapping[str, Any]]

    def stands(self, now: float) -> bool:
        """Whether it is in force at a time."""
        return now < self.lapses_at


def store_path(config: Mapping[str, Any], home: str) -> str:
    """The file: `requestsetsdb` of the configuration, else beside the node history."""
    configured = config.get("requestsetsdb")
    if configured:
        return str(configured)
    history = config.get("nodehistorydb") or os.path.join(home, "nodehistory.db")
    return os.path.join(os.path.dirname(os.path.abspath(history)), FILE)


class RequestStore:
    """The request sets in the file at `path`, which is made when the first one is written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def replace(
        self, one: RequestSet, nodearrays: Iterable[str], forget_before: float | None = None
    ) -> None:
        """Put a set in the place of the one of its name, in one transaction.

        `nodearrays`: those that it names. Sets that lapsed before `forget_before` are removed.
        """
        with self._opened("rwc") as db:
            db.execute("BEGIN IMMEDIATE")
            if self._version(db) == 0:
                for statement in _TABLES:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
            if forget_before is not None:
                db.execute("DELETE FROM request_sets WHERE lapses_at < ?", (forget_before,))
            db.execute(
                "INSERT OR REPLACE INTO request_sets VALUES (?, ?, ?, ?)",
                (one.name, one.reported_at, one.lapses_at, json.dumps(list(one.arrays))),
            )
            rows = [(name,) for name in nodearrays]
            db.executemany("INSERT OR IGNORE INTO nodearrays VALUES (?)", rows)
            db.execute("COMMIT")

    def sets(self) -> list[RequestSet]:
        """All sets by name, also those that have lapsed; none where there is no file."""
        rows = self._rows("SELECT name, reported_at, lapses_at, arrays FROM request_sets")
        try:
            return [
                RequestSet(n, at, until, json.loads(text)) for n, at, until, text in sorted(rows)
            ]
        except (TypeError, ValueError) as error:
            raise self._error(f"it is damaged ({error})") from error

    def nodearrays(self) -> frozenset[str]:
        """The nodearrays that any set has ever named."""
        return frozenset(name for (name,) in self._rows("SELECT name FROM nodearrays"))

    def _rows(self, query: str) -> list[Any]:
        if not os.path.exists(self.path):
            return []
        with self._opened("ro") as db:
            db.execute("BEGIN")
            return db.execute(query).fetchall() if self._version(db) else []

    def _version(self, db: sqlite3.Connection) -> int:
        """0 for a file that is new; RequestStoreError for one of another form."""
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == _VERSION or (found == 0 and not tables):
            return found
        raise self._error(f"expected a file of request sets of version {_VERSION}, found another")

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        uri = f"{Path(self.path).absolute().as_uri()}?mode={mode}"
        try:
            connection = sqlite3.connect(uri, timeout=BUSY_SECONDS, uri=True, isolation_level=None)
            with closing(connection) as db:
                yield db
        except sqlite3.Error as error:
            raise self._error(_in_words(error, self.path)) from error

    def _error(self, problem: str) -> RequestStoreError:
        return RequestStoreError(f"request sets {self.path}: {problem}")


def _in_words(error: sqlite3.Error, path: str) -> str:
    """What went wrong, and what to do where only somebody else can put it right."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"it is damaged ({error}): move it away, and let every reporter report again"
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return f"there is no directory {folder}"
    if os.path.isdir(path):
        return "it is a directory"
    return str(error)
