"""The cache of the price service's answers: where it is, how long it holds, what breaks it
(nothing)."""

import json
import os
import stat
import threading

import pytest

from hpc.autoscale import clock
from hpc.autoscale.cost.cache import EXPIRY, ResponseCache, default_directory

ITEMS = [{"retailPrice": 0.5}]


@pytest.fixture
def now():
    """A clock that stands still."""
    mock = clock.MockClock(1_000_000.0)
    clock.use_clock(mock)
    return mock


@pytest.fixture
def directory(tmp_path):
    """A place for the cache that does not exist yet."""
    return tmp_path / "caches" / "retail"


def stored(directory):
    """The only file of the cache."""
    (path,) = directory.iterdir()
    return path


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_is_below_the_users_cache(monkeypatch):
    """XDG_CACHE_HOME, and ~/.cache where that is unset or relative."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_directory(None) == "/caches/hpc-autoscale/retail"
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert default_directory(None) == "/home/me/.cache/hpc-autoscale/retail"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_directory(None) == "/home/me/.cache/hpc-autoscale/retail"


def test_the_configured_directory_wins(monkeypatch):
    """`cost.cache_root`, of which `retail` is a part."""
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory("/var/cache") == "/var/cache/retail"
    assert default_directory("~/prices") == "/home/me/prices/retail"


def test_a_value_is_found_by_another_process(directory, now):
    """What one cache has put, another one gets."""
    ResponseCache(str(directory)).put("key", ITEMS)
    assert ResponseCache(str(directory)).get("key") == ITEMS
    assert ResponseCache(str(directory)).get("other key") is None


def test_nobody_else_can_read_it(directory, now):
    """Directory 0700, files 0600, and no drafts are left."""
    ResponseCache(str(directory)).put("key", ITEMS)
    assert (mode_of(directory), mode_of(stored(directory))) == (0o700, 0o600)


@pytest.mark.parametrize("again", [False, True])
def test_values_expire(directory, now, again):
    """After two days, in memory as on disk."""
    cache = ResponseCache(str(directory))
    cache.put("key", ITEMS)
    now.now += EXPIRY - 1
    assert (cache if again else ResponseCache(str(directory))).get("key") == ITEMS
    now.now += 1
    assert (cache if again else ResponseCache(str(directory))).get("key") is None


def test_a_clock_that_was_put_back_makes_entries_unknown(directory, now):
    """An entry from the future is as old as nobody knows."""
    ResponseCache(str(directory)).put("key", ITEMS)
    now.now -= 10
    assert ResponseCache(str(directory)).get("key") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"key": "key"}',
        b'{"key": "key", "time": "noon", "value": []}',
        b'{"key": "key", "time": null, "value": []}',
        b'{"key": "key", "time": 1%s, "value": []}' % (b"0" * 400),
        b'{"key": "something else", "time": 1000000, "value": [{}]}',
    ],
)
def test_a_broken_entry_is_as_good_as_none(directory, now, content):
    """It is ignored, and replaced by the next answer."""
    cache = ResponseCache(str(directory))
    cache.put("key", ITEMS)
    stored(directory).write_bytes(content)
    assert ResponseCache(str(directory)).get("key") is None
    ResponseCache(str(directory)).put("key", ITEMS)
    assert ResponseCache(str(directory)).get("key") == ITEMS


def test_no_answer_is_not_kept_for_others(directory, now):
    """That a size has no price today is remembered by this process only."""
    cache = ResponseCache(str(directory))
    cache.put("key", [])
    assert cache.get("key") == []
    assert ResponseCache(str(directory)).get("key") is None


def refused(directory, caplog):
    """What a cache that may not use the directory logs; it works all the same."""
    cache = ResponseCache(str(directory))
    cache.put("key", ITEMS)
    assert cache.get("key") == ITEMS
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    return record.getMessage()


def test_a_directory_that_others_can_write_to_is_not_used(directory, now, caplog):
    """They could put prices of their own into it."""
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    assert "can be written by others (mode 0777)" in refused(directory, caplog)
    assert list(directory.iterdir()) == []


def test_a_directory_of_somebody_else_is_not_used(directory, now, caplog, monkeypatch):
    """Not even when nobody can write to it."""
    directory.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to user" in refused(directory, caplog)


def test_a_link_is_not_followed(directory, now, caplog, tmp_path):
    """Whoever made it chose where we would write."""
    (tmp_path / "elsewhere").mkdir()
    directory.parent.mkdir()
    directory.symlink_to(tmp_path / "elsewhere")
    assert "is not a directory" in refused(directory, caplog)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_that_cannot_be_made(now, caplog, tmp_path):
    """Something else is there already."""
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused(tmp_path / "file" / "retail", caplog)


def test_a_disk_that_is_full(directory, now, caplog, monkeypatch):
    """The value stays in memory, and no draft stays behind."""

    def replace(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    assert "No space left" in refused(directory, caplog)
    assert list(directory.iterdir()) == []


def test_no_directory_at_all(now):
    """Without a home the cache is in memory only."""
    cache = ResponseCache(None)
    cache.put("key", ITEMS)
    assert cache.get("key") == ITEMS


def test_making_one_touches_nothing(directory):
    """The directory appears when something is put there."""
    ResponseCache(str(directory))
    assert not directory.parent.exists()


def test_writers_and_readers_at_once(directory, now):
    """A reader sees one whole entry or another, never a mixture."""
    values = [[{"n": n}] * 200 for n in range(4)]
    seen = []

    def write(value):
        cache = ResponseCache(str(directory))
        for _ in range(20):
            cache.put("key", value)
            seen.append(ResponseCache(str(directory)).get("key"))

    threads = [threading.Thread(target=write, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(value in values for value in seen)
    assert json.loads(stored(directory).read_text())["value"] in values
