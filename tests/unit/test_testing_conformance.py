"""The conformance checks themselves: a driver that keeps its promises passes, and one that breaks one of them does not."""

import subprocess
import sys

import pytest
from testing_broken_drivers import BROKEN
from testing_kit import MemoryDriver, MemoryWorld

from hpc.autoscale.testing import BrokenPromise, on_stage
from hpc.autoscale.testing.conformance import DriverConformance

CHECKS = sorted(name for name in dir(DriverConformance) if name.startswith("test_"))


def run_check(check, driver_class, home):
    """One check of a driver, as pytest would run it."""
    with on_stage(MemoryWorld(driver_class), home) as stage:
        getattr(DriverConformance(), check)(stage)


class TestAGoodDriver(DriverConformance):
    """It passes every check, none of them skipped."""

    def new_world(self):
        return MemoryWorld(MemoryDriver)


@pytest.mark.parametrize(
    ("check", "driver_class", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_promise_is_noticed(check, driver_class, said, tmp_path):
    """By the check that is there for it, in words that name what is wrong."""
    with pytest.raises(BrokenPromise, match=said):
        run_check(check, driver_class, tmp_path)


def test_every_check_can_fail():
    """For each there is a driver that breaks it."""
    assert {check for check, _, _ in BROKEN} == set(CHECKS)


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
