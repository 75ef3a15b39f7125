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
from hpc.autoscale.packing.draft import Delta, Want
from hpc.autoscale.packing.ranking import Ranking
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.stock import Stock
from hpc.autoscale.results import AllocationResult, Result, SatisfiedResult

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.manager import NodeManager


class Ask(NamedTuple):
    """One demand: what it needs, how many units, and who will be assigned. `failed_as`: the status of a refusal, where
    it is not to say what kind of refusal it was; None when it is not a calculator that asks."""

    compiled: Compiled
    want: Want
    assignment_id: str
    failed_as: str | None = None


class Verdict(NamedTuple):
    """What became of a demand: a status word, the buckets asked and not asked, what was placed, and why not all.

    `refusals` are answers of constraints that the engine does not understand, `tolls` the pools that are to pay for it.
    """

    status: str
    ranking: Ranking
    refusals: list[Result]
    delta: Delta | None
    reasons: Callable[[], list[str]]
    tolls: Sequence[SharedConstraint] = ()


def place(manager: NodeManager, ask: Ask) -> AllocationResult:
    """Place a demand, or say why not. Nothing is changed on failure."""
    want = ask.want
    if not want.whole and want.units <= want.per_node:
        try:
            placed = manager._place_on_one(ask.compiled, want.units, ask.assignment_id)
        except Strayed:
            placed = None
        if placed:
            bucket, position = placed
            if ask.failed_as is None:
                manager._apart.note(bucket, position, position + 1, {ask.assignment_id})
            return AllocationResult("success", lambda: [bucket._handle(position)], want.units)
    manager._sync()
    verdict = _decide(manager, ask)
    if verdict.delta:
        _act(manager, ask, verdict, verdict.delta)
    if results.HANDLERS:
        told = report(manager, ask.compiled, ask.want, verdict)
        if not (verdict.delta or want.whole):
            manager._packer.refused[ask.compiled] = Said(told, cache(verdict.reasons))
    if verdict.delta:
        return AllocationResult(
            "success",
            partial(_nodes_of, manager, verdict.delta),
            verdict.delta.units,
            reasons=verdict.reasons,
        )
    slots = ask.want.units if ask.failed_as else None
    status = ask.failed_as or verdict.status
    return AllocationResult(status, slots_allocated=slots, reasons=verdict.reasons)


def _act(manager: NodeManager, ask: Ask, verdict: Verdict, delta: Delta) -> None:
    """Make a decision true."""
    manager._carry_out(delta, ask.assignment_id)
    for toll in verdict.tolls:
        toll.pay(delta.units)
    for run in delta.placed if ask.failed_as is None else ():
        bucket = manager._bucket_of(run.stock)
        manager._apart.note(bucket, run.lo, run.hi, {ask.assignment_id})


def _nodes_of(manager: NodeManager, delta: Delta) -> list[Node]:
    found: list[Node] = []
    for placed in delta.placed:
        bucket = manager._bucket_of(placed.stock)
        found.extend(bucket._handle(i) for i in range(placed.lo, placed.hi))
    return found


def why_not(manager: NodeManager, ask: Ask) -> list[str]:
    """Why a demand cannot be placed, or not all of it, as things are now; nothing is changed, and nobody is told."""
    manager._sync()
    with results.muted():
        verdict = _decide(manager, ask)
        delta = verdict.delta
        if delta and delta.units >= ask.want.units:
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
    want = ask.want
    demand = manager._sorted(ask.compiled)
    # with an opaque constraint the probe asks all of them together, tolls included
    tolls = () if demand.opaque else demand.tolls
    room = toll_room(tolls) if tolls else want.units
    empty = [toll for toll in tolls if toll.cap(1) < 1]
    if empty:
        # no node is a candidate for what not one iteration can be paid for
        asked = manager._packer.ranking(demand.common)
        return _nowhere(Ranking((), lambda: asked.rejects), _unpaid(manager, empty, asked))
    if room < 1 or (want.whole and room < want.units):
        nobody = Ranking((), ())
        return Verdict(
            "NoAllocationSelected", nobody, [], None, lambda: unpayable(demand, want, tolls)
        )
    ranking, refusals = _ranking(manager, demand, want)
    if not ranking.stocks:
        return _nowhere(ranking, refusals)
    payable = want._replace(units=min(room, want.units))
    delta = _ask(manager, demand, payable, ranking, ask.assignment_id)
    if not delta:
        if ask.failed_as is None or results.HANDLERS:
            said = _no_candidate(manager, ask.compiled, demand, ranking)
            if said is not None:
                return _nowhere(Ranking((), lambda: ranking.rejects), [*refusals, *said])

        def why() -> list[str]:
            rejects = (*ranking.rejects, *delta.rejects)
            return [criteria(demand, want), *sentences(rejects)]

        return Verdict("NoAllocationSelected", ranking, refusals, delta, why)
    short = room < want.units

    def why_not_all() -> list[str]:
        rest = unpayable(demand, want, tolls)[1:] if short else []
        return [*sentences(delta.rejects), *rest]

    return Verdict("success", ranking, refusals, delta, why_not_all, tolls)


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
        examples = [manager._bucket_of(stock).example_node for stock in ranking.stocks[:1]]
        return [toll.satisfied_by_node(example) for example in examples for toll in short]


def _no_candidate(
    manager: NodeManager, compiled: Compiled, demand: Sorted, ranking: Ranking
) -> list[SatisfiedResult] | None:
    """What machines that cannot be ordered refuse, where nothing else is left; None where something would serve if nothing
    ran there and no limit were reached."""
    if not all(stock.artificial for stock in ranking.stocks):
        return None
    machines = map(manager._bucket_of, ranking.stocks)
    key = None if demand.needs_probe or demand.tolls else demand.common
    return manager._idle_machines.refusals(machines, compiled.constraints, key)


def _ask(
    manager: NodeManager, demand: Sorted, want: Want, ranking: Ranking, assignment_id: str
) -> Delta:
    if not demand.needs_probe:
        return manager._packer.ask(demand.common, want, ranking.stocks if demand.ranks else None)
    probe = HandleProbe(
        manager._packer.table,
        manager._bucket_of,
        manager._directory_of,
        demand,
        assignment_id,
    )
    delta: Delta | None = None
    try:
        delta = manager._packer.ask(demand.common, want, ranking.stocks, probe, demand.ranks)
    finally:
        if delta is None:  # a constraint raised: shared pools must not keep what was tried
            probe.settle(keep=False)
    return delta


def _ranking(manager: NodeManager, demand: Sorted, want: Want) -> tuple[Ranking, list[Result]]:
    """The stocks to ask, in order; through the constraints' own methods where the engine does not know them all. A
    personal constraint has no say in it: it may hold for some nodes of a bucket and not for others.
    """
    if not demand.ranks:
        return _awake(manager._packer.ranking(demand.common), demand), []
    with results.muted():
        ordered = manager._ordered_buckets(demand.common, want)
        buckets, refusals = sift(ordered, demand.general, ask_artificial=False)
    stocks = tuple(bucket._stock for bucket in buckets if bucket._stock is not None)
    return _awake(Ranking(stocks, ()), demand), refusals


def _awake(ranking: Ranking, demand: Sorted) -> Ranking:
    """The ranking; one without stocks where none of them has a node and all must rest before they make one."""
    resting: list[tuple[Stock, Reject]] = []
    for stock in ranking.stocks:
        reject = None if stock.shapes else stock.at_rest(demand.common)
        if reject is None:
            return ranking
        resting.append((stock, reject))
    return Ranking((), lambda: (*ranking.rejects, *resting)) if resting else ranking
