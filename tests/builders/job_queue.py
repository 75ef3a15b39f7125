"""A queue on an embedded Redis of its own, and workers that are played, for tests of hpcq."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hpc_queue import cli, embedded, tickets
from hpc_queue.model import JobSpec, Range, State
from hpc_queue.queue import Queue
from hpc_queue.settings import Settings
from hpc_queue.slots import Worker
from hpc_queue.store import Store
from hpc_queue.stored import Job


@contextmanager
def a_redis() -> Iterator[Path]:
    """The home of an embedded Redis that runs while this lasts."""
    home = Path(tempfile.mkdtemp(prefix="hpcq-"))
    try:
        embedded.ensure_started(home)
        yield home
    finally:
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def settings_at(home: Path, definition: dict[str, Any] | None = None, **keys: Any) -> Settings:
    """Settings with the one definition `default`."""
    section = {"home": str(home), "definitions": {"default": definition or {}}, **keys}
    return Settings.read({"hpcq": section})


@contextmanager
def an_empty_queue(settings: Settings) -> Iterator[Queue]:
    """A queue with nothing in it."""
    queue = Queue.open(settings)
    queue.store.client.flushall()
    try:
        yield queue
    finally:
        queue.close()


@contextmanager
def a_configured_queue(
    home: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Queue]:
    """The queue that the command line finds, with nothing in it."""
    section = {"home": str(home), "definitions": {"default": {}, "short": {}}}
    config = directory / "autoscale.json"
    config.write_text(json.dumps({"hpcq": section}))
    monkeypatch.setenv("HPCQ_CONFIG", str(config))
    with an_empty_queue(Settings.load()) as queue:
        yield queue


def typist(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command; its output. A command that fails has its code and what it complained."""

    def type_in(*words: str, code: int = 0) -> str:
        assert cli.main(words) == code
        said = capsys.readouterr()
        return said.out if code in (0, 1) else said.err

    return type_in


def a_spec(*words: str, name: str = "job", **fields: Any) -> JobSpec:
    """A job that runs these words, `true` unless given."""
    return JobSpec(name, {"argv": list(words or ("true",))}, **fields)


def an_array(count: int, *words: str, **fields: Any) -> JobSpec:
    """An array with the indices 1 to `count`."""
    return a_spec(*words, count=count, is_array=True, **fields)


def join(store: Store, name: str, slots: int = 1, host: str = "", **said: str | int) -> None:
    """A worker joins, of whom nothing more is heard."""
    known: dict[str, str | int] = {"host": host or name, "node_id": "", "definition": "default"}
    store.join(name, {**known, "slots": slots, "region": "", **said})


def begin(store: Store, worker: str, chunk: Range, slot: int = 0, token: str = "t") -> int:
    """Claim the first waiting element of a chunk; its position, -1 for none."""
    return store.step(worker, slot, None, (chunk, token)).position


def taken(queue: Queue, definition: str = "default") -> list[list[Range]]:
    """Take all tickets off a Celery queue, as somebody that acknowledges each; in their order."""
    found = []
    with tickets.new_app(queue._broker, [definition]).connection_for_read() as connection:
        channel = connection.default_channel
        while (
            message := channel.basic_get(tickets.queue_name(definition), no_ack=True)
        ) is not None:
            body = message.decode()
            found.append([(job, low, high) for job, low, high in body[0][0]])
    return found


class PlayedWorker:
    """A worker whose slots are this thread: it takes what tickets there are until none is left."""

    def __init__(self, queue: Queue, name: str = "played") -> None:
        self.queue = queue
        definition = queue.settings.definition("default")
        self.worker = Worker(
            name, definition, queue.settings, 1, lambda: Queue.open(queue.settings)
        )
        join(queue.store, name)

    def run_all(self) -> None:
        """Work off tickets for as long as there are any."""
        while found := taken(self.queue):
            for ranges in found:
                self.worker.take(ranges)

    def close(self) -> None:
        self.worker.close()


def states(job: Job) -> dict[str, int]:
    """How many elements are in which state, without zeros."""
    return {state.name: job.counts[state] for state in State if job.counts[state]}


def work(queue: Queue) -> None:
    """All that waits runs."""
    worker = PlayedWorker(queue)
    worker.run_all()
    worker.close()
