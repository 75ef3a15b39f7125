"""The command weights: the weights of regions that hold now, and where they come from.

Only `azscale` has it. `hpc.autoscale.weights` works them out.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.tables import OutputFormat, print_rows

_COLUMNS = ["region", "weight", "share", "known"]


class WeightCommands(CommandLine):
    """The command weights."""

    def weights_parser(self, parser: ArgumentParser) -> None:
        """Options of weights."""
        self._add_output_format(parser)

    def weights(self, config: Config, output_format: OutputFormat | None = None) -> None:
        """Prints the weights of regions that hold now, by the section weights."""
        from hpc.autoscale.weights.current import SECTION, current_weights

        driver = self._driver(config)
        config = hooks.prepared_config(driver, config)  # and nobody was asked for weights so far
        if not config.get(SECTION):
            raise AutoscaleError("expected the section weights in the configuration, found none")
        found = current_weights(config, driver.autoscale_home)
        most = max(found.weights.values(), default=0) or 1
        # the sum of very large ones is no number any more
        parts = {region: weight / most for region, weight in found.weights.items()}
        whole = sum(parts.values()) or 1
        rows = [
            [region, weight, f"{parts[region] / whole:.3f}", region not in found.unknown]
            for region, weight in found.weights.items()
        ]
        print_rows(_COLUMNS, rows, sys.stdout, output_format or "table")
        if found.taken_at is None:
            warn("these stand in: the provider has never answered")
        else:
            age = max(0.0, clock.time() - found.taken_at)
            warn("the provider gave them %.0f seconds ago", age)
        regions = vm_sizes.all_possible_locations()
        for region in found.unknown:
            guess = "" if region in regions else did_you_mean(region, regions)
            if guess:
                warn("weights.regions: the provider knows nothing of %r%s", region, guess)
        if found.problem:
            warn("%s", found.problem)
