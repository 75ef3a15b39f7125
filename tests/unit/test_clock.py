"""The clock of the process."""

import threading
import time

import pytest

from hpc.autoscale import clock
from hpc.autoscale.sidebyside import side_by_side


def test_the_real_clock_shows_unix_time(monkeypatch):
    """Unless replaced, time and sleep are those of the system."""
    slept = []
    monkeypatch.setattr(time, "time", lambda: 12.5)
    monkeypatch.setattr(time, "sleep", slept.append)
    clock.sleep(3)
    assert (clock.time(), slept) == (12.5, [3])


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system does not say")
def test_the_start_of_the_machine_is_told_by_the_real_clock(monkeypatch):
    """It is another time once that is set; clocks that are not the real one know of none."""
    before = clock.booted_at()
    assert before is not None and before < time.time()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    assert clock.booted_at() - before == pytest.approx(3600, abs=60)
    clock.use_mock_clock()
    assert clock.booted_at() is None


def test_mock_clock_moves_by_sleeping_only():
    """It starts at 1000 and sleeping takes no time but counts."""
    mock = clock.use_mock_clock()
    assert clock.time() == 1000.0
    clock.sleep(2.5)
    assert (clock.time(), mock.now) == (1002.5, 1002.5)


def test_mock_clock_can_be_set():
    """`now` is free to be written."""
    mock = clock.use_mock_clock()
    mock.now = 5
    assert clock.time() == 5


def test_nobody_sleeps_backwards():
    """A negative time to sleep is refused, as by the real clock."""
    with pytest.raises(ValueError, match="-1"):
        clock.MockClock().sleep(-1)


def test_use_clock_returns_the_previous_one():
    """So that it can be put back."""
    mock = clock.use_mock_clock()
    assert clock.use_clock(clock.Clock()) is mock


def test_a_listener_hears_its_own_thread_and_those_that_work_for_it():
    """Two passes in one process do not hear each other."""
    mine, theirs = [], []
    clock.use_mock_clock().now = 7.0

    def other():
        with clock.heard_by(theirs.append):
            clock.time()

    with clock.heard_by(mine.append):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        side_by_side({"a": clock.time, "b": clock.time})
        with clock.heard_by(None):
            clock.time()
    clock.time()
    assert (mine, theirs) == ([7.0, 7.0], [7.0])
