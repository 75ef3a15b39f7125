"""What placing a queue in one way would come to: tried on a copy of the engine's state.

Ways to place a queue are compared by what they come to: how much is placed, on how many nodes whose
price is not known, and at which price per hour. The state itself is never changed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.leastcost.problem import PriceOf, known_price
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.planner import Planner


class Came(NamedTuple):
    """What a way comes to, so that the better of two is the greater: units that are placed, nodes
    of unknown price and price per hour of what is opened, the latter two below 0."""

    units: int = 0
    less_unpriced: int = 0
    less_price: float = 0.0

    def is_better_than(self, other: Came) -> bool:
        """Whether it is better by more than rounding."""
        if self[:2] != other[:2]:
            return self[:2] > other[:2]
        return self.less_price > other.less_price + 1e-9 * abs(other.less_price)


class Copy:
    """A copy of the engine's state, to place demands on, with its candidates in declared order
    until `planner.arrange` is set. `came`: what was placed so far, and what it costs."""

    def __init__(self, planner: Planner, price_of: PriceOf) -> None:
        self.planner = Planner(planner.existing_first)
        self.planner.table = planner.table
        self._price = price_of
        self._prices: dict[Candidate, float | None] = {}
        self.of: dict[Candidate, Candidate] = {}
        self.original: dict[Candidate, Candidate] = {}
        # limits are shared by candidates, and one may show another; nobody hears of charges to
        # copies
        memo: dict[int, object] = {}
        for candidate in planner.candidates:
            for limit in candidate.limits:
                if limit.told is not None:
                    memo[id(limit.told)] = None
        for candidate in planner.candidates:
            copied = _copied(candidate, [deepcopy(limit, memo) for limit in candidate.limits])
            self.of[candidate], self.original[copied] = copied, candidate
            self.planner.add(copied)
        self.came = Came()

    def price_of(self, candidate: Candidate) -> float | None:
        """The price of a new node of one of its candidates."""
        return self._price(self.original[candidate])

    def place(self, expr: Expr, request: Request) -> int:
        """Place one demand by first fit; how many units."""
        plan = self.planner.plan(self.planner.cursor(expr), request, explain=False)
        if plan:
            self._apply(plan)
        return plan.units

    def commit(self, plan: Plan) -> None:
        """Make a plan true that was made from the copy by other means."""
        self.planner.adopt(plan)
        self._apply(plan)

    def _apply(self, plan: Plan) -> None:
        self.planner.apply(plan)
        units, unpriced, price = self.came
        for candidate, lo, hi, _, before, _, opened in plan.steps:
            if opened or before.dormant:
                if candidate not in self._prices:
                    self._prices[candidate] = known_price(self.price_of(candidate))
                each = self._prices[candidate]
                if each is None:
                    unpriced -= hi - lo
                else:
                    price -= each * (hi - lo)
        self.came = Came(units + plan.units, unpriced, price)


def _copied(candidate: Candidate, limits: Sequence[Limit]) -> Candidate:
    made = Candidate(
        candidate.name,
        candidate.bucket_shape,
        candidate.new_shape,
        candidate.cores,
        limits,
        candidate.artificial,
    )
    made.reserved, made.since_failure = candidate.reserved, candidate.since_failure
    made.shapes.extend(candidate.shapes)
    return made
