"""Causes in the making: what is in the way of a job, before it is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.explaining.words import names_of
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand


@dataclass
class Found:
    """A cause in the making: buckets of which the same is said. `key`: what makes it the same;
    `facts`: what differs between buckets and goes into the text; `rank`: how near it is, where that
    is not as its code says; `rest`: how many seconds after the pass it is `until`, where that is
    counted from what the pass has read and not by the clock."""

    code: str
    key: tuple[object, ...]
    text: str = ""
    stand: Stand | None = None
    until: float | None = None
    rest: float = 0.0
    said: str = ""
    rank: int | None = None
    buckets: list[NodeBucket] = field(default_factory=list)
    facts: list[Any] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)

    @property
    def nearness(self) -> int:
        """How near it is to being lifted; what can never be used as things are set comes later."""
        return CODES[self.code].nearness if self.rank is None else self.rank

    @property
    def is_never(self) -> bool:
        """Whether time alone does not help."""
        return (self.stand or CODES[self.code].stand) is Stand.NEVER


def cause_of(found: Found) -> Cause:
    """The cause, as it is told."""
    return Cause(
        found.code,
        on_one_line(found.text),
        on_one_line(names_of(found.buckets)) if found.buckets else "",
        max(1, len(found.buckets)),
        found.nearness,
        found.until,
        on_one_line(found.said),
    )


def causes_of(found: Sequence[Found]) -> tuple[Cause, ...]:
    """Causes, as they are told, nearest first."""
    return tuple(map(cause_of, found))


def nearest_first(found: Found) -> tuple[object, ...]:
    """The key that sorts by how near each is to being lifted, and among equals by buckets."""
    until = math.inf if found.until is None else found.until
    return found.is_never, found.nearness, until, -len(found.buckets)
