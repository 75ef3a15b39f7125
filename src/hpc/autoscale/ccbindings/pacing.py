"""When the server may be asked again.

Two things decide: the back-off between attempts, and the time for which a server asks to be left
alone (its Retry-After header).

`Pacing` says how patient a session is and holds its clock, so that tests need no real time. A
process that is told to stop waits no longer, and what was waited for is given up.
`NotBefore` remembers what servers have asked for, for the whole process: a new session to the same
server keeps the old one's promise.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.errors import CycleCloudError

_waits = logging.getLogger("cyclecloud.waits")

# by then anything is longer than what is ever waited for
_MOST_DOUBLED = 64

LONGEST_ASKED = 1e9
"""Thirty years, in seconds: whatever a server asks for beyond that is as long."""

NOTICE_WITHIN = 0.5
"""How long, in seconds, a request to stop may go unnoticed during a pause."""

Stop = Callable[[], bool]


def wait_unless(stop: Stop, seconds: float, sleep: Callable[[float], None]) -> bool:
    """Sleep in short pieces, so that a request to stop is noticed soon; whether all of it was
    slept."""
    while seconds > 0:
        if stop():
            return False
        piece = min(seconds, NOTICE_WITHIN)
        sleep(piece)
        seconds -= piece
    return True


def doubled(first: float, times: int, most: float) -> float:
    """`first`, doubled so many times: at most `most`, however many times that is."""
    return min(most, first * 2.0 ** min(times, _MOST_DOUBLED))


@dataclass(frozen=True)
class RetryAfter:
    """A server asked to be left alone at one endpoint.

    `until` is a time of the clock of the `Pacing`, in seconds; `status_code` and `message` are
    those of the reply that asked. `beyond`: how many seconds later it was asked for, where `until`
    is earlier.
    """

    until: float
    status_code: int
    message: str
    beyond: float = 0.0


class NotBefore:
    """Until when endpoints are to be left alone: `asked` by (server, verb, path). `kept_in`: the
    file that says so to later processes, if any."""

    kept_in: str | None = None

    def __init__(self) -> None:
        self.asked: dict[tuple[str, str, str], RetryAfter] = {}
        self._lock = threading.Lock()

    def note(self, endpoint: tuple[str, str, str], asked: RetryAfter) -> None:
        """Remember what a server asked for at an endpoint, unless an earlier one lasts longer."""
        with self._lock:
            known = self.asked.get(endpoint)
            if known is None or known.until < asked.until:
                self.asked[endpoint] = asked

    def pending(self, endpoint: tuple[str, str, str], now: float) -> RetryAfter | None:
        """What the server asked for at this endpoint, if that still holds at `now`."""
        with self._lock:
            asked = self.asked.get(endpoint)
            if asked is not None and asked.until <= now:
                del self.asked[endpoint]
                return None
            return asked

    def all_pending(self, now: float) -> list[tuple[tuple[str, str, str], RetryAfter]]:
        """Everything asked for that still holds at `now`, with its endpoint."""
        with self._lock:
            return [(e, asked) for e, asked in self.asked.items() if asked.until > now]


PROCESS_WIDE = NotBefore()


@dataclass(frozen=True)
class Pacing:
    """How often and how fast to try again; times in seconds.

    An endpoint that changes something is left alone for as long as the server asks. One that is
    read is asked again after `ceiling` at the latest, and a loop comes back by then. At most
    `longest_wait` is waited within a call. `now` is a clock that never jumps and `sleep` waits on
    that same clock; `wall_clock` is Unix time, needed only where a server gives a date and does not
    say what time it has itself. Once `told_to_stop` says so, nothing is waited for.
    """

    attempts: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_wait: float = 60.0
    ceiling: float = 900.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall_clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    not_before: NotBefore = field(default=PROCESS_WIDE)
    told_to_stop: Stop | None = None

    def wait(self, seconds: float) -> bool:
        """Wait; False when that was given up, because the process is told to stop."""
        if self.told_to_stop is not None:
            return wait_unless(self.told_to_stop, seconds, self.sleep)
        if seconds > 0.0:
            self.sleep(seconds)
        return True

    def come_back_after(self, asked: float) -> float:
        """After how many seconds to come back to a server that has asked for so many."""
        return min(asked, self.ceiling)

    def back_off(self, attempt: int, waited: float = 0.0) -> bool:
        """Wait after failed attempt number `attempt` (from 0); False when there is to be no other
        one, because the process is told to stop.

        The nominal delay doubles with each attempt; the wait is between half of it and all of it.
        The seconds that the attempt itself `waited` for an answer are taken off.
        """
        nominal = doubled(self.first_delay, attempt, self.longest_delay)
        delay = nominal * (0.5 + self.jitter() / 2) - waited
        return self.wait(delay)


def warn_of_try(error: CycleCloudError, attempt: int, attempts: int) -> None:
    """Log that attempt number `attempt` (from 0) failed, so that nobody waits in silence.

    Attempts that took a second or longer are logged to `cyclecloud.waits`, which the command line
    shows even where no logging is configured.
    """
    waited = getattr(error, "waited", 0.0)
    took_long = getattr(error, "timed_out", False) or waited >= 1.0
    warn = _waits.warning if took_long else logging.warning
    warn("%s (waited %.1f s; try %d of %d)", error, waited, attempt + 1, attempts)


def retry_after(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> float | None:
    """The seconds that a Retry-After header asks for; None when it is missing or unreadable.

    The header is a number of seconds or a date. A date is held against the server's own Date
    header, so that clocks that differ do not matter.
    """
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return min(float(text), LONGEST_ASKED)
    until = _unix_time(text)
    if until is None:
        return None
    sent = _unix_time(headers.get("Date", ""))
    return max(0.0, until - (wall_clock() if sent is None else sent))


def _unix_time(http_date: str) -> float | None:
    """The time of a date in one of the forms that HTTP has, all of which are in UTC, also where one
    does not say so."""
    # not at the top: few replies have a date to understand, and the package brings half of the
    # network library
    from email.utils import parsedate_to_datetime

    try:
        found = parsedate_to_datetime(http_date)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
