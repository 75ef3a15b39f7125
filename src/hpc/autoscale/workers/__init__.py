"""Workers that are wanted by number, for queues of very many short jobs.

A queue whose workers pull jobs does not say where each job goes. It says how many jobs wait and
run; `WorkerDemand` makes of that how many workers are wanted, and a job for the calculator that
wants their nodes. `MeanRunTime` is the mean that a queue keeps of how long its jobs take.
"""

from hpc.autoscale.workers.demand import (
    DEFINITION,
    MeanRunTime,
    WorkerDemand,
    WorkerDemandError,
    WorkerJob,
    in_nodearrays,
)
from hpc.autoscale.workers.keeping import prepare

__all__ = [
    "DEFINITION",
    "MeanRunTime",
    "WorkerDemand",
    "WorkerDemandError",
    "WorkerJob",
    "in_nodearrays",
    "prepare",
]
