"""States of a system in an SQLite file, for monitoring plug-ins."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.plugins.roles import ClusterState
from hpc.autoscale.sqlitefile import SqliteFile

DAY = 86_400.0


class StateLogError(AutoscaleError):
    """The file of states cannot be read or written."""


class StateLog(SqliteFile):
    """The states of the last `keep` seconds in the file at `path`.

    StateLogError when the file cannot be used, and TypeError for a state that is no JSON.
    """

    NAME = "states"
    VERSION = 1
    TABLES = (
        "CREATE TABLE states (taken_at REAL NOT NULL, jobs TEXT NOT NULL, facts TEXT NOT NULL)",
        "CREATE INDEX states_by_time ON states (taken_at)",
    )
    ERROR = StateLogError
    REMEDY = "move it away; past states are forgotten then"

    def __init__(self, path: str, keep: float = DAY) -> None:
        super().__init__(path)
        self._keep = keep

    def store(self, state: ClusterState) -> None:
        """Add a state, and forget those that are older than it by more than `keep` seconds.

        States from after it are forgotten, too: the clock was wrong then.
        """
        row = (state.taken_at, json.dumps(list(state.jobs)), json.dumps(dict(state.facts)))
        with self.writing() as db:
            db.execute(
                "DELETE FROM states WHERE taken_at < ? OR taken_at > ?",
                (state.taken_at - self._keep, state.taken_at),
            )
            db.execute("INSERT INTO states VALUES (?, ?, ?)", row)

    def states(self, since: float) -> Sequence[ClusterState]:
        """The states taken at `since` (unix seconds) or later, oldest first."""
        query = "SELECT taken_at, jobs, facts FROM states WHERE taken_at >= ? ORDER BY rowid"
        rows = self.of_kinds(self.rows(query, (since,)), (int | float, str, str))
        return [self._state(*row) for row in rows]

    def _state(self, taken_at: float, *texts: str) -> ClusterState:
        try:
            jobs, facts = map(json.loads, texts)
        except (ValueError, RecursionError) as error:
            raise self.damaged(error) from error
        self.of_kinds([(jobs, facts)], (list, dict))
        return ClusterState(taken_at, jobs, facts)
