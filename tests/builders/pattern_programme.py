"""The bound of least-cost problems by a second formulation: every load that fits a node is written
down beforehand.

A linear programme with a column for each load of each kind of node, solved as a whole by SciPy. It
shares nothing with the library, imports nothing of it, and is for problems that are small enough
for it. With whole numbers it is the least price itself. `arc_flow` is a third formulation, for
problems of one resource.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

Floats = NDArray[np.float64]
NodeKind = tuple[dict[str, int], float, float, int | None, int, bool]

AMOUNTS = ("ncpus", "memgb")


def quotas_left(problem: dict[str, Any]) -> list[float]:
    """What is left of each quota beside the nodes that are there."""
    taken = [0, 0]
    for each in problem["bins"]:
        taken[each["quota"]] += each["ncpus"] * len(each["there"])
    return [
        np.inf if quota is None else max(0, quota - used)
        for quota, used in zip(problem["quotas"], taken, strict=True)
    ]


def nodes_of(problem: dict[str, Any]) -> Iterator[NodeKind]:
    """The kinds of nodes: (what each has, price, how many, cores against which quota or None,
    whether others are on it)."""
    left = quotas_left(problem)
    for each in problem["bins"]:
        whole = {name: each[name] for name in AMOUNTS}
        # there are no parts of nodes, whatever a quota leaves of one
        most = min(each["most"] - len(each["there"]), left[each["quota"]] // each["ncpus"])
        yield whole, each["price"], max(0, most), each["quota"], each["ncpus"], False
        for there in each["there"]:
            yield there, 0.0, 1, None, 0, True


def loads_of(
    free: Mapping[str, int], items: list[dict[str, Any]], occupied: bool
) -> list[tuple[int, ...]]:
    """Every way to fill a node: units by item. An item that closes is there once and alone."""
    ways = [
        (number, way)
        for number, item in enumerate(items)
        for way in item["ways"]
        if not way["closes"]
    ]
    found = set(_filled(free, ways, len(items), [item["units"] for item in items]))
    for number, item in enumerate(items):
        if not occupied and any(way["closes"] and _fits(way, free) for way in item["ways"]):
            found.add(tuple(int(other == number) for other in range(len(items))))
    return sorted(found)


def _fits(way: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(way[name] <= free[name] for name in AMOUNTS)


def _filled(
    free: Mapping[str, int],
    ways: list[tuple[int, dict[str, Any]]],
    items: int,
    units: Sequence[int],
) -> Iterator[tuple[int, ...]]:
    """Loads of the ways that close nothing, by trying every number of each."""
    counts = []
    for number, way in ways:
        most = units[number]
        for name in AMOUNTS:
            if way[name]:
                most = min(most, free[name] // way[name])
        counts.append(range(most + 1))
    for chosen in product(*counts):
        if all(
            sum(n * way[name] for n, (_, way) in zip(chosen, ways, strict=True)) <= free[name]
            for name in AMOUNTS
        ):
            load = [0] * items
            for n, (number, _) in zip(chosen, ways, strict=True):
                load[number] += n
            if all(n <= most for n, most in zip(load, units, strict=True)):
                yield tuple(load)


def programme(problem: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """(prices, rows, at most): the linear programme min prices·x with rows·x <= at most."""
    items = problem["items"]
    prices, columns = [], []
    kinds = list(nodes_of(problem))
    rows = len(items) + len(kinds) + len(problem["quotas"])
    for kind, (free, price, _, quota, cores, occupied) in enumerate(kinds):
        for load in loads_of(free, items, occupied):
            column = np.zeros(rows)
            column[: len(items)] = [-n for n in load]
            column[len(items) + kind] = 1
            if quota is not None:
                column[len(items) + len(kinds) + quota] = cores
            prices.append(price)
            columns.append(column)
    wanted = [-item["units"] for item in items]
    most = wanted + [kind[2] for kind in kinds] + quotas_left(problem)
    return np.array(prices), np.array(columns).T, np.array(most, dtype=float)


def lower_bound(problem: dict[str, Any]) -> float | None:
    """What the linear programme comes to; None when not everything can be placed."""
    prices, rows, most = programme(problem)
    bounded = np.isfinite(most)
    found = linprog(prices, A_ub=rows[bounded], b_ub=most[bounded], method="highs")
    return float(found.fun) if found.status == 0 else None


def least_price(problem: dict[str, Any]) -> float | None:
    """The least price in whole nodes; None when not everything can be placed."""
    prices, rows, most = programme(problem)
    found = milp(
        prices,
        integrality=np.ones(len(prices)),
        bounds=Bounds(0, np.inf),
        constraints=LinearConstraint(rows, -np.inf, most),
        options={"mip_rel_gap": 0.0, "time_limit": 20.0},
    )
    return float(found.fun) if found.status == 0 else None


def arc_flow(
    sizes: Sequence[int], units: Sequence[int], capacities: Sequence[int], prices: Sequence[float]
) -> float:
    """The bound of a problem of one resource without limits, as flows from 0 to the capacity of a
    node: an arc for each unit that begins at a place, arcs of 1 for what stays free. `units` must
    be no fewer than fit a node.
    """
    longest = max(capacities)
    arcs: list[tuple[int, int, int | None]] = [
        (start, start + size, item)
        for item, size in enumerate(sizes)
        for start in range(longest - size + 1)
    ]
    arcs += [(start, start + 1, None) for start in range(longest)]
    width = len(arcs) + len(capacities)
    balance = np.zeros((longest + 1, width))
    demand = np.zeros((len(sizes), width))
    for column, (start, end, item) in enumerate(arcs):
        balance[start, column] -= 1
        balance[end, column] += 1
        if item is not None:
            demand[item, column] = -1
    for index, capacity in enumerate(capacities):
        # a node: flow begins at 0 and ends at its capacity
        balance[0, len(arcs) + index] += 1
        balance[capacity, len(arcs) + index] -= 1
    found = linprog(
        [0.0] * len(arcs) + list(prices),
        A_ub=demand,
        b_ub=[-n for n in units],
        A_eq=balance,
        b_eq=np.zeros(longest + 1),
        method="highs",
    )
    return float(found.fun)
