"""Passes again and again: how long to wait between them, and after those that failed.

What a pass is, and who is told of it, is the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from numbers import Real
from typing import Protocol

from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.reporting import Reporter
from hpc.autoscale.autoscaler.summary import SKIPPED, PassError, PassSummary
from hpc.autoscale.ccbindings.pacing import Stop, doubled, wait_unless
from hpc.autoscale.errors import ConfigurationException, InvalidArgument, MultipleInstancesError
from hpc.autoscale.plaintext import on_one_line

# The longest pause after passes that failed, in seconds, unless the interval or the server asks for
# more.
MAX_PAUSE = 300.0


LONGEST_INTERVAL = 1e9
"""The longest interval between passes, in seconds: thirty years."""


class PassSkippedError(MultipleInstancesError):
    """A pass did not begin: somebody else, such as a command, had the lock."""


class Clock(Protocol):
    """What the loop needs of time; the module `hpc.autoscale.clock` is one, and so is its
    MockClock."""

    def time(self) -> float:
        """Now, in unix seconds."""

    def sleep(self, n: float) -> None:
        """Wait for n seconds."""


def checked_interval(where: str, interval: object) -> float:
    """Seconds between passes. InvalidArgument for what is no number from 0 to LONGEST_INTERVAL."""
    with suppress(OverflowError):
        if isinstance(interval, Real) and 0 <= (seconds := float(interval)) <= LONGEST_INTERVAL:
            return seconds
    raise InvalidArgument(
        f"{where}: expected interval to be a number of seconds from 0 to 1e9, found {interval!r}"
    )


def stopper(event: threading.Event | None, should_stop: Stop | None) -> Stop:
    """Whether to stop: once the event is set, or the function says so."""

    def stop() -> bool:
        return bool((event and event.is_set()) or (should_stop and should_stop()))

    return stop


def run_repeatedly(
    run_once: Callable[[], PassSummary],
    interval: float,
    stop: Stop,
    reporter: Reporter,
    clock: Clock,
) -> int:
    """Passes with `interval` seconds between the end of one and the start of the next, until `stop`
    says so; how many were done.

    A pass that raises is reported and followed by a longer pause: twice as long for each failure in
    a row, up to MAX_PAUSE, and never shorter than an error's `retry_after`. One that is skipped is
    reported as well, and followed by a pause of the usual length. Only a configuration that is
    wrong from the start ends the loop, by raising.
    """
    passes = failures = 0
    while not stop():
        outcome = _outcome(run_once, is_first=not passes)
        passes += 1
        pause = max(interval, outcome.retry_after or 0.0)
        if isinstance(outcome, PassError):
            if not outcome.is_skip:
                failures += 1
                pause = max(pause, doubled(max(interval, 1.0), failures, MAX_PAUSE))
            _tell(reporter, outcome, failures, pause)
        else:
            failures = 0
        wait_unless(stop, pause, clock.sleep)
    return passes


def _tell(reporter: Reporter, error: PassError, failures: int, pause: float) -> None:
    """Tell a reporter of a pass that failed. What is wrong with the reporter alone ends no loop; a
    terminal that is closed does."""
    Faults(fatal=(OSError,)).guard("reporter", reporter.pass_failed, error, failures, pause)


def _outcome(run_once: Callable[[], PassSummary], is_first: bool) -> PassSummary | PassError:
    fatal = (PassSkippedError, *((ConfigurationException,) if is_first else ()))
    faults = Faults(fatal=fatal)
    try:
        summary = faults.guard("pass", run_once)
    except PassSkippedError as error:
        return PassError(SKIPPED, on_one_line(str(error)))
    return faults.found[0] if summary is None else summary
