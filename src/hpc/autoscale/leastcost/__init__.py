"""Least-cost packing: which nodes, and how many, for the least price per hour under all constraints
and limits.

An optional strategy for whole queues, above the engine, jobs and the node manager, none of which
knows it. All but `strategy` and `execution` decide and change nothing, as the engine does: prices
and the time that may be spent are arguments there. numpy and HiGHS are imported where they are
first used; without them the greedy plan is the plan.

| module | what |
| --- | --- |
| `problem` | the problem as numbers; patterns, and plans as lots |
| `greedy` | the greedy plan |
| `generation` | column generation, rounding, and the solution with its lower bound |
| `master` | the master problem, dual prices and bounds |
| `knapsack` | the pricing problem |
| `filling` | node by node, for thousands of different items |
| `strategy` | the door: places a queue in the best of several ways |
| `execution` | prices, copies, plans made true on a cluster, and what they cost |
| `queue` | a queue with its order, what a plan means for its demands, a copy of the engine to try |
"""
