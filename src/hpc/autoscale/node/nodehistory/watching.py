"""Which time counts, and what was seen of nodes beside their times.

Time that nobody watched is not idle time: a loop that slept, a clock that jumped or a history that
was away say nothing about what a node did meanwhile. So the times at which a history was updated
are kept, and from them follows how much of the time between two updates counts. Only `sqlite` calls
this.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

KEPT_UPDATES = 21
"""So many times of updates are kept, and one gap less is known."""

ENOUGH_GAPS = 3
"""From so many gaps on it is known how often the history is updated."""

SHORTEST_INTERVAL = 60.0
"""The usual interval is no shorter, in seconds, where nobody says what it is: cron knows none."""

IDLE_PASSES_COUNTED = 20
"""In how many updates in a row a node was idle is counted up to this."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS updates (number INTEGER PRIMARY KEY, time REAL)",
    "CREATE TABLE IF NOT EXISTS sightings (node_id TEXT PRIMARY KEY, idle_passes INTEGER, "
    "reported BOOL, missing_time REAL)",
    "CREATE TABLE IF NOT EXISTS writers (cluster TEXT PRIMARY KEY, number INTEGER)",
)


class Rhythm(NamedTuple):
    """What is known of how often a history is updated, in seconds.

    `declared` is what whoever updates it says: then a node is idle from when it was first seen
    idle, else from when it was last needed. `assumed` is what to go by until that is known from the
    updates themselves; with neither, all time counts until then.
    """

    declared: float | None = None
    assumed: float | None = None


class Sighting(NamedTuple):
    """What was seen of a node beside its times.

    In how many updates in a row it was idle, whether the scheduler has reported its host, and since
    when nothing is known of it, because it does not report that (None while it does).
    """

    idle_passes: int = 0
    reported: bool = False
    missing_time: float | None = None


def usual_interval(times: Sequence[float], rhythm: Rhythm) -> float | None:
    """The usual time between two updates, from the times of the last ones; None when unknown.

    It is the least that no more than a third of the gaps exceed, so that some long ones do not
    change it; updates within a second count as one, and gaps of a clock that went back are left
    out.
    """
    gaps = sorted(later - sooner for sooner, later in pairwise(times) if later - sooner >= 1)
    learnt = gaps[-1 - len(gaps) // 3] if len(gaps) >= ENOUGH_GAPS else None
    if rhythm.declared is not None:
        return max(rhythm.declared, learnt or 0.0)
    if learnt is not None:
        return max(learnt, SHORTEST_INTERVAL)
    return rhythm.assumed


class Gap(NamedTuple):
    """The time since the last update, in seconds.

    `length` is by the clock, negative when it went back and infinite when there was no update
    before. `uncounted` is how much of it does not count: times that were noted have to be moved on
    by that. `is_known`: whether it is known how long a gap may be.
    """

    length: float
    uncounted: float
    is_known: bool


def gap_until(times: Sequence[float], now: float, rhythm: Rhythm) -> Gap:
    """The time from the last of these updates until now.

    A gap of up to twice the usual interval was watched, and a longer one was not. Where the usual
    interval is not known all of it counts. When the clock went back and nobody says how often there
    is an update, times stay as they are, until the clock has caught up.
    """
    length = now - times[-1] if times else math.inf
    usual = usual_interval(times, rhythm)
    if usual is None or (length < 0 and rhythm == Rhythm()):
        return Gap(length, 0.0, False)
    return Gap(length, 0.0 if 0 <= length <= 2 * usual else length, True)


def moved(moment: float, by: float, now: float) -> float:
    """A time that was noted, moved on by time that does not count; never later than now for
    that."""
    if not by:
        return moment
    return now if by == math.inf else min(moment + by, max(now, moment))


# -- the tables


def update_times(conn: sqlite3.Connection) -> list[float]:
    """When the history was updated the last times, oldest first."""
    rows = conn.execute("SELECT time FROM updates ORDER BY number DESC LIMIT ?", (KEPT_UPDATES,))
    return [float(time) for (time,) in rows if isinstance(time, int | float)][::-1]


def note_update(conn: sqlite3.Connection, now: float) -> None:
    """Keep the time of an update, and forget old ones."""
    conn.execute("INSERT INTO updates (time) VALUES (?)", (now,))
    conn.execute(
        "DELETE FROM updates WHERE number <= (SELECT MAX(number) FROM updates) - ?",
        (KEPT_UPDATES,),
    )


def note_cluster(conn: sqlite3.Connection, cluster: str) -> bool:
    """Remember that the last update was for this cluster. Whether one was for another between it
    and the one for this cluster before. Of clusters only digests are kept."""
    from hashlib import sha256  # who only reads a history needs none

    mine = sha256(cluster.encode(errors="backslashreplace")).hexdigest()[:16]
    rows = conn.execute("SELECT cluster, number FROM writers WHERE typeof(number) = 'integer'")
    last: dict[str, int] = dict(rows)
    conn.execute("REPLACE INTO writers SELECT ?, MAX(number) FROM updates", (mine,))
    return mine in last and max(last.values()) > last[mine]


def sightings(conn: sqlite3.Connection) -> dict[str, Sighting]:
    """What was seen of each node. Of figures that make no sense nothing was."""
    rows = conn.execute("SELECT node_id, idle_passes, reported, missing_time FROM sightings")
    return {
        node_id: Sighting(
            passes if isinstance(passes, int) else 0,
            bool(reported),
            missing if isinstance(missing, int | float) else None,
        )
        for node_id, passes, reported, missing in rows
    }


def write_sightings(
    conn: sqlite3.Connection, before: Mapping[str, Sighting], after: Mapping[str, Sighting]
) -> None:
    """Replace what was seen, as far as it is not the same as before."""
    conn.executemany(
        "DELETE FROM sightings WHERE node_id = ?", [(i,) for i in before if i not in after]
    )
    changed = [(i, *seen) for i, seen in after.items() if before.get(i) != seen]
    conn.executemany("INSERT OR REPLACE INTO sightings VALUES (?, ?, ?, ?)", changed)


def after_update(
    before: Mapping[str, Sighting],
    present: Collection[str],
    idle: Collection[str],
    shift: float,
    now: float,
) -> dict[str, Sighting]:
    """What is known after an update that saw `present` nodes, of which some were idle, when times
    that were noted have to be moved on by `shift`."""
    after = {}
    for node_id in present:
        seen = before.get(node_id, Sighting())
        passes = min(seen.idle_passes + 1, IDLE_PASSES_COUNTED) if node_id in idle else 0
        missing = seen.missing_time
        if missing is not None:
            missing = moved(missing, shift, now)
        after[node_id] = Sighting(passes, seen.reported, missing)
    return after


def after_answer(
    before: Mapping[str, Sighting],
    reported: Collection[str],
    missing: Collection[str],
    given_up: Collection[str],
    now: float,
) -> dict[str, Sighting]:
    """What is known after an answer of the scheduler, of nodes of which something is known."""
    after = dict(before)
    for node_id in reported:
        if (seen := before.get(node_id)) is not None:
            passes = seen.idle_passes if seen.missing_time is None else min(seen.idle_passes, 1)
            after[node_id] = Sighting(passes, True, None)
    for node_id in missing:
        if (seen := before.get(node_id)) is not None:
            since = now if seen.missing_time is None else seen.missing_time
            after[node_id] = Sighting(seen.idle_passes, True, since)
    for node_id in given_up:
        if (seen := after.get(node_id)) is not None:
            after[node_id] = Sighting(seen.idle_passes, False, None)
    return after
