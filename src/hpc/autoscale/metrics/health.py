"""The health file: when the last pass was, when the last good one, and what all passes have done.

It is JSON, one small object, written anew after each pass. Counts go on from pass to pass, whether
one process makes them all or cron starts one for each. A file that cannot be read begins anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from math import isfinite
from typing import Any

from hpc.autoscale.errors import AutoscaleError, unreadable
from hpc.autoscale.journal.reader import last_passes
from hpc.autoscale.wholefiles import unwritable, write_whole

_Recorded = tuple[float, Mapping[str, Any]] | None
"""When a pass began and what it did; None for one that cannot be read."""

COUNTED = ("created", "started", "joined", "drained", "deleted")
"""What passes do to nodes, as far as it is counted."""


class HealthError(AutoscaleError):
    """The health file cannot be read or written."""


@dataclass(frozen=True)
class Health:
    """What is known of all passes. Times are unix seconds; None where there was none.

    `last_pass` and `last_good_pass` say when they began, `last_duration` how many seconds the last
    one took, `last_failed` whether it could not look, and `next_pass_in` how many seconds after its
    end its loop makes the next one; `loop` are the `host` and `pid` of that. `passes` are all that
    began, `failed` those that could not look, and `with_errors` those in which something went
    wrong. `nodes`: how often something was done to a node. `joined`: names of the nodes that
    have joined, which every pass hands to the scheduler again: they are counted once.
    """

    last_pass: float | None = None
    last_good_pass: float | None = None
    last_duration: float | None = None
    last_error: str = ""
    last_failed: bool = False
    next_pass_in: float | None = None
    loop: Mapping[str, Any] | None = None
    passes: int = 0
    failed: int = 0
    with_errors: int = 0
    nodes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    joined: Sequence[str] = ()

    def after(self, at: float, did: Mapping[str, Any]) -> Health:
        """Once one more pass was made; `did` as in a journal."""
        problems = problems_of(did)
        joined = list(map(str, did.get("joined") or ()))
        # most passes name those of the one before, of which there may be thousands
        new = set() if joined == self.joined else set(joined).difference(self.joined)
        counted = {**did, "joined": new}
        nodes = {name: self.nodes.get(name, 0) + len(counted.get(name) or ()) for name in COUNTED}
        # where something went wrong, some that have joined may not be named
        joined += sorted(set(self.joined).difference(joined)) if problems else ()
        if gone := set(did.get("deleted") or ()):  # another node may be called so
            joined = [name for name in joined if name not in gone]
        return replace(
            self,
            last_pass=at,
            last_good_pass=self.last_good_pass if problems else at,
            last_duration=did.get("duration"),
            last_error=str(problems[0]) if problems else "",
            last_failed=bool(did.get("ended_by")),
            next_pass_in=did.get("next_pass_in"),
            loop=did.get("loop"),
            passes=self.passes + 1,
            failed=self.failed + bool(did.get("ended_by")),
            with_errors=self.with_errors + bool(problems and not did.get("ended_by")),
            nodes=nodes,
            joined=joined,
        )

    def age(self, now: float) -> float | None:
        """Seconds since the last good pass, negative where that lies ahead, as after the clock was
        put back; None when there was none."""
        return None if self.last_good_pass is None else now - self.last_good_pass

    def write(self, path: str | os.PathLike[str]) -> None:
        """Put it into the file. HealthError when that is impossible."""
        try:
            write_whole(path, json.dumps(asdict(self)) + "\n", 0o644)
        except OSError as error:
            raise HealthError(f"health file {path}: {unwritable(error)}") from error


@dataclass(frozen=True)
class PassEnd:
    """How a pass ended: when it began in unix seconds, how many seconds it took, and the first
    thing that went wrong in it; nothing where all was well. `failed`: it could not look.
    `last_good`: when the last good pass began. `next_in`: how many seconds after its end its loop
    makes the next one. `loop`: its `host` and `pid`. None where something is not known, or there is
    no loop."""

    at: float
    took: float | None
    error: str
    failed: bool
    last_good: float | None
    next_in: float | None = None
    loop: Mapping[str, Any] | None = None

    @property
    def ended(self) -> float:
        """When it ended, as far as that is known."""
        return self.at + (self.took or 0.0)


def last_end(health_file: str | None, journal: str | None) -> PassEnd | None:
    """How the last pass ended, by the health file or by the journal, whichever has a later one;
    None where neither tells."""
    health = Health()
    if health_file:
        with suppress(HealthError):
            health = read_health(health_file)
    passes = last_passes(journal) if journal else iter(())
    found = next(passes, None)
    if found is not None and found[0] >= (health.last_pass or 0.0):
        at, did = found
        known = health if health.last_pass == at else health.after(at, did)
    else:
        known = health
    if known.last_pass is None:
        return None
    return PassEnd(
        known.last_pass,
        known.last_duration,
        known.last_error,
        known.last_failed,
        _last_good(known, found, passes),
        known.next_pass_in,
        known.loop,
    )


def problems_of(did: Mapping[str, Any]) -> list[Any]:
    """What went wrong in a pass; `did` as in a journal."""
    return [did["ended_by"]] if did.get("ended_by") else list(did.get("errors") or ())


def _last_good(known: Health, found: _Recorded, earlier: Iterator[_Recorded]) -> float | None:
    """When the last good pass began: by what is known, or by the passes of a journal, the last one
    first, as far back as they can tell more."""
    good = known.last_good_pass
    if good is not None and good == known.last_pass:
        return good
    for recorded in chain([found], earlier):
        if recorded is None:
            continue
        at, did = recorded
        if good is not None and at <= good:
            return good
        if not problems_of(did):
            return at
    return good


def read_health(path: str | os.PathLike[str]) -> Health:
    """What the file says. HealthError when it cannot be read, or is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("no object")
        known = {each.name for each in fields(Health)}
        health = Health(**{key: value for key, value in found.items() if key in known})
        _check(health)
        return health
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        why = "; the first pass with `metrics.health_file` writes it" if is_missing else ""
        raise HealthError(f"health file {path}: {unreadable(error)}{why}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise HealthError(
            f"health file {path}: expected what passes write, found {error}"
        ) from None


def _check(health: Health) -> None:
    for name in ("passes", "failed", "with_errors"):
        if not isinstance(getattr(health, name), int):
            raise ValueError(f"{name}: {getattr(health, name)!r}")
    if not isinstance(health.last_error, str) or not isinstance(health.last_failed, bool):
        raise ValueError(f"last_error: {health.last_error!r}, last_failed: {health.last_failed!r}")
    for name in ("last_pass", "last_good_pass", "last_duration", "next_pass_in"):
        value = getattr(health, name)
        # NaN and what has no end are older than nothing, and no probe would ever fail
        if not (value is None or (isinstance(value, int | float) and isfinite(value))):
            raise ValueError(f"{name}: {getattr(health, name)!r}")
    if not isinstance(health.loop, Mapping | None):
        raise ValueError(f"loop: {health.loop!r}")
    if not (isinstance(health.joined, list | tuple) and set(map(type, health.joined)) <= {str}):
        raise ValueError(f"joined: {health.joined!r}")
    if not all(isinstance(health.nodes.get(name, 0), int) for name in COUNTED):
        raise ValueError(f"nodes: {health.nodes!r}")
