"""Least-cost packing: which nodes, and how many, for the least price per hour under all constraints
and limits.

Pure like the rest of the engine: it takes what there is (`Problem.of`), decides (`solve`), and
changes nothing. Prices and the time that may be spent are arguments; numpy and HiGHS are imported
where they are first used, and where they are not installed the greedy way has to do. Called by
`node.nodemanager.leastcost`, which carries plans out."""

from hpc.autoscale.packing.leastcost.generation import Effort
from hpc.autoscale.packing.leastcost.modes import is_plain, may_close
from hpc.autoscale.packing.leastcost.plan import Load, Lot, left_over
from hpc.autoscale.packing.leastcost.problem import Bin, Item, Problem
from hpc.autoscale.packing.leastcost.queue import Cut, moved
from hpc.autoscale.packing.leastcost.solution import COLUMNS, GREEDY, Solution, solve
from hpc.autoscale.packing.leastcost.trial import Came, Copy

__all__ = [
    "Bin",
    "COLUMNS",
    "Came",
    "Copy",
    "Cut",
    "Effort",
    "GREEDY",
    "Item",
    "Load",
    "Lot",
    "Problem",
    "Solution",
    "is_plain",
    "left_over",
    "may_close",
    "moved",
    "solve",
]
