"""Requests whose outcome is not known yet, written down before they are sent, and what creates have
made lately.

For a create that is its id, for a removal the nodes that are to go. Each carries who sends it, so
that a later pass, also of another process, knows what to ask the server about and what to leave to
a process that is still waiting for its answer. What was made is held against later listings. Called
by `operations`, which sends the requests, by the loop, which finishes removals, and by `azscale
requests`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hpc.autoscale import clock
from hpc.autoscale.config.clusters import qualified, split_name
from hpc.autoscale.errors import AutoscaleError, unreadable
from hpc.autoscale.locks import stat_of_process
from hpc.autoscale.node import clock_set
from hpc.autoscale.sqlitefile import SqliteFile, is_there
from hpc.autoscale.util import random_uuid

if TYPE_CHECKING:
    from pathlib import Path

NewId = Callable[[], str]

OLD_SECONDS = 3600.0
"""No request is under way for longer, whatever is known of the process that sent it."""

COPIED_REQUESTS = "_copied_requests"
"""The key of a configuration under which a rehearsal has a copy of `requests_file` of its own: a
pass that changes nothing uses that one, and leaves the site's alone."""

_SENDER = "host, pid, started, begun"
_REMEDY = (
    "move it away when no create is under way; the next pass then knows nothing of creates whose"
    " reply was lost, so look at the nodes of the cluster first"
)


SenderState = Literal["running", "ended", "unknown"]


class RequestLogError(AutoscaleError):
    """The file that keeps request ids cannot be read or written; nothing was sent."""


class Sender(NamedTuple):
    """A process: its host, its number there, and what tells it from others of the same number.

    `started` is the boot, the namespace of process numbers, and when in that boot the process
    began; empty where the system does not say.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def here(cls) -> Sender:
        """This process."""
        assumed = _assumed.get()
        if assumed.sender is not None:
            return assumed.sender
        try:
            return _sender(os.getpid())
        except LookupError:
            return cls(_host(), os.getpid(), "")

    def state(self) -> SenderState:
        """Whether the process still runs; `unknown` for one that cannot be looked at from here."""
        assumed = _assumed.get()
        if assumed.state_of is not None:
            return assumed.state_of(self)
        here = Sender.here()
        if self == here:
            return "running"
        if not self.host:  # of a version that did not note who sends
            return "ended"
        if self.host != here.host or not (self.started and here.started):
            return "unknown"
        boot, numbers, begun = [*self.started.split("/"), "", ""][:3]
        if boot != _boot():
            return "ended"
        if numbers != _numbers():
            return "unknown"
        return "running" if _begun(self.pid) == begun else "ended"

    @property
    def boot(self) -> str:
        """Which start of the machine it was begun after; empty where nobody knows."""
        return self.started.partition("/")[0]

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "a process not noted"


class Assumed(NamedTuple):
    """Where ids of requests come from, which process this is, and which others run, when a pass is
    decided again: then that was long ago, and somewhere else. None: as it is."""

    new_id: NewId | None = None
    sender: Sender | None = None
    state_of: Callable[[Sender], SenderState] | None = None


_AS_IT_IS = Assumed()
_assumed: ContextVar[Assumed] = ContextVar("assumed", default=_AS_IT_IS)


@contextmanager
def assuming(what: Assumed) -> Iterator[None]:
    """Let something else hold for the block, in this thread and in those that work for it."""
    before = _assumed.set(what)
    try:
        yield
    finally:
        _assumed.reset(before)


@contextmanager
def hearing_ids(hear: Callable[[str], object]) -> Iterator[None]:
    """Let somebody hear of each new id in the block."""
    assumed = _assumed.get()
    draw = assumed.new_id or random_uuid

    def drawn() -> str:
        found = draw()
        hear(found)
        return found

    with assuming(assumed._replace(new_id=drawn)):
        yield


def new_request_id() -> str:
    """An id that no request has had."""
    return (_assumed.get().new_id or random_uuid)()


@lru_cache(maxsize=1)
def _sender(pid: int) -> Sender:
    """The process of that number, which is this one: a pass asks several times. LookupError, which
    is not kept, where the system does not say when it began."""
    begun = _begun(pid)
    if not begun:
        raise LookupError(pid)
    return Sender(_host(), pid, f"{_boot()}/{_numbers()}/{begun}")


def _host() -> str:
    from socket import gethostname  # who only asks about requests needs none

    return gethostname()


def _boot() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return f.read().strip()
    return ""


def _numbers() -> str:
    """Which namespace process numbers are of: two containers may each have a process 7."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _begun(pid: int) -> str:
    """When a process began, in ticks since the boot; empty when there is none, or only its
    remains."""
    fields, _ = stat_of_process(pid)
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


class Sent(NamedTuple):
    """A create that is not settled: which process sent it last, when (`begun`, in unix seconds),
    and its id."""

    sender: Sender
    begun: float
    request_id: str


class Removal(NamedTuple):
    """A node that was to go when nobody heard whether it did; `command` is a management call,
    `sender` and `begun` as in `Sent`.

    With `called_off` it is not to go any more, and the request may arrive all the same.
    """

    sender: Sender
    begun: float
    node_id: str
    name: str
    command: str
    request_id: str
    called_off: bool = False


class Made(NamedTuple):
    """What a create has made, by the server's own word: how many nodes it promised, and the ids of
    those that it has listed. `where` names cluster and server; `begun` is in unix seconds."""

    request_id: str
    where: str
    promised: int
    node_ids: frozenset[str]
    begun: float


def is_old(one: Sent | Removal | Made) -> bool:
    """Whether it cannot be under way any more, also when the clock was set back since."""
    return abs(clock.time() - one.begun) > OLD_SECONDS


def is_elsewhere(one: Sent | Removal) -> bool:
    """Whether another process may still be waiting for the answer."""
    if is_old(one) or one.sender == Sender.here():
        return False
    return one.sender.state() != "ended"


_MADE = (
    "CREATE TABLE made (request_id TEXT PRIMARY KEY, place TEXT NOT NULL, count INTEGER NOT NULL,"
    " node_ids TEXT NOT NULL, begun REAL NOT NULL)"
)


_WITH_TIMES = ("creates", "removals", "made")


class _Kept(NamedTuple):
    """How the rows of a table are asked for, of what kinds their columns are, and since which
    version of the file there are any."""

    query: str
    kinds: tuple[Any, ...]
    since: int = 1


_OF_SENDER = (str, int, str, int | float)
_CREATES = _Kept(f"SELECT {_SENDER}, request_id FROM creates ORDER BY rowid", (*_OF_SENDER, str))
_REMOVALS = _Kept("SELECT * FROM removals ORDER BY rowid", (str, str, str, str, *_OF_SENDER, int))
_LATELY_MADE = _Kept(
    "SELECT request_id, place, count, node_ids, begun FROM made ORDER BY rowid",
    (str, str, int, str, int | float),
    since=2,
)

_CALLED_OFF = "called_off INTEGER NOT NULL DEFAULT 0"


class RequestFile(SqliteFile):
    """The file of requests. A list of ids in JSON beside it is of an earlier version."""

    NAME = "request ids"
    VERSION = 4
    TABLES = (
        "CREATE TABLE creates (request_id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT"
        " NULL, started TEXT NOT NULL, begun REAL NOT NULL)",
        "CREATE TABLE removals (node_id TEXT PRIMARY KEY, name TEXT NOT NULL, command TEXT NOT"
        " NULL, request_id TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT"
        f" NOT NULL, begun REAL NOT NULL, {_CALLED_OFF})",
        _MADE,
        clock_set.TABLE,
    )
    UPGRADES: Mapping[int, Sequence[str]] = {
        1: (_MADE,),
        2: (f"ALTER TABLE removals ADD COLUMN {_CALLED_OFF}",),
        3: (clock_set.TABLE,),
    }
    ERROR = RequestLogError
    REMEDY = _REMEDY

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """As of any file, with times in it as the clock is set now."""
        with super().writing() as db:
            clock_set.follow(db, _WITH_TIMES, Sender.here().boot)
            yield db

    def with_times(self, kept: _Kept) -> tuple[list[Any], float]:
        """The rows of a table, and by how many seconds the times in it have to be moved, since the
        clock was set."""
        found, booted = self.tables((kept.query, kept.since), (clock_set.QUERY, 4))
        rows = self.of_kinds(found, kept.kinds)
        return rows, clock_set.moved_by(booted, Sender.here().boot) if rows else 0.0

    def check(self) -> None:
        """As of any file; its rows can be read, too, and so can the list of an earlier version
        beside it, which stays there."""
        super().check()
        for kept in (_CREATES, _REMOVALS, _LATELY_MADE):
            self.with_times(kept)
        _read_list(file_of(self.path).with_suffix(".json"))


class _Memory(RequestFile):
    """A log of requests without a file, for as long as the object lives."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self._db: sqlite3.Connection | None = None
        self._turn = threading.RLock()

    @property
    def exists(self) -> bool:
        return self._db is not None

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._turn:
            if self._db is None:
                self._db = sqlite3.connect(
                    ":memory:", isolation_level=None, check_same_thread=False
                )
                weakref.finalize(self, self._db.close)
            try:
                yield self._db
            finally:
                self._db.rollback()


def file_of(path: str | os.PathLike[str]) -> Path:
    """Where requests are kept for a `requests_file`: at its path, with `.db` in the place of
    `.json`, which was a list of ids once."""
    from pathlib import Path

    given = Path(path)
    return given.with_suffix(".db") if given.suffix == ".json" else given


class RequestLog:
    """Requests that are not settled yet, in the order in which they were begun.

    They are in the SQLite file `file_of(path)`, which processes share: each change is a
    transaction. A list of ids in JSON beside it, of an earlier version, is taken over. Without a
    path all is kept as long as the object. RequestLogError when the file cannot be used.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, new_id: NewId | None = None
    ) -> None:
        self._new_id = new_id or new_request_id
        self._begun: set[str] = set()
        self._reusable: dict[str, Sent] = {}
        self._file: RequestFile = RequestFile(str(file_of(path))) if path else _Memory()
        if path:
            self._take_over(file_of(path).with_suffix(".json"))

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    # -- creates

    @property
    def creates(self) -> list[Sent]:
        """The creates whose outcome is unknown, whoever sent them."""
        rows, by = self._file.with_times(_CREATES)
        return [_sent(*row, by=by) for row in rows]

    @property
    def unsettled(self) -> list[str]:
        """The ids of creates whose outcome is unknown, whoever sent them."""
        return [sent.request_id for sent in self.creates]

    @property
    def in_doubt(self) -> list[Sent]:
        """The creates that are ours to ask about: no other process waits for their answer."""
        return [sent for sent in self.creates if not is_elsewhere(sent)]

    def begin(self, request_id: str | None = None, cluster: str = "") -> str:
        """An id for a create that is about to be sent; it is on disk when this returns.

        It is the given id, else one that is known never to have happened, else a new one. No two
        processes are given the same. `cluster`: which one it is for, where there are several; its
        name stands before the id.
        """
        if cluster and request_id and split_name(request_id)[0] != cluster:
            request_id = qualified(cluster, request_id)
        if request_id in self._begun:
            return str(request_id)
        sender = (*Sender.here(), clock.time())
        with self._file.writing() as db:
            chosen = request_id or self._claim(db, cluster) or self._made_up(cluster)
            db.execute(
                f"INSERT INTO creates (request_id, {_SENDER}) VALUES (?, ?, ?, ?, ?) ON CONFLICT"
                f" (request_id) DO UPDATE SET ({_SENDER}) = (?, ?, ?, ?)",
                (chosen, *sender, *sender),
            )
        self._reusable.pop(chosen, None)
        self._begun.add(chosen)
        return chosen

    def _made_up(self, cluster: str) -> str:
        return qualified(cluster, self._new_id()) if cluster else self._new_id()

    def _claim(self, db: sqlite3.Connection, cluster: str) -> str | None:
        """An id to be used again for a cluster, unless another process has taken it since it was
        asked about."""
        query = f"SELECT {_SENDER}, request_id FROM creates WHERE request_id = ?"
        for request_id, known in list(self._reusable.items()):
            if split_name(request_id)[0] != cluster:
                continue
            row = db.execute(query, (request_id,)).fetchone()
            if row and _sent(*row) == known:
                return request_id
            del self._reusable[request_id]
        return None

    def settle(self, request_id: str, made: Made | None = None) -> None:
        """Note that the server has answered the create with this id, and what it has made."""
        self._begun.discard(request_id)
        self._reusable.pop(request_id, None)
        if made or request_id in self.unsettled:
            with self._file.writing() as db:
                db.execute("DELETE FROM creates WHERE request_id = ?", (request_id,))
                if made:
                    _write_made(db, made)

    def never_happened(self, request_id: str) -> None:
        """Note that the server does not know this id: the next create uses it again."""
        for sent in self.in_doubt:
            if sent.request_id == request_id:
                self._reusable.setdefault(request_id, sent)
                self._begun.discard(request_id)

    # -- what creates have made

    @property
    def made(self) -> list[Made]:
        """What creates have made lately."""
        rows, by = self._file.with_times(_LATELY_MADE)
        found = [Made(i, at, n, frozenset(ids.split()), t + by) for i, at, n, ids, t in rows]
        return [each for each in found if not is_old(each)]

    def note_made(self, made: Made) -> None:
        """Note what is left of what a create has made; nothing is forgotten."""
        with self._file.writing() as db:
            _write_made(db, made)

    # -- removals

    @property
    def removals(self) -> list[Removal]:
        """The nodes of removals whose outcome is unknown, whoever sent them."""
        rows, by = self._file.with_times(_REMOVALS)
        return [_removal(*row, by=by) for row in rows]

    def begin_removal(
        self, request_id: str, command: str, nodes: Iterable[tuple[str, str]]
    ) -> list[Removal]:
        """Note that nodes, by NodeId and name, are about to be removed; it is on disk when this
        returns. The result is the removals of the same nodes that were in doubt before."""
        sender = (*Sender.here(), clock.time())
        rows = [(node_id, name, command, request_id, *sender, 0) for node_id, name in nodes]
        ids = {row[0] for row in rows}
        before = [each for each in self.removals if each.node_id in ids and not is_old(each)]
        with self._file.writing() as db:
            _write_removals(db, rows)
        return before

    def settle_removal(
        self,
        request_id: str,
        unknown: Collection[str] = (),
        before: Iterable[Removal] = (),
        gone: Collection[str] = (),
    ) -> None:
        """Note that the server has answered the removal with this id, for all of its nodes but
        those of which it is `unknown`. `before`: removals of its nodes that were in doubt before it
        was sent, and that its answer says nothing of. `gone`: its nodes that go, which no listing
        has to have any more."""
        made = [each for each in self.made if not each.node_ids.isdisjoint(gone)] if gone else []
        with self._file.writing() as db:
            for each in made:
                left = each.node_ids.difference(gone)
                promised = max(len(left), each.promised - len(each.node_ids) + len(left))
                _write_made(db, each._replace(promised=promised, node_ids=left))
            query = "SELECT node_id FROM removals WHERE request_id = ?"
            ids = [row[0] for row in db.execute(query, (request_id,))]
            settled = [(each, request_id) for each in ids if each not in unknown]
            db.executemany("DELETE FROM removals WHERE node_id = ? AND request_id = ?", settled)
            _write_removals(db, map(_row, before))

    def call_off(self, removals: Iterable[Removal]) -> None:
        """Note that these nodes are not to go any more. Until the request cannot be under way, it
        may arrive all the same."""
        rows = [(each.node_id, each.request_id) for each in removals if not each.called_off]
        if rows:
            query = "UPDATE removals SET called_off = 1 WHERE node_id = ? AND request_id = ?"
            with self._file.writing() as db:
                db.executemany(query, rows)

    def forget_removals(self, removals: Sequence[Removal]) -> None:
        """Note that these nodes are gone, or that no request to remove them is under way."""
        if removals:
            rows = [(each.node_id, each.request_id) for each in removals]
            with self._file.writing() as db:
                db.executemany("DELETE FROM removals WHERE node_id = ? AND request_id = ?", rows)

    # -- the file of before

    def _take_over(self, old: Path) -> None:
        """Move the ids of a JSON list into the file; a kill in between makes it happen again."""
        try:
            if str(old) == self.path or not is_there(old):
                return
        except OSError as e:
            raise self._file.error(unreadable(e)) from e
        ids = _read_list(old)
        if ids:
            with self._file.writing() as db:
                db.executemany(
                    "INSERT OR IGNORE INTO creates VALUES (?, '', 0, '', ?)",
                    [(request_id, clock.time()) for request_id in ids],
                )
        try:
            old.unlink(missing_ok=True)
        except OSError as e:
            raise RequestLogError(f"request ids {old}: cannot be removed: {e.strerror or e}") from e


def _sent(
    host: str, pid: int, started: str, begun: float, request_id: str, *, by: float = 0.0
) -> Sent:
    """A create of a row of the file, to whose time so many seconds are added."""
    return Sent(Sender(host, pid, started), begun + by, request_id)


def _removal(
    node_id: str, name: str, command: str, request_id: str, *row: Any, by: float
) -> Removal:
    """A removal of a row of the file, as `_sent`; in one of before version 3 none is called off."""
    *sender, begun = row[:4]
    what = (node_id, name, command, request_id)
    return Removal(Sender(*sender), begun + by, *what, any(row[4:]))


def _row(removal: Removal) -> tuple[object, ...]:
    """A removal as it is in the file."""
    what = removal.node_id, removal.name, removal.command, removal.request_id
    return (*what, *removal.sender, removal.begun, int(removal.called_off))


def _write_removals(db: sqlite3.Connection, rows: Iterable[tuple[object, ...]]) -> None:
    db.executemany("INSERT OR REPLACE INTO removals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _write_made(db: sqlite3.Connection, made: Made) -> None:
    now = clock.time()
    db.execute("DELETE FROM made WHERE abs(? - begun) > ?", (now, OLD_SECONDS))
    ids = " ".join(sorted(made.node_ids))
    row = (made.request_id, made.where, made.promised, ids, made.begun)
    if made.promised:
        db.execute("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?, ?)", row)
    else:
        db.execute("DELETE FROM made WHERE request_id = ?", (made.request_id,))


def _read_list(path: Path) -> list[str]:
    import json

    found: Any = None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except OSError as e:
        raise RequestLogError(f"request ids {path}: {unreadable(e)}") from e
    except (ValueError, RecursionError) as e:
        found = e
    if not isinstance(found, list) or not all(
        isinstance(i, str) and i.isprintable() for i in found
    ):
        shown = str(found) if isinstance(found, Exception) else repr(found)[:200]
        raise RequestLogError(
            f"request ids {path}: expected a JSON list of ids, found: {shown}; {_REMEDY}"
        )
    return found
