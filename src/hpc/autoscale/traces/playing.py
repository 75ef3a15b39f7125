"""One configuration against one workload, from the first job to the last node.

Time is virtual: it goes from one thing that is due to the next, and a pass of the production loop
takes none. A pass is run at each interval, as cron would, unless nothing has happened since the
last one and nothing is under way whose time counts.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, PassSummary
from hpc.autoscale.autoscaler.reporting import Reporter
from hpc.autoscale.collector import collecting_seldom
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.description import Description, MachineType, Nodearray
from hpc.autoscale.traces.arriving import Arrivals
from hpc.autoscale.traces.asking import Uses
from hpc.autoscale.traces.binding import SimulatedBinding
from hpc.autoscale.traces.driver import TraceDriver
from hpc.autoscale.traces.scheduling import (
    NOTHING_ELSE,
    Scheduler,
    Task,
    TraceHost,
    task_of,
)
from hpc.autoscale.traces.workload import TraceJob

_IN_MEMORY = Path("/dev/shm")

_KEEP_ALL = {"megabytes": 1_000_000, "days": 36_500}

STALLED_AFTER = 86400.0
"""When nothing has happened for so many seconds and nothing will by itself, a run ends."""

_OBJECTS_OF_PASSES = 20_000
"""After how many new containers the garbage collector runs: those of few passes, which are looked
at while they are in the processor's cache."""

RESTS_FOR = 86400.0
"""What has failed may be tried again at any time within so many seconds, without an event."""

LONGEST_REST = 30 * 86400.0
"""A run ends where no job has come or ended for so many seconds, or for as long as jobs came, those
that were cut short left out: one that is longer than its spot nodes live would go on for ever."""


@dataclass(frozen=True)
class Play:
    """What is played: a cluster, a configuration of the loop and a scheduler.

    `interval`: seconds from pass to pass. `fixed`: no loop; this many hosts of `host_cores` cores
    are there from the start to the end. `whole_nodes`: a job has its hosts for itself.
    `journal`: the directory in which the loop keeps its journal; None for no journal. `uses`: what
    of the jobs' requests counts beside cores and hosts.
    """

    name: str
    description: Description
    config: Mapping[str, Any]
    host_cores: int
    interval: float = 60.0
    policy: str = "easy"
    seed: int = 0
    fixed: int = 0
    whole_nodes: bool = False
    journal: str | None = None
    uses: Uses = NOTHING_ELSE

    @property
    def nodearrays(self) -> Mapping[str, Nodearray]:
        """The nodearrays of the cluster by name."""
        return next(iter(self.description.clusters.values())).nodearrays

    def widest(self, nodearray: str) -> int:
        """The cores of the widest host on which jobs of a nodearray may run; empty: of any."""
        if nodearray not in self.nodearrays:
            return self.host_cores
        return max(size.vcpus for size in self.nodearrays[nodearray].machine_types.values())


@dataclass
class NodeLife:
    """The life of one node. Times are unix seconds; None for what has not happened."""

    name: str
    nodearray: str
    vm_size: str
    region: str
    spot: bool
    cores: int
    created: float
    vm_up: float | None = None
    ready: float | None = None
    gone: float | None = None
    failed: bool = False


@dataclass
class Played:
    """What happened: the jobs by their number, the lives of the nodes, and what passes said.

    `impossible` are jobs that the machine could never run; they did not arrive. `not_in_journal`:
    how many passes could not be written to the journal, and why; empty when all were.
    """

    play: Play
    began: float
    ended: float
    tasks: list[Task]
    nodes: list[NodeLife]
    impossible: list[Task] = field(default_factory=list)
    passes: int = 0
    skipped: int = 0
    events: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    not_in_journal: str = ""

    @property
    def unfinished(self) -> int:
        """Jobs that never ran to their end."""
        return sum(task.ended is None for task in self.tasks)


class _VirtualClock(clock.Clock):
    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.now

    def sleep(self, n: float) -> None:
        self._world.pass_time(self._world.now + n)


class World:
    """The cluster and the scheduler, and the time that they share."""

    def __init__(self, play: Play, tasks: Sequence[Task]) -> None:
        self.now = tasks[0].job.submitted if tasks else 0.0
        self.scheduler = Scheduler(lambda: self.now, play.policy)
        self.lives: dict[str, NodeLife] = {}
        self.events: Counter[str] = Counter()
        self.changes = 0
        self._failed_at = -inf
        self.arrivals = Arrivals(tasks, play.uses.dependencies)
        self._told = 0
        rng = random.Random(f"{play.seed} behaviour")
        ids = random.Random(f"{play.seed} ids")
        self.cloud = Cloud(
            play.description,
            self.now,
            rng,
            lambda: str(uuid.UUID(int=ids.getrandbits(128), version=4)),
            self._note,
        )
        self.cluster = next(iter(self.cloud.clusters.values()))

    @property
    def is_done(self) -> bool:
        """Whether all jobs have come and ended."""
        scheduler = self.scheduler
        return self.arrivals.is_empty and not (scheduler.waiting or scheduler.running)

    @property
    def state(self) -> object:
        """A value that is the same for as long as nothing happens in the cluster and at the
        scheduler."""
        return self.changes, self.scheduler.changes, self.events.total()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way whose time counts for the loop: all nodes that there are
        work, and nothing that has failed is to be tried again for the jobs that wait."""
        hosts = self.scheduler.hosts
        if self.scheduler.waiting and self.now - self._failed_at <= RESTS_FOR:
            return False
        return len(hosts) == len(self.cloud.orchestrator.nodes) and all(
            host.runs and host.takes_work for host in hosts.values()
        )

    def next_due(self) -> float | None:
        """When the next thing happens by itself."""
        arrival = self.arrivals.next_due()
        times = (arrival, self.scheduler.next_end(), self.cloud.orchestrator.next_due())
        return min((when for when in times if when is not None), default=None)

    def pass_time(self, until: float) -> None:
        """Let everything happen that is due until then, each thing at its own time."""
        while (due := self.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self.changes += 1
            self.cloud.orchestrator.advance(self.now)
            self.scheduler.end_jobs()
            self._arrive()
        self.now = max(self.now, until)
        self.cloud.orchestrator.advance(self.now)

    def _arrive(self) -> None:
        finished = self.scheduler.finished
        for task in finished[self._told :]:
            self.arrivals.ended(task, self.now)
        self._told = len(finished)
        come = self.arrivals.take(self.now)
        if come:
            self.scheduler.submit(come)

    def _note(self, entry: dict[str, Any]) -> None:
        """The cluster says what happens to a node."""
        event, node_id = entry["event"], entry.get("node_id")
        self.events[event] += 1
        now = self.cloud.orchestrator.now
        if event in ("failed", "evicting", "limited"):
            self._failed_at = now
        if node_id is None:
            return
        if event == "created":
            self._born(node_id, now)
            return
        life = self.lives[node_id]
        if event == "preparing" and life.vm_up is None:
            life.vm_up = now
        elif event == "ready" and life.ready is None:
            life.ready = now
        elif event in ("terminated", "removed"):
            life.gone = life.gone or now
        elif event == "failed":
            life.failed = True
            self.events[f"failed: {entry.get('cause')}"] += 1
        if event in ("failed", "terminating", "deallocating"):
            self.scheduler.host_lost(node_id)

    def _born(self, node_id: str, now: float) -> None:
        node = self.cloud.orchestrator.nodes[node_id]
        array, size = node.nodearray, node.machine_type
        self.lives[node_id] = NodeLife(
            node.name, array.name, size.name, array.region, array.spot, size.vcpus, now
        )


class _Quiet(Reporter):
    """Counts what passes could not do."""

    def __init__(self, found: Counter[str]) -> None:
        self._found = found

    def pass_started(self, dry_run: bool) -> None:
        """Nothing is said."""

    def pass_finished(self, summary: PassSummary) -> None:
        """Count the errors."""
        self._found.update(str(error) for error in summary.errors)


def play_trace(
    play: Play,
    jobs: Sequence[TraceJob],
    progress: Callable[[float, int], None] | None = None,
) -> Played:
    """Let jobs arrive at a cluster, and say what came of it.

    `progress` hears now and then of the time and of how many jobs have ended. The state of this
    process (clock, ids, log) is as it was afterwards.
    """
    every = _tasks(jobs, play)
    room = _room(play)
    tasks = [task for task in every if room(task)]
    impossible = [task for task in every if not room(task)]
    if play.fixed:
        return _without_loop(play, tasks, impossible)
    world = World(play, tasks)
    played = Played(play, world.now, world.now, tasks, [], impossible)
    with _a_world_of_its_own(world, play) as home:
        config = {**_config(play, home), "_mock_bindings": SimulatedBinding(world.cluster)}
        driver = TraceDriver(world.scheduler, home, play.uses)
        quiet = _Quiet(played.errors)
        # what watches the loop of the site is not to hear of passes that never were
        autoscaler = Autoscaler(config, driver, clock=clock, reporter=quiet, has_spans=False)
        _run(world, autoscaler, played, progress)
        driver.close_histories()
        played.not_in_journal = autoscaler.not_in_journal
    played.ended = world.now
    played.nodes = list(world.lives.values())
    played.events = world.events
    return played


def _room(play: Play) -> Callable[[Task], bool]:
    """Whether the whole machine could hold a job, if it were empty."""
    status = World(play, ()).cluster.status(False)
    most_at_once = play.fixed or status.max_count
    hosts = [
        (_host(play.nodearrays[array.name], bucket.definition.machine_type), bucket.available_count)
        for array in status.nodearrays
        for bucket in array.buckets
        if bucket.valid and bucket.definition is not None
    ]

    def most(task: Task) -> int:
        fit = (count for host, count in hosts if host.holds(task))
        return min(sum(fit), most_at_once)

    known: dict[tuple[object, ...], int] = {}

    def holds(task: Task) -> bool:
        if task.place not in known:
            known[task.place] = most(task)
        return task.hosts_wanted <= known[task.place]

    return holds


def _host(array: Nodearray, vm_size: str) -> TraceHost:
    """An empty host of a VM size."""
    size = array.machine_types[vm_size.lower()]
    cores, memory = size.vcpus, bytes_of(size)
    return TraceHost("", "", cores, cores, True, {}, memory, size.gpus, array.name)


def bytes_of(size: MachineType) -> int:
    """The memory of a VM size."""
    return int(size.memory_gb * 2**30)


def _tasks(jobs: Sequence[TraceJob], play: Play) -> list[Task]:
    tasks = []
    names: set[str] = set()
    for number, job in enumerate(jobs):
        host_cores = play.widest(play.uses.nodearray_of(job))
        task = task_of(number, job, host_cores, play.uses)
        if play.whole_nodes:
            task.cores = host_cores
        if job.name in names:
            task.label = f"{job.name}-again-{number}"
        names.add(job.name)
        tasks.append(task)
    return tasks


def _run(
    world: World,
    autoscaler: Autoscaler,
    played: Played,
    progress: Callable[[float, int], None] | None,
) -> None:
    """Passes at each interval, until all jobs have ended and no node is left, or nothing happens
    any more."""
    interval = played.play.interval
    tick = happened_at = began = world.now
    last = played.tasks[-1].job.submitted if played.tasks else began
    rest = max(LONGEST_REST, last - began)
    seen: object = None
    while not (world.is_done and not world.cloud.orchestrator.nodes):
        latest = max(last, world.scheduler.last_progress) + rest
        if world.now >= latest:
            return
        world.pass_time(tick)
        if world.state == seen and world.is_quiet:
            tick = _next_tick(world, tick, interval, latest)
            played.skipped += 1
            continue
        if world.state != seen or world.next_due() is not None:
            happened_at = world.now
        elif world.now - happened_at > STALLED_AFTER:
            return
        played.passes += 1
        try:
            autoscaler.run_once()
        except AutoscaleError as error:
            played.errors[str(error)] += 1
        seen = world.state
        tick += interval
        if progress is not None and played.passes % 100 == 0:
            progress(world.now, len(world.scheduler.finished))


def _next_tick(world: World, tick: float, interval: float, latest: float) -> float:
    """The first pass at or after which something is due, or the run ends."""
    due = world.next_due()
    if due is None:
        return tick + interval
    due = min(due, latest)
    return tick + max(1, -(-(due - tick) // interval)) * interval


def _config(play: Play, home: str) -> dict[str, Any]:
    section = {**(play.config.get("autoscale") or {}), "interval": play.interval}
    return {
        **play.config,
        "cluster_name": next(iter(play.description.clusters)),
        "lock_file": None,
        "journal": False if play.journal is None else _KEEP_ALL | {"directory": play.journal},
        "nodehistorydb": f"{home}/nodehistory.db",
        "autoscale": section,
    }


@contextmanager
def _a_world_of_its_own(world: World, play: Play) -> Iterator[str]:
    """The clock and the log of this process are those of the run; gives a directory for files."""
    with ExitStack() as stack:
        stack.callback(clock.use_clock, clock.use_clock(_VirtualClock(world)))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        stack.enter_context(collecting_seldom(_OBJECTS_OF_PASSES))
        where = _IN_MEMORY if _IN_MEMORY.is_dir() else tempfile.gettempdir()
        home = os.path.join(where, f"azscale-{uuid.uuid4().hex}")
        # before it is made: a signal may end the run as soon as it is there
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        os.mkdir(home, mode=0o700)
        yield home


def _without_loop(play: Play, tasks: list[Task], impossible: list[Task]) -> Played:
    """The machine of a fixed size."""
    world = World(play, tasks)
    began = world.now
    array = next(iter(world.cluster.description.nodearrays.values()))
    size = next(iter(array.machine_types.values()))
    for number in range(play.fixed):
        name = f"fixed-{number}"
        world.scheduler.join(
            name, name, play.host_cores, bytes_of(size), size.gpus, nodearray=array.name
        )
    while not world.is_done and (due := world.next_due()) is not None:
        world.pass_time(due)
    lives = [
        NodeLife(
            f"fixed-{number}",
            array.name,
            size.name,
            array.region,
            array.spot,
            play.host_cores,
            began,
            began,
            began,
            world.now,
        )
        for number in range(play.fixed)
    ]
    return Played(play, began, world.now, tasks, lives, impossible)
