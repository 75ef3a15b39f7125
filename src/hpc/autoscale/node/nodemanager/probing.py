"""Demands that the engine cannot judge by shapes alone.

A constraint may read what differs from node to node (a name, a NodeId), or be a class of somebody else's that only its
own methods understand. The first kind is asked of each node directly; the second is tried on a copy of each node, all
constraints in order, as the published protocol has it. Either way only for nodes that the rest has let through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.node.constraints import And, Compiled, NodeConstraint, SharedConstraint
from hpc.autoscale.node.node.copying import Memento, carry_over, saved
from hpc.autoscale.node.node.decrementing import shared
from hpc.autoscale.node.node.shaping import NodeView
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.draft import Trial
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import IDENTITY, NodeShape, ShapeTable
from hpc.autoscale.packing.stock import Stock

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket

Effects = tuple[Callable[[], None], ...]


class Sorted(NamedTuple):
    """Constraints by who can answer for them. `common`: the engine, for all nodes that look alike. `personal`: each
    node for itself. `opaque`: their own methods. `tolls`: the pools. `general` are those not in `personal`.
    """

    common: Expr
    personal: Expr | None
    opaque: tuple[NodeConstraint, ...]
    declared: frozenset[int]
    tolls: tuple[SharedConstraint, ...]
    general: tuple[NodeConstraint, ...]
    constraints: tuple[NodeConstraint, ...]

    @property
    def needs_probe(self) -> bool:
        """Whether nodes must be looked at one by one."""
        return self.personal is not None or bool(self.opaque)


def sort_out(compiled: Compiled, deferred: Collection[str]) -> Sorted:
    """The constraints sorted; `deferred` are resources that are not in the shapes."""
    if not compiled.opaque and not is_personal(compiled.expr, deferred):
        given = compiled.constraints
        return Sorted(compiled.expr, None, (), frozenset(), compiled.tolls, given, given)
    common: list[Expr] = []
    personal: list[Expr] = []
    opaque: list[NodeConstraint] = []
    tolls: list[SharedConstraint] = []
    general: list[NodeConstraint] = []
    for constraint in _flat(compiled.constraints):
        expr = constraint.lower()
        if expr is not None and is_personal(expr, deferred):
            personal.append(expr)
            continue
        general.append(constraint)
        if isinstance(constraint, SharedConstraint):
            tolls.append(constraint)
        elif expr is None:
            opaque.append(constraint)
        else:
            common.append(expr)
    return Sorted(
        AllOf(common),
        AllOf(personal) if personal else None,
        tuple(opaque),
        frozenset(id(constraint) for constraint in opaque if _is_declared(constraint, deferred)),
        tuple(tolls),
        tuple(general),
        compiled.constraints,
    )


def is_personal(expr: Expr, deferred: Collection[str]) -> bool:
    """Whether an answer differs between nodes that look alike."""
    return expr.reads_identity or any(name in deferred for name in expr.reads)


def _is_declared(constraint: NodeConstraint, deferred: Collection[str]) -> bool:
    """Whether an opaque constraint says what it reads, and that is in the shapes."""
    if constraint.reads is None:
        return False
    properties = {name[5:] for name in constraint.reads if name.startswith("node.")}
    resources = {name.removeprefix("resources.") for name in constraint.reads}
    return properties.isdisjoint(IDENTITY) and resources.isdisjoint(deferred)


def _flat(constraints: Sequence[NodeConstraint]) -> Iterator[NodeConstraint]:
    for constraint in constraints:
        if type(constraint) is And:
            yield from _flat(constraint.constraints)
        else:
            yield constraint


class HandleProbe:
    """Asks about one node at a time, and remembers what came of it until `settle`.

    Of a node that would be new only what holds for all new nodes is known; a personal constraint is held against the
    bucket's example node in its place.
    """

    def __init__(
        self,
        table: ShapeTable,
        bucket_of: Callable[[Stock], NodeBucket],
        demand: Sorted,
        assignment_id: str,
    ) -> None:
        self._table = table
        self._bucket_of = bucket_of
        self._demand = demand
        self._assignment_id = assignment_id
        exprs = [e for e in (demand.common, demand.personal) if e is not None]
        self._whole = AllOf(exprs)
        self._shared = list(shared(demand.constraints)) if demand.opaque else []
        self._before = [constraint.saved() for constraint in self._shared]
        self._tried: list[tuple[NodeBucket, int, Memento, Memento]] = []
        self._refused: dict[tuple[int, NodeShape | None], Reject] = {}

    def __call__(self, stock: Stock, position: int, units: int) -> Trial | Reject:
        bucket = self._bucket_of(stock)
        is_new = position >= len(stock.shapes)
        if self._demand.personal is not None:
            node = bucket.example_node if is_new else bucket._handle(position)
            refusal = self._demand.personal.fit(NodeView(node))
            if isinstance(refusal, Reject):
                return refusal
            if not self._demand.opaque:
                shape = stock.new_shape if is_new else stock.shapes[position]
                trial = self._by_shape(NodeView(node), shape, units)
                if trial is not None:
                    return trial
        if not is_new:
            refused = self._refusal(bucket, position, stock.shapes[position])
            if refused is not None:
                return refused
        return self._by_trying(bucket, position, units)

    def _refusal(self, bucket: NodeBucket, position: int, shape: NodeShape | None) -> Reject | None:
        """The refusal of an opaque constraint, asked before anything is copied."""
        for constraint in self._demand.opaque:
            is_declared = id(constraint) in self._demand.declared
            known = self._refused.get((id(constraint), shape)) if is_declared else None
            if known is None:
                with results.muted():
                    answer = constraint.satisfied_by_node(bucket._handle(position))
                if answer:
                    continue
                known = Reject("NodeRejected", *answer.reasons)
                if is_declared:
                    self._refused[id(constraint), shape] = known
            return known
        return None

    def _by_shape(
        self, view: NodeView, shape: NodeShape | None, units: int
    ) -> Trial | Reject | None:
        """The answer of the expressions; None when what they take is not in the shape."""
        fit = self._whole.fit(view)
        if isinstance(fit, Reject):
            return fit
        if shape is None or any(name not in shape.free for name, _ in fit.take):
            return None
        times = min(fit.count, units)
        return Trial(times, shape.after(fit, times))

    def _by_trying(self, bucket: NodeBucket, position: int, units: int) -> Trial | Reject:
        scratch = bucket._scratch(position)
        before = saved(scratch)
        with results.muted():
            match = scratch.decrement(self._demand.constraints, units, self._assignment_id)
        if not match:
            return Reject(match.status, *match.reasons)
        self._tried.append((bucket, position, before, saved(scratch)))
        return Trial(match.total_slots, bucket._shape_of(scratch, self._table))

    def settle(self, keep: bool) -> Effects:
        after = [constraint.saved() for constraint in self._shared]
        self._put(self._before)
        tried, self._tried = self._tried, []
        if not keep:
            return ()

        def bring_about() -> None:
            self._put(after)
            for bucket, position, was, became in tried:
                carry_over(bucket._handle(position), was, became)

        return (bring_about,)

    def _put(self, saved_values: list[Any]) -> None:
        for constraint, each in zip(self._shared, saved_values, strict=True):
            constraint.restore(each)
