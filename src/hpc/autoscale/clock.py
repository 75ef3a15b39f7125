"""The one clock of the library.

Everything that needs the time or has to wait calls `clock.time()` and `clock.sleep()`, so that a
test or a simulation can put a clock of its own in the place of the real one. What the time is used
for does not belong here.
"""

import time as _time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime


class Clock:
    """The real clock: seconds since 1970-01-01 UTC, and real waiting."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC, whatever the local time zone."""
        return _time.time()

    def sleep(self, n: float) -> None:
        """Wait for `n` seconds; ValueError when negative."""
        _time.sleep(n)

    def booted_at(self) -> float | None:
        """When the machine was started, in unix seconds and by the clock as it is set now: another
        time once the clock is set. None where that is not known, as of a clock that is not the
        real one and does not say."""
        if type(self) is not Clock or not hasattr(_time, "CLOCK_BOOTTIME"):
            return None
        return _time.time() - _time.clock_gettime(_time.CLOCK_BOOTTIME)


class MockClock(Clock):
    """A clock that stands still until somebody sleeps or sets `now`; sleeping takes no time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def sleep(self, n: float) -> None:
        if n < 0:
            raise ValueError(f"expected a time to sleep of 0 or more seconds, found {n!r}")
        self.now += n


_clock = Clock()
_hear: ContextVar[Callable[[float], object] | None] = ContextVar("hear", default=None)


def use_clock(clock: Clock) -> Clock:
    """Make a clock that of the process; returns the one that was used until now."""
    global _clock
    previous, _clock = _clock, clock
    return previous


def use_mock_clock() -> MockClock:
    """Make a new MockClock the clock of the process; returns it."""
    mock = MockClock()
    use_clock(mock)
    return mock


def time() -> float:
    """Seconds since 1970-01-01 UTC by the clock of the process."""
    now = _clock.time()
    hear = _hear.get()
    if hear is not None:
        hear(now)
    return now


def sleep(n: float) -> None:
    """Wait for `n` seconds by the clock of the process."""
    _clock.sleep(n)


def booted_at() -> float | None:
    """When the machine was started, by the clock of the process as it is set now; None where that
    is not known."""
    return _clock.booted_at()


def in_utc(seconds: float) -> str:
    """A unix time as text, by the second: `2026-11-23T01:45:21Z`; the number where no calendar has
    it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f}"


@contextmanager
def heard_by(hear: Callable[[float], object] | None) -> Iterator[None]:
    """Within the block, `hear` is told each time that this module gives: to this thread, and to
    those that work for it (`sidebyside`). Other threads of the process are not listened to. With
    None, nobody hears of it."""
    before = _hear.set(hear)
    try:
        yield
    finally:
        _hear.reset(before)
