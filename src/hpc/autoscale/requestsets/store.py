"""The SQLite file of request sets: one row for each set, replaced as a whole.

A file that cannot be read is an error and never an empty answer: without it nobody knows which
nodes are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.requestsets.definitions import RequestError, read_arrays
from hpc.autoscale.sqlitefile import SqliteFile

KEPT_SECONDS = 86_400.0
"""How long a set that has lapsed is still listed."""


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


class RequestStore(SqliteFile):
    """The request sets in a file, which is made when the first one is written."""

    NAME = "request sets"
    VERSION = 1
    TABLES = (
        "CREATE TABLE request_sets (name TEXT PRIMARY KEY, reported_at REAL NOT NULL,"
        " lapses_at REAL NOT NULL, arrays TEXT NOT NULL)",
        # what was ever wanted: no other nodearray is anything that reporters decide about
        "CREATE TABLE nodearrays (name TEXT PRIMARY KEY)",
    )
    ERROR = RequestStoreError
    REMEDY = "move it away, and let every reporter report again"

    def replace(
        self, one: RequestSet, nodearrays: Iterable[str], forget_before: float | None = None
    ) -> None:
        """Put a set in the place of the one of its name, in one transaction.

        `nodearrays`: those that it names. Sets that lapsed before `forget_before` are removed.
        """
        with self.writing() as db:
            if forget_before is not None:
                db.execute("DELETE FROM request_sets WHERE lapses_at < ?", (forget_before,))
            db.execute(
                "INSERT OR REPLACE INTO request_sets VALUES (?, ?, ?, ?)",
                (one.name, one.reported_at, one.lapses_at, json.dumps(list(one.arrays))),
            )
            rows = [(name,) for name in nodearrays]
            db.executemany("INSERT OR IGNORE INTO nodearrays VALUES (?)", rows)

    def sets(self) -> list[RequestSet]:
        """All sets by name, also those that have lapsed; none where there is no file."""
        query = "SELECT name, reported_at, lapses_at, arrays FROM request_sets ORDER BY name"
        rows = self.of_kinds(self.rows(query), (str, int | float, int | float, str))
        return [RequestSet(n, at, until, self._arrays(n, text)) for n, at, until, text in rows]

    def _arrays(self, name: str, text: str) -> Sequence[Mapping[str, Any]]:
        """The definitions of a set, which can be read."""
        try:
            arrays: Sequence[Mapping[str, Any]] = json.loads(text)
            read_arrays(arrays)
        except (ValueError, RecursionError, RequestError) as error:
            raise self.damaged(f"request set {name}: {error}") from error
        return arrays

    def check(self) -> None:
        """As of any file; its request sets can be read, too."""
        super().check()
        self.sets()

    def nodearrays(self) -> frozenset[str]:
        """The nodearrays that any set has ever named."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM nodearrays"))
