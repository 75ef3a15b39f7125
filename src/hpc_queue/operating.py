"""The commands of `hpcq` for whoever keeps the queue running: the broker, workers, and what stops
everything.

Each is a function that is given the options, as those for users in `cli`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hpc.autoscale.cli.argparser import number_type
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.tables import print_rows
from hpc_queue import embedded, views
from hpc_queue.errors import QueueError
from hpc_queue.model import State
from hpc_queue.queue import Queue
from hpc_queue.settings import CONFIG_VARIABLE, EMBEDDED, HOME_VARIABLE, Settings

Options = argparse.Namespace
_MOST_SLOTS = 10_000
_ALIASES = ("qsub", "qstat", "qdel", "qlog")
_MARK = "# written by hpcq install-aliases"
seconds_type = number_type("seconds, from 0 to 1e9", lambda seconds: 0 <= seconds <= 1e9)


def open_queue(options: Options) -> Queue:
    """The queue of the configuration that the options name."""
    return Queue.open(Settings.load(options.config))


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add these commands with their options; `add` makes the parser of one."""
    one = add("worker", worker, "run a worker, until it leaves")
    one.add_argument("-d", "--definition", default="default")
    one.add_argument("-s", "--slots", type=int, default=os.cpu_count() or 1)
    one.add_argument("--hostname", help="by which the autoscaler knows this machine")
    one.add_argument("--ready-file", help="made when the worker is up")
    one = add("drain", drain, "let workers take nothing more and leave")
    one.add_argument("host", nargs="?", help="those of a host; of all hosts without")
    one.add_argument(
        "--within", type=seconds_type, help="seconds, after which jobs run again elsewhere"
    )
    one = add("init", init, "start the embedded broker, and say where the queue is")
    one.add_argument("--stop", action="store_true", help="end the embedded broker")
    one = add("top", top, "watch the queue")
    one.add_argument("--interval", type=seconds_type, default=2.0)
    one.add_argument("--once", action="store_true")
    add("metrics", metrics, "print the queue for Prometheus")
    one = add("panic", panic, "stop everything: nothing begins, all is cancelled, workers leave")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one.add_argument("--resume", action="store_true", help="let jobs begin again")
    one = add("install-aliases", install_aliases, "write qsub, qstat, qdel and qlog of Cyclone")
    one.add_argument("directory")


def worker(options: Options) -> int:
    """Run a worker until it leaves."""
    from hpc_queue.worker import run_worker  # it brings Celery

    if not 1 <= options.slots <= _MOST_SLOTS:
        raise QueueError(f"--slots: expected 1 to {_MOST_SLOTS}, found {options.slots}")
    if options.hostname is not None and options.hostname.split() != [options.hostname]:
        # the name of the worker begins with it, and is a word of what the store keeps
        raise QueueError(f"--hostname: expected one word, found {options.hostname!r}")
    settings = Settings.load(options.config)
    if path := options.config or os.environ.get(CONFIG_VARIABLE):
        # jobs have other directories, and what they submit is for this queue
        os.environ[CONFIG_VARIABLE] = os.path.abspath(path)
    if HOME_VARIABLE in os.environ:
        os.environ[HOME_VARIABLE] = settings.home
    return run_worker(
        settings, options.definition, options.slots, options.hostname, options.ready_file
    )


def drain(options: Options) -> int:
    """Let workers leave."""
    queue = open_queue(options)
    found = [
        each
        for each in queue.store.workers()
        if options.host is None or each.said.get("host", "").lower() == options.host.lower()
    ]
    for each in found:
        queue.store.drain(each.name)
        queue.store.tell(each.name, f"leave {1e9 if options.within is None else options.within}")
        print(each.name)
    if options.host and not found:
        raise QueueError(f"expected a host that workers run on, found {options.host!r}")
    return 0


def init(options: Options) -> int:
    """Start the embedded broker, or say where the queue is."""
    settings = Settings.load(options.config)
    if options.stop:
        if settings.broker != EMBEDDED:
            raise QueueError("only the embedded broker can be ended here")
        print("stopped" if embedded.stop(settings.home) else "it does not run")
        return 0
    queue = Queue.open(settings)
    queue.store.counts()
    where = embedded.url_of(settings.home) if settings.broker == EMBEDDED else "as configured"
    broker = re.sub("//.*@", "//…@", settings.broker)  # without its password
    print(f"broker: {broker} ({where})")
    print(f"home: {settings.home}")
    print(f"definitions: {', '.join(settings.definitions)}")
    return 0


def top(options: Options) -> int:
    """Watch the queue, until it is interrupted."""
    queue = open_queue(options)
    before: tuple[float, int] | None = None
    while True:
        now, begun = time.monotonic(), sum(queue.store.begun().values())
        rate = (begun - before[1]) / (now - before[0]) if before and now > before[0] else 0.0
        before = now, begun
        if not options.once and sys.stdout.isatty():
            print("\x1b[H\x1b[2J", end="")
        _print_top(queue, rate)
        if options.once:
            return 0
        time.sleep(max(0.2, options.interval))


def _print_top(queue: Queue, rate: float) -> None:
    halted = "  HALTED: nothing begins" if queue.store.is_halted() else ""
    print(f"{rate:.1f} runs a second{halted}")
    names = ["Held", *(state.name for state in State)]
    counts = views.by_definition(queue.store.counts())
    rows = [[name, *(each.get(n, 0) for n in names)] for name, each in counts.items()]
    print_rows(["definition", *names], rows, width=table_width())
    for kind, reason in sorted(queue.store.reasons().items()):
        print(on_one_line(f"{kind.partition('|')[0]}: {reason}"))
    print()
    columns = ("worker", "host", "definition", "slots", "busy", "done", "draining")
    lines = [
        [w.name, w.said.get("host"), w.said.get("definition"), w.slots, w.busy, w.done, w.draining]
        for w in queue.store.workers()
    ]
    print_rows(columns, lines, width=table_width())


def metrics(options: Options) -> int:
    """Print the queue for Prometheus."""
    print(views.metrics(open_queue(options).store), end="")
    return 0


def panic(options: Options) -> int:
    """Stop everything, or let jobs begin again."""
    queue = open_queue(options)
    store = queue.store
    if options.resume:
        store.halt(False)
        written = sum(queue.write_tickets(job) for job in store.job_ids(only_open=True))
        print(f"jobs begin again; {written} tickets written")
        return 0
    if not options.yes:
        print("This cancels all jobs and ends all workers. Type yes: ", end="", flush=True)
        if sys.stdin.readline().strip() != "yes":
            print("nothing was done")
            return 1
    store.halt(True)  # before anything else, so that nothing begins meanwhile
    waited = run = 0
    for job in store.job_ids(only_open=True):
        one = queue.cancel(job, "cancelled: panic")
        waited, run = waited + one[0], run + one[1]
    workers = store.workers()
    for each in workers:
        store.drain(each.name)
        store.tell(each.name, f"leave {queue.settings.grace}")
    print(f"nothing begins; {waited} cancelled, {run} running ended, {len(workers)} workers leave")
    return 0


def install_aliases(options: Options) -> int:
    """Write the commands of Cyclone as scripts into a directory."""
    try:
        _write_aliases(Path(options.directory), options.config)
    except OSError as error:
        raise QueueError(f"{options.directory}: cannot be written: {error}") from error
    return 0


def _write_aliases(target: Path, config: str | None) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in _ALIASES:
        path = target / name
        if path.exists() and _MARK not in path.read_text("utf-8", "replace"):
            raise QueueError(f"{path}: expected nothing there, found a command that is not ours")
    python = shlex.quote(sys.executable)
    setting = f"{CONFIG_VARIABLE}={shlex.quote(os.path.abspath(config))} " if config else ""
    for name in _ALIASES:
        path = target / name
        call = f'{setting}exec {python} -m hpc_queue.console {name} "$@"'
        path.write_text(f"#!/bin/sh\n{_MARK}\n{call}\n")
        path.chmod(0o755)
        print(path)
