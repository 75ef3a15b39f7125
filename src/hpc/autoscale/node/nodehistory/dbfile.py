"""The SQLite file of the node history, and how it is opened in whatever state it is.

A new file is complete before anybody else can see it. Files of cyclecloud-scalelib are taken over
in place, and files that cannot be used are moved aside. What is stored and what it means is in
`rows` and in `sqlite`, the only caller.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.nodehistory import draining, watching
from hpc.autoscale.sqlitefile import connect_to_read, in_words

SQLITE_VERSION = "0.0.6"
"""Version of the tables, as stored in the file; the one that cyclecloud-scalelib uses too."""

BUSY_SECONDS = 30.0
"""How long to wait for another process that is writing."""

MEMORY = ":memory:"

# How much of what cyclecloud-scalelib stored differently has been put right; it leaves this number
# at 0 itself.
_TRUE_TIMES = 1
_TRUE_IDS = 2

_COLUMNS = "node_id hostname instance_id create_time last_match_time ready_time delete_time ignore"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS metadata (version TEXT)",
    "CREATE TABLE IF NOT EXISTS nodes (node_id TEXT PRIMARY KEY, hostname TEXT, instance_id TEXT, "
    "create_time REAL, last_match_time REAL, ready_time REAL, delete_time REAL, ignore BOOL)",
)
# a week of nodes that are gone may be many times as many as there are
_INDEX = "CREATE INDEX IF NOT EXISTS nodes_by_end ON nodes (delete_time)"
_TIMES = ("create_time", "last_match_time", "ready_time", "delete_time")


class NodeHistoryError(AutoscaleError):
    """The node history could not be read or written."""


_UNKNOWN = "unknown"
"""The version of a file that does not say which it is of."""


class _Unusable(Exception):
    """The file is no history that can be used. `version` is the version that it claims to have."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.version = version


def initialize_db(
    path: str, read_only: bool, uri: bool = False, tell: Callable[[str], object] | None = None
) -> sqlite3.Connection:
    """Open the history at `path` (a URI if `uri`), made or repaired as needed, with nothing left
    uncommitted.

    Read-only: the file is not touched, and where there is none (or none that can be used) the
    connection is to an empty database in memory. Otherwise a file that is broken or of another
    version is moved to `<path>.<version>`, which is logged, and said to `tell`. Raises
    NodeHistoryError when the file cannot be opened.
    """
    if read_only:
        return _open_to_read(path, uri)
    try:
        return _open_to_write(path, uri)
    except _Unusable as unusable:
        if uri or path == MEMORY:
            raise NodeHistoryError(
                f"node history {path} is of version {unusable.version}"
            ) from None
        aside, version = _move_aside(path, unusable.version), unusable.version
        found = f"of version {version}, expected {SQLITE_VERSION}"
        if version == _UNKNOWN:
            found = "damaged, or none"
        text = f"node history {path} is {found}: it is moved to {aside}; no node was idle before"
        logging.warning("%s", text)
        if tell is not None:
            tell(text)
        return _open_to_write(path, uri)


def _open_to_write(path: str, uri: bool) -> sqlite3.Connection:
    return _checked(path, lambda: sqlite3.connect(path, timeout=BUSY_SECONDS, uri=uri), _prepare)


def _open_to_read(path: str, uri: bool) -> sqlite3.Connection:
    def connect() -> sqlite3.Connection:
        if not uri:
            return connect_to_read(path)
        return sqlite3.connect(path, timeout=BUSY_SECONDS, uri=True)

    if path != MEMORY and (uri or os.path.exists(path)):
        try:
            return _checked(path, connect, _look)
        except _Unusable as unusable:
            problem = f"is of version {unusable.version}, expected {SQLITE_VERSION}"
        except NodeHistoryError as error:
            problem = str(error)
        logging.warning("Node history %s cannot be read, showing none: %s", path, problem)
    return _checked(MEMORY, lambda: sqlite3.connect(MEMORY), _prepare)


def problem_of(path: str) -> str | None:
    """Why a pass would not go on with the history at a path, and what becomes of that; None where
    it would, or there is none. Nothing is changed."""
    if not os.path.exists(path):
        return None
    try:
        _checked(path, lambda: connect_to_read(path), _look).close()
    except _Unusable as unusable:
        return (
            f"node history {path}: it is damaged, or of another version ({unusable.version}):"
            " the next pass moves it aside and begins a new one, in which no node was idle before"
        )
    except NodeHistoryError as error:
        return str(error)
    return None


def _checked(
    path: str,
    connect: Callable[[], sqlite3.Connection],
    prepare: Callable[[sqlite3.Connection], sqlite3.Connection],
) -> sqlite3.Connection:
    """A prepared connection; it is closed again when preparing fails.

    Raises _Unusable or NodeHistoryError.
    """
    conn: sqlite3.Connection | None = None
    try:
        conn = connect()
        return prepare(conn)
    except (sqlite3.DatabaseError, ValueError) as error:  # the latter for a NUL in the path
        _close(conn)
        if isinstance(error, sqlite3.DatabaseError) and is_corrupt(error):
            raise _Unusable(_UNKNOWN) from error
        raise NodeHistoryError(
            f"cannot open the node history {path}: {in_words(error, path)}"
        ) from error
    except _Unusable:
        _close(conn)
        raise


def _close(conn: sqlite3.Connection | None) -> None:
    if conn is not None:
        conn.close()


def is_corrupt(error: sqlite3.Error) -> bool:
    """True when the error says that the file is broken, rather than busy, missing or forbidden."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_lost(error: sqlite3.Error) -> bool:
    """True when the error says that the file is broken, or that another one is in its place, or
    none, since it was opened."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_READONLY_DBMOVED or is_corrupt(error)


def _prepare(conn: sqlite3.Connection) -> sqlite3.Connection:
    # taken before looking, so that two processes cannot both find the file new
    conn.execute("BEGIN IMMEDIATE")
    with conn:
        if _check(conn) is None:
            for statement in _TABLES:
                conn.execute(statement)
            conn.execute("INSERT INTO metadata (version) VALUES (?)", (SQLITE_VERSION,))
        for statement in (_INDEX, *watching.TABLES, draining.TABLE):
            conn.execute(statement)
        _make_times_true(conn)
        if conn.execute("SELECT 1 FROM nodes LIMIT 1").fetchone() is None:
            ids_are_true(conn)
    return conn


def _look(conn: sqlite3.Connection) -> sqlite3.Connection:
    """Prepare a connection for reading only.

    A file of the current form is read as it is; of another one a copy in memory is brought up to
    date.
    """
    version = _check(conn)
    if version is not None and _repaired(conn) >= _TRUE_TIMES and _has_watching(conn):
        return conn
    copy = sqlite3.connect(MEMORY)
    conn.backup(copy)
    conn.close()
    return _prepare(copy)


def _has_watching(conn: sqlite3.Connection) -> bool:
    """Whether the file has the tables that cyclecloud-scalelib does not make."""
    query = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('updates', 'sightings', 'drains')"
    return bool(conn.execute(query).fetchone() == (3,))


def _check(conn: sqlite3.Connection) -> str | None:
    """The version of the file; None for a file that is new, or was never finished.

    Raises _Unusable.
    """
    problems = [row[0] for row in conn.execute("PRAGMA quick_check(1)")]
    if problems != ["ok"]:
        raise _Unusable(_UNKNOWN)
    tables = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    found = None
    if "metadata" in tables:
        found = _version(conn)
    elif tables - {"nodes"}:
        raise _Unusable(_UNKNOWN)
    if found not in (None, SQLITE_VERSION):
        raise _Unusable(str(found))
    if "nodes" in tables:
        columns = {row[1] for row in conn.execute("PRAGMA table_info(nodes)")}
        if not columns.issuperset(_COLUMNS.split()):
            raise _Unusable(found or _UNKNOWN)
    elif found is not None:
        raise _Unusable(found)
    return found


def _version(conn: sqlite3.Connection) -> str | None:
    if "version" not in {row[1] for row in conn.execute("PRAGMA table_info(metadata)")}:
        return _UNKNOWN
    row = conn.execute("SELECT version FROM metadata").fetchone()
    return None if row is None else str(row[0])


def has_old_ids(conn: sqlite3.Connection) -> bool:
    """Whether the file may still have ids in lower case, as cyclecloud-scalelib stored them."""
    return _repaired(conn) < _TRUE_IDS


def ids_are_true(conn: sqlite3.Connection) -> None:
    """Note in the file that its ids are spelt as the server spells them; a file of a later version
    of this library stays what it is."""
    if _repaired(conn) < _TRUE_IDS:
        conn.execute(f"PRAGMA user_version = {_TRUE_IDS}")


def _repaired(conn: sqlite3.Connection) -> int:
    return int(conn.execute("PRAGMA user_version").fetchone()[0])


def _make_times_true(conn: sqlite3.Connection) -> None:
    """Correct the times in a file of cyclecloud-scalelib.

    It stores UTC time that was read as if it were local time. Without the correction every booting
    node at a site east of Greenwich would look hours old on the day of the upgrade.
    """
    if _repaired(conn) >= _TRUE_TIMES:
        return
    for column in _TIMES:
        rows = conn.execute(
            f"SELECT node_id, {column} FROM nodes WHERE typeof({column}) = 'real' AND {column} > 0"
        ).fetchall()
        conn.executemany(
            f"UPDATE nodes SET {column} = ? WHERE node_id = ?",
            [(_true_time(stored), node_id) for node_id, stored in rows],
        )
    conn.execute(f"PRAGMA user_version = {_TRUE_TIMES}")


def _true_time(stored: float) -> float:
    try:
        return datetime.fromtimestamp(stored).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError, OSError):  # beyond what a calendar can hold
        return stored


def _move_aside(path: str, version: str) -> str:
    """Rename a file to `<path>.<version>`, with a number added when that name is taken.

    SQLite's side files are renamed along with it.
    """
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in version)[:40]
    base = aside = f"{path}.{safe}"
    number = 0
    while os.path.exists(aside):
        number += 1
        aside = f"{base}.{number}"
    try:
        os.rename(path, aside)
        for suffix in ("-journal", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.rename(path + suffix, aside + suffix)
    except OSError as error:
        raise NodeHistoryError(f"cannot move {path} to {aside}: {error}") from error
    return aside
