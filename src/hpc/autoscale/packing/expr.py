"""Constraints compiled for the engine: small immutable expressions, each of which can say whether it fits a node.

The published constraint classes lower themselves to these and answer their own questions through them, so a rule
stands in one place. Here are the expressions that look at the node; those that combine others are in `compound`.
Expressions are compared by content, with the hash made once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatch
from typing import Protocol

from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import IDENTITY, Quantity, Unit, freeze

UNBOUNDED = 2**62
"""The count of an expression that has no opinion on how often it fits (published as -1)."""

VACANT = "node.vacant"
"""Stands in `Expr.minima` for a node with nothing on it (1) or with something (0)."""

FREE_OF_CHARGE = 2**31
"""The count of a request for nothing, as in {"ncpus": 0}."""

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
        """Seconds since the bucket's last capacity failure; None: never, or it is a node that has its capacity."""

    def prop(self, name: str) -> object:
        """The value of a node property."""


class Fit:
    """`count` times it fits; each time takes `take` (name, amount) and, where `closes`, closes the node.

    `rank` is which of several alternatives fitted (0 is the first), where there were any.
    """

    __slots__ = ("closes", "count", "rank", "take")

    def __init__(
        self,
        count: int = UNBOUNDED,
        take: tuple[tuple[str, Quantity], ...] = (),
        closes: bool = False,
        rank: int = 0,
    ) -> None:
        self.count = count
        self.take = take
        self.closes = closes
        self.rank = rank

    def __repr__(self) -> str:
        return f"Fit(count={self.count}, take={self.take}, closes={self.closes})"


FITS = Fit()


class Expr:
    """Base of all expressions.

    `parts`: what makes it what it is; expressions of one class with equal parts are equal. `monotone`: a node that
    refuses keeps refusing while work is only added to it, so that it need not be asked again. `settled`: nor does a node
    that fits stop doing so. `minima`: what a node
    must have at least to fit, as (resource, amount, whether the amount is in bytes); there may be more conditions.
    `weighs`: it may prefer one of two buckets that it fits.
    """

    __slots__ = ("_hash", "minima", "monotone", "parts", "settled", "weighs")

    minima: tuple[tuple[str, Quantity, bool], ...]

    def __init__(
        self, parts: tuple[object, ...], monotone: bool = True, settled: bool = False
    ) -> None:
        self.parts = parts
        self.monotone = monotone
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
        """Names that the answer depends on: `node.X` for properties, plain for resources."""
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


_GIB = Unit(2**30, "g")


def how_many(available: Quantity, amount: Quantity) -> int:
    """How often `amount` goes into `available`, forgiving rounding: 0.3 holds 0.1 three times."""
    if amount <= 0:
        return FREE_OF_CHARGE if available >= 0 else 0
    if isinstance(available, int) and isinstance(amount, int):
        return max(0, available // amount)
    ratio = available / amount
    if not ratio > 0:  # also where what is available is not a number
        return 0
    return math.floor(ratio * (1 + 1e-12) + 1e-9) if ratio < math.inf else FREE_OF_CHARGE


def shown(amount: object, unit: Unit | None) -> str:
    """An amount in base units as people write it; any other value as it is."""
    if not isinstance(amount, (int, float)):
        return str(amount)
    return f"{amount:g}" if unit is None else f"{amount / unit.factor:g}{unit.suffix}"


class MinResource(Expr):
    """At least `amount` of a resource, which is used up. A `sized` amount is in bytes; a plain number asked of a sized
    resource is in that resource's own magnitude ({"memgb": 1} of memgb=4g is one of four)."""

    __slots__ = ("amount", "name", "sized", "whole")

    def __init__(self, name: str, amount: Quantity, sized: bool = False) -> None:
        # there may be thousands, so what the base would work out is written down
        self.parts = parts = (name, amount.__class__, amount, sized)
        self.monotone, self.settled, self.weighs = True, False, False
        self._hash = hash((MinResource, parts))
        self.name = name
        self.amount = amount
        self.sized = sized
        self.minima = ((name, amount, sized),)
        # a whole number above 0
        self.whole = amount.__class__ is int and amount > 0

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.name})

    def reads_any(self, names: Collection[str]) -> bool:
        return self.name in names

    def fit(self, view: View) -> Fit | Reject:
        available = view.free.get(self.name)
        if available is None:
            return Reject("UndefinedResource", self.name)
        unit = view.units.get(self.name)
        amount = self.amount if unit is None or self.sized else self.amount * unit.factor
        if not isinstance(available, (int, float)):
            return Reject("InsufficientResource", self.name, available, self._needed(unit, amount))
        count = how_many(available, amount)
        if count < 1:
            needed = self._needed(unit, amount)
            return Reject("InsufficientResource", self.name, shown(available, unit), needed)
        return Fit(count, ((self.name, amount),) if amount else ())

    def _needed(self, unit: Unit | None, amount: Quantity) -> str:
        return shown(amount, _GIB if self.sized and unit is None else unit)

    def __str__(self) -> str:
        return f"{self.name} >= {self._needed(None, self.amount)}"


class _OneOf(Expr):
    """A value that must be one of several; text is matched with shell wildcards, anything else by equality."""

    __slots__ = ("name", "values")

    def __init__(
        self, name: str, values: Iterable[object], settled: bool, fold_case: bool = False
    ) -> None:
        self.values = tuple(values)
        super().__init__((name, freeze(self.values), fold_case), settled, settled)
        self.weighs = len(self.values) > 1
        self.name = name

    def _match(self, target: object) -> int:
        """The index of the first value that matches, or -1."""
        for index, value in enumerate(self.values):
            if isinstance(value, str) and isinstance(target, str):
                if fnmatch(target, value):
                    return index
            elif value == target:
                return index
        return -1

    def _wanted(self) -> str:
        if len(self.values) == 1:
            return repr(self.values[0])
        return "one of " + (", ".join(repr(v) for v in self.values) or "none")

    def __str__(self) -> str:
        return f"{self.name} is {self._wanted()}"


class ResourceIs(_OneOf):
    """A resource equal to one of several values; nothing is used up. Earlier values are preferred."""

    __slots__ = ("fold_case",)

    def __init__(self, name: str, values: Iterable[object], fold_case: bool = False) -> None:
        values = tuple(values)
        # an amount that is wanted exactly may come to be by using some of it up; True is 1, and a size is its bytes
        settled = all(v is None or isinstance(v, str) for v in values)
        super().__init__(name, values, settled, fold_case)
        self.fold_case = fold_case

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.name})

    def reads_any(self, names: Collection[str]) -> bool:
        return self.name in names

    def fit(self, view: View) -> Fit | Reject:
        if self.name not in view.free:
            return Reject("UndefinedResource", self.name)
        target = view.free[self.name]
        index = self._match(
            target.lower() if self.fold_case and isinstance(target, str) else target
        )
        if index < 0:
            return Reject("InvalidOption", self.name, target, self._wanted())
        return Fit(rank=index)

    def weigh(self, bucket: View, weight: float) -> float:
        fit = self.fit(bucket)
        return weight + 100.0 * (len(self.values) - fit.rank) if isinstance(fit, Fit) else 0.0


class PropertyIs(_OneOf):
    """A node property equal to one of several values; nothing is used up. Earlier values are preferred."""

    __slots__ = ()

    def __init__(self, name: str, values: Iterable[object]) -> None:
        super().__init__(name, values, True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({f"node.{self.name}"})

    def fit(self, view: View) -> Fit | Reject:
        target = view.prop(self.name)
        index = self._match(target)
        if index < 0:
            return Reject("InvalidOption", f"node.{self.name}", target, self._wanted())
        return Fit(rank=index)

    def weigh(self, bucket: View, weight: float) -> float:
        if weight == 0:
            return 0.0
        fit = self.fit(bucket)
        return weight + 100.0 * (len(self.values) - fit.rank) if isinstance(fit, Fit) else 0.0

    def __str__(self) -> str:
        return f"node.{super().__str__()}"


class InPlacementGroup(Expr):
    """In some placement group, or (`wanted` false) in none."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: bool = True) -> None:
        super().__init__((wanted,), settled=True)
        self.wanted = wanted

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"node.placement_group"})

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

    def __init__(self) -> None:
        super().__init__(())
        self.minima = ((VACANT, 1, False),)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"node.assignments"})

    def fit(self, view: View) -> Fit | Reject:
        return Fit(closes=True) if view.vacant else Reject("ExclusiveRequirementFailed")

    def __str__(self) -> str:
        return "exclusive"


class Never(Expr):
    """Fits nowhere, for the reason given."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        super().__init__((message,), settled=True)
        self.message = message

    def fit(self, view: View) -> Fit | Reject:
        return Reject("Never", self.message)

    def __str__(self) -> str:
        return f"never ({self.message})"


class Rested(Expr):
    """A bucket that had no capacity failure for `seconds`, where the node must still be given capacity: a new one, or one that
    is deallocated. Nodes that exist are not concerned."""

    __slots__ = ("seconds",)

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
        super().__init__(())

    def fit(self, view: View) -> Fit | Reject:
        return Fit(1)

    def __str__(self) -> str:
        return "any node"
