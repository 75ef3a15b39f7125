"""The lock of a cluster on a machine, whatever configurations say of files."""

import errno
import gc
import json
import os
import socket
import sys
from typing import ClassVar

import pytest

from builders.processes import python
from hpc.autoscale import clock, locks, util
from hpc.autoscale.errors import LockUnusableError, MultipleInstancesError
from hpc.autoscale.locks import holders_of
from hpc.autoscale.util import SingletonFileLock, take_lock

CODE = """
import sys
from hpc.autoscale.util import take_lock
take_lock(sys.argv[1], {"url": sys.argv[2], "cluster_name": sys.argv[3]})
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is a file")


@pytest.fixture
def config(tmp_path):
    """A cluster that no other test knows."""
    return {"url": f"https://test-{os.getpid()}.example", "cluster_name": str(tmp_path)}


@pytest.fixture
def take(tmp_path):
    """Take the locks of a configuration, with a lock file of its own."""
    held = []

    def take(config, name="lock"):
        held.append(take_lock(str(tmp_path / name), config))
        return held[-1]

    yield take
    for lock in held:
        lock.unlock()


def test_one_lock_for_each_cluster(take, config, tmp_path):
    """Two lock files lock one cluster once; the second is told who has it, and its file is free."""
    take(config, "one")
    with pytest.raises(MultipleInstancesError) as refused:
        take(config, "two")
    who = f"held by process {os.getpid()} of user {os.getuid()}"
    assert who in str(refused.value) and config["cluster_name"] in str(refused.value)
    assert not isinstance(refused.value, LockUnusableError)
    assert (tmp_path / "one").read_text() == str(os.getpid())
    assert (tmp_path / "two").read_text() == ""
    SingletonFileLock(str(tmp_path / "two")).unlock()


def test_another_process_is_refused(take, config, tmp_path):
    """Also one with another spelling of the address."""
    take(config)
    url = config["url"].upper().replace("HTTPS", "https") + ":443/"
    done = python(CODE, str(tmp_path / "two"), url, config["cluster_name"])
    assert f"held by process {os.getpid()}" in done.stderr.splitlines()[-1]


def test_other_clusters_and_servers_are_free(take, config):
    """Each has a lock of its own."""
    another = {**config, "cluster_name": "another"}
    server = {**config, "url": config["url"] + ":8443"}
    for number, each in enumerate((config, another, server)):
        assert holders_of(each) == []
        take(each, str(number))
        assert holders_of(each) == [f"process {os.getpid()} of user {os.getuid()}"]


def test_a_lock_that_nobody_has_any_more(config, tmp_path):
    """Is free, also where an error that was dealt with kept it for the collector of garbage."""

    def a_pass():
        lock = take_lock(str(tmp_path / "lock"), config)
        try:
            raise ValueError
        except ValueError as error:
            kept = error
        return (lock.lockpath, repr(kept))

    gc.disable()
    try:
        assert a_pass() == a_pass()
    finally:
        gc.enable()


def test_it_is_given_back(take, config, tmp_path):
    """With the lock file, and by the death of a process."""
    for name in ("one", "two"):
        lock = take(config, name)
        assert holders_of(config)
        lock.unlock()
        assert holders_of(config) == []
        python(CODE + "import os; os._exit(9)", str(tmp_path / "x"), *config.values())
    take(config, "one")


def test_an_address_that_stands_elsewhere(take, config, tmp_path, monkeypatch):
    """In the environment, or in the file with the password: it is the same cluster."""
    take(config, "one")
    url = config.pop("url")
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"url": url, "username": "u", "password": "p"}))
    path.chmod(0o600)
    in_file = {**config, "credentials_file": str(path)}
    for own in in_file, {"clusters": [{"name": "east", **in_file}]}:
        with pytest.raises(MultipleInstancesError, match=r"only instance for cluster /.* at test-"):
            take(own, "two")
    with monkeypatch.context() as patch:
        patch.setenv("CYCLECLOUD_URL", url)
        with pytest.raises(MultipleInstancesError, match="only instance for cluster"):
            take(config, "two")
    path.chmod(0o644)  # nobody connects with that, and whoever tries says so
    take(in_file, "two")


@pytest.mark.parametrize(
    "config", [{}, {"url": "https://a"}, {"url": 3, "cluster_name": "c"}, {"cluster_name": "c"}]
)
def test_without_a_cluster_there_is_a_file_only(take, config):
    """It is locked, and another one can be."""
    take(config, "one")
    take(config, "two")
    assert holders_of(config) == []
    with pytest.raises(MultipleInstancesError, match="one"):
        take(config, "one")


def test_no_server_no_lock(take, config):
    """A cluster in memory is of this process alone."""
    config["_mock_bindings"] = object()
    take(config, "one")
    take(config, "two")
    assert holders_of(config) == []


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://cc.example", "cc.example:443"),
        ("https://CC.example:443/", "cc.example:443"),
        ("http://cc.example", "cc.example:80"),
        ("cc.example", "cc.example:443"),
        ("https://cc.example/prefix/", "cc.example:443/prefix"),
        ("https://[::1]:9", "::1:9"),
    ],
)
def test_one_spelling_for_a_server(url, server):
    assert locks.cluster_of({"url": url, "cluster_name": "c"}) == (server, "c")


@pytest.mark.parametrize("url", ["https://a:port", "https://[::1"])
def test_an_address_that_is_none(url):
    """Whoever connects says what is wrong with it."""
    assert locks.cluster_of({"url": url, "cluster_name": "c"}) is None


# -- where sockets are forbidden


@pytest.fixture
def sandbox(monkeypatch, tmp_path):
    """A system that lets processes have no Unix sockets."""

    def forbidden(*args):
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path / f"hpc-autoscale-{os.getuid()}"


def test_a_file_where_sockets_are_forbidden(sandbox, take, config):
    """In a directory that only this user can enter."""
    take(config, "one")
    assert sandbox.stat().st_mode & 0o777 == 0o700
    with pytest.raises(MultipleInstancesError, match=f"held by process {os.getpid()}"):
        take(config, "two")


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a_directory_that_somebody_else_prepared(sandbox, take, config, tmp_path, trap):
    """Nothing is opened in it."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    if trap == "link":
        sandbox.symlink_to(tmp_path / "elsewhere")
    elif trap == "open":
        sandbox.mkdir()
        sandbox.chmod(0o777)
    else:
        sandbox.touch()
    with pytest.raises(LockUnusableError, match="cannot be taken"):
        take(config)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    SingletonFileLock(str(tmp_path / "lock")).unlock()


def test_another_error_is_no_lock(monkeypatch, take, config):
    """Too many open files are nobody's lock."""

    def full(*args):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", full)
    with pytest.raises(LockUnusableError, match="Too many open files"):
        take(config)


# -- waiting


@pytest.fixture
def waited():
    """A clock of which waiting takes no time, and what happens after seconds of it."""

    class Waiting(clock.MockClock):
        events: ClassVar[dict] = {}

        def sleep(self, n):
            super().sleep(n)
            for at in [at for at in self.events if at <= self.time()]:
                self.events.pop(at)()

    mock = Waiting()
    before = clock.use_clock(mock)
    yield mock
    clock.use_clock(before)


def test_waiting_for_a_lock(take, config, waited, caplog):
    """Until it is free; once is said for whom."""
    first = take(config, "one")
    waited.events[1007.0] = first.unlock
    take({**config, "_lock_wait": 10}, "two")
    assert waited.time() == pytest.approx(1007, abs=0.3)
    assert [r.message for r in caplog.records if "waiting" in r.message] == [
        f"waiting: {refusal(config)}"
    ]


def refusal(config):
    """What is said to a second process."""
    server, cluster = locks.cluster_of(config)
    return (
        f"expected to be the only instance for cluster {cluster} at {server}, but its lock is held"
        f" by process {os.getpid()} of user {os.getuid()}; it may have another configuration"
    )


@pytest.mark.parametrize("name", ["one", "two"])
def test_waiting_in_vain(take, config, waited, name):
    """Not longer than was said, for the file or for the cluster."""
    take(config, "one")
    with pytest.raises(MultipleInstancesError, match=f"held by process {os.getpid()}"):
        take({**config, "_lock_wait": 10}, name)
    assert waited.time() == pytest.approx(1010)


def test_nobody_waits_for_a_lock_that_cannot_be_had(tmp_path, config, waited):
    with pytest.raises(LockUnusableError):
        util.take_lock(str(tmp_path / "missing" / "lock"), {**config, "_lock_wait": 10})
    assert waited.time() == 1000
