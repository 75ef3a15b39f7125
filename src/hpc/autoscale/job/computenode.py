"""The old name of `hpc.autoscale.job.schedulernode`, for older code. Importing it warns."""

import warnings

from hpc.autoscale.job.schedulernode import SchedulerNode as SchedulerNode

warnings.warn(
    "hpc.autoscale.job.computenode is now hpc.autoscale.job.schedulernode",
    DeprecationWarning,
    stacklevel=2,
)
