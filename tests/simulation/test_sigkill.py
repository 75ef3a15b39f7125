"""A real process that ends by kill -9 in the middle of a pass leaves the right number of machines
behind, once another one has taken over."""

import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpc.autoscale.testing.builders import SimulatedCluster, a_simulated_cluster
from simulation.disk import directory
from simulation.victim import INTERVAL, be_killed, one_pass

KILLS = 20
SIZES = {"htc": {"Standard_F4s_v2": 10}, "other": {"Standard_D4s_v5": 10}}
EARLY, LATE = {"htc": 3}, {"other": 4}
"""What is wanted at first, and by the pass that is killed: it creates four and deletes three."""


@dataclass
class Site:
    """A server, the files of the processes, and the time that they are told."""

    cluster: SimulatedCluster
    home: Path
    now: float

    def run_pass(self, wanted: dict[str, int]) -> int:
        """A pass that nobody kills; how many steps it took."""
        steps: list[str] = []
        one_pass(self.cluster.config, self.home, self.now, wanted, steps.append)
        return len(steps)

    def wait(self, seconds: float) -> None:
        """Time passes for everybody."""
        self.now += seconds
        self.cluster.simulator.clock.advance(seconds)

    def machines(self) -> Counter[str]:
        """How many nodes were ever made, by nodearray."""
        created = self.cluster.simulator.journal.entries(event="created")
        return Counter(entry["nodearray"] for entry in created)

    def left(self) -> Counter[str]:
        """How many nodes are there or on their way."""
        nodes = self.cluster.handle.nodes()
        return Counter(n["Template"] for n in nodes if n["TargetState"] == "Started")


@contextmanager
def a_site() -> Iterator[Site]:
    """A site on the eve of the pass: three nodes are there and idle."""
    with directory() as home, a_simulated_cluster("c1", **SIZES) as cluster:
        site = Site(cluster, Path(home), 1_000_000.0)
        for wanted in (EARLY, EARLY, {}, {}):
            site.run_pass(wanted)
            site.wait(INTERVAL)
        yield site


@pytest.fixture(scope="module")
def steps() -> int:
    """How many steps the pass has."""
    with a_site() as site:
        assert site.left() == EARLY
        steps = site.run_pass(LATE)
        assert site.machines() == EARLY | LATE
        assert site.left() == LATE
    return steps


@pytest.mark.no_cover
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_for_good(number: int, steps: int) -> None:
    assert steps >= KILLS
    at = 1 + number * (steps - 1) // (KILLS - 1)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["simulation.victim"])
    with a_site() as site:
        victim = processes.Process(
            target=be_killed, args=(site.cluster.config, site.home, site.now, LATE, at)
        )
        victim.start()
        victim.join(60)
        assert victim.exitcode == -signal.SIGKILL
        for _ in range(2):
            site.wait(10)
            site.run_pass(LATE)
        assert site.machines() == EARLY | LATE
        assert site.left() == LATE
