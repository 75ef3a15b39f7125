"""What an integration's command line fills in, and how every command gets at nodes and demand.

The commands themselves are in modules of their own, one for each group; `common.CommonCLI` puts
them together. Helpers begin with an underscore, because every public method of a command line
object is a sub-command.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.autoscaler import learning
from hpc.autoscale.autoscaler.faults import call_with_up_to
from hpc.autoscale.autoscaler.summary import SetAsideJob, UnsatisfiedJob
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.identity import Identities, short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.results import DefaultContextHandler
from hpc.autoscale.util import SingletonLock, partition

Config = dict[str, Any]


class Hooks(ABC):
    """Hooks, and access to nodes and demand through them."""

    def __init__(self, project_name: str) -> None:
        self.project_name = project_name
        self.example_nodes: list[Node] = []
        self.node_names: list[str] = []
        self.hostnames: list[str] = []
        self.__node_mgr: NodeManager | None = None
        self.__lock: SingletonLock | None = None
        self.__said: set[str] = set()
        self._work = Work()

    @property
    def autoscale_home(self) -> str:
        """Where configuration, history and caches are: AUTOSCALE_HOME, or
        `/opt/azurehpc/<project>`."""
        return os.getenv("AUTOSCALE_HOME") or os.path.join("/opt", "azurehpc", self.project_name)

    # -- what an integration must write

    @abstractmethod
    def _driver(self, config: Config) -> SchedulerDriver:
        """The driver of the scheduler."""

    @abstractmethod
    def _default_output_columns(self, config: Config, cmd: str | None = None) -> list[str]:
        """The columns to print where neither the user nor the configuration names any."""

    @abstractmethod
    def _setup_shell_locals(self, config: Config) -> dict[str, Any]:
        """Names to have at hand in the shell."""

    @abstractmethod
    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        """Add the integration's own options to `initconfig`; a dest `a__b` becomes {"a": {"b":
        …}}."""

    @abstractmethod
    def _initconfig(self, config: Config) -> None:
        """Complete the configuration that `initconfig` is about to print."""

    # -- what an integration may write

    def _initialize(self, command: str, config: Config) -> None:  # noqa: B027 - optional
        """Called before a command, with the loaded configuration."""

    def _ctx_handler(self, config: Config) -> DefaultContextHandler:
        """Who hears the results of a demand calculation."""
        return DefaultContextHandler("[initialization]")

    def _state_home(self, config: Config) -> str:
        """Where this writes what it keeps: at home with the driver, as the lock and the history
        are."""
        return self._driver(config).autoscale_home

    # -- nodes and demand

    def _fresh_driver(self, config: Config) -> SchedulerDriver:
        """The driver for another pass. It may have to be another one, since drivers may keep what
        they read."""
        return self._driver(config)

    def _prepared(self, config: Config) -> tuple[SchedulerDriver, Config]:
        """The driver, and the configuration with what the driver adds to it."""
        driver = self._driver(config)
        return driver, learning.with_request_log(driver.preprocess_config(config), driver)

    def _node_mgr(
        self, config: Config, driver: SchedulerDriver | None = None, force: bool = False
    ) -> NodeManager:
        """The node manager, read from CycleCloud once per command unless forced."""
        if self.__node_mgr is None or force:
            node_mgr = new_node_manager(config)
            (driver or self._driver(config)).preprocess_node_mgr(config, node_mgr)
            self.__node_mgr = node_mgr
            self._warn_once(*node_mgr.doubts)
        return self.__node_mgr

    def _warn_once(self, *doubts: str) -> None:
        """Tell the user, on stderr, what was not told before in this process."""
        for doubt in doubts:
            if doubt not in self.__said:
                self.__said.add(doubt)
                warn("%s", doubt)

    def _forget_node_mgr(self) -> None:
        self.__node_mgr = None

    def _node_history(self, config: Config) -> NodeHistory:
        """The history of this integration's nodes."""
        return self._driver(config).new_node_history(config)

    def _demand_calc(
        self, config: Config, driver: SchedulerDriver, node_mgr: NodeManager | None = None
    ) -> tuple[DemandCalculator, list[Job]]:
        """A demand calculator and the jobs, which it has not been given yet. Takes the lock for the
        command."""
        self._unlock()
        self.__lock = driver.new_singleton_lock(config)
        node_mgr = node_mgr or self._node_mgr(config, driver)
        return learning.new_calculator(config, driver, node_mgr, self.__lock)

    def _unlock(self) -> None:
        """Give back the lock that a command took."""
        if self.__lock is not None:
            self.__lock.unlock()
            self.__lock = None

    def _demand(
        self,
        config: Config,
        driver: SchedulerDriver | None = None,
        ctx_handler: DefaultContextHandler | None = None,
        node_mgr: NodeManager | None = None,
    ) -> DemandCalculator:
        """A demand calculator that has been given all jobs."""
        return self._demand_and_rest(config, driver, ctx_handler, node_mgr)[0]

    def _demand_and_rest(
        self,
        config: Config,
        driver: SchedulerDriver | None = None,
        ctx_handler: DefaultContextHandler | None = None,
        node_mgr: NodeManager | None = None,
    ) -> tuple[DemandCalculator, list[UnsatisfiedJob], list[SetAsideJob]]:
        """The same, with the jobs that were not satisfied and those that could not be looked at."""
        driver = driver or self._driver(config)
        extra = () if node_mgr is None else (node_mgr,)
        calculator, jobs = call_with_up_to(self._demand_calc, config, driver, *extra)
        if ctx_handler is not None and ctx_handler not in results.HANDLERS:
            results.register_result_handler(ctx_handler)
        set_context = ctx_handler.set_context if ctx_handler else logging.set_context
        return calculator, *learning.add_jobs(calculator, jobs, set_context)

    def _find_nodes(
        self, config: Config, hostnames: Sequence[str] | None, node_names: Sequence[str] | None
    ) -> tuple[SchedulerDriver, DemandCalculator, list[Node]]:
        """The nodes meant by host names and node names, in any case of letters; `*` means all. Jobs
        have been placed on them, so that those that a queued job is about to get can be told.

        Host names are CycleCloud's and the scheduler's. One that is not known is taken for a node
        that only the scheduler has. An unknown node name is an error, and so is a name that stands
        for two nodes.
        """
        driver, config = self._prepared(config)
        calculator, jobs = call_with_up_to(self._demand_calc, config, driver)
        _, hosts = driver.read_jobs_and_nodes(config)
        self._work = work = Work(jobs, hosts, calculator.node_mgr.get_nodes())
        learning.add_jobs(calculator, jobs, logging.set_context)
        nodes = [node for node in calculator.finish().compute_nodes if not _is_planned(node)]
        if list(hostnames or []) == ["*"] or list(node_names or []) == ["*"]:
            return driver, calculator, nodes
        by_host: dict[str, list[Node]] = {}
        for node in nodes:
            for short in work.hostnames_of(node):
                by_host.setdefault(short, []).append(node)
        by_name = partition(nodes, lambda node: node.name.lower())
        found: dict[int, Node] = {}
        for hostname in hostnames or []:
            short = short_name(_required(hostname, "host name"))
            meant = by_host.setdefault(short, [SchedulerNode(hostname, {})])
            node = _the_one(meant, f"host name {hostname}")
            found[id(node)] = node
        for name in node_names or []:
            named = by_name.get(_required(name, "node name").lower())
            if named is None:
                raise AutoscaleError(f"there is no node {name!r}{did_you_mean(name, by_name)}")
            exact = [node for node in named if node.name == name]
            node = _the_one(exact or named, f"node name {name}")
            found[id(node)] = node
        return driver, calculator, list(found.values())


class Work:
    """What jobs do to nodes: run there, or wait for them. `hosts` are those of the scheduler as it
    reports them, which may have other names there than the `nodes` that they are."""

    def __init__(
        self,
        jobs: Sequence[Job] = (),
        hosts: Sequence[SchedulerNode] = (),
        nodes: Sequence[Node] = (),
    ) -> None:
        self._busy = learning.busy_nodes(nodes, jobs, hosts)
        identities = Identities(nodes)
        self._hostnames: dict[object, set[str]] = {}
        for host in hosts:
            for node in identities.might_be(host):
                known = self._hostnames.setdefault(learning.key_of(node), set())
                known.add(short_name(host.hostname))
        self._waiting: set[str] = set()
        self._running: dict[str, list[str]] = {}
        for job in jobs:
            name = str(getattr(job, "name", job))
            if (getattr(job, "metadata", None) or {}).get("job_state") != "running":
                self._waiting.add(name)
            for host in getattr(job, "executing_hostnames", None) or ():
                self._running.setdefault(short_name(host), []).append(name)

    def hostnames_of(self, node: Node) -> set[str]:
        """The short host names of a node, CycleCloud's and the scheduler's; a made-up one where it
        has none."""
        said = self._hostnames.get(learning.key_of(node), set())
        return {short_name(node.hostname_or_uuid), *said}

    def on(self, node: Node) -> str:
        """What a node has to do, as in `has jobs: 12`; nothing when it is idle."""
        running = set(node.assignments - self._waiting)
        for host in self.hostnames_of(node):
            running.update(self._running.get(host, ()))
        if running:
            return f"has jobs: {', '.join(sorted(running))}"
        soon = sorted(map(str, node.assignments))
        if soon:
            return f"is about to get jobs: {', '.join(soon)}"
        return "has jobs" if learning.key_of(node) in self._busy else ""


def why_failed(result: results.Result) -> str:
    """What a result that is no success says, for an error message."""
    return "; ".join(result.reasons) or result.status


def _is_planned(node: Node) -> bool:
    return node.managed and not node.exists and not node.delayed_node_id.node_id


def _the_one(meant: Sequence[Node], said: str) -> Node:
    """The node that a name stands for; AutoscaleError when there are several."""
    if len(meant) == 1:
        return meant[0]
    names = ", ".join(
        f"{node.name} ({node.state}, {node.delayed_node_id.node_id or 'not of CycleCloud'})"
        for node in meant
    )
    raise AutoscaleError(f"{said} stands for {len(meant)} nodes: {names}; say which by name (-N)")


def _required(text: str, what: str) -> str:
    if not text:
        raise AutoscaleError(f"expected a {what}, found an empty one")
    return text
