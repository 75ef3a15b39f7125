"""One process of the autoscaler in the simulated world: the library's own loop, client, history and
request log, with the world's network, disk and clock."""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import requests

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, learning
from hpc.autoscale.autoscaler.reporting import Reporter
from hpc.autoscale.autoscaler.summary import PassError, PassSummary
from hpc.autoscale.ccbindings import pacing as pauses
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.errors import InvalidSelection
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.waits import SavedWaits
from hpc.autoscale.errors import AutoscaleError, MultipleInstancesError
from hpc.autoscale.hpctypes import NodeId, NodeName, NodeStatus
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.schedulernode import TempNode
from hpc.autoscale.node import requests as request_log
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.guards import AWAY, Asker
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.testing.process import a_process_of_its_own
from hpc.autoscale.util import NullSingletonLock
from simulation import wire
from simulation.disk import Disk
from simulation.invariants import COMMANDS, Violation
from simulation.scheduler import SimDriver, Told
from simulation.script import (
    BOOT_TIMEOUT,
    CLUSTER,
    GANG_DEADLINE,
    IDLE_TIMEOUT,
    INTERVAL,
    MPI,
    Trouble,
)
from simulation.world import World


class Killed(BaseException):
    """The process ends here, as after kill -9."""


class Process:
    """A process; `home` has its files. `steps` counts its requests and writes so far, and
    `meanwhile` has what others do just before one of them."""

    def __init__(self, world: World, home: Path, name: str = "main") -> None:
        self.world = world
        self.name = name
        self.steps = 0
        self.kill_at: int | None = None
        self.meanwhile: dict[int, Callable[[], None]] = {}
        self.dead = False
        self.calculator: DemandCalculator | None = None
        self.told = Told()
        self.readings = 0
        self.session = wire.DirectSession(wire.Wire(world, self.step))
        self.disk = Disk(self.step)
        shape = world.script.shape
        limits = {
            "max_new_nodes_per_pass": shape.max_new,
            "max_deletes_per_pass": shape.max_deletes,
            "min_idle_passes": shape.min_idle_passes,
            "min_lifetime": shape.min_lifetime,
        }
        config: dict[str, Any] = {
            "cluster_name": CLUSTER,
            "url": wire.URL,
            "username": wire.USER,
            "password": wire.PASSWORD,
            "lock_file": str(home / "lock.file"),
            "journal": False,
            "nodehistorydb": str(home / "nodehistory.db"),
            "idle_timeout": IDLE_TIMEOUT,
            "boot_timeout": BOOT_TIMEOUT,
            "autoscale": {
                "interval": INTERVAL,
                "gang_deadline": GANG_DEADLINE,
                **{key: value for key, value in limits.items() if value is not None},
            },
        }
        waits = SavedWaits(home / "requests.waits.json", lambda: world.now, world.clock.time)
        pacing = Pacing(
            now=lambda: world.now,
            sleep=world.pass_time,
            wall_clock=world.clock.time,
            jitter=world.rng.random,
            not_before=waits,
        )
        client = Client(config, pacing)
        self.binding = ClusterBinding(config, client.session, client)
        self.config = {**config, "_mock_bindings": self.binding}
        self.autoscaler = Autoscaler(
            self.config,
            self.new_driver,
            clock=world.clock,
            reporter=_Reporter(self),
            new_calculator=self._new_calculator,
        )

    def step(self, name: str) -> None:
        """A request or a write is about to happen. Raises Killed when it is the last thing that
        this process does."""
        self.steps += 1
        if self.steps in self.meanwhile:
            other = self.meanwhile.pop(self.steps)
            if name == "commit":  # the file is locked, and the other one waits for it
                self.meanwhile[self.steps + 1] = other
            else:
                other()
        if self.dead or self.steps == self.kill_at:
            self.world.fired["killed"] += not self.dead
            self.dead = True
            self.world.watch.note(f"{self.name} is killed at {name}")
            raise Killed(name)
        self.disk.full = self.world.disk_is_full

    def new_driver(self) -> SchedulerDriver:
        """A driver, as the loop makes one for each pass."""
        return SimDriver(
            self.world.scheduler, self.world.script.shape.careful, self._on_ask, self._on_reading
        )

    def _on_ask(self, kind: str) -> None:
        if self.calculator is not None:
            self.world.on_request(kind)

    def _on_reading(self, told: Told) -> None:
        self.readings += 1
        if self.calculator is None:
            self.told = told
            self.world.watch.told_jobs()

    def _new_calculator(
        self, config: dict[str, Any], driver: SchedulerDriver
    ) -> tuple[DemandCalculator, Any]:
        self.calculator, jobs = learning.new_calculator(config, driver)
        return self.calculator, jobs

    def begin_pass(self) -> None:
        """Nothing is known yet in a new pass."""
        self.calculator = None
        self.told = Told()
        self.readings = 0
        self.world.watch.begin_pass(self)


class _Reporter(Reporter):
    """Tells the watch about passes."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def pass_started(self, dry_run: bool) -> None:
        self._process.begin_pass()

    def pass_finished(self, summary: PassSummary) -> None:
        self._process.world.watch.end_pass(self._process, summary.errors)

    def pass_failed(self, error: PassError, failures: int, pause: float) -> None:
        self._process.world.watch.end_pass(self._process, (error,))


def _named_by_hand(process: Process, trouble: Trouble) -> tuple[list[Node], NodeManager]:
    """The nodes that a person names, as far as the scheduler gives them up, and their manager."""
    config = {**process.config, "lock_file": None}
    driver = process.new_driver()
    try:
        calculator, _ = learning.new_calculator(config, driver, lock=NullSingletonLock())
    finally:
        driver.close_histories()
    node_mgr = calculator.node_mgr
    nodes = [node for node in node_mgr.get_nodes() if node.managed and node.state == "Ready"]
    random.Random(trouble.part).shuffle(nodes)
    nodes = driver.handle_draining(nodes[: int(trouble.amount)])
    for node in nodes[:1]:
        node.required = True
    for node in nodes[1:2]:
        node.state = NodeStatus(AWAY)  # as one of a cluster that does not answer
    stranger = TempNode("elsewhere", node_id=DelayedNodeId(NodeName("x"), NodeId("elsewhere")))
    planned = list(node_mgr.allocate({"node.nodearray": MPI, "node.exists": False}, 1).nodes or ())
    for node in planned:
        node.assignments.clear()
        node.required = False
    return [stranger, *planned, *nodes], node_mgr


class Machine:
    """The machine that processes run on: which one runs now, and where its calls go."""

    def __init__(self, world: World, home: Path) -> None:
        self.world = world
        self.home = home
        self.kills = 0
        self._running: list[Process] = []
        self._other: sqlite3.Connection | None = None
        world.watch.home = str(home)
        world.second_loop = self._run_second
        world.person = self._run_person
        world.kill = self._kill
        world.file_trouble = self._spoil

    def _here(self) -> request_log.Sender:
        """The process that runs now, as it notes itself with what it sends."""
        process = self._running[-1]
        return request_log.Sender("machine", id(process), f"one-boot/0/{process.name}")

    def _state_of(self, sender: request_log.Sender) -> str:
        """Whether a process has ended: those that wait while another one runs have not."""
        running = [process for process in self._running if not process.dead]
        return "running" if sender.pid in map(id, running) else "ended"

    def _kill(self, steps: int) -> None:
        if self._running:
            process = self._running[0]
            process.kill_at = process.steps + steps

    def _spoil(self, kind: str) -> None:
        path = self.home / "nodehistory.db"
        if kind == "history_locked":
            with suppress(sqlite3.Error):  # it may be garbled, or nobody may write now
                self._other = sqlite3.connect(path, isolation_level=None)
                self._other.execute("BEGIN IMMEDIATE")
        elif kind == "history_unlocked":
            if self._other is not None:
                self._other.close()
        elif kind in ("history_gone", "begins_anew"):
            path.unlink(missing_ok=True)
        elif path.exists():
            path.write_bytes(b"this is no database" * 300)

    def _run_second(self) -> None:
        """Another process begins a pass while one is in the middle of its own."""
        process = Process(self.world, self.home, "second")
        watch = self.world.watch
        with self.running(process), watch.kept():
            try:
                process.autoscaler.run_once()
            except MultipleInstancesError:
                watch.note("a second loop was refused")
            except Exception as error:
                watch.note(f"a second loop failed: {error}")

    def _run_person(self, trouble: Trouble) -> None:
        """Somebody deletes some nodes by hand. They name a machine of another cluster, a node that
        was never made, one that is required, and one whose cluster does not answer, too."""
        process = Process(self.world, self.home, "person")
        watch = self.world.watch
        with self.running(process), watch.kept():
            try:
                nodes, node_mgr = _named_by_hand(process, trouble)
            except (AutoscaleError, OSError) as error:
                watch.note(f"a person could not look: {error}")
                return
            watch.reserved = {
                str(n.delayed_node_id.node_id) for n in nodes if n.required or n.state == AWAY
            }
            node_mgr.gate.facts.asker = Asker.PERSON
            try:
                result = node_mgr.delete(nodes)
                watch.note(f"a person deletes {len(result.nodes or ())} of {len(nodes)} nodes")
            except InvalidSelection as error:
                raise Violation(COMMANDS, str(error)) from error
            except (AutoscaleError, OSError) as error:
                watch.note(f"a person could not delete: {error}")

    @contextmanager
    def running(self, process: Process) -> Iterator[None]:
        """While this lasts, the process is the one that runs."""
        self._running.append(process)
        self.world.watch.process = process
        try:
            with process.disk.in_use():
                yield
        finally:
            self.world.watch.ended()
            self._running.pop()
            self.world.watch.process = self._running[-1] if self._running else None

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """The library's clock, network and ids are those of the world in this block, and nobody
        reads its log."""
        ids = random.Random(f"ids {self.world.script.seed}")
        with ExitStack() as stack:
            stack.callback(clock.use_clock, clock.use_clock(self.world.clock))
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.CRITICAL)
            patch = stack.enter_context
            patch(a_process_of_its_own())
            patch(mock.patch.object(requests, "Session", lambda: self._running[-1].session))
            patch(mock.patch.object(pauses, "NOTICE_WITHIN", 60.0))
            sender = request_log.Sender
            patch(mock.patch.object(sender, "here", lambda: self._here()))
            patch(mock.patch.object(sender, "state", lambda sender: self._state_of(sender)))
            new_id = mock.patch.object(
                request_log, "random_uuid", lambda: f"{ids.getrandbits(64):016x}"
            )
            patch(new_id)
            yield
