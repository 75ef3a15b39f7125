"""Commands of the site, run as lists of words: no shell, a deadline, and what they say as data.

For whoever has to run something that the configuration names. What an exit code means is the
caller's business.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from hpc.autoscale.plaintext import on_one_line

MOST_AT_ONCE = 64
"""How many commands `run_each` runs side by side."""

_LONGEST_TEXT = 300
_READ_AT_MOST = 4096
_KEPT_AT_MOST = 1_000_000
_LOOK_AGAIN = 0.1
_ENDS_WITHIN = 5.0


class Ran(NamedTuple):
    """What came of a command.

    code: its exit code; None when it could not be run, or had not ended in time.
    text: one line, with the end of what it wrote to stderr. It says why the command did not run, or
        that time was up, where that is so.
    """

    code: int | None
    text: str

    @property
    def is_done(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.code == 0

    @property
    def problem(self) -> str:
        """What went wrong, in words."""
        if self.code is None:
            return self.text
        return f"exit code {self.code}" + (f": {self.text}" if self.text else "")


def run(
    command: Sequence[str], timeout: float, environment: Mapping[str, str] | None = None
) -> Ran:
    """Run a command for `timeout` seconds at most; after that it is killed, with all processes of
    its group. `environment` goes over that of this process.

    What it leaves running when it ends by itself goes on, and nobody waits for it.
    """
    with TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ran(None, on_one_line(str(error)))
        try:
            code = _wait(process, timeout, errors)
            if code is None:
                _kill(process)
                said = _end_of(errors)
                return Ran(None, f"timed out after {timeout:g} seconds{said and f': {said}'}")
        except BaseException:
            _kill(process)
            raise
        return Ran(code, _end_of(errors))


def run_each(
    commands: Mapping[str, Sequence[str]],
    timeouts: Mapping[str, float],
    begin_within: float = math.inf,
) -> dict[str, Ran]:
    """Run commands side by side, each for its own seconds at most; what came of each that has begun
    within `begin_within` seconds. The others are not run."""
    if not commands:
        return {}
    until = time.monotonic() + begin_within

    def run_in_time(name: str) -> Ran | None:
        return run(commands[name], timeouts[name]) if time.monotonic() < until else None

    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(commands))) as pool:
        done = zip(commands, pool.map(run_in_time, commands), strict=True)
        return {name: ran for name, ran in done if ran is not None}


def _wait(process: subprocess.Popen[bytes], timeout: float, errors: IO[bytes]) -> int | None:
    """The exit code; None when time is up. Of what it writes meanwhile only the end is kept, so
    that a command that complains for ever does not fill the disk."""
    deadline = time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        try:
            return process.wait(min(left, _LOOK_AGAIN))
        except subprocess.TimeoutExpired:
            if left <= _LOOK_AGAIN:
                return None
        if os.fstat(errors.fileno()).st_size > _KEPT_AT_MOST:
            _keep_the_end(errors.fileno())


def _keep_the_end(file: int) -> None:
    """Throw away all but the end of a file that a process writes at this very moment."""
    end = _last_bytes(file)
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, end)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # one that waits for a file server that is gone does not end before that is back
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_WITHIN)


def _end_of(errors: IO[bytes]) -> str:
    """The end of a file as one line."""
    text = " ".join(_last_bytes(errors.fileno()).decode(errors="replace").split())
    return on_one_line(text[-_LONGEST_TEXT:])


def _last_bytes(file: int) -> bytes:
    """What was written last. A file that was cut meanwhile may end with what was written before;
    then the position tells, which a process has in common with us unless it opened the file anew.
    """
    size, position = os.fstat(file).st_size, os.lseek(file, 0, os.SEEK_CUR)
    end = position if position and size > _KEPT_AT_MOST else size
    return os.pread(file, min(end, _READ_AT_MOST), max(0, end - _READ_AT_MOST))
