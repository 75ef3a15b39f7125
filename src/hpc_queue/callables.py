"""Runs Python callables one after another, without a new process for each: run as a process beside
a slot of a worker.

What a callable prints, or leaves broken, stays in this process; it is ended when a callable is to
be, and another one is started. Commands and answers are lines of JSON on descriptors of their
own. `Runner` is the worker's side.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from hpc_queue.processes import Finished, Watch, end_group, wait

_FAILED = 1
_UNKNOWN = 127
_READY = b"+"


class Runner:
    """One such process, started when it is needed first, and again after it was lost."""

    def __init__(self, output: Path, environment: Mapping[str, str]) -> None:
        self._output = output
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1

    @property
    def output(self) -> Path:
        """The file that has what the last callable printed."""
        return self._output

    def run(
        self,
        command: Mapping[str, Any],
        environment: Mapping[str, str],
        watch: Watch,
        limit: float,
        grace: float,
        tick: Callable[[float], float],
    ) -> Finished:
        """Call a callable and wait for it, or end its process when `watch` is stopped or `limit`
        seconds are over, as `processes.run_program` does. OSError when it cannot be started."""
        process = self._started()
        if self._output.stat().st_size:
            os.truncate(self._output, 0)
        begun, clock, stopped = time.time(), time.monotonic(), ""
        line = json.dumps([command, dict(environment)]).encode() + b"\n"
        try:
            if process.stdin is not None:
                process.stdin.write(line)
                process.stdin.flush()
            stopped, ready = wait(process.pid, watch, limit, grace, tick, self._answers)
            # where it has ended without one, what it has started may still have this pipe
            answer = os.read(self._answers, 16) if ready else b""
        except BrokenPipeError:
            answer = b""
        code = int(answer) if answer else self._lost()
        return Finished(code, begun, time.monotonic() - clock, stopped)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._lost()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                self._lost()
            self._answers, write = os.pipe()
            try:
                with open(self._output, "ab") as output:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "hpc_queue.callables", str(write)],
                        stdin=subprocess.PIPE,
                        stdout=output,
                        stderr=output,
                        pass_fds=[write],
                        env=dict(self._environment),
                        start_new_session=True,
                    )
            finally:
                os.close(write)
            # its time to start is not that of the first callable
            if os.read(self._answers, 1) != _READY:
                raise OSError(f"the process for callables did not start: code {self._lost()}")
        return self._process

    def _lost(self) -> int:
        """Kill what is left of the process; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return _FAILED
        end_group(process.pid, signal.SIGKILL)
        code = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        os.close(self._answers)
        return code or _FAILED


def call(command: Mapping[str, Any]) -> int:
    """Call what a command names, as `module:function` with `args` and `kwargs`; the exit code that
    it counts for."""
    module, _, name = str(command["call"]).partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError) as error:
        print(f"expected a callable, found none: {error}", file=sys.stderr)
        return _UNKNOWN
    try:
        function(*command.get("args", ()), **command.get("kwargs", {}))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - whatever a user's function raises is its failure
        traceback.print_exc()
        return _FAILED
    return 0


def serve(commands: Iterable[str | bytes], answers: int) -> None:
    """Call what comes until that ends."""
    os.write(answers, _READY)
    before: set[str] = set()
    for line in commands:
        command, environment = json.loads(line)
        for name in before.difference(environment):
            os.environ.pop(name, None)
        os.environ.update(environment)
        before = set(environment)
        code = call(command)
        sys.stdout.flush()
        sys.stderr.flush()
        # as the exit code of a process: what is longer would be read as the next answer, too
        os.write(answers, str(code & 0xFF).encode())


def _taken_from(descriptor: int) -> IO[bytes]:
    """What can be read there; whoever reads there from now on finds nothing."""
    stream = os.fdopen(os.dup(descriptor), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return stream


if __name__ == "__main__":
    # callables have no input, and what they start has neither commands nor answers
    os.set_inheritable(int(sys.argv[1]), False)
    serve(_taken_from(0), int(sys.argv[1]))
