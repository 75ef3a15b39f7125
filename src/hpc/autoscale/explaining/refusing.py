"""What is in the way of a job, as the engine says it of each bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import considered
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import (
    NodeConstraint,
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.constraints.base import compile_constraints
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeView
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.node.nodemanager.probing import HandleProbe, Sorted
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import Result

_NODEARRAY = frozenset({"nodearray", "node.nodearray"})

OF_ROOM = frozenset({"NoCapacity", "GangTooLarge", "InsufficientCapacity"})
"""The codes of refusals by limits."""

_OF_CONDITIONS = frozenset({"InvalidOption", "UndefinedResource", "CompoundFailure"})
"""The codes of refusals for what nodes are."""

_OF_OTHERS = OF_ROOM | _OF_CONDITIONS | {"CapacityFailureBackoff", "InsufficientResource"}
"""The codes of refusals of new nodes, and for what nodes that are there have left."""


class Refused(NamedTuple):
    """A bucket that refuses a demand or a part of it, why, and how many units a new node of it
    would take, where limits are in the way (`OF_ROOM`); 0 where none can be made, or would do.
    `most`: how many the machines of a bucket that cannot grow would take of what must go together,
    if nothing ran there; once that is enough, no more are counted."""

    bucket: NodeBucket
    reject: Reject
    each: int
    most: int = 0


class WhyNot(NamedTuple):
    """What is in the way of a `request`: `units` of it have room, `refused` says of each bucket why
    it takes no more, `answers` are those of constraints that the engine does not understand, and
    `unpaid` what the pools have too little for. `is_nowhere`: no bucket would do, full or not.
    `understood`: the other constraints of a job of which the engine does not understand all.
    `elsewhere`: buckets of nodearrays that are not wanted, with a node of the name that is."""

    request: Request
    units: int
    refused: list[Refused]
    answers: list[Result]
    unpaid: list[SharedConstraint]
    is_nowhere: bool
    understood: Sequence[NodeConstraint] = ()
    elsewhere: Sequence[NodeBucket] = ()


def who_refuses(job: Job, node_mgr: NodeManager) -> WhyNot:
    """What is in the way of what remains of a job, as things are now; nothing is changed, and
    nobody is told."""
    request = job.remaining
    with results.muted():
        decision, demand = considered(job, node_mgr)
        planned = () if decision.plan is None else decision.plan.rejects
        rejects = [(*each, False) for each in decision.ranking.rejects]
        rejects += [(*each, True) for each in planned]
        answers = decision.refusals
    short = unpaid_of(() if demand.opaque else demand.pooled, request.units)
    refused = []
    of_array = [each for each in demand.common.conditions() if _NODEARRAY & each.reads]
    there = _NodesThatAreThere(demand, placer_of(node_mgr).bucket_of)
    for candidate, reject, is_planned in rejects:
        other = _of_another_array(candidate, of_array)
        if other is None:
            other = there.instead_of(reject, candidate, is_planned)
        else:
            there.note_elsewhere(candidate)
        fit = candidate.opening(demand.common) if reject.code in OF_ROOM else None
        each = min(fit.count, request.per_node) if isinstance(fit, Fit) else 0
        bucket = placer_of(node_mgr).bucket_of(candidate)
        most = 0
        if request.whole and candidate.artificial and reject.code in OF_ROOM:
            most = there.most_together(bucket.nodes, request)
        refused.append(Refused(bucket, reject if other is None else other, each, most))
    others = {each.bucket for each in refused if there.says_otherwise(each.reject)}
    refused = [each for each in refused if each.bucket not in others]
    units = decision.plan.units if decision.plan else 0
    unfit = {candidate for candidate, _ in decision.ranking.rejects}
    is_nowhere = unfit.issuperset(placer_of(node_mgr).planner.candidates)
    every = demand.constraints if demand.opaque else ()
    understood = [each for each in every if not compile_constraints([each]).opaque]
    elsewhere = there.elsewhere
    return WhyNot(request, units, refused, answers, short, is_nowhere, understood, elsewhere)


class _NodesThatAreThere:
    """What conditions come to that nodes that are there may meet, and new ones do not: on the name
    of a node or a host, on what else differs from node to node.

    The planner says what new nodes lack, also where a node that is there has other work; of a gang
    it says how much of it fits, also where there is no such node. `met`: what such conditions are
    about, of which some node has what is wanted. `elsewhere`: buckets of nodearrays that are not
    wanted, with a node of the name that is.
    """

    def __init__(self, demand: Sorted, bucket_of: Callable[[Candidate], NodeBucket]) -> None:
        self._personal = demand.personal
        exprs = [each for each in (demand.common, demand.personal) if each is not None]
        self._whole = None if demand.opaque else AllOf(exprs)
        self._probe = HandleProbe(bucket_of, demand, "")
        self._bucket_of = bucket_of
        self.met: set[object] = set()
        self.elsewhere: list[NodeBucket] = []

    def note_elsewhere(self, candidate: Candidate) -> None:
        """Of a bucket of another nodearray, whether it has a node of the name that is wanted."""
        if isinstance(self._probe.positions(candidate), Sequence):
            self.elsewhere.append(self._bucket_of(candidate))

    def instead_of(self, reject: Reject, candidate: Candidate, is_planned: bool) -> Reject | None:
        """What is in the way in the place of what is said; None where it is that."""
        lacking = self._probe.refuses_new(candidate)
        found = None if lacking is None else self._probe.positions(candidate)
        if isinstance(found, Sequence):
            self._note(lacking)
        if not is_planned:
            return None
        if isinstance(found, Sequence):
            return Reject("NodesFull", len(found)) if reject.code in _OF_OTHERS else None
        if found is None and reject.code in (_OF_CONDITIONS if lacking is None else _OF_OTHERS):
            nodes = self._bucket_of(candidate).nodes
            if any(map(self._most_on, nodes)):
                self._note(reject if lacking is None else lacking)
                return Reject("NodesFull", len(nodes))
        return lacking if reject.code in OF_ROOM or candidate.artificial else None

    def says_otherwise(self, reject: Reject) -> bool:
        """Whether it says that no node has what some node has."""
        if reject.code == "NoSuchNode":
            return bool(self.met)
        return reject.code in _OF_CONDITIONS and reject.facts[0] in self.met

    def _note(self, reject: Reject | None) -> None:
        self.met.update(() if reject is None else reject.facts[:1])

    def most_together(self, nodes: Iterable[Node], request: Request) -> int:
        """How many units nodes would take if nothing ran there, counted until it is enough."""
        if self._whole is None:  # nobody can tell without asking
            return request.units
        most = 0
        for node in nodes:
            most += min(self._most_on(node), request.per_node)
            if most >= request.units:
                break
        return most

    def _most_on(self, node: Node) -> int:
        """How many units a node would take if nothing ran there; 0 where nobody can tell."""
        if self._whole is None or (
            self._personal is not None and isinstance(self._personal.fit(NodeView(node)), Reject)
        ):
            return 0
        empty = node.clone()
        empty.available.update(node.resources)
        fit = self._whole.fit(NodeView(empty))
        return fit.count if isinstance(fit, Fit) else 0


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
