"""The limits that buckets share, made from what the server says, as the table `limits.KINDS` has
it.

Buckets for which the facts of a kind's scope are equal share one account. The first part of the
status that says something defines an account: older servers leave figures out, and what nobody says
is no limit here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from hpc.autoscale.node.limits import KINDS, LimitKind, _SharedLimit, _SpotLimit
from hpc.autoscale.packing.limits import NO_LIMIT

UNLIMITED = 2**31 - 1

Read = Callable[[Any, int, str], int]
"""Makes a whole number of a figure, or the default where there is none; the text is the figure's
name.
"""


def number(value: Any, default: int, name: str = "") -> int:
    """A figure of the server as a whole number; the default where it says nothing. ValueError,
    TypeError or OverflowError for what is none.
    """
    return default if value is None else int(value)


class SharedLimits:
    """The accounts of one cluster, by kind and scope."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _SharedLimit] = {}

    def stated(
        self,
        by: str,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int] = (0, 0),
        read: Read = number,
    ) -> dict[str, _SharedLimit]:
        """The limits that a part of the status states, by the name of their kind.

        `facts`: what the scopes and names of kinds are made of. `used`: cores and nodes in use, for
        kinds that the server does not count.
        """
        found: dict[str, _SharedLimit] = {}
        for kind in KINDS:
            if kind.stated_by != by:
                continue
            if facts.get("spot") and kind.spot_reads:
                found[kind.name] = _SpotLimit(found[kind.spot_reads])
            else:
                found[kind.name] = self._account(kind, status, facts, used, read)
        return found

    def _account(
        self,
        kind: LimitKind,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int],
        read: Read,
    ) -> _SharedLimit:
        key = (kind.name, *(facts[name] for name in kind.scope))
        cores = _said(status, kind.max_cores, kind.used_cores)
        nodes = _said(status, kind.max_nodes, kind.used_nodes)
        found = self._known.get(key)
        if found is not None and (_is_stated(found) or cores.most is nodes.most is None):
            return found
        text = kind.spot_text if facts.get("spot") and kind.spot_text else kind.text
        said = _SharedLimit(
            text.format(**facts),
            cores.in_use(read, used[0]),
            cores.at_most(read),
            nodes.in_use(read, used[1]) if kind.max_nodes else 0,
            nodes.at_most(read),
        )
        if found is None:
            self._known[key] = said
            return said
        for figure in ("max", "used", "beyond"):
            for unit in ("cores", "nodes"):
                setattr(found, f"{figure}_{unit}", getattr(said, f"{figure}_{unit}"))
        found.opened()
        return found


class _Said(NamedTuple):
    """Two figures of the server, as it gave them, and the names of the fields that they stood in."""

    most: Any = None
    used: Any = None
    most_field: str = ""
    used_field: str = ""

    def at_most(self, read: Read) -> int:
        """The most there can be; no limit where there is no such field."""
        return read(self.most, UNLIMITED, self.most_field) if self.most_field else NO_LIMIT

    def in_use(self, read: Read, counted: int) -> int:
        """What is used; what was counted where there is no such field."""
        return read(self.used, 0, self.used_field) if self.used_field else counted


def _said(status: object, most: tuple[str, ...], used: tuple[str, ...]) -> _Said:
    """The figures of a unit, of the first field for the most that has one and the field for what is
    used that goes with it.
    """
    found = _Said()
    for most_field, used_field in zip_longest(most, used, fillvalue=""):
        found = _Said(
            getattr(status, most_field, None),
            getattr(status, used_field, None) if used_field else None,
            most_field,
            used_field,
        )
        if found.most is not None:
            break
    return found


def _is_stated(limit: _SharedLimit) -> bool:
    """Whether anybody has said how much there is."""
    return limit.max_cores < UNLIMITED or limit.max_nodes < UNLIMITED
