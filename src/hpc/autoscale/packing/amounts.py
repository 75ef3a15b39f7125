"""Arithmetic of amounts: how often one fits into another, what is left, and how much rounding is
forgiven.

Amounts are numbers in base units: a sized resource (memory, disk) is a number of bytes. Whole
numbers are exact. Floats are forgiven a billionth (`TOLERANCE`), here and nowhere else: the engine,
the ranking, the shared pools and the least-cost plans all ask these functions.
"""

from __future__ import annotations

import math
from typing import TypeGuard

Quantity = int | float
"""An amount in base units."""

TOLERANCE = 1e-9
"""An amount is there when no more than this part of it is missing."""

# what a long division of floats may be off by, as a part of the quotient
_DIVISION = 1e-12

FREE_OF_CHARGE = 2**31
"""How often nothing fits, as in a request for {"ncpus": 0}."""


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
