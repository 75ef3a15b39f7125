"""When the server may be asked again: back-off between attempts, and the waiting time that a server
demands.

`Pacing` says how patient a session is and holds its clock, so that tests need no real time.
`NotBefore` remembers what servers have asked for, for the whole process: a new session to the same
server keeps the old one's promise.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.errors import CycleCloudError

_waits = logging.getLogger("cyclecloud.waits")


@dataclass(frozen=True)
class Demand:
    """A server's demand to leave an endpoint alone until `until`, with the words that it came
    in."""

    until: float
    status_code: int
    message: str


class NotBefore:
    """Until when which endpoint is to be left alone, by (server, verb, path)."""

    def __init__(self) -> None:
        self._demands: dict[tuple[str, str, str], Demand] = {}
        self._lock = threading.Lock()

    def note(self, endpoint: tuple[str, str, str], demand: Demand) -> None:
        """Remember a demand; an earlier one that lasts longer stays."""
        with self._lock:
            known = self._demands.get(endpoint)
            if known is None or known.until < demand.until:
                self._demands[endpoint] = demand

    def pending(self, endpoint: tuple[str, str, str], now: float) -> Demand | None:
        """The demand that still holds at `now`, if any."""
        with self._lock:
            demand = self._demands.get(endpoint)
            if demand is not None and demand.until <= now:
                del self._demands[endpoint]
                return None
            return demand

    def all_pending(self, now: float) -> list[tuple[tuple[str, str, str], Demand]]:
        """Every demand that still holds at `now`, with its endpoint."""
        with self._lock:
            return [(e, demand) for e, demand in self._demands.items() if demand.until > now]


PROCESS_WIDE = NotBefore()


@dataclass(frozen=True)
class Pacing:
    """How often and how fast to try again; times in seconds.

    `now` is a clock that never jumps and `sleep` waits on that same clock; `wall_clock` is Unix
    time, needed only where a server gives a date and does not say what time it has itself.
    """

    attempts: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_wait: float = 60.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall_clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    not_before: NotBefore = field(default=PROCESS_WIDE)

    def back_off(self, attempt: int, waited: float = 0.0) -> None:
        """Wait after failed attempt number `attempt` (from 0): doubling, between half and all of
        the nominal delay.

        The seconds that the attempt itself `waited` for an answer count.
        """
        nominal = min(self.longest_delay, self.first_delay * 2.0**attempt)
        delay = nominal * (0.5 + self.jitter() / 2) - waited
        if delay > 0.0:
            self.sleep(delay)


def warn_of_try(error: CycleCloudError, attempt: int, attempts: int) -> None:
    """Say in the log that attempt number `attempt` (from 0) failed, so that nobody waits in silence
    for the last one.

    Of attempts that took long it is said in a log of its own, which the command line shows also
    where it shows no other.
    """
    waited = getattr(error, "waited", 0.0)
    took_long = getattr(error, "timed_out", False) or waited >= 1.0
    warn = _waits.warning if took_long else logging.warning
    warn("%s (waited %.1f s; try %d of %d)", error, waited, attempt + 1, attempts)


def retry_after(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None when there is none
    to understand.

    A date is held against the server's own Date header, so that clocks that differ do not matter.
    """
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    until = _unix_time(text)
    if until is None:
        return None
    sent = _unix_time(headers.get("Date", ""))
    return max(0.0, until - (wall_clock() if sent is None else sent))


def _unix_time(http_date: str) -> float | None:
    # not at the top: few replies have a date to understand, and the package brings half of the
    # network library
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(http_date).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
