"""How a cluster stands: what `azscale status` shows, as values.

It is what a rehearsal reads and finds: the loop's own pass up to its demand, which changes nothing
and takes no lock. Called by `status`; `standing_text` makes lines of it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from socket import gethostname
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import hooks, learning
from hpc.autoscale.autoscaler.faults import call_with_up_to
from hpc.autoscale.autoscaler.journaling import journal_path
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.autoscaler.metering import SECTION
from hpc.autoscale.autoscaler.summary import (
    StuckJobs,
    jobs_aside,
    name_of_job,
    stuck_jobs,
)
from hpc.autoscale.backoff.held import HeldBack
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.config.secrets import addressed
from hpc.autoscale.explaining.limit_words import resting_in_words
from hpc.autoscale.hpctypes import name_order
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import UnusableHost, is_running
from hpc.autoscale.lockstate import LockState
from hpc.autoscale.metrics.health import PassEnd, last_end
from hpc.autoscale.node.guards import AWAY, is_taken_back, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.pricing import is_paid_for, node_price
from hpc.autoscale.onpremises.listing import OFF, is_on_premises
from hpc.autoscale.packing.limits import NO_LIMIT
from hpc.autoscale.plaintext import NAMED_AT_MOST, on_one_line
from hpc.autoscale.redaction import redact
from hpc.autoscale.rehearsal import Cost, Rehearsal
from hpc.autoscale.requestsets.demand import RequestJob, WantedNodes
from hpc.autoscale.requestsets.dynamic import array_of
from hpc.autoscale.workers.keeping import is_booting

STATES = (
    "busy",
    "idle",
    "joining",
    "booting",
    "resting",
    "leaving",
    "failed",
    "unknown",
    "planned",
)
"""What nodes are counted as. `joining`: ready, and no host of the scheduler yet; `resting`:
deallocated, or hosts on premises without their worker, until a job needs them; `leaving`: drained,
or told to stop; `planned`: the next pass wants them; `unknown`: of a cluster that does not
answer."""

JUDGED = 1_000
"""Of how many groups of jobs that wait for the same it is worked out why, the largest first: of
thousands of jobs that all ask for something else that would take seconds. The others are
counted."""

_MAY_BE_LATE = 60.0
"""For how many seconds after the next pass of a loop was due nothing is wrong with it."""

_LATE = 2.0
"""How many seconds the node history may be written after a pass has ended, by the clock."""


@dataclass(frozen=True)
class BucketStanding:
    """The nodes of a nodearray and VM size, by state, and what those that exist cost per hour."""

    bucket: str
    nodes: Mapping[str, int]
    price_per_hour: float | None


@dataclass(frozen=True)
class LimitStanding:
    """How much of a limit is used, and how much the next pass would add. `unit`: `cores` or
    `nodes`."""

    name: str
    unit: str
    used: int
    planned: int
    most: int


@dataclass(frozen=True)
class FailedNode:
    """A node that failed, and what the server says of it."""

    node: str
    bucket: str
    message: str


@dataclass(frozen=True)
class PassStanding:
    """How the passes of a site stand at a time. `last_pass` is when the last one ended, `next_pass`
    when the next one of its loop is due: unix times, None when unknown, `next_pass` also when no
    loop made the last one. `last_end`: how the last one ended, None when unknown. `loop_is_gone`:
    the process of the loop that made it has ended, as far as that is seen from here."""

    at: float
    last_pass: float | None
    next_pass: float | None
    last_end: PassEnd | None
    loop_is_gone: bool

    @property
    def is_late(self) -> bool:
        """Whether the loop should have made another pass by now."""
        return self.next_pass is not None and self.at - self.next_pass > _MAY_BE_LATE


@dataclass(frozen=True)
class LoopStanding(PassStanding):
    """How the loop of a site stands at a time: what is known of it without asking its cluster or
    its scheduler. `clusters`: names with where they are."""

    clusters: Mapping[str, str]
    lock: LockState


@dataclass(frozen=True)
class Standing(LoopStanding):
    """How things stand at a time. `away`: why some of the clusters are set aside, by name, as among
    the `problems`. `jobs`: how many `run`, `will_start` when nodes that boot or are planned are
    there, and are `stuck`; and how many wishes of request sets are `served`, and demands of
    `workers` by number, with nodes that are there or come. `cost` is that of `paid` nodes, in it
    those of unknown price."""

    away: Mapping[str, str]
    cost: Cost
    paid: int
    cost_planned: Cost
    buckets: Sequence[BucketStanding]
    limits: Sequence[LimitStanding]
    jobs: Mapping[str, int]
    stuck: Sequence[StuckJobs]
    failed: Sequence[FailedNode]
    backoffs: Sequence[str]
    problems: Sequence[str]

    @property
    def nodes(self) -> Counter[str]:
        """All nodes by state."""
        total: Counter[str] = Counter()
        for bucket in self.buckets:
            total.update(bucket.nodes)
        return total

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        own = {"lock": self.lock._asdict(), "lock_holders": list(self.lock.holders)}
        return {**asdict(self), **own, "nodes": dict(self.nodes)}


@dataclass
class Noted:
    """What was there before the jobs of the queue were placed."""

    jobs: Sequence[Job] = ()
    busy: set[object] = field(default_factory=set)
    # keys of the nodes that are hosts; None where the driver reports no hosts without work
    hosts: set[object] | None = None
    assigned: set[str] = field(default_factory=set)
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    updates: Sequence[float] = ()


def look_at_passes(
    config: Mapping[str, Any],
    home: str,
    updates: Sequence[float] = (),
    at: float | None = None,
) -> PassStanding:
    """How the passes of a site stand, by its files in `home`, at a time (None: now). `updates`:
    when the node history was written."""
    last, following, end = _passes(config, home, updates)
    return PassStanding(
        at=clock.time() if at is None else at,
        last_pass=last,
        next_pass=following,
        last_end=end,
        loop_is_gone=end is not None and _is_gone(end.loop),
    )


def look_at_loop(
    config: Mapping[str, Any],
    home: str,
    lock: LockState,
    updates: Sequence[float] = (),
    at: float | None = None,
) -> LoopStanding:
    """How the loop of a site stands; what is given as for `look_at_passes`."""
    passes = look_at_passes(config, home, updates, at)
    return LoopStanding(**vars(passes), clusters=_clusters(config), lock=lock)


def look(
    config: Mapping[str, Any],
    home: str,
    new_calculator: NewCalculator,
    rehearsed: Callable[[NewCalculator], Rehearsal],
    lock_now: Callable[[], LockState],
) -> Standing:
    """How things stand, at a site with its files in `home`. `new_calculator` makes calculators for
    this site; `rehearsed` rehearses a pass up to its demand with the one that it is given;
    `lock_now` says how the lock stands. Raises what a pass raises."""
    noted = Noted()

    def noting(
        own: dict[str, Any], driver: SchedulerDriver
    ) -> tuple[DemandCalculator, Sequence[Job]]:
        calculator, jobs = call_with_up_to(new_calculator, own, driver)
        node_mgr = calculator.node_mgr
        hosts = hooks.read(driver, own)[1]
        noted.jobs = jobs
        noted.updates = calculator.node_history.updates()
        noted.busy = learning.busy_nodes(node_mgr.get_nodes(), jobs, hosts)
        noted.busy |= {key_of(node) for node in node_mgr.get_nodes() if node.assignments}
        if reports_idle_hosts(own):
            noted.hosts = set(map(key_of, calculator.reported))
        noted.assigned = {str(job) for host in hosts for job in host.assignments}
        noted.used = {key: used for key, (used, _) in _limits(node_mgr).items()}
        return calculator, jobs

    found = rehearsed(noting)
    loop = look_at_loop(config, home, lock_now(), noted.updates, found.at)
    nodes = found.nodes
    node_mgr = found.calculator.node_mgr if found.calculator else None
    unsatisfied = found.summary.unsatisfied
    aside = found.summary.aside_waiting
    return Standing(
        **vars(loop),
        away=dict(getattr(getattr(node_mgr, "cluster_bindings", None), "away", {})),
        cost=found.before,
        paid=sum(map(is_paid_for, found.demand.compute_nodes)),
        cost_planned=Cost.of(map(node_price, found.demand.new_nodes)),
        buckets=_buckets(nodes, noted),
        limits=_used(node_mgr, noted.used) if node_mgr else (),
        jobs=_jobs(noted, [j.name for j in unsatisfied] + [j.name for j in aside]),
        stuck=[*stuck_jobs(unsatisfied, judge=JUDGED), *jobs_aside(aside)],
        failed=_failed(nodes, node_mgr) if node_mgr else (),
        backoffs=_backoffs(node_mgr) if node_mgr else (),
        problems=[
            *(f"{each}" for each in found.summary.errors),
            *found.summary.notes,
            *(f"{each}" for each in found.summary.aside_wanting_nothing[:NAMED_AT_MOST]),
        ],
    )


def _clusters(config: Mapping[str, Any]) -> dict[str, str]:
    return {
        name or str(own.get("cluster_name", "")): redact(str(own.get("url") or ""))
        for name, own in addressed(config)
    }


def _passes(
    config: Mapping[str, Any], home: str, updates: Sequence[float]
) -> tuple[float | None, float | None, PassEnd | None]:
    """When the last pass ended, when the next one is due, and how the last one ended.

    Of passes that could look the node history tells, of all of them the health file and the
    journal, where there are such. These know when the loop that made the last pass makes the next
    one; nobody knows that of passes that are made one by one.
    """
    health_file = (config.get(SECTION) or {}).get("health_file")
    end = last_end(health_file, journal_path(config, home))
    if end is not None and updates and end.ended + _LATE < updates[-1]:
        end = None  # it is of an earlier one
    last = max([*updates[-1:], *([end.ended] if end else [])], default=None)
    if end is None or end.next_in is None or _is_gone(end.loop):
        return last, None, end
    return last, end.ended + end.next_in, end


def _is_gone(loop: Mapping[str, Any] | None) -> bool:
    """Whether the process of a loop is one of this machine, and has ended."""
    pid = (loop or {}).get("pid")
    if not loop or loop.get("host") != gethostname() or not isinstance(pid, int):
        return False
    if sys.platform == "win32":
        return False  # there the question itself would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _buckets(nodes: Iterable[Node], noted: Noted) -> list[BucketStanding]:
    counted: dict[str, Counter[str]] = {}
    prices: dict[str, list[float | None]] = {}
    for node in nodes:
        name = _bucket_name(node)
        counted.setdefault(name, Counter())[_state(node, noted)] += 1
        if is_paid_for(node):
            prices.setdefault(name, []).append(node_price(node))
    found = []
    for name in sorted(counted, key=name_order):
        cost = Cost.of(prices.get(name, ()))
        price = None if cost.unpriced else cost.per_hour
        found.append(BucketStanding(name, dict(counted[name]), price))
    return found


def _bucket_name(node: Node) -> str:
    return f"{array_of(node)}/{node.vm_size}" if node.managed else "not of CycleCloud"


def _state(node: Node, noted: Noted) -> str:
    if node.state == AWAY:
        return "unknown"
    if node.managed and not node.exists and not node.delayed_node_id.node_id:
        return "planned"
    if node.state == "Failed":
        return "failed"
    is_drained = "drain" in node.metadata
    if node.managed and node.state == "Deallocated" and not is_drained:
        return "resting"
    if is_drained or is_taken_back(node) or (node.managed and node.target_state != "Started"):
        return "leaving"
    if is_booting(node):
        return "booting"
    if key_of(node) in noted.busy:
        return "busy"
    if is_on_premises(node) and node.state == OFF:
        return "resting"
    is_host = noted.hosts is None or not node.managed or key_of(node) in noted.hosts
    return "idle" if is_host else "joining"


def _limits(node_mgr: NodeManager) -> dict[tuple[str, str], tuple[int, int]]:
    """What is used of each limit that several buckets share, and how much there may be."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for bucket in node_mgr.get_buckets():
        if bucket.is_artificial:  # of a machine that is not of the cluster, and so are its limits
            continue
        own = bucket.limits.own
        for limit in bucket.limits.parts:
            if limit is own or not limit.is_charged or isinstance(limit, HeldBack):
                continue
            for unit, used, most in (
                ("cores", limit.used_cores, limit.max_cores),
                ("nodes", limit.used_nodes, limit.max_nodes),
            ):
                if most < NO_LIMIT and (used or most == 0 or unit == "cores"):
                    found[limit.name, unit] = (used, most)
    return found


def _used(node_mgr: NodeManager, before: Mapping[tuple[str, str], int]) -> list[LimitStanding]:
    """The limits of which something is used or nothing is left, the fullest first. A limit that is
    not in `before` was not used then."""
    found = []
    for (name, unit), (used, most) in _limits(node_mgr).items():
        was = before.get((name, unit), 0)
        if used or not most:
            found.append(LimitStanding(name, unit, was, used - was, most))
    return sorted(found, key=lambda each: -(each.used + each.planned) / max(each.most, 1))


def _jobs(noted: Noted, stuck: Sequence[str]) -> dict[str, int]:
    """How many jobs run, as the queue or the hosts have it, are to start, and are stuck; and how
    many wishes and demands of workers are served, which are no jobs. `stuck`: the names of those
    that are. A job of which nothing more may start, as an array at its limit, runs or is none."""
    names = set(stuck)
    jobs = [job for job in noted.jobs if not isinstance(job, UnusableHost)]
    jobs = [job for job in jobs if name_of_job(job) in names or not _wants_nothing(job)]
    wanted = [job for job in jobs if isinstance(job, WantedNodes) and job.name not in names]
    served = sum(isinstance(job, RequestJob) for job in wanted)
    run = sum(is_running(job) for job in jobs)
    elsewhere = noted.assigned.difference(map(name_of_job, jobs))
    return {
        "run": run + len(elsewhere),
        "will_start": max(0, len(jobs) - len(wanted) - run - len(stuck)),
        "stuck": len(stuck),
        "served": served,
        "workers": len(wanted) - served,
    }


def _wants_nothing(job: object) -> bool:
    """Whether a job has nothing that may start, and does not say that it runs."""
    if not isinstance(job, Job) or isinstance(job, WantedNodes) or is_running(job):
        return False
    return max(job.node_count, job.iterations) < 1


def _failed(nodes: Iterable[Node], node_mgr: NodeManager) -> list[FailedNode]:
    failed = [node for node in nodes if node.state == "Failed"]
    messages = node_mgr.get_status_messages(failed)
    return [
        FailedNode(
            str(node.name),
            _bucket_name(node),
            messages.get(str(node.delayed_node_id.node_id), "the server does not say why"),
        )
        for node in sorted(failed, key=lambda node: name_order(str(node.name)))
    ]


def _backoffs(node_mgr: NodeManager) -> list[str]:
    found: dict[HeldBack, str] = {}
    for bucket in node_mgr.get_buckets():
        for limit in bucket.limits.parts:
            if isinstance(limit, HeldBack) and limit.known.level and limit not in found:
                noted = limit.known.message
                server = f"; the server says: {noted}" if noted else ""
                found[limit] = on_one_line(f"{resting_in_words(limit, bucket)}{server}")
    return list(found.values())
