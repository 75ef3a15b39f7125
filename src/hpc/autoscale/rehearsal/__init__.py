"""A rehearsal: the loop's own pass, with its commands recorded and not carried out.

    found = rehearse(load_config("autoscale.json"), driver)
    for change in found.changes:
        print(change.action, change.node or change.count, change.bucket, change.reason)

`rehearsing` holds it together. `passing_on` has a binding and a driver that pass everything on to
others, `recording` those that note commands, `state` copies the files, `changes` says what a row
is, `reasons` why nodes go, `inputs` what a pass was made from, and `plan` keeps all of it in a
file. It changes nothing anywhere; what asks the server and the scheduler is what a pass asks them.
"""

from hpc.autoscale.rehearsal.changes import Cost, PlannedChange
from hpc.autoscale.rehearsal.inputs import Inputs
from hpc.autoscale.rehearsal.plan import PassPlan, PlanError
from hpc.autoscale.rehearsal.rehearsing import NewBinding, Rehearsal, rehearse

__all__ = [
    "Cost",
    "Inputs",
    "NewBinding",
    "PassPlan",
    "PlanError",
    "PlannedChange",
    "Rehearsal",
    "rehearse",
]
