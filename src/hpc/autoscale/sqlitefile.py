"""An SQLite file that any number of processes share, opened for each change and closed after it.

What a thread reads from stays open for its next question, which opening would take most of the time
of; nothing is locked meanwhile, and a file in the place of another is opened anew.

What is in the file is the business of the class that derives from `SqliteFile`. A file that cannot
be used is an error and never an empty answer.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import Any

from hpc.autoscale.errors import AutoscaleError, unreadable

_OF_THE_PLACE = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
)
"""Codes of errors that may come from where a file is, and from who may use it."""

BUSY_SECONDS = 30.0
"""How long to wait for another process that is writing."""

KEPT_OPEN = 8
"""How many files a thread keeps open for reading, at most."""


def _uri(path: str, mode: str) -> str:
    # the files of a loop are opened several times in each pass
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    return f"{_quoted(absolute)}?mode={mode}"


@lru_cache(maxsize=100)
def _quoted(path: str) -> str:
    from pathlib import Path

    return Path(path).as_uri()


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file. OSError where that is not known, as in a directory into which this
    user may not look: there `os.path.exists` says that there is none."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a NUL in the path
        return False
    return True


def connect_to_read(path: str) -> sqlite3.Connection:
    """A connection to a file that is there, which changes nothing on the disk.

    A process that was killed while it committed leaves a journal behind, which is to be undone
    before anybody reads. That is done in a copy, in memory; SQLite itself refuses to read then.
    """
    uri = _uri(path, "ro")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(uri, timeout=BUSY_SECONDS, uri=True, isolation_level=None)
        connection.execute("PRAGMA schema_version").fetchone()
        return connection
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        code = getattr(error, "sqlite_errorcode", None) or 0
        if code & 0xFF != sqlite3.SQLITE_READONLY:
            raise
    return _without_journal(path)


def _without_journal(path: str) -> sqlite3.Connection:
    """The content of a file as it was before what its journal tells of, in memory."""
    import shutil
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        copy = os.path.join(directory, "copy.db")
        try:
            shutil.copyfile(path, copy)
            shutil.copyfile(f"{path}-journal", f"{copy}-journal")
        except OSError as error:
            raise sqlite3.OperationalError(f"{error.filename}: {error.strerror}") from error
        with closing(sqlite3.connect(copy)) as found:
            memory = sqlite3.connect(":memory:", isolation_level=None)
            found.backup(memory)
            return memory


class _Readers:
    """The connections that one thread keeps for reading: by the path and the inode of the file, the
    one that was used last at the end."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: dict[object, sqlite3.Connection] = {}
        weakref.finalize(self, _close_all, self._idle)

    @contextmanager
    def reading(self, path: str) -> Iterator[sqlite3.Connection]:
        """A connection for the block, in which it may read in a transaction."""
        key = _identity(path)
        kept = self._kept(key)
        connection = kept or connect_to_read(path)
        try:
            yield connection
            connection.rollback()
            may_stay = kept is not None or (_is_of_a_file(connection) and key == _identity(path))
        except BaseException:
            connection.close()
            raise
        if not may_stay or self._process != os.getpid() or key in self._idle:
            connection.close()
            return
        self._idle[key] = connection
        if len(self._idle) > KEPT_OPEN:
            self._idle.pop(next(iter(self._idle))).close()

    def _kept(self, key: object) -> sqlite3.Connection | None:
        """One that was kept and can still be read from; nobody else gets it meanwhile."""
        if self._process != os.getpid():  # a fork may not use what its parent has opened
            return None
        connection = self._idle.pop(key, None)
        if connection is not None:
            try:
                connection.execute("PRAGMA schema_version").fetchone()
            except sqlite3.Error:  # such as a journal that somebody left
                connection.close()
                return None
        return connection


def _is_of_a_file(connection: sqlite3.Connection) -> bool:
    """Whether it is no copy in memory."""
    return bool(connection.execute("PRAGMA database_list").fetchone()[2])


def _close_all(connections: dict[object, sqlite3.Connection]) -> None:
    for connection in connections.values():
        with suppress(sqlite3.ProgrammingError):  # of a thread that has ended
            connection.close()


def _identity(path: str) -> object:
    """A key that is the same for as long as it is the same file."""
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    with suppress(OSError):
        found = os.stat(absolute)
        return absolute, found.st_dev, found.st_ino
    return absolute


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.readers = _Readers()


_of_thread = _OfThread()


class SqliteFile:
    """The file at `path`, which is made when it is first written.

    A class that derives from this one says what the file is called in messages, the version and the
    tables of it, the error that is raised, and what to do with a file that is damaged. `UPGRADES`
    has the statements that make of a file of a version one of the next.
    """

    NAME: str
    VERSION: int
    TABLES: Sequence[str]
    UPGRADES: Mapping[int, Sequence[str]] = {}
    ERROR: type[AutoscaleError]
    REMEDY: str

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether there is a file. The error of this class where this user may not look."""
        try:
            return is_there(self.path)
        except OSError as error:
            raise self.error(unreadable(error)) from error

    def error(self, problem: str) -> AutoscaleError:
        """What to raise when something is wrong with the file."""
        return self.ERROR(f"{self.NAME} {self.path}: {problem}")

    def damaged(self, why: object) -> AutoscaleError:
        """What to raise when what is in the file makes no sense."""
        return self.error(f"it is damaged ({why}): {self.REMEDY}")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that nobody else writes beside, in a file that has its tables.

        It is committed when the block ends, and undone when the block raises.
        """
        with self._opened("rwc") as db:
            db.execute("BEGIN IMMEDIATE")
            found = self._version(db)
            if found != self.VERSION:
                steps = map(self.UPGRADES.__getitem__, range(found, self.VERSION))
                for statement in chain(*steps) if found else self.TABLES:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {self.VERSION}")
            yield db
            db.commit()

    def check(self) -> None:
        """Raise the error of this class where the file is damaged, or is none of this form; nothing
        is changed. That there is no file is no mistake."""
        if not self.exists:
            return
        with self._opened("ro") as db:
            self._version(db)
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        if found != "ok":
            raise self.damaged(found.splitlines()[-1])

    def rows(self, query: str, arguments: Sequence[Any] = (), since: int = 1) -> list[Any]:
        """The rows that a query finds; none where there is no file, or one of a version before
        `since`, which has not what is asked for."""
        return self.tables((query, since), arguments=arguments)[0]

    def tables(
        self, *queries: tuple[str, int], arguments: Sequence[Any] = ()
    ) -> Sequence[list[Any]]:
        """What `rows` finds for each query, given with `since`, all as they were at one time."""
        if not self.exists:
            return [[] for _ in queries]
        with self._opened("ro") as db:
            db.execute("BEGIN")
            version = self._version(db)
            return [
                db.execute(query, arguments).fetchall() if version >= since else []
                for query, since in queries
            ]

    def of_kinds(self, rows: list[Any], kinds: Sequence[Any]) -> list[Any]:
        """These rows, whose columns have values of these kinds. The error of this class where one
        has not: SQLite takes a text, or nothing, also where the table says a number."""
        for row in rows:
            for value, kind in zip(row, kinds, strict=False):
                if not isinstance(value, kind):
                    raise self.damaged(f"found {value!r} in a row")
        return rows

    def _version(self, db: sqlite3.Connection) -> int:
        """0 for a file that is new; an error for one that is neither of this form nor of one that
        can be made of it."""
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found == self.VERSION or found in self.UPGRADES:
            return found
        if found == 0 and not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            return found
        expected = f"expected a file of {self.NAME} of version {self.VERSION}, found"
        if found > self.VERSION:
            newer = f"version {found}, as a newer hpc-autoscale writes it: use that one, or"
            raise self.error(f"{expected} {newer} {self.REMEDY}")
        raise self.error(f"{expected} another: {self.REMEDY}")

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            if mode == "ro":
                with _of_thread.readers.reading(self.path) as db:
                    yield db
                return
            with closing(self._connect(mode)) as db:
                yield db
        except sqlite3.Error as error:
            raise self._error_of(error) from error
        except UnicodeEncodeError as error:  # a lone surrogate, which a text of SQLite cannot have
            raise self.error(f"a text cannot be written: {error}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = _uri(self.path, mode)
        return sqlite3.connect(uri, timeout=BUSY_SECONDS, uri=True, isolation_level=None)

    def _error_of(self, error: sqlite3.Error) -> AutoscaleError:
        """What to raise for what went wrong."""
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        # the text that Python could not read may be long
        said = str(error).partition(" with text ")[0]
        is_garbled = said.startswith("Could not decode to UTF-8")
        if is_garbled or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self.damaged(said)
        return self.error(in_words(error, self.path))


def in_words(error: Exception, path: str) -> str:
    """What SQLite says of a file, and why it cannot be used where SQLite does not say that. An
    error of another kind, as of a file that is locked, has nothing to do with what a user may."""
    code = getattr(error, "sqlite_errorcode", None)
    is_of_place = code is None or code & 0xFF in _OF_THE_PLACE
    if isinstance(error, ValueError) or not is_of_place:  # no path, or another kind of trouble
        return str(error)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return f"there is no directory {folder}"
    if os.path.isdir(path):
        return "it is a directory"
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
        return f"{error}; this user cannot read and write it"
    # the file of a transaction is made beside it
    may_write = os.access(folder, os.W_OK | os.X_OK)
    return str(error) if may_write else f"{error}; this user cannot write in {folder}"
