"""A scheduler in virtual time, and the driver that an integration would have written for it.

Tasks wait in order of arrival, start wherever a host that takes work has room, and run for a fixed
time. A gang starts on all of its nodes, in one placement group, or not at all. What ran on a host
that is lost waits again.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from simulation.script import Work

NO_ANSWER = "scheduler: connection refused"


@dataclass(eq=False)
class Host:
    """A host as the scheduler keeps it. `running` has the number of tasks by job, `starts` what was
    started at a time and has not ended, by the number of the start."""

    hostname: str
    node_id: str
    array: str
    group: str | None
    cores: int
    free: int
    since: float
    takes_work: bool = True
    was_reported: bool = False
    idle_since: float = 0.0
    running: Counter[int] = field(default_factory=Counter)
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        return bool(self.running)


@dataclass(eq=False)
class Progress:
    """How far a job is: tasks that wait and tasks that run."""

    work: Work
    waiting: int
    running: int = 0
    done: int = 0
    ran_at: float | None = None

    @property
    def finished(self) -> bool:
        """Whether all of it has run, or never will."""
        return self.done == self.work.tasks or not self.work.satisfiable


@dataclass
class Told:
    """What a reading told, and what was true then: tasks that wait by job, free cores by NodeId,
    and which nodes were at work."""

    waiting: dict[int, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)


class SimScheduler:
    """The scheduler; `now` is the time of the world."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.jobs: dict[int, Progress] = {}
        self.hosts: dict[str, Host] = {}  # by NodeId
        self.lost_tasks = 0
        self._ends: list[tuple[float, int, Host]] = []
        self._started = 0
        self.down = False
        self.silent: set[str] = set()  # NodeIds of nodes whose daemon does not start
        self.hears_all = False  # those are repaired
        self.reading: str = ""  # half_hosts, half_jobs or nothing_read while it answers in part
        self.part = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether everything has run that can."""
        return all(progress.finished for progress in self.jobs.values())

    # -- what users do, and time

    def submit(self, work: Work) -> None:
        """A job arrives."""
        self.jobs[work.number] = Progress(work, work.tasks)
        self.dispatch()

    def next_end(self) -> float | None:
        """When the next task ends."""
        return self._ends[0][0] if self._ends else None

    def end_tasks(self) -> None:
        """End the tasks whose time is over by now, and start others."""
        now = self._now()
        ended = False
        while self._ends and self._ends[0][0] <= now:
            _, start, host = heapq.heappop(self._ends)
            if start in host.starts:
                number, tasks = self._take_off(host, start)
                self.jobs[number].done += tasks
                ended = True
        if ended:
            self.dispatch()

    def dispatch(self) -> None:
        """Start what can start, in order of arrival."""
        ready = [host for host in self.hosts.values() if host.takes_work and host.free]
        if not ready:
            return
        for progress in self.jobs.values():
            if not progress.waiting or not progress.work.satisfiable:
                continue
            if progress.work.nodes:
                self._start_gang(progress, ready)
            else:
                self._start_tasks(progress, ready)

    def _start_tasks(self, progress: Progress, ready: list[Host]) -> None:
        work = progress.work
        for host in ready:
            if not progress.waiting:
                return
            if host.array in work.arrays and host.free >= work.cores:
                self._put_on(host, progress, min(progress.waiting, host.free // work.cores))

    def _start_gang(self, progress: Progress, ready: list[Host]) -> None:
        work = progress.work
        groups: dict[str | None, list[Host]] = {}
        for host in ready:
            if host.array in work.arrays and host.free >= work.cores:
                groups.setdefault(host.group, []).append(host)
        for group, hosts in groups.items():
            if group is not None and len(hosts) >= progress.waiting:
                for host in hosts[: progress.waiting]:
                    self._put_on(host, progress, 1)
                return

    def _put_on(self, host: Host, progress: Progress, tasks: int) -> None:
        work, now = progress.work, self._now()
        host.running[work.number] += tasks
        host.free -= tasks * work.cores
        progress.waiting -= tasks
        progress.running += tasks
        progress.ran_at = now if progress.ran_at is None else progress.ran_at
        self._started += 1
        host.starts[self._started] = (work.number, tasks)
        heapq.heappush(self._ends, (now + work.seconds, self._started, host))

    def _take_off(self, host: Host, start: int) -> tuple[int, int]:
        number, tasks = host.starts.pop(start)
        host.running[number] -= tasks
        if not host.running[number]:
            del host.running[number]
        host.free += tasks * self.jobs[number].work.cores
        host.idle_since = self._now()
        self.jobs[number].running -= tasks
        return number, tasks

    # -- what happens to machines

    def machine_down(self, node_id: str) -> None:
        """A machine is no more: what ran there waits again."""
        host = self.hosts.get(node_id)
        if host is None:
            return
        for number in list(host.running):
            if self.jobs[number].work.nodes:
                self._restart_gang(self.jobs[number])
        for start in list(host.starts):
            self._put_back(host, start)
        del self.hosts[node_id]

    def _put_back(self, host: Host, start: int) -> None:
        number, tasks = self._take_off(host, start)
        self.jobs[number].waiting += tasks
        self.lost_tasks += tasks

    def _restart_gang(self, progress: Progress) -> None:
        """A gang that loses a node starts again from the beginning."""
        number = progress.work.number
        for host in self.hosts.values():
            for start in [s for s, (of, _) in host.starts.items() if of == number]:
                self._put_back(host, start)
        progress.waiting += progress.done
        progress.done = 0

    # -- what drivers ask

    def ask(self) -> SimScheduler:
        """The scheduler, for drivers. OSError while it does not answer."""
        if self.down:
            raise OSError(NO_ANSWER)
        return self

    def join(self, node_id: str, hostname: str, array: str, group: str | None, cores: int) -> None:
        """Take in a host, if it is heard, or let it take work again."""
        known = self.hosts.get(node_id)
        if known is None and (self.hears_all or node_id not in self.silent):
            now = self._now()
            self.hosts[node_id] = Host(
                hostname, node_id, array, group, cores, cores, now, idle_since=now
            )
            self.dispatch()
        elif known is not None and not known.takes_work:
            known.takes_work = True
            self.dispatch()


class SimDriver(SchedulerDriver):
    """The driver of the scheduler. `on_ask` is called before a reading (`reread`) and before
    hosts are joined (`join`), and `on_reading` hears what a reading told.

    With `careful` a node on which something runs is not given up, as real schedulers have it.
    """

    def __init__(
        self,
        scheduler: SimScheduler,
        careful: bool,
        on_ask: Callable[[str], None],
        on_reading: Callable[[Told], None],
    ) -> None:
        super().__init__("simulated")
        self.scheduler = scheduler
        self.careful = careful
        self._on_ask = on_ask
        self._on_reading = on_reading

    def initialize(self) -> None:
        self.scheduler.ask()

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self._on_ask("reread")
        scheduler = self.scheduler.ask()
        jobs, hosts, waiting = [], [], {}
        left_out = random.Random(scheduler.part)
        way = scheduler.reading
        for number, progress in scheduler.jobs.items():
            if way == "nothing_read" or (way == "half_jobs" and left_out.random() < 0.5):
                continue
            if progress.waiting:
                waiting[number] = progress.waiting
                jobs.append(_waiting(progress))
            if progress.running:
                jobs.append(_running(progress, scheduler))
        for host in scheduler.hosts.values():
            is_out = way == "nothing_read" or (way == "half_hosts" and left_out.random() < 0.5)
            # a host that was joined and never reported is taken for one that has no work, as of now
            if is_out and (self.careful or host.was_reported):
                continue
            host.was_reported = True
            hosts.append(_reported(host))
        free = {h.node_id: h.free if h.takes_work else 0 for h in scheduler.hosts.values()}
        busy = [h.node_id for h in scheduler.hosts.values() if h.busy]
        self._on_reading(Told(waiting, free, [] if way else busy))
        return jobs, hosts

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """Hosts whose machine is no more are forgotten when the machine goes; nothing is left."""

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        self._on_ask("join")
        scheduler = self.scheduler.ask()
        ready = [node for node in nodes if node.state == "Ready" and node.managed]
        for node in ready:
            known = scheduler.hosts.get(str(node.delayed_node_id.node_id))
            running = known.running.total() if known else 0
            if known is None or (not known.takes_work and len(node.assignments) > running):
                scheduler.join(
                    str(node.delayed_node_id.node_id),
                    str(node.hostname),
                    str(node.nodearray),
                    node.placement_group,
                    node.vcpu_count,
                )
        return [node for node in ready if str(node.delayed_node_id.node_id) in scheduler.hosts]

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        scheduler = self.scheduler.ask()
        idle = []
        for node in nodes:
            host = scheduler.hosts.get(str(node.delayed_node_id.node_id))
            if host is not None:
                host.takes_work = False
            if host is None or not self.careful or not host.busy:
                idle.append(node)
        return idle

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        scheduler = self.scheduler.ask()
        for node in nodes:
            scheduler.machine_down(str(node.delayed_node_id.node_id))
        return nodes


def _waiting(progress: Progress) -> Job:
    work = progress.work
    needs: list[dict[str, Any]] = [{"node.nodearray": list(work.arrays)}, {"ncpus": work.cores}]
    if work.nodes:
        needs.append({"node.colocated": True})
        return Job(work.name, needs, iterations=1, node_count=progress.waiting, colocated=True)
    return Job(work.name, needs, iterations=progress.waiting)


def _running(progress: Progress, scheduler: SimScheduler) -> Job:
    number = progress.work.number
    hosts = [h.hostname for h in scheduler.hosts.values() if number in h.running]
    job = Job(
        f"{progress.work.name}-running",
        {"ncpus": 1},
        iterations=progress.running,
        executing_hostnames=hosts,
    )
    job.metadata["job_state"] = "running"
    return job


def _reported(host: Host) -> SchedulerNode:
    node = SchedulerNode(host.hostname, {"ncpus": host.cores, "ccnodeid": host.node_id})
    node.available["ncpus"] = host.free
    for number, tasks in host.running.items():
        for task in range(tasks):
            node.assign(f"{number}.{task}")
    return node
