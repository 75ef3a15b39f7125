"""What each of several clusters had when it last answered, for passes in which one does not.

Its nodes are still there then, and whoever forgets them would take their hosts for strangers. So
the last status and the last records are kept: in memory, and in an SQLite file for later processes.
Called by `several` alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.models import ClusterStatus
from hpc.autoscale.errors import AutoscaleError, one_line
from hpc.autoscale.redaction import redact
from hpc.autoscale.sqlitefile import SqliteFile

Record = Mapping[str, Any]

# what a record says of its node beside its configuration, which would be most of the file
_KEPT = (
    *("Name", "NodeId", "Template", "MachineType", "Status", "TargetState", "Hostname"),
    *("PrivateIp", "InstanceId", "PlacementGroupId", "Region", "CoreCount", "Memory"),
    *("Interruptible", "KeepAlive", "RequestId"),
)


class LastSeenError(AutoscaleError):
    """The file that remembers what clusters had cannot be read or written."""


class Look(NamedTuple):
    """What a cluster said of itself at one time: its status, and the records of all its nodes."""

    status: ClusterStatus
    records: Sequence[Record]


class LastSeenFile(SqliteFile):
    """The file at `path`."""

    NAME = "what clusters had"
    VERSION = 2
    TABLES = (
        "CREATE TABLE looks (cluster TEXT PRIMARY KEY, place TEXT, look TEXT)",
        # what became of nodes since the look
        "CREATE TABLE later (cluster TEXT, node TEXT, record TEXT, PRIMARY KEY (cluster, node))",
    )
    UPGRADES = {1: TABLES[1:]}
    ERROR = LastSeenError
    REMEDY = "delete it; then a cluster that does not answer is not known until it does"


class LastSeen:
    """The last look at each cluster, by its name; `path`: the file, None for memory alone.

    What is known of a cluster is forgotten when its name is that of one in another `place`: another
    server, or another cluster there. Of a file that cannot be used `problems` say so, a sentence
    each: whoever asks is told that nothing is known.
    """

    def __init__(self, path: str | None = None, read_only: bool = False) -> None:
        self._file = LastSeenFile(path) if path else None
        self._read_only = read_only
        self._known: dict[str, Look] = {}
        self._problems: dict[str, None] = {}

    @property
    def problems(self) -> list[str]:
        """What was wrong with the file so far."""
        return list(self._problems)

    def _warn(self, error: Exception, what: str) -> None:
        said = f"{error}; {what}"
        logging.warning("%s", said)
        self._problems[said] = None

    def keep(self, cluster: str, place: str, look: Look) -> None:
        """Remember what a cluster has now."""
        self._known[cluster] = look
        if self._file is None or self._read_only:
            return
        records = [_kept(record) for record in look.records]
        try:
            # configurations of nodearrays have passwords, and others may read the file
            status = redact(_without_nodes(look.status))
            text = json.dumps({"status": status, "nodes": records})
            known = "SELECT 1 FROM looks WHERE cluster = ? AND place = ? AND look = ?"
            later = "SELECT 1 FROM later WHERE cluster = ?"
            is_known = self._file.rows(known, (cluster, place, text))
            if not is_known or self._file.rows(later, (cluster,), since=2):
                with self._file.writing() as db:
                    db.execute("REPLACE INTO looks VALUES (?, ?, ?)", (cluster, place, text))
                    db.execute("DELETE FROM later WHERE cluster = ?", (cluster,))
        except (LastSeenError, TypeError, ValueError) as error:
            self._warn(error, "what clusters have is not remembered")

    def note(self, cluster: str, place: str, records: Sequence[Record]) -> None:
        """Remember what became of some nodes since the last look at a cluster, beside that."""
        last = self.of(cluster, place)
        if last is None or not records:
            return
        self._known[cluster] = last._replace(records=_with(last.records, records))
        if self._file is None or self._read_only:
            return
        try:
            rows = [(cluster, str(r.get("NodeId")), json.dumps(_kept(r))) for r in records]
            with self._file.writing() as db:
                db.executemany("REPLACE INTO later VALUES (?, ?, ?)", rows)
        except (LastSeenError, TypeError, ValueError) as error:
            self._warn(error, "what was made is not remembered")

    def of(self, cluster: str, place: str) -> Look | None:
        """What a cluster had when it last answered; None where nobody knows."""
        if cluster not in self._known:
            found = self._read(cluster, place)
            if found is not None:
                self._known[cluster] = found
        return self._known.get(cluster)

    def _read(self, cluster: str, place: str) -> Look | None:
        if self._file is None:
            return None
        query = "SELECT look FROM looks WHERE cluster = ? AND place = ?"
        try:
            rows = self._file.rows(query, (cluster, place))
            if not rows:
                return None
            saved = json.loads(rows[0][0])
            status = ClusterStatus.from_dict(saved["status"])
            status.validate()
            query = "SELECT record FROM later WHERE cluster = ? ORDER BY rowid"
            later = [
                dict(json.loads(row[0])) for row in self._file.rows(query, (cluster,), since=2)
            ]
            return Look(status, _with([dict(record) for record in saved["nodes"]], later))
        except (AutoscaleError, TypeError, ValueError, KeyError, RecursionError) as error:
            known = isinstance(error, LastSeenError)
            damage = error if known else self._file.damaged(one_line(error))
            self._warn(damage, f"what cluster {cluster} had is not known")
            return None


def _kept(record: Record) -> dict[str, Any]:
    """What is kept of a record: of its configuration what is for autoscaling, such as of which
    dynamic array the node is."""
    kept = {key: record[key] for key in _KEPT if record.get(key) is not None}
    configuration = record.get("Configuration")
    ours = configuration.get("autoscale") if isinstance(configuration, Mapping) else None
    return {**kept, "Configuration": {"autoscale": redact(ours)}} if ours else kept


def _with(records: Sequence[Record], newer: Sequence[Record]) -> list[Record]:
    """Records of nodes with newer ones in their places, and of further nodes."""
    known = {record.get("NodeId"): record for record in records}
    known.update((record.get("NodeId"), record) for record in newer)
    return list(known.values())


def _without_nodes(status: ClusterStatus) -> dict[str, Any]:
    said = status.to_dict()
    said.pop("nodes", None)
    return said
