"""One plan in the making: what is wanted, what was placed so far, and what would have to change for it.

The types of a demand and its answer are here, and the `Draft` that fills and opens nodes for it; in which order candidates are
tried is `strategy`'s choice. Each turn of every loop here either places at least one unit or is done with a run or a
bucket, so all of them end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.expr import UNBOUNDED, Fit
from hpc.autoscale.packing.limits import Reservation
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape


class Request(NamedTuple):
    """`units` to place, at most `per_node` of them on one node, and (`whole`) all in one bucket or not at all.

    A unit is a slot, or (per_node 1) a node.
    """

    units: int
    per_node: int = UNBOUNDED
    whole: bool = False


class Step(NamedTuple):
    """Positions lo … hi-1 of `candidate`, which look like `before`, take `times` units each and then look like `after`;
    `opened`: they are new."""

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


class Plan(NamedTuple):
    """Everything that placing a demand changes. `units` are placed; `rejects` say what kept the rest out.

    `effects` are for the caller to carry out after the commit: what custom constraints and shared pools need.
    """

    steps: tuple[Step, ...]
    units: int
    reservation: Reservation
    rejects: Sequence[tuple[Candidate, Reject]]
    effects: tuple[Callable[[], None], ...] = ()

    def __bool__(self) -> bool:
        return self.units > 0


class Trial(NamedTuple):
    """What custom constraints made of one node: `units` fit, and it would then look like `after`."""

    units: int
    after: NodeShape


class Probe(Protocol):
    """Asks constraints that the engine does not understand, about one node at a time, in order."""

    def __call__(self, candidate: Candidate, position: int, units: int) -> Trial | Reject:
        """Try up to `units` on the node at a position; beyond the last node: on a new one."""

    def positions(self, candidate: Candidate) -> Sequence[int] | Reject | None:
        """The positions of the only nodes that may fit, in order, or why there is none; None where any may."""

    def settle(self, keep: bool) -> tuple[Callable[[], None], ...]:
        """End of a bucket's or a demand's questions: undo what the trials touched, and (`keep`) return what a commit
        must do to bring it about."""


class Draft:
    """A plan in the making. Candidates go by their numbers in the cursor."""

    def __init__(self, request: Request, cursor: Cursor, probe: Probe | None) -> None:
        self.request = request
        self.cursor = cursor
        self.probe = probe
        self.left = request.units
        self.reservation = Reservation()
        self.placed: list[Step] = []
        # by number of the candidate, and whether it was to make new nodes
        self.said: dict[tuple[int, bool], list[Reject]] = {}

    @property
    def units(self) -> int:
        """Units placed so far."""
        return self.request.units - self.left

    def plan(self, rejects: Sequence[tuple[Candidate, Reject]] = ()) -> Plan:
        """The finished plan."""
        effects = self.probe.settle(keep=self.units > 0) if self.probe else ()
        return Plan(tuple(self.placed), self.units, self.reservation, tuple(rejects), effects)

    def abandon(self) -> None:
        """Give the plan up."""
        if self.probe:
            self.probe.settle(keep=False)

    def rejects(
        self, existing_first: bool, indices: Sequence[int] | None = None
    ) -> list[tuple[Candidate, Reject]]:
        """What keeps the rest out, in the order in which it was asked; nothing where there is no rest."""
        if not self.left:
            return []
        asked = range(len(self.cursor.candidates)) if indices is None else indices
        if existing_first:
            parts = [(index, opened) for opened in (False, True) for index in asked]
        else:
            parts = [(index, opened) for index in asked for opened in (False, True)]
        found: list[tuple[Candidate, Reject]] = []
        for index, opened in parts:
            candidate = self.cursor.candidates[index]
            said = self.said.get((index, opened), [])
            if not said and opened:
                fit = self.cursor.opening(index)
                said = [fit] if isinstance(fit, Reject) else []
            elif not said and candidate.shapes:
                said = [candidate.nodes_full()]
            found.extend((candidate, reject) for reject in said)
        return found

    def use(self, index: int) -> None:
        """Fill nodes that are there, in order."""
        candidate, cursor = self.cursor.candidates[index], self.cursor
        shapes = candidate.shapes
        if not self.left or not shapes:
            return
        positions = None if self.probe is None else self.probe.positions(candidate)
        if positions is not None:
            self._use_only(index, positions)
            return
        size, per_node = len(shapes), self.request.per_node
        position, why = cursor.find(index)
        while position >= 0:
            shape = shapes[position]
            fit = cursor.fit(shape) if shape is not None else None
            if shape is None or not isinstance(fit, Fit):
                raise AssertionError(
                    f"expected a node that fits at {position} of {candidate}, found {fit}"
                )
            end = position + 1
            is_lone = end == size or shapes[end] is not shape
            if is_lone and self.probe is None and not shape.dormant:
                times = min(fit.count, per_node, self.left)
                after = cursor.after(shape, fit, times)
                self.placed.append(Step(candidate, position, end, times, shape, after, False))
                self.left -= times
            else:
                end = candidate.alike(position, self._most_nodes(fit))
                self._fill(index, position, end, shape, fit, False)
            if not self.left:
                return
            position, reject = cursor.find_next(index, end)
            why = why or reject
        self._say(index, False, why or candidate.nodes_full())

    def _use_only(self, index: int, positions: Sequence[int] | Reject) -> None:
        """`use` for what only some nodes may take."""
        candidate, cursor = self.cursor.candidates[index], self.cursor
        if isinstance(positions, Reject):
            self._say(index, False, positions)
            return
        why: Reject | None = None
        for position in positions:
            shape = candidate.shapes[position]
            fit = cursor.fit(shape) if shape is not None else None
            if shape is not None and isinstance(fit, Fit):
                self._fill(index, position, position + 1, shape, fit, False)
                if not self.left:
                    return
            elif isinstance(fit, Reject):
                why = why or fit
        if why is not None:
            self._say(index, False, why)

    def _most_nodes(self, fit: Fit) -> int:
        """On how many nodes what is left may come to lie; custom constraints may take as little as one unit of each."""
        if self.probe is not None:
            return self.left
        return -(-self.left // min(fit.count, self.request.per_node))

    def open(self, index: int) -> None:
        """Add new nodes, as many as are needed and the limits allow."""
        candidate = self.cursor.candidates[index]
        if not self.left or candidate.artificial:
            return
        if not self.reservation and candidate.is_still_full:
            self._say(index, True, candidate.no_capacity(self.reservation))
            return
        fit = self.cursor.opening(index)
        if not isinstance(fit, Fit):
            return
        room = self.reservation.room(candidate.limits, candidate.cores) - candidate.reserved
        opened = sum(p.hi - p.lo for p in self.placed if p.opened and p.candidate is candidate)
        start = len(candidate.shapes) + opened
        needed = self._most_nodes(fit)
        if room > 0:
            self._fill(index, start, start + min(room, needed), candidate.new_shape, fit, True)
        if self.left and room < needed:
            self._say(index, True, candidate.no_capacity(self.reservation))

    def open_so_many(self, index: int, nodes: int) -> None:
        """Add new nodes of a candidate that nothing is placed on so far, as many as the caller knows the limits to allow."""
        candidate, fit = self.cursor.candidates[index], self.cursor.opening(index)
        if isinstance(fit, Fit):
            start = len(candidate.shapes)
            self._fill(index, start, start + nodes, candidate.new_shape, fit, True)

    def _say(self, index: int, opened: bool, reject: Reject) -> None:
        self.said.setdefault((index, opened), []).append(reject)

    def _fill(self, index: int, lo: int, hi: int, shape: NodeShape, fit: Fit, opened: bool) -> None:
        """Place units on every node of a run of equal nodes, until nothing is left to place."""
        candidate, each = self.cursor.candidates[index], min(fit.count, self.request.per_node)
        if self.probe is not None:
            self._try(index, lo, hi, shape, each, opened)
            return
        if shape.dormant:
            hi = min(
                hi,
                lo + self.reservation.room(candidate.limits, candidate.cores) - candidate.reserved,
            )
        full = min(hi - lo, self.left // each)
        rest = min(each, self.left - full * each) if lo + full < hi else 0
        if full > 0:
            self._place(candidate, lo, lo + full, each, shape, shape.after(fit, each), opened)
        if rest > 0:
            at = lo + full
            self._place(candidate, at, at + 1, rest, shape, shape.after(fit, rest), opened)

    def _try(self, index: int, lo: int, hi: int, shape: NodeShape, each: int, opened: bool) -> None:
        """The same with custom constraints: one node at a time."""
        candidate, probe = self.cursor.candidates[index], self.probe
        why: Reject | None = None
        position = lo
        for _ in range(lo, hi):
            if not self.left or probe is None:
                break
            charged = opened or shape.dormant
            if (
                charged
                and self.reservation.room(candidate.limits, candidate.cores) <= candidate.reserved
            ):
                break
            trial = probe(candidate, position, min(each, self.left))
            if isinstance(trial, Reject):
                why = why or trial
                if opened:
                    break  # another new node would be refused the same
                position += 1
                continue
            self._place(candidate, position, position + 1, trial.units, shape, trial.after, opened)
            position += 1
        if why is not None and self.left:
            self._say(index, opened, why)

    def _place(
        self,
        candidate: Candidate,
        lo: int,
        hi: int,
        times: int,
        before: NodeShape,
        after: NodeShape,
        opened: bool,
    ) -> None:
        if opened or before.dormant:
            self.reservation.add(candidate.limits, hi - lo, candidate.cores)
        self.placed.append(Step(candidate, lo, hi, times, before, after, opened))
        self.left -= (hi - lo) * times
