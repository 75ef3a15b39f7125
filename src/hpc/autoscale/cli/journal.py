"""The commands journal and replay: what passes read, decided and did, and deciding it again.

Only `azscale` has them. `hpc.autoscale.journal` writes and reads journals, and
`hpc.autoscale.replaying` decides again.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from hpc.autoscale.autoscaler.journaling import check_written, journal_path, why_none
from hpc.autoscale.cli.argparser import count_type
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import folded, table_width
from hpc.autoscale.cli.parsing import takes_path
from hpc.autoscale.clock import in_utc
from hpc.autoscale.errors import AutoscaleError, counted
from hpc.autoscale.journal import Journal, JournalWriter, Keeping, PassRecord, showing
from hpc.autoscale.tables import OutputFormat, print_rows
from hpc.autoscale.util import json_dump, load_config

if TYPE_CHECKING:
    from hpc.autoscale.replaying import Replayed

DIFFERENT = 2
"""The exit code of a replay that comes to something else."""

NOT_ALL = 3
"""The exit code of a replay that leaves passes out, and is the same otherwise."""

_DIFFERENCES = 10
"""How many differences of one pass are printed."""

_ACTIONS = (
    "show: print the passes of a journal; diff: what changed between two of them; scrub: write it"
    " anew with other names, for others"
)

_GO_WITH = {"--pass": ("show",), "--last": ("show", "scrub"), "--of": ("diff",), "--to": ("scrub",)}
"""The actions that options go with."""

_PASSES = 20
"""How many passes are shown unless somebody asks for another number."""


class JournalCommands(CommandLine):
    """The commands journal and replay."""

    def journal_parser(self, parser: ArgumentParser) -> None:
        """Options of journal."""
        add = parser.add_argument
        actions = ["show", "diff", "scrub"]
        add("action", choices=actions, metavar="show|diff|scrub", help=_ACTIONS)
        add("journal", nargs="?", help="a directory or file (default: that of the configuration)")
        add("--last", type=count_type, help=f"so many passes (shown: {_PASSES}; scrubbed: all)")
        add("--pass", dest="number", type=count_type, help="show: this pass, with all that it read")
        add("--of", type=count_type, nargs=2, metavar="PASS", help="diff: these two (the last two)")
        add("--to", help="scrub: the directory of the new journal")
        self._add_output_format(parser)

    @takes_path
    def journal(
        self,
        config: str | None,
        action: str,
        journal: str | None = None,
        last: int | None = None,
        number: int | None = None,
        of: Sequence[int] | None = None,
        to: str | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Prints what passes read, decided and did, from the journal that they have left."""
        _check_options(action, {"--pass": number, "--last": last, "--of": of, "--to": to})
        found = Journal(
            journal or self._journal_of(config), skip_garbled=True, fixed=action == "scrub"
        )
        if action == "scrub":
            _scrub(found, to, last, output_format)
        elif action == "diff":
            _print_differences(found, of, output_format)
        elif number is not None:
            self._show_one(found, number, output_format)
        else:
            self._show_all(found, last or _PASSES, output_format)
        for problem in found.problems:
            warn("%s", problem)

    def _journal_of(self, path: str | None, may_be_none: bool = False) -> str:
        """The journal of the configuration at a path. AutoscaleError where it has no pass yet, but
        for those to whom there `may_be_none`."""
        if path is None:
            raise CommandLineError("expected a journal, or with -c a configuration that has one")
        config: Config = {**load_config(path), "read_only": True, "lock_file": None}
        self._initialize("journal", config)
        driver, config = self._with_driver(config)
        found = journal_path(config, driver.autoscale_home)
        if found is None:
            raise AutoscaleError(f"{path} {why_none(config, driver.autoscale_home)}: name one")
        if not may_be_none:
            check_written(found)
        return found

    def _show_all(self, found: Journal, most: int, output_format: OutputFormat | None) -> None:
        last: Sequence[PassRecord] = list(deque(found, maxlen=most + 1))
        if not last:
            raise found.without()
        records = last[-most:]
        if output_format == "json":
            json_dump([showing.to_json(record) for record in records], sys.stdout)
            print()
            return
        rows = showing.rows(records, last[0] if len(last) > most else None)
        print_rows(showing.COLUMNS, rows, sys.stdout, output_format or "table", table_width())

    def _show_one(self, found: Journal, number: int, output_format: OutputFormat | None) -> None:
        before: PassRecord | None = None
        for record in found:
            if record.number == number:
                break
            before = record
        else:
            raise found.without(f"pass {number}")
        if output_format == "json":
            json_dump(showing.to_json(record), sys.stdout)
            print()
        else:
            _print_lines(showing.in_words(record, before))

    def replay_parser(self, parser: ArgumentParser) -> None:
        """Options of replay."""
        text = "a directory, or one file of it (default: that of the configuration)"
        parser.add_argument("journal", nargs="?", help=text)
        self._add_output_format(parser)

    @takes_path
    def replay(
        self,
        config: str | None,
        journal: str | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Decides again what the passes of a journal decided, and says where it comes to something
        else."""
        from hpc.autoscale.replaying import Replay

        found = Journal(journal or self._journal_of(config), skip_garbled=True)
        with Replay() as replay:
            passes = list(replay.passes(found))
        for problem in found.problems:
            warn("%s", problem)
        if output_format == "json":
            json_dump([asdict(each) for each in passes], sys.stdout)
            print()
        else:
            _print_replayed(passes, found.left_out)
        different = sum(bool(each.differences) for each in passes)
        if different:
            raise SystemExit(DIFFERENT)
        if found.problems or any(each.skipped for each in passes) or not passes:
            raise SystemExit(NOT_ALL)


def _check_options(action: str, given: Mapping[str, object]) -> None:
    """CommandLineError for an option that does not go with the action, or with another one."""
    for option in (name for name, value in given.items() if value is not None):
        if action not in _GO_WITH[option]:
            others = " or ".join(_GO_WITH[option])
            raise CommandLineError(f"{option}: expected it with {others}, found {action}")
    if given["--pass"] is not None and given["--last"] is not None:
        raise CommandLineError("expected either --pass or --last, found both")


def _print_differences(
    found: Journal, of: Sequence[int] | None, output_format: OutputFormat | None
) -> None:
    two = _two_of(found, of)
    lines = showing.differences(*two)
    if output_format == "json":
        numbers = [record.number for record in two]
        json_dump({"passes": numbers, "differences": lines[1:]}, sys.stdout)
        print()
        return
    _print_lines(lines)


def _two_of(found: Journal, of: Sequence[int] | None) -> list[PassRecord]:
    """The passes to compare: those of these numbers, or the last two."""
    if of is not None:
        known = {record.number: record for record in found if record.number in of}
        for number in of:
            if number not in known:
                raise found.without(f"pass {number}")
        return [known[number] for number in of]
    two = list(deque(found, maxlen=2))
    if not two:
        raise found.without()
    if len(two) < 2:
        said = "; ".join(["expected two passes in it, found 1", *found.problems])
        raise AutoscaleError(f"journal {found.path}: {said}")
    return two


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines; on a terminal long ones are folded."""
    for line in lines:
        print(folded(line, sys.stdout))


def _scrub(
    found: Journal, to: str | None, last: int | None, output_format: OutputFormat | None
) -> None:
    from hpc.autoscale.journal.scrubbing import Aliases
    from hpc.autoscale.replaying import remembered_before

    if to is None:
        raise CommandLineError("expected --to with the directory of the new journal")
    if os.path.exists(to):
        raise AutoscaleError(f"{to}: expected a directory that is not there yet")
    names, starts, count = Aliases(), [1], 0
    for record in found:
        names.learn(record)
        count += 1
        if "state" in record.doors:
            starts.append(record.number)
    if not count:
        raise found.without()
    names.settle()
    # what the first one remembered has to be known, to decide again
    wanted = 1 if last is None else max(1, count - last + 1)
    doors = remembered_before(found, wanted)
    first = wanted if doors else max(each for each in starts if each <= wanted)
    writer = JournalWriter(to, Keeping(size=10**12, age=1e9))
    for record in found:
        if record.number >= first:
            if record.number == wanted and doors:
                record.doors = {**doors, **record.doors}
            writer.write(names.record(record))
    written = max(0, count - first + 1)
    if output_format == "json":
        json_dump({"journal": to, "records": written}, sys.stdout)
        print()
        return
    print(f"{to}: {counted(written, 'record')}, without names of hosts, jobs and users")


def _print_replayed(passes: Sequence[Replayed], unread: int) -> None:
    """Print where passes differ, and how many do. `unread`: records that could not be read."""
    for each in passes:
        head = f"pass {each.number} of {in_utc(each.at)}"
        if each.skipped:
            print(f"{head}: left out: {each.skipped}")
        for index, difference in enumerate(each.differences):
            if index == _DIFFERENCES:
                print(f"{head}: and {len(each.differences) - index} more differences")
                break
            print(f"{head}: {difference}")
    same = sum(each.is_same for each in passes)
    different = sum(bool(each.differences) for each in passes)
    left_out = len(passes) - same - different + unread
    print(
        f"{counted(len(passes) + unread, 'pass')}: {same} the same, {different} different,"
        f" {left_out} left out"
    )
