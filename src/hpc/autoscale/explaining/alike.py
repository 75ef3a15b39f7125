"""Jobs that wait for the same, told without judging each: in a queue of jobs that all differ, most
wait for the few limits and pools that there are, whatever else they ask for.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpc.autoscale.explaining.known import clusters_away
from hpc.autoscale.explaining.refusals import limits_of_bucket, pool_cause
from hpc.autoscale.explaining.refusing import unpaid_of
from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.node.constraints import (
    Compiled,
    SharedConstraint,
    SharedConsumableConstraint,
)
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import any_reads
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.plan import Request


@dataclass(frozen=True, eq=False)
class _Buckets:
    """All buckets that some jobs may run in. `are_limited`: limits alone keep jobs out of them;
    `are_full`: a limit of each has no room for one more node, and machines that cannot be ordered,
    if there are any, count after the limits."""

    are_limited: bool
    are_full: bool


class Kinds:
    """Of which kind jobs are that wait: verdicts on those of one kind begin with the same cause,
    and say the same of whether they can ever run.

    Jobs are of one kind where the same buckets would do for them and nothing but limits keeps them
    out, or where they ask the same of a pool that is empty; with constraints that the engine does
    not understand, where they ask for just the same. Each bucket is looked at once, as it is when
    the first job comes that it would do for.
    """

    def __init__(self, node_mgr: NodeManager) -> None:
        self._node_mgr = node_mgr
        self._placer = placer_of(node_mgr)
        self._by_demand = self._placer.planner.by_demand
        self._personal = self._placer.inventory.defaults.personal
        self._buckets: dict[tuple[Candidate, ...], _Buckets] = {}
        # what is said of pools, by what is asked of them
        self._pools: dict[Hashable, str | None] = {}

    def kind_of(self, job: Job, compiled: Compiled) -> Hashable | None:
        """The kind of a job that got no more, with its constraints; None where it must be judged
        by itself. Cost: whether its buckets are known; nothing is asked of them again."""
        if compiled.opaque and not compiled.pooled:
            return kind_by_text(job, compiled)
        cursor = self._by_demand.get(compiled) or self._cursor(compiled)
        if cursor is None or not cursor.candidates:
            return None  # what it lacks has its own figures
        if compiled.pooled:
            return self._kind_by_pools(job, compiled)
        buckets = self._of_candidates(cursor.candidates)
        is_whole = job.colocated or job.packing_strategy == PackingStrategy.SCATTER
        if not (buckets.are_limited if is_whole else buckets.are_full):
            return None
        if cursor.shares_out or _takes_twice(cursor.expr):
            return None
        if _may_use_nodes(cursor):
            return None  # what they have room for depends on what it asks for
        if not is_whole:
            return buckets
        request = job.remaining
        return (buckets, request.units) if request.per_node == 1 else None

    def _cursor(self, compiled: Compiled) -> Cursor | None:
        """What the engine remembers of some constraints; None where it alone cannot answer. Of
        constraints beside pools, what it understands is enough, as pools come before all others."""
        if any_reads(compiled.parts, self._personal):
            return None
        self._placer.sync()
        return self._placer.planner.cursor(compiled.expr)

    def _of_candidates(self, candidates: tuple[Candidate, ...]) -> _Buckets:
        found = self._buckets.get(candidates)
        if found is None:
            ordered = [candidate for candidate in candidates if not candidate.artificial]
            are_plain = self._is_usual and all(map(_has_limits_alone, ordered))
            are_full = are_plain and all(map(_is_full, ordered))
            are_limited = are_plain and len(ordered) == len(candidates)
            if not are_limited:
                are_full = are_full and any(map(self._may_have_more, ordered))
            found = self._buckets[candidates] = _Buckets(are_limited, are_full)
        return found

    def _may_have_more(self, candidate: Candidate) -> bool:
        """Whether its limits only keep jobs waiting."""
        found = limits_of_bucket(self._placer.bucket_of(candidate))
        return not any(each.is_never for each in found)

    @cached_property
    def _is_usual(self) -> bool:
        """Whether all that a bucket says against a job beside limits counts after these."""
        unusable = (reason for _, reason in self._node_mgr.get_unusable())
        shapes = (candidate.bucket_shape for candidate in self._placer.planner.candidates)
        is_away = clusters_away(self._node_mgr) or "ClusterAway" in unusable
        return not is_away and all(shape.unfit() is None for shape in shapes)

    def _kind_by_pools(self, job: Job, compiled: Compiled) -> Hashable | None:
        """The kind of a job that draws on pools: where one of these is empty, no limit counts."""
        asked: list[Hashable] = [job.iterations_remaining, job.node_count]
        for each in compiled.pooled:
            if type(each) is not SharedConsumableConstraint:  # what others mean by it, they say
                return None
            pools, amount = each.pools_and_amount()
            asked += (each.once, repr(amount), *map(id, pools))
        key = tuple(asked)
        if key not in self._pools:
            self._pools[key] = _lacking(compiled.pooled, job.remaining)
        return self._pools[key]


def kind_by_text(job: Job, compiled: Compiled) -> Hashable | None:
    """The kind of jobs that ask for just the same, also where the engine does not understand all of
    it; None where nobody can tell. Constraints of one class are equal when their JSON is."""
    try:
        asked = [[str(type(each)), each.to_dict()] for each in compiled.constraints]
        text = json.dumps(asked, sort_keys=True, default=str)
    except Exception:  # noqa: BLE001  a constraint may be somebody else's
        return None
    return (text, job.remaining, job.colocated)


def _lacking(pooled: Sequence[SharedConstraint], request: Request) -> str | None:
    """What is said of the first pool that has too little; None where one unit can be paid for."""
    if all(pool.cap(1) > 0 for pool in pooled):
        return None
    return pool_cause(unpaid_of(pooled, request.units)[0], request).text


def _has_limits_alone(candidate: Candidate) -> bool:
    """Whether nothing but its limits and its nodes says no to what its bucket may serve."""
    is_plain = candidate.bucket_shape is candidate.new_shape and candidate.since_failure is None
    return is_plain and not candidate.reserved


def _is_full(candidate: Candidate) -> bool:
    """Whether a limit has no room for one more node."""
    return any(limit.room(candidate.cores) < 1 for limit in candidate.charged)


def _may_use_nodes(cursor: Cursor) -> bool:
    """Whether nodes that are there may have room for one unit."""
    cursor.catch_up()
    in_use = any(map(cursor.may_use, range(len(cursor.candidates))))
    return in_use and not (cursor.monotone and cursor.slot() is None)


def _takes_twice(expr: Expr) -> bool:
    """Whether two conditions may take of one resource, so that a new node may meet each of them and
    not all."""
    if expr.whole_amounts() is not None:
        return False
    names: Sequence[str] = [name for each in expr.conditions() for name in each.uses]
    return len(names) != len(set(names))
