"""The rows of the table `nodes`, one for each node: reading and writing many of them.

Only `sqlite` calls this.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from hpc.autoscale.node.nodehistory.dbfile import has_old_ids

_READ_BLOCK = 100
_DEFAULT_WRITE_BLOCK = 25

_T = TypeVar("_T")


class NodeRecord(NamedTuple):
    """What is known of one node; times are unix seconds. `ready_time` is 0 while the node has never
    been ready, `delete_time` None while it exists."""

    node_id: str
    hostname: str | None
    instance_id: str | None
    create_time: float
    last_match_time: float
    ready_time: float = 0.0
    delete_time: float | None = None
    ignore: bool = False

    @property
    def was_ready(self) -> bool:
        """Whether the node has ever been ready, whatever became of it later."""
        return self.ready_time > 0 and self.ready_time >= self.create_time


_SELECT = f"SELECT {', '.join(NodeRecord._fields)} FROM nodes"
_REPLACE = (
    f"INSERT OR REPLACE INTO nodes ({', '.join(NodeRecord._fields)}) "
    f"VALUES ({', '.join('?' * len(NodeRecord._fields))})"
)


def _record(row: Sequence[Any]) -> NodeRecord:
    node_id, hostname, instance_id, created, matched, ready, deleted, ignore = row
    return NodeRecord(
        node_id,
        hostname,
        instance_id,
        moment(created, math.inf),
        moment(matched, math.inf),
        moment(ready, 0.0),
        None if deleted is None else moment(deleted, 0.0),
        bool(ignore),
    )


def moment(value: object, missing: float) -> float:
    """A stored time. A missing one never counts as long ago.

    It is read as infinity, which becomes now where it is used.
    """
    return float(value) if isinstance(value, int | float) else missing


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """A context in which all writes are done or none, and nobody else writes in between."""
    if not conn.in_transaction:
        conn.execute("BEGIN IMMEDIATE")
    with conn:
        yield


def find(conn: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, NodeRecord]:
    """The records of these ids.

    In a file that still has ids in lower case such a record is found, too, and has that id.
    """
    wanted = set(node_ids)
    found = {record.node_id: record for record in _select(conn, wanted)}
    if has_old_ids(conn):
        lower = {i.lower(): i for i in wanted if i not in found and i.lower() not in wanted}
        found.update({lower[record.node_id]: record for record in _select(conn, lower)})
    return found


def _select(conn: sqlite3.Connection, node_ids: Iterable[str]) -> Iterator[NodeRecord]:
    for block in _blocks(sorted(node_ids), _READ_BLOCK):
        marks = ", ".join("?" * len(block))
        for row in conn.execute(f"{_SELECT} WHERE node_id IN ({marks})", block):
            yield _record(row)


def read_alive(conn: sqlite3.Connection) -> dict[str, NodeRecord]:
    """The records of the nodes that are not gone, by NodeId; in a damaged file some have none."""
    there = "delete_time IS NULL AND typeof(node_id) = 'text'"
    rows = conn.execute(f"{_SELECT} WHERE {there} ORDER BY rowid")
    return {record.node_id: record for record in map(_record, rows)}


def mark_deleted(
    conn: sqlite3.Connection, node_ids: Sequence[str], now: float, unwatched: float = 0.0
) -> None:
    """Note that nodes are gone. The times at which those that were never ready were first seen are
    moved on by `unwatched` seconds, in which it is not known whether they were booting."""
    rows = [(now, node_id) for node_id in node_ids]
    _run_blocks(conn, "UPDATE nodes SET delete_time = ? WHERE node_id = ?", rows)
    if unwatched:
        booting = "typeof(create_time) = 'real' AND COALESCE(ready_time, 0) < create_time"
        statement = (
            f"UPDATE nodes SET create_time = create_time + ? WHERE node_id = ? AND {booting}"
        )
        _run_blocks(conn, statement, [(unwatched, node_id) for node_id in node_ids])


def delete(conn: sqlite3.Connection, node_ids: Sequence[str]) -> None:
    """Remove the records of nodes."""
    _run_blocks(conn, "DELETE FROM nodes WHERE node_id = ?", [(node_id,) for node_id in node_ids])


def write(conn: sqlite3.Connection, records: Sequence[NodeRecord]) -> None:
    """Add records; they replace those with the same ids."""
    _run_blocks(conn, _REPLACE, records)


def touch(conn: sqlite3.Connection, records: Iterable[NodeRecord]) -> None:
    """Write when nodes were last needed, of records of which nothing else is new: in a busy cluster
    nearly all, and no index has to follow."""
    rows = [(record.last_match_time, record.node_id) for record in records]
    _run_blocks(conn, "UPDATE nodes SET last_match_time = ? WHERE node_id = ?", rows)


def _run_blocks(conn: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    for block in _blocks(rows, _write_block()):
        conn.executemany(statement, block)


def _blocks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _write_block() -> int:
    """How many rows to write at a time, from the environment."""
    text = os.environ.get("SCALELIB_SQLITE_INSERT_BLOCK", "")
    return (
        int(text) if text.isascii() and text.isdigit() and int(text) > 0 else _DEFAULT_WRITE_BLOCK
    )
