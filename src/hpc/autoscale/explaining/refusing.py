"""What is in the way of a job, as the engine says it of each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import considered
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import (
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import Result

_NODEARRAY = frozenset({"nodearray", "node.nodearray"})

OF_ROOM = frozenset({"NoCapacity", "GangTooLarge", "InsufficientCapacity"})
"""The codes of refusals by limits."""


class Refused(NamedTuple):
    """A bucket that refuses a demand or a part of it, why, and how many units a new node of it
    would take, where limits are in the way (`OF_ROOM`); 0 where none can be made, or would do."""

    bucket: NodeBucket
    reject: Reject
    each: int


class WhyNot(NamedTuple):
    """What is in the way of a `request`: `units` of it have room, `refused` says of each bucket why
    it takes no more, `answers` are those of constraints that the engine does not understand, and
    `unpaid` what the pools have too little for."""

    request: Request
    units: int
    refused: list[Refused]
    answers: list[Result]
    unpaid: list[SharedConstraint]


def who_refuses(job: Job, node_mgr: NodeManager) -> WhyNot:
    """What is in the way of what remains of a job, as things are now; nothing is changed, and
    nobody is told."""
    request = job.remaining
    with results.muted():
        decision, demand = considered(job, node_mgr)
        planned = () if decision.plan is None else decision.plan.rejects
        rejects = (*decision.ranking.rejects, *planned)
        answers = decision.refusals
    short = unpaid_of(() if demand.opaque else demand.pooled, request.units)
    refused = []
    of_array = [each for each in demand.common.conditions() if _NODEARRAY & each.reads]
    for candidate, reject in rejects:
        other = _of_another_array(candidate, of_array)
        fit = candidate.opening(demand.common) if reject.code in OF_ROOM else None
        each = min(fit.count, request.per_node) if isinstance(fit, Fit) else 0
        bucket = placer_of(node_mgr).bucket_of(candidate)
        refused.append(Refused(bucket, reject if other is None else other, each))
    units = decision.plan.units if decision.plan else 0
    return WhyNot(request, units, refused, answers, short)


def unpaid_of(pooled: Iterable[SharedConstraint], units: int) -> list[SharedConstraint]:
    """What pools have too little for, of so many units."""
    return [each for each in _by_pool(pooled) if each.cap(units) < units]


def _by_pool(pooled: Iterable[SharedConstraint]) -> list[SharedConstraint]:
    """One constraint for each pool, with what all of those given together ask of it."""
    found: list[SharedConstraint] = []
    asked: dict[tuple[object, ...], tuple[SharedConsumableResource, Any]] = {}
    for each in pooled:
        if type(each) is not SharedConsumableConstraint:  # what others mean by it, they say
            found.append(each)
            continue
        pools, amount = each.pools_and_amount()
        for pool in pools:
            key = id(pool), each.once, isinstance(amount, Size)
            _, before = asked.get(key, (pool, None))
            asked[key] = pool, amount if before is None else before + amount
    together = ((SharedConsumableConstraint(*each, bool(key[1]))) for key, each in asked.items())
    return [*found, *together]


def _of_another_array(candidate: Candidate, of_array: Sequence[Expr]) -> Reject | None:
    """What conditions on the nodearray say of a candidate: that goes before whatever else it
    lacks."""
    for condition in of_array:
        fit = condition.fit(candidate.bucket_shape)
        if isinstance(fit, Reject):
            return fit
    return None
