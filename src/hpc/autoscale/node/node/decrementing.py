"""Placing work on one node through its handle, and merging in what a scheduler says of it.

For callers that hold a node and a list of constraints. What can be lowered to an expression goes
through the same code as in the engine, in one step however many iterations; the rest is asked
through the published protocol, once for each iteration. A refusal leaves no trace: what placing
work may change of a node can be saved, put back, and repeated on another copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.node.shaping import restore, split_sizes
from hpc.autoscale.node.node.tracked import Amounts, TrackedDict, TrackedSet, copied, same
from hpc.autoscale.packing.amounts import left
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.results import MatchResult, SatisfiedResult

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
        """Those that this one is made of."""


def minimum_space(constraints: Sequence[Condition], node: Node) -> int:
    """How often what `constraints` ask for fits on the node: the least of their answers, -1 when
    none has an opinion, 1 when there are no constraints."""
    if not constraints:
        return 1
    spaces = [space for c in constraints if (space := c.minimum_space(node)) >= 0]
    return min(spaces) if spaces else -1


def lowered(constraint: Condition) -> Expr | None:
    """The constraint as an expression; None for one that only its own methods understand."""
    lower = getattr(constraint, "lower", None)
    return lower() if lower is not None else None


def shared(constraints: Iterable[Condition]) -> Iterator[Any]:
    """The constraints on what all nodes share, at any depth: those that can save and restore it."""
    for constraint in constraints:
        if hasattr(constraint, "saved") and hasattr(constraint, "restore"):
            yield constraint
        yield from shared(constraint.get_children())


class Snapshot:
    """What placing work may change on a node and in shared pools, so that a refused attempt can
    be undone."""

    def __init__(self, node: Node, constraints: Sequence[Condition]) -> None:
        self._node = node
        self._state = saved(node)
        self._shared = [(constraint, constraint.saved()) for constraint in shared(constraints)]

    def undo(self) -> None:
        """Put everything back."""
        put_back(self._node, self._state)
        for constraint, saved in self._shared:
            constraint.restore(saved)


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
    answers = [constraint.satisfied_by_node(node) for constraint in constraints]
    refusals = [reason for answer in answers if not answer for reason in answer.reasons]
    if any(not answer for answer in answers):
        return MatchResult("NodeRejected", node, iterations, refusals)
    exprs = [(c, lowered(c)) for c in constraints]
    fit = AllOf([expr for _, expr in exprs if expr is not None]).fit(node._view())
    if not isinstance(fit, Fit):
        return MatchResult("NodeRejected", node, iterations, [fit.explain(str(node))])
    space = minimum_space(constraints, node)
    count = min(iterations, fit.count, UNBOUNDED if space < 0 else space)
    opaque = [constraint for constraint, expr in exprs if expr is None]
    count = _carry_out_most(node, constraints, fit, opaque, count)
    if count < 1:
        return MatchResult("NodeRejected", node, iterations, [f"{node} has no room left"])
    node.required = True
    node.assign(assignment_id)
    return MatchResult("success", node, count)


def _carry_out_most(
    node: Node,
    constraints: Sequence[Condition],
    fit: Fit,
    opaque: Sequence[Condition],
    count: int,
) -> int:
    """Take what `count` iterations need, or the most that all constraints agree to; how many that
    were.

    Each constraint has said how much room there is for it alone; what it says while the others take
    theirs decides. The fewer iterations, the easier they fit, so the most is found by halving.
    """
    if count < 1 or _carry_out(node, constraints, fit, opaque, count):
        return max(0, count)
    fits, too_many = 0, count
    while too_many - fits > 1:
        tried = (fits + too_many) // 2
        snapshot = Snapshot(node, constraints)
        if _carry_out(node, constraints, fit, opaque, tried):
            snapshot.undo()
            fits = tried
        else:
            too_many = tried
    return fits if fits and _carry_out(node, constraints, fit, opaque, fits) else 0


def _carry_out(
    node: Node,
    constraints: Sequence[Condition],
    fit: Fit,
    opaque: Sequence[Condition],
    count: int,
) -> bool:
    """Take what `count` iterations need; when a constraint refuses one of them, or raises, nothing
    is taken.

    One of ours refuses by an AutoscaleError when there is nothing left for it; anything else that
    is raised goes on up.
    """
    snapshot = Snapshot(node, constraints) if opaque else None
    done = False
    try:
        take(node, fit, count)
        done = all(constraint.do_decrement(node) for constraint in opaque for _ in range(count))
    except AutoscaleError as e:
        logging.fine("%s: %s", node, e)
    finally:
        if not done and snapshot is not None:
            snapshot.undo()
    return done


def merge(node: Node, snode: Node) -> None:
    """See `Node.update`."""
    available, reported, assigned = node.available, copied(snode.available), snode.assignments
    level = logging.FINE if assigned else logging.WARNING
    for name, value in reported.items():
        before = available.get(name)
        if same(before, value) and value is not None:
            continue
        if before != value:
            logging.log(
                logging.FINE if before is None else level,
                "%s: the scheduler says %s=%r is available; it was %r",
                node,
                name,
                value,
                before,
            )
        available[name] = value
    totals = node._resources
    differing = {
        n: v for n, v in snode.resources.items() if not (n in totals and same(totals[n], v))
    }
    if differing:
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
    "_allocated",
    "_Node__closed",
    "_Node__placement_group",
    "_Node__keep_alive",
    "name_format",
    "name_offset",
)


class Memento(NamedTuple):
    """Everything that placing work may change, as values of its own."""

    mappings: dict[str, dict[str, Any]]
    assignments: set[str]
    plain: dict[str, Any]


def saved(node: Node) -> Memento:
    """What the node is now."""
    return Memento(
        {name: copied(getattr(node, name)) for name in _MAPPINGS},
        set(node.assignments),
        {name: getattr(node, name) for name in _PLAIN},
    )


def put_back(node: Node, memento: Memento) -> None:
    """Make the node again what it was."""
    carry_over(node, saved(node), memento)


def carry_over(node: Node, before: Memento, after: Memento) -> None:
    """Do to the node what made `after` of `before`; whatever did not change there stays as it is
    here."""
    for name in _MAPPINGS:
        _change(getattr(node, name), before.mappings[name], after.mappings[name])
    if after.assignments != before.assignments:
        node.assignments.difference_update(before.assignments - after.assignments)
        node.assignments.update(after.assignments - before.assignments)
    for name, value in after.plain.items():
        if value != before.plain[name]:
            setattr(node, name, value)


def _change(
    target: MutableMapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    for name in before.keys() - after.keys():
        target.pop(name, None)
    for name, value in copied(after).items():
        if name not in before or not same(before[name], value):
            target[name] = value


def copy_of(node: Node) -> Node:
    """A copy that answers every question as the node would, and belongs to no bucket."""
    made = copy(node)
    made.delayed_node_id = node.delayed_node_id.clone()
    made.delayed_node_id.transient_id = node.delayed_node_id.transient_id
    fresh: dict[str, Any] = {
        "_resources": TrackedDict(copied(node._resources), made),
        "_Node__available": Amounts(copied(node.available), made),
        "_Node__assignments": TrackedSet(node.assignments, made),
        "metadata": deepcopy(node.metadata),
    }
    for name in ("_Node__node_attribute_overrides", "_Node__software_configuration"):
        fresh[name] = deepcopy(dict(getattr(node, name)))
    for name, value in fresh.items():
        setattr(made, name, value)
    return made
