"""By how much a limit, or several together, must be raised for a job to start: the least, found by
asking again.

A raise lets the jobs before it have more as well, so each try places all of them anew. The server
cuts its own figure for a bucket down to the limits; it is raised with them as far as they explain
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Literal, NamedTuple

from hpc.autoscale.explaining.asking import Change, ChangedGain, Gain, Queue
from hpc.autoscale.explaining.supposing import Changeable, Supposition
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.packing.plan import Request

Unit = Literal["cores", "nodes"]

RaiseIt = Callable[["Level", Changeable, int], None]
"""Raises a level in a state by so much."""

_TRIED = 10_000
"""How many jobs are placed and buckets copied in all, at most, to find the least raises of the
limits that are in the way."""
_MOST_STEPS = 400
_MOST_HALVES = 4
_WORTH_WHILE = 8
_PLENTY = 2**40
_MOST_DOUBLED = 12
_MOST_ROUNDS = 3
_QUOTAS = ("Region(", "Spot(", "VM Family(")
_STATED = (*_QUOTAS, "Cluster", "NodeArray(")
_GROUP = "PlacementGroup("


class Raise(NamedTuple):
    """Raising a level by so much lets a job start, with this answer. `is_least`: all smaller raises
    were tried."""

    level: Level
    amount: int
    answer: Gain
    is_least: bool


class Raises(NamedTuple):
    """Raising each of these levels by so much lets a job start, with this answer, and none of them
    can be left out. `is_least`: of each, all smaller raises were tried with the others."""

    amounts: dict[Level, int]
    answer: Gain
    is_least: bool


class Level:
    """How much a limit allows of cores or of nodes, as it may be raised on a trial. Of a placement
    group: what every group of its nodearray may have that is no larger or smaller, as one setting
    of the nodearray is for all VM sizes. Its own bucket is the first of `buckets`."""

    def __init__(self, limit: Limit, unit: Unit, buckets: Sequence[NodeBucket]) -> None:
        self.limit = limit
        self.unit: Unit = unit
        self.is_group = limit.name.startswith(_GROUP)
        self.buckets = [bucket for bucket in buckets if limit in bucket.limits.parts]
        cores = [max(1, bucket.vcpu_count) for bucket in self.buckets]
        self.grid = math.gcd(*cores) if unit == "cores" and cores else 1
        if self.is_group and self.buckets:
            first = self.buckets[0]
            alike = (b for b in buckets if _groups_of(b) == _groups_of(first))
            self.buckets = [first, *(bucket for bucket in alike if bucket is not first)]
            self.grid = 1

    @property
    def guesses_groups(self) -> bool:
        """Whether nobody knows how large placement groups of its buckets may be with a raise: where
        one may be as large as its bucket, nothing was said of it."""
        return any(each.placement_group and self._widens_groups(each) for each in self.buckets)

    @property
    def most(self) -> int:
        """How much it allows now, in its unit."""
        if self.is_group:
            return self.limit.max_cores // max(1, self.buckets[0].vcpu_count)
        return self.limit.max_cores if self.unit == "cores" else self.limit.max_nodes

    @property
    def _used(self) -> int:
        return self.limit.used_cores if self.unit == "cores" else self.limit.used_nodes

    def steps(self) -> Iterator[int]:
        """Raises at which anything may be another than with a smaller one, the smallest first."""
        free = 0 if self.is_group else max(0, self.most - self._used)
        first = self.grid - free % self.grid
        while True:
            yield first
            first += self.grid

    def steps_below(self, amount: int) -> int:
        """How many raises that may matter are smaller than one."""
        first = next(self.steps())
        return 0 if amount <= first else -(-(amount - first) // self.grid)

    def lacks_in(self, state: Changeable) -> int:
        """By how much more than it allows now is in use in a state; 0 where it is no more."""
        mine = {(b.nodearray, b.vm_size): max(1, b.vcpu_count) for b in self.buckets}
        used = 0
        for bucket, limits in state.limits():
            cores = mine.get((bucket.nodearray, bucket.vm_size))
            if cores is None:
                continue
            for part, limit in zip(bucket.limits.parts, limits, strict=True):
                if self.is_group and part.name.startswith(_GROUP):
                    used = max(used, limit.used_cores // cores)
                elif part.name == self.limit.name:
                    own = limit.used_cores if self.unit == "cores" else limit.used_nodes
                    used = max(used, own)
        return max(0, used - self.most)

    def raise_in(self, state: Changeable, amount: int) -> None:
        """Raise the limit of the same name in the state of another manager."""
        buckets = [bucket for bucket, _ in state.limits()]
        mine = [(b.nodearray, b.vm_size) for b in self.buckets]
        for bucket in (b for b in buckets if (b.nodearray, b.vm_size) in mine):
            for part in bucket.limits.parts:
                if part.name == self.limit.name:
                    Level(part, self.unit, buckets).raise_on(state, amount)
                    return

    def raise_on(self, trial: Changeable, amount: int) -> None:
        """Raise the limit on a trial, and what the server allows of its buckets with it."""
        concerned = set(map(id, self.buckets))
        every = [
            (bucket, dict(zip(bucket.limits.parts, limits, strict=True)))
            for bucket, limits in trial.limits()
            if id(bucket) in concerned
        ]
        # what explains the server's figures is looked at before any limit is another
        allowed = [
            (at[bucket.limits.own], None if self.is_group else self._allowed(bucket, at))
            for bucket, at in every
        ]
        plain = {(b.nodearray, b.vm_size): b for b, _ in every if not b.placement_group}
        outside = [(plain.get((bucket.nodearray, bucket.vm_size)), at) for bucket, at in every]
        widened = [
            (at, self._group_cores(bucket, amount)) for bucket, at in outside if bucket is not None
        ]
        raised = {
            id(copied): (copied, bucket.vcpu_count)
            for bucket, at in every
            for part, copied in at.items()
            if part is self.limit or (self.is_group and part.name.startswith(_GROUP))
        }
        for limit, cores in raised.values():
            self._raise(limit, amount, cores)
        for own, most in allowed:
            if most is not None:
                own.max_nodes = max(own.max_nodes, most)
        # limits of a bucket in a group say no more than the group may have
        for at, group_cores in widened:
            for part, copied in at.items():
                if part.name.startswith(_GROUP):
                    copied.max_cores = max(copied.max_cores, min(NO_LIMIT, group_cores))
        trial.changed()

    def _group_cores(self, bucket: NodeBucket, amount: int) -> int:
        """How many cores placement groups of a bucket may have with a raise: as many as the bucket
        may, where nothing else was said of them; 0 where they stay as they are."""
        if not self._widens_groups(bucket):
            return 0
        cores = max(1, bucket.vcpu_count)
        most = self.most + amount
        return (most if self.unit == "nodes" else most // cores) * cores

    def _widens_groups(self, bucket: NodeBucket) -> bool:
        """Whether a raise of it is one of placement groups, which may be as large as the bucket."""
        is_own = bucket.max_placement_group_size < bucket.limits.max_count
        return not (self.is_group or is_own or self.limit.name.startswith(_QUOTAS))

    def _raise(self, limit: Limit, amount: int, cores: int) -> None:
        if self.is_group:
            limit.max_cores = min(NO_LIMIT, limit.max_cores + amount * max(1, cores))
        elif self.unit == "cores":
            limit.max_cores = min(NO_LIMIT, limit.max_cores + amount)
        else:
            limit.max_nodes = min(NO_LIMIT, limit.max_nodes + amount)

    def _allowed(self, bucket: NodeBucket, at: dict[Limit, Limit]) -> int | None:
        """What the server may allow of a bucket where the limit is raised; None where something
        else than the shared limits keeps that down."""
        cores, limits = bucket.vcpu_count, bucket.limits
        own = at[limits.own]
        if self.limit is limits.own:
            return None
        stated = [copied for part, copied in at.items() if part.name.startswith(_STATED)]
        if own.room(cores) < min((limit.room(cores) for limit in stated), default=NO_LIMIT):
            return None
        if not self.limit.name.startswith(_QUOTAS):
            size = self.most if self.unit == "nodes" else self.most // max(1, cores)
            if limits.max_count >= size:
                return _PLENTY
        return max(own.max_nodes, limits.max_count)


def levels(limits: Sequence[Limit], buckets: Sequence[NodeBucket]) -> Iterator[Level]:
    """What may be raised of some limits."""
    groups: set[tuple[str, int]] = set()
    for limit in dict.fromkeys(limits):
        bounded: list[Unit] = []
        if limit.max_cores < NO_LIMIT:
            bounded.append("cores")
        if limit.max_nodes < NO_LIMIT:
            bounded.append("nodes")
        for unit in bounded:
            level = Level(limit, "nodes" if limit.name.startswith(_GROUP) else unit, buckets)
            if not level.buckets:
                continue
            if level.is_group:
                alike = _groups_of(level.buckets[0])
                if alike in groups:
                    continue
                groups.add(alike)
            yield level


def _groups_of(bucket: NodeBucket) -> tuple[str, int]:
    """What is the same of placement groups that one setting makes larger."""
    return str(bucket.nodearray), bucket.max_placement_group_size


def tries_for(queue: Queue, job: Job, among: int = 1) -> int:
    """How many raises of one limit of so many are tried at most: each places the jobs before this
    one on a copy of all buckets."""
    return min(_MOST_STEPS, _TRIED // (queue.ahead(job) + queue.buckets + 1) // max(1, among))


def raise_alone(queue: Queue, job: Job, level: Level) -> int | None:
    """The least raise with which a job starts where the jobs before it take no more than they do
    now; None where no raise helps."""
    trial, request = queue.at_turn(job), queue.wanted(job)
    if trial is None or request is None:
        return None
    return _alone(trial, job, request, level)


def least_raise(queue: Queue, job: Job, level: Level, tries: int) -> Raise | None:
    """The least raise of a limit that lets a job start; None where none was found. `tries`: how
    many raises may be tried, one after another."""
    alone = raise_alone(queue, job, level)
    if alone is None:
        return None
    if tries >= _WORTH_WHILE and alone // level.grid < tries:
        for amount, _ in zip(level.steps(), range(tries), strict=False):
            answer = queue.run(job, partial(level.raise_on, amount=amount))
            if answer is not None:
                return Raise(level, amount, answer, queue.is_exact)
    answer = queue.run(job, partial(level.raise_on, amount=alone))
    if answer is not None:
        return Raise(level, alone, answer, False)
    return _what_all_take(queue, job, level)


def least_raise_of_passes(
    ask: Callable[[Change], ChangedGain | None], level: Level, tries: int, alone: int | None
) -> Raise | None:
    """The least raise of a limit as whole passes have it; None where none was found.

    `tries`: how many passes may be asked. `alone`: what the job needs where the jobs before it take
    no more, as far as that is known. That is tried first, and then what all take where nothing is
    in their way. Where the passes are too few for all smaller raises, it need not be the least.
    """
    left = tries

    def start(amount: int) -> ChangedGain | None:
        nonlocal left
        left -= 1
        return ask(partial(level.raise_in, amount=amount))

    plenty = start(_PLENTY)
    if plenty is None:
        return None
    low, found = _one_that_does(start, level, (alone, level.lacks_in(plenty.taken())))
    if found is None:
        return None
    high, answer = found
    if level.steps_below(high) <= left:
        for amount in takewhile(lambda each: each < high, level.steps()):
            less = start(amount) if amount != low else None
            if less is not None:
                return Raise(level, amount, less, True)
        return Raise(level, high, answer, True)
    amount, answer = _halved(start, level, low, (high, answer), left)
    return Raise(level, amount, answer, False)


def _one_that_does(
    start: Callable[[int], Gain | None], level: Level, guesses: Sequence[int | None]
) -> tuple[int, tuple[int, Gain] | None]:
    """A raise that lets a job start, with the answer to it, and a smaller one that does not: one of
    those that were guessed, the smallest first, or a greater one; None where none was found."""
    low = 0
    for guess in sorted({each for each in guesses if each}):
        answer = start(guess)
        if answer is not None:
            return low, (guess, answer)
        low = guess
    for _ in range(_MOST_DOUBLED):
        amount = low * 2 or next(level.steps())
        answer = start(amount)
        if answer is not None:
            return low, (amount, answer)
        low = amount
    return low, None


def _halved(
    start: Callable[[int], Gain | None],
    level: Level,
    low: int,
    found: tuple[int, Gain],
    most: int = _MOST_HALVES,
) -> tuple[int, Gain]:
    """A smaller raise than the one that was found, with the answer to it, as far as a few halves
    show, and no more than `most`. `low`: one that does not do."""
    first, (high, answer) = next(level.steps()), found
    fails, does = level.steps_below(low + 1) - 1, level.steps_below(high)
    step, answer = by_halves(
        lambda step: start(first + step * level.grid),
        fails,
        (does, answer),
        min(most, _MOST_HALVES),
    )
    return high if step == does else first + step * level.grid, answer


def by_halves(
    ask: Callable[[int], Gain | None], fails: int, found: tuple[int, Gain], most: int | None = None
) -> tuple[int, Gain]:
    """The least number that was found to do, with the answer to it. `fails`: a smaller one that
    does not; `found`: one that does. Halves are asked until none is left, `most` of them at most.
    """
    does, best = found
    left = does - fails if most is None else most
    while does - fails > 1 and left > 0:
        left -= 1
        middle = (fails + does) // 2
        answer = ask(middle)
        fails, does = (middle, does) if answer is None else (fails, middle)
        best = answer or best
    return does, best


def least_raises(
    ask: Callable[[Change], ChangedGain | None],
    raise_it: RaiseIt,
    among: Sequence[Level],
    tries: int,
) -> Raises | None:
    """The least raises of several levels that let a job start together; None where none were found.

    `raise_it` raises a level in what `ask` asks of: `Level.raise_on` or `Level.raise_in`. `tries`:
    how many steps of each level may be asked; where these are too few, they need not be the least.
    """

    known: dict[frozenset[tuple[Level, int]], ChangedGain | None] = {}

    def asked(raised: Mapping[Level, int]) -> ChangedGain | None:
        # the round that finds nothing less asks what was asked before
        key = frozenset(raised.items())
        if key not in known:
            known[key] = ask(partial(_raise_all, raise_it=raise_it, raised=raised))
        return known[key]

    begun = _enough_of_each(asked, among)
    if begun is None:
        return None
    amounts, answer = begun
    for _ in range(_MOST_ROUNDS):
        # with less of one, jobs before it may start no more, and then less of others will do
        before, is_least = amounts, True
        for level in reversed(before):
            others = {each: amount for each, amount in amounts.items() if each is not level}
            without = asked(others) if others else None
            if without is not None:
                amounts, answer = others, without
        for level in list(amounts):
            found, is_every = _least_beside(asked, (amounts, answer), level, tries)
            if found is None:
                return None
            amounts, answer = found
            is_least = is_least and is_every
        if amounts == before:
            return Raises(amounts, answer, is_least)
    return Raises(amounts, answer, False)


_Answered = tuple[dict[Level, int], Gain]
"""Raises of several levels, and the answer to them."""


def _enough_of_each(
    asked: Callable[[Mapping[Level, int]], ChangedGain | None], among: Sequence[Level]
) -> _Answered | None:
    """Raises of several levels with which a job starts, with the answer to them: by what the jobs
    take where nothing is in their way, if that does; None where nothing does."""
    amounts = dict.fromkeys(among, _PLENTY)
    plenty = asked(amounts)
    if plenty is None:
        return None
    state = plenty.taken()
    lacking = {level: lacks for level in among if (lacks := level.lacks_in(state))}
    answer = asked(lacking) if lacking else None
    return (amounts, plenty) if answer is None else (lacking, answer)


def _raise_all(state: Changeable, raise_it: RaiseIt, raised: Mapping[Level, int]) -> None:
    for level, amount in raised.items():
        raise_it(level, state, amount)


def _least_beside(
    asked: Callable[[Mapping[Level, int]], Gain | None],
    known: _Answered,
    level: Level,
    tries: int,
) -> tuple[_Answered | None, bool]:
    """The least raise of one level beside those of others, no more than it is `known` to be enough,
    with the answer to all, and whether every smaller one was tried; None where none was found."""
    amounts, _ = known
    low = 0
    for amount, _ in zip(level.steps(), range(tries), strict=False):
        if amount >= amounts[level]:
            return known, True
        raised = {**amounts, level: amount}
        answer = asked(raised)
        if answer is not None:
            return (raised, answer), True
        low = amount

    def start(amount: int) -> Gain | None:
        return asked({**amounts, level: amount})

    if amounts[level] < _PLENTY:
        if not tries:
            return known, False
        amount, answer = _halved(start, level, low, (amounts[level], known[1]))
        return ({**amounts, level: amount}, answer), False
    low, found = _one_that_does(start, level, (low,))
    if found is None:
        return None, False
    amount, answer = _halved(start, level, low, found)
    return ({**amounts, level: amount}, answer), False


def _what_all_take(queue: Queue, job: Job, level: Level) -> Raise | None:
    """The raise that serves a job and all before it: what they take when nothing is in their
    way."""
    answer = queue.run(job, partial(level.raise_on, amount=_PLENTY))
    if answer is None or level.is_group:
        return None
    amount = level.lacks_in(answer.taken())
    return Raise(level, amount, answer, False) if amount > 0 else None


def _alone(trial: Supposition, job: Job, request: Request, level: Level) -> int | None:
    """The least raise with which a job starts where the jobs before it take no more than they do
    now; None where no raise helps."""

    def starts(amount: int) -> bool:
        with trial.as_it_is():
            level.raise_on(trial, amount)
            return Queue.ask(trial, job, request) is not None

    if not starts(_PLENTY):
        return None
    low, high = 0, level.grid
    while not starts(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(middle) else (middle, high)
    return high
