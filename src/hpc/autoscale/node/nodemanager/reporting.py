"""What registered handlers are told of a demand, and the sentences that its result carries.

For each demand: one result for the candidates, one for each node that was used, and, when not all could be placed, one
for each refusal. The result of the demand itself comes last, from `placing`. Without handlers nothing here is called
but for the sentences, and those only when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hpc.autoscale.errors import counted
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled, NodeConstraint, SharedConstraint
from hpc.autoscale.node.node.shaping import NodeView
from hpc.autoscale.node.nodemanager.probing import Sorted
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.reject import Reject, summarise
from hpc.autoscale.results import (
    AllocationResult,
    CandidatesResult,
    MatchResult,
    Result,
    SatisfiedResult,
    fire_result_handlers,
    tell_all,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.manager import NodeManager
    from hpc.autoscale.node.nodemanager.placing import EngineSide, Verdict

Rejects = Sequence[tuple[Candidate, Reject]]


class Said(NamedTuple):
    """What handlers were told of a demand that nothing was found for, and why. Thousands of jobs may ask for the same, and what
    is exhausted stays so: it is said again as it was first said."""

    results: Sequence[Result]
    reasons: Callable[[], list[str]]

    def again(self, units: int) -> None:
        """Tell handlers of another demand of so many slots."""
        tell_all(self.results)
        AllocationResult("Failed", slots_allocated=units, reasons=lambda: [*self.reasons()])


def report(
    manager: NodeManager, compiled: Compiled, request: Request, verdict: Verdict
) -> Sequence[Result]:
    """Tell the handlers what became of a demand; what they were told of buckets."""
    plan = verdict.plan
    candidates = [manager._bucket_of(candidate) for candidate in verdict.ranking.candidates]
    told: list[Result] = []
    if candidates:
        told.append(CandidatesResult("success", candidates=candidates))
    if plan is None or plan.units < request.units:
        refusals = _refusals(manager, compiled, verdict)
        told += refusals
        if not candidates:
            status = "CompoundFailure" if manager.get_buckets() else "NoBucketsDefined"
            told.append(CandidatesResult(status, child_results=refusals))
    if plan is not None:
        _tell_matches(manager, plan)
    return told


def report_placed(manager: EngineSide, cursor: Cursor, plan: Plan) -> None:
    """Tell the handlers of a request that was placed as a whole."""
    told = manager._planner.told
    candidates = told.get(cursor)
    if not isinstance(candidates, list):
        candidates = told[cursor] = [manager._bucket_of(each) for each in cursor.candidates]
    CandidatesResult("success", candidates=candidates[:])
    _tell_matches(manager, plan)


def _tell_matches(manager: EngineSide, plan: Plan) -> None:
    for step in plan.steps:
        bucket = manager._bucket_of(step.candidate)
        for position in range(step.lo, step.hi):
            MatchResult("success", partial(bucket._handle, position), step.times)


def _refusals(manager: NodeManager, compiled: Compiled, verdict: Verdict) -> list[Result]:
    told: list[Result] = list(verdict.refusals)
    for refusal in told:
        fire_result_handlers(refusal)
    rejects = (
        *verdict.ranking.rejects,
        *(verdict.plan.rejects if verdict.plan is not None else ()),
    )
    for candidate, reject in rejects:
        refused = _refused(compiled, manager._bucket_of(candidate), reject)
        if refused is not None:
            told.append(refused)
    return told


def _refused(compiled: Compiled, bucket: NodeBucket, reject: Reject) -> SatisfiedResult | None:
    """The refusal as the answer of the constraint that is to blame, or of the first one."""
    if not compiled.constraints:
        return None
    blamed = partial(_blamed, compiled.constraints, bucket)
    reasons = partial(_explained, reject, bucket)
    return SatisfiedResult(reject.code, blamed, bucket.example_node, reasons)


def _blamed(constraints: Sequence[NodeConstraint], bucket: NodeBucket) -> NodeConstraint:
    view = NodeView(bucket.example_node, bucket.last_capacity_failure)
    return next((c for c in constraints if _refuses(c, view)), constraints[0])


def _explained(reject: Reject, bucket: NodeBucket) -> list[str]:
    return [reject.explain(str(bucket))]


def _refuses(constraint: NodeConstraint, example: NodeView) -> bool:
    expr = constraint.lower()
    return expr is not None and isinstance(expr.fit(example), Reject)


def sentences(rejects: Rejects) -> list[str]:
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
