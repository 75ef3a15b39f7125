"""Expressions that combine others.

Laws: all-of is the minimum of counts and the sum of takes; any-of is the first that fits, with its
takes only; exactly-one is just that; not fits iff its child does not, and takes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from hpc.autoscale.packing.amounts import Quantity, how_many
from hpc.autoscale.packing.expr import (
    FITS,
    UNBOUNDED,
    Expr,
    Fit,
    Minimum,
    MinResource,
    Mode,
    View,
)
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.shown import Shown


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
        super().__init__(self.children, monotone, settled)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(c.reads for c in self.children))

    def reads_any(self, names: Collection[str]) -> bool:
        return any_reads(self.children, names)

    @property
    def uses(self) -> frozenset[str]:
        return frozenset().union(*(c.uses for c in self.children))

    @property
    def chooses(self) -> bool:
        return not self.settled and any(child.chooses for child in self.children)

    def most_modes(self) -> int:
        """The modes of all children; 0 where nobody can tell those of one of them."""
        counts = [child.most_modes() for child in self.children]
        return sum(counts) if all(counts) else 0

    def modes(self, view: View) -> Sequence[Mode]:
        return [mode for child in self.children for mode in child.modes(view)]

    def __str__(self) -> str:
        return "(" + f" {self.word} ".join(str(c) for c in self.children) + ")"


class AllOf(_Composite):
    """Every child, at once: the minimum of counts and the sum of takes."""

    __slots__ = ("_amounts", "_parts", "_texts")
    word = "and"
    is_condition = False

    def __init__(self, children: Iterable[Expr]) -> None:
        # there may be thousands, so what the base would work out is written down
        self.children = self.parts = children = tuple(children)
        self._hash = hash(children)
        self._parts: tuple[Expr, ...] | None = None
        self._texts: dict[str | None, Sequence[str]] | None = None
        amounts = {}
        for child in children:
            if child.__class__ is not MinResource or not child.whole:
                break
            amounts[child.name] = child.minima[0]
        # where each child asks for a whole number of another resource, as those of most jobs do
        self._amounts = len(amounts) == len(children) > 0
        if self._amounts:
            self.monotone, self.settled, self.weighs = True, False, False
            self.minima = tuple(amounts.values())
            return
        self.monotone, self.settled, self.weighs = True, True, False
        minima: list[Minimum] = []
        for child in children:
            self.monotone = self.monotone and child.monotone
            self.settled = self.settled and child.settled
            self.weighs = self.weighs or child.weighs
            minima.extend(child.minima)
        self.minima = tuple(minima)
        if self.monotone and not self.settled and _is_choice_in_the_way(children):
            self.monotone = False

    def fit(self, view: View) -> Fit | Reject:
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
                    amounts = (Shown(available, unit), Shown(amount, unit))
                    return Reject("InsufficientResource", name, *amounts)
                count = min(count, room)
        return Fit(count, tuple(takes.items()), closes)

    def weigh(self, bucket: View, weight: float) -> float:
        for child in self.children:
            weight = child.weigh(bucket, weight)
        return weight

    def conditions(self) -> Sequence[Expr]:
        return [each for child in self.children for each in child.conditions()]

    def at_once(self) -> Sequence[Expr]:
        """The children, unless two of them may take the same."""
        if self._parts is None:
            self._parts = (self,) if self._shares() else self.children
        return self._parts

    def _shares(self) -> bool:
        used: set[str] = set()
        for child in self.children:
            minimum = child.minimum
            names = child.uses if minimum is None else (minimum[0],)
            if not used.isdisjoint(names):
                return True
            used.update(names)
        return False

    def spelt_out(self) -> Mapping[str | None, Sequence[str]]:
        if self._texts is None:
            self._texts = {}
            for child in self.children:
                self._texts.update(child.spelt_out())
        return self._texts

    def minima_of(self, properties: Mapping[str, object]) -> tuple[Minimum, ...] | None:
        if self._amounts:
            return self.minima
        found: list[Minimum] = []
        for child in self.children:
            each = child.minima_of(properties)
            if each is None:
                return None
            found += each
        return tuple(found)

    def whole_amounts(self) -> tuple[tuple[str, int, bool], ...] | None:
        return self.minima if self._amounts else None  # type: ignore[return-value]

    def most_modes(self) -> int:
        return math.prod(child.most_modes() for child in self.children)

    def modes(self, view: View) -> Sequence[Mode]:
        found = [Mode()]
        for child in self.children:
            found = [_both(one, other) for one in found for other in child.modes(view)]
        return found


class AnyOf(_Composite):
    """The first child that fits, and what that child takes. Earlier children are preferred."""

    __slots__ = ("_by_text", "_key", "_others")
    word = "or"

    def __init__(self, children: Iterable[Expr]) -> None:
        children = tuple(children)
        super().__init__(children, all(c.monotone for c in children))
        # a property that alternatives spell out, and the alternatives by what that is
        self._key: str | None = None
        self._by_text: dict[object, list[tuple[int, Expr]]] = {}
        self._others: list[tuple[int, Expr]] = []

    @property
    def chooses(self) -> bool:
        """Where an alternative may be used up, another one is next."""
        return not self.settled

    def fit(self, view: View) -> Fit | Reject:
        by_text, key = self._by_text or self._sort(), self._key
        text = view.prop(key) if key else None
        for rank, child in (
            by_text.get(text, self._others) if text.__class__ is str else self._others
        ):
            fit = child.fit(view)
            if isinstance(fit, Fit):
                return fit if rank == fit.rank else Fit(fit.count, fit.take, fit.closes, rank)
        return Reject("CompoundFailure", len(self.children), Refusals(self.children, view))

    def _sort(self) -> Mapping[object, Sequence[tuple[int, Expr]]]:
        """The alternatives, with their numbers, by the texts of the first property that the first
        of them spells out; those that spell out none are with all."""
        texts = [child.spelt_out() for child in self.children]
        self._key = key = next(iter(texts[0]), None) if texts else None
        found: dict[object, list[tuple[int, Expr]]] = {}
        for each in texts:
            found.update((text, []) for text in each.get(key, ()))
        self._others = others = []
        for number, (child, each) in enumerate(zip(self.children, texts, strict=True)):
            wanted = each.get(key)
            for text in found if wanted is None else set(wanted):
                found[text].append((number, child))
            if wanted is None:
                others.append((number, child))
        found[None] = others  # so that it is not empty, and this is done once
        self._by_text = found
        return found

    def weigh(self, bucket: View, weight: float) -> float:
        fit = self.fit(bucket)
        return weight + 100.0 * (len(self.children) - fit.rank) if isinstance(fit, Fit) else 0.0

    def alternatives(self) -> Sequence[Expr] | None:
        return self.children

    def minima_of(self, properties: Mapping[str, object]) -> tuple[Minimum, ...] | None:
        """Of what is left of the alternatives, the least that each of them needs."""
        by_text, key = self._by_text or self._sort(), self._key
        possible: Iterable[tuple[int, Expr]] = enumerate(self.children)
        if key is not None and key in properties:
            possible = by_text.get(properties[key], self._others)
        found: tuple[Minimum, ...] | None = None
        for _, child in possible:
            minima = child.minima or child.minima_of(properties)
            if minima is not None:
                found = minima if found is None else _least(found, minima)
        return found


def _least(one: Sequence[Minimum], other: Sequence[Minimum]) -> tuple[Minimum, ...]:
    """What a node must have that has enough for one of two."""
    found = []
    for name, amount, sized in one:
        amounts = [each[1] for each in other if (each[0], each[2]) == (name, sized)]
        if amounts:
            found.append((name, min(amount, max(amounts)), sized))
    return tuple(found)


class ExactlyOne(_Composite):
    """Exactly one child fits: what that one takes."""

    __slots__ = ()
    word = "xor"

    def __init__(self, children: Iterable[Expr]) -> None:
        super().__init__(children, False)

    def fit(self, view: View) -> Fit | Reject:
        found: list[tuple[Expr, Fit]] = []
        for child in self.children:
            fit = child.fit(view)
            if isinstance(fit, Fit):
                found.append((child, fit))
                if len(found) > 1:
                    return Reject("XORFailed", found[0][0], child)
        if found:
            return found[0][1]
        return Reject("CompoundFailure", len(self.children), Refusals(self.children, view))


class Negation(_Composite):
    """Fits iff the child does not; takes nothing."""

    __slots__ = ()

    def __init__(self, child: Expr) -> None:
        super().__init__((child,), False)

    def fit(self, view: View) -> Fit | Reject:
        child = self.children[0]
        return FITS if isinstance(child.fit(view), Reject) else Reject("not(success)", child)

    @property
    def uses(self) -> frozenset[str]:
        return frozenset()

    def most_modes(self) -> int:
        return 1 if self.children[0].most_modes() else 0

    def modes(self, view: View) -> Sequence[Mode]:
        # what is refused now may be let through later, unless the child's answer never changes
        is_final = self.monotone and isinstance(self.fit(view), Reject)
        return [] if is_final else [Mode()]

    def __str__(self) -> str:
        return f"not {self.children[0]}"


class Refusals:
    """Refusals of several alternatives (`children`) as one text, made when it is printed. A node
    that may change until then is asked at once."""

    __slots__ = ("_rejects", "_view", "children")

    def __init__(self, children: Sequence[Expr], view: View) -> None:
        self.children = children
        self._view = view
        self._rejects: list[Reject] | None = None
        if not isinstance(view, NodeShape):
            self.rejects()

    def rejects(self) -> list[Reject]:
        """The refusals, in order."""
        if self._rejects is None:
            fits = [child.fit(self._view) for child in self.children]
            self._rejects = [fit for fit in fits if isinstance(fit, Reject)]
        return self._rejects

    def __str__(self) -> str:
        return "; ".join(reject.explain() for reject in self.rejects())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusals) and self.rejects() == other.rejects()

    def __hash__(self) -> int:
        return hash(len(self.children))


def _is_choice_in_the_way(children: Sequence[Expr]) -> bool:
    """Whether what one child chooses to take decides if there is enough for another. Less of it may
    then do: the choice falls on an alternative that takes something else."""
    for child in children:
        if child.chooses:
            names = [name for name in child.reads if name[:5] != "node."]
            if any(other.reads_any(names) for other in children if other is not child):
                return True
    return False


def _both(one: Mode, other: Mode) -> Mode:
    """Two modes on one node."""
    if not one.take or not other.take:
        return Mode(one.take or other.take, one.closes or other.closes)
    takes = dict(one.take)
    for name, amount in other.take:
        takes[name] = takes.get(name, 0) + amount
    return Mode(tuple(sorted(takes.items())), one.closes or other.closes)
