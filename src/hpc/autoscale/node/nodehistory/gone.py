"""The ids of nodes that are gone, as the file of the node history has them.

A week of them may be many times as many as there are nodes, and a pass asks for few of them or for
none: so they are looked up one by one, when somebody asks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

_GONE = "FROM nodes WHERE delete_time IS NOT NULL AND typeof(node_id) = 'text'"


class Runs(Protocol):
    """Does some work on the file, and gives what comes of it."""

    def __call__(self, work: Callable[[sqlite3.Connection], Any], /) -> Any: ...


class GoneNodes(Collection[str]):
    """The ids; those that are gone when it is looked into, and not when it was made.

    NodeHistoryError is raised by whatever looks into it, where the file cannot be read.
    """

    def __init__(self, run: Runs) -> None:
        self._run = run

    def __contains__(self, node_id: object) -> bool:
        query = f"SELECT 1 {_GONE} AND node_id = ?"
        if not isinstance(node_id, str) or not _is_utf8(node_id):
            return False
        return bool(self._run(lambda conn: conn.execute(query, (node_id,)).fetchone()))

    def __iter__(self) -> Iterator[str]:
        rows = self._run(lambda conn: conn.execute(f"SELECT node_id {_GONE}").fetchall())
        return iter([row[0] for row in rows])

    def __len__(self) -> int:
        return int(self._run(lambda conn: conn.execute(f"SELECT COUNT(*) {_GONE}").fetchone())[0])


def _is_utf8(text: str) -> bool:
    """Whether it can be in the file: a lone surrogate is what schedulers make of other bytes."""
    return text.encode("utf-8", "ignore").decode("utf-8") == text
