"""Fills nodes that are there and opens new ones for one request, candidate by candidate.

In which order candidates are tried is for `planner` and `gangs` to say. Each turn of every loop
here either places at least one unit or is done with some nodes or a candidate, so all of them end.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.limits import Reservation
from hpc.autoscale.packing.plan import Plan, Probe, Refusals, Request, Step
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape


class Search:
    """The steps found so far for one request. Candidates go by their numbers in the cursor.

    `explain`: what keeps units out is noted, for `rejects`.
    """

    __slots__ = ("_said", "cursor", "explain", "left", "probe", "request", "reservation", "steps")

    def __init__(
        self, request: Request, cursor: Cursor, probe: Probe | None = None, explain: bool = True
    ) -> None:
        self.request = request
        self.cursor = cursor
        self.probe = probe
        self.explain = explain
        self.left = request.units
        self.reservation = Reservation()
        self.steps: list[Step] = []
        # by number of the candidate, and whether it was to make new nodes
        self._said: dict[tuple[int, bool], list[Reject]] = {}

    @property
    def units(self) -> int:
        """Units placed so far."""
        return self.request.units - self.left

    @property
    def opened(self) -> int:
        """New nodes so far."""
        return sum(step.hi - step.lo for step in self.steps if step.opened)

    def plan(self, rejects: Refusals = ()) -> Plan:
        """The finished plan."""
        effects = self.probe.settle(keep=self.units > 0) if self.probe else ()
        return Plan(self.steps, self.units, rejects, effects)

    def abandon(self) -> None:
        """Give it up."""
        if self.probe:
            self.probe.settle(keep=False)

    def rejects(self, existing_first: bool, indices: Sequence[int] | None = None) -> Refusals:
        """What keeps the rest out, in the order in which it was asked; nothing where there is no
        rest, or nobody asked. `indices`: of these candidates only."""
        if not self.left or not self.explain:
            return []
        asked = range(len(self.cursor.candidates)) if indices is None else indices
        if existing_first:
            parts = [(index, opened) for opened in (False, True) for index in asked]
        else:
            parts = [(index, opened) for index in asked for opened in (False, True)]
        found: list[tuple[Candidate, Reject]] = []
        for index, opened in parts:
            candidate = self.cursor.candidates[index]
            said = self._said.get((index, opened), [])
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
        only = None if self.probe is None else self.probe.positions(candidate)
        if only is not None:
            self._use_only(index, only)
            return
        size, per_node = len(shapes), self.request.per_node
        found, why = cursor.find(index)
        while found is not None:
            position, shape, fit = found
            end = position + 1
            is_lone = end == size or shapes[end] is not shape
            if is_lone and self.probe is None and not shape.dormant:
                times = min(fit.count, per_node, self.left)
                after = cursor.after(shape, fit, times)
                self.steps.append(Step(candidate, position, end, times, shape, after, False))
                self.left -= times
            else:
                end = candidate.alike(position, self._most_nodes(fit))
                self._fill(index, position, end, shape, fit, False)
            if not self.left:
                return
            found, reject = cursor.find_next(index, end)
            why = why or reject
        if self.explain:
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
        """On how many nodes what is left may come to lie; custom constraints may take as little as
        one unit of each."""
        if self.probe is not None:
            return self.left
        return -(-self.left // min(fit.count, self.request.per_node))

    def open(self, index: int) -> None:
        """Add new nodes, as many as are needed and the limits allow."""
        candidate = self.cursor.candidates[index]
        if not self.left or candidate.artificial:
            return
        fit = self.cursor.opening(index)
        if not isinstance(fit, Fit):
            return
        room = 0 if candidate.is_still_full else candidate.room(self.reservation)
        needed = self._most_nodes(fit)
        if room > 0:
            self.open_so_many(index, min(room, needed))
        if self.left and room < needed and self.explain:
            self._say(index, True, candidate.no_capacity(self.reservation))

    def open_so_many(self, index: int, nodes: int) -> None:
        """Add new nodes, as many as the caller knows the limits to allow."""
        candidate, fit = self.cursor.candidates[index], self.cursor.opening(index)
        if isinstance(fit, Fit):
            start = len(candidate.shapes)
            start += sum(s.hi - s.lo for s in self.steps if s.opened and s.candidate is candidate)
            self._fill(index, start, start + nodes, candidate.new_shape, fit, True)

    def _say(self, index: int, opened: bool, reject: Reject) -> None:
        self._said.setdefault((index, opened), []).append(reject)

    def _fill(self, index: int, lo: int, hi: int, shape: NodeShape, fit: Fit, opened: bool) -> None:
        """Place units on nodes in a row that are alike, until nothing is left to place."""
        candidate, each = self.cursor.candidates[index], min(fit.count, self.request.per_node)
        if self.probe is not None:
            self._try(index, lo, hi, shape, each, opened)
            return
        if shape.dormant:
            hi = min(hi, lo + candidate.room(self.reservation))
        full = min(hi - lo, self.left // each)
        rest = min(each, self.left - full * each) if lo + full < hi else 0
        for start, nodes, times in ((lo, full, each), (lo + full, 1, rest)):
            if nodes > 0 and times > 0:
                after = self.cursor.after(shape, fit, times)
                units = nodes * times
                self._place(Step(candidate, start, start + nodes, units, shape, after, opened))

    def _try(self, index: int, lo: int, hi: int, shape: NodeShape, each: int, opened: bool) -> None:
        """`_fill` with custom constraints: one node at a time."""
        candidate, probe = self.cursor.candidates[index], self.probe
        why: Reject | None = None
        position = lo
        for _ in range(lo, hi):
            if not self.left or probe is None:
                break
            if (opened or shape.dormant) and candidate.room(self.reservation) <= 0:
                break
            trial = probe(candidate, position, min(each, self.left))
            if isinstance(trial, Reject):
                why = why or trial
                if opened:
                    break  # another new node would be refused the same
            else:
                end = position + 1
                self._place(Step(candidate, position, end, trial.units, shape, trial.after, opened))
            position += 1
        if why is not None and self.left:
            self._say(index, opened, why)

    def _place(self, step: Step) -> None:
        if step.opened or step.before.dormant:
            nodes = step.hi - step.lo
            self.reservation.add(step.candidate.limits, nodes, step.candidate.cores)
        self.steps.append(step)
        self.left -= step.units
