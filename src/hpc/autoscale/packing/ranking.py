"""In which order buckets are asked, and which are not asked at all.

Most conditions on a bucket are said again and again, and most of the others are amounts. So a `Survey` of the buckets
keeps for each condition the buckets that meet it, as bits of a number, and for each resource the buckets by how much of
it they have, or by the text that it is; a new combination of conditions costs a few operations on numbers, however many
buckets there are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr, Fit, MinResource, PropertyIs, ResourceIs
from hpc.autoscale.packing.pins import spelt_out
from hpc.autoscale.packing.reading import just_enough
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape, Unit

Rejects = tuple[tuple[Candidate, Reject], ...]


class Ranking:
    """Buckets that may serve a demand, best first, and those that cannot with the reason of each.

    The reasons are made when they are read, from what the buckets were when they were ranked.
    """

    __slots__ = ("_rejects", "candidates")

    def __init__(
        self, candidates: tuple[Candidate, ...], rejects: Rejects | Callable[[], Rejects]
    ) -> None:
        self.candidates = candidates
        self._rejects = rejects

    @property
    def rejects(self) -> Rejects:
        """Those that cannot serve, in the order of preference."""
        if not isinstance(self._rejects, tuple):
            self._rejects = self._rejects()
        return self._rejects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranking) and (self.candidates, self.rejects) == (
            other.candidates,
            other.rejects,
        )

    def __hash__(self) -> int:
        return hash(self.candidates)


def rank(expr: Expr, candidates: Sequence[Candidate]) -> Ranking:
    """`Survey.rank`, for whoever asks once."""
    return Survey(candidates).rank(expr)


class Survey:
    """What the buckets are at one time. Cost of making it: none; each condition pays when it first occurs."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = tuple(candidates)
        self._shapes = [candidate.bucket_shape for candidate in candidates]
        self._artificial = sum(
            1 << i for i, candidate in enumerate(candidates) if candidate.artificial
        )
        self._usable = sum(1 << i for i, s in enumerate(self._shapes) if s.unfit() is None)
        self._meeting: dict[Expr, int] = {}
        self._amounts: dict[str, _Amounts] = {}
        # by class of the expression and what it names
        self._texts: dict[tuple[type, str], dict[str, int]] = {}
        self._names: set[str] = set().union(*(shape.free for shape in self._shapes))
        self._in_declared_order: dict[int, tuple[Candidate, ...]] = {}

    def rank(self, expr: Expr) -> Ranking:
        """Order by the expression's preferences, declared order among equals; artificial buckets first.

        An artificial bucket stands for machines that differ, and gets no new ones: whether one of them fits is asked
        of each.

        The weight of the i-th of N buckets starts as N - i, and every constraint may raise it or set it to 0. Whether
        a bucket may serve at all is a question of fit, not of weight.
        """
        meeting = self._who_meets(expr) | self._artificial
        return Ranking(self.serving(expr, meeting), lambda: self._rejects(expr, meeting))

    def who_serves(self, parts: Sequence[Expr]) -> int:
        """The buckets that `rank` would name for parts that must all hold, the i-th as the i-th bit."""
        return self._who_meets_all(parts) | self._artificial

    def serving(self, expr: Expr, meeting: int | None = None) -> tuple[Candidate, ...]:
        """The buckets that `rank` would name, in that order; `meeting` is what `who_serves` said, where it was asked."""
        if meeting is None:
            meeting = self._who_meets(expr) | self._artificial
        if expr.weighs or self._artificial:
            return self._pick(meeting, self._order(expr))
        found = self._in_declared_order.get(meeting)
        if found is None:
            found = self._pick(meeting, range(len(self._candidates)))
            self._in_declared_order[meeting] = found
        return found

    def _order(self, expr: Expr) -> Sequence[int]:
        count = len(self._shapes)
        weights = [expr.weigh(shape, float(count - i)) for i, shape in enumerate(self._shapes)]
        return sorted(range(count), key=weights.__getitem__, reverse=True)

    def _pick(self, meeting: int, order: Sequence[int]) -> tuple[Candidate, ...]:
        meets = bin(meeting)[:1:-1].ljust(len(self._candidates), "0")
        picked = [self._candidates[i] for i in order if meets[i] == "1"]
        if self._artificial:
            picked.sort(key=lambda candidate: not candidate.artificial)
        return tuple(picked)

    def _who_meets(self, expr: Expr) -> int:
        """The buckets that meet an expression, the i-th as the i-th bit.

        Conditions are asked one by one: a node that is there may meet another alternative than a new one would, and so
        have room for all of them together where a new one has not.
        """
        if isinstance(expr, AllOf):
            return self._who_meets_all(expr.children)
        if isinstance(expr, MinResource):
            enough = self._who_has(expr)
            if enough is not None:
                return enough
        elif isinstance(expr, ResourceIs) and expr.name not in self._names:
            return 0
        found = self._meeting.get(expr)
        if found is None:
            found = self._meeting[expr] = self._usable & self._who_fits(expr)
        return found

    def _who_fits(self, expr: Expr) -> int:
        if isinstance(expr, (PropertyIs, ResourceIs)) and (texts := spelt_out(expr)):
            return self._who_says(expr, texts)
        fits = (isinstance(expr.fit(shape), Fit) for shape in self._shapes)
        return sum(1 << i for i, fit in enumerate(fits) if fit)

    def _who_meets_all(self, parts: Sequence[Expr]) -> int:
        meeting = self._usable
        for part in parts:
            meeting &= self._who_meets(part)
            if not meeting:
                break
        return meeting

    def _who_has(self, expr: MinResource) -> int | None:
        """The buckets that have an amount; None where each must be asked."""
        amounts = self._amounts.get(expr.name)
        if amounts is None:
            amounts = self._amounts[expr.name] = _Amounts(expr.name, self._shapes, self._usable)
        return amounts.at_least(expr)

    def _who_says(self, expr: PropertyIs | ResourceIs, texts: Sequence[str]) -> int:
        """The buckets of which a property or a resource is one of some texts."""
        of, name = expr.__class__, expr.name
        said = self._texts.get((of, name))
        if said is None:
            said = self._texts[of, name] = {}
            for i, shape in enumerate(self._shapes):
                value = shape.free.get(name) if of is ResourceIs else shape.prop(name)
                if isinstance(value, str):
                    said[value] = said.get(value, 0) | 1 << i
        found = 0
        for text in texts:
            found |= said.get(text, 0)
        return found

    def _rejects(self, expr: Expr, meeting: int) -> Rejects:
        found = []
        for i in self._order(expr):
            if not meeting >> i & 1:
                shape = self._shapes[i]
                refusal = shape.unfit()
                if refusal is None:
                    refusal = _refusal(expr, shape)
                if refusal is not None:
                    found.append((self._candidates[i], refusal))
        return tuple(found)


class _Amounts:
    """The buckets by how much they have of one resource."""

    def __init__(self, name: str, shapes: Sequence[NodeShape], usable: int) -> None:
        having: list[tuple[int | float, int]] = []
        units: set[Unit | None] = set()
        self._comparable = True
        for i, shape in enumerate(shapes):
            amount = shape.free.get(name)
            if usable >> i & 1 and isinstance(amount, (int, float)):
                having.append((amount, i))
                units.add(shape.units.get(name))
                self._comparable = self._comparable and math.isfinite(amount)
        self._comparable = self._comparable and len(units) <= 1
        self._unit = next(iter(units), None)
        if self._comparable:
            having.sort()
        self._sorted = [amount for amount, _ in having]
        # the buckets from the i-th smallest amount on
        self._from = [0] * (len(having) + 1)
        for index in range(len(having) - 1, -1, -1):
            self._from[index] = self._from[index + 1] | 1 << having[index][1]

    def at_least(self, expr: MinResource) -> int | None:
        """Who has what the expression asks for; None where that is not a plain comparison."""
        unit = self._unit
        needed = expr.amount if expr.sized or unit is None else expr.amount * unit.factor
        if not self._comparable or needed <= 0:
            return None
        index = bisect_left(self._sorted, needed)
        # what is less by no more than the rounding that `how_many` forgives is a question for it
        if index and self._sorted[index - 1] >= just_enough(needed):
            return None
        return self._from[index]


def _refusal(expr: Expr, bucket: NodeShape) -> Reject | None:
    """Why a bucket may not serve, conditions asked one by one."""
    if isinstance(expr, AllOf):
        refusals = (_refusal(child, bucket) for child in expr.children)
        return next((refusal for refusal in refusals if refusal is not None), None)
    fit = expr.fit(bucket)
    return fit if isinstance(fit, Reject) else None
