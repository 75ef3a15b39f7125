"""What a queue costs that was placed by price: the answer that a demand carries beside its nodes.

Made by the least-cost mode of a calculator; the summary of a pass and the command line say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FIRST_FIT = "first fit"
"""The method of what is in no plan."""


class PlanCost(NamedTuple):
    """What the new nodes cost beside those that run, in US dollars per hour.

    `price_per_hour` is that of all of them with a price: what least-cost plans open, and
    `others_per_hour`, for jobs that are in no plan (gangs, jobs that scatter, what the engine does
    not wholly understand, and what is left over). Of the planned part: `lower_bound`, that no plan
    of the same jobs costs less than, each plan taken for itself where there were several; and
    `gap`, by how much its price may be above the least, as a part of the bound, None when that is
    not known. `method`: "first fit" without any plan, "greedy", "column generation" where that
    found anything better, or the policy under which first fit came to less. `unpriced`: nodes that
    no price is known of, by bucket; they are in no figure. `queues`: how many were handed over one
    after another and planned each for itself, `one_by_one` where each of them was a single job: the
    bound is then the sum of theirs, and says nothing of all together."""

    price_per_hour: float
    lower_bound: float
    gap: float | None
    method: str
    unpriced: Mapping[str, int]
    others_per_hour: float = 0.0
    queues: int = 1
    one_by_one: bool = False

    @property
    def planned_per_hour(self) -> float:
        """The part that `lower_bound` and `gap` are about."""
        return max(0.0, self.price_per_hour - self.others_per_hour)

    @property
    def total_per_hour(self) -> float | None:
        """All new nodes together; None when the price of one of them is not known."""
        return None if self.unpriced else self.price_per_hour

    def __str__(self) -> str:
        said = f"${self.price_per_hour:,.4f} per hour"
        if self.method == FIRST_FIT:
            said += " for jobs that are in no plan"
        else:
            said += f", {self._of_the_least()} ({self.method})"
            if self.others_per_hour:
                said += f"; ${self.others_per_hour:,.4f} of it are for jobs that are in no plan"
        if self.unpriced:
            listed = ", ".join(f"{n} of {bucket}" for bucket, n in self.unpriced.items())
            said += f"; besides, of unknown price: {listed}"
        return said

    def _of_the_least(self) -> str:
        planned = "the planned part " if self.others_per_hour else ""
        if self.gap is None:
            return f"{planned}by how much above the least is not known"
        each = ""
        if self.queues > 1:
            each = f" of each of {self.queues} {'jobs' if self.one_by_one else 'queues'} by itself"
        return f"{planned}at most {self.gap:.3%} above the least{each}"
