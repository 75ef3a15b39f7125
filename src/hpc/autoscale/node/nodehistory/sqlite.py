"""The node history that is kept in an SQLite file: what is learnt from a pass, and what follows
from it."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import check_kinds, check_numbers
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import watching
from hpc.autoscale.node.nodehistory.dbfile import (
    NodeHistoryError,
    ids_are_true,
    initialize_db,
    is_lost,
)
from hpc.autoscale.node.nodehistory.draining import Drain, read_drains, write_drains
from hpc.autoscale.node.nodehistory.gone import GoneNodes
from hpc.autoscale.node.nodehistory.interface import (
    NodeHistory,
    NodeHistoryResult,
    node_id_of,
    with_ids,
)
from hpc.autoscale.node.nodehistory.rows import (
    NodeRecord,
    delete,
    find,
    mark_deleted,
    read_alive,
    touch,
    transaction,
    write,
)
from hpc.autoscale.node.nodehistory.watching import Sighting
from hpc.autoscale.sqlitefile import in_words
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout

DAY = 24 * 3600.0
RETIRE_AFTER = 7 * DAY

# A stored time further ahead than this comes from a clock that was wrong, and not from one that was
# set back a little.
_FAR_AHEAD = DAY

_A_MOMENT = 0.001

_T = TypeVar("_T")


class SQLiteNodeHistory(NodeHistory):
    """A node history in an SQLite file, shared by processes and kept between passes.

    Read-only histories are never written: updates do nothing, and a missing file reads as an empty
    one. A file that turns out to be broken is moved aside and a new one begun. Everything else that
    fails raises NodeHistoryError. What was read is kept, and read again when anybody has changed
    the file since.

    `problems`: what was moved aside, and that the file is another cluster's too, in words; whoever
    tells it takes it out of the list.
    """

    # integrations set these; nothing is decided by them here
    create_timeout: float
    last_match_timeout: float

    def __init__(self, path: str | os.PathLike[str] = "nodehistory.db", read_only: bool = False):
        check_kinds("node history", str | bytes | os.PathLike, path=path)
        self.path = os.fspath(path)
        self.read_only = read_only
        self._kept: dict[Callable[[sqlite3.Connection], Any], Any] = {}  # by what has read it
        self._kept_as_of: object = None
        self.problems: list[str] = []
        self.conn = self._open()
        self._is_away = False  # a new file could not be opened so far

    def _open(self) -> sqlite3.Connection:
        """A connection, which is closed at the latest when this object or the program ends."""
        conn = initialize_db(self.path, self.read_only, tell=self.problems.append)
        weakref.finalize(self, _close_left_open, conn)
        return conn

    def close(self) -> None:
        """Close the file. After that the history cannot be used."""
        self.conn.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, nodes: Iterable[Node]) -> None:
        """Learn from all nodes that exist now.

        Required nodes and those that are not Ready count as needed now. A node is ready from the
        first time that it is seen Ready, or running a job, and stays so. One that rests and was
        never ready counts as first seen now, and one with another host name than before as needed
        now. Nodes without a NodeId are passed over. Where nobody watched since the last update, the
        times of nodes are moved on by what does not count (`watching`). One transaction; cost is
        linear in the nodes.
        """
        if self.read_only:
            return
        present = with_ids(nodes)
        self._run(lambda conn: self._update(conn, present))

    def _update(self, conn: sqlite3.Connection, nodes: Sequence[Node]) -> None:
        now = self.now()
        with self._changing(conn, watching.update_times):
            gap = self._gap(conn, now)
            before = self._recall(conn, watching.sightings)
            there = self._recall(conn, read_alive)
            stored = self._find(conn, map(node_id_of, nodes))
            seen: dict[str, NodeRecord] = {}
            busy: set[str] = set()
            for node in nodes:
                node_id = node_id_of(node)
                if node.required or node.state != "Ready":
                    busy.add(node_id)
                known = seen.get(node_id)
                if known is None and node_id in stored:
                    known = _moved(stored[node_id], gap, now)
                    is_another = _has_another_host(node, known)
                    if is_another:
                        busy.add(node_id)
                    was_idle = before.get(node_id, Sighting()).idle_passes > 0
                    if is_another or (self.rhythm.declared is not None and not was_idle):
                        # time counts between two updates that both saw it idle
                        known = known._replace(last_match_time=now)
                seen[node_id] = _observed(node, known, now, gap.is_known)
            respelled = [r.node_id for node_id, r in stored.items() if r.node_id != node_id]
            delete(conn, respelled)
            if seen:
                ids_are_true(conn)
            needed, changed = _what_is_new(seen, stored)
            touch(conn, needed)
            write(conn, changed)
            gone = [node_id for node_id in there if node_id not in seen]
            unwatched = gap.length if gap.is_known and math.isfinite(gap.length) else 0.0
            mark_deleted(conn, gone, now, unwatched)
            self._retire(conn, now, RETIRE_AFTER)
            after = watching.after_update(before, seen, seen.keys() - busy, gap.uncounted, now)
            watching.write_sightings(conn, before, after)
            watching.note_update(conn, now)
            if self.cluster and watching.note_cluster(conn, self.cluster):
                self.problems.append(
                    "the node history is also used for another cluster, so that no node of either"
                    " becomes idle: name another nodehistorydb for each"
                )
        self._kept.update({read_alive: seen, watching.sightings: after})

    def sightings(self) -> dict[str, Sighting]:
        """What was seen of each existing node beside its times, by NodeId."""
        return dict(self._run(lambda conn: self._recall(conn, watching.sightings)))

    def found_ready(self) -> frozenset[str]:
        """The ids of existing nodes that were ready already when they were first seen here."""
        query = "SELECT node_id FROM nodes WHERE delete_time IS NULL AND ready_time <= create_time"
        return self._run(lambda conn: frozenset(row[0] for row in conn.execute(query)))

    def ready_since(self) -> dict[str, float]:
        """When each existing node that has been ready was first seen so, in unix seconds, by
        NodeId."""
        return {
            known.node_id: known.ready_time for known in self.read().values() if known.was_ready
        }

    def updates(self) -> list[float]:
        """When it was updated the last times, in unix seconds, oldest first."""
        return self._run(watching.update_times)

    def gone(self) -> GoneNodes:
        """The ids of nodes that there were before and are not any more, until they are retired;
        looked up when somebody asks. NodeHistoryError then, where the file cannot be read."""
        return GoneNodes(self._run)

    def note_scheduler(
        self, reported: Collection[str], missing: Collection[str], given_up: Collection[str]
    ) -> None:
        """Note of which nodes the scheduler reports a host, of which nothing is known, because it
        has reported theirs before and does not now, and which it has given up.

        Called after an update, in the same pass. A node that is reported again was not seen idle
        meanwhile, so that its idle time begins anew.
        """
        if not self.read_only:
            self._run(lambda conn: self._note_scheduler(conn, reported, missing, given_up))

    def _note_scheduler(
        self,
        conn: sqlite3.Connection,
        reported: Collection[str],
        missing: Collection[str],
        given_up: Collection[str],
    ) -> None:
        now = self.now()
        with self._changing(conn):
            before = self._recall(conn, watching.sightings)
            back = [i for i in reported if (s := before.get(i)) and s.missing_time is not None]
            found = list(self._find(conn, back).values())
            after = watching.after_answer(before, reported, missing, given_up, now)
            watching.write_sightings(conn, before, after)
            write(conn, [record._replace(last_match_time=now) for record in found])
        self._kept[watching.sightings] = after
        if found:
            self._kept.pop(read_alive, None)

    def drains(self) -> dict[str, Drain]:
        """The nodes that are on their way out, by NodeId."""
        return dict(self._run(lambda conn: self._recall(conn, read_drains)))

    def note_drains(self, changes: Mapping[str, Drain | None]) -> None:
        """Keep how far nodes are on their way out; None for those that are active, or gone."""

        def note(conn: sqlite3.Connection) -> None:
            with self._changing(conn, read_drains):
                write_drains(conn, changes)

        if not self.read_only:
            self._run(note)

    def find_unmatched(self, for_at_least: float = 300) -> NodeHistoryResult:
        """The existing nodes that have not been needed for more than so many seconds, longest
        first.

        With a number below 0, every node.
        """
        return self._find_since(for_at_least, lambda record: record.last_match_time)

    def find_booting(self, for_at_least: float = 1800) -> NodeHistoryResult:
        """The existing nodes that have never been ready and were first seen so many seconds ago.

        They are in order, oldest first. With a number below 0, all that have never been ready.
        """
        return self._find_since(
            for_at_least,
            lambda record: record.create_time,
            lambda record: record.ready_time < record.create_time < math.inf,
        )

    def _find_since(
        self,
        for_at_least: float,
        when: Callable[[NodeRecord], float],
        counts: Callable[[NodeRecord], bool] = lambda record: True,
    ) -> NodeHistoryResult:
        """The existing nodes that count, by a time of theirs; one that has none counts as now, and
        comes first."""
        check_numbers("node history", for_at_least=for_at_least)
        now = self.now()

        def ask(conn: sqlite3.Connection) -> NodeHistoryResult:
            by = self._gap(conn, now).uncounted
            rows = [
                (-math.inf if at == math.inf else at, record.node_id, record.hostname)
                for record in self._recall(conn, read_alive).values()
                if counts(record)
                for at in (when(record),)
            ]
            found = [
                (
                    ht.NodeId(node_id),
                    None if name is None else ht.Hostname(name),
                    watching.moved(now if at == -math.inf else at, by, now),
                )
                for at, node_id, name in sorted(rows)
            ]
            return [row for row in found if for_at_least < 0 or row[2] < now - for_at_least]

        return self._run(ask)

    def _gap(self, conn: sqlite3.Connection, now: float) -> watching.Gap:
        """The time since the last update."""
        return watching.gap_until(self._recall(conn, watching.update_times), now, self.rhythm)

    def find_ignored(self) -> NodeHistoryResult:
        """The nodes that were marked by `mark_ignored`, with the time when they were last needed.

        Nodes that are gone are among them.
        """
        query = "SELECT node_id, hostname, last_match_time FROM nodes WHERE ignore ORDER BY node_id"
        return self._run(lambda conn: conn.execute(query).fetchall())

    def mark_ignored(self, nodes: Iterable[Node]) -> None:
        """Mark nodes as ones to leave alone. A node not known yet is recorded as first seen now."""
        self._set_ignored(nodes, True)

    def unmark_ignored(self, nodes: Iterable[Node]) -> None:
        """Undo `mark_ignored`."""
        self._set_ignored(nodes, False)

    def _set_ignored(self, nodes: Iterable[Node], ignore: bool) -> None:
        if self.read_only:
            logging.warning("Node history %s is read-only: nodes not marked", self.path)
            return
        present = with_ids(nodes)
        self._run(lambda conn: self._write_ignored(conn, present, ignore))

    def _write_ignored(self, conn: sqlite3.Connection, nodes: Sequence[Node], ignore: bool) -> None:
        now = self.now()
        with self._changing(conn, read_alive):
            stored = self._find(conn, [node_id_of(node) for node in nodes])
            records = []
            for node in nodes:
                record = stored.get(node_id_of(node))
                if record is None and ignore:
                    record = _observed(node, None, now)
                if record is not None:
                    records.append(record._replace(ignore=ignore))
            write(conn, records)

    def retire_records(self, timeout: float = RETIRE_AFTER, commit: bool = True) -> None:
        """Forget the nodes that have been gone for more than so many seconds.

        Without `commit` the caller commits.
        """
        check_numbers("node history", timeout=timeout)
        if self.read_only:
            return
        now = self.now()
        self._run(lambda conn: self._retire_now(conn, now, timeout, commit))

    def _retire_now(
        self, conn: sqlite3.Connection, now: float, timeout: float, commit: bool
    ) -> None:
        self._retire(conn, now, timeout)
        if commit:
            conn.commit()

    @staticmethod
    def _retire(conn: sqlite3.Connection, now: float, timeout: float) -> None:
        # times far ahead come from a clock that was wrong, and would never be reached
        done = conn.execute(
            "DELETE FROM nodes WHERE delete_time < ? OR delete_time > ?",
            (now - timeout, now + _FAR_AHEAD + timeout),
        )
        if done.rowcount > 0:
            logging.debug("Retired %d records of the node history", done.rowcount)

    def read(self) -> dict[str, NodeRecord]:
        """What is known of every existing node, by NodeId."""
        return dict(self._run(lambda conn: self._recall(conn, read_alive)))

    def decorate(self, nodes: Iterable[Node], config: Mapping[str, Any] | None = None) -> None:
        """Write into each existing node when it was first seen, last needed and deleted, and how
        many seconds it has left before the idle and boot timeouts of `config`. A node not known yet
        counts as first seen now; that it cannot be idle is written only of one that is known.
        """
        check_kinds("node history", Mapping | None, config=config)
        present = [node for node in with_ids(nodes) if node.exists]
        now, settings = self.now(), dict(config or {})
        stored, gap = self._run(
            lambda conn: (
                self._find(conn, [node_id_of(node) for node in present]),
                self._gap(conn, now),
            )
        )
        for node in present:
            known = stored.get(node_id_of(node))
            if known is not None:
                known = _moved(known, gap, now)
            record = known or NodeRecord(node_id_of(node), None, None, now, now)
            _decorate(node, record, now, settings)
            if known is not None and not _may_idle(node):
                node.idle_time_remaining = -1

    # -- what is kept of the file

    def _recall(self, conn: sqlite3.Connection, read: Callable[[sqlite3.Connection], _T]) -> _T:
        """What a function reads of the file, as it was read last where nothing has changed since.
        Nobody may change it."""
        self._forget_the_old(conn)
        if read in self._kept:
            return cast("_T", self._kept[read])
        found = read(conn)
        if not conn.in_transaction:  # or it may be undone
            self._kept[read] = found
        return found

    def _forget_the_old(self, conn: sqlite3.Connection) -> None:
        as_of = _stamp(conn)
        if as_of != self._kept_as_of:
            self._kept.clear()
            self._kept_as_of = as_of

    @contextlib.contextmanager
    def _changing(
        self, conn: sqlite3.Connection, *read: Callable[[sqlite3.Connection], object]
    ) -> Iterator[None]:
        """A transaction that changes what these functions read; what others read stays known."""
        with transaction(conn):
            self._forget_the_old(conn)
            yield
            as_of = _stamp(conn)
        self._kept_as_of = as_of
        for each in read:
            self._kept.pop(each, None)

    def _find(self, conn: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, NodeRecord]:
        """The records of these ids, also of nodes that are gone."""
        there = self._recall(conn, read_alive)
        found: dict[str, NodeRecord] = {}
        others: list[str] = []
        for node_id in node_ids:
            if node_id in there:
                found[node_id] = there[node_id]
            else:
                others.append(node_id)
        return {**found, **find(conn, others)} if others else found

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do some work on the file; when the file proves to be broken, or is not there any more, do
        it again on a new one."""
        try:
            return work(self.conn)
        except sqlite3.Error as error:
            if self.read_only or not (is_lost(error) or self._is_away):
                raise NodeHistoryError(
                    f"node history {self.path}: {in_words(error, self.path)}"
                ) from error
            if not self._is_away:
                logging.warning("Node history %s is broken, or gone: %s", self.path, error)
        self.conn.close()
        self._is_away = True
        self.conn = self._open()
        self._is_away = False
        try:
            return work(self.conn)
        except sqlite3.Error as error:
            raise NodeHistoryError(
                f"node history {self.path}: {in_words(error, self.path)}"
            ) from error


def _stamp(conn: sqlite3.Connection) -> object:
    """Another one whenever the content of the file may be another: by other connections, or by this
    one, also where that is undone."""
    return (conn, conn.execute("PRAGMA data_version").fetchone(), conn.total_changes)


def _close_left_open(conn: sqlite3.Connection) -> None:
    # whichever thread collects the garbage; only the one that opened it may close it
    with contextlib.suppress(sqlite3.ProgrammingError):
        conn.close()


def _observed(
    node: Node, known: NodeRecord | None, now: float, is_exact: bool = False
) -> NodeRecord:
    """The record of a node after seeing it now.

    `is_exact`: it is known how long a gap between updates may be, so that times were moved on by
    what does not count. A node that is needed was then last needed now, by whatever the clock says.
    Otherwise that time does not go back with the clock: a node needed before the clock was set back
    would look idle for longer once the clock is right again. Times far ahead, from a clock that was
    wrong then, are brought back to now in any case.

    A node whose metadata has `__ignore__` says itself whether it is to be left alone.
    """
    record = known or NodeRecord(node_id_of(node), None, None, now, now)
    # it boots from when it is started, once more if it did before
    is_resting = node.was_at_rest or not node.exists
    if is_resting:
        record = record._replace(ready_time=0.0)
    created = now if is_resting else _plausible(record.create_time, now)
    if is_exact:  # nobody waits for a clock that was ahead when the node was first seen
        created = min(created, now)
    matched = _plausible(record.last_match_time, now)
    # one that was thought gone may have been at work unwatched
    if node.required or node.state != "Ready" or record.delete_time is not None:
        matched = now if is_exact else max(matched, now)
    # which of the two is later tells whether it was ready when it was first seen
    ready = record.ready_time - (record.create_time - created if record.was_ready else 0.0)
    if ready > created:
        ready = max(created + _A_MOMENT, _plausible(ready, now))
    is_ready = node.state == "Ready" or bool(node.metadata.get("_running_job_"))
    if is_ready and not record.was_ready:
        # later than it was first seen, where it was seen before: `found_ready` goes by that
        ready = max(created, now) if known is None else max(created + _A_MOMENT, now)
    return NodeRecord(
        node_id=node_id_of(node),
        hostname=node.hostname or record.hostname,
        instance_id=node.instance_id or record.instance_id,
        create_time=created,
        last_match_time=matched,
        ready_time=ready,
        delete_time=None,
        ignore=bool(node.metadata.get("__ignore__", record.ignore)),
    )


def _has_another_host(node: Node, known: NodeRecord) -> bool:
    """Whether a node has another host name than before: what the scheduler says of that host says
    nothing of the time before, or the server has taken two nodes for each other."""
    now, before = short_name(node.hostname), short_name(known.hostname)
    return bool(now and before) and now != before


def _what_is_new(
    seen: Mapping[str, NodeRecord], stored: Mapping[str, NodeRecord]
) -> tuple[list[NodeRecord], list[NodeRecord]]:
    """The records of which nothing is new but when the node was last needed, and all others that
    are not as they are stored."""
    needed: list[NodeRecord] = []
    changed: list[NodeRecord] = []
    for node_id, record in seen.items():
        before = stored.get(node_id)
        if record == before:
            continue
        is_old = before is not None and record == before._replace(
            last_match_time=record.last_match_time
        )
        (needed if is_old else changed).append(record)
    return needed, changed


def _moved(record: NodeRecord, gap: watching.Gap, now: float) -> NodeRecord:
    """A record as of now, when part of the time since the last update does not count.

    When a node was first seen matters until it was ready; time in which it was not listed does not
    count for that.
    """
    by, created = gap.uncounted, record.create_time
    if not by and (record.delete_time is None or record.was_ready):
        return record
    if not record.was_ready:
        if gap.is_known and record.delete_time is not None:
            created = watching.moved(created, now - record.delete_time, now)
        else:
            created = watching.moved(created, by, now)
    matched = watching.moved(record.last_match_time, by, now)
    return record._replace(create_time=created, last_match_time=matched)


def _plausible(moment: float, now: float) -> float:
    return moment if moment <= now + _FAR_AHEAD else now


def _decorate(node: Node, record: NodeRecord, now: float, config: dict[str, Any]) -> None:
    created = _plausible(record.create_time, now)
    matched = _plausible(record.last_match_time, now)
    node.create_time_unix = created
    node.last_match_time_unix = matched
    node.delete_time_unix = record.delete_time
    if not record.was_ready:
        booting_for = max(0.0, now - created)
        left = parse_boot_timeout(config, node) - booting_for
        node.create_time_remaining = max(0.0, left)
    if _may_idle(node):
        idle_for = max(0.0, now - matched)
        node.idle_time_remaining = max(0.0, parse_idle_timeout(config, node) - idle_for)


def _may_idle(node: Node) -> bool:
    return node.state == "Ready" and not node.keep_alive
