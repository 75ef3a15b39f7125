"""Whether somebody who looks from time to time has watched in between, for drivers that give up
workers of which nothing is heard."""

from math import inf


class Attention:
    """Looks at something, one after the other, and how long it takes from one to the next."""

    def __init__(self) -> None:
        self._last, self._usual = inf, 0.0

    def goes_on(self, now: float, patience: float) -> bool:
        """Note a look; whether the time since the last one counts towards `patience` (both in
        seconds). It does not at first, nor after the clock was set, or a pause, as of the machine,
        that is long beside `patience` and the time between the looks before."""
        gap, usual = now - self._last, self._usual
        self._last, self._usual = now, max(gap, usual / 2)  # some passes look twice
        return 0.0 <= gap <= max(patience / 2, 2 * usual)
