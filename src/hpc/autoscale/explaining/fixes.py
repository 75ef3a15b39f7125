"""The smallest changes that let a job start. Each was asked of the engine: nothing is proposed that
it would not place.

Kinds, in the order in which they are told: a name is corrected, time passes, the job allows
something else, it asks for less, a limit is raised, something that is disabled is enabled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from hpc.autoscale import clock
from hpc.autoscale.backoff.held import HeldBack
from hpc.autoscale.config.naming import NODEARRAYS
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.asking import Gain
from hpc.autoscale.explaining.found import Found
from hpc.autoscale.explaining.known import value_of_new
from hpc.autoscale.explaining.limit_words import name_of_limit, what_rests
from hpc.autoscale.explaining.raising import (
    Level,
    RaiseIt,
    by_halves,
    least_raise,
    least_raise_of_passes,
    least_raises,
    levels,
    raise_alone,
    tries_for,
)
from hpc.autoscale.explaining.rewriting import (
    Asked,
    allowed,
    is_above_zero,
    names_of_amounts,
    renamed,
    revalued,
    values_of,
)
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.supposing import Changeable
from hpc.autoscale.explaining.waiting_job import TRIES, WaitingJob, pool_names
from hpc.autoscale.explaining.words import in_time, listed, meant, per_hour
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Fix, Part

MOST_FIXES = 5
_MOST_AMOUNTS = 300
_MOST_VALUES = 20
_MOST_TOGETHER = 3
_MOST_TIMES = 3
_QUOTAS = ("FamilyQuota", "RegionQuota", "SpotQuota")
_Amount = TypeVar("_Amount", int, float)
_OF_AMOUNTS = ("TooLarge", *_QUOTAS, "NodearrayLimit", "ClusterLimit", "BucketLimit")


class Fixes(NamedTuple):
    """Changes that let a job start, and what was not tried to find them, in words; empty where
    nothing was left out."""

    found: tuple[Fix, ...] = ()
    left_out: str = ""


def fixes_for(job: Job, found: Sequence[Found], scene: Scene) -> Fixes:
    """Changes that let a job start that waits; none of a job that had no turn."""
    change = WaitingJob(job, found, scene)
    if change.turn is None or change.request is None:
        return Fixes()
    # what nobody would be told of is not looked for
    made = tuple(islice(_each_fix(change), MOST_FIXES))
    return Fixes(made, change.left_out)


def _each_fix(change: WaitingJob) -> Iterator[Fix]:
    """Changes that let a job start, kind by kind."""
    for finder in (
        _rename,
        _wait,
        _allow,
        _ask_for_less,
        _of_pools,
        _fewer,
        _raise_limits,
        _enable,
    ):
        change.begin()
        of_job = finder not in (_wait, _raise_limits, _enable)
        for fix in finder(change):
            is_certain = change.are_jobs_certain if of_job else change.is_certain
            yield fix if is_certain and fix.is_certain else _uncertain(fix)


def _uncertain(fix: Fix) -> Fix:
    """The fix, which says that it may help, as nobody can promise it."""
    return replace(fix, text=f"may help: {fix.text}", is_least=False, is_certain=False)


def _fix(kind: str, text: str, answer: Gain, **more: Any) -> Fix:
    """A fix, with what it starts and costs."""
    nodes, price = answer.nodes, answer.price
    said = (
        f"{text}: on nodes that are there or planned"
        if not nodes
        else f"{text}{_starts(nodes, price)}"
    )
    return Fix(kind, on_one_line(said), nodes=nodes, price_per_hour=price, **more)


def _starts(nodes: Mapping[str, int], price: float | None) -> str:
    many = ", ".join(f"{count} x {where}" for where, count in nodes.items())
    return f": {many}, {per_hour(price)}"


# -- names


def _rename(change: WaitingJob) -> Iterator[Fix]:
    """Names that nothing has, as they were probably meant."""
    for found in change.of_codes("UnknownResource"):
        name = str(found.key[0])
        for other in meant(name, change.known.resources):
            answer = change.asked_as(partial(renamed, name=name, other=other))
            if answer is not None:
                text = f"ask for {other} instead of {name}"
                yield _fix("rename", text, answer, subject=other)
                break
    for found in change.of_codes("UnknownValue"):
        yield from _other_values(change, found, "rename")


def _other_values(change: WaitingJob, found: Found, kind: str) -> Iterator[Fix]:
    """A value that no node has, as one that is near it."""
    short = str(found.key[0])
    for name in (f"node.{short}", short):
        wanted = [v for v in values_of(change.constraints, name) if isinstance(v, str)]
        values = [v for v in change.known.values(name) if isinstance(v, str)]
        for value in wanted:
            for other in meant(value, values):
                answer = change.asked_as(partial(revalued, name=name, old=value, new=other))
                if answer is not None:
                    text = f"ask for {short} {other} instead of {value}"
                    yield _fix(kind, text, answer, subject=other)
                    return


# -- time


def _wait(change: WaitingJob) -> Iterator[Fix]:
    """Until what rests may be tried again."""
    now = clock.time()
    held = [
        (limit, what_rests(limit, each.buckets[0]))
        for each in change.found
        for limit in each.limits
        if isinstance(limit, HeldBack) and each.buckets
    ]
    opened = {limit.known.open_at for limit, _ in held}
    times = opened | {limit.known.until for limit, _ in held}
    # what the pass has read of failures is older by now, and changes start from there
    rests = {each.until: each.rest for each in change.of_codes("CapacityBackoff")}
    times |= {until for until in rests if until is not None}
    ahead = sorted(time for time in times if time > now)

    def ask(when: float) -> Gain | None:
        passing = max(when - now, rests.get(when, 0.0))
        return change.asked_with(partial(_later, when=when, seconds=passing))

    if len(ahead) > _MOST_TIMES and change.again is not None and ask(ahead[-1]) is None:
        return
    for when in ahead:
        rest = when - now
        answer = ask(when)
        if answer is not None:
            about = listed(what for _, what in held) or "capacity"
            text = f"wait {in_time(rest)}, until {about} is tried again"
            if when in opened:
                # by then as many may be asked for as are wanted, unless what is tried first fails
                text = f"wait {in_time(rest)} at most, unless {about} fails again"
            # a gang may be given up before that
            more: dict[str, Any] = {
                "is_least": when not in opened,
                "is_certain": not change.gathers,
            }
            yield _fix("wait", text, answer, subject=about, amount=rest, unit="s", **more)
            return


def _later(trial: Changeable, when: float, seconds: float) -> None:
    """Let it be later on a trial, by so many seconds."""
    for _, limits in trial.limits():
        for limit in limits:
            if isinstance(limit, HeldBack):
                limit.suppose(when)
    trial.pass_time(seconds)


# -- what the job asks for


def _allow(change: WaitingJob) -> Iterator[Fix]:
    """Nodes with another value, which the job does not want."""
    best: tuple[float, str, Fix] | None = None
    tried: set[tuple[str, str]] = set()
    for found in change.of_codes("OtherNodearray", "OtherValue"):
        names = [str(found.key[0])]
        if found.code == "OtherNodearray":
            names = [name for name in NODEARRAYS if [*values_of(change.constraints, name)]]
        for name, bucket in ((n, b) for n in names for b in found.buckets):
            short = name.removeprefix("node.")
            value = bucket.nodearray if name in NODEARRAYS else value_of_new(bucket, name)
            if value is None or (name, str(value)) in tried or len(tried) >= _MOST_VALUES:
                continue
            tried.add((name, str(value)))
            answer = change.asked_as(partial(allowed, name=name, other=value))
            if answer is None:
                continue
            fix = _fix("allow", f"allow {short} {value}", answer, subject=f"{short} {value}")
            cost = math.inf if fix.price_per_hour is None else fix.price_per_hour
            if best is None or (cost, fix.text) < best[:2]:
                best = (cost, fix.text, fix)
    if best is not None:
        yield best[2]


def _ask_for_less(change: WaitingJob) -> Iterator[Fix]:
    """Less of a resource on each node; the most that is possible. Of alternatives of which none
    fits, one after another."""
    has_alternatives = any(change.of_codes("NoAlternative"))
    if change.turn is None or not (has_alternatives or any(change.of_codes(*_OF_AMOUNTS))):
        return
    names = {name for each in change.constraints for name in names_of_amounts(each)}
    for name in sorted(names):
        values = [v for v in values_of(change.constraints, name) if is_above_zero(v)]
        if len(values) == 1 or has_alternatives:
            free = change.turn.free(name)
            for value in dict.fromkeys(values):
                yield from _less_of(change, Asked(name, value, free))


def _less_of(change: WaitingJob, asked: Asked) -> Iterator[Fix]:
    """Less of one amount."""
    change.begin()
    name = asked.name
    amounts, is_every = _smaller_amounts(change, asked)

    def ask(amount: float) -> Gain | None:
        new = asked.valued(amount)
        return change.asked_as(partial(revalued, name=name, old=asked.value, new=new))

    most = _first_that_does(change, amounts, ask)
    if most is not None:
        amount, answer, is_known = most
        of = name if asked.unit is None else asked.unit.suffix
        is_least = is_every and is_known
        more = {"subject": name, "amount": amount, "unit": of, "is_least": is_least}
        yield _fix("ask-less", f"ask for {asked.instead(amount)}", answer, **more)


def _first_that_does(
    change: WaitingJob, amounts: Sequence[_Amount], ask: Callable[[_Amount], Gain | None]
) -> tuple[_Amount, Gain, bool] | None:
    """The first of some amounts, the most first, that lets a job start, with what it gets, and
    whether all before it were ruled out; None where none does.

    Of copies all are asked, and of a pass that stands at the job's turn if they are not too many.
    Where each takes a pass, the least comes first: where that does not do, no other is asked.
    """
    is_at_turn = change.at_turn is not None
    if change.is_by_copy or (is_at_turn and len(amounts) <= TRIES):
        found = ((amount, ask(amount)) for amount in amounts)
        return next(((each, got, True) for each, got in found if got is not None), None)
    least = ask(amounts[-1]) if amounts else None
    if least is None:
        return None
    if is_at_turn or len(amounts) - 1 > change.passes:
        return _by_halves(amounts, ask, least)
    for amount in amounts[:-1]:
        answer = ask(amount)
        if answer is not None:
            return amount, answer, True
    return amounts[-1], least, True


def _by_halves(
    amounts: Sequence[_Amount], ask: Callable[[_Amount], Gain | None], least: Gain
) -> tuple[_Amount, Gain, bool]:
    """One of some amounts, the most first, that lets a job start, and of which the one before does
    not, or was not asked. `least`: what the job gets with the last."""
    place, best = by_halves(lambda place: ask(amounts[place]), -1, (len(amounts) - 1, least))
    return amounts[place], best, False


def _smaller_amounts(change: WaitingJob, asked: Asked) -> tuple[list[float], bool]:
    """Less of a resource that a job may be asked for with, the most first, and whether nothing
    between them could do. Where no copy can tell, as work may lie otherwise, every whole number."""
    if not change.is_by_copy and asked.is_whole and asked.number <= change.tries:
        return [*range(int(asked.number) - 1, 0, -1)], True
    is_every = change.is_by_copy and (asked.unit is None or asked.is_whole)
    return asked.smaller()[:_MOST_AMOUNTS], is_every


def _of_pools(change: WaitingJob) -> Iterator[Fix]:
    """Less of what jobs share, such as licences; the most that is left."""
    if change.is_by_copy or not any(change.of_codes("PoolEmpty")):
        return
    for constraint in asked_by(change.job)[0].constraints:
        name = pool_names(constraint)
        amount = getattr(constraint, "amount", None)
        if not name or not isinstance(amount, (int, float)) or amount % 1:
            continue
        asked = int(amount)  # schedulers hand over 4.0, too
        change.begin()

        def ask(amount: int, name: str = name) -> Gain | None:
            return change.asked_of_pools({name: amount})

        most = _first_that_does(change, range(asked - 1, 0, -1), ask)
        if most is not None:
            less, answer, is_least = most
            text = f"ask for {less} instead of {asked} of {name}"
            more = {"subject": name, "amount": less, "unit": name, "is_least": is_least}
            yield _fix("ask-less", text, answer, **more)


def _fewer(change: WaitingJob) -> Iterator[Fix]:
    """Fewer nodes, or fewer slots; the most that are possible."""
    request = change.request
    if request is None or request.units < 2:
        return
    asked = request.units
    most = _most_units(change, asked)
    if most is not None:
        units, answer, is_every = most
        unit = "node" if change.job.node_count > 0 else "slot"
        text = f"ask for {counted(units, unit)} instead of {asked}"
        subject = f"{unit}s"
        more = {"subject": subject, "amount": float(units), "unit": subject, "is_least": is_every}
        yield _fix("ask-less", text, answer, **more)


def _most_units(change: WaitingJob, asked: int) -> tuple[int, Gain, bool] | None:
    """The most nodes or slots below what was asked for that a job gets, what it gets, and whether
    all between the two were ruled out; None where it gets none."""
    fewer = range(asked - 1, 0, -1)
    if not change.is_by_copy:
        return _first_that_does(change, fewer, change.asked_for)
    least = change.asked_for(1)
    if least is None:
        return None
    units, answer, _ = _by_halves(fewer, change.asked_for, least)
    return units, answer, True


# -- what the cluster allows


def _raise_limits(change: WaitingJob) -> Iterator[Fix]:
    """Limits that leave too little room, each raised by as little as possible; several of one
    bucket together where none of them alone does."""
    limits = list(dict.fromkeys(limit for each in change.found for limit in each.limits))
    plain: list[Limit] = [limit for limit in limits if _may_be_raised(limit)]
    is_enough = False
    limited = [bucket for each in change.found if each.limits for bucket in each.buckets]
    needs_group = all(bucket.placement_group for bucket in limited)
    every = list(levels(plain, change.known.buckets))
    tries = tries_for(change.queue, change.job, len(every))
    for number, level in enumerate(every):
        if change.again is None:
            raised = least_raise(change.queue, change.job, level, tries)
        else:
            # one share is for several limits together
            change.begin(shares=len(every) - number + 1)
            alone = raise_alone(change.queue, change.job, level)
            raised = least_raise_of_passes(change.asked_with, level, change.passes, alone)
        if raised is not None:
            is_enough = True
            part = _part(level, raised.amount)
            text = f"raise {_raised(level, raised.amount)}"
            more = part._asdict() | {"is_least": raised.is_least}
            more["is_certain"] = _are_certain(change, [level], needs_group)
            yield _fix("raise-limit", text, raised.answer, **more)
    if not is_enough:
        change.begin(shares=1)
        yield from _raise_together(change)


def _raise_together(change: WaitingJob) -> Iterator[Fix]:
    """Limits of one bucket that are in the way at once, also where only one of them is named; those
    of the first bucket where that helps."""
    tried: set[tuple[Limit, ...]] = set()
    every = (b for each in change.found if each.limits for b in each.buckets)
    for bucket in every:
        own, named = bucket.limits.own, {limit for each in change.found for limit in each.limits}
        limits = [limit for limit in bucket.limits.parts if _may_be_raised(limit)]
        # what the server says of the bucket alone follows from the others, where it can
        limits.sort(key=lambda limit: (limit is own, limit not in named))
        if tuple(limits) in tried or len(tried) >= _MOST_TOGETHER:
            continue
        tried.add(tuple(limits))
        among = list(levels(limits, change.known.buckets))
        tries = tries_for(change.queue, change.job, len(among))
        raise_it: RaiseIt = Level.raise_on
        if change.again is not None:
            raise_it, tries = Level.raise_in, 0
        raised = least_raises(change.asked_with, raise_it, among, tries) if among else None
        if raised is not None:
            said = ", and ".join(_raised(level, by) for level, by in raised.amounts.items())
            parts = tuple(_part(level, by) for level, by in raised.amounts.items())
            more: dict[str, Any] = {"subject": " and ".join(part.subject for part in parts)}
            more = {"parts": parts, **more} if len(parts) > 1 else parts[0]._asdict()
            # what a whole pass does with less of one of them may take other nodes altogether
            more["is_least"] = raised.is_least and change.again is None and change.queue.is_exact
            more["is_certain"] = _are_certain(change, raised.amounts, bool(bucket.placement_group))
            yield _fix("raise-limit", f"raise {said}", raised.answer, **more)
            return


def _are_certain(change: WaitingJob, raised: Iterable[Level], needs_group: bool) -> bool:
    """Whether raises can be promised: not where nobody knows how large placement groups may be
    then, if that matters to the job or to a gang before it."""
    are_guesses = any(level.guesses_groups for level in raised)
    return not (are_guesses and (needs_group or change.queue.has_gangs_before(change.job)))


def _raised(level: Level, by: int) -> str:
    """A raise in words: `the limit of nodearray htc (MaxCount) by 4 nodes, to 10`."""
    _, called = name_of_limit(level.limit, level.unit)
    unit = level.unit.removesuffix("s") if by == 1 else level.unit
    if level.is_group:
        called = f"the size of placement groups of {level.buckets[0].nodearray}"
    if level.limit is level.buckets[0].limits.own:
        return f"{called} by {by} {unit} (MaxCount of the cluster or the size)"
    return f"{called} by {by} {unit}, to {level.most + by}"


def _part(level: Level, by: int) -> Part:
    """A raise as data."""
    group = f"PlacementGroup({level.buckets[0].nodearray})" if level.is_group else ""
    return Part(group or level.limit.name, float(by), level.unit)


def _may_be_raised(limit: Limit) -> bool:
    return not isinstance(limit, HeldBack) and name_of_limit(limit)[1] != limit.name


def _enable(change: WaitingJob) -> Iterator[Fix]:
    """What the cluster has and nobody can use, one node of it."""
    for found in change.of_codes("NodearrayDisabled", "SizeNotActivated", "SizeRetired"):
        bucket = found.buckets[0]
        if not _has_room(bucket, change.known.buckets):
            continue
        price = price_per_hour(bucket.location, bucket.vm_size, bucket.spot)
        each = f"a node costs {per_hour(price)}" if price is not None else per_hour(price)
        how = {
            "NodearrayDisabled": f"set autoscale.enabled to true in nodearray {bucket.nodearray}",
            "SizeNotActivated": f"let {bucket.vm_size} be activated for the subscription",
            "SizeRetired": f"let {bucket.vm_size} be used in CycleCloud again",
        }[found.code]
        subject = str(bucket.nodearray)
        # what the server would say of the size then is not known
        yield Fix("enable", f"{how} ({each})", subject, price_per_hour=price, is_certain=False)


def _has_room(bucket: NodeBucket, others: Iterable[NodeBucket]) -> bool:
    """Whether the limits that a bucket that cannot be used would share with others leave room for a
    node of it."""
    for other in (each for each in others if each.location == bucket.location):
        shares = {
            "ClusterLimit": True,
            "NodearrayLimit": other.nodearray == bucket.nodearray,
            "RegionQuota": not (other.spot or bucket.spot),
            "SpotQuota": bool(other.spot and bucket.spot),
            "FamilyQuota": other.vm_family == bucket.vm_family and other.spot == bucket.spot,
        }
        for limit in other.limits.parts:
            is_shared = shares.get(name_of_limit(limit)[0], False) and limit.is_charged
            if is_shared and limit.room(bucket.vcpu_count) < 1:
                return False
    return True
