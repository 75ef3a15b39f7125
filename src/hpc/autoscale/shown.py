"""Amounts as people read them. Nothing here decides anything; texts are made when they are read.

Called by the engine's refusals, and by whoever explains them.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Unit(NamedTuple):
    """How a sized resource is written: `factor` bytes to one of its own magnitude, as in (2**30,
    "g")."""

    factor: int
    suffix: str


_READABLE = (Unit(2**30, "g"), Unit(2**20, "m"), Unit(2**10, "k"))
_MOST_READ = 1_000_000


def _readable_unit(value: int | float) -> Unit:
    """A unit in which so many bytes are a short number: a whole one where there is any, as that has
    been written so."""
    for unit in _READABLE:
        if value % unit.factor == 0 and value < _MOST_READ * unit.factor:
            return unit
    return next(unit for unit in _READABLE if value >= unit.factor)


class Shown:
    """An amount in base units as people write it, or any other value as Python writes it, so that
    `'4'` is not taken for 4; the text is made when it is read. Where a size would be a long number
    in its unit, it is written in a larger one."""

    __slots__ = ("unit", "value")

    def __init__(self, value: object, unit: Unit | None) -> None:
        self.value = value
        self.unit = unit

    def __str__(self) -> str:
        value, unit = self.value, self.unit
        if not isinstance(value, (int, float)):
            return repr(value)
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
