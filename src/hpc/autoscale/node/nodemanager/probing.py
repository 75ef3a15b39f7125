"""Demands that the engine cannot judge by shapes alone.

A constraint may read what differs from node to node (a name, a NodeId), or be a class of somebody
else's that only its own methods understand. The first kind is asked of each node directly; the
second is tried on a copy of each node, all constraints in order, as the published protocol has it.
Either way only for nodes that the rest has let through. A class that declares what it reads is
neither, as long as it keeps to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.node.constraints import And, Compiled, NodeConstraint, SharedConstraint
from hpc.autoscale.node.constraints.declared import Declarations, DeclaredExpr
from hpc.autoscale.node.default_resources import Defaults
from hpc.autoscale.node.node.contents import NodeView
from hpc.autoscale.node.node.decrementing import Saved, carry_over, saved, shared
from hpc.autoscale.node.node.state import pin_of
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.plan import Trial
from hpc.autoscale.packing.reject import Reject

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket
    from hpc.autoscale.node.node import Node

Effects = tuple[Callable[[], None], ...]


class Sorted(NamedTuple):
    """Constraints by who can answer for them. `common`: the engine, for all nodes that look alike;
    `declared` are those in it that ask methods of somebody else's. `personal`: each node for
    itself. `opaque`: their own methods. `pooled`: the pools. `general` are those that buckets are
    asked. `ranks`: whether buckets must be asked by the published methods.
    """

    common: Expr
    personal: Expr | None
    opaque: tuple[NodeConstraint, ...]
    declared: tuple[DeclaredExpr, ...]
    pooled: tuple[SharedConstraint, ...]
    general: tuple[NodeConstraint, ...]
    constraints: tuple[NodeConstraint, ...]
    ranks: bool

    @property
    def needs_probe(self) -> bool:
        """Whether nodes must be looked at one by one."""
        return self.personal is not None or bool(self.opaque)

    @property
    def by_shape(self) -> bool:
        """Whether the engine alone can answer, by what nodes look like."""
        return not (self.needs_probe or self.pooled or self.ranks)

    def may_be_believed(self) -> bool:
        """Whether declared constraints may be acted on; if not, the demand is sorted out anew."""
        return not self.declared or all(expr.known_to.believes(expr) for expr in self.declared)


def sort_out(compiled: Compiled, defaults: Defaults, declarations: Declarations) -> Sorted:
    """The constraints sorted; what is deferred is not in the shapes."""
    personal_names = defaults.personal
    if not compiled.opaque and not compiled.expr.reads_any(personal_names):
        given = compiled.constraints
        return Sorted(compiled.expr, None, (), (), compiled.pooled, given, given, False)
    common: list[Expr] = []
    personal: list[Expr] = []
    opaque: list[NodeConstraint] = []
    known: list[DeclaredExpr] = []
    pooled: list[SharedConstraint] = []
    general: list[NodeConstraint] = []
    for constraint in _flat(compiled.constraints):
        expr = constraint.lower()
        if expr is not None and expr.reads_any(personal_names):
            personal.append(expr)
            continue
        if expr is not None and expr.of_new_nodes:
            common.append(expr)
            continue
        general.append(constraint)
        # of a class without answers of its own, so that it is the same for all nodes
        if isinstance(constraint, SharedConstraint) and (
            type(constraint).join is not NodeConstraint.join
        ):
            pooled.append(constraint)
        elif expr is not None:
            common.append(expr)
        elif (told := declarations.expression(constraint, defaults.deferred)) is not None:
            known.append(told)
        else:
            opaque.append(constraint)
    alone = [expr for expr in known if _stands_alone(expr, [*common, *known])]
    opaque += [expr.constraint for expr in known if expr not in alone]
    ranks = bool(opaque) or any(expr.ranks for expr in alone)
    return Sorted(
        AllOf([*common, *alone]),
        AllOf(personal) if personal else None,
        tuple(opaque),
        tuple(alone),
        tuple(pooled),
        tuple(general),
        compiled.constraints,
        ranks,
    )


def _stands_alone(expr: DeclaredExpr, others: Sequence[Expr]) -> bool:
    """Whether what a declared constraint says does not depend on what the others take meanwhile.
    Only then is the least of their counts what they come to together."""
    return not any(
        not (expr.reads | expr.uses).isdisjoint(other.uses) for other in others if other is not expr
    )


def _flat(constraints: Sequence[NodeConstraint]) -> Iterator[NodeConstraint]:
    for constraint in constraints:
        if type(constraint) is And:
            yield from _flat(constraint.constraints)
        else:
            yield constraint


class HandleProbe:
    """Asks about one node at a time, and remembers what came of it until `settle`.

    Of a node that would be new only what holds for all new nodes is known; a personal constraint is
    held against the bucket's example node in its place.
    """

    def __init__(
        self,
        bucket_of: Callable[[Candidate], NodeBucket],
        demand: Sorted,
        assignment_id: str,
    ) -> None:
        self._bucket_of = bucket_of
        self._pin = pin_of(demand.personal) if demand.personal is not None else None
        self._demand = demand
        self._assignment_id = assignment_id
        self._whole = AllOf([e for e in (demand.common, demand.personal) if e is not None])
        self._shared = list(shared(demand.constraints)) if demand.opaque else []
        self._before = [constraint.saved() for constraint in self._shared]
        self._tried: list[tuple[NodeBucket, int, Saved, Node]] = []

    def __call__(self, candidate: Candidate, position: int, units: int) -> Trial | Reject:
        bucket = self._bucket_of(candidate)
        is_new = position >= len(candidate.shapes)
        node = bucket.example_node if is_new else bucket._nodes.handle(position)
        if not is_new and (refusal := self._refusal(node)) is not None:
            return refusal
        if not self._demand.opaque:
            shape = candidate.new_shape if is_new else candidate.shapes[position]
            if isinstance(fit := self._whole.fit(NodeView(node)), Reject):
                return fit
            if shape is not None and all(name in shape.free for name, _ in fit.take):
                times = min(fit.count, units)
                return Trial(times, shape.after(fit, times))
        elif not is_new:
            # asked before anything is copied
            for constraint in self._demand.opaque:
                with results.muted():
                    answer = results.answer_of(constraint, node)
                if not answer:
                    return Reject("NodeRejected", *answer.reasons)
        return self._by_trying(bucket, position, units)

    def refuses_new(self, candidate: Candidate) -> Reject | None:
        bucket = self._bucket_of(candidate)
        return self._refusal(bucket.example_node, bucket.last_capacity_failure)

    def _refusal(self, node: Node, failure: float | None = None) -> Reject | None:
        personal = self._demand.personal
        found = None if personal is None else personal.fit(NodeView(node, failure))
        return found if isinstance(found, Reject) else None

    def positions(self, candidate: Candidate) -> Sequence[int] | Reject | None:
        pin = self._pin
        if pin is None or pin.one_of is None:
            return None
        found = self._bucket_of(candidate)._nodes.positions_of(pin.one_of)
        return found or Reject("NoSuchNode", str(pin))

    def _by_trying(self, bucket: NodeBucket, position: int, units: int) -> Trial | Reject:
        before = saved(scratch := bucket._scratch(position))
        with results.muted():
            match = scratch.decrement(self._demand.constraints, units, self._assignment_id)
        if not match:
            return Reject(match.status, *match.reasons)
        self._tried.append((bucket, position, before, scratch))
        return Trial(match.total_slots, bucket._nodes.shape_now(scratch))

    def settle(self, keep: bool) -> Effects:
        after = [constraint.saved() for constraint in self._shared]
        self._put(self._before)
        tried, self._tried = self._tried, []
        if not keep:
            return ()

        def bring_about() -> None:
            self._put(after)
            for bucket, position, was, scratch in tried:
                # under the ids by which a constraint may have counted what it took
                carry_over(bucket._nodes.handle(position, scratch), was, saved(scratch))

        return (bring_about,)

    def _put(self, saved_values: list[Any]) -> None:
        for constraint, each in zip(self._shared, saved_values, strict=True):
            constraint.restore(each)
