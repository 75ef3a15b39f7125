"""Arithmetic of amounts: how often one fits into another, what is left, and how much rounding is
forgiven.

Amounts are numbers in base units: a sized resource (memory, disk) is a number of bytes. Whole
numbers are exact. Floats are forgiven a billionth (`TOLERANCE`), here and nowhere else: the engine,
the ranking, the shared pools and the least-cost plans all ask these functions.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

Quantity = int | float
"""An amount in base units."""

TOLERANCE = 1e-9
"""An amount is there when no more than this part of it is missing."""

# what a long division of floats may be off by, as a part of the quotient
_DIVISION = 1e-12

FREE_OF_CHARGE = 2**31
"""How often nothing fits, as in a request for {"ncpus": 0}."""


class Unit(NamedTuple):
    """How a sized resource is written: `factor` bytes to one of its own magnitude, as in (2**30,
    "g")."""

    factor: int
    suffix: str


def is_amount(value: object) -> TypeGuard[Quantity]:
    """Whether a resource's value is a number that can be used up; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def how_many(available: Quantity, amount: Quantity) -> int:
    """How often `amount` goes into `available`, forgiving rounding: 0.3 holds 0.1 three times."""
    if amount <= 0:
        return FREE_OF_CHARGE if available >= 0 else 0
    if isinstance(available, int) and isinstance(amount, int):
        return max(0, available // amount)
    ratio = available / amount
    if not ratio > 0:  # also where what is available is not a number
        return 0
    if ratio == math.inf:
        return FREE_OF_CHARGE
    return math.floor(ratio * (1 + _DIVISION) + TOLERANCE)


def left(available: object, amount: Quantity, times: int = 1) -> Quantity:
    """What is left of `available` after taking `amount` `times` times; a rounding remainder counts
    as nothing left.

    Floats keep 12 digits of what was available, so that taking something twice and taking it two
    times come to the same. TypeError when `available` is not a number.
    """
    if not isinstance(available, (int, float)):
        raise TypeError(f"expected a number to take {amount} from, found {available!r}")
    rest = available - amount * times
    if not isinstance(rest, float) or not math.isfinite(rest):
        return rest
    if abs(rest) <= 2 * TOLERANCE * abs(available):
        return 0
    return round(rest, 11 - math.frexp(available)[1] * 301 // 1000)


def just_enough(amount: float) -> float:
    """The least that may do for an amount. It is less than `how_many` asks for, so that a search by
    it may find too much and never misses anything."""
    return amount - abs(amount) * 2 * TOLERANCE


def is_same(one: Quantity, other: Quantity) -> bool:
    """Whether two amounts differ by no more than rounding."""
    return math.isclose(one, other, rel_tol=TOLERANCE)


_READABLE = (Unit(2**30, "g"), Unit(2**20, "m"), Unit(2**10, "k"))
_MOST_READ = 1_000_000


def _readable_unit(value: Quantity) -> Unit:
    """A unit in which so many bytes are a short number: a whole one where there is any, as that has
    been written so."""
    for unit in _READABLE:
        if value % unit.factor == 0 and value < _MOST_READ * unit.factor:
            return unit
    return next(unit for unit in _READABLE if value >= unit.factor)


class Shown:
    """An amount in base units as people write it, or any other value; the text is made when it is
    read. Where a size would be a long number in its unit, it is written in a larger one."""

    __slots__ = ("unit", "value")

    def __init__(self, value: object, unit: Unit | None) -> None:
        self.value = value
        self.unit = unit

    def __str__(self) -> str:
        value, unit = self.value, self.unit
        if not isinstance(value, (int, float)):
            return str(value)
        if unit is None:
            return f"{value:g}"
        if math.isfinite(value) and abs(value) >= _MOST_READ * unit.factor:
            unit = _readable_unit(abs(value))
        return f"{value / unit.factor:g}{unit.suffix}"

    def in_unit(self, unit: Unit) -> Shown:
        """The same amount in another unit, where it is one of a sized resource."""
        return self if self.unit is None else Shown(self.value, unit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    __repr__ = __str__
