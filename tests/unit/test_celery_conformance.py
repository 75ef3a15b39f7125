"""The Celery example's driver against the promises of a driver: a broker in memory, and workers
that are played."""

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from hpc.autoscale.testing import Host, SchedulerWorld, SelfStartingWorld
from hpc.autoscale.testing.conformance import DriverConformance

EXAMPLE = Path(__file__).resolve().parents[2] / "example-celery"
sys.path.insert(0, str(EXAMPLE))

pytest.importorskip("celery")

import messages  # noqa: E402
import tasks  # noqa: E402
from driver import CeleryDriver  # noqa: E402
from workers import Worker, WorkerRegistry  # noqa: E402

QUEUE = "default"
ODD = "odd"  # the broker may say nonsense of it
SLOTS = 4


def a_worker(hostname, node_id):
    """A worker that has just started."""
    return Worker(
        hostname, (f"celery@{hostname}",), node_id, SLOTS, frozenset(), (QUEUE,), (QUEUE,)
    )


class CeleryWorld(SchedulerWorld):
    """One queue of a broker in memory. A worker starts with its machine; what it would answer is in
    `workers`."""

    tasks_per_node = SLOTS
    config = {
        "celery": {
            "queues": {queue: {"node.nodearray": "htc"} for queue in (QUEUE, ODD)},
            "worker_timeout": 3600,
        }
    }

    def __init__(self):
        self.workers = {}
        self.silent = set()
        self._nonsense = ExitStack()
        self.app = type(tasks.app)("conformance")
        self.app.config_from_object("celeryconfig")
        self.app.conf.broker_url = "memory://"
        self._purge()

    def _purge(self):
        with self.app.connection_for_write() as connection:
            connection.default_channel.queue_declare(QUEUE)
            connection.default_channel.queue_purge(QUEUE)

    def new_driver(self):
        return CeleryDriver(self.app)

    def submit(self, tasks):
        for _ in range(tasks):
            self.app.send_task("tasks.count_primes", (10,), queue=QUEUE)

    def submit_nonsense(self):
        known = messages._depth
        self._nonsense.enter_context(
            patch.object(
                messages, "_depth", lambda c, queue: -4 if queue == ODD else known(c, queue)
            )
        )

    def start(self, hostname):
        worker = self.workers.get(hostname)
        if not worker or worker.draining or len(worker.held) >= worker.slots:
            return False
        with self.app.connection_for_read() as connection:
            message = connection.default_channel.basic_get(QUEUE, no_ack=True)
        if message is None:
            return False
        self.workers[hostname] = replace(worker, held=worker.held | {message.headers["id"]})
        return True

    def finish(self, hostname):
        worker = self.workers[hostname]
        self.workers[hostname] = replace(worker, held=frozenset(sorted(worker.held)[1:]))

    def hosts(self):
        """Celery knows nobody but the workers that there are."""
        return {
            name: Host(not worker.draining, len(worker.held))
            for name, worker in self.workers.items()
        }

    @contextmanager
    def unreachable(self):
        error = messages.BrokerError("broker memory://: connection refused")
        with patch.object(messages, "connected", side_effect=error):
            yield

    def machine_up(self, machine):
        self.workers[machine.hostname] = a_worker(machine.hostname, machine.node_id)

    def machine_down(self, hostname):
        self.workers.pop(hostname, None)

    @contextmanager
    def silence(self, hostname):
        self.silent.add(hostname)
        yield
        self.silent.remove(hostname)

    def add_own_host(self, hostname):
        self.workers[hostname] = a_worker(hostname, "")

    def close(self):
        self._nonsense.close()
        self._purge()
        self.app.close()

    # -- what workers do with what they are told

    def ask(self, registry, connection, workers):
        """The answers of all workers, or of these."""
        asked = self.workers if workers is None else {worker.hostname for worker in workers}
        return {
            name: worker
            for name, worker in self.workers.items()
            if name in asked and name not in self.silent and registry._is_wanted(worker)
        }

    def tell(self, registry, connection, command, queue, workers):
        """Workers leave the queue, or come back to it."""
        for name in {worker.hostname for worker in workers} & set(self.workers):
            queues = (QUEUE,) if command == "add_consumer" else ()
            self.workers[name] = replace(self.workers[name], queues=queues)


class SelfStartingCeleryWorld(CeleryWorld, SelfStartingWorld):
    """As Celery is: every worker fetches what it has room for, as soon as it can."""

    def settle(self):
        for hostname in list(self.workers):
            while super().start(hostname):
                pass

    def start(self, hostname):
        raise AssertionError("workers start their tasks by themselves")


class TestCeleryDriver(DriverConformance):
    """Every check, none of them skipped."""

    world_class = CeleryWorld

    @pytest.fixture
    def world(self, monkeypatch):
        """The world, in which workers are asked and told without a broker."""
        world = self.world_class()
        monkeypatch.setattr(
            WorkerRegistry, "_ask", lambda registry, *args: world.ask(registry, *args)
        )
        monkeypatch.setattr(
            WorkerRegistry, "_tell", lambda registry, *args: world.tell(registry, *args)
        )
        return world


class TestCeleryDriverWhoseWorkersFetch(TestCeleryDriver):
    """The same checks, while workers fetch tasks whenever they have room."""

    world_class = SelfStartingCeleryWorld
