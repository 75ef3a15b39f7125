"""The linear programme over the loads that are known so far, solved by HiGHS.

A column is a load of a bin: how many nodes get it is to be found. Rows say that every item is
placed, that no bin has more nodes than there are, and that no shared limit is exceeded. Rows that
cannot bind are left out. `highspy` is imported when a master is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hpc.autoscale.packing.leastcost.plan import Load
from hpc.autoscale.packing.leastcost.problem import Problem

_PER_NODE = 2e-5


class Prices(NamedTuple):
    """What the rows are worth: a unit of each item (0 or more), one more node of each bin, and one
    more node and core under each limit (all 0 or less)."""

    items: list[float]
    bins: list[float]
    limit_nodes: list[float]
    limit_cores: list[float]


class Master:
    """Columns are added and never taken away; `solve` goes on from where it was."""

    def __init__(self, problem: Problem, wanted: Sequence[float] | None = None) -> None:
        """`wanted`: of what a column may hold, in place of the units of the problem's items; nodes
        then go to what they cost alone."""
        import highspy

        self._problem = problem
        solver: Any = highspy.Highs
        self._highs: Any = solver()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("threads", 1)
        self._infinity = highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._integer = highspy.HighsVarType.kInteger
        self._continuous = highspy.HighsVarType.kContinuous
        self.columns: list[tuple[int, Load]] = []
        self._known: set[tuple[int, object]] = set()
        self._rows = 0
        highest = max((bin_.price for bin_ in problem.bins), default=0.0)
        self._per_node = _PER_NODE * highest if wanted is None else 0.0
        amounts = problem.units if wanted is None else wanted
        self._item_rows = [self._row(float(n), self._infinity) for n in amounts]
        units = sum(problem.units)
        self._bin_rows = [self._row_up_to(bin_.nodes, units) for bin_ in problem.bins]
        most_cores = [0] * len(problem.limits)
        for bin_ in problem.bins:
            for a in bin_.limits:
                most_cores[a] = max(most_cores[a], bin_.candidate.cores)
        charged = [sum(a in b.limits for b in problem.bins) for a in range(len(most_cores))]
        self._node_rows: list[int | None] = []
        self._core_rows: list[int | None] = []
        for a, limit in enumerate(problem.limits):
            shared = charged[a] > 1
            self._node_rows.append(self._row_up_to(limit.nodes, units) if shared else None)
            most = units * most_cores[a]
            self._core_rows.append(self._row_up_to(limit.cores, most) if shared else None)

    def _row(self, lower: float, upper: float) -> int:
        self._highs.addRow(lower, upper, 0, [], [])
        self._rows += 1
        return self._rows - 1

    def _row_up_to(self, limit: int, most: int) -> int | None:
        return self._row(-self._infinity, float(limit)) if limit < most else None

    def add(self, number: int, load: Load) -> bool:
        """A column for bin `number`. False when it is known already."""
        if (number, load) in self._known:
            return False
        self._known.add((number, load))
        self.columns.append((number, load))
        self._add(number, load)
        return True

    def add_amounts(self, number: int, amounts: Sequence[tuple[int, float]]) -> None:
        """A column that holds parts; only for a master that does not hold loads."""
        self._add(number, amounts)

    def _add(self, number: int, load: Sequence[tuple[int, float]]) -> None:
        bin_ = self._problem.bins[number]
        entries = {self._item_rows[i]: float(n) for i, n in load}
        row = self._bin_rows[number]
        if row is not None:
            entries[row] = 1.0
        for a in bin_.limits:
            row = self._node_rows[a]
            if row is not None:
                entries[row] = 1.0
            row = self._core_rows[a]
            if row is not None and bin_.candidate.cores:
                entries[row] = float(bin_.candidate.cores)
        rows, values = list(entries), list(entries.values())
        # of plans at one price, the one of fewer nodes, and then of those that come first
        later = number / len(self._problem.bins)
        cost = bin_.price + self._per_node * (1 + later) if bin_.price else 0.0
        self._highs.addCol(cost, 0.0, self._infinity, len(rows), rows, values)

    def solve(self) -> tuple[list[float], float] | None:
        """Nodes by column, and what they cost; None when the rows cannot all be met."""
        self._highs.run()
        if self._highs.getModelStatus() != self._optimal:
            return None
        cost: float = self._highs.getInfo().objective_function_value
        return list(self._highs.getSolution().col_value), cost

    def prices(self) -> Prices:
        """The duals of the last solution."""
        duals: list[float] = list(self._highs.getSolution().row_dual)
        items = [max(0.0, duals[row]) for row in self._item_rows]

        def of(rows: Sequence[int | None]) -> list[float]:
            return [0.0 if row is None else min(0.0, duals[row]) for row in rows]

        return Prices(items, of(self._bin_rows), of(self._node_rows), of(self._core_rows))

    def solve_whole(self, seconds: float, nodes: int, gap: float) -> list[int] | None:
        """Whole numbers of nodes by column, from the columns that there are; None when none were
        found in time.

        `nodes`: of the search tree, at most. `gap`: relative, to stop at. Ends the use of this
        master."""
        count = len(self.columns)
        highs = self._highs
        highs.changeColsIntegrality(count, list(range(count)), [self._integer] * count)
        highs.setOptionValue("mip_rel_gap", gap)
        highs.setOptionValue("mip_max_nodes", nodes)
        if math.isfinite(seconds):
            highs.setOptionValue("time_limit", highs.getRunTime() + max(0.01, seconds))
        highs.run()
        values = list(highs.getSolution().col_value)
        if len(values) != count or not math.isfinite(highs.getInfo().mip_gap):
            return None
        return [round(value) for value in values]
