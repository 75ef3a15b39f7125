"""What came of a run, in figures: waiting times, utilisation, node-hours, cost.

Pure arithmetic on what `playing` kept. The same figures are worked out of what a workload's own
record says of its waiting times (`as_recorded`), so that both can be held against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.vm_sizes.prices import price_per_hour
from hpc.autoscale.traces.asking import not_looked_at
from hpc.autoscale.traces.playing import NodeLife, Played
from hpc.autoscale.traces.workload import Trace, TraceJob

SHORTEST = 10.0
"""Run times below so many seconds count as this in a bounded slowdown."""

_HOUR = 3600.0


@dataclass(frozen=True)
class Waits:
    """Waiting times in seconds, and how much longer jobs took than they ran.

    The bounded slowdown of a job is (wait + run) / max(run, 10 s), and at least 1. All are None
    where there is nothing to work them out from.
    """

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    longest: float | None = None
    slowdown: float | None = None
    slowdown_p95: float | None = None


@dataclass(frozen=True)
class Measures:
    """The figures of one run, or of a record.

    `utilisation` is the part of the paid core time in which jobs ran to their end; None where no
    machine is known. `cost` is in US dollars, and None where a price is unknown: `unpriced` are the
    sizes without one. `boots` are VMs that came up; `evictions`, `failed_boots` and `no_capacity`
    count nodes. `impossible` are jobs that the machine could never hold, beside `jobs`;
    `unfinished` those of `jobs` that never ran to their end. `lost_core_hours` were spent on runs
    that were cut short. `not_looked_at` are numbers of jobs by what else they had asked for
    (`asking`). `error`: the most frequent error of passes. `not_in_journal`: how many passes could
    not be written to the journal, and why.
    """

    name: str
    jobs: int
    impossible: int
    unfinished: int
    days: float
    waits: Waits
    utilisation: float | None = None
    node_hours: float | None = None
    core_hours: float | None = None
    cost: float | None = None
    most_nodes: int | None = None
    boots: int | None = None
    failed_boots: int | None = None
    no_capacity: int | None = None
    evictions: int | None = None
    restarts: int | None = None
    lost_core_hours: float | None = None
    passes: int | None = None
    failed_passes: int | None = None
    error: str = ""
    unpriced: tuple[str, ...] = field(default=())
    not_looked_at: Mapping[str, int] = field(default_factory=dict)
    not_in_journal: str = ""


def measures_of(played: Played) -> Measures:
    """The figures of a run."""
    done = [task for task in played.tasks if task.ended is not None]
    began, ended = played.began, played.ended
    paid = [(life, _seconds_up(life, ended)) for life in played.nodes]
    node_hours = sum(seconds for _, seconds in paid) / _HOUR
    core_hours = sum(life.cores * seconds for life, seconds in paid) / _HOUR
    work = sum(task.job.cores * task.job.seconds for task in done) / _HOUR
    cost, unpriced = _cost(paid)
    events = played.events
    return Measures(
        played.play.name,
        jobs=len(played.tasks),
        impossible=len(played.impossible),
        unfinished=played.unfinished,
        days=(ended - began) / 86400,
        waits=waits_of((task.wait, task.job.seconds) for task in done),
        utilisation=work / core_hours if core_hours else None,
        node_hours=node_hours,
        core_hours=core_hours,
        cost=cost,
        most_nodes=most_at_once(played.nodes, ended),
        boots=sum(life.vm_up is not None for life in played.nodes),
        failed_boots=events["failed: boot_failed"],
        no_capacity=events["failed: allocation_failed"],
        evictions=events["evicting"],
        restarts=sum(task.lost for task in played.tasks),
        lost_core_hours=sum(task.lost_core_seconds for task in played.tasks) / _HOUR,
        passes=played.passes,
        failed_passes=sum(played.errors.values()),
        error=next((text for text, _ in played.errors.most_common(1)), ""),
        unpriced=unpriced,
        not_looked_at=not_looked_at(
            (task.job for task in (*played.tasks, *played.impossible)), played.play.uses
        ),
        not_in_journal=played.not_in_journal,
    )


def as_recorded(trace: Trace, jobs: Sequence[TraceJob]) -> Measures | None:
    """The same figures by the record's own waiting times; None where it has none.

    Utilisation is that of the machine of the record, from when the first of these jobs came to when
    the last of them ended.
    """
    known = [job for job in jobs if job.waited is not None]
    if not known:
        return None
    began = known[0].submitted
    ended = max(job.submitted + (job.waited or 0.0) + job.seconds for job in known)
    hours = (ended - began) / _HOUR
    work = sum(job.cores * job.seconds for job in known) / _HOUR
    cores = trace.machine_cores
    return Measures(
        "as recorded",
        jobs=len(known),
        impossible=0,
        unfinished=0,
        days=(ended - began) / 86400,
        waits=waits_of((job.waited or 0.0, job.seconds) for job in known),
        utilisation=work / (cores * hours) if cores and hours else None,
        node_hours=trace.machine_nodes * hours if trace.machine_nodes else None,
        core_hours=cores * hours if cores else None,
        most_nodes=trace.machine_nodes,
    )


def waits_of(pairs: Iterable[tuple[float, float]]) -> Waits:
    """The figures of pairs of waiting time and run time."""
    every = list(pairs)
    if not every:
        return Waits()
    waits = sorted(wait for wait, _ in every)
    slowdowns = sorted(max(1.0, (wait + run) / max(run, SHORTEST)) for wait, run in every)
    return Waits(
        mean=math.fsum(waits) / len(waits),
        p50=percentile(waits, 0.5),
        p95=percentile(waits, 0.95),
        longest=waits[-1],
        slowdown=math.fsum(slowdowns) / len(slowdowns),
        slowdown_p95=percentile(slowdowns, 0.95),
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    """The least of these values, in rising order, that at least this part of them does not
    exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def most_at_once(lives: Iterable[NodeLife], ended: float) -> int:
    """How many VMs there were at a time, at most."""
    changes = []
    for life in lives:
        if life.vm_up is not None:
            changes += [(life.vm_up, 1), (ended if life.gone is None else life.gone, -1)]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _seconds_up(life: NodeLife, ended: float) -> float:
    """How long the VM of a node was up; a VM is paid for from when it is up to when it is gone."""
    if life.vm_up is None:
        return 0.0
    return max(0.0, (ended if life.gone is None else life.gone) - life.vm_up)


def _cost(paid: Sequence[tuple[NodeLife, float]]) -> tuple[float | None, tuple[str, ...]]:
    prices: dict[tuple[str, str, bool], float | None] = {}
    total, unpriced = 0.0, dict[str, None]()
    for life, seconds in paid:
        key = (life.region, life.vm_size, life.spot)
        if key not in prices:
            size = ht.VMSize(life.vm_size)
            prices[key] = price_per_hour(ht.Location(life.region), size, life.spot)
        price = prices[key]
        if price is None:
            unpriced[life.vm_size] = None
        else:
            total += price * seconds / _HOUR
    return (None if unpriced else total), tuple(unpriced)
