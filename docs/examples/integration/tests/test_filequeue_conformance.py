"""FileQueueDriver against the promises of a driver."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filequeue.driver import FileQueueDriver
from filequeue.scheduler import FileQueue
from hpc.autoscale.testing import Host, SchedulerWorld
from hpc.autoscale.testing.conformance import DriverConformance


class FileQueueWorld(SchedulerWorld):
    """A queue in a directory of its own, and what users and machines do to it."""

    tasks_per_node = 4

    def __init__(self, directory: Path) -> None:
        self._path = directory / "queue.json"
        self._hidden = directory / "queue.hidden"
        self._queue = FileQueue(self._path)
        self._queue.create()
        self._submitted = 0
        self.config = {"filequeue": {"path": str(self._path)}}

    def new_driver(self) -> FileQueueDriver:
        return FileQueueDriver(self.config)

    def submit(self, tasks: int) -> None:
        for _ in range(tasks):
            self._submitted += 1
            self._queue.submit(f"task-{self._submitted}")

    def start(self, hostname: str) -> bool:
        return self._queue.start(hostname)

    def finish(self, hostname: str) -> None:
        self._queue.finish(hostname)

    def hosts(self) -> dict[str, Host]:
        seen = self._queue if self._path.exists() else FileQueue(self._hidden)
        return {name: Host(host.open, len(host.running)) for name, host in seen.hosts().items()}

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        self._path.rename(self._hidden)
        yield
        self._hidden.rename(self._path)

    def add_own_host(self, hostname: str) -> None:
        self._queue.add_host(hostname, slots=4)

    def submit_nonsense(self) -> None:
        queue = json.loads(self._path.read_text())
        queue["waiting"].append({"name": ["no", "text"]})
        self._path.write_text(json.dumps(queue))


class TestFileQueueDriver(DriverConformance):
    """Every check of the class runs here."""

    def new_world(self) -> FileQueueWorld:
        return FileQueueWorld(self.directory)
