"""Constraints compiled for the engine: small immutable expressions, each of which can say whether
it fits a node.

The published constraint classes lower themselves to these and answer their own questions through
them, so a rule stands in one place. Here are the expressions that look at the node; those that
combine others are in `compound`. Expressions are compared by content, with the hash made once.

Whatever the engine, the ranking and the least-cost plans must know of an expression is a method of
`Expr`, with a default that is right for every class that says what it `reads` and how it fits.
Nobody asks for the class of an expression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from hpc.autoscale.packing.amounts import FREE_OF_CHARGE, Quantity, how_many, is_amount
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import IDENTITY, freeze
from hpc.autoscale.shown import Shown, Unit

UNBOUNDED = 2**62
"""The count of an expression that has no opinion on how often it fits (published as -1)."""

VACANT = "node.vacant"
"""Stands in `Expr.minima` for a node with nothing on it (1) or with something (0)."""

IDENTITY_NAMES = frozenset(f"node.{name}" for name in IDENTITY)
"""What tells nodes apart that are otherwise alike, as in `Expr.reads`."""


class View(Protocol):
    """What an expression may look at: a `NodeShape`, or a node itself where identity matters."""

    @property
    def free(self) -> Mapping[str, object]:
        """Resource values by name; sized resources in bytes."""

    @property
    def units(self) -> Mapping[str, Unit]:
        """Units of the sized resources."""

    @property
    def vacant(self) -> bool:
        """Nothing is assigned."""

    @property
    def closed(self) -> bool:
        """Takes no more work."""

    @property
    def last_capacity_failure(self) -> float | None:
        """Seconds since the bucket's last capacity failure; None for never, and for nodes."""

    def prop(self, name: str) -> object:
        """The value of a node property."""


class Fit(NamedTuple):
    """`count` times it fits; each time takes `take` (name, amount) and, where `closes`, closes the
    node.

    `rank` is which of several alternatives fitted (0 is the first), where there were any.
    """

    count: int = UNBOUNDED  # type: ignore[assignment]  # tuples have a method of that name
    take: tuple[tuple[str, Quantity], ...] = ()
    closes: bool = False
    rank: int = 0


FITS = Fit()


Minimum = tuple[str, Quantity, bool]
"""Of a resource: its name, an amount that must be there, and whether that is in bytes."""


class Mode(NamedTuple):
    """One way in which an expression may come to lie on a node: amounts by resource, in base units,
    sorted by name; `closes`: the node then takes nothing else."""

    take: tuple[tuple[str, Quantity], ...] = ()
    closes: bool = False


class OneOf(NamedTuple):
    """What is named (`node.X` a property, plain a resource) must be one of these texts. `wild`:
    some are shell patterns."""

    name: str
    texts: tuple[str, ...]
    wild: bool


class Expr:
    """Base of all expressions. A subclass says at least `fit` and `reads`.

    `parts`: what makes it what it is; expressions of one class with equal parts are equal.
    `monotone`: a node that refuses keeps refusing while work is only added to it, so that it need
    not be asked again. `settled`: nor does a node that fits stop doing so; such an expression takes
    nothing. `minima`: what a node must have at least to fit; there may be more conditions.
    `minimum`: what must be there of one resource, where that is all that it asks for, else None.
    `weighs`: it may prefer one of two buckets that it fits. `one_of`: see `OneOf`; None where the
    expression says something else, or more. `of_new_nodes`: it is about nodes that must still be
    given capacity, and nothing to ask of a bucket as a whole. `is_condition`: false where
    `conditions` are others than itself.

    An expression takes the same from every node that it fits, whatever is free there; one that does
    not overrides `most_modes` and `modes`.
    """

    __slots__ = ("_hash", "minima", "monotone", "parts", "settled", "weighs")

    minima: tuple[Minimum, ...]
    minimum: Minimum | None = None
    one_of: OneOf | None = None
    of_new_nodes = False
    is_condition = True

    def __init__(
        self, parts: tuple[object, ...], monotone: bool = False, settled: bool = False
    ) -> None:
        self.parts = parts
        self.monotone = monotone or settled
        self.settled = settled
        self.minima = ()
        self.weighs = type(self).weigh is not Expr.weigh
        self._hash = hash((self.__class__, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expr)
            and self._hash == other._hash
            and self.__class__ is other.__class__
            and self.parts == other.parts
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}{self.parts!r}"

    @property
    def reads(self) -> frozenset[str]:
        """Names that the answer depends on: `node.X` for properties, plain for resources. A class
        that does not override this is in no least-cost plan."""
        return frozenset()

    def fit(self, view: View) -> Fit | Reject:
        """Whether and how often this fits what is seen. Pure."""
        raise NotImplementedError

    def weigh(self, bucket: View, weight: float) -> float:
        """The weight of a bucket after this expression's preference was added; most have none."""
        return weight

    def reads_any(self, names: Collection[str]) -> bool:
        """Whether one of the names is among what the answer depends on."""
        return any(name in names for name in self.reads)

    @property
    def uses(self) -> frozenset[str]:
        """Names of what it may use up."""
        return frozenset() if self.settled else self.reads

    @property
    def chooses(self) -> bool:
        """Whether how much is free may decide what it takes."""
        return False

    def conditions(self) -> Sequence[Expr]:
        """What must all hold, each asked by itself of a bucket."""
        return (self,)

    def at_once(self) -> Sequence[Expr]:
        """Expressions that each fit a node exactly where this one does."""
        return (self,)

    def alternatives(self) -> Sequence[Expr] | None:
        """Expressions of which the first that fits is what this comes to; None: of none."""
        return None

    def minima_of(self, properties: Mapping[str, object]) -> tuple[Minimum, ...] | None:
        """`minima` on nodes that have these properties; None where no such node can ever fit."""
        return self.minima

    def spelt_out(self) -> Mapping[str | None, Sequence[str]]:
        """The texts of each property of which it spells out what it must be; properties that differ
        from node to node are left out."""
        found = self.one_of
        if found is None or found.wild or found.name[:5] != "node." or found.name[5:] in IDENTITY:
            return {}
        return {found.name[5:]: found.texts}

    def whole_amounts(self) -> tuple[tuple[str, int, bool], ...] | None:
        """What it takes, as `minima`, where it asks for whole numbers of some resources and for
        nothing else; None for any other."""
        return None

    def most_modes(self) -> int:
        """How many modes it may have at most; 0: nobody can tell, and least cost leaves it out."""
        return 1 if type(self).reads is not Expr.reads else 0

    def modes(self, view: View) -> Sequence[Mode]:
        """All ways in which it may come to lie on a node whose amounts are without end, whatever
        was placed there before. None, too, where how often it fits is not a matter of amounts."""
        fit = self.fit(view)
        if isinstance(fit, Reject):
            # what is refused now may be let through later
            return [] if self.monotone else [Mode()]
        if fit.count < FREE_OF_CHARGE or not all(is_amount(n) for _, n in fit.take):
            return []
        return [Mode(tuple(sorted(fit.take)), fit.closes)]


_GIB = Unit(2**30, "g")


class MinResource(Expr):
    """At least `amount` of a resource, which is used up. A `sized` amount is in bytes; a plain
    number asked of a sized resource is in that resource's own magnitude ({"memgb": 1} of memgb=4g
    is one of four)."""

    __slots__ = ("amount", "minimum", "name", "sized", "whole")

    def __init__(self, name: str, amount: Quantity, sized: bool = False) -> None:
        # there may be thousands, so what the base would work out is written down
        self.parts = parts = (name, amount.__class__, amount, sized)
        self.monotone, self.settled, self.weighs = True, False, False
        self._hash = hash((MinResource, parts))
        self.name = name
        self.amount = amount
        self.sized = sized
        self.minimum = (name, amount, sized)
        self.minima = (self.minimum,)
        # a whole number above 0
        self.whole = amount.__class__ is int and amount > 0

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.name})

    def reads_any(self, names: Collection[str]) -> bool:
        return self.name in names

    def fit(self, view: View) -> Fit | Reject:
        available = view.free.get(self.name)
        if available is None and self.name not in view.free:
            return Reject("UndefinedResource", self.name)
        unit = view.units.get(self.name)
        amount = self.amount if unit is None or self.sized else self.amount * unit.factor
        count = how_many(available, amount) if isinstance(available, (int, float)) else 0
        if count < 1:
            needed = self._needed(unit, amount)
            return Reject("InsufficientResource", self.name, Shown(available, unit), needed)
        return Fit(count, ((self.name, amount),) if amount else ())

    def whole_amounts(self) -> tuple[tuple[str, int, bool], ...] | None:
        return ((self.name, int(self.amount), self.sized),) if self.whole else None

    def most_modes(self) -> int:
        return 1 if is_amount(self.amount) and 0 <= self.amount < math.inf else 0

    def _needed(self, unit: Unit | None, amount: Quantity) -> Shown:
        return Shown(amount, _GIB if self.sized and unit is None else unit)

    def __str__(self) -> str:
        return f"{self.name} >= {self._needed(None, self.amount)}"


_WILDCARDS = re.compile(r"[*?\[]")
_MOST_MATCHES = 1_000


class TextPattern:
    """A shell pattern. `prefix`: how everything that matches begins. Most patterns end in the only
    `*` that they have, and those need no regular expression."""

    __slots__ = ("_regex", "prefix")

    def __init__(self, pattern: str) -> None:
        self.prefix = _WILDCARDS.split(pattern, maxsplit=1)[0]
        self._regex = None if pattern == self.prefix + "*" else re.compile(translate(pattern))

    def matches(self, text: str) -> bool:
        """Whether all of a text is as the pattern says."""
        if self._regex is None:
            return text.startswith(self.prefix)
        return self._regex.match(text) is not None


@lru_cache(maxsize=10_000)
def text_pattern(text: str) -> TextPattern | None:
    """A text as a shell pattern; None where it is spelt out."""
    return TextPattern(text) if _WILDCARDS.search(text) else None


class _Values:
    """Values one of which something must be, earlier ones preferred. Text is matched with shell
    wildcards, anything else by equality. What patterns were asked is remembered."""

    __slots__ = ("_literal", "_matched", "_others", "_patterns", "all", "texts", "wild")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.all = values
        self._literal: dict[str, int] = {}
        self._patterns: list[tuple[int, TextPattern]] = []
        self._others: list[tuple[int, object]] = []
        self._matched: dict[str, int] = {}
        for index, value in enumerate(values):
            if not isinstance(value, str):
                self._others.append((index, value))
            elif (pattern := text_pattern(value)) is not None:
                self._patterns.append((index, pattern))
            else:
                self._literal.setdefault(value, index)
        # all of the values, where they are texts, and whether one of them is a pattern
        self.texts: tuple[str, ...] = () if self._others else values
        self.wild = bool(self._patterns)

    def index_of(self, target: object, factor: int = 1) -> int:
        """The index of the first value that matches, or -1. Plain numbers are in so many bytes."""
        if isinstance(target, str):
            if not self._patterns:
                return self._literal.get(target, -1)
            found = self._matched.get(target)
            if found is None:
                if len(self._matched) >= _MOST_MATCHES:
                    self._matched.clear()
                matching = [i for i, pattern in self._patterns if pattern.matches(target)]
                matching.append(self._literal.get(target, -1))
                found = min((i for i in matching if i >= 0), default=-1)
                self._matched[target] = found
            return found
        each = ((i, v * factor if is_amount(v) else v) for i, v in self._others)
        return next((index for index, value in each if value == target), -1)

    def __str__(self) -> str:
        if len(self.all) == 1:
            return repr(self.all[0])
        return "one of " + (", ".join(repr(v) for v in self.all) or "none")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Values) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class _OneOf(Expr):
    """A value that must be one of several; nothing is used up. Earlier values are preferred."""

    __slots__ = ("_values", "name", "one_of", "source")

    def __init__(
        self, name: str, source: str, values: Iterable[object], fold_case: bool, settled: bool
    ) -> None:
        self._values = _Values(tuple(values))
        all_, texts = self._values.all, self._values.texts
        # an amount that is wanted exactly may come to be by using some of it up; True is 1
        settled = settled or bool(texts) or all(v is None or isinstance(v, str) for v in all_)
        super().__init__((name, texts or freeze(all_), fold_case), settled=settled)
        self.weighs = len(all_) > 1
        self.name = name
        self.source = source  # the name as in `reads`
        self.one_of = None if fold_case or not texts else OneOf(source, texts, self._values.wild)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.source})

    def reads_any(self, names: Collection[str]) -> bool:
        return self.source in names

    @property
    def uses(self) -> frozenset[str]:
        return frozenset()

    def _answer(self, target: object, folded: object, unit: Unit | None = None) -> Fit | Reject:
        index = self._values.index_of(folded, unit.factor if unit else 1)
        if index < 0:
            has = Shown(target, unit) if unit else target
            return Reject("InvalidOption", self.source, has, self._values)
        return Fit(rank=index) if index else FITS

    def weigh(self, bucket: View, weight: float) -> float:
        fit = self.fit(bucket)
        return weight + 100.0 * (len(self._values.all) - fit.rank) if isinstance(fit, Fit) else 0.0

    def __str__(self) -> str:
        return f"{self.source} is {self._values}"


class ResourceIs(_OneOf):
    """A resource equal to one of several values. A plain number is in the unit of a sized one;
    `fold_case`: what a node has is compared in lower case."""

    __slots__ = ("fold_case",)

    def __init__(self, name: str, values: Iterable[object], fold_case: bool = False) -> None:
        super().__init__(name, name, values, fold_case, False)
        self.fold_case = fold_case

    def fit(self, view: View) -> Fit | Reject:
        if self.name not in view.free:
            return Reject("UndefinedResource", self.name)
        target = view.free[self.name]
        folded = target.lower() if self.fold_case and isinstance(target, str) else target
        return self._answer(target, folded, view.units.get(self.name))

    def modes(self, view: View) -> Sequence[Mode]:
        found = super().modes(view)
        # a value that work does not use up is what it is
        is_final = isinstance(self.fit(view), Reject) and not is_amount(view.free.get(self.name))
        return [] if is_final else found


class PropertyIs(_OneOf):
    """A node property equal to one of several values."""

    __slots__ = ()

    def __init__(self, name: str, values: Iterable[object]) -> None:
        super().__init__(name, f"node.{name}", values, False, True)

    def fit(self, view: View) -> Fit | Reject:
        target = view.prop(self.name)
        return self._answer(target, target)

    def minima_of(self, properties: Mapping[str, object]) -> tuple[Minimum, ...] | None:
        if self.name in properties and self._values.index_of(properties[self.name]) < 0:
            return None
        return ()

    def weigh(self, bucket: View, weight: float) -> float:
        return super().weigh(bucket, weight) if weight else 0.0


class InPlacementGroup(Expr):
    """In some placement group, or (`wanted` false) in none."""

    __slots__ = ("wanted",)
    reads = frozenset({"node.placement_group"})

    def __init__(self, wanted: bool = True) -> None:
        super().__init__((wanted,), settled=True)
        self.wanted = wanted

    def fit(self, view: View) -> Fit | Reject:
        group = view.prop("placement_group")
        if bool(group) == self.wanted:
            return FITS
        return Reject("NotInAPlacementGroup") if self.wanted else Reject("InAPlacementGroup", group)

    def __str__(self) -> str:
        return "in a placement group" if self.wanted else "in no placement group"


class Exclusive(Expr):
    """A node with nothing on it, which then takes nothing else."""

    __slots__ = ()
    reads = frozenset({"node.assignments"})

    def __init__(self) -> None:
        super().__init__((), monotone=True)
        self.minima = ((VACANT, 1, False),)

    def fit(self, view: View) -> Fit | Reject:
        return Fit(closes=True) if view.vacant else Reject("ExclusiveRequirementFailed")

    def __str__(self) -> str:
        return "exclusive"


class Impossible(Expr):
    """Fits nowhere, for the reason given."""

    __slots__ = ("message",)
    reads = frozenset[str]()

    def __init__(self, message: str) -> None:
        super().__init__((message,), settled=True)
        self.message = message

    def fit(self, view: View) -> Fit | Reject:
        return Reject("Never", self.message)

    def __str__(self) -> str:
        return f"never ({self.message})"


class Rested(Expr):
    """A bucket that had no capacity failure for `seconds`, where the node must still be given
    capacity: a new one, or one that is deallocated. Nodes that exist are not concerned."""

    __slots__ = ("seconds",)
    reads = frozenset[str]()
    of_new_nodes = True

    def __init__(self, seconds: float) -> None:
        super().__init__((seconds,), settled=True)
        self.weighs = False
        self.seconds = seconds

    def fit(self, view: View) -> Fit | Reject:
        elapsed = view.last_capacity_failure
        if elapsed is not None and elapsed < self.seconds:
            return Reject("CapacityFailureBackoff", elapsed, self.seconds)
        return FITS

    def weigh(self, bucket: View, weight: float) -> float:
        return weight if isinstance(self.fit(bucket), Fit) else 0.0

    def __str__(self) -> str:
        return f"no capacity failure for {self.seconds:g} s"


class AnyNode(Expr):
    """What a job without constraints asks for: any node, once."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__((), monotone=True)

    def fit(self, view: View) -> Fit | Reject:
        return Fit(1)

    def __str__(self) -> str:
        return "any node"
