"""A scheduler in memory, and a cluster for it: what the tests of the loop and of the driver have in common."""

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.job.driver import SchedulerDriver

IDLE = 301  # seconds: just over the default timeout


class FakeScheduler(SchedulerDriver):
    """Does what the test says: a hook listed in `failing` raises, one in `answers` returns what is there.

    `calls` has the names of the hooks in the order in which they were called, `given` the names of the nodes that each
    was last called with.
    """

    def __init__(self):
        super().__init__("fake")
        self.jobs = []
        self.hosts = []
        self.later = None  # jobs and hosts from the second time on that the scheduler is read
        self.calls = []
        self.given = {}
        self.failing = {}
        self.answers = {}
        self.configs = []

    def _hook(self, name, nodes):
        self.calls.append(name)
        self.given[name] = sorted(node.name for node in nodes)
        if name in self.failing:
            raise self.failing[name]
        return self.answers.get(name, nodes)

    def initialize(self):
        self._hook("initialize", [])

    def preprocess_config(self, config):
        self._hook("preprocess_config", [])
        self.configs.append(config)
        return config

    def _read_jobs_and_nodes(self, config):
        self._hook("read", [])
        jobs, hosts = self.jobs, self.hosts
        if self.later is not None:
            (self.jobs, self.hosts), self.later = self.later, None
        return jobs, hosts

    def preprocess_node_mgr(self, config, node_mgr):
        self._hook("preprocess_node_mgr", [])

    def validate_nodes(self, scheduler_nodes, cc_nodes):
        self._hook("validate_nodes", cc_nodes)

    def handle_failed_nodes(self, nodes):
        return self._hook("handle_failed_nodes", nodes)

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        return self._hook("add_nodes_to_cluster", nodes)

    def handle_post_join_cluster(self, nodes):
        return self._hook("handle_post_join_cluster", nodes)

    def handle_boot_timeout(self, nodes):
        return self._hook("handle_boot_timeout", nodes)

    def handle_draining(self, nodes):
        return self._hook("handle_draining", nodes)

    def handle_post_delete(self, nodes):
        return self._hook("handle_post_delete", nodes)


@pytest.fixture
def now(tmp_path, monkeypatch):
    """A clock that only moves when it is told to, and a home for locks and history."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    return clock.use_mock_clock()


@pytest.fixture
def cluster():
    """Ten nodes of four cores."""
    return an_htc_cluster(vm_size="Standard_F4s")


@pytest.fixture
def scheduler(now):
    """A scheduler with nothing to do."""
    return FakeScheduler()


@pytest.fixture
def run(cluster, scheduler):
    """Run a pass; arguments are configuration keys."""

    def run_pass(dry_run=False, **config):
        config = {"cluster_name": "clusty", "_mock_bindings": cluster, **config}
        return Autoscaler(config, scheduler, dry_run=dry_run).run_once()

    return run_pass


def idle_cluster(cluster, run, now, count=3):
    """Nodes on host-1, host-2 …, that have been ready and without work for longer than the idle timeout."""
    for number in range(1, count + 1):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    run()
    now.sleep(IDLE)


def raising(error):
    """A function that raises this, whatever it is called with."""

    def raise_it(*args, **kwargs):
        raise error

    return raise_it
