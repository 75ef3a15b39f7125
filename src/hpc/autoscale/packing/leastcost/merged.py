"""Plans for more different items than can be told apart all the time: by classes, in several turns.

Each turn plans the classes of what is left and keeps the nodes that come out well filled with the
items themselves; what is asked of a node goes down from turn to turn, until all that can be placed
is. What is left at the end is planned item by item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat

from hpc.autoscale.packing.leastcost.greedy import greedy
from hpc.autoscale.packing.leastcost.merging import merge, sizes_of, tell_apart
from hpc.autoscale.packing.leastcost.plan import Lot, Rooms, left_over
from hpc.autoscale.packing.leastcost.problem import Problem

MOST_ITEMS = 200
"""Up to so many items are planned each by itself."""

Turns = Sequence[tuple[int, float]]
"""How many classes, and how full a node must be of what was planned for it. What is left then is
planned as in the last turn, and every node is kept."""

GREEDILY: Turns = ((100, 0.98), (100, 0.97), (100, 0.95), (100, 0.9), (100, 0.0))
ROUGHLY: Turns = ((60, 0.0),)

_WITHOUT_ROOM = 0.9  # where so much of what a turn was to place is left after it, limits are short
_AT_ONCE, _MOST_LEFT = 100, 500

Way = Callable[[Problem], list[Lot]]
"""A way to plan the classes."""


def is_merged(problem: Problem) -> bool:
    """Whether a problem has too many items to plan each by itself."""
    return sum(item.units > 0 for item in problem.items) > MOST_ITEMS


def greedy_lots(problem: Problem, roughly: bool = False) -> list[Lot]:
    """The greedy plan of any problem. `roughly`: in one turn, where there are classes, and not of
    everything."""
    if not is_merged(problem):
        return greedy(problem)
    if roughly:
        return plan_merged(problem, greedy, ROUGHLY, to_the_end=False)
    return plan_merged(problem, greedy, GREEDILY)


def plan_merged(problem: Problem, plan: Way, turns: Turns, to_the_end: bool = True) -> list[Lot]:
    """Lots of single nodes that place as much as finds room, by plans of classes. `to_the_end`:
    what is left is planned item by item."""
    sizes = sizes_of(problem)
    lots: list[Lot] = []
    rest = problem
    for most, at_least in chain(turns, repeat(turns[-1])):
        if not any(rest.units):
            return lots
        classes = merge(rest, most, sizes)
        found = tell_apart(rest, classes, plan(classes.problem), at_least)
        before = sum(rest.units)
        lots += found
        rest = rest_of(problem, lots)
        if not at_least and sum(rest.units) > before * _WITHOUT_ROOM:
            break
    return [*lots, *_one_by_one(problem, lots)] if to_the_end else lots


def rest_of(problem: Problem, lots: list[Lot]) -> Problem:
    """The problem of placing what some lots leave, in the room that they leave."""
    rooms = Rooms(problem)
    for lot in lots:
        rooms.use(lot.bin, lot.nodes)
    return rooms.rest(left_over(problem, lots))


def _one_by_one(problem: Problem, lots: list[Lot]) -> list[Lot]:
    """What else finds room, some items at a time. With very many left there is no room, rather than
    bad luck."""
    found: list[Lot] = []
    wanted = [i for i, units in enumerate(left_over(problem, lots)) if units]
    for start in range(0, min(len(wanted), _MOST_LEFT), _AT_ONCE):
        rest = rest_of(problem, [*lots, *found])
        some = frozenset(wanted[start : start + _AT_ONCE])
        units = [n if i in some else 0 for i, n in enumerate(rest.units)]
        found += greedy(rest.changed(units))
    return found
