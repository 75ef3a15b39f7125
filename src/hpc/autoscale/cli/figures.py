"""The command metrics: figures of the last pass, and the age of the last good one.

Only `azscale` has it. `hpc.autoscale.metrics` works the figures out.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from hpc.autoscale import clock
from hpc.autoscale.autoscaler.journaling import check_written, journal_path, why_none
from hpc.autoscale.autoscaler.metering import SECTION
from hpc.autoscale.cli.argparser import seconds_type
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.errors import AutoscaleError, counted
from hpc.autoscale.explaining.words import ago, lies_ahead

if TYPE_CHECKING:
    from hpc.autoscale.journal import PassRecord
    from hpc.autoscale.metrics import Health

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
        self._add_noted_format(parser, "table; only with --health")

    def metrics(self, config: Config, health: bool = False, max_age: float | None = None) -> None:
        """Prints figures of the last pass for Prometheus, or how old the last good pass is."""
        if health:
            self._print_health(config, max_age)
            return
        if max_age is not None:
            raise CommandLineError(
                "--max-age: expected --health with it, which looks how old the last good pass is"
            )
        if self._noted_format is not None:
            raise CommandLineError(
                "-F goes with --health: the figures are printed in the form that Prometheus reads"
            )
        from hpc.autoscale.metrics import of_record, text_of
        from hpc.autoscale.metrics.health import HealthError, read_health

        last = deque(self._records(config), maxlen=1)
        known = None
        kept_in = (config.get(SECTION) or {}).get("health_file")
        if kept_in:
            try:
                known = read_health(kept_in)
            except HealthError as problem:
                warn("%s", problem)
        sys.stdout.write(text_of(of_record(last[0], known)))

    def _records(self, config: Config) -> Iterator[PassRecord]:
        """The passes of the journal of the configuration; what is garbled is passed over, and said
        on stderr. AutoscaleError when it has none."""
        from hpc.autoscale.journal import Journal

        driver, config = self._with_driver(config)
        path = journal_path(config, driver.autoscale_home)
        if path is None:
            problem = why_none(config, driver.autoscale_home)
            raise AutoscaleError(f"figures come from the journal: the configuration {problem}")
        check_written(path)
        journal = Journal(path, skip_garbled=True)
        record = None
        for record in journal:
            yield record
        if record is None:
            raise journal.without()
        for problem in journal.problems:
            warn("%s", problem)

    def _print_health(self, config: Config, max_age: float | None) -> None:
        from hpc.autoscale.metrics.health import Health, read_health

        path = (config.get(SECTION) or {}).get("health_file")
        if path:
            known = read_health(path)
        else:
            known = Health()
            for record in self._records(config):
                known = known.after(record.at, record.did)
        age = known.age(clock.time())
        if self._noted_format == "json":
            figures = {k: v for k, v in asdict(known).items() if k != "joined"}
            print(json.dumps({**figures, "age": age}, indent=2))
        else:
            print(_in_words(known, age))
        if max_age is not None and (age is None or age > max_age or lies_ahead(age)):
            raise SystemExit(UNHEALTHY)


def _in_words(known: Health, age: float | None) -> str:
    if age is None:
        said = "no pass was good yet"
    elif lies_ahead(age):
        said = f"the last good pass was {ago(age)}"
    else:
        said = f"the last good pass was {max(0.0, age):.0f} s ago"
    why = f": {known.last_error}" if known.last_error else ""
    passes, bad = counted(known.passes, "pass"), known.failed + known.with_errors
    return f"{said}; {passes}, {bad} not good{why}"
