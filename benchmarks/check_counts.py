"""How many iterations of each job are on each node, found again from what is left of both.

A node says which jobs it has, and not how often. From what the nodes have left and what of the jobs
is placed follows an integer problem; where it has a solution the plan adds up, and where it has
none somebody has miscounted. Used by `check_plan`. SciPy solves it (imported here alone, and only
when a job has several iterations on several nodes); the solution is then checked by plain
arithmetic.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from check_constraints import Amounts, Choice

TOLERANCE = 1e-5
"""Amounts are floats, of which a few hundred are summed up."""


class Pair(NamedTuple):
    """A job on a node. `choices`: how it may be there; `known`: how often it is, None when that is
    to be found."""

    job: str
    node: str
    choices: Sequence[Choice]
    known: int | None


Counts = dict[tuple[str, str], dict[int, int]]
"""By job and node: how often which choice was taken."""


def settle(
    pairs: Sequence[Pair], used: Mapping[str, Amounts], placed: Mapping[str, int]
) -> tuple[Counts, list[str]]:
    """Counts that add up, and what does not add up. `used`: what of each node is; `placed`:
    iterations of each job."""
    by_node: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_node[pair.node].append(pair)
    counts: Counts = {}
    problems: list[str] = []
    open_nodes = []
    for node, amounts in used.items():
        mine = by_node.get(node, [])
        if all(pair.known is not None and len(pair.choices) == 1 for pair in mine):
            for pair in mine:
                counts[pair.job, node] = {0: pair.known or 0}
            problems += _miscounted(node, mine, counts, amounts)
        else:
            open_nodes.append(node)
    unknown = [pair for node in open_nodes for pair in by_node[node]]
    if unknown:
        found = _solved(unknown, used, _still_to_find(unknown, counts, placed))
        if found is None:
            names = ", ".join(sorted({pair.job for pair in unknown})[:5])
            problems.append(
                f"no number of iterations on each of {len(open_nodes)} nodes explains both "
                "what they have left and what "
                f"was placed of {names}"
            )
        else:
            counts.update(found)
            for node in open_nodes:
                problems += _miscounted(node, by_node[node], counts, used[node])
    return counts, problems


def _still_to_find(
    unknown: Sequence[Pair], counts: Counts, placed: Mapping[str, int]
) -> dict[str, int]:
    """Iterations of each job that are on the nodes still to be settled."""
    known: dict[str, int] = defaultdict(int)
    for (job, _), taken in counts.items():
        known[job] += sum(taken.values())
    return {pair.job: placed[pair.job] - known[pair.job] for pair in unknown}


def _miscounted(node: str, pairs: Sequence[Pair], counts: Counts, used: Amounts) -> list[str]:
    """Resources of which the jobs on a node take another amount than what is gone."""
    total: dict[str, float] = defaultdict(float)
    for pair in pairs:
        for index, count in counts[pair.job, node].items():
            for name, amount in pair.choices[index].takes.items():
                total[name] += amount * count
    names = sorted({*total, *used})
    return [
        f"{node}: its jobs take {total[name]:g} of {name}, and {used.get(name, 0.0):g} are gone"
        for name in names
        if abs(total[name] - used.get(name, 0.0)) > TOLERANCE
    ]


def _solved(
    pairs: Sequence[Pair], used: Mapping[str, Amounts], to_find: Mapping[str, int]
) -> Counts | None:
    """Counts for pairs, each at least once, earlier choices before later ones; None when there are
    none."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    columns = [(pair, index) for pair in pairs for index in range(len(pair.choices))]
    rows = _Rows()
    for column, (pair, index) in enumerate(columns):
        least, most = (1, float("inf")) if pair.known is None else (pair.known, pair.known)
        rows.add(("pair", pair.job, pair.node), column, 1.0, least, most)
        if pair.known is None:
            whole = to_find[pair.job]
            rows.add(("job", pair.job), column, 1.0, whole, whole)
        for name, amount in pair.choices[index].takes.items():
            gone = used[pair.node].get(name, 0.0)
            rows.add((pair.node, name), column, amount, gone - TOLERANCE, gone + TOLERANCE)
    matrix = csr_array(
        (rows.values, (rows.numbers, rows.columns)), shape=(len(rows.least), len(columns))
    )
    found = milp(
        [float(index) for _, index in columns],
        integrality=[1] * len(columns),
        bounds=Bounds(0, float("inf")),
        constraints=LinearConstraint(matrix, rows.least, rows.most),
        options={"time_limit": 60.0},
    )
    if found.x is None:
        return None
    counts: Counts = defaultdict(dict)
    for (pair, index), value in zip(columns, found.x, strict=True):
        if round(value):
            counts[pair.job, pair.node][index] = round(value)
    return dict(counts)


class _Rows:
    """The rows of a matrix, made as they are first named."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self.values: list[float] = []
        self.numbers: list[int] = []
        self.columns: list[int] = []
        self.least: list[float] = []
        self.most: list[float] = []

    def add(self, key: Any, column: int, value: float, least: float, most: float) -> None:
        """An entry in the row of a key."""
        number = self._known.setdefault(key, len(self._known))
        if number == len(self.least):
            self.least.append(least)
            self.most.append(most)
        self.values.append(value)
        self.numbers.append(number)
        self.columns.append(column)
