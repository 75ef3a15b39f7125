"""What is asked of the engine, and what it answers: requests, and plans of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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


ONE_SLOT = Request(1)
"""What most jobs ask for."""

Refusals = Sequence[tuple[Candidate, Reject]]
"""Candidates with the reason why they did not take more."""


class Plan:
    """Everything that placing a request changes.

    `units` are placed by it. `rejects` say what kept the rest out, where that was asked for.
    `effects` are for the caller to carry out after the plan was applied: what custom constraints
    and shared pools need. Plans and steps are not changed once they are made.
    """

    __slots__ = ("_steps", "effects", "rejects", "units")

    def __init__(
        self,
        steps: Sequence[Step],
        units: int,
        rejects: Refusals = (),
        effects: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._steps = steps
        self.units = units
        self.rejects = rejects
        self.effects = effects

    @property
    def steps(self) -> Sequence[Step]:
        """What is placed where, in the order in which it was found."""
        return self._steps

    def __bool__(self) -> bool:
        return self.units > 0


class Step(Plan):
    """Nodes lo … hi-1 of a candidate look like `before`, take `units` in all, as many each, and
    then look like `after`. `opened`: they are new.

    A step is also the plan that has no other step: most plans place one slot, and are one object.
    """

    __slots__ = ("after", "before", "candidate", "hi", "lo", "opened")
    rejects: Refusals = ()
    effects: Sequence[Callable[[], None]] = ()

    def __init__(
        self,
        candidate: Candidate,
        lo: int,
        hi: int,
        units: int,
        before: NodeShape,
        after: NodeShape,
        opened: bool,
    ) -> None:
        self.candidate = candidate
        self.lo = lo
        self.hi = hi
        self.units = units
        self.before = before
        self.after = after
        self.opened = opened

    @property
    def steps(self) -> Sequence[Step]:
        """The step, as the only one of the plan that it is."""
        return (self,)

    @property
    def times(self) -> int:
        """How many units each node takes."""
        return self.units // (self.hi - self.lo)

    @property
    def is_charged(self) -> bool:
        """Whether its nodes take a place under the limits: they are new, or are started again."""
        return self.opened or self.before.dormant

    def joined(self, behind: Step) -> Step | None:
        """One step for this and the one on the nodes right behind; None where they differ."""
        if self.hi != behind.lo or self._alike() != behind._alike():
            return None
        units = self.units + behind.units
        return Step(self.candidate, self.lo, behind.hi, units, self.before, self.after, self.opened)

    def _alike(self) -> tuple[object, ...]:
        return self.candidate, self.times, self.before, self.after, self.opened


NOTHING = Plan((), 0)
"""The plan of what fits nowhere, where nobody asks why."""


class Trial(NamedTuple):
    """What custom constraints made of a node: `units` fit, and it would then look like `after`."""

    units: int
    after: NodeShape


class Probe(Protocol):
    """Asks constraints that the engine does not understand, about one node at a time, in order."""

    def __call__(self, candidate: Candidate, position: int, units: int) -> Trial | Reject:
        """Try up to `units` on the node at a position; beyond the last node: on a new one."""

    def refuses_new(self, candidate: Candidate) -> Reject | None:
        """What speaks against any new node; asked before one is tried. None: one may be."""

    def positions(self, candidate: Candidate) -> Sequence[int] | Reject | None:
        """The only positions that may fit, in order, or why there is none; None where any may."""

    def settle(self, keep: bool) -> tuple[Callable[[], None], ...]:
        """End of a candidate's or a request's questions: undo what the trials touched, and (`keep`)
        return what must be done to bring it about."""


def opened_of(steps: Iterable[Step]) -> Counter[Candidate]:
    """How many nodes of each candidate a plan adds to those that run: new ones, and deallocated
    ones that are started."""
    found: Counter[Candidate] = Counter()
    for step in steps:
        if step.is_charged:
            found[step.candidate] += step.hi - step.lo
    return found
