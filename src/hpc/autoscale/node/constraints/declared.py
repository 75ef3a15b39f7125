"""Constraints of integrations that say what they read: asked once for all nodes that are alike in
that.

A class with `reads` (see `NodeConstraint.reads`) keeps its published methods. `Declarations` makes
an expression of the engine of it: the methods are called on a stand-in that has what is declared
and nothing else. What they say, and take, is remembered by the shape of that stand-in, by each node
manager for itself. A class that turns out to read more, or to do what no expression can say, is
not believed from then on, and is opaque like any other. Called by `nodemanager.probing` for each
distinct demand.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, cast

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.constraints.base import BaseNodeConstraint, NodeConstraint
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.packing.amounts import Quantity, is_amount, is_same, left
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import IDENTITY, NodeShape, ShapeTable, freeze

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node

_PROPERTIES = frozenset(QUERYABLE_PROPERTIES) - IDENTITY
_MOST_STEPS = 10_000
_MOST_KNOWN = 10_000


class NotAsDeclared(AutoscaleError):
    """A constraint looked at, or did, what it had not declared. Raised into its methods, and to
    whoever asks its expression: its class is not believed from then on, and the demand must be
    decided without the expression.
    """


class Declarations:
    """What is known of declared constraints by whoever places work: their expressions with the
    answers given so far, and the classes that were found to do what they do not declare.
    """

    def __init__(self) -> None:
        self._disbelieved: set[type] = set()
        self._known: dict[tuple[object, ...], DeclaredExpr] = {}

    def expression(
        self, constraint: NodeConstraint, deferred: Collection[str] = ()
    ) -> DeclaredExpr | None:
        """The constraint as an expression; None when it `is_declared` not, declares what differs
        from node to node (`deferred` resources do), or its class is no longer believed.
        """
        if type(constraint) in self._disbelieved or not is_declared(constraint):
            return None
        reads = constraint.reads or frozenset()
        if not _resources(reads).isdisjoint(deferred):
            return None
        key = (type(constraint), reads, freeze(_attributes(constraint)))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = DeclaredExpr(constraint, key, self)
        return found

    def believes(self, expr: DeclaredExpr) -> bool:
        """Whether the class behind an expression has kept to what it declares so far."""
        return type(expr.constraint) not in self._disbelieved

    def disbelieve(self, expr: DeclaredExpr, why: str) -> None:
        """Take the class behind an expression for opaque from now on; the log says why, once."""
        cls = type(expr.constraint)
        if cls not in self._disbelieved:
            self._disbelieved.add(cls)
            logging.warning(
                "%s declares that it reads %s, but %s; it is asked about one node after another",
                cls.__name__,
                ", ".join(sorted(expr.reads)) or "nothing",
                why,
            )


def is_declared(constraint: NodeConstraint) -> bool:
    """Whether a constraint can be an expression: not when its class declares nothing, declares what
    differs from node to node, is told whose job it belongs to, is made of others, or holds what may
    change unseen, such as a pool.
    """
    reads = constraint.reads
    if reads is None or hasattr(constraint, "assignment_id"):
        return False
    if not {name[5:] for name in reads if name.startswith("node.")} <= _PROPERTIES:
        return False
    if any(True for _ in constraint.get_children()):
        return False
    return is_plain(_attributes(constraint))


def _resources(reads: Collection[str]) -> frozenset[str]:
    return frozenset(n.removeprefix("resources.") for n in reads if not n.startswith("node."))


def _attributes(constraint: NodeConstraint) -> dict[str, Any]:
    """All that tells one object of a class from another, so that equal ones share their answers."""
    state = dict(getattr(constraint, "__dict__", {}))
    for cls in type(constraint).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(constraint, slot):
                state[slot] = getattr(constraint, slot)
    return state


def is_plain(value: object) -> bool:
    """Whether a value, with all that is in it, is told from others by `freeze`. What an object of
    any other class holds could change without being seen."""
    if isinstance(value, Mapping):
        return all(is_plain(each) for each in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_plain(each) for each in value)
    return value is None or isinstance(value, (str, bytes, int, float, Size, Enum))


class DeclaredExpr(Expr):
    """What a declared constraint says, as an expression. `takes`: whether it may use something up.
    `ranks`: whether it has its own say about buckets, which then must be asked by the published
    methods. `known_to` is told when the constraint does what it does not declare."""

    __slots__ = (
        *("_answers", "_names", "_properties", "_steps", "_table"),
        *("constraint", "known_to", "ranks", "reads", "takes", "uses"),
    )
    reads: frozenset[str]
    uses: frozenset[str]

    def __init__(
        self, constraint: NodeConstraint, key: tuple[object, ...], known_to: Declarations
    ) -> None:
        cls, reads = type(constraint), constraint.reads or ()
        names = _resources(reads)
        # what the engine does to a node while it places work does not change its properties
        super().__init__(key, monotone=constraint.monotone or not names)
        self.constraint = constraint
        self.known_to = known_to
        self.takes = cls.do_decrement is not BaseNodeConstraint.do_decrement
        self.ranks = any(
            getattr(cls, name) is not getattr(BaseNodeConstraint, name)
            for name in ("satisfied_by_bucket", "weight_buckets")
        )
        self._names = names
        self._properties = sorted(name[5:] for name in reads if name[:5] == "node.")
        self.reads = frozenset((*names, *(f"node.{name}" for name in self._properties)))
        self.uses = self.reads if self.takes else frozenset()
        self._table = ShapeTable()
        self._answers: dict[NodeShape, Fit | Reject] = {}
        self._steps: dict[NodeShape, Fit | None] = {}

    def most_modes(self) -> int:
        """0: what its methods take from other nodes is known when they are asked."""
        return 0

    def fit(self, view: View) -> Fit | Reject:
        """As any expression; NotAsDeclared where the constraint is not what it declares."""
        shown = self._shown(view)
        found = self._answers.get(shown)
        if found is None:
            try:
                found = self._ask(shown)
            except NotAsDeclared as error:
                self.known_to.disbelieve(self, str(error))
                raise
            self._answers[shown] = found
        return found

    def _shown(self, view: View) -> NodeShape:
        """The shape of an open node with what is declared and nothing else."""
        free = {name: view.free[name] for name in self._names if name in view.free}
        units = {name: view.units[name] for name in free if name in view.units}
        properties = {name: view.prop(name) for name in self._properties}
        return self._table.shape(self._table.template(properties, units), free, vacant=False)

    def _ask(self, shown: NodeShape) -> Fit | Reject:
        """The answer of the methods, asked as `Node.decrement` would. NotAsDeclared when that is no
        answer to remember."""
        stand_in = StandIn(shown, self._names)
        constraint, node = self.constraint, cast("Node", stand_in)
        with results.muted():
            answer = results.answer_of(constraint, node)
            space = results.space_of(constraint, node) if answer else 0
            reasons = () if answer else answer.reasons
        stand_in.check(untouched=True)
        self._check_unchanged()
        if not answer:
            return Reject("NodeRejected", *reasons)
        if space == 0:
            raise NotAsDeclared("says that a node will do on which it then has no room")
        most = UNBOUNDED if space < 0 else space
        return self._walk(shown, most) if self.takes else Fit(most)

    def _walk(self, shown: NodeShape, most: int) -> Fit:
        """What it takes, and how often it takes the same again, up to a number."""
        first = self._step(shown)
        if first is None:
            raise NotAsDeclared("says that a node will do, and then takes nothing from it")
        if not first.take:
            return Fit(most, (), first.closes)
        count, step = 0, cast("Fit | None", first)
        while step is not None and count < most:
            if not _is_same_step(step, first):
                raise NotAsDeclared("takes another amount the next time")
            count += 1
            if count > _MOST_STEPS:
                raise NotAsDeclared(
                    f"takes so little that it would fit more than {_MOST_STEPS} times"
                )
            shown = shown.after(step, 1)
            step = self._step(shown)
        return Fit(count, first.take, first.closes)

    def _step(self, shown: NodeShape) -> Fit | None:
        """What the next iteration takes; None when it is refused."""
        if shown not in self._steps:
            stand_in = StandIn(shown, self._names)
            with results.muted():
                done = self.constraint.do_decrement(cast("Node", stand_in))
            stand_in.check(untouched=not done)
            self._check_unchanged()
            self._steps[shown] = stand_in.taken() if done else None
        return self._steps[shown]

    def _check_unchanged(self) -> None:
        if freeze(_attributes(self.constraint)) != self.parts[2]:
            raise NotAsDeclared("changes itself when it is asked")

    def __str__(self) -> str:
        return str(self.constraint)


def _is_same_step(one: Fit, other: Fit) -> bool:
    """Whether two iterations take the same, but for the rounding of floats."""
    mine, others = dict(one.take), dict(other.take)
    return (
        one.closes == other.closes
        and mine.keys() == others.keys()
        and all(is_same(mine[name], others[name]) for name in mine)
    )


class StandIn:
    """A stand-in for a node that has what a constraint declares and nothing else. What is written
    to it is kept here."""

    def __init__(self, shown: NodeShape, names: Collection[str]) -> None:
        available = _Available(shown, names, self.overstep)
        self.__dict__.update(
            _shown=shown, _overstepped=None, _closed=shown.closed, available=available
        )

    def overstep(self, what: str) -> NoReturn:
        """The constraint went too far. Noted, in case that it catches what is raised."""
        self.__dict__["_overstepped"] = what
        raise NotAsDeclared(what)

    def check(self, untouched: bool) -> None:
        """NotAsDeclared when it went too far, or wrote what it should not have."""
        if self._overstepped is not None:
            raise NotAsDeclared(self._overstepped)
        if untouched and (self._closed != self._shown.closed or self.available.written):
            raise NotAsDeclared("changes a node that it is only asked about, or refuses")

    def taken(self) -> Fit:
        """What was taken. NotAsDeclared where that is not a matter of amounts."""
        take: list[tuple[str, Quantity]] = []
        for name, value in self.available.written.items():
            before, after = self._shown.free.get(name), self._plain(name, value)
            numbers = all(is_amount(n) and math.isfinite(n) for n in (before, after))
            if not numbers or before < after:
                raise NotAsDeclared(f"makes {value!r} of {name}")
            if before != after:
                # as the engine will take it: what is left of floats is rounded
                take.append((name, left(before, after)))
        return Fit(1, tuple(take), self._closed)

    def _plain(self, name: str, value: object) -> Any:
        """A value that was written, sizes as bytes."""
        unit = self._shown.units.get(name)
        if not isinstance(value, Size):
            return value if unit is None else None
        return value.bytes if unit is not None and unit.suffix == value.magnitude else None

    def __getattr__(self, name: str) -> Any:
        shown: NodeShape = self.__dict__["_shown"]
        if name in shown.template.properties:
            return shown.prop(name)
        if name == "closed":
            return self._closed
        if name.startswith("__"):
            raise AttributeError(name)
        return self.overstep(f"reads node.{name} too")

    def __setattr__(self, name: str, value: object) -> None:
        if name != "closed" or not isinstance(value, bool):
            self.overstep(f"writes node.{name}")
        self.__dict__["_closed"] = value

    def __str__(self) -> str:
        return "the node"


class _Available(MutableMapping[str, Any]):
    """The declared resources of a stand-in; KeyError for one that the node does not have."""

    def __init__(self, shown: NodeShape, names: Collection[str], overstep: Any) -> None:
        self._shown = shown
        self._names = names
        self._overstep = overstep
        self.written: dict[str, object] = {}

    def _check(self, name: object) -> None:
        if name not in self._names:
            self._overstep(f"reads resources.{name} too")

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        if name in self.written:
            return self.written[name]
        amount, unit = self._shown.free[name], self._shown.units.get(name)
        if unit is None:
            return amount
        kind = Memory if name.startswith("mem") else Size
        return kind(0, unit.suffix).with_bytes(cast("float", amount))

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name)
        self.written[name] = value

    def __delitem__(self, name: str) -> None:
        self._overstep(f"removes resources.{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._overstep("reads all resources"))

    def __len__(self) -> int:
        return len(self._overstep("counts resources"))
