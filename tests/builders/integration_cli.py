"""A command line and a driver as integrations write them, for the conformance tests of the command
line."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders.command_lines import DriverOfTest, run_command
from builders.nodes import an_htc_cluster
from hpc.autoscale import clilib
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.results import DefaultContextHandler


class Driver(DriverOfTest):
    """Jobs and hosts that the test gives it, and a note of what was asked of it."""

    def __init__(self, name: str = "grid") -> None:
        super().__init__(name)
        self.asked: list[tuple[object, ...]] = []

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        super().preprocess_node_mgr(config, node_mgr)
        node_mgr.add_default_resource({}, "slots", "node.vcpu_count")

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        self.asked.append(("join", [n.name for n in nodes], include_permanent))
        return super().add_nodes_to_cluster(nodes, include_permanent)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        self.asked.append(("drain", [n.name for n in nodes]))
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        self.asked.append(("remove", [n.name for n in nodes]))
        return nodes


class CLI(clilib.CommonCLI):
    """Written against the published names: every override calls super(), as upstream's integrations
    do."""

    def __init__(self, cluster: MockClusterBinding | None = None) -> None:
        clilib.CommonCLI.__init__(self, "grid")
        self.cluster = cluster or an_htc_cluster()
        self.driver = Driver()
        self.calls: list[str | None] = []

    def _initialize(self, cmd: str | None, config: dict[str, Any]) -> None:
        self.calls.append(cmd)
        config["_mock_bindings"] = self.cluster

    def _driver(self, config: dict[str, Any]) -> Driver:
        return self.driver

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        dcalc, jobs = self._demand_calc(config, self._driver(config))
        by_name: dict[str, Node] = {node.name: node for node in dcalc.node_mgr.get_nodes()}
        return {"dcalc": dcalc, "jobs": jobs, "nodes": clilib.ShellDict(by_name)}

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        return ["name", "status@state", "job_ids"] if cmd != "nodes" else ["name", "hostname"]

    def _get_default_output_columns(
        self, config: dict[str, Any], cmd_name: str | None = None
    ) -> list[str]:
        return [*super()._get_default_output_columns(config, cmd_name), "required"]

    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", dest="grid__queues", type=clilib.str_list, default=[])

    def _initconfig(self, config: dict[str, Any]) -> None:
        config["grid"]["initialized"] = True

    def _ctx_handler(self, config: dict[str, Any]) -> DefaultContextHandler:
        self.handler = DefaultContextHandler("[initialization]")
        return self.handler

    def _demand_calc(
        self, config: dict[str, Any], driver: SchedulerDriver, node_mgr: NodeManager | None = None
    ) -> tuple[DemandCalculator, list[Job]]:
        self.calls.append("_demand_calc")
        return super()._demand_calc(config, driver, node_mgr)

    def _add_completion_data(self, completion_json: dict[str, Any]) -> None:
        completion_json["queues"] = ["all.q"]

    def _read_completion_data(self, completion_json: dict[str, Any]) -> None:
        self.queues = completion_json["queues"]

    def restart_nodes(
        self,
        config: dict[str, Any],
        hostnames: Sequence[str] = (),
        node_names: Sequence[str] = (),
    ) -> None:
        """Restarts."""
        self.calls.append("own restart")
        super().restart_nodes(config=config, hostnames=hostnames, node_names=node_names)

    def reimage_nodes(
        self,
        config: dict[str, Any],
        hostnames: Sequence[str] = (),
        node_names: Sequence[str] = (),
    ) -> None:
        """Reimages."""
        super().reimage_nodes(config=config, hostnames=hostnames, node_names=node_names)

    def autoscale(
        self,
        config: dict[str, Any],
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        dry_run: bool = False,
        long: bool = False,
    ) -> DemandResult:
        """Autoscales."""
        return super().autoscale(config, output_columns, output_format, dry_run=dry_run, long=long)

    def demand(
        self,
        config: dict[str, Any],
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool = False,
    ) -> DemandResult:
        """Says what autoscale would do."""
        return super().demand(config, output_columns, output_format, long=long)

    def jobs(self, config: dict[str, Any]) -> None:
        """Prints jobs."""
        super().jobs(config)

    def join_nodes(
        self,
        config: dict[str, Any],
        hostnames: Sequence[str],
        node_names: Sequence[str],
        include_permanent: bool = False,
    ) -> None:
        """Joins."""
        super().join_nodes(config, hostnames, node_names, include_permanent)

    @clilib.disablecommand
    def retry_failed_nodes(self, config: dict[str, Any]) -> None:
        """Hidden, and still there for whoever calls it."""
        super().retry_failed_nodes(config)

    def greet_parser(self, parser: ArgumentParser) -> None:
        """Options of greet."""
        parser.set_defaults(read_only=False)
        parser.add_argument("--name", default="world")

    def greet(self, config: dict[str, Any], name: str) -> None:
        """Greets."""
        print(json.dumps([name, config.get("read_only"), config.get("lock_file", "absent")]))


class Runner:
    """Runs commands of a CLI with a configuration file in `home`."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str], **config: Any) -> None:
        self.home = home
        self.capsys = capsys
        self.config = {"cluster_name": "clusty", **config}
        self.cli = CLI()

    @property
    def cluster(self) -> MockClusterBinding:
        """The cluster that all commands work on."""
        return self.cli.cluster

    @property
    def driver(self) -> Driver:
        """The driver that all commands use."""
        return self.cli.driver

    def node(self, number: int, state: str = "Ready", **more: Any) -> Node:
        """Add a node that exists."""
        return self.cluster.add_node(
            f"htc-{number}", "htc", state=state, hostname=f"ip-{number}", **more
        )

    def queue(self, name: str, slots: int = 1, **constraints: Any) -> None:
        """Add a job."""
        self.driver.queue(name, slots, **constraints)

    def __call__(self, *argv: str) -> str:
        """Run one command as a process of its own would; what it printed on stdout, and its exit
        code in `code`."""
        before, self.cli = self.cli, type(self.cli)(self.cluster)
        self.cli.driver, self.cli.calls = before.driver, []
        ended = run_command(self.cli, argv, self.home, self.config, self.capsys)
        self.code, self.errors = ended.code, ended.err
        return ended.out
