"""Runs one program as the process group of a job: its directory, its output, its end.

A program gets a directory, a file for its output and no input, and nothing of it passes through a
shell unless it is the user's own script. When it ends, what it has left running in its group is
ended too. Called by the slots of a worker.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OUTPUT_FILE = "output"
NEVER = float("inf")
_LOOK = 0.05
"""Seconds between two looks at what is left of a group that was told to end."""


@dataclass(frozen=True)
class Program:
    """What to start: words, of which the first is the program, where, and with which variables."""

    words: Sequence[str]
    directory: Path
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Finished:
    """How a program ended: its exit code, or minus the signal; `stopped` says why it was ended."""

    exit: int
    begun: float
    seconds: float
    stopped: str = ""


class Watch:
    """What a run is to be told while it lasts. One for each slot; `stop` may be called from any
    thread, at any time."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stopped = ""

    def stop(self, why: str) -> None:
        """End what runs, or what begins next."""
        self.stopped = why
        with suppress(BlockingIOError):
            os.write(self._write, b"x")

    def clear(self) -> None:
        """Forget that it was stopped."""
        self.stopped = ""
        with suppress(BlockingIOError):
            os.read(self._read, 4096)

    @property
    def descriptor(self) -> int:
        """Readable when it is stopped."""
        return self._read


def run_program(
    program: Program,
    watch: Watch,
    limit: float,
    grace: float,
    tick: Callable[[float], float],
) -> Finished:
    """Run a program to its end, or until `watch` is stopped or `limit` seconds are over; then its
    group gets SIGTERM and, `grace` seconds later, SIGKILL.

    `tick` is called with the seconds since the begin, and returns after how many of them it wants
    to be called next. OSError when the program cannot be started.
    """
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    output = os.open(program.directory / OUTPUT_FILE, flags, 0o600)
    try:
        begun, clock = time.time(), time.monotonic()
        process = subprocess.Popen(
            program.words,
            cwd=program.directory,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
    stopped = ""
    try:
        stopped, _ = wait(process.pid, watch, limit, grace, tick)
    finally:
        # its leader is not waited for yet, so the group cannot be somebody else's
        end_group(process.pid, signal.SIGKILL)
        code = process.wait()
    return Finished(code, begun, time.monotonic() - clock, stopped)


def wait(
    pid: int,
    watch: Watch,
    limit: float,
    grace: float,
    tick: Callable[[float], float],
    *also: int,
) -> tuple[str, set[int]]:
    """Return when a process has ended or was told to and its time is over, or when something can be
    read of other descriptors: why it was told, if it was, and which of these they are.
    """
    ended = os.pidfd_open(pid)
    try:
        poller = select.poll()
        for descriptor in (ended, watch.descriptor, *also):
            poller.register(descriptor, select.POLLIN)
        clock, next_tick = time.monotonic(), 0.0
        while not watch.stopped:
            passed = time.monotonic() - clock
            if limit and passed >= limit:
                return _let_end(ended, pid, grace, f"ran longer than {limit:g} s"), set()
            if passed >= next_tick:
                next_tick = tick(passed)
            until = min(next_tick, limit or NEVER) - passed
            said = poller.poll(None if until == NEVER else max(0, until) * 1000 + 1)
            ready = {descriptor for descriptor, _ in said}
            if not ready.isdisjoint((ended, *also)):
                return "", ready.intersection(also)
        return _let_end(ended, pid, grace, watch.stopped), set()
    finally:
        os.close(ended)


def _let_end(ended: int, pid: int, grace: float, why: str) -> str:
    """Tell a process group to end, and return when it has or its time is over: `why`. `ended` is a
    descriptor of its leader."""
    end_group(pid, signal.SIGTERM)
    end_group(pid, signal.SIGCONT)
    poller = select.poll()  # select knows no descriptors above 1023, which many slots need
    poller.register(ended, select.POLLIN)
    until = time.monotonic() + grace
    poller.poll(grace * 1000)
    # a shell ends at once; what it has started may still save its work
    while time.monotonic() < until and _is_anybody_in(pid):
        time.sleep(_LOOK)
    return why


def _is_anybody_in(group: int) -> bool:
    """Whether anything of a process group runs; what has ended and is not waited for does not."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # behind the name of the program, which may have any characters
            state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in b"ZX":
                return True
    return False


def end_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_of(path: Path | str, most: int) -> tuple[int, bytes]:
    """How long a file is, and its last bytes; 0 and nothing for one that cannot be read."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - most))
            return length, file.read(min(most, length))
    except OSError:
        return 0, b""
