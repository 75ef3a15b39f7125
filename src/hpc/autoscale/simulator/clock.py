"""The simulator's clocks: one follows the real time, the other only moves when it is told to.

Both give seconds since 1970 of the simulated world. The real one may run faster; it is measured by
the machine's monotonic clock, so that a change of the system time moves nothing.
"""

import time

from hpc.autoscale.simulator.errors import Conflict

# A driven clock starts at the same time in every run: 2026-01-01 00:00 UTC.
DRIVEN_START = 1_767_225_600.0
_LONGEST_STEP = 10 * 365 * 86400.0
_LAST = 200_000_000_000.0  # some time in the year 8307, which a timestamp can still show


class RealClock:
    """A clock that runs `speed` times as fast as the real time, starting at the present time."""

    driven = False

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = time.time()
        self._origin = time.monotonic()

    def now(self) -> float:
        """The simulated time."""
        return self._start + (time.monotonic() - self._origin) * self.speed

    def move_to(self, when: float) -> None:
        """Raises Conflict: a real clock cannot be moved."""
        raise Conflict("the clock of this simulator is real; start it with --clock driven")

    def real_seconds_until(self, due: float) -> float:
        """How many real seconds pass until it is `due` in the simulated world; never below 0."""
        return max(0.0, (due - self.now()) / self.speed)


class DrivenClock:
    """A clock that stands still until `move_to` is called."""

    driven = True

    def __init__(self, start: float = DRIVEN_START) -> None:
        self._now = start

    def now(self) -> float:
        """The simulated time."""
        return self._now

    def move_to(self, when: float) -> None:
        """Set the clock to a later time.

        Raises Conflict when the time is earlier, or more than ten years later.
        """
        if not self._now <= when <= min(self._now + _LONGEST_STEP, _LAST):
            raise Conflict(
                f"cannot move the clock by {when - self._now:g} seconds: expected 0 to 10 years"
            )
        self._now = when

    def real_seconds_until(self, due: float) -> float | None:
        """None: a driven clock does not move with real time."""
        return None


Clock = RealClock | DrivenClock
