"""CommonCLI: all commands together, for integrations to derive from."""

from hpc.autoscale.cli.autoscaling import AutoscalingCommands
from hpc.autoscale.cli.cluster import ClusterCommands
from hpc.autoscale.cli.configuration import ConfigurationCommands
from hpc.autoscale.cli.creation import CreationCommands
from hpc.autoscale.cli.nodes import NodeCommands
from hpc.autoscale.cli.shells import ShellCommands


class CommonCLI(
    AutoscalingCommands,
    ClusterCommands,
    ConfigurationCommands,
    CreationCommands,
    NodeCommands,
    ShellCommands,
):
    """The command line of an integration, but for the abstract methods. Every public method is a
    sub-command."""
