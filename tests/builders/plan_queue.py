"""A scheduler in memory for the laws of plans, with its driver and a command line for it."""

from __future__ import annotations

import random
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale import clilib
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource
from hpc.autoscale.node.node import Node
from hpc.autoscale.workers import WorkerDemand


@dataclass
class Queued:
    """A job: what it wants, how many slots or nodes still wait, and how many licences each slot
    takes."""

    constraints: dict[str, Any]
    slots: int = 0
    nodes: int = 0
    licences: int = 0


@dataclass
class QueueHost:
    """A host that was joined: its cores, and the cores that each job has there; `is_marked`: the
    scheduler wants rid of it."""

    node_id: str
    cores: int
    is_open: bool = True
    is_marked: bool = False
    running: Counter[str] = field(default_factory=Counter)


class QueueOfTest:
    """A scheduler in memory. `tasks`: how many short jobs wait for workers. One that is `patient`
    gives up no node in the pass in which it is told to drain it. `licences`: how many are free,
    whatever runs. `deaf_to`: last characters of the names of hosts that it never hears."""

    def __init__(self, is_patient: bool = False, licences: int = 0) -> None:
        self.licences = licences
        self.jobs: dict[str, Queued] = {}
        self.hosts: dict[str, QueueHost] = {}
        self.tasks = 0
        self.is_patient = is_patient
        self.deaf_to: tuple[str, ...] = ()

    def start(self, rng: random.Random) -> None:
        """Start what there is room for, here and there."""
        for name, job in list(self.jobs.items()):
            cores = int(job.constraints.get("ncpus", 1))
            for host in self.hosts.values():
                free = host.cores - host.running.total()
                if job.slots and host.is_open and cores <= free and rng.random() < 0.7:
                    host.running[name] += cores
                    job.slots -= 1
            self._start_gang(name, job)
            if not job.slots and not job.nodes:
                del self.jobs[name]

    def _start_gang(self, name: str, job: Queued) -> None:
        idle = [host for host in self.hosts.values() if host.cores > 64 and not host.running]
        if job.nodes and len(idle) >= job.nodes:
            for host in idle[: job.nodes]:
                host.running[name] += host.cores
            job.nodes = 0

    def end(self, rng: random.Random) -> None:
        """End some of what runs."""
        for host in self.hosts.values():
            for name in [name for name in host.running if rng.random() < 0.5]:
                del host.running[name]


class DriverOfQueue(SchedulerDriver):
    """Its driver."""

    def __init__(self, queue: QueueOfTest) -> None:
        super().__init__("queue")
        self.queue = queue

    def initialize(self) -> None:
        pass

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs = []
        free = self.queue.licences
        pool = SharedConsumableResource("licences", "server", free, free)
        for name, job in self.queue.jobs.items():
            wish: list[Any] = [job.constraints]
            if job.licences:
                wish.append(SharedConsumableConstraint(pool, job.licences))
            if job.nodes:
                jobs.append(Job(name, wish, node_count=job.nodes, colocated=True))
            elif job.slots:
                jobs.append(Job(name, wish, iterations=job.slots))
        if self.queue.tasks:
            wanted = WorkerDemand(waiting=self.queue.tasks, running=0, jobs_per_worker=1)
            jobs += wanted.jobs()
        if (config.get("autoscale") or {}).get("scheduler_reports_hosts") is False:
            return jobs, []
        return jobs, [self._reported(name, host) for name, host in self.queue.hosts.items()]

    def _reported(self, name: str, host: QueueHost) -> SchedulerNode:
        known = {"ccnodeid": host.node_id} if host.node_id else {}
        node = SchedulerNode(name, {"ncpus": host.cores, **known})
        node.available["ncpus"] = host.cores - host.running.total()
        node.marked_for_deletion = host.is_marked
        for job in host.running:
            node.assign(job)
        return node

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            if node.hostname in self.queue.hosts:
                self.queue.hosts[str(node.hostname)].is_open = True
        return nodes

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        ready = [node for node in nodes if node.state == "Ready" and self._hears(node)]
        for node in ready:
            host = QueueHost(str(node.delayed_node_id.node_id or ""), node.vcpu_count)
            self.queue.hosts.setdefault(str(node.hostname), host)
        return ready

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        free = self._free(nodes)
        for node in nodes:
            if node.hostname in self.queue.hosts:
                self.queue.hosts[str(node.hostname)].is_open = False
        return free

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            self.queue.hosts.pop(str(node.hostname), None)
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        if hook == "handle_draining":
            return self._free(nodes)
        if hook == "add_nodes_to_cluster":
            nodes = [node for node in nodes if self._hears(node)]
        return super().foresee(hook, nodes)

    def _hears(self, node: Node) -> bool:
        return bool(node.hostname) and not str(node.hostname).endswith(self.queue.deaf_to)

    def _free(self, nodes: list[Node]) -> list[Node]:
        """Those without work; of a patient scheduler those that were closed before."""
        return [node for node in nodes if self._is_free(node)]

    def _is_free(self, node: Node) -> bool:
        host = self.queue.hosts.get(str(node.hostname))
        if host is None:  # one that is ready is joined before it is drained
            return not (self.queue.is_patient and node.state == "Ready" and self._hears(node))
        return not (host.running or (self.queue.is_patient and host.is_open))


class PlanCLI(clilib.CommonCLI):
    """The command line of the queue."""

    def __init__(self, new_driver: Callable[[], DriverOfQueue]) -> None:
        super().__init__("queue")
        self._new_driver = new_driver

    def _driver(self, config: dict[str, Any]) -> DriverOfQueue:
        return self._new_driver()

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        return ["name"]

    def _initconfig_parser(self, parser: ArgumentParser) -> None: ...

    def _initconfig(self, config: dict[str, Any]) -> None: ...

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        return {}
