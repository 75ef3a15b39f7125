"""A process that is killed at any of its steps leaves the right number of machines behind, once
another one has taken over: also while somebody else makes nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpc.autoscale.node.nodemanager import new_node_manager
from simulation.disk import directory
from simulation.process import Killed, Machine, Process
from simulation.script import CORES, HTC, MPI, Script, Shape, Trouble, Work
from simulation.world import START, World

pytestmark = pytest.mark.no_cover

ARRIVES = 2650.0
"""When the gang of `EARLY_AND_LATE` arrives, and the nodes of the early job have been idle for long
enough."""

EARLY_AND_LATE = Script(
    seed=0,
    shape=Shape({HTC: 10, "spot": 5, MPI: 8}, 10_000, 10_000),
    works=(
        Work(1, 10.0, 800.0, (HTC,), 3, CORES[HTC]),
        Work(2, ARRIVES - 1, 600.0, (MPI,), 4, CORES[MPI], nodes=4),
    ),
    troubles=(),
)
"""The first pass after the gang has come creates its four nodes and deletes the three idle ones."""

MADE = {HTC: 3, MPI: 4}
OTHERS = 2


@dataclass
class Stage:
    """A world just before the pass that both creates and deletes, and its machine."""

    world: World
    machine: Machine

    def run_pass(self, kill_at: int | None = None, others_at: int | None = None) -> Process:
        """A pass of a new process, which is killed at a step of it, and at a step of which another
        process makes nodes."""
        process = Process(self.world, self.machine.home)
        process.kill_at = kill_at
        if others_at is not None:
            process.meanwhile[others_at] = self.others_make_nodes
        with self.machine.running(process):
            try:
                process.autoscaler.run_once()
            except Killed:
                process.dead = True
        for other in process.meanwhile.values():  # it waited for a file of the one that ended
            other()
        return process

    def others_make_nodes(self) -> None:
        """Another process makes nodes of htc, and writes its request ids to the same file."""
        other = Process(self.world, self.machine.home, "person")
        requests_file = str(self.machine.home / "requests.json")
        with self.machine.running(other), self.world.watch.kept():
            node_mgr = new_node_manager({**other.config, "requests_file": requests_file})
            new = {"node.nodearray": HTC, "node.exists": False, "ncpus": CORES[HTC]}
            assert node_mgr.allocate(new, OTHERS)
            assert node_mgr.bootup()

    def machines(self) -> dict[str, int]:
        """How many nodes were ever made, by nodearray."""
        made = dict.fromkeys(MADE, 0)
        for entry in self.world.watch.created_nodes:
            made[entry] += 1
        return made

    def left(self) -> dict[str, int]:
        """How many nodes are there or on their way."""
        there = dict.fromkeys(MADE, 0)
        for node in self.world.cluster.nodes():
            there[node.nodearray.name] += node.counts
        return there


@contextmanager
def a_stage(*troubles: Trouble) -> Iterator[Stage]:
    """A world on the eve of the pass."""
    script = Script(EARLY_AND_LATE.seed, EARLY_AND_LATE.shape, EARLY_AND_LATE.works, troubles)
    world = World(script)
    with directory() as home:
        machine = Machine(world, Path(home))
        stage = Stage(world, machine)
        with machine.switched_on():
            for when in (30.0, 400.0, 770.0, 1140.0, 1510.0, 1880.0, 2250.0):
                world.pass_time(START + when - world.now)
                stage.run_pass()
            world.pass_time(START + ARRIVES - world.now)
            yield stage


def _steps() -> int:
    with a_stage() as stage:
        return stage.run_pass().steps


STEPS = _steps()


def _recover(stage: Stage) -> None:
    for _ in range(3):
        stage.world.pass_time(60)
        stage.run_pass()


def test_the_pass_creates_and_deletes() -> None:
    with a_stage() as stage:
        assert stage.left() == {HTC: 3, MPI: 0}
        stage.run_pass()
        assert stage.machines() == MADE
        assert stage.left() == {HTC: 0, MPI: 4}
    assert STEPS >= 20


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_killed_at_a_step(step: int) -> None:
    with a_stage() as stage:
        assert stage.run_pass(step).dead
        _recover(stage)
        assert stage.machines() == MADE
        assert stage.left() == {HTC: 0, MPI: 4}


@pytest.mark.parametrize("step", range(1, STEPS + 1, 2))
def test_killed_while_somebody_else_makes_nodes(step: int) -> None:
    with a_stage() as stage:
        stage.run_pass(kill_at=step, others_at=step)
        _recover(stage)
        assert stage.machines() == {HTC: 3 + OTHERS, MPI: 4}
        assert stage.left() == {HTC: OTHERS, MPI: 4}


@pytest.mark.parametrize("step", range(2, STEPS + 1, 2))
def test_somebody_else_makes_nodes_meanwhile(step: int) -> None:
    with a_stage() as stage:
        stage.run_pass(others_at=step)
        _recover(stage)
        assert stage.machines() == {HTC: 3 + OTHERS, MPI: 4}
        assert stage.left() == {HTC: OTHERS, MPI: 4}
