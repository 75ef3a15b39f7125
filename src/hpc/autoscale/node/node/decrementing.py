"""Placing work on one node through its handle, and merging in what a scheduler says of it.

For callers that hold a node and a list of constraints. What can be lowered to an expression goes
through the same code as in the engine, in one step however many iterations; the rest is asked
through the published protocol, once for each iteration. A refusal leaves no trace: what placing
work may change of a node can be saved, put back, and repeated on another copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.node.contents import NodeView, copied, restore, same, split_sizes
from hpc.autoscale.packing.amounts import TOLERANCE, is_amount, left
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.results import MatchResult, SatisfiedResult, answers_of, space_of

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node


class Condition(Protocol):
    """What a node is held against: as much of a constraint as a node knows."""

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the node does, as it is now."""

    def do_decrement(self, node: Node) -> bool:
        """Take what one iteration needs from the node; False, and nothing taken, when that is
        not possible."""

    def minimum_space(self, node: Node) -> int:
        """How many more iterations fit on the node; -1: it does not care."""

    def get_children(self) -> Iterable[Condition]:
        """The conditions that this one is made of."""


def minimum_space(constraints: Sequence[Condition], node: Node) -> int:
    """How often what `constraints` ask for fits on the node: the least of their answers, -1 when
    none has an opinion, 1 when there are no constraints."""
    spaces = [space for c in constraints if (space := space_of(c, node)) >= 0]
    return min(spaces, default=-1 if constraints else 1)


def lowered(constraint: Condition) -> Expr | None:
    """The constraint as an expression; None for one that only its own methods understand."""
    lower = getattr(constraint, "lower", None)
    return lower() if lower is not None else None


def shared(constraints: Iterable[Condition]) -> Iterator[Any]:
    """The constraints on what all nodes share, at any depth: those that can save and restore it."""
    for constraint in constraints:
        if hasattr(constraint, "saved"):
            yield constraint
        yield from shared(constraint.get_children())


def take(node: Node, fit: Fit, times: int) -> None:
    """Use up what `fit` takes, `times` times, on the node."""
    if fit.take:
        free, _ = split_sizes(node.available)
        rest = {name: left(free[name], amount, times) for name, amount in fit.take}
        node.available.update(restore(rest, node.available))
    if fit.closes:
        node.closed = True


def decrement(
    node: Node, constraints: Sequence[Condition], iterations: int, assignment_id: str
) -> MatchResult[Node]:
    """See `Node.decrement`."""
    if node.closed:
        return MatchResult("NodeClosed", node, iterations, [f"{node} is closed"])
    if refused := [answer for answer in answers_of(constraints, node) if not answer]:
        reasons = [reason for answer in refused for reason in answer.reasons]
        return MatchResult("NodeRejected", node, iterations, reasons)
    exprs = [(c, lowered(c)) for c in constraints]
    fit = AllOf([expr for _, expr in exprs if expr is not None]).fit(NodeView(node))
    if not isinstance(fit, Fit):
        return MatchResult("NodeRejected", node, iterations, [fit.explain(str(node))])
    space = minimum_space(constraints, node)
    count = min(iterations, fit.count, UNBOUNDED if space < 0 else space)
    opaque = [constraint for constraint, expr in exprs if expr is None]
    count = _carry_out(node, constraints, fit, opaque, count)
    if count < 1:
        return MatchResult("NodeRejected", node, iterations, [f"{node} has no room left"])
    node.required = True
    node.assign(assignment_id)
    return MatchResult("success", node, count)


def _carry_out(
    node: Node, constraints: Sequence[Condition], fit: Fit, opaque: Sequence[Condition], count: int
) -> int:
    """Take what `count` iterations need, or the most that all constraints agree to; how many that
    were.

    Each constraint has said how much room there is for it alone; what it says while the others take
    theirs decides. The fewer iterations, the easier they fit, so the most is found by halving.
    """

    def taken(times: int) -> bool:
        """Take what so many need; when a constraint refuses one of them, or raises, nothing is
        taken. One of ours refuses by an AutoscaleError when there is nothing left for it; anything
        else that is raised goes on up."""
        undo = _undo(node, constraints) if opaque else None
        done = False
        try:
            take(node, fit, times)
            done = all(constraint.do_decrement(node) for constraint in opaque for _ in range(times))
            if opaque and done:  # they may have taken of the same, and more than was left
                free, _ = split_sizes(node.available)
                values = [free.get(name) for name, _ in fit.take]
                done = all(value >= -TOLERANCE for value in values if is_amount(value))
        except AutoscaleError as e:
            logging.fine("%s: %s", node, e)
        finally:
            if not done and undo is not None:
                undo()
        return done

    if count < 1 or taken(count):
        return max(0, count)
    fits, too_many = 0, count
    while too_many - fits > 1:
        tried = (fits + too_many) // 2
        undo = _undo(node, constraints)
        if taken(tried):
            undo()
            fits = tried
        else:
            too_many = tried
    return fits if fits and taken(fits) else 0


def _undo(node: Node, constraints: Sequence[Condition]) -> Callable[[], None]:
    """What puts back, on the node and in shared pools, what placing work changes from now on."""
    before = saved(node)
    pools = [(constraint, constraint.saved()) for constraint in shared(constraints)]

    def undo() -> None:
        carry_over(node, saved(node), before)
        for constraint, was in pools:
            constraint.restore(was)

    return undo


def merge(node: Node, snode: Node) -> None:
    """See `Node.update`."""
    available, own_id = node.available, snode.resources.get("ccnodeid")
    assigned = snode.assignments
    level = logging.FINE if assigned else logging.WARNING
    # of several clusters, a machine does not know what its own is called
    settled = "ccnodeid" if str(available.get("ccnodeid")).endswith(f"/{own_id}") else ""
    for name, value in copied(snode.available).items():
        before = available.get(name)
        if name == settled or (same(before, value) and value is not None):
            continue
        if before != value:
            how = logging.FINE if before is None else level
            text = "%s: the scheduler says %s=%r is available; it was %r"
            logging.log(how, text, node, name, value, before)
        available[name] = value
    totals = node._resources
    said = {n: v for n, v in snode.resources.items() if n != settled}
    if differing := {n: v for n, v in said.items() if not (n in totals and same(totals[n], v))}:
        totals.update(copied(differing))
    if snode.metadata:
        node.metadata.update(deepcopy(snode.metadata))
    if assigned:
        node.assignments.update(assigned)
    if assigned or snode.required:
        node.required = True


# Attributes by the names under which the node keeps them, so that its checks on writing are not
# asked again.
_MAPPINGS = ("_resources", "available", "metadata", "_Node__node_attribute_overrides")
_PLAIN = (
    *("_allocated", "_Node__closed", "_Node__placement_group", "_Node__keep_alive"),
    *("name_format", "name_offset"),
)
_APART = frozenset((*_MAPPINGS, *_PLAIN, "delayed_node_id"))

Saved = dict[str, Any]
"""Everything of a node that placing work may change, by attribute, as values of its own."""


def saved(node: Node) -> Saved:
    """What the node is now."""
    return {
        **{name: copied(getattr(node, name)) for name in _MAPPINGS},
        "assignments": set(node.assignments),
        "attributes": {
            **{name: getattr(node, name) for name in _PLAIN},
            # the others that are no secret, also those that an integration has added
            **{k: v for k, v in vars(node).items() if k[0] != "_" and k not in _APART},
        },
    }


def carry_over(node: Node, before: Saved, after: Saved) -> None:
    """Do to the node what made `after` of `before`; whatever did not change there stays as it is
    here."""
    for name in _MAPPINGS:
        was, became, target = before[name], after[name], getattr(node, name)
        for key in was.keys() - became.keys():
            target.pop(key, None)
        for key, value in copied(became).items():
            if key not in was or not same(was[key], value):
                target[key] = value
    there, left_there = before["assignments"], after["assignments"]
    if there != left_there:
        node.assignments.difference_update(there - left_there)
        node.assignments.update(left_there - there)
    there, left_there = before["attributes"], after["attributes"]
    for name in there.keys() - left_there.keys():
        node.__dict__.pop(name, None)
    for name, value in left_there.items():
        if name not in there or value is not there[name]:
            setattr(node, name, value)
