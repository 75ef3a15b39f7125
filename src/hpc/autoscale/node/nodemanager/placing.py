"""One demand, from its constraints to nodes: asks the engine, and makes its answer true on the
handles.

What the engine cannot judge alone goes through `probing`; what registered handlers are told,
through `reporting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.node.bucket import NodeBucket, sift
from hpc.autoscale.node.constraints import Compiled, NotAsDeclared, SharedConstraint, pool_room
from hpc.autoscale.node.constraints.declared import Declarations
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.directory import Directory
from hpc.autoscale.node.nodemanager.inventory import Inventory
from hpc.autoscale.node.nodemanager.probing import HandleProbe, Sorted, sort_out
from hpc.autoscale.node.nodemanager.reporting import (
    PlacementReport,
    Refusal,
    RefusalReport,
    criteria,
    report,
    sentences,
    unpayable,
)
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import any_reads
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.feasibility import Ranking
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.planner import Planner
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import AllocationResult, Result, SatisfiedResult

_MOST_SORTINGS = 10_000

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.manager import NodeManager


class EngineSide:
    """The side of a `NodeManager` that faces the engine: what was written through handles is told
    to it, and what it plans is made true on them."""

    _planner: Planner
    _inventory: Inventory
    _declarations: Declarations
    _by_candidate: dict[Candidate, NodeBucket]
    _stale: dict[NodeBucket, None]
    _sortings: dict[int, tuple[Compiled, Sorted]]

    def _bucket_stale(self, bucket: NodeBucket) -> None:
        self._stale[bucket] = None

    def _bucket_of(self, candidate: Candidate) -> NodeBucket:
        return self._by_candidate[candidate]

    def _directory_of(self, candidate: Candidate) -> Directory:
        return self._by_candidate[candidate]._directory()

    def _sync(self) -> None:
        """Let the engine know what new nodes are made from, where that was written to since."""
        while self._stale:
            bucket, _ = self._stale.popitem()
            if bucket._sync(self._planner.table):
                self._planner.forget_rankings()

    def _carry_out(self, plan: Plan, assignment_id: str) -> None:
        """Make a plan of the engine true: all of it, or nothing when naming new nodes fails."""
        if self._inventory.names.hook is None:
            for step in self._planner.apply(plan):
                bucket = self._by_candidate[step.candidate]
                if not step.opened:
                    bucket._took(step, (), assignment_id)
                elif (nodes := step.hi - step.lo) == 1:
                    bucket._opened_one(self._inventory.names.take_one(bucket), assignment_id)
                else:
                    bucket._opened(self._inventory.names.take(bucket, nodes), assignment_id)
        else:
            self._carry_out_by_hook(plan, assignment_id)
        for effect in plan.effects:
            effect()

    def _carry_out_by_hook(self, plan: Plan, assignment_id: str) -> None:
        """`_carry_out` where new nodes are named by a hook. It may raise, and must be asked before
        anything is done."""
        proposal = self._inventory.names.propose()
        buckets = [self._by_candidate[step.candidate] for step in plan.steps]
        names = [
            proposal.names(bucket, step.hi - step.lo) if step.opened else ()
            for bucket, step in zip(buckets, plan.steps, strict=True)
        ]
        self._planner.apply(plan)
        proposal.accept()
        for bucket, step, fresh in zip(buckets, plan.steps, names, strict=True):
            bucket._took(step, fresh, assignment_id)

    def _sorted(self, compiled: Compiled) -> Sorted:
        """The constraints by who can answer for them. Worked out once for each list, while that is
        in use."""
        known = self._sortings.get(id(compiled))
        if known is None or known[0] is not compiled or not known[1].may_be_believed():
            if len(self._sortings) > _MOST_SORTINGS:
                self._sortings.clear()
            known = (compiled, sort_out(compiled, self._inventory.defaults, self._declarations))
            self._sortings[id(compiled)] = known
        return known[1]

    # -- by the engine alone

    def _cursor(self, compiled: Compiled) -> Cursor | None:
        """What is remembered of some constraints, up to date with what was written; None where the
        engine alone cannot answer for them."""
        if self._stale:
            self._sync()
        planner = self._planner
        if compiled.opaque:
            demand = self._sorted(compiled)
            return planner.cursor(demand.common) if demand.by_shape else None
        found = planner.by_demand.get(compiled)
        if found is None and compiled not in planner.by_demand:
            if not (
                compiled.pooled or any_reads(compiled.parts, self._inventory.defaults.personal)
            ):
                meeting = planner.who_serves(compiled.parts)
                found = planner.cursor(compiled.expr, meeting) if meeting else planner.nowhere
            planner.by_demand[compiled] = found
        return found

    def _place_at_once(
        self, compiled: Compiled, request: Request, assignment_id: str, partly: bool = True
    ) -> Plan | None:
        """Place a request where that takes the engine alone and nobody must be told why not; what
        was done. None: nothing was done, and `place` must be asked.

        `partly`: nobody wants to know now what keeps the rest out.
        """
        try:
            cursor = self._cursor(compiled)
            if cursor is None:
                return None
            plan = self._planner.plan(cursor, request, explain=False)
        except NotAsDeclared:
            return None
        if plan.units < request.units:
            is_refused = not (plan.units or request.whole)
            if not partly or (results.HANDLERS and not is_refused):
                return None
        if plan.units:
            self._carry_out(plan, assignment_id)
            if results.HANDLERS:
                results.tell(PlacementReport(self, cursor, plan))
        return plan

    def _nodes_of(self, plan: Plan) -> list[Node]:
        """The nodes that a plan placed something on, in its order."""
        return [
            self._by_candidate[step.candidate]._handle(position)
            for step in plan.steps
            for position in range(step.lo, step.hi)
        ]


class Ask(NamedTuple):
    """One demand: what it needs, how many units, and who will be assigned.

    `failed_as`: the status of a refusal, where it is not to say what kind of refusal it was; None
    when it is not a calculator that asks. `is_heard`: somebody reads why not.
    """

    compiled: Compiled
    request: Request
    assignment_id: str
    failed_as: str | None = None
    is_heard: bool = False


class Verdict(NamedTuple):
    """What became of a demand: a status word, the buckets asked and not asked, the plan, and why
    not all was placed.

    `refusals` are answers of constraints that the engine does not understand, `pooled` the pools
    that are to pay for it.
    """

    status: str
    ranking: Ranking
    refusals: list[Result]
    plan: Plan | None
    reasons: Callable[[], list[str]]
    pooled: Sequence[SharedConstraint] = ()


def place(manager: NodeManager, ask: Ask) -> AllocationResult[Node]:
    """Place a demand, or say why not. Nothing is changed on failure."""
    plan = manager._place_at_once(ask.compiled, ask.request, ask.assignment_id, partly=False)
    if plan is not None:
        _note_apart(manager, ask, plan)
        results.settle()
        with results.muted():  # the handlers have heard it
            return AllocationResult("success", partial(manager._nodes_of, plan), plan.units)
    manager._sync()
    verdict = _decide(manager, ask)
    if verdict.plan:
        manager._carry_out(verdict.plan, ask.assignment_id)
        for each in verdict.pooled:
            each.pay(verdict.plan.units)
        _note_apart(manager, ask, verdict.plan)
    if results.HANDLERS:
        report(manager, ask.compiled, ask.request, verdict)
    if verdict.plan:
        nodes, units = partial(manager._nodes_of, verdict.plan), verdict.plan.units
        return AllocationResult("success", nodes, units, reasons=verdict.reasons)
    slots = ask.request.units if ask.failed_as else None
    status = ask.failed_as or verdict.status
    return AllocationResult(status, slots_allocated=slots, reasons=verdict.reasons)


def place_job(
    manager: NodeManager,
    compiled: Compiled,
    request: Request,
    job_name: str,
    failed_as: str | None,
    explain: bool,
    own: Callable[[], Compiled],
) -> tuple[int, AllocationResult[Node] | None]:
    """Place what a job asks for: the units placed, and the result.

    Without `explain` there is no result where the engine alone could answer and nobody must be told
    why not. `own` makes the constraints anew, which then know the job's name.
    """
    plan = None if explain else manager._place_at_once(compiled, request, job_name)
    if plan is not None:
        if results.HANDLERS and not plan:
            tell_refused(manager, compiled, request)
        return plan.units, None
    known = _told_whose(manager, compiled, own)
    result = place(manager, Ask(known, request, job_name, failed_as))
    return (result.total_slots if result else 0), result


def why_job_lacks(
    manager: NodeManager,
    compiled: Compiled,
    request: Request,
    job_name: str,
    own: Callable[[], Compiled],
) -> list[str]:
    """Why what a job asks for cannot be placed, or not all of it, as things are now; nothing is
    changed, and nobody is told."""
    ask = Ask(_told_whose(manager, compiled, own), request, job_name)
    manager._sync()
    with results.muted():
        verdict = _decide(manager, ask)
        if verdict.plan and verdict.plan.units >= request.units:
            return ["there is room for it by now"]
        return verdict.reasons()


def _told_whose(manager: NodeManager, compiled: Compiled, own: Callable[[], Compiled]) -> Compiled:
    """The constraints, or the job's own where jobs share them and nodes are asked one by one."""
    shared = compiled.source is not None
    return own() if shared and manager._sorted(compiled).needs_probe else compiled


def _note_apart(manager: NodeManager, ask: Ask, plan: Plan) -> None:
    """Remember what was placed beside all calculators."""
    for step in plan.steps if ask.failed_as is None else ():
        bucket = manager._bucket_of(step.candidate)
        manager._inventory.apart.note(bucket, step.lo, step.hi, {ask.assignment_id})


def tell_refused(manager: NodeManager, compiled: Compiled, request: Request) -> None:
    """Tell handlers of a request for which the engine found nothing. Those that ask for the same
    share what is said."""
    key = compiled, request
    refusal = manager._planner.refused.get(key)
    if not isinstance(refusal, Refusal):
        ask = Ask(compiled, request, "", "Failed", is_heard=True)

        def decide() -> Verdict:
            manager._sync()
            return _decide(manager, ask)

        refusal = manager._planner.refused[key] = Refusal(decide, manager, compiled, request)
    results.tell(RefusalReport(refusal))


def _decide(manager: NodeManager, ask: Ask) -> Verdict:
    """What is to become of a demand; nothing has changed yet."""
    try:
        return _decide_now(manager, ask)
    except NotAsDeclared:
        # once more, with one class less that is believed
        return _decide(manager, ask)


def _decide_now(manager: NodeManager, ask: Ask) -> Verdict:
    request = ask.request
    demand = manager._sorted(ask.compiled)
    # with an opaque constraint the probe asks all of them together, pooled ones included
    pooled = () if demand.opaque else demand.pooled
    room = pool_room(pooled) if pooled else request.units
    empty = [each for each in pooled if each.cap(1) < 1]
    if empty:
        # no node is a candidate for what not one iteration can be paid for
        asked = manager._planner.ranking(demand.common)
        return _nowhere(Ranking((), lambda: asked.rejects), _unpaid(manager, empty, asked))
    if room < 1 or (request.whole and room < request.units):
        nobody = Ranking((), ())
        return Verdict(
            "NoAllocationSelected", nobody, [], None, lambda: unpayable(demand, request, pooled)
        )
    ranking, refusals = _ranking(manager, demand, request)
    if not ranking.candidates:
        return _nowhere(ranking, refusals)
    payable = request._replace(units=min(room, request.units))
    plan = _ask(manager, demand, payable, ranking, ask.assignment_id)
    if not plan:
        if ask.failed_as is None or ask.is_heard or results.HANDLERS:
            said = _no_candidate(manager, ask.compiled, demand, ranking)
            if said is not None:
                return _nowhere(Ranking((), lambda: ranking.rejects), [*refusals, *said])

        def why() -> list[str]:
            rejects = (*ranking.rejects, *plan.rejects)
            return [criteria(demand, request), *sentences(rejects)]

        return Verdict("NoAllocationSelected", ranking, refusals, plan, why)
    short = room < request.units

    def why_not_all() -> list[str]:
        rest = unpayable(demand, request, pooled)[1:] if short else []
        return [*sentences(plan.rejects), *rest]

    return Verdict("success", ranking, refusals, plan, why_not_all, pooled)


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
    """A refusal as those of the engine are said: its status, and its reasons, which may begin with
    it already."""
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
        return [each.satisfied_by_node(example) for example in examples for each in short]


def _no_candidate(
    manager: NodeManager, compiled: Compiled, demand: Sorted, ranking: Ranking
) -> list[SatisfiedResult] | None:
    """What machines that cannot be ordered refuse, where nothing else is left; None where something
    would serve if nothing ran there and no limit were reached."""
    if not all(candidate.artificial for candidate in ranking.candidates):
        return None
    machines = map(manager._bucket_of, ranking.candidates)
    key = None if demand.needs_probe or demand.pooled else demand.common
    return manager._inventory.idle_machines.refusals(machines, compiled.constraints, key)


def _ask(
    manager: NodeManager, demand: Sorted, request: Request, ranking: Ranking, assignment_id: str
) -> Plan:
    if not demand.needs_probe:
        return manager._planner.ask(
            demand.common, request, ranking.candidates if demand.ranks else None
        )
    probe = HandleProbe(
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
    """The candidates to ask, in order; through the constraints' own methods where the engine does
    not know them all. A personal constraint has no say in it: it may hold for some nodes of a
    bucket and not for others."""
    if not demand.ranks:
        return _awake(manager._planner.ranking(demand.common), demand), []
    with results.muted():
        ordered = manager._ordered_buckets(demand.common, request)
        buckets, refusals = sift(ordered, demand.general, ask_artificial=False)
    candidates = tuple(bucket._candidate for bucket in buckets if bucket._candidate is not None)
    return _awake(Ranking(candidates, ()), demand), refusals


def _awake(ranking: Ranking, demand: Sorted) -> Ranking:
    """The ranking; one without candidates where none of them has a node and all must rest before
    they make one."""
    resting: list[tuple[Candidate, Reject]] = []
    for candidate in ranking.candidates:
        reject = None if candidate.shapes else candidate.at_rest(demand.common)
        if reject is None:
            return ranking
        resting.append((candidate, reject))
    return Ranking((), lambda: (*ranking.rejects, *resting)) if resting else ranking
