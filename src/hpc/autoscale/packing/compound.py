"""Expressions that combine others.

Laws: all-of is the minimum of counts and the sum of takes; any-of is the first that fits, with its takes only;
exactly-one is just that; not fits iff its child does not, and takes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import cast

from hpc.autoscale.packing.expr import (
    FITS,
    UNBOUNDED,
    AnyNode,
    Expr,
    Fit,
    MinResource,
    View,
    how_many,
    shown,
)
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import Quantity


def any_reads(parts: Sequence[Expr], names: Collection[str]) -> bool:
    """Whether one of the names is among what the answer of one of the parts depends on."""
    # any() takes twice as long, and each distinct job is asked
    for part in parts:  # noqa: SIM110
        if part.reads_any(names):
            return True
    return False


class _Composite(Expr):
    __slots__ = ("children",)
    word = ""

    def __init__(self, children: Iterable[Expr], monotone: bool) -> None:
        self.children = tuple(children)
        settled = all(c.settled for c in self.children)
        super().__init__(self.children, monotone or settled, settled)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(c.reads for c in self.children))

    def reads_any(self, names: Collection[str]) -> bool:
        return any_reads(self.children, names)

    def __str__(self) -> str:
        return "(" + f" {self.word} ".join(str(c) for c in self.children) + ")"


class AllOf(_Composite):
    """Every child, at once: the minimum of counts and the sum of takes."""

    __slots__ = ("_take", "amounts")
    word = "and"

    def __init__(self, children: Iterable[Expr]) -> None:
        # there may be thousands, so what the base would work out is written down
        self.children = self.parts = children = tuple(children)
        self._hash = hash(children)
        self._take: tuple[tuple[str, Quantity], ...] | None = None
        amounts = {}
        for child in children:
            if child.__class__ is not MinResource or not child.whole:
                break
            amounts[child.name] = child.minima[0]
        # the children, where each asks for a whole number of another resource, as those of most jobs do
        self.amounts: tuple[MinResource, ...] | None = None
        if len(amounts) == len(children) > 0:
            self.monotone, self.settled, self.weighs = True, False, False
            self.minima = tuple(amounts.values())
            self.amounts = cast("tuple[MinResource, ...]", children)
            return
        self.monotone, self.settled, self.weighs = True, True, False
        minima: list[tuple[str, Quantity, bool]] = []
        for child in children:
            self.monotone = self.monotone and child.monotone
            self.settled = self.settled and child.settled
            self.weighs = self.weighs or child.weighs
            minima.extend(child.minima)
        self.minima = tuple(minima)
        if self.monotone and not self.settled and _is_choice_in_the_way(children):
            self.monotone = False

    def fit(self, view: View) -> Fit | Reject:
        if self.amounts is not None:
            found = self._fit_amounts(self.amounts, view)
            if found is not None:
                return found
        count = UNBOUNDED
        closes = False
        takes: dict[str, Quantity] = {}
        shared = False
        for child in self.children:
            fit = child.fit(view)
            if isinstance(fit, Reject):
                return fit
            count = min(count, fit.count)
            closes = closes or fit.closes
            for name, amount in fit.take:
                shared = shared or name in takes
                takes[name] = takes.get(name, 0) + amount
        if shared:
            # children that each fit may ask for the same resource: together they must fit too
            for name, amount in takes.items():
                available = view.free[name]
                room = how_many(available, amount) if isinstance(available, (int, float)) else 0
                if room < 1:
                    unit = view.units.get(name)
                    amounts = (shown(n, unit) for n in (view.free[name], amount))
                    return Reject("InsufficientResource", name, *amounts)
                count = min(count, room)
        return Fit(count, tuple(takes.items()), closes)

    def _fit_amounts(self, amounts: Sequence[MinResource], view: View) -> Fit | Reject | None:
        """The same where it is a matter of whole numbers alone, as it is for most jobs; None where it is not."""
        free, units = view.free, view.units
        count = UNBOUNDED
        for child in amounts:
            name = child.name
            available = free.get(name)
            if available.__class__ is not int or (name in units and not child.sized):
                return None
            times = available // child.amount
            if times < 1:
                return child.fit(view)
            if times < count:
                count = int(times)
        if self._take is None:
            self._take = tuple([(child.name, child.amount) for child in amounts])
        return Fit(count, self._take)

    def weigh(self, bucket: View, weight: float) -> float:
        for child in self.children:
            weight = child.weigh(bucket, weight)
        return weight


Amounts = tuple[tuple[str, int, bool], ...]
"""Of each resource: its name, how much, and whether that is in bytes."""


def whole_amounts(expr: Expr) -> Amounts | None:
    """What an expression takes where it asks for whole numbers of some resources and nothing else; None for any other."""
    amounts = expr.amounts if isinstance(expr, AllOf) else [expr]
    found = []
    for part in amounts or ():
        if isinstance(part, MinResource) and part.amount.__class__ is int and part.amount:
            found.append((part.name, int(part.amount), part.sized))
    return tuple(found) or None


class AnyOf(_Composite):
    """The first child that fits, and what that child takes. Earlier children are preferred."""

    __slots__ = ()
    word = "or"

    def __init__(self, children: Iterable[Expr]) -> None:
        children = tuple(children)
        super().__init__(children, all(c.monotone for c in children))

    def fit(self, view: View) -> Fit | Reject:
        rejects = []
        for index, child in enumerate(self.children):
            fit = child.fit(view)
            if isinstance(fit, Fit):
                return Fit(fit.count, fit.take, fit.closes, rank=index)
            rejects.append(fit)
        return Reject("CompoundFailure", len(rejects), _Said(rejects))

    def weigh(self, bucket: View, weight: float) -> float:
        fit = self.fit(bucket)
        return weight + 100.0 * (len(self.children) - fit.rank) if isinstance(fit, Fit) else 0.0


class ExactlyOne(_Composite):
    """Exactly one child fits: what that one takes."""

    __slots__ = ()
    word = "xor"

    def __init__(self, children: Iterable[Expr]) -> None:
        super().__init__(children, False)

    def fit(self, view: View) -> Fit | Reject:
        found: Fit | None = None
        which: Expr | None = None
        rejects = []
        for child in self.children:
            fit = child.fit(view)
            if isinstance(fit, Reject):
                rejects.append(fit)
            elif found is None:
                found, which = fit, child
            else:
                return Reject("XORFailed", which, child)
        return (
            found if found is not None else Reject("CompoundFailure", len(rejects), _Said(rejects))
        )


class Negation(_Composite):
    """Fits iff the child does not; takes nothing."""

    __slots__ = ()

    def __init__(self, child: Expr) -> None:
        super().__init__((child,), False)

    def fit(self, view: View) -> Fit | Reject:
        child = self.children[0]
        return FITS if isinstance(child.fit(view), Reject) else Reject("not(success)", child)

    def __str__(self) -> str:
        return f"not {self.children[0]}"


class _Said:
    """Several refusals as one text, made when it is printed."""

    __slots__ = ("rejects",)

    def __init__(self, rejects: list[Reject]) -> None:
        self.rejects = tuple(rejects)

    def __str__(self) -> str:
        return "; ".join(r.explain() for r in self.rejects)

    def __format__(self, spec: str) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Said) and self.rejects == other.rejects

    def __hash__(self) -> int:
        return hash(len(self.rejects))


def _is_choice_in_the_way(children: Sequence[Expr]) -> bool:
    """Whether what one child chooses to take decides if there is enough for another. Less of it may then do: the choice
    falls on an alternative that takes something else."""
    for child in children:
        if _chooses(child):
            names = [name for name in child.reads if name[:5] != "node."]
            if any(other.reads_any(names) for other in children if other is not child):
                return True
    return False


def _chooses(expr: Expr) -> bool:
    return (
        isinstance(expr, _Composite)
        and not expr.settled
        and (isinstance(expr, AnyOf) or any(_chooses(child) for child in expr.children))
    )


def all_of(children: Iterable[Expr]) -> Expr:
    """One expression for several that must all hold; `AnyNode` where there are none."""
    children = tuple(children)
    if not children:
        return AnyNode()
    return children[0] if len(children) == 1 else AllOf(children)
