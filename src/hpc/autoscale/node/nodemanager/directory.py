"""Where nodes are, by what tells them apart: jobs that are meant for one host need not be held against all of them.

Asked by `probing`, kept by `engine`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.expr import Expr, PropertyIs, ResourceIs
from hpc.autoscale.packing.pins import conditions, spelt_out

# Properties that change by writes to the node alone, which are reported.
_KEPT = frozenset({"name", "hostname", "fqdn", "hostname_or_uuid", "instance_id"})


class Pin(NamedTuple):
    """What tells a node apart, a property (`node.name`) or a resource, must be one of these values; `expr` says so."""

    key: str
    values: tuple[str, ...]
    expr: Expr


def pin_of(expr: Expr) -> Pin | None:
    """What an expression says of something that is kept here; None where it says nothing, or has wildcards."""
    for each in conditions(expr):
        values = spelt_out(each)
        if values and isinstance(each, PropertyIs) and each.name in _KEPT:
            return Pin(f"node.{each.name}", values, each)
        if values and isinstance(each, ResourceIs):
            return Pin(each.name, values, each)
    return None


class Directory:
    """The nodes of one bucket by each key that was asked for. Cost: each node once for a key, and once more when it was
    written to."""

    def __init__(self, bucket: NodeBucket) -> None:
        self._bucket = bucket
        # by key: the values by position, and the positions by value
        self._kept: dict[str, tuple[list[str | None], dict[str | None, set[int]]]] = {}

    def positions(self, pin: Pin, count: int) -> Sequence[int]:
        """Which of the first `count` positions a pin names, in order."""
        values, where = self._kept.setdefault(pin.key, ([], defaultdict(set)))
        if len(values) < count:
            new = range(len(values), count)
            values += [None] * len(new)
            self._enter(pin.key, new)
        found = [where[value] for value in pin.values if value in where]
        return sorted(found[0].union(*found[1:])) if found else ()

    def renew(self, positions: Collection[int]) -> None:
        """Nodes at these positions were written to."""
        for key, (values, _) in self._kept.items():
            self._enter(key, [position for position in positions if position < len(values)])

    def _enter(self, key: str, positions: Iterable[int]) -> None:
        values, where = self._kept[key]
        for position in positions:
            value = _value(self._bucket._handle(position), key)
            if value != values[position]:
                where[values[position]].discard(position)
                where[value].add(position)
                values[position] = value


def _value(node: Node, key: str) -> str | None:
    """The text that a node has there, if it is one."""
    name = key.removeprefix("node.")
    found = node.available.get(key) if name == key else getattr(node, name)
    return found if isinstance(found, str) else None
