"""What registered handlers are told of a demand, and the sentences that its result carries.

For each demand: one result for the candidates, one for each node that was used, and, when not all
could be placed, one for each refusal. The result of the demand itself comes last, from `placing`.
Without handlers nothing here is called but for the sentences, and those only when somebody reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hpc.autoscale.errors import counted
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled, NodeConstraint, SharedConstraint
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeView
from hpc.autoscale.node.nodemanager.probing import Sorted
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.reject import Reject, summarise
from hpc.autoscale.results import (
    AllocationResult,
    CandidatesResult,
    MatchResult,
    Report,
    Result,
    SatisfiedResult,
    tell,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.placing import Decision, Placer


class NothingFound:
    """What is said of demands that ask for the same and find nothing. It is worked out when
    somebody reads it, once."""

    def __init__(
        self,
        decide: Callable[[], Decision],
        placer: Placer,
        compiled: Compiled,
        request: Request,
    ) -> None:
        self._decide = decide
        self._placer = placer
        self._compiled = compiled
        self._request = request

    @cached_property
    def _decision(self) -> Decision:
        return self._decide()

    @cached_property
    def _shared(self) -> Sequence[Result]:
        return _results(self._placer, self._compiled, self._request, self._decision)

    @cached_property
    def _reasons(self) -> Sequence[str]:
        return self._decision.reasons() or ["there is room for it by now"]

    def results(self) -> Sequence[Result]:
        """The results of one of the demands; the last, of the demand itself, is its alone."""
        units, reasons = self._request.units, lambda: [*self._reasons]
        whole = AllocationResult("Failed", None, units, reasons, self._placer.where())
        return [*self._shared, whole]


class PlacementReport(Report):
    """What handlers are told of a request that was placed as a whole."""

    __slots__ = ("_cursor", "_placer", "_plan")

    def __init__(self, placer: Placer, cursor: Cursor, plan: Plan) -> None:
        super().__init__()
        self._placer = placer
        self._cursor = cursor
        self._plan = plan

    def nodes(self) -> list[Node]:
        """The nodes that took it."""
        return self._placer.nodes_of(self._plan)

    def __bool__(self) -> bool:
        return True

    def _make(self) -> Sequence[Result]:
        placer, cursor, plan = self._placer, self._cursor, self._plan
        told = placer.planner.told
        candidates = told.get(cursor)
        if not isinstance(candidates, list):
            candidates = told[cursor] = [placer.bucket_of(each) for each in cursor.candidates]
        return [
            CandidatesResult("success", candidates=candidates[:]),
            *_matches(placer, plan),
            AllocationResult("success", self.nodes, plan.units),
        ]


def report(placer: Placer, compiled: Compiled, request: Request, decision: Decision) -> None:
    """Tell the handlers what became of a demand, but for the result of the demand itself."""
    tell(Report(partial(_results, placer, compiled, request, decision)))


def _results(
    placer: Placer, compiled: Compiled, request: Request, decision: Decision
) -> Sequence[Result]:
    plan = decision.plan
    candidates = [placer.bucket_of(candidate) for candidate in decision.ranking.candidates]
    made: list[Result] = []
    if candidates:
        made.append(CandidatesResult("success", candidates=candidates))
    if plan is None or plan.units < request.units:
        refusals = _refusals(placer, compiled, decision)
        made += refusals
        if not candidates:
            status = (
                "CompoundFailure"
                if any(bucket.valid for bucket in placer.inventory.buckets)
                else "NoBucketsDefined"
            )
            made.append(CandidatesResult(status, child_results=refusals))
    if plan is not None:
        made += _matches(placer, plan)
    return made


def _matches(placer: Placer, plan: Plan) -> list[Result]:
    """A result for each node that a plan uses."""
    return [
        MatchResult(
            "success", partial(placer.bucket_of(step.candidate)._nodes.handle, position), step.times
        )
        for step in plan.steps
        for position in range(step.lo, step.hi)
    ]


def _refusals(placer: Placer, compiled: Compiled, decision: Decision) -> list[Result]:
    told: list[Result] = list(decision.refusals)
    if compiled.constraints:
        planned = decision.plan.rejects if decision.plan is not None else ()
        for candidate, reject in (*decision.ranking.rejects, *planned):
            told.append(_refused(compiled.constraints, placer.bucket_of(candidate), reject))
    return told


def _refused(
    constraints: Sequence[NodeConstraint], bucket: NodeBucket, reject: Reject
) -> SatisfiedResult:
    """The refusal as the answer of the constraint that is to blame, or of the first one."""

    def blamed() -> NodeConstraint:
        view = NodeView(bucket.example_node, bucket.last_capacity_failure)
        for constraint in constraints:
            expr = constraint.lower()
            if expr is not None and isinstance(expr.fit(view), Reject):
                return constraint
        return constraints[0]

    def why() -> list[str]:
        return [reject.explain(str(bucket))]

    return SatisfiedResult(reject.code, partial(blamed), bucket.example_node, why)


def sentences(rejects: Sequence[tuple[Candidate, Reject]]) -> list[str]:
    """Refusals as sentences, equal ones once."""
    return summarise([(candidate.name, reject) for candidate, reject in rejects])


def unpayable(demand: Sorted, request: Request, pooled: Sequence[SharedConstraint]) -> list[str]:
    """What was asked for, and the pools that have too little for it."""
    short = [each for each in pooled if each.cap(request.units) < request.units] or pooled
    return [criteria(demand, request), *(each.refusal(request.units) for each in short)]


def criteria(demand: Sorted, request: Request) -> str:
    """What was asked for."""
    what = counted(request.units, "node" if request.per_node == 1 else "slot")
    whole = ", all in one bucket" if request.whole else ""
    said = ", ".join(str(c) for c in demand.constraints) or "no constraints"
    return f"nothing can take {what}{whole} with {said}"
