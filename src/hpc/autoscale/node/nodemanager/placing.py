"""One demand, from its constraints to nodes: asks the engine, and makes its answer true on the handles.

What the engine cannot judge alone goes through `probing`; what registered handlers are told, through `reporting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.node.bucket import sift
from hpc.autoscale.node.constraints import Compiled, SharedConstraint, Strayed, toll_room
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.probing import HandleProbe, Sorted
from hpc.autoscale.node.nodemanager.reporting import (
    Said,
    criteria,
    report,
    sentences,
    unpayable,
)
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.ranking import Ranking
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import AllocationResult, Result, SatisfiedResult

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.manager import NodeManager


class Ask(NamedTuple):
    """One demand: what it needs, how many units, and who will be assigned. `failed_as`: the status of a refusal, where
    it is not to say what kind of refusal it was; None when it is not a calculator that asks."""

    compiled: Compiled
    request: Request
    assignment_id: str
    failed_as: str | None = None


class Verdict(NamedTuple):
    """What became of a demand: a status word, the buckets asked and not asked, what was placed, and why not all.

    `refusals` are answers of constraints that the engine does not understand, `tolls` the pools that are to pay for it.
    """

    status: str
    ranking: Ranking
    refusals: list[Result]
    plan: Plan | None
    reasons: Callable[[], list[str]]
    tolls: Sequence[SharedConstraint] = ()


def place(manager: NodeManager, ask: Ask) -> AllocationResult:
    """Place a demand, or say why not. Nothing is changed on failure."""
    request = ask.request
    if not request.whole and request.units <= request.per_node:
        try:
            placed = manager._place_on_one(ask.compiled, request.units, ask.assignment_id)
        except Strayed:
            placed = None
        if placed:
            bucket, position = placed
            if ask.failed_as is None:
                manager._apart.note(bucket, position, position + 1, {ask.assignment_id})
            return AllocationResult("success", lambda: [bucket._handle(position)], request.units)
    manager._sync()
    verdict = _decide(manager, ask)
    if verdict.plan:
        _act(manager, ask, verdict, verdict.plan)
    if results.HANDLERS:
        told = report(manager, ask.compiled, ask.request, verdict)
        if not (verdict.plan or request.whole):
            manager._planner.refused[ask.compiled] = Said(told, cache(verdict.reasons))
    if verdict.plan:
        return AllocationResult(
            "success",
            partial(_nodes_of, manager, verdict.plan),
            verdict.plan.units,
            reasons=verdict.reasons,
        )
    slots = ask.request.units if ask.failed_as else None
    status = ask.failed_as or verdict.status
    return AllocationResult(status, slots_allocated=slots, reasons=verdict.reasons)


def _act(manager: NodeManager, ask: Ask, verdict: Verdict, plan: Plan) -> None:
    """Make a decision true."""
    manager._carry_out(plan, ask.assignment_id)
    for toll in verdict.tolls:
        toll.pay(plan.units)
    for run in plan.steps if ask.failed_as is None else ():
        bucket = manager._bucket_of(run.candidate)
        manager._apart.note(bucket, run.lo, run.hi, {ask.assignment_id})


def _nodes_of(manager: NodeManager, plan: Plan) -> list[Node]:
    found: list[Node] = []
    for placed in plan.steps:
        bucket = manager._bucket_of(placed.candidate)
        found.extend(bucket._handle(i) for i in range(placed.lo, placed.hi))
    return found


def why_not(manager: NodeManager, ask: Ask) -> list[str]:
    """Why a demand cannot be placed, or not all of it, as things are now; nothing is changed, and nobody is told."""
    manager._sync()
    with results.muted():
        verdict = _decide(manager, ask)
        plan = verdict.plan
        if plan and plan.units >= ask.request.units:
            return ["there is room for it by now"]
        return verdict.reasons()


def _decide(manager: NodeManager, ask: Ask) -> Verdict:
    """What is to become of a demand; nothing has changed yet."""
    try:
        return _decide_now(manager, ask)
    except Strayed:
        # once more, with one class less that is believed
        return _decide(manager, ask)


def _decide_now(manager: NodeManager, ask: Ask) -> Verdict:
    request = ask.request
    demand = manager._sorted(ask.compiled)
    # with an opaque constraint the probe asks all of them together, tolls included
    tolls = () if demand.opaque else demand.tolls
    room = toll_room(tolls) if tolls else request.units
    empty = [toll for toll in tolls if toll.cap(1) < 1]
    if empty:
        # no node is a candidate for what not one iteration can be paid for
        asked = manager._planner.ranking(demand.common)
        return _nowhere(Ranking((), lambda: asked.rejects), _unpaid(manager, empty, asked))
    if room < 1 or (request.whole and room < request.units):
        nobody = Ranking((), ())
        return Verdict(
            "NoAllocationSelected", nobody, [], None, lambda: unpayable(demand, request, tolls)
        )
    ranking, refusals = _ranking(manager, demand, request)
    if not ranking.candidates:
        return _nowhere(ranking, refusals)
    payable = request._replace(units=min(room, request.units))
    plan = _ask(manager, demand, payable, ranking, ask.assignment_id)
    if not plan:
        if ask.failed_as is None or results.HANDLERS:
            said = _no_candidate(manager, ask.compiled, demand, ranking)
            if said is not None:
                return _nowhere(Ranking((), lambda: ranking.rejects), [*refusals, *said])

        def why() -> list[str]:
            rejects = (*ranking.rejects, *plan.rejects)
            return [criteria(demand, request), *sentences(rejects)]

        return Verdict("NoAllocationSelected", ranking, refusals, plan, why)
    short = room < request.units

    def why_not_all() -> list[str]:
        rest = unpayable(demand, request, tolls)[1:] if short else []
        return [*sentences(plan.rejects), *rest]

    return Verdict("success", ranking, refusals, plan, why_not_all, tolls)


def _nowhere(ranking: Ranking, refusals: list[Result]) -> Verdict:
    """No bucket would serve, whatever runs there: what each of them says."""
    return Verdict(
        "NoCandidatesFound",
        ranking,
        refusals,
        None,
        lambda: [*sentences(ranking.rejects), *map(_in_words, refusals)],
    )


def _in_words(refusal: Result) -> str:
    """A refusal as those of the engine are said: its status, and its reasons, which may begin with it already."""
    said = "; ".join(refusal.reasons) or refusal.message
    return said if said.startswith(refusal.status) else f"{refusal.status}: {said}"


def _unpaid(
    manager: NodeManager, short: Sequence[SharedConstraint], ranking: Ranking
) -> list[Result]:
    """What the pools say, where a bucket is left that nothing else speaks against."""
    with results.muted():
        examples = [
            manager._bucket_of(candidate).example_node for candidate in ranking.candidates[:1]
        ]
        return [toll.satisfied_by_node(example) for example in examples for toll in short]


def _no_candidate(
    manager: NodeManager, compiled: Compiled, demand: Sorted, ranking: Ranking
) -> list[SatisfiedResult] | None:
    """What machines that cannot be ordered refuse, where nothing else is left; None where something would serve if nothing
    ran there and no limit were reached."""
    if not all(candidate.artificial for candidate in ranking.candidates):
        return None
    machines = map(manager._bucket_of, ranking.candidates)
    key = None if demand.needs_probe or demand.tolls else demand.common
    return manager._idle_machines.refusals(machines, compiled.constraints, key)


def _ask(
    manager: NodeManager, demand: Sorted, request: Request, ranking: Ranking, assignment_id: str
) -> Plan:
    if not demand.needs_probe:
        return manager._planner.ask(
            demand.common, request, ranking.candidates if demand.ranks else None
        )
    probe = HandleProbe(
        manager._planner.table,
        manager._bucket_of,
        manager._directory_of,
        demand,
        assignment_id,
    )
    plan: Plan | None = None
    try:
        plan = manager._planner.ask(demand.common, request, ranking.candidates, probe, demand.ranks)
    finally:
        if plan is None:  # a constraint raised: shared pools must not keep what was tried
            probe.settle(keep=False)
    return plan


def _ranking(
    manager: NodeManager, demand: Sorted, request: Request
) -> tuple[Ranking, list[Result]]:
    """The candidates to ask, in order; through the constraints' own methods where the engine does not know them all. A
    personal constraint has no say in it: it may hold for some nodes of a bucket and not for others.
    """
    if not demand.ranks:
        return _awake(manager._planner.ranking(demand.common), demand), []
    with results.muted():
        ordered = manager._ordered_buckets(demand.common, request)
        buckets, refusals = sift(ordered, demand.general, ask_artificial=False)
    candidates = tuple(bucket._candidate for bucket in buckets if bucket._candidate is not None)
    return _awake(Ranking(candidates, ()), demand), refusals


def _awake(ranking: Ranking, demand: Sorted) -> Ranking:
    """The ranking; one without candidates where none of them has a node and all must rest before they make one."""
    resting: list[tuple[Candidate, Reject]] = []
    for candidate in ranking.candidates:
        reject = None if candidate.shapes else candidate.at_rest(demand.common)
        if reject is None:
            return ranking
        resting.append((candidate, reject))
    return Ranking((), lambda: (*ranking.rejects, *resting)) if resting else ranking
