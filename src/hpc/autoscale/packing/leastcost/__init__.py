"""Least-cost packing: which nodes, and how many, for the least price per hour under all constraints
and limits.

Like the rest of the engine it decides and changes nothing. Prices and the time that may be spent
are arguments. numpy and HiGHS are imported where they are first used; without them the greedy plan
is the plan. `node.nodemanager.leastcost` carries plans out.

| module | what |
| --- | --- |
| `problem` | the problem as numbers; patterns, and plans as lots |
| `greedy` | the greedy plan |
| `generation` | column generation, rounding, and the solution with its lower bound |
| `master` | the master problem, dual prices and bounds |
| `knapsack` | the pricing problem |
| `filling` | node by node, for thousands of different items |
| `queue` | a queue with its order, what a plan means for its demands, a copy of the engine to try |
"""
