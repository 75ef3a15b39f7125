"""The command line: `azscale`, `python -m hpc.autoscale.cli`, and what integrations build theirs
from.

One module per group of commands; `scalelib` is `azscale` itself. `hpc.autoscale.clilib` has the
names that integrations use. Nothing here decides anything: commands ask the library and print what
it says.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.cli.console import console_main
from hpc.autoscale.lazily import offered

if TYPE_CHECKING:
    from hpc.autoscale.cli.drivers import GenericDriver
    from hpc.autoscale.cli.scalelib import DriverCLI, ScaleLibCLI, main
else:
    # `azscale --version` needs none of it
    __getattr__ = offered(
        __name__,
        {
            "DriverCLI": "scalelib",
            "GenericDriver": "drivers",
            "ScaleLibCLI": "scalelib",
            "main": "scalelib",
        },
    )

__all__ = ["DriverCLI", "GenericDriver", "ScaleLibCLI", "console_main", "main"]
