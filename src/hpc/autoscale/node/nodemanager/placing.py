"""One demand, from its constraints to nodes: asks the engine, and makes its answer true on the handles.

Constraints that the engine understands go through it as they are. Those it does not (custom subclasses, and whatever
reads what differs from node to node) are asked through their published protocol by a `HandleProbe`, on scratch copies,
and only for nodes that the compiled part has let through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.node.bucket import NodeBucket, bucket_candidates
from hpc.autoscale.node.constraints import Compiled, NodeConstraint
from hpc.autoscale.node.constraints.shared import toll_room
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.decrementing import shared
from hpc.autoscale.packing.ranking import Ranking
from hpc.autoscale.packing.reject import Reject, summarise
from hpc.autoscale.packing.shape import ShapeTable
from hpc.autoscale.packing.stock import Stock
from hpc.autoscale.packing.strategy import Delta, Trial, Want
from hpc.autoscale.results import AllocationResult, CandidatesResult, MatchResult, SatisfiedResult

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager.manager import NodeManager


class HandleProbe:
    """Tries constraints on scratch copies of nodes, and remembers what came of it until `settle`."""

    def __init__(
        self,
        table: ShapeTable,
        bucket_of: Callable[[Stock], NodeBucket],
        constraints: Sequence[NodeConstraint],
        assignment_id: str,
    ) -> None:
        self._table = table
        self._bucket_of = bucket_of
        self._constraints = constraints
        self._assignment_id = assignment_id
        self._shared = list(shared(constraints))
        self._before = [constraint.saved() for constraint in self._shared]
        self._tried: list[tuple[NodeBucket, int, Node]] = []

    def __call__(self, stock: Stock, position: int, units: int) -> Trial | Reject:
        bucket = self._bucket_of(stock)
        scratch = bucket._scratch(position)
        match = scratch.decrement(self._constraints, units, self._assignment_id)
        if not match:
            return Reject(match.status, *match.reasons)
        self._tried.append((bucket, position, scratch))
        after = bucket._shape_of(scratch, self._table)
        return Trial(match.total_slots, after)

    def settle(self, keep: bool) -> tuple[Callable[[], None], ...]:
        after = [constraint.saved() for constraint in self._shared]
        self._put(self._before)
        tried, self._tried = self._tried, []
        if not keep:
            return ()

        def bring_about() -> None:
            self._put(after)
            for bucket, position, scratch in tried:
                bucket._handle(position)._become(scratch)

        return (bring_about,)

    def _put(self, saved: list[Any]) -> None:
        for constraint, each in zip(self._shared, saved, strict=True):
            constraint.restore(each)


class Ask(NamedTuple):
    """One demand: what it needs, how many units, and who will be assigned."""

    compiled: Compiled
    want: Want
    assignment_id: str


def place(manager: NodeManager, ask: Ask) -> AllocationResult:
    """Place a demand, or say why not. Nothing is changed on failure."""
    manager._sync()
    if results.HANDLERS:
        return _place_reported(manager, ask)
    return _place(manager, ask)[0]


def _place(manager: NodeManager, ask: Ask) -> tuple[AllocationResult, Ranking, Delta | None]:
    compiled, want, assignment_id = ask
    # with an opaque constraint the probe asks all of them together, tolls included
    tolls = () if compiled.opaque else compiled.tolls
    if tolls:
        room = toll_room(tolls)
        if room < 1 or (want.whole and room < want.units):
            refused = AllocationResult(
                "NoAllocationSelected", reasons=lambda: _unpayable(compiled, want)
            )
            return refused, Ranking((), ()), None
        want = want._replace(units=min(room, want.units))
    ranking, candidates = _ranking(manager, compiled)
    if not ranking.stocks:
        why = candidates or (lambda: _sentences(ranking.rejects))
        return AllocationResult("NoCandidatesFound", reasons=why), ranking, None
    probe = None
    if compiled.opaque:
        probe = HandleProbe(
            manager._packer.table, manager._bucket_of, compiled.constraints, assignment_id
        )
    delta = manager._packer.ask(compiled.expr, want, ranking.stocks, probe)
    if not delta:
        rejects = (*ranking.rejects, *delta.rejects)
        refused = AllocationResult(
            "NoAllocationSelected",
            reasons=lambda: [_criteria(compiled, want), *_sentences(rejects)],
        )
        return refused, ranking, delta
    manager._carry_out(delta, assignment_id)
    for toll in tolls:
        toll.pay(delta.units)
    return _success(manager, delta), ranking, delta


def _success(manager: NodeManager, delta: Delta) -> AllocationResult:
    def nodes() -> list[Node]:
        found: list[Node] = []
        for placed in delta.placed:
            bucket = manager._bucket_of(placed.stock)
            found.extend(bucket._handle(i) for i in range(placed.lo, placed.hi))
        return found

    return AllocationResult(
        "success", nodes, delta.units, reasons=lambda: _sentences(delta.rejects)
    )


def _ranking(
    manager: NodeManager, compiled: Compiled
) -> tuple[Ranking, Callable[[], list[str]] | None]:
    """The stocks to ask, in order; through the constraints' own methods where the engine does not know them all."""
    if not compiled.opaque:
        return manager._packer.ranking(compiled.expr), None
    found = bucket_candidates(manager.get_buckets(), compiled.constraints)
    stocks = tuple(bucket._stock for bucket in found.candidates if bucket._stock is not None)
    return Ranking(stocks, ()), lambda: list(found.reasons)


def _place_reported(manager: NodeManager, ask: Ask) -> AllocationResult:
    """`place`, with the results that handlers are promised: candidates, a match for each node used, and what refused
    those that stay (partly) unplaced."""
    result, ranking, delta = _place(manager, ask)
    candidates = [manager._bucket_of(stock) for stock in ranking.stocks]
    if candidates:
        CandidatesResult("success", candidates=candidates)
    if delta is None or delta.units < ask.want.units:
        for stock, reject in (*ranking.rejects, *(delta.rejects if delta else ())):
            _report(ask.compiled, manager._bucket_of(stock), reject)
    if delta is not None:
        for placed in delta.placed:
            bucket = manager._bucket_of(placed.stock)
            for position in range(placed.lo, placed.hi):
                MatchResult("success", bucket._handle(position), placed.times)
    return result


def _report(compiled: Compiled, bucket: NodeBucket, reject: Reject) -> None:
    refusing = next(
        (c for c in compiled.constraints if _refuses(c, bucket)),
        compiled.constraints[0] if compiled.constraints else None,
    )
    if refusing is not None:
        SatisfiedResult(
            reject.code,
            refusing,
            bucket.example_node,
            reasons=lambda: [reject.explain(str(bucket))],
        )


def _refuses(constraint: NodeConstraint, bucket: NodeBucket) -> bool:
    expr = constraint.lower()
    stock = bucket._stock
    return (
        expr is not None and stock is not None and isinstance(stock.bucket_shape.fit(expr), Reject)
    )


def _sentences(rejects: Sequence[tuple[Stock, Reject]]) -> list[str]:
    return summarise([(stock.name, reject) for stock, reject in rejects])


def _unpayable(compiled: Compiled, want: Want) -> list[str]:
    units = want.units if want.whole else 1
    short = [toll for toll in compiled.tolls if toll.cap(units) < units] or compiled.tolls
    return [_criteria(compiled, want), *(toll.refusal(units) for toll in short)]


def _criteria(compiled: Compiled, want: Want) -> str:
    what = "node(s)" if want.per_node == 1 else "slot(s)"
    whole = ", all in one bucket" if want.whole else ""
    criteria = ", ".join(str(c) for c in compiled.constraints) or "no constraints"
    return f"nothing can take {want.units} {what}{whole} with {criteria}"
