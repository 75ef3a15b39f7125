"""The command doctor: looks whether everything that a pass needs is there, and says what to do.

Only `azscale` has it. What it looks at is in `checkup`; here it is run and printed.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence

from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import for_a_pass, prepared_manager
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.checkup import Check, examine
from hpc.autoscale.cli.painting import print_painted, text_width
from hpc.autoscale.cli.parsing import commands_of, start_logging, takes_path
from hpc.autoscale.cli.places import FoundConfig
from hpc.autoscale.cli.site import CheckState, Observation, Site
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.plaintext import on_one_line, wrapped
from hpc.autoscale.tables import OutputFormat

_STYLES = {CheckState.WARNING: "change", CheckState.FAILED: "go", CheckState.SKIPPED: "faint"}
_INDENT = 23


class DoctorCommands(CommandLine):
    """The command doctor."""

    _found: FoundConfig | None = None

    def doctor_parser(self, parser: ArgumentParser) -> None:
        """Options of doctor."""
        self._add_output_format(parser)

    @takes_path
    def doctor(self, config: str | None, output_format: OutputFormat | None = None) -> None:
        """Looks at all that a pass needs, from the configuration to the disk, and says what to do;
        exit code 1 when something has failed."""
        start_logging({}, False)

        def prepare(loaded: Config) -> tuple[SchedulerDriver, Config]:
            self._initialize("doctor", loaded)
            driver = self._driver(loaded)
            return driver, for_a_pass(hooks.prepared_config(driver, loaded), driver)

        def connect(prepared: Config) -> NodeManager:
            driver = self._driver(prepared)
            return prepared_manager(new_node_manager(prepared), prepared, driver)

        def home(loaded: Config) -> str:
            found = Faults().guard("the driver's home", self._state_home, dict(loaded))
            return found or self.autoscale_home

        looked = self._found.looked if self._found else "-c"
        names = [name for name, _ in commands_of(self)]
        site = Site(config, looked, names, prepare, connect, home)
        found = list(examine(site))
        if output_format == "json":
            _print_json(found)
        else:
            _print_lines(found)
        if any(finding.verdict is CheckState.FAILED for _, finding in found):
            raise SystemExit(1)


def _print_json(found: Sequence[tuple[Check, Observation]]) -> None:
    rows = [
        {
            "check": check.name,
            "verdict": str(finding.verdict),
            "cluster": finding.of or None,
            "found": finding.text,
            "what": check.what,
            "remedy": check.remedy_for(finding) or None,
        }
        for check, finding in found
    ]
    print(json.dumps(rows, indent=2))


def _print_lines(found: Sequence[tuple[Check, Observation]]) -> None:
    """A line for each finding, wrapped, and below what failed what to do about it."""
    width = text_width()
    remedies: dict[tuple[str, str], None] = {}
    skipped = [check.name for check, finding in found if finding.verdict is CheckState.SKIPPED]
    for check, finding in found:
        if finding.verdict is CheckState.SKIPPED and len(skipped) > 1:
            continue
        style = _STYLES.get(finding.verdict, "plain")
        text = on_one_line(f"{finding.of}: {finding.text}" if finding.of else finding.text)
        lines = wrapped(text, width - _INDENT) or [""]
        print_painted(f"{finding.verdict:8} {check.name:13} {lines[0]}", style)
        for line in lines[1:]:
            print_painted(" " * _INDENT + line, style)
        if remedy := check.remedy_for(finding):
            remedies[check.name, remedy] = None
    if len(skipped) > 1:
        print(f"skipped  {len(skipped)} checks, which need what has failed")
    if remedies:
        print("\nWhat to do:")
    for name, remedy in remedies:
        lines = wrapped(remedy, width - _INDENT)
        for head, line in zip([name, *[""] * len(lines)], lines, strict=False):
            print(f"         {head:13} {line}")
