"""What a job asks for, as JSON, and the same with other names, values or amounts.

Sizes are in it as `Size`, not as text. Nothing here asks the engine: `explaining.fixes` does, with
what is made here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from hpc.autoscale.hpctypes import Size, magnitude_bytes
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.node.constraints import NodeConstraint, SharedConstraint
from hpc.autoscale.packing.amounts import is_amount
from hpc.autoscale.shown import Shown, Unit

_MOST_PARTS = 1024
_SMALLER_UNITS = ("g", "m", "k", "b")
_MANY_BYTES = 1_000_000


def as_json(constraint: NodeConstraint) -> Any:
    """The JSON form; None of a class that has none, or that draws on pools: made of JSON it would
    draw on others."""
    if isinstance(constraint, SharedConstraint):
        return None
    try:
        return constraint.to_dict()
    except Exception:  # noqa: BLE001  it may be somebody else's
        return None


def constraints_of(job: Job) -> list[Any]:
    """A job's constraints as JSON."""
    return list(map(as_json, asked_by(job)[0].constraints))


def renamed(value: Any, name: str, other: str) -> Any:
    """JSON with another key. Its value takes the place of one that has that key already."""
    if isinstance(value, dict):
        return {
            (other if k == name else k): renamed(v, name, other)
            for k, v in value.items()
            if k != other or name not in value
        }
    return [renamed(v, name, other) for v in value] if isinstance(value, list) else value


def revalued(value: Any, name: str, old: Any, new: Any) -> Any:
    """JSON with another value of a key, or in the list of its values."""
    if isinstance(value, list):
        return [revalued(each, name, old, new) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, each in value.items():
        if key == name and isinstance(each, list):
            made[key] = [new if item == old else item for item in each]
        elif key == name:
            made[key] = new if each == old else each
        else:
            made[key] = revalued(each, name, old, new)
    return made


def allowed(value: Any, name: str, other: Any) -> Any:
    """JSON in which a key may have one more value."""
    if isinstance(value, list):
        return [allowed(each, name, other) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, each in value.items():
        if key != name:
            made[key] = allowed(each, name, other)
        else:
            made[key] = [*(each if isinstance(each, list) else [each]), other]
    return made


def values_of(value: Any, name: str) -> Iterator[Any]:
    """The values of a key in JSON, those in lists one by one."""
    if isinstance(value, list):
        for each in value:
            yield from values_of(each, name)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == name:
                yield from each if isinstance(each, list) else [each]
            else:
                yield from values_of(each, name)


def names_of_amounts(value: Any) -> Iterator[str]:
    """The names of resources of which JSON asks for an amount."""
    if isinstance(value, dict):
        for key, each in value.items():
            if is_above_zero(each) and not key.startswith("node."):
                yield key
            yield from names_of_amounts(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_of_amounts(each)


def is_above_zero(value: object) -> bool:
    """Whether a value is an amount that somebody can ask for less of."""
    return (is_amount(value) or isinstance(value, Size)) and value > 0


def unit_of(size: Size) -> Unit:
    """The unit in which a size is written."""
    return Unit(magnitude_bytes(size.magnitude), size.magnitude)


class Asked:
    """An amount that a job asks for of each node, as `{"ncpus": 4}` or `{"mem": "memory::4g"}`, and
    smaller ones. Amounts are numbers here: of a size in `unit`, of others as they are written."""

    def __init__(self, name: str, value: Any, free: Collection[tuple[float, Unit | None]]) -> None:
        """`free`: how much nodes have free, in base units, each with the unit in which they have
        the resource."""
        self.name = name
        self.value = value
        units = {own for _, own in free}
        # of a plain number it is said how many bytes it comes to, where that is so on all nodes
        self._own = units.pop() if len(units) == 1 else None
        self.unit = None
        if isinstance(value, Size):
            self.unit = _whole_unit(value, max((each for each, _ in free), default=0))
            number = value.bytes / self.unit.factor
            self.number: float = int(number) if number == int(number) else number
        else:
            self.number = value
        self._free = [_in_units(each, self.unit or own) for each, own in free]

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return isinstance(self.number, int)

    def smaller(self) -> list[float]:
        """Smaller amounts at which more of a job may fit on a node, the most first: all of what is
        free there, or a whole part of it. Of a size and of a whole number they are whole."""
        is_whole = self.unit is not None or self.is_whole
        found: set[float] = set()
        for amount in self._free:
            for parts in range(1, min(max(1, int(amount)), _MOST_PARTS) + 1):
                each = amount / parts
                found.add(math.floor(each) if is_whole else each)
        return sorted((each for each in found if 0 < each < self.number), reverse=True)

    def valued(self, amount: float) -> Any:
        """An amount as JSON."""
        if self.unit is None:
            return amount
        return type(self.value)(amount, self.unit.suffix)

    def instead(self, amount: float) -> str:
        """An amount in words: `4g instead of 9g mem`."""
        if self.unit is not None:
            asked, size = self.value, self.valued(amount)
            said = str(Shown(size.bytes, self.unit))
            if Size.value_of(said) != size:  # rounded, and it is to be written into the job
                said = f"{amount}{self.unit.suffix}"
            return f"{said} instead of {Shown(asked.bytes, unit_of(asked))} {self.name}"
        return f"{self._plain(amount)} instead of {self._plain(self.number)} {self.name}"

    def _plain(self, amount: float) -> str:
        """A plain number, as precisely as it must be written; with what that comes to, of many
        bytes."""
        said = str(amount) if isinstance(amount, int) else f"{amount:.12g}"
        if self._own is None or amount < _MANY_BYTES:
            return said
        return f"{said} ({Shown(amount * self._own.factor, self._own)})"


def _in_units(amount: float, unit: Unit | None) -> float:
    return amount if unit is None or unit.factor == 1 else amount / unit.factor


def _whole_unit(size: Size, most: float) -> Unit:
    """The unit in which less than a size is asked for: its own, or a smaller one where it is no
    whole number, or no node has 1 of it."""
    own = unit_of(size)
    smaller = (Unit(magnitude_bytes(each), each) for each in _SMALLER_UNITS)
    for unit in (own, *(each for each in smaller if each.factor < own.factor)):
        if size.bytes % unit.factor == 0 and most >= unit.factor:
            return unit
    return Unit(2**20, "m") if most >= 2**20 else Unit(1, "b")
