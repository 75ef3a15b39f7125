"""A worker: Celery's own, whose task is to work off tickets.

SIGTERM lets it take nothing more and end when what runs has ended; a second one ends it at once,
and what runs is run elsewhere. SIGINT and SIGQUIT are the same, and so is the first SIGHUP of a
terminal that goes, which sends several; under nohup it stays ignored. Called by `hpcq worker`.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from celery import Celery, signals

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autostop.callback import Metadata
from hpc_queue import guardian, tickets
from hpc_queue.attendant import Attendant, give_up
from hpc_queue.errors import BrokerUnreachable
from hpc_queue.model import Range
from hpc_queue.queue import Queue, addresses
from hpc_queue.settings import Settings
from hpc_queue.slots import LEAVES, WORKER_VARIABLE, Worker
from hpc_queue.store import Store, connect

_PATIENT = 3600.0
"""Seconds for which a worker tries to reach a broker that was restarted."""


def open_patiently(settings: Settings, broker: str, store: str) -> Queue:
    """A queue whose store is waited for, as long as a broker may take to come back."""
    client = connect(store, _PATIENT, is_worker=True)
    return Queue(settings, Store(client), broker, is_worker=True)


def node_id() -> str:
    """The NodeId of the node that this runs on; empty outside a CycleCloud cluster."""
    return os.environ.get("CYCLECLOUD_NODE_ID", "")


def run_worker(
    settings: Settings,
    definition: str,
    slots: int,
    hostname: str | None = None,
    ready_file: str | None = None,
) -> int:
    """Run a worker until it leaves; its exit code. `ready_file` is made when it is up."""
    host = hostname or socket.gethostname()
    name = f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
    broker, store = addresses(settings)

    def open_queue() -> Queue:
        return open_patiently(settings, broker, store)

    queue = open_queue()
    worker = Worker(name, settings.definition(definition), settings, slots, open_queue)
    app = tickets.new_app(broker, [definition], is_worker=True)
    celery = _celery_worker(app, worker, host, slots, definition)
    ending = _Ending()
    attendant = Attendant(
        worker,
        queue,
        leave=ending.leave,
        consume=lambda wanted: _consume(celery, tickets.queue_name(definition), wanted),
        metadata=Metadata(settings.events) if settings.events else None,
    )

    on_hangup = signal.getsignal(signal.SIGHUP)

    def begin(**_: Any) -> None:
        # Celery's own handlers would give up its threads, which cannot be given up, or begin anew
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.getsignal(signal.SIGTERM))
        signal.signal(signal.SIGHUP, on_hangup if on_hangup is signal.SIG_IGN else _end_once)
        attendant.start()
        if ready_file:
            Path(ready_file).touch()

    def stop(**_: Any) -> None:
        worker.stopping.set()
        if ending.is_urgent():
            attendant.end_by(0)
        elif settings.drain_time:
            attendant.end_by(settings.drain_time)

    signals.worker_ready.connect(begin, weak=False)
    signals.worker_shutting_down.connect(stop, weak=False)
    said: dict[str, str | int] = {"host": host, "node_id": node_id(), "slots": slots}
    said |= {"pid": os.getpid(), "definition": definition, "region": _region()}
    queue.store.join(name, said)
    with _guarded(name):
        try:
            celery.start()
        finally:
            worker.stop_all(LEAVES)
            attendant.close()
            worker.close()
            _say_good_bye(queue, name)
    return int(celery.exitcode or 0)


def _end_once(number: int, frame: FrameType | None) -> None:
    """What SIGTERM does, and nothing at further signals of this number."""
    signal.signal(number, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGTERM)


class _Ending:
    """Tells the second signal that somebody sends to a worker from the first, and from one by which
    it leaves by itself."""

    def __init__(self) -> None:
        self._is_own = threading.Event()
        self._asked = 0

    def leave(self) -> None:
        """Send the signal after which nothing more is taken."""
        self._is_own.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def is_urgent(self) -> bool:
        """Whether the signal that has come is a second one. To be asked once for each."""
        if self._is_own.is_set():
            self._is_own.clear()
            return False
        self._asked += 1
        return self._asked > 1


def _region() -> str:
    """The region of the node, where somebody says it."""
    return os.environ.get("HPCQ_REGION", "")


def _say_good_bye(queue: Queue, name: str) -> None:
    try:
        give_up(queue, name, f"worker {name} left")
    except BrokerUnreachable as error:
        logging.warning("the broker is not told that this worker leaves: %s", error)
    queue.close()


def _celery_worker(app: Celery, worker: Worker, host: str, slots: int, definition: str) -> Any:
    @app.task(name=tickets.TASK)  # type: ignore[untyped-decorator]
    def run(ranges: list[Range]) -> None:
        worker.take(ranges)

    return app.Worker(
        hostname=f"{worker.name}@{host}",
        pool="threads",
        concurrency=slots,
        queues=[tickets.queue_name(definition)],
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )


def _consume(celery: Any, queue: str, wanted: bool) -> None:
    """Let Celery take tickets, or take no more; done by its own thread."""
    consumer = celery.consumer
    if consumer is not None:
        consumer.call_soon(consumer.add_task_queue if wanted else consumer.cancel_task_queue, queue)


class _guarded:
    """For the time of a `with` block a process watches over this one, and ends its jobs with it."""

    def __init__(self, name: str) -> None:
        self._variable = f"{WORKER_VARIABLE}={name}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, self._variable],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()
