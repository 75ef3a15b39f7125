"""Least-cost packing: which nodes, and how many, for the least price per hour under all constraints
and limits.

Like the rest of the engine it decides and changes nothing. Prices and the time that may be spent
are arguments. numpy and HiGHS are imported where they are first used; without them the greedy plan
is the plan. `node.nodemanager.leastcost` carries plans out.

| module | what |
| --- | --- |
| `problem` | the problem as numbers; patterns, and plans as lots |
| `greedy` | the greedy plan |
| `grouping` | the greedy plan for thousands of different items |
| `generation` | column generation, rounding, and the solution with its lower bound |
| `master` | the master problem, dual prices and bounds |
| `knapsack` | the pricing problem |
| `filling` | node by node, for thousands of different items |
| `queue` | a queue with its order, what a plan means for its demands, a copy of the engine to try |
"""

from hpc.autoscale.packing.leastcost.generation import (
    COLUMNS,
    GREEDY,
    Effort,
    Solution,
    gap_of,
    solve,
)
from hpc.autoscale.packing.leastcost.problem import (
    Bin,
    Item,
    Lot,
    Pattern,
    PriceOf,
    Problem,
    is_plain,
)
from hpc.autoscale.packing.leastcost.queue import (
    EngineCopy,
    Layout,
    QueuePlan,
    Score,
    Wanted,
    opened_of,
    plan_queue,
    room_for_all,
)

__all__ = [
    "COLUMNS",
    "GREEDY",
    "Bin",
    "Effort",
    "EngineCopy",
    "Item",
    "Layout",
    "Lot",
    "Pattern",
    "PriceOf",
    "Problem",
    "QueuePlan",
    "Score",
    "Solution",
    "Wanted",
    "gap_of",
    "is_plain",
    "opened_of",
    "plan_queue",
    "room_for_all",
    "solve",
]
