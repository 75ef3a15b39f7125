"""Values that all nodes share: licences, limits of a queue, settings of a server.

A pool is one mutable object, made by an integration and held by every constraint that draws on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from hpc.autoscale.hpctypes import Size, magnitude_bytes
from hpc.autoscale.packing.amounts import Quantity, left


class SharedResource(ABC):
    """A value that all nodes share. `source` says where it is from, as in a queue's name.

    Ordered by `current_value`, against another shared resource or a plain value. Equal to another
    one of the same name and value, and to its plain value. Mutable, so it cannot be hashed.
    """

    def __init__(self, resource_name: str, source: str, current_value: Any) -> None:
        self.resource_name = resource_name
        self.source = source
        self.current_value = current_value

    @property
    @abstractmethod
    def is_consumable(self) -> bool:
        """Whether it is used up."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedResource):
            same_name = self.resource_name == other.resource_name
            return same_name and bool(self.current_value == other.current_value)
        return bool(self.current_value == other)

    def __lt__(self, other: Any) -> bool:
        return bool(self.current_value < _plain(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.current_value <= _plain(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.current_value > _plain(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.current_value >= _plain(other))

    def __repr__(self) -> str:
        name = f"{self.source}/{self.resource_name}" if self.source else self.resource_name
        return f"{type(self).__name__}({name}, current={self.current_value})"


def _plain(value: Any) -> Any:
    return value.current_value if isinstance(value, SharedResource) else value


class SharedConsumableResource(SharedResource):
    """A pool that is used up. Values are numbers or sizes."""

    def __init__(
        self, resource_name: str, source: str, initial_value: Any, current_value: Any
    ) -> None:
        super().__init__(resource_name, source, current_value)
        self.initial_value = initial_value

    @property
    def is_consumable(self) -> bool:
        return True

    @property
    def remaining(self) -> Quantity:
        """What is left, a size in bytes; 0 for a value that is no number."""
        current = self.current_value
        if isinstance(current, Size):
            return current.bytes
        return current if isinstance(current, (int, float)) else 0

    def quantity(self, amount: int | float | Size) -> Quantity:
        """The amount as `remaining` counts; a plain number of a size is in that size's unit."""
        if isinstance(amount, Size):
            return amount.bytes
        current = self.current_value
        return amount * magnitude_bytes(current.magnitude) if isinstance(current, Size) else amount

    def use(self, amount: int | float | Size, times: int = 1) -> None:
        """Take the amount; whether it is there is for the caller to know."""
        rest = left(self.remaining, self.quantity(amount), times)
        current = self.current_value
        self.current_value = current.with_bytes(rest) if isinstance(current, Size) else rest


class SharedNonConsumableResource(SharedResource):
    """A value that all nodes share and that nobody uses up."""

    @property
    def is_consumable(self) -> bool:
        return False
