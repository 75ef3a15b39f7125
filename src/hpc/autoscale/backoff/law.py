"""For how long something rests after it failed, how it is tried again, and how it recovers.

Pure: times are given, and so are random numbers, which `seeded` makes of what has failed. All times
are in seconds.

A failure raises the level by one and lets its subject rest, twice as long for each level, up to a
ceiling. When the rest is over one node may be asked for; after each success twice as many, and the
level falls by half. Where nobody asks for anything during another time twice as long as the rest,
as much may be asked for as is wanted, so that a job which needs many nodes at once gets its turn;
the level is remembered, and falls by one for each time as long as the ceiling.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.subjects import Subject
from hpc.autoscale.ccbindings.pacing import doubled

MAX_LEVEL = 30

FIRST: Mapping[FailureKind, float] = MappingProxyType(
    {
        FailureKind.THROTTLE: 60.0,
        FailureKind.SUBSCRIPTION: 600.0,
        FailureKind.QUOTA: 300.0,
        FailureKind.CAPACITY: 300.0,
        FailureKind.BOOT: 600.0,
        FailureKind.HOST: 600.0,
        FailureKind.REFUSED: 120.0,
        FailureKind.EVICTED: 60.0,
    }
)
"""The first rest after a failure, by its cause."""

OF_SINGLE_NODES = frozenset({FailureKind.BOOT, FailureKind.HOST})
"""Causes that may be about one node, so that one failure says nothing of others."""

EVICTED_AT_MOST = 10.0
"""After evictions nothing rests for more than so many times the first rest."""


@dataclass(frozen=True)
class Policy:
    """`first`: the first rest by cause; no rest is longer than `ceiling`. Each is shortened by a
    random part of it, at most `jitter`. A bucket rests after `boot_failures` nodes in a row that
    did not boot, or whose hosts took no work; anything else after one failure."""

    first: Mapping[FailureKind, float] = field(default_factory=lambda: FIRST)
    ceiling: float = 3600.0
    jitter: float = 0.2
    boot_failures: int = 2

    def longest(self, cause: FailureKind) -> float:
        """The longest rest for a cause. An eviction says that somebody paid more just then, and
        little of whether there will be room in an hour."""
        if cause is FailureKind.EVICTED:
            return min(self.ceiling, EVICTED_AT_MOST * self.first[cause])
        return self.ceiling


@dataclass(frozen=True)
class Backoff:
    """What is known of a subject that has failed.

    `level`: how often it failed since it last was well; 0 while it does not rest yet. `streak`:
    failures without a success between them. `delay`: how long it rests, `until` when. `passed`:
    successes since the rest began.
    """

    cause: FailureKind
    message: str
    failed_at: float
    level: int = 0
    streak: int = 1
    delay: float = 0.0
    until: float = 0.0
    passed: int = 0

    @property
    def open_at(self) -> float:
        """When any number may be asked for, where nothing was tried until then."""
        return self.until + 2.0 * self.delay


Draw = Callable[[Subject, Backoff | None], float]
"""How jitter is drawn, from 0 to 1."""


def seeded(about: Subject, known: Backoff | None) -> float:
    """A number from 0 to 1 that is random, and the same for the same failure in a row."""
    level = known.level if known else 0
    return random.Random(f"{about.key} {level}").random()


def failed(
    known: Backoff | None,
    cause: FailureKind,
    message: str,
    at: float,
    now: float,
    policy: Policy,
    draw: Callable[[], float],
    count: int = 1,
) -> Backoff:
    """After `count` failures at one time, which is not later than `now`. `draw`: a random number
    from 0 to 1.

    Failures of what was asked for before the rest began do not make it rest for longer than if they
    had come first.
    """
    at = min(at, now)
    if known is None:
        known = Backoff(cause, message, at, streak=0, until=at)
    failed_at = max(at, known.failed_at)
    streak = known.streak + count
    now_known = replace(known, cause=cause, message=message, failed_at=failed_at, streak=streak)
    if known.level and at < known.until:
        return replace(now_known, until=max(known.until, at + known.delay))
    if not known.level and cause in OF_SINGLE_NODES and streak < policy.boot_failures:
        return replace(now_known, until=failed_at)
    level = min(MAX_LEVEL, known.level + 1)
    nominal = doubled(policy.first[cause], level - 1, policy.longest(cause))
    delay = min(policy.ceiling, max(known.delay, nominal * (1.0 - policy.jitter * draw())))
    until = max(known.until, at + delay)
    return replace(now_known, level=level, delay=delay, until=until, passed=0)


def succeeded(known: Backoff) -> Backoff | None:
    """After a success; None when all is well again."""
    level = known.level // 2
    if not level:
        return None
    delay = known.delay / 2.0 ** (known.level - level)
    return replace(known, level=level, delay=delay, streak=0, passed=known.passed + 1)


def aged(known: Backoff, now: float, policy: Policy) -> Backoff | None:
    """What is left of it at a later time; None when it is forgotten. A clock that went back makes
    no rest longer."""
    if known.failed_at > now:
        known = replace(known, failed_at=now, until=min(known.until, now + known.delay))
    known = replace(
        known,
        until=min(known.until, now + policy.ceiling),
        delay=min(known.delay, policy.ceiling),
    )
    if not known.level:
        return known if now - known.failed_at < policy.ceiling else None
    fallen = max(0, int((now - known.open_at) // max(1.0, policy.ceiling)))
    if fallen >= known.level:
        return None
    return replace(known, level=known.level - fallen, delay=known.delay / 2.0**fallen)


def allowance(known: Backoff, now: float, on_their_way: int) -> int | None:
    """How many nodes may be asked for now; None for any number. `on_their_way`: nodes of which it
    is not known yet what becomes of them."""
    if not known.level:
        return None
    if now < known.until:
        return 0
    if not on_their_way and now >= known.open_at:
        return None
    return max(0, (1 << min(known.passed, MAX_LEVEL)) - on_their_way)
