"""One process of the autoscaler in the simulated world: the library's own loop, client, history and
request log, with the world's network, disk and clock."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import requests
from requests.sessions import Session

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, learning, loop
from hpc.autoscale.autoscaler.reporting import Reporter
from hpc.autoscale.autoscaler.summary import PassError, PassSummary
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.waits import SavedWaits
from hpc.autoscale.errors import MultipleInstancesError
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node import operations
from simulation import wire
from simulation.disk import Disk
from simulation.scheduler import SimDriver, Told
from simulation.script import BOOT_TIMEOUT, CLUSTER, IDLE_TIMEOUT, INTERVAL
from simulation.world import World


class Killed(BaseException):
    """The process ends here, as after kill -9."""


class Process:
    """A process; `home` has its files. `steps` counts its requests and writes so far."""

    def __init__(self, world: World, home: Path, name: str = "main") -> None:
        self.world = world
        self.name = name
        self.steps = 0
        self.kill_at: int | None = None
        self.dead = False
        self.calculator: DemandCalculator | None = None
        self.told = Told()
        self.session = Session()
        self.session.mount(wire.URL, wire.Wire(world, self.step))
        self.disk = Disk(self.step)
        shape = world.script.shape
        limits = {
            "max_new_nodes_per_pass": shape.max_new,
            "max_deletes_per_pass": shape.max_deletes,
        }
        config: dict[str, Any] = {
            "cluster_name": CLUSTER,
            "url": wire.URL,
            "username": wire.USER,
            "password": wire.PASSWORD,
            "lock_file": str(home / "lock.file"),
            "nodehistorydb": str(home / "nodehistory.db"),
            "idle_timeout": IDLE_TIMEOUT,
            "boot_timeout": BOOT_TIMEOUT,
            "autoscale": {
                "interval": INTERVAL,
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
        self.autoscaler = Autoscaler(
            {**config, "_mock_bindings": self.binding},
            self._new_driver,
            clock=world.clock,
            reporter=_Reporter(self),
            new_calculator=self._new_calculator,
        )

    def step(self, name: str) -> None:
        """A request or a write is about to happen. Raises Killed when it is the last thing that
        this process does."""
        self.steps += 1
        if self.dead or self.steps == self.kill_at:
            self.world.fired["killed"] += not self.dead
            self.dead = True
            self.world.watch.note(f"{self.name} is killed at {name}")
            raise Killed(name)
        self.disk.full = self.world.disk_is_full

    def _new_driver(self) -> SchedulerDriver:
        return SimDriver(self.world.scheduler, self.world.script.shape.careful, self._on_reading)

    def _on_reading(self, told: Told) -> None:
        if self.calculator is None:
            self.told = told
        else:
            self.world.on_request("reread")

    def _new_calculator(
        self, config: dict[str, Any], driver: SchedulerDriver
    ) -> tuple[DemandCalculator, Any]:
        self.calculator, jobs = learning.new_calculator(config, driver)
        return self.calculator, jobs

    def begin_pass(self) -> None:
        """Nothing is known yet in a new pass."""
        self.calculator = None
        self.told = Told()
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


class Machine:
    """The machine that processes run on: which one runs now, and where its calls go."""

    def __init__(self, world: World, home: Path) -> None:
        self.world = world
        self.home = home
        self.kills = 0
        self._running: list[Process] = []
        world.watch.home = str(home)
        world.second_loop = self._run_second
        world.kill = self._kill
        world.file_trouble = self._spoil

    def _kill(self, steps: int) -> None:
        if self._running:
            process = self._running[0]
            process.kill_at = process.steps + steps

    def _spoil(self, kind: str) -> None:
        path = self.home / "nodehistory.db"
        if kind == "history_gone":
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

    @contextmanager
    def running(self, process: Process) -> Iterator[None]:
        """While this lasts, the process is the one that runs."""
        self._running.append(process)
        self.world.watch.process = process
        try:
            with process.disk.in_use():
                yield
        finally:
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
            patch(mock.patch.object(requests, "Session", lambda: self._running[-1].session))
            patch(mock.patch.object(loop, "NOTICE_WITHIN", 60.0))
            patch(
                mock.patch.object(operations, "random_uuid", lambda: f"{ids.getrandbits(64):016x}")
            )
            yield
