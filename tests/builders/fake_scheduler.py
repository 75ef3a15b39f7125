"""A scheduler in memory, and a cluster for it: what the tests of the loop and of the driver have in
common."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, PassSummary
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.clock import MockClock
from hpc.autoscale.hpctypes import NodeName
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.results.verdicts import Verdict

RunPass = Callable[..., PassSummary]

IDLE = 301  # seconds: just over the default timeout


class FakeScheduler(SchedulerDriver):
    """Does what the test says: a hook listed in `failing` raises, one in `answers` returns what is
    there.

    `calls` has the names of the hooks in the order in which they were called, `given` the names of
    the nodes that each was last called with. What is read once more in a pass is made anew, as
    drivers promise.
    """

    def __init__(self) -> None:
        super().__init__("fake")
        self.jobs: list[Job] = []
        self.hosts: list[SchedulerNode] = []
        self.later: tuple[list[Job], list[SchedulerNode]] | None = (
            None  # jobs and hosts from the second time on that the scheduler is read
        )
        self.calls: list[str] = []
        self.explained: list[tuple[str, Verdict]] = []
        self.given: dict[str, list[NodeName]] = {}
        self.failing: dict[str, BaseException] = {}
        self.answers: dict[str, list[Node]] = {}
        self.configs: list[dict[str, Any]] = []
        self._has_read = False

    def _hook(self, name: str, nodes: list[Node]) -> list[Node]:
        self.calls.append(name)
        self.given[name] = sorted(node.name for node in nodes)
        if name in self.failing:
            raise self.failing[name]
        return self.answers.get(name, nodes)

    def initialize(self) -> None:
        self._hook("initialize", [])
        self._has_read = False

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        self._hook("preprocess_config", [])
        self.configs.append(config)
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self._hook("read", [])
        jobs, hosts = self.jobs, self.hosts
        if self.later is not None:
            (self.jobs, self.hosts), self.later = self.later, None
        again, self._has_read = self._has_read, True
        return (copy.deepcopy(jobs), copy.deepcopy(hosts)) if again else (jobs, hosts)

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        self._hook("preprocess_node_mgr", [])

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        self._hook("validate_nodes", cc_nodes)

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_failed_nodes", nodes)

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        return self._hook("add_nodes_to_cluster", nodes)

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_post_join_cluster", nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_boot_timeout", nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_draining", nodes)

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_undraining", nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_post_delete", nodes)

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        self.explained.append((job.name, verdict))
        self._hook("explain_job", [])


@pytest.fixture
def now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """A clock that only moves when it is told to, and a home for locks and history."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    return clock.use_mock_clock()


@pytest.fixture
def cluster() -> MockClusterBinding:
    """Ten nodes of four cores."""
    return an_htc_cluster(vm_size="Standard_F4s")


@pytest.fixture
def scheduler(now: MockClock) -> FakeScheduler:
    """A scheduler with nothing to do."""
    return FakeScheduler()


@pytest.fixture
def run(cluster: MockClusterBinding, scheduler: FakeScheduler) -> RunPass:
    """Run a pass; arguments are configuration keys.

    The scheduler has no hosts unless the test gives it some, and the configuration says so.
    """

    def run_pass(dry_run: bool = False, **config: Any) -> PassSummary:
        config = {"cluster_name": "clusty", "_mock_bindings": cluster, **config}
        config["autoscale"] = {"scheduler_reports_hosts": False, **config.get("autoscale", {})}
        return Autoscaler(config, scheduler, dry_run=dry_run).run_once()

    return run_pass


def idle_cluster(cluster: MockClusterBinding, run: RunPass, now: MockClock, count: int = 3) -> None:
    """Nodes on host-1, host-2 …, that have been ready and without work for longer than the idle
    timeout."""
    for number in range(1, count + 1):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    run()
    now.sleep(IDLE)


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """A function that raises this, whatever it is called with."""

    def raise_it(*args: object, **kwargs: object) -> NoReturn:
        raise error

    return raise_it
