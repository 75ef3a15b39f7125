"""Local machines: real processes that stand in for the VMs of nodes.

They run for nodes whose nodearray has a command template. One supervisor thread starts, watches and
ends them and reports to the model; orders come in through `submit`, which never waits. Each machine
is started by a `lifeline` process of its own, so that it ends with the simulator however that ends.
"""

import contextlib
import heapq
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from hpc.autoscale.simulator import lifeline
from hpc.autoscale.simulator.description import MachineTemplate
from hpc.autoscale.simulator.errors import StartError
from hpc.autoscale.simulator.orchestrator import MachineOrder
from hpc.autoscale.simulator.templating import fill

_REAP_SECONDS = 10.0


class Reports(Protocol):
    """The receiver of what becomes of machines. The supervisor's thread calls it."""

    def machine_up(self, node_id: str, pid: int) -> None:
        """A machine was started and is ready."""

    def machine_restarts(self, node_id: str, message: str) -> None:
        """A machine ended by itself and is being started again."""

    def machine_gone(self, node_id: str, message: str) -> None:
        """A machine ended, was reaped, and will not be started again."""


@dataclass(eq=False)
class _LocalMachine:
    """One machine: its template, filled in for its node, and its process while it runs."""

    node_id: str
    template: MachineTemplate
    values: dict[str, object]
    work_dir: Path
    keeper: subprocess.Popen[bytes] | None = None
    status: IO[bytes] | None = None
    pid: int = 0
    ready: bool = False
    ordered_end: bool = False
    unread: bytes = b""
    end: str = ""
    starts: int = 0


class LocalMachines:
    """All local machines of one simulator. `work_dir` holds a directory per node with its
    stdout.log and stderr.log.

    Without one it is a temporary directory that goes with the machines. Nothing runs until `start`;
    `close` ends every machine and waits until all are reaped. Raises StartError when `work_dir`
    cannot be made.
    """

    def __init__(self, work_dir: str | Path | None, reports: Reports) -> None:
        self._work_dir = None if work_dir is None else _made(Path(work_dir))
        self._temporary: Path | None = None
        self._reports = reports
        self._orders: deque[MachineOrder] = deque()
        self._machines: dict[str, _LocalMachine] = {}
        self._restarts: list[tuple[float, int, _LocalMachine]] = []
        self._selector = selectors.DefaultSelector()
        self._wake, self._wakes = os.pipe()
        for end in (self._wake, self._wakes):
            os.set_blocking(end, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closing = self._closed = False
        self._deadline = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._supervise, name="machines", daemon=True)

    def start(self) -> None:
        """Start the supervisor."""
        self._thread.start()

    def submit(self, orders: Sequence[MachineOrder]) -> None:
        """Hand over orders; they are carried out in this order, soon."""
        self._orders.extend(orders)
        self._nudge()

    def report(self) -> list[dict[str, Any]]:
        """The machines: node id, name, pid, whether ready, how often started, and their
        directories.
        """
        with self._lock:
            machines = list(self._machines.values())
        return [
            {
                "node_id": machine.node_id,
                "name": machine.values["name"],
                "pid": machine.pid or None,
                "ready": machine.ready,
                "starts": machine.starts,
                "work_dir": str(machine.work_dir),
            }
            for machine in machines
        ]

    def close(self) -> None:
        """End every machine, each with its grace, and wait until all are gone."""
        self._closing = True
        if self._thread.is_alive():
            self._nudge()
            self._thread.join()
        with self._lock:
            self._closed = True
            self._selector.close()
            os.close(self._wake)
            os.close(self._wakes)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _nudge(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it is awake anyway
            if not self._closed:
                os.write(self._wakes, b".")

    # ---------------------------------------------------------------- the supervisor's thread

    def _supervise(self) -> None:
        while True:
            for key, _ in self._selector.select(self._timeout()):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                else:
                    self._read(key.data)
            self._obey()
            self._restart_due()
            if self._closing:
                self._end_all()
                if not self._machines:
                    return

    def _timeout(self) -> float | None:
        due = [self._restarts[0][0]] if self._restarts else []
        if self._closing and self._deadline:
            due.append(self._deadline)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _obey(self) -> None:
        while self._orders:
            order = self._orders.popleft()
            if order.template is None:
                machine = self._machines.get(order.node_id)
                if machine is not None:
                    self._end(machine, order.hard)
            elif not self._closing:
                self._take_on(order.node_id, order.template, dict(order.values or {}))

    def _take_on(self, node_id: str, template: MachineTemplate, values: dict[str, object]) -> None:
        try:
            if self._work_dir is None:
                self._work_dir = self._temporary = Path(tempfile.mkdtemp(prefix="simulator-"))
        except OSError as error:
            self._reports.machine_gone(node_id, f"The local machine has no directory: {error}")
            return
        folder = f"{values['name']}-{node_id[:8]}"
        work_dir = (self._work_dir / str(values["cluster"]) / folder).absolute()
        values |= {"work_dir": work_dir, "python": sys.executable}
        machine = _LocalMachine(node_id, template, values, work_dir)
        with self._lock:
            self._machines[node_id] = machine
        self._start(machine)

    def _start(self, machine: _LocalMachine) -> None:
        machine.pid, machine.ready, machine.end, machine.unread = 0, False, "", b""
        machine.starts += 1
        try:
            machine.work_dir.mkdir(parents=True, exist_ok=True)
            self._start_keeper(machine)
        except OSError as error:
            machine.end = f"it cannot be started: {error}"
            self._gone(machine)

    def _start_keeper(self, machine: _LocalMachine) -> None:
        template, values = machine.template, machine.values
        spec = {
            "command": [fill(word, values) for word in template.command],
            "env": {
                **os.environ,
                **{name: fill(text, values) for name, text in template.env.items()},
            },
            "work_dir": str(machine.work_dir),
            "ready_file": fill(template.ready_file or "", values),
            "ready_command": [fill(word, values) for word in template.ready_command],
            "grace": template.grace,
        }
        status, reports = os.pipe()
        try:
            machine.keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", lifeline.__file__, str(reports)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[reports],
                start_new_session=True,
            )
        except OSError:
            os.close(status)
            raise
        finally:
            os.close(reports)
        machine.status = open(status, "rb", buffering=0)  # noqa: SIM115  closed when it ends
        self._selector.register(machine.status, selectors.EVENT_READ, machine)
        self._write(machine, json.dumps(spec).encode() + b"\n")

    def _write(self, machine: _LocalMachine, data: bytes) -> None:
        if machine.keeper is not None and machine.keeper.stdin is not None:
            with contextlib.suppress(OSError):  # the keeper is dead, which its status pipe tells
                machine.keeper.stdin.write(data)
                machine.keeper.stdin.flush()

    def _read(self, machine: _LocalMachine) -> None:
        if machine.status is None:
            return
        data = machine.status.read(65536)
        if not data:
            self._keeper_ended(machine)
            return
        *lines, machine.unread = (machine.unread + data).split(b"\n")
        for line in lines:
            self._learn(machine, json.loads(line))

    def _learn(self, machine: _LocalMachine, facts: dict[str, Any]) -> None:
        if "started" in facts:
            machine.pid = facts["started"]
        elif "ready" in facts:
            machine.ready = True
            self._reports.machine_up(machine.node_id, machine.pid)
        elif "failed" in facts:
            machine.end = f"it cannot be started: {facts['failed']}"
        else:
            machine.end = _ending(facts["exited"])

    def _keeper_ended(self, machine: _LocalMachine) -> None:
        self._selector.unregister(machine.status)  # type: ignore[arg-type]
        machine.status.close()  # type: ignore[union-attr]
        machine.status = None
        self._reap(machine)
        if machine.pid and not machine.end:
            # the keeper was killed: the machine's own process went with it, its children may have
            # stayed
            machine.end = "its keeper was killed"
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(machine.pid, signal.SIGKILL)
        self._gone(machine)

    def _reap(self, machine: _LocalMachine) -> None:
        keeper = machine.keeper
        if keeper is None:
            return
        machine.keeper = None
        try:
            keeper.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        if keeper.stdin is not None:
            with contextlib.suppress(OSError):
                keeper.stdin.close()

    def _gone(self, machine: _LocalMachine) -> None:
        machine.ready = False
        machine.pid = 0
        if machine.ordered_end:
            self._forget(machine, "ended as ordered")
            return
        message = (
            f"The local machine ended by itself: {machine.end or 'unknown'}{_last_words(machine)}"
        )
        if machine.template.on_exit == "restart" and not self._closing:
            due = time.monotonic() + machine.template.restart_delay
            heapq.heappush(self._restarts, (due, id(machine), machine))
            self._reports.machine_restarts(machine.node_id, message)
        else:
            self._forget(machine, message)

    def _forget(self, machine: _LocalMachine, message: str) -> None:
        with self._lock:
            del self._machines[machine.node_id]
        self._reports.machine_gone(machine.node_id, message)

    def _restart_due(self) -> None:
        while self._restarts and self._restarts[0][0] <= time.monotonic():
            machine = heapq.heappop(self._restarts)[2]
            if self._machines.get(machine.node_id) is machine and not machine.ordered_end:
                self._start(machine)

    def _end(self, machine: _LocalMachine, hard: bool) -> None:
        if machine.ordered_end:
            return
        machine.ordered_end = True
        if machine.keeper is None:  # it waits to be started again
            self._forget(machine, "ended as ordered")
            return
        if hard:
            self._write(machine, b"k")
        if machine.keeper.stdin is not None:
            with contextlib.suppress(OSError):
                machine.keeper.stdin.close()

    def _end_all(self) -> None:
        """End all machines that run, as part of closing; kill those that are there long after their
        grace.
        """
        if not self._deadline:
            grace = max((m.template.grace for m in self._machines.values()), default=0.0)
            self._deadline = time.monotonic() + grace + _REAP_SECONDS
        for machine in list(self._machines.values()):
            self._end(machine, hard=False)
        if time.monotonic() >= self._deadline:
            for machine in list(self._machines.values()):
                if machine.keeper is not None:
                    machine.keeper.kill()
            self._deadline += _REAP_SECONDS


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"work directory {path}: {error.strerror}") from None
    return path


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _last_words(machine: _LocalMachine) -> str:
    """The last line that the machine wrote to its standard error, which usually says why it
    ended."""
    try:
        with open(machine.work_dir / "stderr.log", "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 2000))
            lines = log.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" ({re.sub(r'[^ -~]', '?', words)[:200]})" if words else ""
