"""The command line: `azscale`, `python -m hpc.autoscale.cli`, and what integrations build theirs
from.

One module per group of commands; `scalelib` is `azscale` itself. `hpc.autoscale.clilib` has the
names that integrations use. Nothing here decides anything: commands ask the library and print what
it says.
"""

from hpc.autoscale.cli.drivers import GenericDriver
from hpc.autoscale.cli.scalelib import DriverCLI, ScaleLibCLI, console_main, main

__all__ = ["DriverCLI", "GenericDriver", "ScaleLibCLI", "console_main", "main"]
