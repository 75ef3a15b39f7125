"""How far the searches of one pass went that time has ended, so that another pass can go just as
far: then the same queue on the same cluster gets the same nodes.

A search checks now and then whether there is time left, at the same places whenever it has the same
problem. So it is enough to count these checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

SEARCHES = "_searches"
"""The entry of a configuration with the `Searches` of a pass."""


class Searches:
    """The searches of one pass, one after another.

    `went`: after how many checks there was no time left for each; None where time did not end it.
    `to_go`: the same of another pass, by which these go, whatever time they take; those beyond it
    go by the time.
    """

    def __init__(self, to_go: Sequence[int | None] = ()) -> None:
        self.went: list[int | None] = []
        self._to_go = tuple(to_go)

    def __deepcopy__(self, memo: object) -> Searches:
        """Whoever copies a configuration means the same pass."""
        return self

    @property
    def are_timed(self) -> bool:
        """Whether time has ended any of them."""
        return any(each is not None for each in self.went)

    def watch(self, seconds_left: Callable[[], float]) -> Callable[[], float]:
        """What the next search asks instead of the seconds that are left to it."""
        number, checks = len(self.went), 0
        self.went.append(None)

        def left() -> float:
            nonlocal checks
            seconds = seconds_left() if number >= len(self._to_go) else self._given(number, checks)
            if seconds <= 0 and self.went[number] is None:
                self.went[number] = checks
            checks += 1
            return seconds

        return left

    def _given(self, number: int, checks: int) -> float:
        most = self._to_go[number]
        return math.inf if most is None or checks < most else 0.0
