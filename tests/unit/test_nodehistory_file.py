"""The file of a node history: new, old, broken, foreign, shared, read-only."""

import gc
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders.history import History, a_started_node
from hpc.autoscale.node.nodehistory import (
    SQLITE_VERSION,
    NodeHistoryError,
    SQLiteNodeHistory,
    dbfile,
    initialize_db,
)
from hpc.autoscale.node.nodehistory.watching import Rhythm

TESTS = str(Path(__file__).parents[1])
OLD_TABLES = """
CREATE TABLE metadata (version TEXT);
CREATE TABLE nodes (node_id TEXT PRIMARY KEY, hostname TEXT, instance_id TEXT, create_time REAL,
                    last_match_time REAL, ready_time REAL, delete_time REAL, ignore BOOL);
"""


def old_file(path, rows=(), version="0.0.6"):
    """A file as cyclecloud-scalelib leaves it."""
    conn = sqlite3.connect(path)
    conn.executescript(OLD_TABLES)
    if version is not None:
        conn.execute("INSERT INTO metadata VALUES (?)", (version,))
    conn.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    conn.commit()
    conn.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nodehistory.db"


@pytest.fixture
def new_york(monkeypatch):
    """Local time of a place that is not at UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def is_open(conn):
    """Whether a connection can be used."""
    try:
        conn.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_history_that_is_gone_leaves_no_file_open(path, caplog):
    """Also one whose file was broken, and one in a circle of objects; nothing that is in use is
    closed."""
    caplog.set_level(
        logging.CRITICAL
    )  # what is kept of the log keeps the error, and that keeps the history
    history, other = SQLiteNodeHistory(path), SQLiteNodeHistory(path)
    conn = history.conn
    history.itself = history
    del history
    gc.collect()
    assert (is_open(conn), is_open(other.conn)) == (False, True)
    first = other.conn
    path.write_bytes(b"broken")
    other.update([a_started_node("A")])
    second = other.conn
    assert (is_open(first), is_open(second)) == (False, True)
    del other
    gc.collect()
    assert not is_open(second)


def test_a_history_that_another_thread_lets_go(path, capsys):
    """Which may not close it: nothing is printed, and nothing ends in an error."""
    kept = []
    thread = threading.Thread(target=lambda: kept.append(SQLiteNodeHistory(path)))
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        kept.clear()
        gc.collect()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_importing_everything():
    """`*` has the names that are made when they are first asked for, and those that are there."""
    found = {}
    exec("from hpc.autoscale.node.nodehistory import *", found)  # noqa: S102
    assert found["SQLiteNodeHistory"] is SQLiteNodeHistory
    assert {"NodeHistory", "NullNodeHistory", "initialize_db", "SQLITE_VERSION"} <= found.keys()


def test_a_new_file_is_ready_for_others_at_once(path):
    """Opening leaves no lock: a second history of the same new file can be opened and written."""
    with History(path) as first, History(path) as second:
        assert not first.conn.in_transaction
        first.update([a_started_node("A")])
        second.update([a_started_node("A"), a_started_node("B")])
        assert set(first.read()) == {"A", "B"}


def test_the_default_path_is_in_the_working_directory(tmp_path, monkeypatch):
    """Without a path the history is `nodehistory.db` here."""
    monkeypatch.chdir(tmp_path)
    with SQLiteNodeHistory() as history:
        assert history.path == "nodehistory.db"
    assert os.listdir(tmp_path) == ["nodehistory.db"]


def test_facts_outlive_the_process(path):
    """What one history stored another reads."""
    with History(path) as history:
        history.update([a_started_node("A")])
        history.mark_ignored([a_started_node("A")])
    with History(path, at=5000.0) as history:
        assert history.idle() == ["A"]
        assert history.find_ignored() == [("A", "host-1", 1000.0)]


def test_the_tables_are_the_published_ones(path):
    """Other programs read this file too: version, columns, and flags as 1 and 0."""
    with History(path) as history:
        history.update([a_started_node("A")])
        history.mark_ignored([a_started_node("A")])
    conn = sqlite3.connect(path)
    assert conn.execute("SELECT version FROM metadata").fetchall() == [("0.0.6",)]
    assert SQLITE_VERSION == "0.0.6"
    row = ("A", "host-1", None, 1000.0, 1000.0, 1000.0, None, 1)
    assert conn.execute("SELECT * FROM nodes").fetchall() == [row]
    conn.close()


def test_an_old_file_is_used_in_place(path):
    """A file of cyclecloud-scalelib keeps its facts; ids that it stored in lower case are respelt
    once."""
    old_file(path, [("abc-def", "ip-1", None, 100.0, 100.0, 150.0, None, 0),
                    ("gone-one", "ip-2", None, 100.0, 100.0, 150.0, 200.0, 0)])  # fmt: skip
    node = a_started_node("ABC-def", hostname="IP-1")
    with History(path) as history:
        history.decorate([node])
        assert node.last_match_time_unix == 100.0
        history.update([node])
        assert history.find_unmatched(300) == [("ABC-def", "IP-1", 100.0)]
        assert history.booting(-1) == []
        rows = history.conn.execute("SELECT node_id FROM nodes ORDER BY node_id").fetchall()
        assert rows == [("ABC-def",), ("gone-one",)]
    assert [name.name for name in path.parent.iterdir()] == [path.name]


def test_old_ids_are_respelt_in_the_first_update_only(path):
    """After the first nodes were seen, an id in another letter case is another node."""
    old_file(path, [("abc", "h", None, 100.0, 100.0, 150.0, None, 0)])
    with History(path) as history:
        history.update([])
        history.update([a_started_node("Abc")])
        history.update([a_started_node("ABC")])
        assert set(history.read()) == {"ABC"}
        rows = history.conn.execute("SELECT node_id FROM nodes ORDER BY node_id").fetchall()
        assert rows == [("ABC",), ("Abc",)]


def test_ids_that_differ_in_case_only_are_two_nodes(path):
    """A lower-case id that is itself in use is not taken for another one."""
    with History(path) as history:
        history.update([a_started_node("abc")])
        history.at += 1000
        history.update([a_started_node("abc"), a_started_node("ABC")])
        assert history.idle(300) == ["abc"]
        assert set(history.read()) == {"abc", "ABC"}


def test_times_of_an_old_file_become_true_once(path, new_york):
    """The old program's times are off by the distance from UTC; that is put right on opening, and
    only then."""
    true = datetime(2026, 1, 15, 12, 0, tzinfo=UTC).timestamp()
    stored = datetime(2026, 1, 15, 12, 0).timestamp()  # UTC read as if it were local
    assert stored - true == 5 * 3600
    old_file(path, [("a", None, None, stored, stored, 0.0, None, 0)])
    for _ in range(2):
        with History(path, at=true + 60) as history:
            record = history.read()["a"]
            assert (record.create_time, record.last_match_time, record.ready_time) == (
                true,
                true,
                0.0,
            )


def test_times_of_an_old_file_read_only(path, new_york):
    """Read-only, times are put right without touching the file."""
    stored = datetime(2026, 1, 15, 12, 0).timestamp()
    old_file(path, [("a", None, None, stored, stored, 0.0, None, 0)])
    before = path.read_bytes()
    with SQLiteNodeHistory(path, read_only=True) as history:
        assert history.read()["a"].create_time == stored - 5 * 3600
    assert path.read_bytes() == before


def test_a_daylight_saving_switch_ages_nothing(path, new_york):
    """Two minutes across the switch to winter time are two minutes."""
    switch = datetime(2026, 11, 1, 6, 0, tzinfo=UTC).timestamp()
    with History(path, at=switch - 60) as history:
        history.update([a_started_node("A"), a_started_node("B", state="Software")])
        history.at = switch + 60
        assert history.idle(300) == history.booting(300) == []


@pytest.mark.parametrize("odd", [None, "nonsense", 1e300])
def test_odd_times_in_a_file(path, odd):
    """Times that are missing, texts or beyond all calendars never make a node look old."""
    old_file(path, [(i, "h", None, odd, odd, None, None, None) for i in ("A", "B")])
    nodes = [a_started_node("A"), a_started_node("B")]
    with History(path) as history:
        assert history.idle() == history.booting() == []
        history.decorate(nodes, {})
        assert [node.idle_time_remaining for node in nodes] == [300, 300]
        assert nodes[0].create_time
        history.update(nodes)
        history.at += 301
        assert sorted(history.idle()) == ["A", "B"]


@pytest.mark.parametrize(
    "change",
    [
        "sightings SET idle_passes = 'nonsense'",
        "sightings SET idle_passes = 9e999",
        "sightings SET missing_time = 'nonsense'",
        "nodes SET delete_time = 'nonsense'",
        "writers SET number = NULL",
    ],
)
def test_odd_figures_in_a_file_end_no_pass(path, change):
    """Nor do they make a node look idle, or as if it booted for long."""
    nodes = [a_started_node("A"), a_started_node("B", "Acquiring")]
    with History(path) as history:
        history.cluster = "c"
        history.update(nodes)
        history.note_scheduler({"A"}, (), ())
    with sqlite3.connect(path) as conn:
        conn.execute(f"UPDATE {change}")
    conn.close()
    for at in (2000.0, 2060.0):
        with History(path, at) as history:
            history.rhythm, history.cluster = Rhythm(60.0), "c"
            history.update(nodes)
            history.note_scheduler((), {"A"}, ())
            assert history.sightings()["A"].missing_time is not None
            assert history.idle(300) == history.booting(300) == []


def test_a_node_that_is_gone_without_an_id_is_none(path):
    """A row that is damaged is no node to look for."""
    with History(path) as history:
        history.update([a_started_node("A"), a_started_node("B")])
        history.update([])
        with sqlite3.connect(path) as conn:
            conn.execute("UPDATE nodes SET node_id = NULL WHERE node_id = 'A'")
        conn.close()
        assert (list(history.gone()), len(history.gone())) == (["B"], 1)


@pytest.mark.parametrize("damaged", ["NULL", "x'ff'"])
def test_a_node_without_an_id_does_not_boot(path, damaged):
    """A row that is damaged keeps nobody from looking for those that do."""
    with History(path, 1000.0) as history:
        history.update([a_started_node("A", "Acquiring"), a_started_node("B", "Acquiring")])
    with sqlite3.connect(path) as conn:
        conn.execute(f"UPDATE nodes SET node_id = {damaged} WHERE node_id = 'A'")
    conn.close()
    with History(path, 5000.0) as history:
        assert history.booting(1800) == ["B"]


def test_a_file_left_half_made_is_finished(path):
    """The old program could leave tables without a version; they are taken as they are."""
    old_file(path, [("a", "h", None, 1.0, 1.0, 1.0, None, 0)], version=None)
    with History(path) as history:
        assert history.idle() == ["a"]
        assert history.conn.execute("SELECT version FROM metadata").fetchall() == [("0.0.6",)]


def test_an_empty_file_is_filled(path):
    """So is one that holds nothing."""
    path.touch()
    with History(path) as history:
        history.update([a_started_node("A")])
    assert [name.name for name in path.parent.iterdir()] == [path.name]


def corrupt(path):
    path.write_bytes(b"this is no database at all" * 100)


def truncated(path):
    with History(path) as history:
        history.update([a_started_node(f"{i:0200}") for i in range(200)])
    data = bytearray(path.read_bytes())
    data[4096 : 4096 + 2000] = b"\xff" * 2000
    path.write_bytes(bytes(data[:-8192]))


def foreign(path):
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE somebody_elses (x)")
    conn.close()


def foreign_metadata(path):
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE metadata (x)")
    conn.close()


def other_nodes(path):
    conn = sqlite3.connect(path)
    conn.executescript(
        "CREATE TABLE metadata (version TEXT); CREATE TABLE nodes (x); INSERT INTO metadata "
        "VALUES ('0.0.6')"
    )
    conn.close()


def no_nodes(path):
    conn = sqlite3.connect(path)
    conn.executescript(
        "CREATE TABLE metadata (version TEXT); INSERT INTO metadata VALUES ('0.0.6')"
    )
    conn.close()


BAD = [
    (corrupt, "unknown"),
    (truncated, "unknown"),
    (foreign, "unknown"),
    (foreign_metadata, "unknown"),
    (other_nodes, "0.0.6"),
    (no_nodes, "0.0.6"),
    (lambda path: old_file(path, version="0.0.4"), "0.0.4"),
    (lambda path: old_file(path, version="../../evil name"), ".._.._evil_name"),
]


@pytest.mark.parametrize(("spoil", "version"), BAD)
def test_what_cannot_be_used_is_moved_aside(path, caplog, spoil, version):
    """The file is kept under its version, a warning says where, and a new one is begun."""
    spoil(path)
    contents = path.read_bytes()
    with History(path) as history:
        history.update([a_started_node("A")])
        assert set(history.read()) == {"A"}
    aside = path.with_name(f"{path.name}.{version}")
    assert aside.read_bytes() == contents
    assert f"moved to {aside}" in caplog.text
    assert len(list(path.parent.iterdir())) == 2


def test_nothing_is_overwritten_by_moving_aside(path):
    """A second broken file gets a number."""
    for _ in range(3):
        corrupt(path)
        History(path).close()
    names = sorted(name.name for name in path.parent.iterdir())
    assert names == [path.name + end for end in ("", ".unknown", ".unknown.1", ".unknown.2")]


@pytest.mark.parametrize(("spoil", "_version"), BAD)
def test_read_only_never_touches_what_cannot_be_used(path, caplog, spoil, _version):
    """Such a file reads as an empty history, with a warning."""
    spoil(path)
    contents = path.read_bytes()
    with SQLiteNodeHistory(str(path), read_only=True) as history:
        assert history.find_unmatched(-1) == []
    assert path.read_bytes() == contents
    assert len(list(path.parent.iterdir())) == 1
    assert "cannot be read" in caplog.text


def test_read_only_without_a_file(tmp_path, monkeypatch):
    """A missing file reads as empty, and no file appears anywhere."""
    monkeypatch.chdir(tmp_path)
    with SQLiteNodeHistory("none.db", read_only=True) as history:
        history.update([a_started_node("A")])
        history.mark_ignored([a_started_node("A")])
        history.retire_records()
        assert history.find_unmatched(-1) == history.find_ignored() == []
        history.decorate([a_started_node("A")], {})
    assert os.listdir(tmp_path) == []


def test_read_only_reads_and_does_not_write(path):
    """A read-only history sees what others write and writes nothing itself."""
    with History(path) as writer, SQLiteNodeHistory(path, read_only=True) as reader:
        writer.update([a_started_node("A")])
        before = path.read_bytes()
        reader.update([])
        reader.mark_ignored([a_started_node("A")])
        reader.retire_records(timeout=-1e12)
        assert set(reader.read()) == {"A"}
        assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "what?.db", "x#y.db", "ü.db"])
def test_paths_may_hold_anything(tmp_path, name):
    """Characters that mean something in a URI are taken literally."""
    path = tmp_path / name
    with History(path) as history:
        history.update([a_started_node("A")])
    with SQLiteNodeHistory(path, read_only=True) as history:
        assert set(history.read()) == {"A"}
    assert os.listdir(tmp_path) == [name]


def test_a_full_disk(path):
    """The file is named, and keeps what was known."""
    with History(path) as history:
        history.update([a_started_node("N-0")])
        (pages,) = history.conn.execute("PRAGMA page_count").fetchone()
        history.conn.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(NodeHistoryError) as e:
            history.update([a_started_node(f"N-{n}") for n in range(2000)])
        assert str(e.value) == f"node history {path}: database or disk is full"
        assert len(history.find_unmatched(-1)) == 1


def test_what_is_wrong_with_a_file_that_cannot_be_opened(tmp_path):
    """Is said, because SQLite does not."""
    with pytest.raises(NodeHistoryError, match=f"node history {tmp_path}: it is a directory$"):
        SQLiteNodeHistory(tmp_path)


def test_a_missing_directory_is_named(tmp_path):
    """One line says which directory is missing."""
    with pytest.raises(NodeHistoryError, match=f"there is no directory {tmp_path / 'no'}$"):
        SQLiteNodeHistory(tmp_path / "no" / "history.db")


def test_a_link_to_a_place_that_is_not_there(tmp_path):
    """As one to a disk that is not mounted: that place is named."""
    (tmp_path / "x.db").symlink_to(tmp_path / "away" / "x.db")
    with pytest.raises(NodeHistoryError, match=f"there is no directory {tmp_path / 'away'}$"):
        SQLiteNodeHistory(str(tmp_path / "x.db"))


def test_uris(path):
    """A URI is opened as given; one that cannot be used is not moved."""
    initialize_db(path.as_uri(), read_only=False, uri=True).close()
    conn = initialize_db(path.as_uri() + "?mode=ro", read_only=True, uri=True)
    assert conn.execute("SELECT version FROM metadata").fetchone() == ("0.0.6",)
    conn.close()
    corrupt(path)
    with pytest.raises(NodeHistoryError, match="is of version unknown"):
        initialize_db(path.as_uri(), read_only=False, uri=True)


def test_a_busy_file_is_an_error_in_the_end(path, monkeypatch):
    """A file that stays locked is reported as such, and is not moved aside."""
    monkeypatch.setattr(dbfile, "BUSY_SECONDS", 0.01)
    with History(path) as history:
        history.conn.execute("BEGIN IMMEDIATE")
        with pytest.raises(NodeHistoryError, match="database is locked"):
            History(path)
    assert [name.name for name in path.parent.iterdir()] == [path.name]


def test_a_file_that_breaks_under_way_is_replaced(path, caplog):
    """A daemon goes on with a new file, and keeps the broken one."""
    with History(path) as history:
        history.update([a_started_node(f"{i:0200}") for i in range(200)])
        corrupt(path)
        history.update([a_started_node("B")])
        assert set(history.read()) == {"B"}
    assert "is broken" in caplog.text
    assert path.with_name(path.name + ".unknown").exists()


def test_a_file_that_is_taken_away_under_way_is_begun_anew(path):
    """What a daemon writes after that is where others look for it."""
    with History(path) as history:
        history.update([a_started_node("A")])
        path.unlink()
        history.update([a_started_node("B")])
        assert set(history.read()) == {"B"}
    with History(path) as another:
        assert set(another.read()) == {"B"}


def test_a_directory_that_is_away_for_a_while(tmp_path):
    """As a disk that is mounted again: a daemon finds its way back, and what it knew is there."""
    directory = tmp_path / "state"
    directory.mkdir()
    with History(directory / "nodehistory.db") as history:
        history.update([a_started_node("A")])
        directory.rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(NodeHistoryError, match="there is no directory"):
                history.update([a_started_node("A"), a_started_node("B")])
        (tmp_path / "away").rename(directory)
        assert set(history.read()) == {"A"}
        history.update([a_started_node("A"), a_started_node("B")])
        assert set(history.read()) == {"A", "B"}


def test_two_processes(path):
    """Processes that open and update one new file at the same time all succeed."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from builders.history import a_started_node as made\n"
        "from hpc.autoscale.node.nodehistory import SQLiteNodeHistory\n"
        "for i in range(20):\n"
        "    with SQLiteNodeHistory(sys.argv[2]) as h: h.update([made('A'), made('B')])\n"
    )
    command = [sys.executable, "-c", code, TESTS, str(path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with SQLiteNodeHistory(path) as history:
        assert set(history.read()) == {"A", "B"}
    assert [name.name for name in path.parent.iterdir()] == [path.name]
