import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.collector import collecting_seldom, passing
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import NullNodeHistory


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 11, 12)
    yield
    gc.set_threshold(*before)


def test_collects_less_often_within_and_as_before_after() -> None:
    """Only the first number changes, and only inside."""
    with collecting_seldom():
        assert gc.get_threshold() == (100_000, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


@pytest.fixture
def collected() -> Iterator[list[int]]:
    """The generations that are collected."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.collect()  # what earlier tests have left would be collected at some moment of this one
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def many() -> list[list[int]]:
    """More containers than the interpreter waits for."""
    return [[] for _ in range(2_000)]


def test_leaving_looks_at_what_is_new_and_at_nothing_older(collected: list[int]) -> None:
    """However long an older generation has been due."""
    gc.set_threshold(700, 0, 0)  # every collection is one of everything
    with collecting_seldom():
        kept = many()
    assert collected == [0]
    assert len(kept) == 2_000


@pytest.mark.parametrize("count", [0, 10])
def test_leaving_collects_nothing_where_little_is_new(collected: list[int], count: int) -> None:
    """It is not worth it then."""
    gc.collect()
    collected.clear()
    with collecting_seldom():
        kept = [[] for _ in range(count)]
    assert (collected, len(kept)) == ([], count)


def test_a_host_that_has_turned_it_off_is_left_alone(collected: list[int]) -> None:
    """Nothing is collected on leaving either."""
    gc.disable()
    try:
        with collecting_seldom():
            kept = many()
        assert (collected, len(kept)) == ([], 2_000)
    finally:
        gc.enable()


def test_an_error_puts_it_back() -> None:
    """Whatever is raised inside goes through, and the setting is as before."""
    with pytest.raises(ValueError, match="within"), collecting_seldom():
        raise ValueError("within")
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [(0, 10, 10), (100_001, 10, 10)])
def test_a_host_that_collects_less_often_is_left_alone(own: tuple[int, int, int]) -> None:
    """Never, or after more objects than here, stays so."""
    gc.set_threshold(*own)
    with collecting_seldom():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_the_host_sets_meanwhile_stays() -> None:
    """The last word is the host's."""
    with collecting_seldom():
        gc.set_threshold(800, 9, 9)
    assert gc.get_threshold() == (800, 9, 9)


def test_threads_that_overlap_leave_it_as_the_first_found_it() -> None:
    """The last one to leave puts it back, whichever came first."""
    inside, go = Event(), Event()

    def other() -> None:
        with collecting_seldom():
            inside.set()
            go.wait(10)

    with collecting_seldom():
        thread = Thread(target=other)
        thread.start()
        inside.wait(10)
    during = gc.get_threshold()
    go.set()
    thread.join()
    assert (during, gc.get_threshold()) == ((100_000, 11, 12), (700, 11, 12))


def test_a_pass_leaves_no_trace() -> None:
    """After making a calculator, adding jobs and asking for the demand it is as before."""
    config = {"_mock_bindings": MockClusterBinding()}
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    calculator.add_jobs([])
    calculator.get_demand()
    assert gc.get_threshold() == (700, 11, 12)


def test_the_outermost_block_says_how_many_objects():
    with collecting_seldom(20_000):
        assert gc.get_threshold()[0] == 20_000
        with collecting_seldom():
            assert gc.get_threshold()[0] == 20_000
    assert gc.get_threshold()[0] < 20_000


class Watching(GenericDriver):
    """Notes how the collector stands while a pass reads."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.found: list[tuple[int, int, int]] = []

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self.found.append(gc.get_threshold())
        return [], []


def test_a_whole_pass_collects_less_often(tmp_path: Path) -> None:
    """From its beginning to its end, and what is older soon enough; so does one that only looks."""
    driver = Watching()
    history = str(tmp_path / "nodehistory.db")
    config = {
        "_mock_bindings": MockClusterBinding(),
        "lock_file": None,
        "nodehistorydb": history,
    }
    loop = Autoscaler(config, driver)
    loop.run_once()
    assert set(driver.found) == {(20_000, 2, 2)}
    loop.look()
    assert set(driver.found) == {(20_000, 2, 2)}
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("block", [passing, collecting_seldom])
@pytest.mark.parametrize("size", [1_000, 21_000])
def test_what_passes_leave_behind_is_freed_though_it_has_grown_old(block: Any, size: int) -> None:
    """After few more of them, also where each is too small to set anything off."""

    class Cycle:
        def __init__(self) -> None:
            self.me = self

    gc.set_threshold(700, 10, 10)
    most = 0
    for _ in range(60):
        with block():
            one_pass = [Cycle() for _ in range(size)]
        most = max(most, sum(type(each) is Cycle for each in gc.get_objects()))
        del one_pass
    assert most < (12 if block is passing else 25) * size


_CONSOLE = """
import gc, sys
from hpc.autoscale.cli.console import console_main
sys.argv[1:] = ["--help"]
try:
    console_main()
finally:
    print(gc.isenabled(), gc.get_freeze_count() > 10_000, file=sys.stderr)
"""


def test_what_azscale_imports_is_never_looked_at() -> None:
    """And the collector is on afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", _CONSOLE], capture_output=True, text=True, check=True
    )
    assert done.stderr == "True True\n"
