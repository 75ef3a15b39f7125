"""The nodes that are gathered for gangs, and where gangs came short, in an SQLite file beside the
node history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hpc.autoscale import clock
from hpc.autoscale.backoff.subjects import BucketFacts, Reach, Subject, subject
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.sqlitefile import SqliteFile


class GangFileError(AutoscaleError):
    """The file that remembers gangs cannot be read or written."""


class Place(NamedTuple):
    """Where all nodes of a gang are: a bucket of a placement group, or of none (an empty text).
    `cluster`: of which cluster it is, where there are several; files of earlier versions do not
    say, and then its nodearray tells."""

    nodearray: str
    vm_size: str
    location: str
    spot: bool
    group: str = ""
    cluster: str = ""

    def facts(self, family: str = "") -> BucketFacts:
        """What of it decides which failures concern it. `family`: whose quota it is charged to."""
        cluster = self.cluster or split_name(self.nodearray)[0]
        return BucketFacts(*self[:4], family, self.group, cluster)

    @property
    def offer(self) -> Subject:
        """What of it capacity is of: the VM size, where, and spot or not."""
        return subject(Reach.OFFER, self.facts())

    def __str__(self) -> str:
        parts = (self.nodearray, self.vm_size, self.group)
        return "/".join(part for part in parts if part)


class Gathering(NamedTuple):
    """Nodes that were asked for, for a gang, in one place.

    `size`: how many the gang needs; `goal`: how many are tried at first, as a rule all, and none
    once they are given up, until they are gone. `asked` is
    when they were, `deadline` when they have to be there, `seen` when a pass last looked; unix
    seconds. `others`: NodeIds of nodes that were there before and are not of it.
    """

    job: str
    place: Place
    size: int
    goal: int
    asked: float
    deadline: float
    seen: float
    others: tuple[str, ...] = ()

    def is_due(self, now: float) -> bool:
        """Whether all of its nodes have to be there by now."""
        return now >= self.deadline


class Shortfall(NamedTuple):
    """A gang that did not come together in a place: of `size` nodes `had` were there at the end.

    `kind` and `units` say how much its job asked for: jobs of the same kind that ask for as much,
    or for more, are not asked for there either. `times`: how often in a row. It may be tried again
    from `until` on.
    """

    job: str
    place: Place
    kind: str
    units: int
    size: int
    had: int
    times: int
    until: float


class GangFile(SqliteFile):
    """The file at `path`."""

    NAME = "gangs"
    VERSION = 2
    TABLES = (
        "CREATE TABLE gatherings (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
        " placement_group TEXT, size INTEGER, goal INTEGER, asked REAL, deadline REAL, seen REAL,"
        " others TEXT, cluster TEXT)",
        "CREATE TABLE shortfalls (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
        " placement_group TEXT, kind TEXT, units INTEGER, size INTEGER, had INTEGER, times INTEGER,"
        " until REAL, cluster TEXT)",
    )
    UPGRADES: Mapping[int, Sequence[str]] = {
        1: (
            "ALTER TABLE gatherings ADD COLUMN cluster TEXT DEFAULT ''",
            "ALTER TABLE shortfalls ADD COLUMN cluster TEXT DEFAULT ''",
        )
    }
    ERROR = GangFileError
    REMEDY = "delete it; then it is forgotten for which gangs nodes were asked for"

    def read(self) -> tuple[list[Gathering], list[Shortfall]]:
        """All of it; rows that make no sense are left out. GangFileError when it cannot be read."""
        gatherings, shortfalls = self.tables(
            ("SELECT * FROM gatherings ORDER BY rowid", 1),
            ("SELECT * FROM shortfalls ORDER BY rowid", 1),
        )
        return [*map(_gathering, filter(_is_gathering, gatherings))], [
            *map(_shortfall, filter(_is_shortfall, shortfalls))
        ]

    def write(self, gatherings: Iterable[Gathering], shortfalls: Iterable[Shortfall]) -> None:
        """Replace all of it. GangFileError when that is not possible."""
        with self.writing() as db:
            db.execute("DELETE FROM gatherings")
            db.execute("DELETE FROM shortfalls")
            db.executemany(
                f"INSERT INTO gatherings VALUES ({_marks(13)})",
                [
                    (_kept(g.job), *g.place[:5], *g[2:-1], json.dumps(g.others), g.place.cluster)
                    for g in gatherings
                ],
            )
            db.executemany(
                f"INSERT INTO shortfalls VALUES ({_marks(13)})",
                [(_kept(s.job), *s.place[:5], *s[2:], s.place.cluster) for s in shortfalls],
            )


def offers_short_of(config: Mapping[str, Any]) -> set[Subject]:
    """The offers of which gangs came short, or should have all nodes by now, by the file of a
    configuration; none where it cannot be read, which whoever decides about gangs tells."""
    if not config.get("gangsdb"):
        return set()
    with suppress(GangFileError):
        gatherings, shortfalls = GangFile(str(config["gangsdb"])).read()
        late = {g.place.offer for g in gatherings if g.goal and g.is_due(clock.time())}
        return late.union(short.place.offer for short in shortfalls)
    return set()


def _kept(job: str) -> bytes:
    """The name of a job as it is kept: schedulers hand over names that are no UTF-8, with lone
    surrogates, which SQLite takes in no text."""
    return job.encode("utf-8", "surrogatepass")


def _job(kept: Any) -> str:
    """The name of a job again; files of earlier versions have texts."""
    return kept.decode("utf-8", "surrogatepass") if isinstance(kept, bytes) else str(kept)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _place(row: Sequence[Any]) -> Place:
    nodearray, vm_size, location, spot, group = row[1:6]
    cluster = str(row[12]) if len(row) > 12 else ""
    return Place(nodearray, vm_size, location, bool(spot), group, cluster)


def _is_placed(row: Sequence[Any]) -> bool:
    try:
        _job(row[0])
    except UnicodeDecodeError:
        return False
    return isinstance(row[0], bytes | str) and all(
        isinstance(text, str) for text in (*row[1:4], row[5])
    )


def _is_gathering(row: Sequence[Any]) -> bool:
    counts, times = row[6:8], row[8:11]
    return (
        _is_placed(row)
        and all(isinstance(count, int) and count >= 0 for count in counts)
        and all(isinstance(time, int | float) for time in times)
        and isinstance(row[11], str)
    )


def _gathering(row: Sequence[Any]) -> Gathering:
    try:
        others = json.loads(row[11])
    except (ValueError, RecursionError):
        others = ()
    known = tuple(map(str, others)) if isinstance(others, list) else ()
    size, goal, asked, deadline, seen = row[6:11]
    return Gathering(_job(row[0]), _place(row), size, goal, asked, deadline, seen, known)


def _is_shortfall(row: Sequence[Any]) -> bool:
    counts = row[7:11]
    return (
        _is_placed(row)
        and isinstance(row[6], str)
        and all(isinstance(count, int) and count >= 0 for count in counts)
        and isinstance(row[11], int | float)
    )


def _shortfall(row: Sequence[Any]) -> Shortfall:
    return Shortfall(_job(row[0]), _place(row), *row[6:12])
