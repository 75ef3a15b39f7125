"""The command request: what a reporter wants from now on, and what all of them want.

Only `azscale` has it. The wish is checked, recorded and served by the library; here it is made of
options or of a file, and printed.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler.serving import report
from hpc.autoscale.cli.argparser import amount_type, number_type
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.autoscaling import PassIncomplete, SummaryReporter, finishing
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.clock import in_utc
from hpc.autoscale.errors import AutoscaleError, counted, unreadable
from hpc.autoscale.explaining.words import in_time
from hpc.autoscale.requestsets.definitions import (
    DEFAULT_NODEARRAY,
    ArrayRequest,
    RequestError,
    read_arrays,
)
from hpc.autoscale.requestsets.recording import LEAST_SECONDS, LONGEST_SECONDS, STANDARD
from hpc.autoscale.requestsets.store import RequestSet, RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, path_of
from hpc.autoscale.tables import OutputFormat, print_rows

_COLUMNS = [
    "request_set",
    "nodearray",
    "extends",
    "instances",
    "cores",
    "groups",
    "machine_types",
    "state",
    "lapses_at",
]
# of a table that fits on a screen
_SHORT = ["request_set", "nodearray", "wants", "state", "lapses"]


_expiration_type = number_type(
    f"a number of seconds from 0 to {LONGEST_SECONDS:g}",
    lambda seconds: 0 <= seconds <= LONGEST_SECONDS,
)


class RequestCommands(CommandLine):
    """The command request."""

    def request_parser(self, parser: ArgumentParser) -> None:
        """Options of request."""
        add = parser.add_argument
        parser.set_defaults(read_only=False)
        add("action", nargs="?", choices=["list"], help="list: print what all request sets want")
        add("--name", help=f"the nodearray (default {DEFAULT_NODEARRAY})")
        add("--corecount", type=amount_type, help="so many cores of it")
        add("--instancecount", type=amount_type, help="so many instances of it")
        add("--file", help="a file with a JSON list of nodearray definitions")
        add(
            "--request-set",
            default=STANDARD,
            help=f"who wants it; replaces what the same set wanted before (default {STANDARD})",
        )
        add(
            "--expiration",
            type=_expiration_type,
            default=LEAST_SECONDS,
            metavar="SECONDS",
            help=f"how long it is wanted if not said again (default and least: {LEAST_SECONDS})",
        )
        add("--long", "-l", action="store_true", help="a table of all that is known, and whole")
        self._add_output_format(parser)

    def request(
        self,
        config: Config,
        action: str | None = None,
        name: str | None = None,
        corecount: int | None = None,
        instancecount: int | None = None,
        file: str | None = None,
        request_set: str = STANDARD,
        expiration: float = LEAST_SECONDS,
        output_format: OutputFormat | None = None,
        long: bool = False,
    ) -> None:
        """Wants cores or instances of nodearrays for the next minutes, and makes a pass; `request
        list` prints what is wanted."""
        store = RequestStore(path_of(REQUEST_SETS, config, self._state_home(config)))
        if action == "list":
            _print(store.sets(), output_format, long)
            return
        arrays = _arrays(name, corecount, instancecount, file)
        reporter = SummaryReporter(errors=False)
        with finishing(config) as patient, _of_the_command_line(file is None):
            summary = report(
                config,
                self._state_home(config),
                lambda: self._autoscaler(patient, False, reporter),
                arrays,
                request_set,
                expiration,
            )
        _print([one for one in store.sets() if one.name == request_set], output_format, long)
        if summary is None:
            warn("request set %s is recorded; whoever holds the lock serves it", request_set)
        elif not summary.ok:
            raise PassIncomplete(summary)


@contextmanager
def _of_the_command_line(is_it: bool) -> Iterator[None]:
    """A wish that cannot be used is a mistake of the command line, where it is made of options."""
    try:
        yield
    except RequestError as error:
        if not is_it:
            raise
        raise CommandLineError(f"request: {error}") from error


def _arrays(
    name: str | None, corecount: int | None, instancecount: int | None, file: str | None
) -> Any:
    """The definitions that the options make, or those of the file."""
    given = (corecount, instancecount)
    if file is not None:
        if name is not None or given != (None, None):
            raise CommandLineError(
                "request: expected --file or options for one nodearray, not both"
            )
        return _read(file)
    if given == (None, None):
        raise CommandLineError("request: expected --corecount, --instancecount or --file")
    if None not in given:
        raise CommandLineError("request: expected --corecount or --instancecount, found both")
    definition = {
        "Name": DEFAULT_NODEARRAY if name is None else name,
        "TargetCoreCount": corecount,
        "TargetCount": instancecount,
    }
    return [{key: value for key, value in definition.items() if value is not None}]


def _read(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)
    except OSError as error:
        raise AutoscaleError(f"{file}: {unreadable(error)}") from error
    except (ValueError, RecursionError) as error:
        raise AutoscaleError(f"{file}: expected a JSON list of definitions: {error}") from error


def _print(
    sets: Iterable[RequestSet], output_format: OutputFormat | None, long: bool = False
) -> None:
    """A row for each nodearray of each set; for a set that wants nothing, one without nodearray."""
    now = clock.time()
    is_short = not long and (output_format or "table") == "table"
    rows: list[list[Any]] = []
    for one in sets:
        state = "standing" if one.stands(now) else "lapsed"
        left = one.lapses_at - now
        lapses = f"in {in_time(left)}" if left > 0 else f"{in_time(-left)} ago"
        until = [state, lapses if is_short else in_utc(one.lapses_at)]
        of_array = _short_row if is_short else _row
        rows += [[one.name, *of_array(each), *until] for each in read_arrays(one.arrays) or [None]]
    if is_short:
        print_rows(_SHORT, rows, sys.stdout, "table", table_width())
    else:
        print_rows(_COLUMNS, rows, sys.stdout, output_format or "table")


def _row(wanted: ArrayRequest | None) -> list[str | int | None]:
    """What is wanted of an array, or nothing, by `_COLUMNS`."""
    if wanted is None:
        return [None, None, 0, None, None, None]
    amount = [None, wanted.cores] if wanted.cores else [wanted.nodes, None]
    unit = "core" if wanted.group_cores else "instance"
    size = counted(wanted.group_cores or wanted.group_nodes, unit)
    groups = f"{wanted.groups} of {size}" if wanted.groups else None
    sizes = ",".join(wanted.machine_types) or None
    return [wanted.name, wanted.extends[0] if wanted.extends else None, *amount, groups, sizes]


def _short_row(wanted: ArrayRequest | None) -> list[str | int | None]:
    """What is wanted of an array, or nothing, by `_SHORT`."""
    name, _, instances, cores, groups, _ = _row(wanted)
    said = [
        counted(int(amount), unit)
        for amount, unit in ((instances, "instance"), (cores, "core"))
        if amount
    ]
    said += [str(groups)] if groups else []
    return [name, " and ".join(said) or "nothing"]
