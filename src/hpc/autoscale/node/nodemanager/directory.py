"""Where nodes are, by what tells them apart: jobs that are meant for one host need not be held against all of them.

Asked by `probing`, kept by `engine`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr, PropertyIs

# Those that change by writes to the node alone, which are reported.
_KEPT = frozenset({"name", "hostname", "fqdn", "hostname_or_uuid", "instance_id"})
_WILDCARDS = frozenset("*?[")


class Pin(NamedTuple):
    """One of these values must be that of a property; `expr` says so."""

    prop: str
    values: tuple[str, ...]
    expr: PropertyIs


def pin_of(expr: Expr) -> Pin | None:
    """What an expression says of a property that is kept here; None where it says nothing, or has wildcards."""
    if isinstance(expr, AllOf):
        return next(filter(None, map(pin_of, expr.children)), None)
    if not isinstance(expr, PropertyIs) or expr.name not in _KEPT:
        return None
    values = tuple(value for value in expr.values if isinstance(value, str))
    if len(values) < len(expr.values) or any(_WILDCARDS.intersection(v) for v in values):
        return None
    return Pin(expr.name, values, expr)


class Directory:
    """The nodes of one bucket by each property that was asked for. Cost: each node once for a property, and once more when it
    was written to."""

    def __init__(self, bucket: NodeBucket) -> None:
        self._bucket = bucket
        # by property: the values by position, and the positions by value
        self._kept: dict[str, tuple[list[object], dict[object, set[int]]]] = {}

    def positions(self, pin: Pin, count: int) -> Sequence[int]:
        """Which of the first `count` positions a pin names, in order."""
        values, where = self._kept.setdefault(pin.prop, ([], defaultdict(set)))
        if len(values) < count:
            new = range(len(values), count)
            values += [None] * len(new)
            self._enter(pin.prop, new)
        found = [where[value] for value in pin.values if value in where]
        return sorted(found[0].union(*found[1:])) if found else ()

    def renew(self, positions: Collection[int]) -> None:
        """Nodes at these positions were written to."""
        for prop, (values, _) in self._kept.items():
            self._enter(prop, [position for position in positions if position < len(values)])

    def _enter(self, prop: str, positions: Iterable[int]) -> None:
        values, where = self._kept[prop]
        for position in positions:
            value = getattr(self._bucket._handle(position), prop)
            if value != values[position]:
                where[values[position]].discard(position)
                where[value].add(position)
                values[position] = value
