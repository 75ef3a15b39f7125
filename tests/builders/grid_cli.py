"""An integration's command line over a cluster in memory, as its author would write it."""

import copy
import json
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders.command_lines import DriverOfTest, at_home, run_command
from hpc.autoscale import clilib
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import NodeName
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node


class Scheduler(DriverOfTest):
    """A scheduler with the jobs and hosts that the test gives it; `refuses` are names of nodes that
    do not drain, and `meanwhile` is called when nodes are drained. What is read is made anew, as
    drivers promise."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.joined: list[tuple[list[NodeName], bool]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return copy.deepcopy(super()._read_jobs_and_nodes(config))

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        self.joined.append(([node.name for node in nodes], include_permanent))
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        self.meanwhile()
        return [node for node in nodes if node.name not in self.refuses]


class GridCLI(clilib.CommonCLI):
    """All commands, and one of its own."""

    def __init__(self, scheduler: Scheduler, cluster: MockClusterBinding) -> None:
        super().__init__("grid")
        self.scheduler = scheduler
        self.cluster = cluster
        self.initialized: list[str] = []

    def _driver(self, config: dict[str, Any]) -> Scheduler:
        return self.scheduler

    def _initialize(self, command: str, config: dict[str, Any]) -> None:
        self.initialized.append(command)
        config["_mock_bindings"] = self.cluster

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        return ["name", "state", "job_ids"]

    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queue", dest="grid__queue", default="all.q")

    def _initconfig(self, config: dict[str, Any]) -> None:
        config["grid"]["done"] = True

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"answer": 42}

    def hello_parser(self, parser: ArgumentParser) -> None:
        """Options of hello."""
        parser.add_argument("--name", default="world")

    def hello(self, config: dict[str, Any], name: str) -> None:
        """Greets."""
        print(f"hello {name}, {config['cluster_name']}")


class Grid:
    """The command line, its scheduler and its cluster, and a way of running commands."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.capsys = capsys
        self.scheduler = Scheduler()
        self.cluster = MockClusterBinding("clusty")
        self.cluster.add_nodearray("htc", {})
        self.cluster.add_bucket("htc", "Standard_F4s", 10, 10)
        self.config = {"cluster_name": "clusty", "nodehistorydb": str(home / "history.db")}
        self.cli: GridCLI | None = None

    def __call__(self, *argv: str, code: int = 0) -> str:
        """Run a command; what it printed on stdout. Anything on stderr is in `errors`."""
        self.cli = GridCLI(self.scheduler, self.cluster)
        with suppress(RuntimeError):  # one that does not answer is the command's business
            self.scheduler.read_jobs_and_nodes({}, force=True)  # as a process of its own does
        ended = run_command(self.cli, argv, self.home, self.config, self.capsys)
        self.errors = ended.err
        assert ended.code == code, ended
        return ended.out

    def json(self, *argv: str) -> Any:
        """Run a command that prints JSON."""
        return json.loads(self(*argv))


@pytest.fixture
def grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Grid:
    """A command line with ten nodes of four cores to start, in a home of its own."""
    at_home(monkeypatch, tmp_path)
    return Grid(tmp_path, capsys)
