"""What is in back-off, and which nodes are booting, in an SQLite file beside the node history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.law import MAX_LEVEL, Backoff
from hpc.autoscale.backoff.subjects import Subject, read_subject
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.sqlitefile import SqliteFile


class BackoffError(AutoscaleError):
    """The file that remembers what failed cannot be read or written."""


_CAUSES: Mapping[object, FailureKind] = {cause.value: cause for cause in FailureKind}


class Boot(NamedTuple):
    """A node that was seen to boot: since when, whether it was started and not made, has a VM, and
    has failed already. `up_at`: nodearray, VM size and placement group of one that came up, where
    something is still to be learnt of it: whether a spot node is evicted, and whether its host
    takes work, until it `is_fit`; an empty text for others. `empty_since`: since when that host
    has nothing available, 0 while nobody has seen that."""

    since: float
    was_started: bool = False
    has_vm: bool = False
    has_failed: bool = False
    up_at: str = ""
    is_fit: bool = False
    empty_since: float = 0.0

    @property
    def record(self) -> Mapping[str, str]:
        """What the listing said of where a node that came up is."""
        array, size, group = [*self.up_at.split("\x1f"), "", ""][:3]
        return {"Template": array, "MachineType": size, "PlacementGroupId": group}


class Remembered(NamedTuple):
    """All that is remembered: subjects in back-off, boots by NodeId, and when creates were sent by
    request id, of which not all nodes were listed yet."""

    backoffs: dict[Subject, Backoff]
    boots: dict[str, Boot]
    sent: dict[str, float]


_SENT = "CREATE TABLE sent (request_id TEXT PRIMARY KEY, since REAL)"


class BackoffFile(SqliteFile):
    """The file at `path`."""

    NAME = "back-off"
    VERSION = 4
    TABLES = (
        "CREATE TABLE backoffs (subject TEXT PRIMARY KEY, cause TEXT, message TEXT,"
        " failed_at REAL, level INTEGER, streak INTEGER, delay REAL, until REAL, passed INTEGER)",
        "CREATE TABLE boots (node_id TEXT PRIMARY KEY, since REAL, was_started BOOL, has_vm BOOL,"
        " has_failed BOOL, up_at TEXT, is_fit BOOL, empty_since REAL)",
        _SENT,
    )
    UPGRADES: Mapping[int, Sequence[str]] = {
        1: ("ALTER TABLE boots ADD COLUMN up_at TEXT",),
        2: (_SENT,),
        3: (
            "ALTER TABLE boots ADD COLUMN is_fit BOOL",
            "ALTER TABLE boots ADD COLUMN empty_since REAL",
        ),
    }
    ERROR = BackoffError
    REMEDY = "delete it; then what failed before is forgotten"

    def read(self) -> Remembered:
        """All of it; rows that make no sense are left out. BackoffError when it cannot be read."""
        found = {}
        columns = "subject, cause, message, failed_at, level, streak, delay, until, passed"
        backoffs, boots, sent = self.tables(
            (f"SELECT {columns} FROM backoffs", 1),
            ("SELECT * FROM boots", 1),  # those of earlier versions have fewer columns
            ("SELECT request_id, since FROM sent", 3),
        )
        for key, cause, *others in backoffs:
            subject = read_subject(str(key))
            row = _backoff(cause, *others) if subject is not None else None
            if subject is not None and row is not None:
                found[subject] = row
        return Remembered(
            found,
            {str(each): _boot(*row) for each, *row in boots if _is_moment(row[0])},
            {str(each): float(since or 0.0) for each, since in sent if _is_moment(since)},
        )

    def write(
        self,
        backoffs: Mapping[Subject, Backoff | None],
        boots: Mapping[str, Boot | None],
        sent: Mapping[str, float | None],
    ) -> None:
        """Store what has changed; None for what is to be forgotten. BackoffError when it cannot
        be."""
        gone = [(each.key,) for each, row in backoffs.items() if row is None]
        ended = [(node_id,) for node_id, boot in boots.items() if boot is None]
        with self.writing() as db:
            db.executemany("DELETE FROM backoffs WHERE subject = ?", gone)
            db.executemany("DELETE FROM boots WHERE node_id = ?", ended)
            db.executemany(
                "INSERT OR REPLACE INTO backoffs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                list(_rows(backoffs)),
            )
            db.executemany(
                "INSERT OR REPLACE INTO boots VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(node_id, *boot) for node_id, boot in boots.items() if boot is not None],
            )
            listed = [(each,) for each, since in sent.items() if since is None]
            db.executemany("DELETE FROM sent WHERE request_id = ?", listed)
            rows = [(each, since) for each, since in sent.items() if since is not None]
            db.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?)", rows)


def _is_moment(stored: object) -> bool:
    """Whether this may be a time that was stored; none at all may."""
    return stored is None or isinstance(stored, int | float)


def _boot(since: Any, was_started: Any, has_vm: Any, has_failed: Any, *later: Any) -> Boot:
    up_at, is_fit, empty_since = [*later, None, None, None][:3]
    told = bool(was_started), bool(has_vm), bool(has_failed)
    empty = float(empty_since or 0.0) if _is_moment(empty_since) else 0.0
    return Boot(float(since or 0.0), *told, str(up_at or ""), bool(is_fit), empty)


def _rows(backoffs: Mapping[Subject, Backoff | None]) -> Iterable[tuple[object, ...]]:
    for subject, row in backoffs.items():
        if row is not None:
            yield (
                *(subject.key, row.cause.value, row.message, row.failed_at),
                *(row.level, row.streak, row.delay, row.until, row.passed),
            )


def _backoff(cause: object, *row: Any) -> Backoff | None:
    """A row of the file; None where it makes no sense."""
    message, failed_at, level, streak, delay, until, passed = row
    times = (failed_at, delay, until)
    is_number = all(isinstance(t, int | float) and math.isfinite(t) for t in times)
    is_count = all(isinstance(n, int) and n >= 0 for n in (level, streak, passed))
    found = _CAUSES.get(cause)
    if found is None or not is_number or not is_count or delay < 0:
        return None
    level = min(level, MAX_LEVEL)
    return Backoff(found, str(message), failed_at, level, streak, delay, until, passed)
