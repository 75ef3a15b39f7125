"""Requests, kept until the server is known to have answered."""

import json
import os
import sqlite3
from contextlib import closing
from multiprocessing import get_context

import pytest

from builders.processes import python
from hpc.autoscale import clock
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node import requests
from hpc.autoscale.node.requests import OLD_SECONDS, RequestLog, RequestLogError, Sender


def ids(*given):
    """A source of these ids."""
    source = iter(given)
    return lambda: next(source)


@pytest.fixture
def path(tmp_path):
    """Where ids are kept."""
    return tmp_path / "requests.db"


def kept(path):
    """The ids in the file."""
    with closing(sqlite3.connect(path)) as db:
        return [each for (each,) in db.execute("SELECT request_id FROM creates ORDER BY rowid")]


def sent_by(path, **changed):
    """Let all that is in the file have been sent by another process."""
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("creates", "removals"):
            for column, value in changed.items():
                db.execute(f"UPDATE {table} SET {column} = ?", (value,))


@pytest.fixture
def somebody():
    """A process that runs as long as the test, as it would note itself."""
    context = get_context("forkserver")
    asked, said = context.Pipe()
    process = context.Process(target=_introduce, args=(said,))
    process.start()
    yield asked.recv()
    asked.send("go")
    process.join()


def _introduce(pipe):
    pipe.send(Sender.here())
    pipe.recv()


def test_an_id_is_on_disk_before_the_request_leaves(path):
    """And gone once the server has answered."""
    log = RequestLog(path, ids("a", "b"))
    assert (log.begin(), kept(path)) == ("a", ["a"])
    assert (log.begin(), kept(path)) == ("b", ["a", "b"])
    log.settle("a")
    assert (kept(path), log.unsettled) == (["b"], ["b"])
    log.settle("a")
    log.settle("unknown")
    assert kept(path) == ["b"]


def test_a_full_disk(path, monkeypatch):
    """The file is named, nothing is sent, and what was known is still there."""
    log = RequestLog(path, ids("a", "b"))
    log.begin()
    real = sqlite3.connect

    class Full(sqlite3.Connection):
        def commit(self):
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, factory=Full, **k))
    with pytest.raises(RequestLogError) as e:
        log.begin()
    with pytest.raises(RequestLogError):
        log.begin_removal("r", "delete_nodes", [("1", "htc-1")])
    assert str(e.value) == f"request ids {path}: database or disk is full"
    assert (kept(path), log.unsettled, log.removals) == (["a"], ["a"], [])
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_another_process_finds_it(path):
    """In the order in which they were begun."""
    log = RequestLog(path, ids("a", "b"))
    log.begin()
    log.begin()
    assert RequestLog(path).unsettled == ["a", "b"]
    assert RequestLog(str(path)).unsettled == ["a", "b"]


def test_an_id_that_never_happened_is_used_again(path):
    """Once, and it stays on disk all the while."""
    RequestLog(path, ids("a")).begin()
    log = RequestLog(path, ids("b"))
    log.never_happened("a")
    log.never_happened("a")
    assert kept(path) == ["a"]
    assert (log.begin(), log.begin()) == ("a", "b")
    assert kept(path) == ["a", "b"]
    log.settle("a")
    assert kept(path) == ["b"]


def test_only_ids_in_doubt_can_turn_out_to_be_unused():
    """An id that nobody began is not handed out."""
    log = RequestLog(None, ids("b"))
    log.never_happened("a")
    assert log.begin() == "b"


def test_an_explicit_id_is_never_replaced(path):
    """Whatever is free to be used again."""
    log = RequestLog(path, ids("a", "b"))
    log.begin()
    log.never_happened("a")
    assert log.begin("mine") == "mine"
    assert log.begin("mine") == "mine"
    assert kept(path) == ["a", "mine"]
    assert log.begin("a") == "a"
    assert log.begin() == "b"


def test_without_a_path_it_remembers_as_long_as_it_lives():
    """Ids are made up then, each another."""
    log = RequestLog()
    first, second = log.begin(), log.begin()
    assert first != second
    assert (log.unsettled, RequestLog().unsettled) == ([first, second], [])


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '"a"', '["\\ud800"]', "[" * 10_000, b"\xff\xfe"]
)
def test_a_list_that_makes_no_sense(tmp_path, text):
    """One clear line that names it and says what to do; it stays as it is."""
    path = tmp_path / "requests.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(RequestLogError, match="expected a JSON list of ids") as caught:
        RequestLog(path)
    assert isinstance(caught.value, AutoscaleError)
    assert str(path) in str(caught.value)
    assert "move it away when no create is under way" in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database" * 100, b"{}", bytes(range(256)) * 20])
def test_a_file_that_is_damaged(path, content):
    """It is never an empty answer, and the line says what to do."""
    path.write_bytes(content)
    log = RequestLog(path, ids("a"))
    for ask in (lambda: log.unsettled, lambda: log.removals, log.begin):
        with pytest.raises(RequestLogError, match="damaged") as caught:
            ask()
        assert "move it away when no create is under way" in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("creates", "begun = 'now'"),
        ("creates", "pid = x'00'"),
        ("removals", "begun = 'now'"),
        ("removals", "node_id = NULL"),
        ("made", "count = 'x'"),
        ("made", "begun = ''"),
        ("made", "node_ids = x'00'"),
    ],
)
def test_a_row_that_is_damaged(path, table, change):
    """So is the file: the line names it, and says what to do."""
    log = RequestLog(path, ids("a"))
    log.begin()
    log.begin_removal("r", "delete_nodes", [("1", "htc-1")])
    log.note_made(requests.Made("b", "here", 1, frozenset("1"), clock.time()))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {change}")
    for look in (requests.RequestFile(str(path)).check, lambda: getattr(log, table)):
        with pytest.raises(RequestLogError, match=r"requests\.db: it is damaged .*move it away"):
            look()


def test_a_file_of_a_later_version(path):
    """It is left alone."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other (x)")
        db.execute("PRAGMA user_version = 7")
        db.commit()
    with pytest.raises(RequestLogError, match="expected a file of request ids of version 4"):
        RequestLog(path).begin()


@pytest.mark.parametrize("name", ["requests.json", "requests.db"])
def test_the_list_of_an_earlier_version_is_taken_over(tmp_path, name):
    """Its ids are anybody's to ask about, before those that come later."""
    old = tmp_path / "requests.json"
    old.write_text(json.dumps(["a", "b"]))
    log = RequestLog(tmp_path / name, ids("c"))
    assert [each.name for each in tmp_path.iterdir()] == ["requests.db"]
    assert [sent.request_id for sent in log.in_doubt] == ["a", "b"]
    log.never_happened("b")
    assert log.begin() == "b"
    assert log.begin() == "c"
    assert log.unsettled == ["a", "b", "c"]


def test_an_empty_list_of_an_earlier_version_leaves_nothing(tmp_path):
    (tmp_path / "requests.json").write_text("[]")
    assert RequestLog(tmp_path / "requests.json").unsettled == []
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path):
    """The id is not handed out."""
    log = RequestLog(tmp_path / "missing" / "requests.db", ids("a"))
    with pytest.raises(RequestLogError, match="there is no directory"):
        log.begin()
    assert log.unsettled == []


def test_a_directory_in_its_place(tmp_path):
    """It is no file of requests."""
    with pytest.raises(RequestLogError, match="it is a directory"):
        RequestLog(tmp_path).begin()


def test_no_half_written_file_is_left(path):
    log = RequestLog(path, ids(*"abc"))
    for _ in range(3):
        log.begin()
    assert [p.name for p in path.parent.iterdir()] == ["requests.db"]


# -- who sends


def test_an_id_carries_who_sends_it(path):
    """This process, on this host, since it began."""
    before = clock.time()
    RequestLog(path).begin()
    (sent,) = RequestLog(path).creates
    assert sent.sender == Sender.here()
    assert (sent.sender.pid, sent.sender.state()) == (os.getpid(), "running")
    assert before <= sent.begun <= clock.time()


def test_an_id_in_flight_of_another_process_is_neither_lost_nor_used_again(path, somebody):
    """Whatever the server knows of it by now: the other one still waits."""
    RequestLog(path, ids("theirs")).begin()
    sent_by(path, **somebody._asdict())
    log = RequestLog(path, ids("ours"))
    assert log.in_doubt == []
    log.never_happened("theirs")
    assert log.begin() == "ours"
    assert log.unsettled == ["theirs", "ours"]


def test_an_id_of_a_process_that_ended_is_ours(path):
    """As soon as it has ended, or when another process has its number."""
    code = (
        "import sys; from hpc.autoscale.node.requests import RequestLog\n"
        "RequestLog(sys.argv[1]).begin('a')"
    )
    python(code, str(path))
    assert [sent.request_id for sent in RequestLog(path).in_doubt] == ["a"]
    sent_by(path, pid=os.getppid())
    assert [sent.sender.state() for sent in RequestLog(path).in_doubt] == ["ended"]


def test_what_can_be_told_of_other_processes():
    """Of another machine or container nothing; those of before a reboot have ended."""
    here = Sender.here()
    boot, numbers, begun = here.started.split("/")
    assert here._replace(host="elsewhere").state() == "unknown"
    assert here._replace(started=f"{boot}/pid:[1]/{begun}", pid=1).state() == "unknown"
    assert here._replace(started=f"earlier/{numbers}/{begun}").state() == "ended"
    assert here._replace(started=f"{boot}/{numbers}/1").state() == "ended"
    assert here._replace(started="").state() == "unknown"
    assert here._replace(started="odd").state() == "ended"


def test_where_the_system_tells_nothing_of_processes(monkeypatch, path):
    """Then age decides. What it told once stays true."""
    assert Sender.here().started
    monkeypatch.setattr(requests, "stat_of_process", lambda pid: ((), None))
    assert Sender.here().started
    requests._sender.cache_clear()
    RequestLog(path, ids("a")).begin()
    sent_by(path, pid=1)
    assert Sender.here().started == ""
    assert RequestLog(path).in_doubt == []
    sent_by(path, begun=clock.time() - OLD_SECONDS - 1)
    assert len(RequestLog(path).in_doubt) == 1


@pytest.mark.parametrize("jump", [-1, 1])
def test_an_old_id_is_anybodys(path, somebody, jump):
    """Nothing is under way for an hour, and a clock that jumped does not make it so for ever."""
    RequestLog(path, ids("theirs")).begin()
    sent_by(path, **somebody._asdict(), begun=clock.time() + jump * (OLD_SECONDS + 60))
    log = RequestLog(path, ids("ours"))
    assert len(log.in_doubt) == 1
    log.never_happened("theirs")
    assert log.begin() == "theirs"


def test_two_that_find_the_same_unused_id(path):
    """One of them gets it."""
    RequestLog(path, ids("a")).begin()
    first, second = RequestLog(path, ids("b")), RequestLog(path, ids("c"))
    first.never_happened("a")
    second.never_happened("a")
    assert (first.begin(), second.begin()) == ("a", "c")


def test_many_processes_at_once(path):
    """Nothing that one of them writes is lost by another."""
    code = (
        "import sys; from hpc.autoscale.node.requests import RequestLog\n"
        "for i in range(20):\n"
        "    log = RequestLog(sys.argv[1]); log.begin(f'{sys.argv[2]}-{i}')\n"
        "    if i % 2: log.settle(f'{sys.argv[2]}-{i}')\n"
    )
    import threading

    threads = [threading.Thread(target=python, args=(code, str(path), name)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kept(path)) == sorted(f"{n}-{i}" for n in "abcd" for i in range(0, 20, 2))


# -- removals


def test_a_removal_is_kept_until_it_is_answered(path):
    log = RequestLog(path)
    log.begin_removal("r", "delete_nodes", [("1", "htc-1"), ("2", "htc-2")])
    assert [(r.node_id, r.name, r.command) for r in RequestLog(path).removals] == [
        ("1", "htc-1", "delete_nodes"),
        ("2", "htc-2", "delete_nodes"),
    ]
    log.settle_removal("r")
    assert RequestLog(path).removals == []


def test_a_node_that_is_removed_again_is_kept_once(path):
    """The newer request is the one to wait for."""
    log = RequestLog(path)
    log.begin_removal("r", "delete_nodes", [("1", "htc-1")])
    earlier = log.removals
    log.begin_removal("s", "shutdown_nodes", [("1", "htc-1")])
    log.forget_removals(earlier)
    assert [(r.node_id, r.request_id) for r in log.removals] == [("1", "s")]
    log.forget_removals(log.removals)
    assert log.removals == []


def test_a_removal_that_is_answered_for_some_of_its_nodes(path):
    """The others stay in doubt, each by the newest request that may still arrive."""
    log = RequestLog(path)
    log.begin_removal("r", "delete_nodes", [("1", "htc-1"), ("2", "htc-2")])
    before = log.begin_removal("s", "delete_nodes", [("1", "htc-1"), ("3", "htc-3")])
    assert [(r.node_id, r.request_id) for r in before] == [("1", "r")]
    log.settle_removal("s", unknown={"3"})
    assert [(r.node_id, r.request_id) for r in log.removals] == [("2", "r"), ("3", "s")]
    log.settle_removal("s", before=before)
    assert {(r.node_id, r.request_id) for r in log.removals} == {("1", "r"), ("2", "r")}


def test_a_removal_that_is_called_off_is_kept(path):
    """The request may arrive all the same."""
    log = RequestLog(path)
    log.begin_removal("r", "delete_nodes", [("1", "htc-1"), ("2", "htc-2")])
    log.call_off(log.removals[:1])
    assert [(r.node_id, r.called_off) for r in log.removals] == [("1", True), ("2", False)]
    log.begin_removal("s", "delete_nodes", [("1", "htc-1")])
    assert not any(removal.called_off for removal in log.removals)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_a_version_before_is_read_and_brought_up(path, version):
    """What it tells of is kept; the first has not noted what was made."""
    log = RequestLog(path, ids("a"))
    log.begin()
    log.begin_removal("r", "delete_nodes", [("1", "htc-1")])
    with closing(sqlite3.connect(path)) as db, db:
        if version < 2:
            db.execute("DROP TABLE made")
        if version < 3:
            db.execute("ALTER TABLE removals DROP COLUMN called_off")
        db.execute("DROP TABLE booted")
        db.execute(f"PRAGMA user_version = {version}")
    log = RequestLog(path, ids("b"))
    (removal,) = log.removals
    assert (log.unsettled, log.made, removal.called_off) == (["a"], [], False)
    assert removal.sender == Sender.here()
    log.settle("a", requests.Made("a", "here", 2, frozenset({"1", "2"}), clock.time()))
    (made,) = RequestLog(path).made
    assert (made.promised, made.node_ids, kept(path)) == (2, {"1", "2"}, [])
    log.call_off(log.removals)
    assert [each.called_off for each in RequestLog(path).removals] == [True]


def test_nodes_that_go_are_missed_in_no_listing(path):
    """Of those that a create promised and that were never listed, none goes."""
    log = RequestLog(path)
    log.note_made(requests.Made("a", "here", 4, frozenset({"1", "2", "3"}), clock.time()))
    log.begin_removal("r", "delete_nodes", [("1", "htc-1"), ("2", "htc-2")])
    log.settle_removal("r", unknown={"2"}, gone={"1"})
    (made,) = log.made
    assert (made.promised, made.node_ids) == (3, {"2", "3"})
    log.settle_removal("r", gone={"2", "3"})
    (made,) = log.made
    assert (made.promised, made.node_ids) == (1, set())


class SetClock(clock.Clock):
    """A clock that somebody sets: it is `wrong` by so many seconds, ten minutes after the start of
    the machine."""

    wrong = 0.0
    up = 600.0

    def time(self):
        return 1.7e9 + self.up + self.wrong

    def booted_at(self):
        return 1.7e9 + self.wrong


@pytest.fixture
def set_clock():
    """Such a clock, in the place of the real one."""
    made = SetClock()
    before = clock.use_clock(made)
    yield made
    clock.use_clock(before)


def filled(path):
    """A log with a create, a removal, and what a create has made."""
    log = RequestLog(path, ids("a"))
    log.begin()
    log.begin_removal("r", "shutdown_nodes", [("1", "htc-1")])
    log.note_made(requests.Made("b", "here", 2, frozenset({"2"}), clock.time()))
    return log


@pytest.mark.parametrize("wrong", [1e9, 7200.0, 1.0, -7200.0, -1.6e9])
@pytest.mark.parametrize("writes", [False, True])
def test_a_clock_that_is_set_makes_no_request_old(path, set_clock, wrong, writes):
    """It is as long ago as it was: another one of the same machine counts on, and an hour later it
    is old."""
    filled(path)
    set_clock.wrong, set_clock.up = wrong, set_clock.up + 60
    log = RequestLog(path)
    if writes:
        log.begin_removal("s", "shutdown_nodes", [("3", "htc-3")])
    found = [*log.creates, *log.removals[:1], *log.made]
    assert len(found) == 3
    assert all(abs(clock.time() - each.begun - 60) <= 2 for each in found)
    assert not any(map(requests.is_old, found))
    set_clock.up += OLD_SECONDS
    assert all(map(requests.is_old, (*log.creates, *log.removals[:1])))
    assert log.made == []


def test_after_a_start_of_the_machine_the_clock_is_believed(path, set_clock):
    """Nobody knows how long it was off."""
    filled(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE booted SET boot = 'before'")
    set_clock.wrong = OLD_SECONDS + 1
    assert all(map(requests.is_old, RequestLog(path).creates))
    RequestLog(path).call_off(RequestLog(path).removals)
    set_clock.wrong += OLD_SECONDS
    (removal,) = RequestLog(path).removals
    assert clock.time() - removal.begun == OLD_SECONDS + 1


def test_what_was_made_long_ago_is_forgotten(path):
    """When something else is written down."""
    log = RequestLog(path)
    long_ago = clock.time() - OLD_SECONDS - 1
    log.note_made(requests.Made("a", "here", 1, frozenset({"1"}), long_ago))
    assert log.made == []
    log.note_made(requests.Made("b", "here", 1, frozenset({"2"}), clock.time()))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT request_id FROM made").fetchall() == [("b",)]
