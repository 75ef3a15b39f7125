"""Plug-ins of the server's side: one that watches a system, and one that decides from what it saw.

A system without an integration needs no `SchedulerDriver` of its own. A `MonitoringPlugin` says
what the system is like, an `AutoscalePlugin` says which nodes that takes, and `PluginDriver` makes
a driver of the two, which `azscale autoscale` and `Autoscaler` run like any other. `StateLog` keeps
states in a file, and `ScaleByJobs` wants the cores of all jobs.
"""

from hpc.autoscale.plugins.driver import MAX_AGE_SECONDS, PluginDriver, ScaleByJobs
from hpc.autoscale.plugins.roles import (
    AutoscalePlugin,
    ClusterState,
    JobState,
    MonitoringPlugin,
)
from hpc.autoscale.plugins.statelog import StateLog, StateLogError

__all__ = [
    "MAX_AGE_SECONDS",
    "AutoscalePlugin",
    "ClusterState",
    "JobState",
    "MonitoringPlugin",
    "PluginDriver",
    "ScaleByJobs",
    "StateLog",
    "StateLogError",
]
