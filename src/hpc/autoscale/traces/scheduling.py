"""A simple scheduler in virtual time: jobs in order of arrival, with EASY backfill or without.

Jobs start on hosts that take work and have room, the fullest first. With `fcfs` a job that cannot
start keeps all behind it waiting. With `easy` it is promised the earliest time at which there will
be room by the estimates of what runs, and others may go ahead where they do not delay that. While
the hosts that there are could never hold it, because others still boot, nothing is promised.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil, inf

from hpc.autoscale.traces.asking import Uses
from hpc.autoscale.traces.workload import TraceJob

POLICIES = ("easy", "fcfs")

BACKFILL_DEPTH = 1000
"""How many waiting jobs are looked at behind the one that has to wait."""


NOTHING_ELSE = Uses()
"""Cores and hosts are all that counts."""


@dataclass(eq=False, slots=True)
class Task:
    """A job in the queue: it takes `cores`, `memory` (bytes) and `gpus` on each of `hosts_wanted`
    hosts, all at once; with `nodearray` only on hosts of that.

    `label` is its name in the queue, which no other job has.

    `came` is when it came to the queue: when it was submitted, unless it waited for other jobs.
    `started` and `ended` are the times of the last run; `lost` counts runs that ended because a
    host went away, and `lost_core_seconds` is what they took.
    """

    number: int
    job: TraceJob
    hosts_wanted: int
    cores: int
    started: float | None = None
    ended: float | None = None
    lost: int = 0
    lost_core_seconds: float = 0.0
    memory: int = 0
    gpus: int = 0
    nodearray: str = ""
    came: float | None = None
    label: str = ""

    @property
    def arrival(self) -> float:
        """When it came, or, before that, when it was submitted."""
        return self.job.submitted if self.came is None else self.came

    @property
    def wait(self) -> float:
        """From when it came to when it last started; 0 before that."""
        return 0.0 if self.started is None else self.started - self.arrival

    @property
    def place(self) -> tuple[int, int, int, str]:
        """What it asks of a host: the same for jobs that fit on the same hosts."""
        return (self.cores, self.memory, self.gpus, self.nodearray)

    def is_no_easier_than(self, other: Task) -> bool:
        """Whether there is no room for it where there is none for another one."""
        return (
            self.hosts_wanted >= other.hosts_wanted
            and self.cores >= other.cores
            and self.memory >= other.memory
            and self.gpus >= other.gpus
            and other.nodearray in ("", self.nodearray)
        )


def task_of(number: int, job: TraceJob, host_cores: int, uses: Uses = NOTHING_ELSE) -> Task:
    """The job on hosts of so many cores: on one where it fits, otherwise spread evenly over as few
    as will do, or over as many as the record says."""
    hosts = max(job.nodes, ceil(job.cores / host_cores), 1)
    return Task(
        number,
        job,
        hosts,
        ceil(job.cores / hosts),
        label=job.name,
        memory=ceil((job.memory or 0) / hosts) if uses.memory else 0,
        gpus=ceil((job.gpus or 0) / hosts) if uses.gpus else 0,
        nodearray=uses.nodearray_of(job),
    )


@dataclass(eq=False, slots=True)
class TraceHost:
    """A host as the scheduler keeps it: `free` of its cores, `memory` and `gpus` are those that
    nothing runs on."""

    hostname: str
    node_id: str
    cores: int
    free: int
    takes_work: bool = True
    runs: dict[int, Run] = field(default_factory=dict)
    memory: int = 0
    gpus: int = 0
    nodearray: str = ""

    def holds(self, task: Task) -> bool:
        """Whether there is room for a job now."""
        return self.free >= task.cores and self.suits(task)

    def suits(self, task: Task) -> bool:
        """Whether a job may run here, cores apart."""
        return (
            self.memory >= task.memory
            and self.gpus >= task.gpus
            and task.nodearray in ("", self.nodearray)
        )


@dataclass(eq=False, slots=True)
class Run:
    """A job that runs: where, until when, and until when it is expected to. `number` tells it from
    other runs, also of that job."""

    number: int
    task: Task
    hosts: list[TraceHost]
    ends: float
    expected: float


class Scheduler:
    """The queue and the hosts; `now` is the time of the world, `ended` hears of jobs that are
    done."""

    def __init__(self, now: Callable[[], float], policy: str = "easy") -> None:
        self._now = now
        self.policy = policy
        self.hosts: dict[str, TraceHost] = {}  # by NodeId
        self.waiting: dict[int, Task] = {}  # in order of arrival
        self.running: dict[int, Run] = {}
        self.finished: list[Task] = []
        self.changes = 0
        self._starts = 0
        self._progress = 0.0
        self._ends: list[tuple[float, int, Run]] = []
        self._expected: list[tuple[float, int, Run]] = []
        self._by_free: dict[int, dict[TraceHost, None]] = {}

    # -- what happens

    def submit(self, tasks: Iterable[Task]) -> None:
        """Jobs arrive together."""
        for task in tasks:
            self.waiting[task.number] = task
        self.dispatch()

    def next_end(self) -> float | None:
        """When the next job ends."""
        while self._ends and not self._is_on(self._ends[0][2]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    @property
    def last_progress(self) -> float:
        """When the last job ended, or will end, of those that were never cut short; 0 where there
        is none."""
        running = self.running.values()
        return max((run.ends for run in running if not run.task.lost), default=self._progress)

    def _is_on(self, run: Run) -> bool:
        return self.running.get(run.task.number) is run

    def end_jobs(self) -> None:
        """End the jobs whose time is over, and start others."""
        now, ended = self._now(), False
        while (due := self.next_end()) is not None and due <= now:
            run = heapq.heappop(self._ends)[2]
            self._release(run)
            run.task.ended = run.ends
            if not run.task.lost:
                self._progress = run.ends
            self.finished.append(run.task)
            ended = True
        if ended:
            self.dispatch()

    def join(
        self,
        node_id: str,
        hostname: str,
        cores: int,
        memory: int = 0,
        gpus: int = 0,
        nodearray: str = "",
    ) -> None:
        """Take in a host, or let it take work again."""
        host = self.hosts.get(node_id)
        if host is None:
            host = TraceHost(
                hostname, node_id, cores, cores, memory=memory, gpus=gpus, nodearray=nodearray
            )
            self.hosts[node_id] = host
            self._file(host)
        elif not host.takes_work:
            host.takes_work = True
            self._file(host)
        self.changes += 1

    def drain(self, node_id: str) -> bool:
        """Let a host take no new work; whether nothing runs there."""
        host = self.hosts.get(node_id)
        if host is None:
            return True
        if host.takes_work:
            self._unfile(host)
            host.takes_work = False
            self.changes += 1
        return not host.runs

    def host_lost(self, node_id: str) -> None:
        """A host is no more. What ran there starts again from the beginning, before those that came
        later."""
        host = self.hosts.get(node_id)
        if host is None:
            return
        again = [run.task for run in host.runs.values()]
        for run in list(host.runs.values()):
            task = run.task
            self._release(run)
            task.lost += 1
            spent = self._now() - (task.started or 0.0)
            task.lost_core_seconds += spent * task.cores * task.hosts_wanted
            task.started = None
        if host.takes_work:
            self._unfile(host)
        del self.hosts[node_id]
        self.changes += 1
        if again:
            waiting = [*self.waiting.values(), *again]
            waiting.sort(key=lambda task: (task.arrival, task.number))
            self.waiting = {task.number: task for task in waiting}
            self.dispatch()

    # -- hosts by free cores

    def _file(self, host: TraceHost) -> None:
        self._by_free.setdefault(host.free, {})[host] = None

    def _unfile(self, host: TraceHost) -> None:
        alike = self._by_free[host.free]
        del alike[host]
        if not alike:
            del self._by_free[host.free]

    def _take(self, host: TraceHost, task: Task, times: int = 1) -> None:
        """Take what a job asks for; give it back with `times` -1."""
        host.memory -= times * task.memory
        host.gpus -= times * task.gpus
        if host.takes_work:
            self._unfile(host)
            host.free -= times * task.cores
            self._file(host)
        else:
            host.free -= times * task.cores

    def _with_room(self, task: Task) -> int:
        """How many hosts have room for a job."""
        if task.memory or task.gpus or task.nodearray:
            return sum(1 for _ in self._fullest_first(task))
        return sum(len(alike) for free, alike in self._by_free.items() if free >= task.cores)

    def _fullest_first(self, task: Task) -> Iterator[TraceHost]:
        for free in sorted(free for free in self._by_free if free >= task.cores):
            for host in self._by_free[free]:
                if host.suits(task):
                    yield host

    # -- starting

    def dispatch(self) -> None:
        """Start what can start."""
        self.changes += 1
        while self.waiting:
            head = next(iter(self.waiting.values()))
            if self._with_room(head) < head.hosts_wanted:
                if self.policy == "easy" and len(self.waiting) > 1:
                    self._backfill(head)
                return
            self._start(head, self._fullest_first(head))

    def _start(self, task: Task, hosts: Iterator[TraceHost]) -> None:
        now = self._now()
        chosen = [host for _, host in zip(range(task.hosts_wanted), hosts, strict=False)]
        self._starts += 1
        run = Run(self._starts, task, chosen, now + task.job.seconds, now + task.job.estimate)
        for host in chosen:
            self._take(host, task)
            host.runs[task.number] = run
        del self.waiting[task.number]
        task.started = now
        self.running[task.number] = run
        heapq.heappush(self._ends, (run.ends, run.number, run))
        insort(self._expected, (run.expected, run.number, run), key=_by_time)

    def _release(self, run: Run) -> None:
        task = run.task
        del self.running[task.number]
        for host in run.hosts:
            del host.runs[task.number]
            self._take(host, task, -1)
        self._expected.remove((run.expected, run.number, run))

    def _backfill(self, head: Task) -> None:
        """Start jobs behind the first one as far as that does not delay it."""
        promised, kept = self._promise(head)
        now = self._now()
        too_wide: list[Task] = []  # for which there is no room now
        for task in list(self.waiting.values())[1 : 1 + BACKFILL_DEPTH]:
            most = max(self._by_free, default=0)
            if not most:
                return
            if task.cores > most or any(map(task.is_no_easier_than, too_wide)):
                continue
            if self._with_room(task) < task.hosts_wanted:
                too_wide.append(task)
            elif now + task.job.estimate <= promised:
                self._start(task, self._fullest_first(task))
            else:
                free = [host for host in self._fullest_first(task) if host not in kept]
                if len(free) >= task.hosts_wanted:
                    self._start(task, iter(free))

    def _promise(self, head: Task) -> tuple[float, set[TraceHost]]:
        """When there will be room for a job by what is expected, and the hosts that it gets then.

        Hosts that are not free now are chosen first, so that as many as possible can be used until
        then.
        """
        there = dict.fromkeys(self._fullest_first(head))
        later: dict[TraceHost, tuple[int, int, int]] = {}
        coming: dict[TraceHost, None] = {}
        for expected, _, run in self._expected:
            for host in run.hosts:
                if not host.takes_work or head.nodearray not in ("", host.nodearray):
                    continue
                cores, memory, gpus = later.get(host, (host.free, host.memory, host.gpus))
                cores, memory = cores + run.task.cores, memory + run.task.memory
                later[host] = (cores, memory, gpus + run.task.gpus)
                fits = head.cores <= cores and head.memory <= memory and head.gpus <= later[host][2]
                if fits and host not in there:
                    coming[host] = None
            if len(there) + len(coming) >= head.hosts_wanted:
                chosen = [*reversed(coming), *there][: head.hosts_wanted]
                return expected, set(chosen)
        return inf, set()


def _by_time(entry: tuple[float, int, Run]) -> tuple[float, int]:
    return entry[:2]
