"""SQLite files that processes share, after one of them was killed."""

import hashlib
import sqlite3
from contextlib import closing

import pytest

from builders.processes import python
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.sqlitefile import connect_to_read

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


def test_a_journal_that_is_not_ours_to_read(requests):
    """Then it is not known what the file holds."""
    journal = requests.with_name("requests.db-journal")
    journal.unlink()
    journal.mkdir()
    with pytest.raises(sqlite3.OperationalError), closing(connect_to_read(str(requests))) as db:
        db.execute("SELECT * FROM creates")


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
