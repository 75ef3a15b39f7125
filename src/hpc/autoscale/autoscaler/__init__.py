"""The autoscaler: reads jobs, works out demand, starts what is missing, joins what is up and lets
go of what is idle.

    summary = Autoscaler(load_config("autoscale.json"), driver).run_once()

An integration writes a `SchedulerDriver` and runs this. `loop` holds the passes together, `passes`
is one of them.
"""

from hpc.autoscale.autoscaler.learning import new_calculator
from hpc.autoscale.autoscaler.loop import Autoscaler
from hpc.autoscale.autoscaler.reading import StaleReading
from hpc.autoscale.autoscaler.repeating import Clock
from hpc.autoscale.autoscaler.reporting import LogReporter, Reporter
from hpc.autoscale.autoscaler.summary import PassError, PassSummary, SetAsideJob, UnsatisfiedJob

__all__ = [
    "Autoscaler",
    "Clock",
    "LogReporter",
    "PassError",
    "PassSummary",
    "Reporter",
    "SetAsideJob",
    "StaleReading",
    "UnsatisfiedJob",
    "new_calculator",
]
