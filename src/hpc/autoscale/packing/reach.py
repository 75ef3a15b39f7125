"""What is out of reach for every node that is there, found without asking the candidates one by one.

Where a cluster is full, thousands of different demands wait, and none of them fits. `Planner` asks here before it looks at the
candidates for an expression it has not met.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.packing.candidate import Candidate, Journal
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.reading import just_enough

_PATIENCE = 4
"""For so many expressions in a row nothing is worked out: most likely more is added at once, and then it is not worth it."""


class Reach:
    """The most of each resource that any node of some candidates has. Placing work makes it less, which does no harm; it is
    worked out anew when nodes were added or have changed otherwise since, as the journal has it."""

    def __init__(self, candidates: Sequence[Candidate], journal: Journal) -> None:
        self._candidates = candidates
        self._journal = journal
        self._seen = (-1, -1)
        self._asked = 0
        # by resource, and whether it is in bytes
        self._most: dict[tuple[str, bool], float] = {}

    def has(self, expr: Expr) -> bool:
        """Whether, for all that is known of each resource alone, some node may have what an expression takes at least."""
        seen = (len(self._journal.added), len(self._journal.reshaped))
        if seen != self._seen:
            self._seen = seen
            self._most.clear()
            self._asked = 0
        self._asked += 1
        if self._asked <= _PATIENCE:
            return True
        for name, amount, sized in expr.minima:
            most = self._most.get((name, sized))
            if most is None:
                found = [
                    candidate.most(name, sized)
                    for candidate in self._candidates
                    if candidate.shapes
                ]
                most = self._most[name, sized] = max(found, default=float("-inf"))
            if most < just_enough(amount):
                return False
        return True
