"""The one clock of the library.

Everything that needs the time or has to wait calls `clock.time()` and `clock.sleep()`, so that a
test or a simulation can put a clock of its own in the place of the real one. What the time is used
for does not belong here.
"""

import time as _time


class Clock:
    """The real clock: seconds since 1970-01-01 UTC, and real waiting."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC, whatever the local time zone."""
        return _time.time()

    def sleep(self, n: float) -> None:
        """Wait for `n` seconds; ValueError when negative."""
        _time.sleep(n)


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
    return _clock.time()


def sleep(n: float) -> None:
    """Wait for `n` seconds by the clock of the process."""
    _clock.sleep(n)
