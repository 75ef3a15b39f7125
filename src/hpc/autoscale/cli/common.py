"""CommonCLI: all groups of commands together, for integrations to derive from.

Each group is a class of its own: it knows `base.CommandLine` and no other group.
"""

from hpc.autoscale.cli.autoscaling import AutoscalingCommands
from hpc.autoscale.cli.cluster import ClusterCommands
from hpc.autoscale.cli.configuration import ConfigurationCommands
from hpc.autoscale.cli.create_nodes import CreationCommands
from hpc.autoscale.cli.explaining import ExplainingCommands
from hpc.autoscale.cli.nodes import NodeCommands
from hpc.autoscale.cli.planning import PlanCommands
from hpc.autoscale.cli.shells import ShellCommands
from hpc.autoscale.cli.whatif import WhatIfCommands


class CommonCLI(
    PlanCommands,
    AutoscalingCommands,
    ClusterCommands,
    ConfigurationCommands,
    CreationCommands,
    ExplainingCommands,
    NodeCommands,
    ShellCommands,
    WhatIfCommands,
):
    """The command line of an integration; its abstract methods are the integration's to write.

    Every public method is a sub-command, and a method `x_parser(parser)` adds the options of `x`.
    """
