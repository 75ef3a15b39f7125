"""Request ids, kept until the server is known to have answered."""

import errno
import json

import pytest

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.operations import RequestLog, RequestLogError


def ids(*given):
    """A source of these ids."""
    source = iter(given)
    return lambda: next(source)


@pytest.fixture
def path(tmp_path):
    """Where ids are kept."""
    return tmp_path / "requests.json"


def kept(path):
    """The ids in the file."""
    return json.loads(path.read_text(encoding="utf-8"))


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

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RequestLogError) as e:
        log.begin()
    assert str(e.value) == f"request ids {path}: cannot be written: No space left on device"
    assert (kept(path), log.unsettled) == (["a"], ["a"])
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


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '"a"', "[" * 10_000, b"\xff\xfe"])
def test_a_file_that_makes_no_sense(path, text):
    """One clear line that names it; nothing is sent with ids that nobody can keep."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RequestLogError, match="expected a JSON list of ids") as caught:
        RequestLog(path)
    assert isinstance(caught.value, AutoscaleError)
    assert str(path) in str(caught.value)


def test_a_place_that_cannot_be_written(tmp_path):
    """The id is not handed out."""
    log = RequestLog(tmp_path / "missing" / "requests.json", ids("a"))
    with pytest.raises(RequestLogError, match="cannot be written"):
        log.begin()
    assert log.unsettled == []


def test_a_directory_in_its_place(tmp_path):
    """It is no list of ids."""
    with pytest.raises(RequestLogError):
        RequestLog(tmp_path)


def test_no_half_written_file_is_left(path):
    """It is replaced as a whole."""
    log = RequestLog(path, ids(*"abc"))
    for _ in range(3):
        log.begin()
    assert [p.name for p in path.parent.iterdir()] == ["requests.json"]
