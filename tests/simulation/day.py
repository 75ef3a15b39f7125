"""A whole day: the script is played, and what came of it is told."""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from simulation.disk import directory
from simulation.invariants import Violation
from simulation.process import Killed, Machine, Process
from simulation.script import INTERVAL, Script
from simulation.world import World


@dataclass
class Report:
    """What came of a day. `violation` is None when every invariant held."""

    seed: int
    passes: int = 0
    failed_passes: int = 0
    kills: int = 0
    made: int = 0
    most_nodes: int = 0
    jobs: int = 0
    gangs: int = 0
    lost_tasks: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    violation: str | None = None
    invariant: str | None = None
    trace: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """How many things went wrong."""
        return self.fired.total()

    @property
    def fingerprint(self) -> str:
        """The same for days on which the same happened."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        verdict = f"FAILED: {self.violation}" if self.violation else "ok"
        return (
            f"seed {self.seed}: {self.passes} passes ({self.failed_passes} with errors),"
            f" {self.jobs} jobs, {self.gangs} gangs, {self.made} nodes made, {self.most_nodes} at"
            f" most, {self.faults} faults of {len(self.fired)} kinds, {self.kills} kills: {verdict}"
        )


def run_day(script: Script, passes: int | None = None) -> Report:
    """Play a script, or the first passes of it."""
    world = World(script)
    was_collecting = gc.isenabled()
    gc.disable()
    with directory() as home:
        machine = Machine(world, Path(home))
        violation = None
        try:
            with machine.switched_on():
                _play(world, machine, passes)
                if world.is_done:
                    world.watch.at_the_end()
        except Violation as found:
            violation = found
        finally:
            if was_collecting:
                gc.enable()
    watch = world.watch
    watch.note(f"the end: {violation or 'ok'}")
    return Report(
        seed=script.seed,
        passes=watch.passes,
        failed_passes=watch.failed_passes,
        kills=world.fired["killed"],
        made=watch.made,
        most_nodes=watch.most_nodes,
        jobs=len(script.works),
        gangs=sum(work.nodes > 0 for work in script.works),
        lost_tasks=world.scheduler.lost_tasks,
        fired=+world.fired,
        violation=None if violation is None else str(violation),
        invariant=None if violation is None else violation.invariant,
        trace=watch.trace,
    )


def _play(world: World, machine: Machine, passes: int | None) -> None:
    """One process after the other, until the day is over or so many passes were made."""

    def is_over() -> bool:
        return world.is_done or (passes is not None and world.watch.passes >= passes)

    while not is_over():
        process = Process(world, machine.home)
        try:
            with machine.running(process):
                process.autoscaler.run_forever(INTERVAL, should_stop=is_over)
        except Killed:
            world.pass_time(world.restart_after)
