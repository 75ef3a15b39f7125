"""What is asked of the engine, and what it answers: requests, and plans of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape


class Request(NamedTuple):
    """`units` to place, at most `per_node` on one node; `whole`: all in one candidate or not at
    all.

    A unit is a slot, or (per_node 1) a node.
    """

    units: int
    per_node: int = UNBOUNDED
    whole: bool = False


class Step(NamedTuple):
    """Nodes lo … hi-1 of a candidate look like `before`, take `times` units each, and then look
    like `after`. `opened`: they are new."""

    candidate: Candidate
    lo: int
    hi: int
    times: int
    before: NodeShape
    after: NodeShape
    opened: bool

    @property
    def units(self) -> int:
        """Units placed here."""
        return (self.hi - self.lo) * self.times

    @property
    def is_charged(self) -> bool:
        """Whether its nodes take a place under the limits: they are new, or are started again."""
        return self.opened or self.before.dormant


Refusals = Sequence[tuple[Candidate, Reject]]
"""Candidates with the reason why they did not take more."""


class Plan(NamedTuple):
    """Everything that placing a request changes.

    `units` are placed by it. `rejects` say what kept the rest out, where that was asked for.
    `effects` are for the caller to carry out after the plan was applied: what custom constraints
    and shared pools need.
    """

    steps: Sequence[Step]
    units: int
    rejects: Refusals = ()
    effects: Sequence[Callable[[], None]] = ()

    def __bool__(self) -> bool:
        return self.units > 0


NOTHING = Plan((), 0)
"""The plan of what fits nowhere, where nobody asks why."""


class Trial(NamedTuple):
    """What custom constraints made of one node: `units` fit, and it would then look like `after`."""

    units: int
    after: NodeShape


class Probe(Protocol):
    """Asks constraints that the engine does not understand, about one node at a time, in order."""

    def __call__(self, candidate: Candidate, position: int, units: int) -> Trial | Reject:
        """Try up to `units` on the node at a position; beyond the last node: on a new one."""

    def positions(self, candidate: Candidate) -> Sequence[int] | Reject | None:
        """The positions of the only nodes that may fit, in order, or why there is none; None where
        any may."""

    def settle(self, keep: bool) -> tuple[Callable[[], None], ...]:
        """End of a candidate's or a request's questions: undo what the trials touched, and (`keep`)
        return what must be done to bring it about."""
