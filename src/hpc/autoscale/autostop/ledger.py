"""The SQLite file of stops: which nodes were told yes, and which nodes of groups have asked.

All that decide on one cluster share it: service processes, and the loop before it deletes nodes. A
decision and its entry are one transaction, so that two of them never give away the same surplus. A
yes stands for ten minutes. That a node is gone ends it sooner without an entry: whoever no longer
finds the node in the cluster counts it neither as surplus nor as somebody who was told yes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from hpc.autoscale.autostop.decision import (
    ASKED_SECONDS,
    RESERVED_SECONDS,
    Answer,
    Code,
    Surplus,
    decide,
)
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.sqlitefile import SqliteFile


class LedgerError(AutoscaleError):
    """The file of stops cannot be read or written; nobody was told yes."""


class Ledger(SqliteFile):
    """The stops in a file. Any number of threads and processes may use it."""

    NAME = "stops"
    VERSION = 1
    TABLES = (
        "CREATE TABLE stops (node_id TEXT PRIMARY KEY, instance_id TEXT, name TEXT NOT NULL,"
        " lapses_at REAL NOT NULL)",
        "CREATE TABLE asks (node_id TEXT PRIMARY KEY, lapses_at REAL NOT NULL)",
    )
    ERROR = LedgerError
    REMEDY = "move it away; what was reserved in it is forgotten then"

    def prepare(self) -> None:
        """Make the file where there is none. LedgerError when it cannot be used."""
        with self.writing():
            pass

    def decide(
        self, surplus: Surplus, node_ids: Sequence[str], now: float, yes_is_final: bool = True
    ) -> dict[str, Answer]:
        """The answer for each node that asks; every yes is written down before this returns.

        `yes_is_final`: see `decision.decide`. LedgerError when it cannot be written.
        """
        with self.writing() as db:
            _forget(db, now)
            _remember_asks(db, surplus, node_ids, now)
            rows = db.execute("SELECT node_id FROM asks").fetchall()
            asked = [each for (each,) in self.of_kinds(rows, (str,))]
            return self._decide(db, surplus, node_ids, asked, now, yes_is_final)

    def claim(self, surplus: Surplus, node_ids: Sequence[str], now: float) -> set[str]:
        """Of nodes that somebody is about to delete on his own account, those that may go, given
        who has been told yes. No other node takes the place of one of a group, so those may.
        LedgerError as in `decide`."""
        alone = [each for each in node_ids if surplus.by_id[each].group is None]
        with self.writing() as db:
            _forget(db, now)
            answers = self._decide(db, surplus, alone, (), now)
        return {each for each in node_ids if each not in answers or answers[each].accepted}

    def release(self, node_ids: Iterable[str]) -> None:
        """Take back a yes that was not told to anybody."""
        with self.writing() as db:
            db.executemany("DELETE FROM stops WHERE node_id = ?", [(each,) for each in node_ids])

    def told_yes(self, instance: str, now: float) -> Answer | None:
        """The yes that stands for a node of this InstanceId or NodeId, listed or not; a NodeId may
        also be the one that the node has in its own of several clusters."""
        with self.writing() as db:
            _forget(db, now)
            rows = self._stops(db)
        for name, node_id, instance_id in rows:
            if instance in (instance_id, node_id, split_name(node_id)[1]):
                return Answer(Code.MAY_STOP, f"{name} is stopping", name)
        return None

    def reserved(self, now: float) -> set[str]:
        """The NodeIds for which a yes stands."""
        with self.writing() as db:
            _forget(db, now)
            return {node_id for _, node_id, _ in self._stops(db)}

    def _stops(self, db: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
        """Name, NodeId and InstanceId of each node that was told yes. LedgerError for a row that is
        damaged, until it lapses: it says that some node goes, and not which."""
        rows = db.execute("SELECT name, node_id, instance_id FROM stops").fetchall()
        return self.of_kinds(rows, (str, str, str | None))

    def _decide(
        self,
        db: sqlite3.Connection,
        surplus: Surplus,
        node_ids: Sequence[str],
        asked: Iterable[str],
        now: float,
        yes_is_final: bool = True,
    ) -> dict[str, Answer]:
        before = {node_id for _, node_id, _ in self._stops(db)}
        reserved = set(before)
        answers = decide(surplus, node_ids, reserved, asked, yes_is_final)
        db.executemany(
            "DELETE FROM stops WHERE node_id = ?", [(each,) for each in before - reserved]
        )
        new = [surplus.by_id[each] for each in reserved - before]
        until = now + RESERVED_SECONDS
        db.executemany(
            "INSERT INTO stops VALUES (?, ?, ?, ?)",
            [(one.node_id, one.instance_id, one.name, until) for one in new],
        )
        return answers


def _forget(db: sqlite3.Connection, now: float) -> None:
    """Let lapse what has lapsed. After a clock that went back, nothing stands for longer than if
    it were new."""
    for table, longest in (("stops", RESERVED_SECONDS), ("asks", ASKED_SECONDS)):
        db.execute(f"DELETE FROM {table} WHERE lapses_at <= ?", (now,))
        db.execute(
            f"UPDATE {table} SET lapses_at = ? WHERE lapses_at > ?", (now + longest, now + longest)
        )


def _remember_asks(
    db: sqlite3.Connection, surplus: Surplus, node_ids: Iterable[str], now: float
) -> None:
    rows = [(each, now + ASKED_SECONDS) for each in node_ids if surplus.by_id[each].group]
    db.executemany("INSERT OR REPLACE INTO asks VALUES (?, ?)", rows)
