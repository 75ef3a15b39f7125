"""The master problem of column generation (Gilmore and Gomory, 1961), and lower bounds from its
dual prices.

A column is a pattern of a bin; its variable says on how many nodes the pattern is used, parts of
nodes included. Rows say that every item is placed, that no bin has more nodes than there are, and
that no shared limit is exceeded; rows that cannot bind are left out. HiGHS solves it, and is
imported when a master is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hpc.autoscale.leastcost.problem import Pattern, Problem

_PER_NODE = 2e-5
"""Added to the cost of a column, as a part of the highest price: of two plans at one price the one
of fewer nodes is better."""

SINGLE_PRECISION = 4e-6
"""Relative error of the value of a pattern, which the knapsack sums up in single precision."""


class Duals(NamedTuple):
    """Dual prices of the rows: of a unit of each item (0 or more), of one more node of each bin,
    and of one more node and core under each limit (all 0 or less)."""

    items: list[float]
    bins: list[float]
    limit_nodes: list[float]
    limit_cores: list[float]


def _silent_solver() -> Any:
    """A new solver that prints nothing, whose output would go where the command line's own goes.

    HiGHS 1.16 greets when a solver is given its callbacks, which is while it is made."""
    import highspy

    base: Any = highspy.Highs

    class Silent(base):  # type: ignore[misc]
        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    solver = Silent()
    solver.setOptionValue("output_flag", False)  # also where it is made without that
    return solver


class Master:
    """The linear programme. Columns are only added; `solve` starts from the last solution."""

    def __init__(self, problem: Problem, wanted: Sequence[float] | None = None) -> None:
        """`wanted`: the right sides of rows of amounts, which stand in place of the rows of items;
        a column then costs what its node costs and nothing more."""
        import highspy

        self._problem = problem
        self._highs = _silent_solver()
        self._highs.setOptionValue("threads", 1)
        self._infinity = highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal
        # as keys, in the order in which they were added
        self.columns: dict[tuple[int, Pattern], None] = {}
        self._rows = 0
        highest = max((bin_.price for bin_ in problem.bins), default=0.0)
        self._per_node = _PER_NODE * highest if wanted is None else 0.0
        amounts = problem.units if wanted is None else wanted
        self._item_rows = [self._row(float(n), self._infinity) for n in amounts]
        units = sum(problem.units)
        self._bin_rows = [self._row_up_to(bin_.nodes, units) for bin_ in problem.bins]
        self._node_rows: list[int | None] = []
        self._core_rows: list[int | None] = []
        for a, limit in enumerate(problem.limits):
            cores = [bin_.candidate.cores for bin_ in problem.bins if a in bin_.limits]
            # the limit of a single bin is in the bin's number of nodes
            shared, most = len(cores) > 1, units * max(cores, default=0)
            self._node_rows.append(self._row_up_to(limit.nodes, units) if shared else None)
            self._core_rows.append(self._row_up_to(limit.cores, most) if shared else None)

    def _row(self, lower: float, upper: float) -> int:
        self._highs.addRow(lower, upper, 0, [], [])
        self._rows += 1
        return self._rows - 1

    def _row_up_to(self, limit: int, most: int) -> int | None:
        """A row for an upper limit; None where no plan can use more than `most` of it, which is
        less."""
        return self._row(-self._infinity, float(limit)) if limit < most else None

    def add(self, number: int, pattern: Pattern) -> bool:
        """Add a pattern of bin `number` as a column; False when it is one already."""
        if (number, pattern) in self.columns:
            return False
        self.columns[number, pattern] = None
        self.add_amounts(number, pattern)
        return True

    def add_amounts(self, number: int, amounts: Sequence[tuple[int, float]]) -> None:
        """A column of bin `number` with what it adds to the rows of items or amounts."""
        bin_ = self._problem.bins[number]
        entries = {self._item_rows[i]: float(n) for i, n in amounts}
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
        """Nodes by column, and what they cost; None when not all rows can be met."""
        self._highs.run()
        if self._highs.getModelStatus() != self._optimal:
            return None
        cost: float = self._highs.getInfo().objective_function_value
        return list(self._highs.getSolution().col_value), cost

    def duals(self) -> Duals:
        """The dual prices of the last solution."""
        values: list[float] = list(self._highs.getSolution().row_dual)
        items = [max(0.0, values[row]) for row in self._item_rows]

        def of(rows: Sequence[int | None]) -> list[float]:
            return [0.0 if row is None else min(0.0, values[row]) for row in rows]

        return Duals(items, of(self._bin_rows), of(self._node_rows), of(self._core_rows))


def lagrangian_bound(problem: Problem, duals: Duals, best: Sequence[float]) -> float:
    """A lower bound on the price of placing everything. `best`: at least the value, at the dual
    prices, of the best pattern of each bin.

    This is the bound of Farley (1990) with limited bins: where no pattern is worth more than its
    node costs, the dual prices are feasible, and the worth of all items is a bound. Where one is,
    all dual prices are scaled down until it is not. Nodes that cost nothing themselves are paid
    for by what they could hold."""
    worth = sum(price * n for price, n in zip(duals.items, problem.units, strict=True))
    for a, limit in enumerate(problem.limits):
        worth += duals.limit_nodes[a] * limit.nodes + duals.limit_cores[a] * limit.cores
    scale = 1.0
    for number, bin_ in enumerate(problem.bins):
        value = best[number] * (1 + SINGLE_PRECISION)
        charge = charge_of(problem, duals, number)
        due = -duals.bins[number]
        if bin_.price + charge + due <= 0 or not bin_.price:
            due = max(0.0, value - charge)
        elif value > 0:
            # what is due and charged is scaled down too: only the node's own price stays
            scale = max(scale, (value - charge - due) / bin_.price)
        worth -= due * bin_.nodes
    return max(0.0, worth / scale)


def charge_of(problem: Problem, duals: Duals, number: int) -> float:
    """What one more node of bin `number` takes from the limits, at their dual prices."""
    bin_ = problem.bins[number]
    return -sum(
        duals.limit_nodes[a] + duals.limit_cores[a] * bin_.candidate.cores for a in bin_.limits
    )


def simple_bound(problem: Problem) -> float:
    """A lower bound from each resource by itself: what is wanted of it, less what nodes have that
    run already, at the least price for which it can be had. Needs no solver."""
    found = 0.0
    for d, wanted in enumerate(_wanted(problem)):
        wanted -= sum(b.capacity[d] * b.nodes for b in problem.bins if not b.price)
        having = [b.price / b.capacity[d] for b in problem.bins if b.price and b.capacity[d]]
        found = max(found, wanted * min(having, default=0.0))
    return found * (1 - 1e-9)


class Relaxation(NamedTuple):
    """The linear programme over amounts alone, as if items could be cut into parts of resources.
    `bound`: on the price of placing everything. `duals`: of limits and bins. `by_dimension`: the
    dual price of a unit of each resource."""

    bound: float
    duals: Duals
    by_dimension: list[float]


def resource_relaxation(problem: Problem) -> Relaxation | None:
    """None when the limits do not allow for what is wanted. ImportError without highspy."""
    wanted = _wanted(problem)
    largest = [
        max((float(b.capacity[d]) for b in problem.bins), default=0.0) for d in range(len(wanted))
    ]
    used = [d for d, n in enumerate(wanted) if n > 0 and largest[d] > 0]
    master = Master(problem, [wanted[d] / largest[d] for d in used])
    for number, bin_ in enumerate(problem.bins):
        parts = [(row, bin_.capacity[d] / largest[d]) for row, d in enumerate(used)]
        master.add_amounts(number, [(row, amount) for row, amount in parts if amount])
    solved = master.solve()
    if solved is None:
        return None
    duals = master.duals()
    by_dimension = [0.0] * len(wanted)
    for row, d in enumerate(used):
        by_dimension[d] = duals.items[row] / largest[d]
    return Relaxation(max(0.0, solved[1] * (1 - 1e-6)), duals, by_dimension)


def _wanted(problem: Problem) -> list[float]:
    """What all items together take of each resource at least."""
    found = [0.0] * len(problem.dimensions)
    for i, item in enumerate(problem.items):
        ways = [dict(u.amounts) for usages in {p[i] for p in problem.profiles} for u in usages]
        for d in range(len(found)):
            found[d] += item.units * min((way.get(d, 0) for way in ways), default=0)
    return found
