"""The file of request sets: one transaction for each, other processes, and broken files."""

import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from subprocess import run

import pytest

from hpc.autoscale.requestsets.store import (
    RequestSet,
    RequestStore,
    RequestStoreError,
)
from hpc.autoscale.statefiles import REQUEST_SETS, path_of

ONE = RequestSet("standard", 100.0, 400.0, [{"Name": "a", "TargetCount": 3}])


@pytest.fixture
def store(tmp_path):
    """A store without a file so far."""
    return RequestStore(str(tmp_path / "sets.db"))


def test_without_a_file_nothing_is_wanted(store, tmp_path):
    """And looking makes none."""
    assert (store.sets(), store.nodearrays()) == ([], frozenset())
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_read(store):
    """By whoever opens the file, sets by name."""
    other = RequestSet("b", 1.0, 2.0, [])
    store.replace(ONE, ["a"])
    store.replace(other, [])
    again = RequestStore(store.path)
    assert again.sets() == [other, ONE]
    assert again.nodearrays() == {"a"}


def test_a_set_is_replaced_as_a_whole(store):
    """Others stay; what was ever named is remembered."""
    store.replace(ONE, ["a"])
    store.replace(RequestSet("standard", 200.0, 500.0, [{"Name": "b"}]), ["b"])
    assert [one.arrays for one in store.sets()] == [[{"Name": "b"}]]
    assert store.nodearrays() == {"a", "b"}


def test_the_end_is_not_part_of_it():
    """A set stands until the second at which it lapses."""
    assert ONE.stands(399.9)
    assert not ONE.stands(400.0)


def test_old_sets_are_forgotten(store):
    """Those that lapsed before the time that is given."""
    store.replace(ONE, ["a"])
    store.replace(RequestSet("b", 500.0, 800.0, []), [], forget_before=400.0)
    assert len(store.sets()) == 2
    store.replace(RequestSet("b", 500.0, 800.0, []), [], forget_before=400.1)
    assert [one.name for one in store.sets()] == ["b"]


def test_a_write_that_fails_half_way_changes_nothing(store):
    """The set and its nodearrays are one transaction."""
    store.replace(ONE, ["a"])
    with pytest.raises(RequestStoreError):
        store.replace(RequestSet("standard", 200.0, 500.0, []), [object()])
    assert store.sets() == [ONE]


def test_reporters_at_once(store):
    """Wait for each other; none is lost."""

    def report(number):
        store.replace(RequestSet(f"s{number}", 1.0, 2.0, []), [f"a{number}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(report, range(40)))
    assert {one.name for one in store.sets()} == {f"s{number}" for number in range(40)}
    assert len(store.nodearrays()) == 40


WRITER = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE request_sets SET arrays = '[]'")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_leaves_what_stood(store):
    """And its lock goes with it."""
    store.replace(ONE, ["a"])
    run([sys.executable, "-c", WRITER, store.path], check=False, timeout=60)
    assert store.sets() == [ONE]
    store.replace(ONE, ["a"])


def test_write_ahead_logging_works_as_well(store):
    """Whoever has turned it on for the file keeps it."""
    store.replace(ONE, ["a"])
    with sqlite3.connect(store.path) as db:
        assert db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    db.close()
    second = RequestSet("standard", 200.0, 500.0, [])
    store.replace(second, [])
    assert RequestStore(store.path).sets() == [second]


def test_a_damaged_file_is_an_error(store, tmp_path):
    """To read and to write, which says what to do; it is never taken for a wish for nothing."""
    (tmp_path / "sets.db").write_text("no database, but long enough to be looked at " * 10)
    for act in (store.sets, store.nodearrays, lambda: store.replace(ONE, ["a"])):
        with pytest.raises(RequestStoreError, match=r"sets\.db: it is damaged .*move it away"):
            act()


@pytest.mark.parametrize(
    "change",
    [
        "arrays = '[{'",
        "arrays = '{}'",
        "arrays = '[7]'",
        """arrays = '[{"TargetCount": 1}]'""",
        "arrays = 7",
        "lapses_at = 'soon'",
        "reported_at = x'00'",
        "name = NULL",
    ],
)
def test_a_damaged_row_is_an_error(store, change):
    """A wish that cannot be read is none for nothing; the line says what to do."""
    store.replace(ONE, ["a"])
    with sqlite3.connect(store.path) as db:
        db.execute(f"UPDATE request_sets SET {change}")
    db.close()
    for look in (store.sets, store.check):
        with pytest.raises(RequestStoreError, match=r"sets\.db: it is damaged .*move it away"):
            look()


def test_a_file_of_something_else_is_left_alone(store):
    """Also one of a later version."""
    with sqlite3.connect(store.path) as db:
        db.execute("CREATE TABLE other (x TEXT)")
    db.close()
    for act in (store.sets, lambda: store.replace(ONE, ["a"])):
        with pytest.raises(RequestStoreError, match="expected a file of request sets"):
            act()


def test_a_directory_that_is_missing(tmp_path):
    """Is named."""
    store = RequestStore(str(tmp_path / "nowhere" / "sets.db"))
    with pytest.raises(RequestStoreError, match=f"there is no directory {tmp_path}/nowhere"):
        store.replace(ONE, ["a"])


def test_a_directory_in_its_place(tmp_path):
    """Is no file."""
    with pytest.raises(RequestStoreError, match="it is a directory"):
        RequestStore(str(tmp_path)).sets()


def test_a_full_disk(store, monkeypatch):
    """Is said, and what stood before stands."""
    store.replace(ONE, ["a"])
    original = sqlite3.connect

    def small(*args, **options):
        db = original(*args, **options)
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    large = RequestSet("b", 1.0, 2.0, [{"Name": "x" * 100_000}])
    with pytest.raises(RequestStoreError, match=r"sets\.db: database or disk is full"):
        store.replace(large, ["x"])
    monkeypatch.undo()
    assert store.sets() == [ONE]


def test_where_the_file_is(tmp_path):
    """As configured, else beside the node history, else in the home."""
    assert path_of(REQUEST_SETS, {"requestsetsdb": "/x/y.db"}, "/home") == "/x/y.db"
    assert path_of(REQUEST_SETS, {"nodehistorydb": "/x/history.db"}, "/home") == "/x/requestsets.db"
    assert path_of(REQUEST_SETS, {}, "/home") == "/home/requestsets.db"
