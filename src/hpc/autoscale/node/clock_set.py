"""Times in a file that were noted before the clock was set.

How long ago a request was sent decides whether it may still be under way, and a clock that is set
makes hours of a minute. So a file keeps when the machine was started, as the clock had it then;
where the clock has another time for that now, the times in the file are moved by the difference.
Across a start of the machine, and where the system does not say when that was, they stay as they
are. Called by `requests`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from hpc.autoscale import clock

TABLE = "CREATE TABLE booted (boot TEXT PRIMARY KEY, at REAL NOT NULL)"
QUERY = "SELECT boot, at FROM booted"

_LEAST = 2.0  # seconds; less is no clock that was set


def moved_by(rows: Iterable[Sequence[object]], boot: str) -> float:
    """By how many seconds times have to be moved that were noted when the table had these rows.
    `boot`: which start of the machine this is; an empty text where nobody knows."""
    now = clock.booted_at()
    known = next((at for name, at in rows if name == boot), None)
    if now is None or not boot or not isinstance(known, int | float):
        return 0.0
    by = float(round(now - known))
    return by if abs(by) >= _LEAST else 0.0


def follow(db: sqlite3.Connection, tables: Iterable[str], boot: str) -> None:
    """Move the column `begun` of the tables, in a transaction, and note how the clock is set
    now."""
    now = clock.booted_at()
    if now is None or not boot:
        return
    rows = db.execute(QUERY).fetchall()
    by = moved_by(rows, boot)
    for table in tables if by else ():
        db.execute(f"UPDATE {table} SET begun = begun + ?", (by,))
    known = dict(rows)
    if by or list(known) != [boot]:
        db.execute("DELETE FROM booted")
        at = known[boot] + by if boot in known else now
        db.execute("INSERT INTO booted VALUES (?, ?)", (boot, at))
