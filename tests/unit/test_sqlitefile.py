"""SQLite files that processes share, after one of them was killed, and links to such files."""

import gc
import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from builders.fake_scheduler import raising
from builders.processes import python
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory, dbfile
from hpc.autoscale.node.requests import RequestFile, RequestLog, RequestLogError
from hpc.autoscale.sqlitefile import KEPT_OPEN, connect_to_read

KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN IMMEDIATE")
for i in range(2000):
    db.execute(sys.argv[2], (f"killed-{i}", "x" * 200))
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path, statement):
    """Let a process be killed in the middle of a transaction that has reached the file."""
    python(KILLED, str(path), statement)
    assert path.with_name(f"{path.name}-journal").exists()


def content(directory):
    """What is in the files of a directory."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in directory.iterdir()}


@pytest.fixture
def requests(tmp_path):
    """A file with one id, and what somebody wrote who never committed."""
    path = tmp_path / "requests.db"
    RequestLog(path).begin("a")
    killed(path, "INSERT INTO creates VALUES (?, 'h', 1, ?, 0)")
    return path


def test_what_was_never_committed_is_not_read(requests):
    """And nothing is written by reading."""
    before = content(requests.parent)
    assert RequestLog(requests).unsettled == ["a"]
    assert content(requests.parent) == before


def test_whoever_writes_next_clears_up(requests):
    RequestLog(requests).begin("b")
    assert RequestLog(requests).unsettled == ["a", "b"]
    assert [p.name for p in requests.parent.iterdir()] == ["requests.db"]


def test_a_writer_that_is_killed_between_two_readings(tmp_path):
    """The file stays open for the next reading, which finds what was committed."""
    path = tmp_path / "requests.db"
    log = RequestLog(path)
    log.begin("a")
    assert log.unsettled == ["a"]
    killed(path, "INSERT INTO creates VALUES (?, 'h', 1, ?, 0)")
    before = content(tmp_path)
    assert log.unsettled == log.unsettled == ["a"]
    assert content(tmp_path) == before
    RequestLog(path).begin("b")
    assert log.unsettled == ["a", "b"]


def test_a_file_in_the_place_of_another_is_read(tmp_path):
    path, other = tmp_path / "requests.db", tmp_path / "other.db"
    log = RequestLog(path)
    log.begin("a")
    RequestLog(other).begin("b")
    assert (log.unsettled, RequestLog(other).unsettled) == (["a"], ["b"])
    other.replace(path)
    assert log.unsettled == ["b"]
    path.unlink()
    assert log.unsettled == []
    log.begin("c")
    assert log.unsettled == ["c"]


def open_files(directory):
    """Which files of a directory this process has open."""
    links = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    return sorted({each for each in links if each.startswith(str(directory))})


def test_few_files_stay_open_for_reading_and_none_after_the_thread(tmp_path):
    def read():
        for number in range(KEPT_OPEN + 5):
            log = RequestLog(tmp_path / f"{number}.db")
            log.begin(str(number))
            assert log.unsettled == [str(number)]
        found.extend(open_files(tmp_path))

    found = []
    thread = Thread(target=read)
    thread.start()
    thread.join()
    assert len(found) == KEPT_OPEN
    gc.collect()
    assert open_files(tmp_path) == []


def test_a_fork_reads_by_itself(tmp_path):
    log = RequestLog(tmp_path / "requests.db")
    log.begin("a")
    assert log.unsettled == ["a"]
    child = os.fork()
    if not child:
        os._exit(0 if log.unsettled == ["a"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    log.begin("b")
    assert log.unsettled == ["a", "b"]


def test_a_journal_that_is_not_ours_to_read(requests):
    """Then it is not known what the file holds."""
    journal = requests.with_name("requests.db-journal")
    journal.unlink()
    journal.mkdir()
    with pytest.raises(sqlite3.OperationalError), closing(connect_to_read(str(requests))) as db:
        db.execute("SELECT * FROM creates")


def test_a_link_to_a_place_that_is_not_there(tmp_path):
    """As one to a disk that is not mounted: that place is named."""
    (tmp_path / "requests.db").symlink_to(tmp_path / "away" / "requests.db")
    file = RequestFile(str(tmp_path / "requests.db"))
    away = pytest.raises(RequestLogError, match=f"there is no directory {tmp_path / 'away'}$")
    with away, file.writing():
        pass


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_file_of_another_user(tmp_path, monkeypatch, what):
    """It is said what this user may not do: SQLite itself says that it cannot open a file."""
    path = tmp_path / "requests.db"
    path.touch()
    denied = {"file": path, "directory": tmp_path}[what]
    monkeypatch.setattr(os, "access", lambda where, mode: where != str(denied))
    unable = sqlite3.OperationalError("unable to open database file")
    monkeypatch.setattr(sqlite3, "connect", raising(unable))
    said = {"file": "read and write it", "directory": f"write in {tmp_path}"}[what]
    for made in (lambda: RequestFile(str(path)).rows("SELECT 1"), lambda: SQLiteNodeHistory(path)):
        with pytest.raises(AutoscaleError, match=f"{path}: {unable}; this user cannot {said}$"):
            made()


def test_a_file_that_is_locked_is_not_said_to_be_another_users(tmp_path, monkeypatch):
    """Whoever only reads need not be able to write."""
    path = tmp_path / "nodehistory.db"
    SQLiteNodeHistory(path).close()
    monkeypatch.setattr(dbfile, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(os, "access", lambda where, mode: not mode & os.W_OK)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(AutoscaleError, match=r"database is locked$"):
            SQLiteNodeHistory(path).read()
        other.rollback()


def test_a_file_where_this_user_may_not_look(tmp_path, monkeypatch):
    """Is not taken for none: also of the list of before, which would be beside it."""
    path = tmp_path / "closed" / "requests.db"
    look = os.stat

    def denied(where, **kwargs):
        if Path(where).parent == path.parent:
            raise PermissionError(13, "Permission denied", where)
        return look(where, **kwargs)

    monkeypatch.setattr(os, "stat", denied)
    for ask in (lambda: RequestFile(str(path)).rows("SELECT 1"), lambda: RequestLog(path)):
        with pytest.raises(RequestLogError, match=f"{path}: it cannot be read: Permission denied"):
            ask()


def test_a_history_of_which_the_writer_was_killed(tmp_path):
    """Reading only, it is what it was before, and nothing on the disk changes."""
    path = tmp_path / "nodehistory.db"
    SQLiteNodeHistory(str(path)).close()
    killed(path, "INSERT INTO nodes (node_id, hostname, create_time) VALUES (?, ?, 1)")
    before = content(tmp_path)
    with SQLiteNodeHistory(str(path), read_only=True) as history:
        assert history.find_booting(-1) == []
    assert content(tmp_path) == before
    with SQLiteNodeHistory(str(path)) as history:
        assert history.find_booting(-1) == []
    assert [p.name for p in tmp_path.iterdir()] == ["nodehistory.db"]
