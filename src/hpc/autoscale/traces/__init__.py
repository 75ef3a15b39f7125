"""A recorded workload through the real loop in virtual time: what `azscale simulate` does.

`opening` reads a file of jobs (`swf`, `accounting`) as a `Trace`; `playing` lets the jobs arrive at
a scheduler in memory (`scheduling`, with the driver in `driver`) whose nodes are those of the
simulator's cluster model (`binding`), and calls `Autoscaler.run_once` as cron would. `measures`
says what came of it, and `choices` makes the configurations that are compared. Nothing here runs
against a real cluster.
"""
