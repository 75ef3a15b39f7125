"""The command metrics: figures of the last pass, and the age of the last good one.

Only `azscale` has it. `hpc.autoscale.metrics` works the figures out.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import deque

from hpc.autoscale import clock
from hpc.autoscale.autoscaler.journaling import journal_path
from hpc.autoscale.autoscaler.metering import SECTION
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.parsing import seconds_type
from hpc.autoscale.errors import AutoscaleError

UNHEALTHY = 2
"""The exit code when the last good pass is too old."""


class MetricsCommands(CommandLine):
    """The command metrics."""

    def metrics_parser(self, parser: ArgumentParser) -> None:
        """Options of metrics."""
        add = parser.add_argument
        add("--health", action="store_true", help="say how old the last good pass is, and no more")
        add(
            "--max-age",
            type=seconds_type,
            help="with --health: exit code 2 when it is older (seconds)",
        )

    def metrics(self, config: Config, health: bool = False, max_age: float | None = None) -> None:
        """Prints figures of the last pass for Prometheus, or how old the last good pass is."""
        if health:
            self._print_health(config, max_age)
            return
        from hpc.autoscale.journal import Journal
        from hpc.autoscale.metrics import of_record, text_of
        from hpc.autoscale.metrics.health import HealthError, read_health

        driver, config = self._prepared(config)
        path = journal_path(config, driver.autoscale_home)
        if path is None:
            raise AutoscaleError(
                "figures are those of the journal, which the configuration has not"
            )
        journal = Journal(path, skip_garbled=True)
        last = deque(journal, maxlen=1)
        for problem in journal.problems:
            warn("%s", problem)
        if not last:
            raise AutoscaleError(f"journal {path}: it has no pass")
        known = None
        kept_in = (config.get(SECTION) or {}).get("health_file")
        if kept_in:
            try:
                known = read_health(kept_in)
            except HealthError as problem:
                warn("%s", problem)
        sys.stdout.write(text_of(of_record(last[0], known)))

    def _print_health(self, config: Config, max_age: float | None) -> None:
        from hpc.autoscale.metrics.health import read_health

        path = (config.get(SECTION) or {}).get("health_file")
        if not path:
            raise AutoscaleError("expected metrics.health_file in the configuration, found none")
        known = read_health(path)
        age = known.age(clock.time())
        said = "no pass was good yet" if age is None else f"the last good pass was {age:.0f} s ago"
        why = f": {known.last_error}" if known.last_error else ""
        print(f"{said}; {known.passes} passes, {known.failed + known.with_errors} not good{why}")
        if max_age is not None and (age is None or age > max_age):
            raise SystemExit(UNHEALTHY)
