"""A scheduler in memory with a driver that keeps every promise, and its world: what the kit is
tested with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.node import Node
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.testing import Host, Machine, SchedulerWorld, SelfStartingWorld

SLOTS = 4


@dataclass
class Entry:
    """A host as the scheduler keeps it."""

    node_id: str | None = None
    takes_work: bool = True
    running: int = 0
    heard: bool = True


class Scheduler:
    """One queue of equal tasks, and hosts with four slots."""

    def __init__(self) -> None:
        self.answers = True
        self.waiting = 0
        self.nonsense: list[int] = []
        self.comments: dict[str, str] = {}
        self.entries: dict[str, Entry] = {}

    def ask(self) -> dict[str, Entry]:
        """The hosts, for drivers. OSError while the scheduler does not answer."""
        if not self.answers:
            raise OSError("queue server: connection refused")
        return self.entries


def host_of(node: Node) -> str:
    """The host name of a node, which has one."""
    if node.hostname is None:
        raise ValueError(f"{node} has no host name")
    return node.hostname


class MemoryDriver(SchedulerDriver):
    """Keeps every promise."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__("memory")
        self.scheduler = scheduler

    def initialize(self) -> None:
        pass

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        self.read_only = bool(config.get("read_only"))
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        entries = self.scheduler.ask()
        waiting = [self.scheduler.waiting, *self.scheduler.nonsense]
        jobs = build_jobs(filter(None, waiting), self.new_job)
        return jobs, [self.reported(hostname, entry) for hostname, entry in entries.items()]

    def new_job(self, tasks: int) -> Job:
        """So many tasks that wait."""
        return Job("queue", {"ncpus": 1}, iterations=tasks)

    def reported(self, hostname: str, entry: Entry) -> SchedulerNode:
        """A host as the library is told of it."""
        node = SchedulerNode(hostname, {"ncpus": SLOTS, "ccnodeid": entry.node_id})
        node.available["ncpus"] = SLOTS - entry.running
        for number in range(entry.running):
            node.assign(f"task {number}")
        return node

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        listed = {node.delayed_node_id.node_id for node in cc_nodes}
        for hostname, entry in list(self.scheduler.ask().items()):
            if entry.node_id and entry.node_id not in listed and not self.read_only:
                del self.scheduler.entries[hostname]

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        entries = self.scheduler.ask()
        ready = [node for node in nodes if node.state == "Ready"]
        for node in ready:
            entry = entries.setdefault(host_of(node), Entry(node.delayed_node_id.node_id))
            if not entry.takes_work and len(node.assignments) > entry.running:
                entry.takes_work = True
        return ready

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        self.scheduler.comments[job.name] = verdict.line

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        entries = self.scheduler.ask()
        for node in nodes:
            if node.hostname in entries:
                entries[node.hostname].takes_work = False
        return [n for n in nodes if n.hostname not in entries or not entries[n.hostname].running]

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return self.forget(nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        return self.forget(nodes)

    def forget(self, nodes: list[Node]) -> list[Node]:
        """Remove the hosts of these nodes."""
        entries = self.scheduler.ask()
        for node in nodes:
            entries.pop(node.hostname or "", None)
        return nodes


class MemoryWorld(SchedulerWorld):
    """What happens to the scheduler in memory. `driver_class` makes its drivers."""

    tasks_per_node = SLOTS

    def __init__(self, driver_class: type[MemoryDriver] = MemoryDriver) -> None:
        self.driver_class = driver_class
        self.scheduler = Scheduler()

    def new_driver(self) -> MemoryDriver:
        return self.driver_class(self.scheduler)

    def submit(self, tasks: int) -> None:
        self.scheduler.waiting += tasks

    def submit_nonsense(self) -> None:
        self.scheduler.nonsense.append(-4)

    def start(self, hostname: str) -> bool:
        entry = self.scheduler.entries.get(hostname)
        if entry is None or not entry.takes_work or entry.running == SLOTS:
            return False
        if not self.scheduler.waiting:
            return False
        entry.running += 1
        self.scheduler.waiting -= 1
        return True

    def finish(self, hostname: str) -> None:
        self.scheduler.entries[hostname].running -= 1

    def hosts(self) -> dict[str, Host]:
        entries = self.scheduler.entries.items()
        return {name: Host(entry.takes_work, entry.running) for name, entry in entries}

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        self.scheduler.answers = False
        yield
        self.scheduler.answers = True

    def machine_down(self, hostname: str) -> None:
        if hostname in self.scheduler.entries:
            self.scheduler.entries[hostname].running = 0

    @contextmanager
    def silence(self, hostname: str) -> Iterator[None]:
        self.scheduler.entries[hostname].heard = False
        yield
        self.scheduler.entries[hostname].heard = True

    def add_own_host(self, hostname: str) -> None:
        self.scheduler.entries[hostname] = Entry()


class SelfStartingMemoryWorld(MemoryWorld, SelfStartingWorld):
    """The same scheduler, left to itself: a task starts wherever there is room on a machine that
    runs."""

    def __init__(self, driver_class: type[MemoryDriver] = MemoryDriver) -> None:
        super().__init__(driver_class)
        self.machines: set[str] = set()

    def settle(self) -> None:
        for hostname in self.machines:
            while super().start(hostname):
                pass

    def start(self, hostname: str) -> bool:
        raise AssertionError("nobody tells this scheduler to start a task")

    def machine_up(self, machine: Machine) -> None:
        self.machines.add(machine.hostname)

    def machine_down(self, hostname: str) -> None:
        super().machine_down(hostname)
        self.machines.discard(hostname)
