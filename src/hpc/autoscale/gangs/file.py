"""The nodes that are gathered for gangs, and where gangs came short, in an SQLite file beside the
node history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
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

    `size`: how many the gang needs; `goal`: how many are tried at first, as a rule all. `asked` is
    when they were, `deadline` when they have to be there, `seen` when a pass last looked; unix
    seconds. Nodes with this `number`, or a lower one, were there before (`members`); of these, it
    had those whose NodeIds are its `own`.
    """

    job: str
    place: Place
    size: int
    goal: int
    asked: float
    deadline: float
    seen: float
    number: int = 0
    own: tuple[str, ...] = ()

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


class KnownGangs(NamedTuple):
    """All that is remembered of gangs. `numbers`: those of nodes, by NodeId (`members`). `leaving`:
    NodeIds of the nodes that gangs were given up on, until they are gone or have work."""

    gatherings: Sequence[Gathering] = ()
    shortfalls: Sequence[Shortfall] = ()
    numbers: Mapping[str, int] = MappingProxyType({})
    leaving: Sequence[str] = ()


_GATHERINGS = (
    "CREATE TABLE gatherings (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
    " placement_group TEXT, size INTEGER, goal INTEGER, asked REAL, deadline REAL, seen REAL,"
    " number INTEGER, cluster TEXT, own TEXT)",
    "CREATE TABLE numbers (node_id TEXT, number INTEGER)",
    "CREATE TABLE leaving (node_id TEXT)",
)


class GangFile(SqliteFile):
    """The file at `path`."""

    NAME = "gangs"
    VERSION = 3
    TABLES = (
        *_GATHERINGS,
        "CREATE TABLE shortfalls (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
        " placement_group TEXT, kind TEXT, units INTEGER, size INTEGER, had INTEGER, times INTEGER,"
        " until REAL, cluster TEXT)",
    )
    UPGRADES: Mapping[int, Sequence[str]] = {
        1: (
            "ALTER TABLE gatherings ADD COLUMN cluster TEXT DEFAULT ''",
            "ALTER TABLE shortfalls ADD COLUMN cluster TEXT DEFAULT ''",
        ),
        # which had all nodes that were there with each gathering: these are forgotten
        2: ("DROP TABLE gatherings", *_GATHERINGS),
    }
    ERROR = GangFileError
    REMEDY = "delete it; then it is forgotten for which gangs nodes were asked for"

    def read(self) -> KnownGangs:
        """All of it; rows that make no sense are left out. GangFileError when it cannot be read."""
        gatherings, shortfalls, numbers, leaving = self.tables(
            ("SELECT * FROM gatherings ORDER BY rowid", 3),
            ("SELECT * FROM shortfalls ORDER BY rowid", 1),
            ("SELECT * FROM numbers", 3),
            ("SELECT * FROM leaving ORDER BY rowid", 3),
        )
        return KnownGangs(
            [*map(_gathering, filter(_is_gathering, gatherings))],
            [*map(_shortfall, filter(_is_shortfall, shortfalls))],
            {node: n for node, n in numbers if isinstance(node, str) and isinstance(n, int)},
            [node for (node,) in leaving if isinstance(node, str)],
        )

    def write(self, known: KnownGangs) -> None:
        """Replace all of it. GangFileError when that is not possible."""
        rows: dict[str, list[tuple[Any, ...]]] = {
            "gatherings": [
                (_kept(g.job), *g.place[:5], *g[2:-1], g.place.cluster, json.dumps(g.own))
                for g in known.gatherings
            ],
            "shortfalls": [
                (_kept(s.job), *s.place[:5], *s[2:], s.place.cluster) for s in known.shortfalls
            ],
            "numbers": list(known.numbers.items()),
            "leaving": [(node,) for node in known.leaving],
        }
        with self.writing() as db:
            for table, found in rows.items():
                db.execute(f"DELETE FROM {table}")
                if found:
                    marks = ", ".join("?" * len(found[0]))
                    db.executemany(f"INSERT INTO {table} VALUES ({marks})", found)


def offers_short_of(config: Mapping[str, Any]) -> set[Subject]:
    """The offers of which gangs came short, or should have all nodes by now, by the file of a
    configuration; none where it cannot be read, which whoever decides about gangs tells."""
    if not config.get("gangsdb"):
        return set()
    with suppress(GangFileError):
        known = GangFile(str(config["gangsdb"])).read()
        late = {g.place.offer for g in known.gatherings if g.is_due(clock.time())}
        return late.union(short.place.offer for short in known.shortfalls)
    return set()


def _kept(job: str) -> bytes:
    """The name of a job as it is kept: schedulers hand over names that are no UTF-8, with lone
    surrogates, which SQLite takes in no text."""
    return job.encode("utf-8", "surrogatepass")


def _job(kept: Any) -> str:
    """The name of a job again; files of earlier versions have texts."""
    return kept.decode("utf-8", "surrogatepass") if isinstance(kept, bytes) else str(kept)


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
    counts, times = (*row[6:8], row[11]), row[8:11]
    return (
        _is_placed(row)
        and all(isinstance(count, int) and count >= 0 for count in counts)
        and all(isinstance(time, int | float) for time in times)
        and isinstance(row[13], str)
    )


def _gathering(row: Sequence[Any]) -> Gathering:
    try:
        own = json.loads(row[13])
    except (ValueError, RecursionError):
        own = ()
    known = tuple(map(str, own)) if isinstance(own, list) else ()
    size, goal, asked, deadline, seen, number = row[6:12]
    return Gathering(_job(row[0]), _place(row), size, goal, asked, deadline, seen, number, known)


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
