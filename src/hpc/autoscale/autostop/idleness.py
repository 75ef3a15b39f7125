"""For how long a node has been idle, as it is remembered in a file between two looks.

The file is that of CycleCloud's own scripts, a JSON object with `first_active_time` and
`idle_start_time`, with some keys more. Time that nobody watched is not idle time. Nothing here
looks at the node itself; `watcher` does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.wholefiles import unwritable, write_whole

_NOTICES_KEPT = 50


class StateError(AutoscaleError):
    """The state file cannot be written: nobody would know for how long the node has been idle."""


@dataclass(frozen=True)
class Idleness:
    """What is known of a node at its last look. Times are unix seconds.

    `first_active_time`: when it was first seen at work. `idle_start_time`: since when it has been
    seen idle at every look; None while it is busy, or nobody knows. `looked_at`: when that was.
    `away_since`: since when the service has not answered the node, which was idle all the while.
    `notices`: events that were handed on.
    """

    first_active_time: float | None = None
    idle_start_time: float | None = None
    looked_at: float | None = None
    away_since: float | None = None
    notices: tuple[str, ...] = ()

    def after_look(self, now: float, is_busy: bool | None, longest_gap: float) -> Idleness:
        """What is known after another look, which may have found out nothing (None).

        Where the last look was more than `longest_gap` seconds ago, or is yet to come by a clock
        that was changed, idle time begins anew, and with it the time without an answer.
        """
        seen = replace(self, looked_at=now)
        if is_busy is not False:
            first = now if is_busy and self.first_active_time is None else self.first_active_time
            return replace(seen, first_active_time=first, idle_start_time=None, away_since=None)
        start = self.idle_start_time
        watched = self.looked_at is not None and 0 <= now - self.looked_at <= longest_gap
        if start is None or not watched or start > now:
            return replace(seen, idle_start_time=now, away_since=None)
        return seen

    def idle_seconds(self, now: float) -> float | None:
        """For how long the node has been idle; None while it is not."""
        return None if self.idle_start_time is None else max(0.0, now - self.idle_start_time)

    def with_notice(self, event: str) -> Idleness:
        """After an event was handed on."""
        return replace(self, notices=(*self.notices, event)[-_NOTICES_KEPT:])


def read_state(path: str) -> tuple[Idleness, str | None]:
    """What the file says, and what is wrong with it, if anything.

    A file that is damaged, or that is not there, says nothing: idle time begins anew.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Idleness(), None
    except (OSError, ValueError, RecursionError) as error:
        return Idleness(), f"state file {path} cannot be read, so idle time begins anew: {error}"
    try:
        return _understand(found), None
    except ValueError as error:
        return Idleness(), f"state file {path} is damaged, so idle time begins anew: {error}"


def write_state(path: str, state: Idleness) -> None:
    """Replace the file as a whole. StateError when it cannot be written."""
    content = {
        "first_active_time": state.first_active_time,
        "idle_start_time": state.idle_start_time,
        "looked_at": state.looked_at,
        "away_since": state.away_since,
        "notices": list(state.notices),
    }
    try:
        write_whole(path, json.dumps(content) + "\n")
    except OSError as error:
        raise StateError(f"state file {path}: {unwritable(error)}") from error


def _understand(found: Any) -> Idleness:
    if not isinstance(found, Mapping):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    names = ("first_active_time", "idle_start_time", "looked_at", "away_since")
    times = {name: _time(name, found.get(name)) for name in names}
    notices = found.get("notices") or []
    if not isinstance(notices, list) or not all(isinstance(each, str) for each in notices):
        raise ValueError(f"notices: expected a list of texts, found {notices!r}")
    return Idleness(**times, notices=tuple(notices))


def _time(name: str, value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= (seconds := float(str(value))) < math.inf:
        return seconds
    raise ValueError(f"{name}: expected unix seconds or null, found {value!r}")
