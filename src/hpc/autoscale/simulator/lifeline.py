"""The process between the simulator and one local machine: it ends the machine when told to, or
when nobody is left.

A program of its own, run by path with nothing but the standard library. Its standard input is the
lifeline: first one line of JSON that says what to run, then nothing; the end of the input, for
which the death of the simulator is enough, means to end the machine with SIGTERM, a time of grace
and SIGKILL, and a byte means SIGKILL at once. What becomes of the machine is told as JSON lines on
the file descriptor given as the argument.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICK = 0.05
_PROBE_SECONDS = 30.0
_LAST_RITES = 5.0


def _prctl(option: int, value: int) -> None:
    """Linux's process controls; on other systems the process group alone has to do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class Lifeline:
    """Starts one machine, watches it, and ends it together with everything that it started."""

    def __init__(self, spec: dict[str, Any], report_to: int, wake: int) -> None:
        self._spec = spec
        self._report_to = report_to
        self._wake = wake
        self._ready = not (spec["ready_file"] or spec["ready_command"])
        self._probe: subprocess.Popen[bytes] | None = None
        self._probe_since = 0.0

    def run(self) -> None:
        """Run the machine from its start to its end."""
        try:
            machine = self._start()
        except (OSError, ValueError) as error:
            self._tell(failed=f"{self._spec['command'][0]}: {getattr(error, 'strerror', error)}")
            return
        self._tell(started=machine.pid)
        if self._ready:
            self._tell(ready=True)
        order = self._watch(machine)
        self._drop_probe()
        if order == "end":
            self._end(machine)
        _kill_group(machine.pid, signal.SIGKILL)
        code = machine.wait()
        _end_orphans()
        self._tell(exited=code, ordered=order is not None)

    def _start(self) -> subprocess.Popen[bytes]:
        spec = self._spec
        if spec["ready_file"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(spec["work_dir"], spec["ready_file"]))
        own_pid = os.getpid()

        def die_with_parent() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != own_pid:
                os._exit(1)

        log = [os.path.join(spec["work_dir"], name) for name in ("stdout.log", "stderr.log")]
        with open(log[0], "ab") as out, open(log[1], "ab") as err:
            return subprocess.Popen(
                spec["command"],
                env=spec["env"],
                cwd=spec["work_dir"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _watch(self, machine: subprocess.Popen[bytes]) -> str | None:
        """Wait until the machine ends by itself (None) or is to be ended ("end" or "kill")."""
        while True:
            timeout = None if self._ready else _TICK
            readable, _, _ = select.select([0, self._wake], [], [], timeout)
            if self._wake in readable:
                signals = os.read(self._wake, 4096)
                if signal.SIGTERM in signals:
                    return "end"
            if 0 in readable:
                return "kill" if os.read(0, 1) else "end"
            if machine.poll() is not None:
                return None
            if not self._ready and self._is_ready():
                self._ready = True
                self._tell(ready=True)

    def _is_ready(self) -> bool:
        spec = self._spec
        if spec["ready_file"] and not os.path.exists(
            os.path.join(spec["work_dir"], spec["ready_file"])
        ):
            return False
        if not spec["ready_command"]:
            return True
        if self._probe is None:
            self._start_probe()
            return False
        code = self._probe.poll()
        if code is not None or time.monotonic() - self._probe_since > _PROBE_SECONDS:
            self._drop_probe()
        return code == 0

    def _start_probe(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._probe = subprocess.Popen(
                self._spec["ready_command"],
                env=self._spec["env"],
                cwd=self._spec["work_dir"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._probe_since = time.monotonic()

    def _drop_probe(self) -> None:
        if self._probe is not None:
            _kill_group(self._probe.pid, signal.SIGKILL)
            self._probe.wait()
            self._probe = None

    def _end(self, machine: subprocess.Popen[bytes]) -> None:
        """Ask the machine to end and give it time."""
        _kill_group(machine.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._spec["grace"]
        while machine.poll() is None and (left := deadline - time.monotonic()) > 0:
            if select.select([self._wake], [], [], left)[0]:
                os.read(self._wake, 4096)

    def _tell(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            os.write(self._report_to, json.dumps(facts).encode() + b"\n")


def _end_orphans() -> None:
    """Kill and reap what the machine started and left; as a subreaper, this process inherits all of
    it."""
    deadline = time.monotonic() + _LAST_RITES
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
                pids = [int(word) for word in children.read().split()]
        except (OSError, ValueError):
            return
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pids[0], 0)


def main() -> None:
    """Run one machine as standard input and the first argument say."""
    wake, wakes = os.pipe()
    for end in (wake, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    # handlers, not SIG_IGN, which the machine would inherit
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    Lifeline(json.loads(line), int(sys.argv[1]), wake).run()


if __name__ == "__main__":
    main()
