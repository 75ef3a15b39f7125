"""Processes that the demo starts and is answerable for: started apart, ended in order, none left
behind.

Every process gets the mark of its demo in its environment, and what it starts inherits the mark. So
at the end the demo can look for anything that still bears it (the workers of a simulator that died,
a daemon that detached itself) and end that too. Nothing without the mark is ever touched.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARK = "HPC_AUTOSCALE_DEMO"
_PR_SET_PDEATHSIG = 1


class StartFailed(Exception):
    """A process ended, or was not ready in time; the text says which and shows the end of its
    log."""


class Processes:
    """The processes of one demo run, in the order in which they were started."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self.litter: list[Path] = []  # directories that go when everything has stopped
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        stdout: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command` in a session of its own, so that Ctrl-C reaches the demo alone.

        What it prints goes to `logs`/`name`.log, its standard output to the file `stdout` if there
        is one.
        """
        with open(self.log_of(name), "ab") as log, open(stdout or os.devnull, "ab") as out:
            process = subprocess.Popen(
                list(command),
                env={**os.environ, **(env or {}), MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=out if stdout else log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        self._running.append((name, process))
        return process

    def log_of(self, name: str) -> Path:
        """Where the output of the process called `name` goes."""
        return self.logs / f"{name}.log"

    def wait_until(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        ready: Callable[[], bool],
        timeout: float,
    ) -> None:
        """Wait until `ready()`; StartFailed when the process ends first or `timeout` seconds go
        by."""
        deadline = time.monotonic() + timeout
        while not ready():
            if process.poll() is not None:
                raise StartFailed(f"{name} ended with code {process.returncode}: {self.tail(name)}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{name} was not ready in {timeout:g} s: {self.tail(name)}")
            time.sleep(0.05)

    def tail(self, name: str, lines: int = 3) -> str:
        """The last lines of a process's output, joined to one."""
        text = self.log_of(name).read_text(errors="replace").strip()
        return " | ".join(text.splitlines()[-lines:]) or "(no output)"

    def stop(self, process: subprocess.Popen[bytes], grace: float) -> int:
        """SIGTERM, `grace` seconds, SIGKILL to its session; returns the exit code."""
        self._running = [item for item in self._running if item[1] is not process]
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def stop_all(self, grace: float = 15.0) -> None:
        """Stop what still runs, last started first, then whatever else bears the mark."""
        while self._running:
            self.stop(self._running[-1][1], grace)
        self.sweep()
        for directory in self.litter:
            shutil.rmtree(directory, ignore_errors=True)

    def sweep(self, grace: float = 5.0) -> list[int]:
        """End what bears the mark and was not ended by its parent; returns the ids that were
        found."""
        found = marked(self.mark)
        deadline = time.monotonic() + grace
        left = found
        while left:
            last_call = time.monotonic() > deadline
            for pid in left:
                _signal(pid, signal.SIGKILL if last_call else signal.SIGTERM)
            time.sleep(0.2)
            left = marked(self.mark)
            if last_call:
                break
        return found


def marked(mark: str) -> list[int]:
    """The ids of the processes whose environment holds this mark (Linux; elsewhere none are
    found)."""
    needle = f"{MARK}={mark}".encode()
    pids = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = entry.read_bytes()
        except OSError:
            continue  # ended meanwhile, or belongs to somebody else
        if needle in environment.split(b"\0") and int(entry.parent.name) != os.getpid():
            pids.append(int(entry.parent.name))
    return pids


def _signal(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, signum)


def _end_with_parent() -> None:
    """Ask the kernel to end this process when the demo is killed and cannot do it itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
