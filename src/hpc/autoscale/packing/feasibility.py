"""In which order buckets are asked, and which are not asked at all.

Most conditions on a bucket are said again and again, and most of the others are amounts. So the
`Feasibility` of the buckets keeps for each condition the buckets that meet it, as bits of a number,
and for each resource the buckets by how much of it they have, or by the text that it is; a new
combination of conditions costs a few operations on numbers, however many buckets there are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import compress

from hpc.autoscale.packing.amounts import Quantity, just_enough
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, Fit, Minimum, OneOf, text_pattern
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.shown import Unit

_OF_DIGITS = bytes.maketrans(b"01", b"\0\1")
Rejects = tuple[tuple[Candidate, Reject], ...]


class Ranking:
    """Buckets that may serve a demand, best first, and those that cannot with the reason of each.

    The reasons are made when they are read, from what the buckets were when they were ranked.
    """

    def __init__(
        self, candidates: tuple[Candidate, ...], rejects: Callable[[], Rejects] = tuple
    ) -> None:
        self.candidates = candidates
        self._make_rejects = rejects

    @cached_property
    def rejects(self) -> Rejects:
        """The candidates that cannot serve, in the order of preference."""
        return self._make_rejects()


class Feasibility:
    """What the buckets are at one time. Each condition costs something when it first occurs."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = tuple(candidates)
        self._shapes = [candidate.bucket_shape for candidate in candidates]
        self._artificial = _as_bits(candidate.artificial for candidate in candidates)
        self._usable = _as_bits(shape.unfit() is None for shape in self._shapes)
        self._meeting: dict[Expr | Minimum, int] = {}
        self._newest: tuple[Sequence[Expr], Sequence[int]] | None = None
        self._amounts: dict[str, _Amounts] = {}
        # by what is named, as in `Expr.reads`
        self._texts: dict[str, dict[str, int]] = {}
        self._in_declared_order: dict[int, tuple[Candidate, ...]] = {}

    def rank(self, expr: Expr) -> Ranking:
        """Order by the expression's preferences, declared order among equals; artificial buckets
        first.

        An artificial bucket stands for machines that differ, and gets no new ones: whether one of
        them fits is asked of each.

        The weight of the i-th of N buckets starts as N - i, and every constraint may raise it or
        set it to 0. Whether a bucket may serve at all is a question of fit, not of weight.
        """
        meeting = self.who_serves(expr.conditions())
        return Ranking(self.serving(expr, meeting), lambda: self._rejects(expr, meeting))

    def who_serves(self, parts: Sequence[Expr]) -> int:
        """The buckets that `rank` would name for parts that must all hold, the i-th as the i-th
        bit.

        Conditions are asked one by one: a node that is there may meet another alternative than a
        new one would, and so have room for all of them together where a new one has not.
        """
        return self._who_meets(parts) | self._artificial

    def serving(self, expr: Expr, meeting: int | None = None) -> tuple[Candidate, ...]:
        """The buckets that `rank` would name, in that order; `meeting` is what `who_serves` said,
        where it was asked."""
        if meeting is None:
            meeting = self.who_serves(expr.conditions())
        if expr.weighs or self._artificial:
            return self._pick(meeting, self._order(expr))
        found = self._in_declared_order.get(meeting)
        if found is None:
            found = tuple(compress(self._candidates, _flags(meeting)))
            self._in_declared_order[meeting] = found
        return found

    def _order(self, expr: Expr) -> Sequence[int]:
        count = len(self._shapes)
        weights = [float(count - i) for i in range(count)]
        for condition in expr.conditions():
            if type(condition).weigh is not Expr.weigh:
                self._weigh(condition, weights)
        return sorted(range(count), key=weights.__getitem__, reverse=True)

    def _weigh(self, condition: Expr, weights: list[float]) -> None:
        """Add the preference of a condition to the weights, as `Expr.weigh` does."""
        alternatives = condition.alternatives()
        if alternatives is None:
            weights[:] = map(condition.weigh, self._shapes, weights)
            return
        unmet = (1 << len(weights)) - 1
        for rank, fitting in enumerate(self._who_fits_each(alternatives)):
            first = fitting & unmet
            unmet &= ~first
            for i in _bits(first):
                weights[i] += 100.0 * (len(alternatives) - rank)
        for i in _bits(unmet):
            weights[i] = 0.0

    def _pick(self, meeting: int, order: Sequence[int]) -> tuple[Candidate, ...]:
        meets = _flags(meeting).ljust(len(self._candidates), b"\0")
        picked = [self._candidates[i] for i in order if meets[i]]
        if self._artificial:
            picked.sort(key=lambda candidate: not candidate.artificial)
        return tuple(picked)

    def _who_meets(self, parts: Sequence[Expr]) -> int:
        """The usable buckets that meet all conditions of some expressions."""
        meeting = self._usable
        for part in parts:
            if part.is_condition:
                meeting &= self._who_fits(part)
            else:
                meeting &= self._who_meets(part.conditions())
            if not meeting:
                break
        return meeting

    def _who_fits(self, expr: Expr) -> int:
        """The buckets, usable or not, whose new nodes an expression fits as a whole."""
        found = self._meeting.get(expr.minimum or expr)  # the former is looked up in fewer steps
        if found is None and expr.minimum is not None:
            name, amount, sized = expr.minimum
            amounts = self._amounts.get(name) or self._read(name)
            found = amounts.at_least(amount, sized)
            if found is None:
                found = self._meeting.get(expr)
            else:
                self._meeting[expr.minimum] = found
        if found is not None:
            return found
        parts, alternatives = expr.at_once(), expr.alternatives()
        if len(parts) != 1 or parts[0] is not expr:
            found = (1 << len(self._shapes)) - 1
            for part in parts:
                found &= self._who_fits(part)
                if not found:
                    break
        elif alternatives is not None:
            found = 0
            for fitting in self._who_fits_each(alternatives):
                found |= fitting
            return found  # each of them is remembered
        elif expr.one_of is not None:
            found = self._who_says(expr.one_of)
        else:
            found = _as_bits(isinstance(expr.fit(shape), Fit) for shape in self._shapes)
        self._meeting[expr] = found
        return found

    def _who_fits_each(self, alternatives: Sequence[Expr]) -> Sequence[int]:
        """`_who_fits` of each alternative. The same are asked twice in a row."""
        if self._newest is None or self._newest[0] is not alternatives:
            self._newest = alternatives, [self._who_fits(each) for each in alternatives]
        return self._newest[1]

    def _read(self, name: str) -> _Amounts:
        made = self._amounts[name] = _Amounts(name, self._shapes)
        return made

    def _who_says(self, one_of: OneOf) -> int:
        """The buckets of which a property or a resource is one of some texts."""
        said = self._texts.get(one_of.name)
        if said is None:
            said = self._texts[one_of.name] = {}
            for i, shape in enumerate(self._shapes):
                name = one_of.name
                value = shape.prop(name[5:]) if name[:5] == "node." else shape.free.get(name)
                if isinstance(value, str):
                    said[value] = said.get(value, 0) | 1 << i
        found = 0
        for text in one_of.texts:
            pattern = text_pattern(text) if one_of.wild else None
            if pattern is None:
                found |= said.get(text, 0)
                continue
            for value, bits in said.items():
                if pattern.matches(value):
                    found |= bits
        return found

    def _rejects(self, expr: Expr, meeting: int) -> Rejects:
        found, conditions = [], expr.conditions()
        for i in self._order(expr):
            if not meeting >> i & 1:
                shape = self._shapes[i]
                fits = (condition.fit(shape) for condition in conditions)
                refusal = shape.unfit()
                if refusal is None:
                    refusal = next((fit for fit in fits if isinstance(fit, Reject)), None)
                if refusal is not None:
                    found.append((self._candidates[i], refusal))
        return tuple(found)


def _as_bits(answers: Iterable[bool]) -> int:
    """A number of which the i-th bit is the i-th answer."""
    return sum(1 << i for i, answer in enumerate(answers) if answer)


def _flags(number: int) -> bytes:
    """The bits, from the lowest one on, as 0 or 1 each."""
    return bin(number)[:1:-1].encode().translate(_OF_DIGITS)


def _bits(number: int) -> Sequence[int]:
    """The places of the bits that are set."""
    return list(compress(range(number.bit_length()), _flags(number)))


class _Amounts:
    """The buckets by how much they have of one resource."""

    def __init__(self, name: str, shapes: Sequence[NodeShape]) -> None:
        having: list[tuple[int | float, int]] = []
        units: set[Unit | None] = set()
        for i, shape in enumerate(shapes):
            amount = shape.free.get(name)
            if isinstance(amount, (int, float)):
                having.append((amount, i))
                units.add(shape.units.get(name))
        finite = all(abs(amount) < math.inf for amount, _ in having)
        self._comparable = finite and len(units) <= 1
        self._unit = next(iter(units), None)
        having.sort()
        self._sorted = [amount for amount, _ in having]
        # the buckets from the i-th smallest amount on
        self._from = [0] * (len(having) + 1)
        for index in range(len(having) - 1, -1, -1):
            self._from[index] = self._from[index + 1] | 1 << having[index][1]

    def at_least(self, amount: Quantity, sized: bool) -> int | None:
        """Who has an amount, in bytes (`sized`) or in the unit that nodes have it in; None where
        that is not a plain comparison."""
        needed = amount if sized or self._unit is None else amount * self._unit.factor
        if not self._comparable or needed <= 0:
            return None
        amounts = self._sorted
        index = bisect_left(amounts, needed)
        # what is less by no more than the rounding that `how_many` forgives is a question for it
        if index and amounts[index - 1] >= just_enough(needed):
            return None
        return self._from[index]
