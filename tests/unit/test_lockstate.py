"""How the locks of a loop stand: held, free, or not known, without taking them."""

import builtins
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builders.processes import python
from hpc.autoscale import lockstate
from hpc.autoscale.errors import MultipleInstancesError
from hpc.autoscale.locks import file_of
from hpc.autoscale.lockstate import Lock, lock_state
from hpc.autoscale.util import SingletonFileLock, new_loop_lock, take_lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells")
WHO = f"process {os.getpid()} of user {os.getuid()}"


@pytest.fixture
def path(tmp_path):
    """Of a lock file."""
    return str(tmp_path / "lock")


@pytest.fixture
def config(tmp_path):
    """A cluster that no other test knows."""
    return {"url": f"https://test-{os.getpid()}.example", "cluster_name": str(tmp_path)}


@pytest.fixture
def mounted(monkeypatch):
    """Say of every file system that it is of a kind."""

    def mounted(kind):
        known = lockstate._identity
        monkeypatch.setattr(lockstate, "_identity", lambda path: (*known(path)[:2], kind))

    return mounted


def test_held_and_free(path, config):
    """By the file and by the cluster; looking makes no file."""
    assert lock_state(config, path) == (Lock.FREE, (), "")
    assert not os.path.exists(path)
    lock = take_lock(path, config)
    assert lock_state(config, path) == (Lock.HELD, [WHO], "")
    assert lock_state({}, path).holders == lock_state(config, path + "2").holders == [WHO]
    assert lock_state({}, path + "2").state == Lock.FREE
    lock.unlock()
    assert str(lock_state(config, path)) == "free"


def test_a_loop_between_its_passes(path, config):
    """Keeps no command waiting; who it is, is said."""
    lock = new_loop_lock()
    lock.take(config)
    assert str(lock_state(config, path)) == f"free, the loop of the cluster is {WHO}"
    lock.unlock()
    assert str(lock_state(config, path)) == "free"


def test_by_another_process(path):
    """Any program that locks the file, also for reading."""
    code = (
        "import fcntl, sys, subprocess; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_SH)\n"
        "from hpc.autoscale.lockstate import lock_state\n"
        "print(lock_state({}, sys.argv[1]))"
    )
    assert python(code, path).stdout.startswith("held by process ")
    assert lock_state({}, path).state == Lock.FREE


def test_by_one_that_is_stopped(path, config):
    """It is said: a loop that somebody has stopped gives nothing back, and no pass is made."""
    code = (
        "import sys, time; from hpc.autoscale.util import take_lock\n"
        "lock = take_lock(sys.argv[1], {'url': sys.argv[2], 'cluster_name': sys.argv[3]})\n"
        "print('taken', flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, path, config["url"], config["cluster_name"]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "taken\n"
            who = f"process {holder.pid} of user {os.getuid()}"
            assert lock_state(config, path).holders == [who]
            os.kill(holder.pid, signal.SIGSTOP)
            os.waitpid(holder.pid, os.WUNTRACED)
            who += f", which is stopped (kill -CONT {holder.pid} lets it go on)"
            assert lock_state(config, path).holders == [who]
            for own in (path, path + "2"):
                with pytest.raises(MultipleInstancesError, match="which is stopped"):
                    take_lock(own, config)
        finally:
            holder.kill()


def test_by_one_whose_name_is_no_text(path, config):
    """The system cuts names of programs after 15 bytes, also in the middle of a letter."""
    held = take_lock(path, config)
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    try:
        name.write_bytes("Größe".encode()[:3])
        with pytest.raises(MultipleInstancesError, match=f"process {os.getpid()}"):
            take_lock(path, config)
    finally:
        name.write_bytes(before.strip())
        held.unlock()


def test_by_one_that_was_left_the_lock(path, monkeypatch):
    """The process that took it is gone: another one has it."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(os, "stat", refusing(os.stat, f"/proc/{os.getpid()}"))
        assert str(lock_state({}, path)) == "held by another process"


def test_a_file_that_was_left_behind(path):
    """By a process that was killed: it is free, whatever is in it."""
    with open(path, "w") as file:
        file.write("4711")
    assert lock_state({}, path).state == Lock.FREE


def test_a_lock_that_cannot_be_taken(path, tmp_path):
    """A pipe, a directory, and a link into a directory that is not there are not free."""
    os.mkfifo(path)
    pipe, directory = lock_state({}, path), lock_state({}, str(tmp_path))
    assert str(pipe) == f"not known: {path} is a pipe, so it cannot be taken"
    assert str(directory) == f"not known: {tmp_path} is a directory, so it cannot be taken"
    os.symlink("away/lock", link := f"{path}-link")
    said = f"not known: there is no directory {tmp_path / 'away'}, so it cannot be taken"
    assert str(lock_state({}, link)) == said


def refusing(function, *paths):
    """A function that may not touch these paths."""

    def refused(path, *args, **more):
        if path in paths:
            raise PermissionError(13, "Permission denied", path)
        return function(path, *args, **more)

    return refused


@pytest.mark.parametrize("unreadable", ["/proc/locks", "/proc/self/mountinfo"])
def test_a_system_that_does_not_tell(path, unreadable, monkeypatch):
    """Is no free lock."""
    open(path, "w").close()
    monkeypatch.setattr(builtins, "open", refusing(open, unreadable))
    state = lock_state({}, path)
    assert state.state == Lock.UNKNOWN
    assert unreadable in state.note and "Permission denied" in state.note


def test_a_cluster_that_cannot_be_looked_up(path, config, monkeypatch):
    """Where names of sockets cannot be read."""
    monkeypatch.setattr(lockstate, "_UNIX", "/proc/none/unix")
    assert lock_state(config, path).note == "/proc/none/unix cannot be read"
    assert lock_state({}, path).state == Lock.FREE


def test_a_file_that_cannot_be_looked_at(path, monkeypatch):
    """Nobody knows who has it."""
    open(path, "w").close()
    monkeypatch.setattr(os, "stat", refusing(os.stat, path))
    state = lock_state({}, path)
    assert (state.state, "Permission denied" in state.note) == (Lock.UNKNOWN, True)


def test_a_file_that_this_user_may_not_open(path, monkeypatch):
    """Who has it is seen nevertheless; that it cannot be taken is said."""
    with open(path, "w") as file:
        monkeypatch.setattr(os, "access", lambda asked, _: asked != path)
        assert str(lock_state({}, path)).startswith("free, but this user may not take it")
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_state({}, path).holders == [WHO]


def test_a_file_that_cannot_be_written_is_not_called_anothers(path, monkeypatch):
    """As on a file system that is read-only, whoever owns the file."""
    open(path, "w").close()
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    said = f"free, but this user may not take it: {path} cannot be read and written"
    assert str(lock_state({}, path)).startswith(said)


def test_a_file_that_other_machines_may_lock(path, mounted):
    """Is held where it is held here, and otherwise nobody knows."""
    mounted("nfs4")
    with open(path, "w") as file:
        assert "is on nfs4, where other machines may" in lock_state({}, path).note
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_state({}, path).holders == [WHO]


def test_a_container(path, monkeypatch):
    """Does not see who has it in another one."""
    monkeypatch.setattr(lockstate, "_OF_THE_MACHINE", "pid:[1]")
    open(path, "w").close()
    assert str(lock_state({}, path)) == "free, as far as it is seen from within this container"
    with open(path, "w") as file:
        file.write("7")
    assert lock_state({}, path).note == f"{path} names process 7, which may be in another container"


def test_the_file_of_a_cluster(path, config, tmp_path, monkeypatch):
    """Is looked at where there is one: a sandbox forbids names of sockets."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    own = file_of("server:1", "c")
    os.makedirs(os.path.dirname(own))
    lock = SingletonFileLock(own)
    config = {"url": "https://server:1", "cluster_name": "c"}
    assert lock_state(config, path).holders == [WHO]
    lock.unlock()
    assert lock_state(config, path).state == Lock.FREE


def test_another_system(path, config, monkeypatch):
    """Tells nothing of files that are there."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert lock_state({}, path).state == Lock.FREE
    open(path, "w").close()
    assert "does not tell" in lock_state({}, path).note


def test_no_lock(config, path):
    """None is wanted; another loop may hold that of the cluster."""
    assert str(lock_state(config, None)) == "none: lock_file is null"
    lock = take_lock(path, config)
    assert lock_state(config, None).holders == [WHO]
    lock.unlock()
    assert lock_state(config, path, of_driver=True).state == Lock.UNKNOWN
