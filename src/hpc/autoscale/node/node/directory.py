"""Where nodes are, by what tells them apart: jobs that are meant for one host need not be held
against all of them.

Kept by `BucketNodes`, asked by `nodemanager.probing`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from hpc.autoscale.node.node.node import Node
from hpc.autoscale.packing.expr import Expr, OneOf, TextPattern, text_pattern

# Properties that change by writes to the node alone, which are reported.
_KEPT = frozenset(
    f"node.{name}" for name in ("name", "hostname", "fqdn", "hostname_or_uuid", "instance_id")
)


class Pin(NamedTuple):
    """What tells a node apart, a property or a resource, must be one of some texts; `expr` says
    so."""

    one_of: OneOf
    expr: Expr


def pin_of(expr: Expr) -> Pin | None:
    """What an expression says of something that is kept here; None where it says nothing."""
    for each in expr.conditions():
        one_of = each.one_of
        if one_of is not None and (one_of.name in _KEPT or one_of.name[:5] != "node."):
            return Pin(one_of, each)
    return None


class _Index:
    """Positions by text. `texts`: by position."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._where: dict[str, set[int]] = {}
        # all texts, sorted; None: to be made
        self._sorted: list[str] | None = None

    def put(self, position: int, text: str | None) -> None:
        """The text of a position is this now."""
        was = self.texts[position]
        if was == text:
            return
        if was is not None:
            self._where[was].discard(position)
        if text is not None:
            if text not in self._where:
                self._where[text] = set()
                self._sorted = None
            self._where[text].add(position)
        self.texts[position] = text

    def positions(self, one_of: OneOf) -> Sequence[int]:
        """The positions that have one of some texts, in order. Cost: that of those, and of the
        texts that begin as a pattern does."""
        found: set[int] = set()
        for text in one_of.texts:
            pattern = text_pattern(text)
            for each in (text,) if pattern is None else self._matching(pattern):
                found |= self._where.get(each, set())
        return sorted(found)

    def _matching(self, pattern: TextPattern) -> Iterator[str]:
        if self._sorted is None:
            self._sorted = sorted(self._where)
        prefix = pattern.prefix
        start = bisect_left(self._sorted, prefix)
        end = bisect_right(self._sorted, prefix, start, key=lambda text: text[: len(prefix)])
        return filter(pattern.matches, self._sorted[start:end])


class Directory:
    """The nodes of one bucket by each key that was asked for. Cost: each node once for a key, and
    once more when it was written to."""

    def __init__(self, node_at: Callable[[int], Node]) -> None:
        self._node_at = node_at
        self._kept: dict[str, _Index] = {}

    def positions(self, pin: Pin, count: int) -> Sequence[int]:
        """Which of the first `count` positions a pin names, in order."""
        index = self._kept.get(pin.one_of.name)
        if index is None:
            index = self._kept[pin.one_of.name] = _Index()
        known = len(index.texts)
        if known < count:
            index.texts += [None] * (count - known)
            self._enter(pin.one_of.name, range(known, count))
        return index.positions(pin.one_of)

    def renew(self, positions: Collection[int]) -> None:
        """Nodes at these positions were written to."""
        for name, index in self._kept.items():
            self._enter(name, [position for position in positions if position < len(index.texts)])

    def _enter(self, name: str, positions: Iterable[int]) -> None:
        index = self._kept[name]
        for position in positions:
            index.put(position, _text(self._node_at(position), name))


def _text(node: Node, name: str) -> str | None:
    """The text that a node has for a resource, or a property (`node.X`), if it is one."""
    is_property = name[:5] == "node."
    found = getattr(node, name[5:]) if is_property else node.available.get(name)
    return found if isinstance(found, str) else None
