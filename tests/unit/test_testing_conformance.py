"""The conformance checks themselves: a driver that keeps its promises passes, and one that breaks
one of them does not."""

import os
import subprocess
import sys

import pytest

from builders.broken_drivers import BROKEN, DrainsWithoutAnAnswer
from builders.memory_scheduler import MemoryDriver, MemoryWorld, SelfStartingMemoryWorld
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.rehearsal.passing_on import PassingDriver
from hpc.autoscale.testing import BrokenPromise, Host, on_stage
from hpc.autoscale.testing.conformance import DriverConformance
from hpc.autoscale.testing.watching import WatchedDriver

CHECKS = sorted(name for name in dir(DriverConformance) if name.startswith("test_"))


def run_check(check, driver_class, home, new_world=MemoryWorld):
    """One check of a driver, as pytest would run it."""
    with on_stage(new_world(driver_class), home) as stage:
        getattr(DriverConformance(), check)(stage)


class TestAGoodDriver(DriverConformance):
    """It passes every check, none of them skipped."""

    def new_world(self):
        return MemoryWorld(MemoryDriver)


class TestAGoodDriverOfASchedulerThatStartsByItself(DriverConformance):
    """It passes every check, and nobody starts a task."""

    def new_world(self):
        return SelfStartingMemoryWorld(MemoryDriver)


class NoticesLate(SelfStartingMemoryWorld):
    """As Grid Engine: when a machine is gone, its host is said to run what it ran, until it is
    removed."""

    def machine_down(self, hostname):
        self.machines.discard(hostname)


class Requeues(MemoryDriver):
    """What is said to run on a host that it removes waits again."""

    def validate_nodes(self, scheduler_nodes, cc_nodes):
        before = {**self.scheduler.entries}
        super().validate_nodes(scheduler_nodes, cc_nodes)
        self._requeue(before)

    def forget(self, nodes):
        before = {**self.scheduler.entries}
        super().forget(nodes)
        self._requeue(before)
        return nodes

    def _requeue(self, before):
        removed = before.keys() - self.scheduler.entries.keys()
        self.scheduler.waiting += sum(before[name].running for name in removed)


class LeavesTasksThere(Requeues):
    """Its scheduler refuses to remove a host that is said to run tasks, and it goes on."""

    def _requeue(self, before):
        refused = {name: entry for name, entry in before.items() if entry.running}
        self.scheduler.entries.update(refused)


class TestAGoodDriverOfASchedulerThatNoticesLate(DriverConformance):
    """It passes every check, although the scheduler says of dead hosts that tasks run there."""

    def new_world(self):
        return NoticesLate(Requeues)


def test_a_lost_host_on_which_tasks_are_said_to_run_is_told_of(tmp_path):
    """Not to see it is one cause of its staying; that the scheduler refuses is the other."""
    said = r"is removed .*\(Compare the two lists.* refuse .*wait again.*tasks=4"
    with pytest.raises(BrokenPromise, match=said):
        check = "test_nodes_that_vanish_are_forgotten"
        run_check(check, LeavesTasksThere, tmp_path, NoticesLate)


@pytest.mark.parametrize("new_world", [MemoryWorld, SelfStartingMemoryWorld])
@pytest.mark.parametrize(
    ("check", "driver_class", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_promise_is_noticed(check, driver_class, said, new_world, tmp_path):
    """By the check that is there for it, in words that name what is wrong, whoever starts the
    tasks."""
    with pytest.raises(BrokenPromise, match=said):
        run_check(check, driver_class, tmp_path, new_world)


def test_every_check_can_fail():
    """For each there is a driver that breaks it."""
    assert {check for check, _, _ in BROKEN} == set(CHECKS)


class MuteInside(MemoryWorld):
    """Its `hosts` reads what the scheduler prints, which inside `unreachable` is not there."""

    def hosts(self):
        if not self.scheduler.answers:
            return {"": Host(takes_work=bool(int("")))}
        return super().hosts()


class SaysNothingInside(MemoryWorld):
    def hosts(self):
        return super().hosts() if self.scheduler.answers else None


class CannotSettleInside(SelfStartingMemoryWorld):
    def settle(self):
        self.scheduler.ask()
        super().settle()


class WaitsForTheSilent(SelfStartingMemoryWorld):
    """Its `settle` waits until every host is heard, as after joining; it gives up in the end."""

    def settle(self):
        silent = [name for name, entry in self.scheduler.entries.items() if not entry.heard]
        if silent:
            raise TimeoutError(f"{silent[0]} was not heard for 40 s")
        super().settle()


@pytest.mark.parametrize(
    ("check", "driver_class", "new_world", "said"),
    [
        (
            "test_a_silent_host_is_not_idle",
            MemoryDriver,
            WaitsForTheSilent,
            r"WaitsForTheSilent\.settle\(\): expected it to return, .* while a host is silent .*"
            r" not to be waited for; found .*ip-0a010002 was not heard for 40 s",
        ),
        (
            "test_without_an_answer_nothing_changes",
            MemoryDriver,
            MuteInside,
            r"MuteInside\.hosts\(\): expected an answer, also inside unreachable\(\).* found "
            r"ValueError: ",
        ),
        (
            "test_without_an_answer_nothing_changes",
            MemoryDriver,
            SaysNothingInside,
            r"SaysNothingInside\.hosts\(\): expected a Host for each name, found None",
        ),
        (
            "test_without_an_answer_to_the_drain_nothing_is_deleted",
            DrainsWithoutAnAnswer,
            MuteInside,
            r"MuteInside\.hosts\(\): expected an answer, also inside",
        ),
        (
            "test_without_an_answer_to_the_drain_nothing_is_deleted",
            DrainsWithoutAnAnswer,
            CannotSettleInside,
            r"CannotSettleInside\.settle\(\): expected it to return, also inside unreachable\(\)"
            r", .* queue server: connection refused",
        ),
    ],
)
def test_a_world_that_does_not_answer_is_told_so(check, driver_class, new_world, said, tmp_path):
    """Its author reads what `hosts` and `settle` must do inside `unreachable`, and not what they
    raised."""
    with pytest.raises(BrokenPromise, match=said):
        run_check(check, driver_class, tmp_path, new_world)


def test_a_scheduler_that_should_start_tasks_and_does_not_is_told_of(tmp_path):
    """The count that was expected, and what the hosts say."""

    class Sleeps(SelfStartingMemoryWorld):
        def settle(self):
            pass

    said = "started waiting tasks on .* by itself, so that 4 run there; found 0"
    with pytest.raises(BrokenPromise, match=said):
        run_check("test_busy_nodes_have_no_room", MemoryDriver, tmp_path, Sleeps)


def test_a_watched_driver_passes_on_whatever_a_driver_has():
    """A hook that is not passed on would never be called in a check."""
    hooks = {name for name, value in vars(SchedulerDriver).items() if callable(value)}
    published = {name for name in hooks if not name.startswith("__")}
    assert published - vars(WatchedDriver).keys() - vars(PassingDriver).keys() == set()


def test_only_the_conformance_class_needs_pytest():
    """Everything else of the kit can be used without, and without the simulator's server."""
    program = (
        "import sys, hpc.autoscale.testing as kit\n"
        "kit.a_cluster(), kit.a_node(), kit.a_job(), kit.Stage\n"
        "print([name for name in ('pytest', 'werkzeug', 'requests') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["pytest", "_pytest"])
def test_without_the_extra_the_error_names_it(module, tmp_path):
    """In one line that can be typed."""
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(name={module!r})")
    done = subprocess.run(
        [sys.executable, "-c", "import hpc.autoscale.testing.conformance"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"ModuleNotFoundError: hpc.autoscale.testing.conformance: {module} is missing:"
        " pip install 'hpc-autoscale[testing]'"
    )  # from Python 3.15 on it guesses at other modules behind that
