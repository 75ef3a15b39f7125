"""Limits that several candidates share, which can never be exceeded by planning.

A `Limit` counts nodes, cores, or both. A `Reservation` gathers what one plan would charge, so that
a question sees its own tentative charges while nothing is written. `charge_all` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from hpc.autoscale.errors import counted

# more than there are anywhere, and the largest number that CPython 3.11 compares without a call
NO_LIMIT = 2**30 - 1
_NOTHING = (0, 0)


class LimitExceeded(RuntimeError):
    """A charge that a limit has no room for; nothing was charged."""


class Limit:
    """One limit. `max_cores` and `max_nodes` bound `used_cores` and `used_nodes`.

    A bound of NO_LIMIT is none. `beyond_nodes`, `beyond_cores`: what is there and not in these
    figures, because the limit had no room left for it or because whoever said what is used had not
    counted it; it is what goes first. What was used when the limit was `opened` is in use, what
    was charged since is only planned, and `describe` tells the two apart. `told`: a list to which
    the limit adds itself when it was charged; None where nobody listens. Each method takes
    constant time.
    """

    is_charged: ClassVar[bool] = True
    """False for one that only shows another limit, which is charged on its own."""

    def __init__(
        self,
        name: str,
        max_cores: int = NO_LIMIT,
        used_cores: int = 0,
        max_nodes: int = NO_LIMIT,
        used_nodes: int = 0,
    ) -> None:
        self.name = name
        self.max_cores, self.used_cores = max_cores, used_cores
        self.max_nodes, self.used_nodes = max_nodes, used_nodes
        self.beyond_cores = self.beyond_nodes = 0
        self.told: list[Limit] | None = None
        self.opened()

    def opened(self) -> None:
        """What is used by now is in use; what is charged from here on is planned."""
        self._nodes_in_use, self._cores_in_use = self.used_nodes, self.used_cores

    def copied(self, copies: dict[Limit, Limit]) -> Limit:
        """Its one copy among these; nobody hears of charges to it."""
        if self not in copies:
            made = copies[self] = object.__new__(type(self))
            made.__dict__.update(self.__dict__, told=None)
        return copies[self]

    @property
    def planned_nodes(self) -> int:
        """How many of the nodes are only planned."""
        return self.used_nodes - self._nodes_in_use

    def room(self, cores: int, owed_nodes: int = 0, owed_cores: int = 0) -> int:
        """How many more nodes of `cores` each fit, beside what is owed already; never below 0."""
        by_nodes = self.max_nodes - self.used_nodes - owed_nodes
        by_cores = (self.max_cores - self.used_cores - owed_cores) // (cores if cores > 1 else 1)
        room = by_nodes if by_nodes < by_cores else by_cores
        return room if room > 0 else 0

    def bears(self, nodes: int, cores: int) -> bool:
        """Whether `nodes` more with `cores` in all fit."""
        return (
            self.used_nodes + nodes <= self.max_nodes and self.used_cores + cores <= self.max_cores
        )

    def charge(self, nodes: int, cores: int) -> None:
        """Use up `nodes` with `cores` in all; below 0, give back. LimitExceeded if too many."""
        used_nodes, used_cores = self.used_nodes + nodes, self.used_cores + cores
        if (nodes > 0 or cores > 0) and (
            used_nodes > self.max_nodes or used_cores > self.max_cores
        ):
            raise LimitExceeded(
                f"OutOfCapacity: {self.describe()} cannot bear {nodes} nodes, {cores} cores more"
            )
        self.used_nodes = used_nodes if used_nodes > 0 else 0
        self.used_cores = used_cores if used_cores > 0 else 0
        self._nodes_in_use = min(self._nodes_in_use, self.used_nodes)
        self._cores_in_use = min(self._cores_in_use, self.used_cores)
        if self.told is not None:
            self.told.append(self)

    def bear(self, nodes: int, cores: int) -> None:
        """Count `nodes` with `cores` in all that are there whatever the limit says."""
        fitting_nodes = max(0, min(nodes, self.max_nodes - self.used_nodes))
        fitting_cores = max(0, min(cores, self.max_cores - self.used_cores))
        self.beyond_nodes += nodes - fitting_nodes
        self.beyond_cores += cores - fitting_cores
        self._nodes_in_use += fitting_nodes
        self._cores_in_use += fitting_cores
        self.charge(fitting_nodes, fitting_cores)

    def release(self, nodes: int, cores: int) -> None:
        """Give back what `nodes` with `cores` in all that are gone took of the limit; what was
        beyond the limit goes first."""
        beyond_nodes, beyond_cores = min(nodes, self.beyond_nodes), min(cores, self.beyond_cores)
        self.beyond_nodes -= beyond_nodes
        self.beyond_cores -= beyond_cores
        self.charge(beyond_nodes - nodes, beyond_cores - cores)

    def cover(self, nodes: int, cores: int) -> None:
        """So many nodes and cores are there by now; those that are not counted as used are noted as
        beyond the limit."""
        self.beyond_nodes = max(self.beyond_nodes, nodes - self.used_nodes)
        self.beyond_cores = max(self.beyond_cores, cores - self.used_cores)

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        """The limit with its figures, what is owed included.

        As in `NodeArray(htc) has 100 of 100 cores in use`; what is only planned is said apart.
        """
        taken, planned = [], []
        for unit, most, total, before in (
            ("node", self.max_nodes, self.used_nodes + owed_nodes, self._nodes_in_use),
            ("core", self.max_cores, self.used_cores + owed_cores, self._cores_in_use),
        ):
            if most < NO_LIMIT:
                taken.append(f"{total} of {counted(most, unit)}")
                if total > before:
                    planned.append(counted(total - before, unit))
        said = f"{self.name} has {' and '.join(taken) or 'no limit'} in use"
        return f"{said} or planned ({' and '.join(planned)} planned)" if planned else said

    def __repr__(self) -> str:
        return f"Limit({self.describe()})"


def charge_all(limits: Sequence[Limit], nodes: int, cores: int) -> None:
    """Charge `nodes` with `cores` in all to each limit, all of which are charged; negative numbers
    take a charge back. LimitExceeded when one has no room for them; then nothing is charged."""
    for limit in limits:
        used_nodes, used_cores = limit.used_nodes + nodes, limit.used_cores + cores
        if used_nodes > limit.max_nodes or used_cores > limit.max_cores:
            for charged in limits[: limits.index(limit)]:
                charged.charge(-nodes, -cores)
            limit.charge(nodes, cores)  # says what it is short of
        limit.used_nodes, limit.used_cores = used_nodes, used_cores
        if limit.told is not None:
            limit.told.append(limit)


def room_under(limits: Iterable[Limit], cores: int) -> int:
    """How many more nodes of `cores` each all limits have room for."""
    room = NO_LIMIT
    for limit in limits:
        each = limit.room(cores)
        if each < room:
            room = each
    return room


class Reservation:
    """What one plan would charge to which limits. It never writes to them."""

    def __init__(self) -> None:
        self._owed: dict[Limit, tuple[int, int]] = {}

    def owed_to(self, limit: Limit) -> int:
        """How many nodes are reserved of a limit."""
        return self._owed.get(limit, _NOTHING)[0]

    def room(self, limits: Sequence[Limit], cores: int) -> int:
        """How many more nodes of `cores` each all limits have room for, beside what is reserved."""
        if not self._owed:
            return room_under(limits, cores)
        owed = self._owed
        return min((a.room(cores, *owed.get(a, _NOTHING)) for a in limits), default=NO_LIMIT)

    def tightest(self, limits: Sequence[Limit], cores: int) -> str:
        """The limit that leaves the least room, in words, what is reserved included."""
        owed = self._owed
        limit = min(limits, key=lambda a: a.room(cores, *owed.get(a, _NOTHING)), default=None)
        if limit is None:
            return "no limit is known"
        return limit.describe(*owed.get(limit, _NOTHING))

    def add(self, limits: Sequence[Limit], nodes: int, cores: int) -> None:
        """Reserve `nodes` of `cores` each; the caller has asked `room` first."""
        for limit in limits:
            owed_nodes, owed_cores = self._owed.get(limit, _NOTHING)
            self._owed[limit] = (owed_nodes + nodes, owed_cores + nodes * cores)
