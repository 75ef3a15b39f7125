"""The limits that keep a plan from what is in back-off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpc.autoscale.backoff.law import Backoff, allowance
from hpc.autoscale.backoff.subjects import Subject
from hpc.autoscale.packing.limits import NO_LIMIT, Limit


class HeldBack(Limit):
    """A limit of everything that one subject in back-off concerns, `now` being the time of the
    plan. `room`: how many new nodes it leaves room for; None for any number, until it is
    `closed`, as the pass may learn of failures once buckets have their limits."""

    def __init__(self, about: Subject, known: Backoff, room: int | None, now: float) -> None:
        super().__init__(str(about))
        self.about = about
        self._now = now
        self._supposed: float | None = None
        self.close(known, NO_LIMIT if room is None else room)

    def close(self, known: Backoff, room: int) -> None:
        """Leave room for so many new nodes, because of what is known by now."""
        self.known = known
        self.max_nodes = self._room = room
        if self._supposed is not None:
            self.suppose(self._supposed)

    def suppose(self, when: float) -> None:
        """Leave room for as many new nodes as at a later time, also where it is closed after
        this."""
        self._supposed = when
        room = allowance(self.known, when, 0)
        self.max_nodes = NO_LIMIT if room is None else room

    @property
    def in_words(self) -> str:
        """Why it is held back, and for how long."""
        known = self.known
        when = f"for {known.until - self._now:.0f} s more" if self._now < known.until else ""
        tried = f"tried with {self._room} at a time" if self._room else "tried by nodes that boot"
        times = f", {known.streak} nodes in a row" if known.streak > 1 else ""
        return f"{self.name} is in back-off ({known.cause.value}{times}), {when or tried}"

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        if not self.known.level:
            return super().describe(owed_nodes, owed_cores)
        planned = self.used_nodes + owed_nodes
        more = f", and {planned} planned" if planned else ""
        return f"{self.in_words}{more}: {self.known.message or 'no message'}"

    def lift(self) -> None:
        """Let any number of nodes be asked for."""
        self.max_nodes = NO_LIMIT


class ShutOff(Limit):
    """A limit of everything of an offer, that leaves room for any number of nodes unless it is
    `shut`."""

    def __init__(self, offer: Subject) -> None:
        super().__init__(str(offer), max_nodes=NO_LIMIT)

    @contextmanager
    def shut(self) -> Iterator[None]:
        """While this lasts, there is no room for a new node."""
        taken = self.room(1)
        self.charge(taken, 0)
        try:
            yield
        finally:
            self.charge(-taken, 0)

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        return f"{self.name} gets no new nodes for gangs that came short there"
