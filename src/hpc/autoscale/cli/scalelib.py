"""`azscale`: the command line for those who have no integration of their own.

Without a driver it looks at the cluster, acts on nodes and serves request sets. With the key
`driver` in autoscale.json it does all that the command line of an integration does.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from argparse import SUPPRESS, ArgumentError, ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TextIO, get_args

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import LogReporter, PassSummary
from hpc.autoscale.autoscaler.faults import HookError
from hpc.autoscale.autoscaler.repeating import run_repeatedly, stopper
from hpc.autoscale.ccbindings.settings import TOLD_TO_STOP
from hpc.autoscale.cli.argparser import CommandParser, number_type
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.autoscaling import (
    FINISHES,
    DryPass,
    SummaryReporter,
    finishing,
    stop_on_signals,
)
from hpc.autoscale.cli.autostop import AutostopCommands
from hpc.autoscale.cli.base import Config, begin_to_boot
from hpc.autoscale.cli.common import CommonCLI
from hpc.autoscale.cli.completion import is_completing
from hpc.autoscale.cli.console import version_line
from hpc.autoscale.cli.costs import CostCommands
from hpc.autoscale.cli.doctor import DoctorCommands
from hpc.autoscale.cli.drivers import (
    PROJECT_NAME,
    GenericDriver,
    driver_for,
    keep_files_beside,
    load_driver,
)
from hpc.autoscale.cli.figures import MetricsCommands
from hpc.autoscale.cli.journal import JournalCommands
from hpc.autoscale.cli.overview import describe_commands, next_steps
from hpc.autoscale.cli.painting import folded
from hpc.autoscale.cli.parsing import (
    OutputError,
    debugging,
    default_home,
    disablecommand,
    fail,
    run_command,
)
from hpc.autoscale.cli.places import NAME, FoundConfig, find_config
from hpc.autoscale.cli.reporting import ReportCommands
from hpc.autoscale.cli.request_ids import RequestIdCommands
from hpc.autoscale.cli.requests import RequestCommands
from hpc.autoscale.cli.servicelog import LogFormat, ServiceLog, telling_of_waits
from hpc.autoscale.cli.shell_scripts import CompletionCommands
from hpc.autoscale.cli.simulating import SimulationCommands
from hpc.autoscale.cli.status import StatusCommands
from hpc.autoscale.cli.unknown import unknown_columns, unknown_in_constraints, unknown_vm_sizes
from hpc.autoscale.cli.weighing import WeightCommands
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, MistakenWord
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import OutputFormat, print_demand
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.output import has_reader
from hpc.autoscale.statefiles import REQUEST_SETS, path_of
from hpc.autoscale.util import ShellDict, load_config

_COLUMNS = [
    "name",
    "hostname",
    "instance_id",
    "ccnodeid",
    "required",
    "job_ids",
    "state",
    "ctr@create_time_remaining",
    "itr@idle_time_remaining",
]
# What a table shows where nobody asks for columns; JSON has the others, which scripts read.
_NODE_TABLE = ["name", "state", "size@vm_size", "jobs@job_ids", "$/h@price"]
_BUCKET_TABLE = [
    "nodearray",
    "size@vm_size",
    "available@available_count",
    "$/h@price",
    "vcpus@vcpu_count",
    "memory",
    "group@placement_group",
]
# For how many more nodes each limit has room; what is in use of it is among all columns.
_LIMIT_TABLE = [
    "nodearray",
    "size@vm_size",
    "group@placement_group",
    "available@available_count",
    "region@regional_available_count",
    "family@family_available_count",
    "array@nodearray_available_count",
    "cluster@cluster_available_count",
    "pg@placement_group_available_count",
]
_TABLES = {"buckets": _BUCKET_TABLE, "limits": _LIMIT_TABLE}
_interval_type = number_type(
    "a number of seconds from above 0 to 1e9", lambda seconds: 0 < seconds <= 1e9
)


class _AzScaleCLI(
    CommonCLI,
    AutostopCommands,
    CompletionCommands,
    CostCommands,
    DoctorCommands,
    ReportCommands,
    JournalCommands,
    MetricsCommands,
    RequestCommands,
    RequestIdCommands,
    StatusCommands,
    SimulationCommands,
    WeightCommands,
):
    """What `azscale` has with and without a driver.

    `directory` is that of the configuration. Files go there while the directory in which they
    belong does not exist, so that a first try needs no installation. `_found` is where the
    configuration is that is used by default.
    """

    _command_name = "azscale"

    def __init__(self, project_name: str = PROJECT_NAME, directory: str = "") -> None:
        super().__init__(project_name)
        self._directory = directory
        self._found: FoundConfig | None = None

    @property
    def autoscale_home(self) -> str:
        """The home of every command line where that directory exists; else that of the
        configuration.
        """
        home = super().autoscale_home
        return self._directory if self._directory and not os.path.isdir(home) else home

    def _state_home(self, config: Config) -> str:
        home = super()._state_home(config)
        return self._directory if self._directory and not os.path.isdir(home) else home

    def _initialize(self, command: str, config: Config) -> None:
        if self._directory:
            keep_files_beside(config, super()._state_home(config), self._directory)

    def _place_of_nodes(self) -> str:
        return "the scheduler"

    def _describe_commands(self, parser: ArgumentParser, summaries: Mapping[str, str]) -> None:
        describe_commands(parser, summaries, {name for name in summaries if _needs_driver(name)})
        if self._found and isinstance(parser, CommandParser):
            parser.missing_config = str(self._found)

    def _welcome(self) -> None:
        print(next_steps(self._found or FoundConfig(None, NAME)))

    def _top_level_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--version", action="version", version=version_line())
        parser.add_argument(
            "--debug",
            action="store_true",
            default=SUPPRESS,
            help="with any command: log to stderr, and show stack traces",
        )

    def _default_output_columns(self, config: Config, cmd: str | None = None) -> list[str]:
        return list(_COLUMNS)

    def _table_columns(self, config: Config, cmd: str | None) -> list[str]:
        configured = config.get("output-columns") or {}
        if configured.get(cmd) or configured.get("default"):
            return []
        return list(_TABLES.get(cmd or "", _NODE_TABLE))

    def _doubt_columns(
        self, asked: Sequence[str], nodes: Sequence[Node], buckets: Sequence[NodeBucket]
    ) -> None:
        """MistakenWord for unknown columns; while there is no node, which may have more than any
        bucket, only for those that are close to a known one."""
        wrong = unknown_columns(asked, nodes, buckets, only_typos=not nodes)
        if wrong:
            raise MistakenWord("; ".join(wrong))
        super()._doubt_columns(asked, nodes, buckets)

    def _doubt_constraints(
        self,
        given: Sequence[dict[str, Any]],
        nodes: Sequence[Node],
        node_mgr: NodeManager,
    ) -> None:
        """MistakenWord for names that nothing has."""
        wrong = unknown_in_constraints(given, nodes, node_mgr)
        if wrong and (nodes or node_mgr.get_buckets()):
            raise MistakenWord("; ".join(wrong))
        self._warn_once(*wrong)

    def validate_constraint(
        self,
        config: Config,
        constraint_expr: Sequence[str],
        writer: TextIO | None = None,
        quiet: bool = False,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Parses constraints; prints them as JSON, and on stderr in words."""
        if not constraint_expr:
            raise MistakenWord("expected a constraint (-C), as JSON or as name=value, found none")
        return super().validate_constraint(config, constraint_expr, writer, quiet)

    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument("--driver", help="the scheduler's driver, as package.module:Class")

    def _initconfig(self, config: Config) -> None:
        if config.get("driver") is None:
            config.pop("driver", None)
        home = self.autoscale_home
        lock_file, log_config = (os.path.join(home, n) for n in ("scalelib.lock", "logging.conf"))
        # where there is no place for a lock, the default is good enough; and nobody else brings a
        # log configuration
        if config["lock_file"] == lock_file and not os.path.isdir(home):
            del config["lock_file"]
        if config["logging"]["config_file"] == log_config and not os.path.exists(log_config):
            del config["logging"]
        # who starts anew has no declared order to keep to
        config["packing"] = {"policy": "least-waste"}

    def _node_mgr(
        self, config: Config, driver: SchedulerDriver | None = None, force: bool = False
    ) -> NodeManager:
        """The node manager; warns once of VM sizes that the configuration may have misspelt."""
        node_mgr = super()._node_mgr(config, driver, force)
        selects = [resource["select"] for resource in config.get("default_resources") or []]
        for index, select in enumerate(selects):
            where = f"default_resources[{index}].select"
            for unknown in unknown_vm_sizes(select, where, node_mgr.get_buckets()):
                self._warn_once(f"{unknown}; it selects nothing")
        return node_mgr

    def autoscale_parser(self, parser: ArgumentParser) -> None:
        """Options of autoscale."""
        super().autoscale_parser(parser)
        parser.add_argument(
            "--dry-run", "-d", action="store_true", help="show the demand, and change nothing"
        )
        parser.add_argument(
            "--interval",
            type=_interval_type,
            nargs="?",
            const=0.0,
            metavar="SECONDS",
            help="go on, with this pause between passes (autoscale.interval of the configuration"
            " when not given), until SIGTERM, SIGINT or SIGHUP",
        )
        parser.add_argument(
            "--log-format",
            choices=get_args(LogFormat),
            default="text",
            help="how each pass is reported on stderr: as text, or as a JSON object in a line"
            " (default text)",
        )
        parser.set_defaults(output_format=None)  # a loop prints tables for those who ask

    def autoscale(
        self,
        config: Config,
        output_columns: Sequence[str] | None = None,
        output_format: OutputFormat | None = None,
        dry_run: bool = False,
        long: bool = False,
        interval: float | None = None,
        log_format: LogFormat = "text",
    ) -> DemandResult:
        """Runs the whole cycle, once or again and again: creates, joins and deletes nodes as jobs
        need them."""
        dry_run = dry_run or bool(config.get("read_only"))
        if interval is None and dry_run:
            return self._dry_run(config, output_columns, output_format, long)
        if interval is None:
            # in text the last line is about errors
            reporter: LogReporter = SummaryReporter(errors=False)
            if log_format == "json":
                reporter = ServiceLog("json")
            with finishing(config) as patient:
                summary = self._autoscaler(patient, dry_run, reporter).run_once()
            return self._conclude(config, summary, output_columns, output_format, long)
        seconds = interval or _configured_interval(config)
        columns = self._columns(config, output_columns, "autoscale", output_format)
        table = _DemandTable(
            columns, output_format, long, bool(output_columns or output_format or long)
        )
        loop_reporter = _LoopReporter(self, config, table, log_format)
        self._tell = loop_reporter.tell
        with stop_on_signals(says=FINISHES) as stop, telling_of_waits(loop_reporter.tell):
            if dry_run:
                patient = {**config, TOLD_TO_STOP: stop.is_set}
                self._rehearse_repeatedly(patient, seconds, loop_reporter, stop)
            else:
                autoscaler = self._autoscaler(config, dry_run, loop_reporter)
                autoscaler.run_forever(seconds, stop, loop_reporter.is_unheard)
        if loop_reporter.is_unheard() and not stop.is_set():
            raise AutoscaleError("nobody reads any more what the loop says, and it has ended")
        return DemandResult([], [], [], [])

    def _rehearse_repeatedly(
        self, config: Config, seconds: float, reporter: _LoopReporter, stop: threading.Event
    ) -> None:
        """Dry passes: what each would do is told as a plan, when it is another than before."""

        def run_once() -> PassSummary:
            reporter.pass_started(True)
            own = reporter.table
            one = self._dry_pass(config, own.columns, own.output_format, own.long, seconds)
            reporter.dry_pass_finished(one)
            return one.summary

        run_repeatedly(run_once, seconds, stopper(stop, reporter.is_unheard), reporter, clock)

    def _tell_of_dry_run(self, summary: PassSummary, is_planned: bool) -> None:
        if is_planned:
            warn(folded(summary.headline(), sys.stderr))
        else:
            SummaryReporter(errors=False).pass_finished(summary)

    def _setup_shell_locals(self, config: Config) -> dict[str, Any]:
        driver, config = self._prepared(config)
        ctx = self._ctx_handler(config)
        ctx.set_context("[interactive-readonly]")
        demand_calc, jobs = self._demand_calc(config, driver)
        nodes = demand_calc.node_mgr.get_nodes()
        for node in nodes:
            node.shellify()
        by_name: dict[str, Any] = {node.name: node for node in nodes}
        by_name.update({node.hostname: node for node in nodes if node.hostname})
        return {
            "config": config,
            "cli": self,
            "ctx": ctx,
            "demand_calc": demand_calc,
            "node_mgr": demand_calc.node_mgr,
            "jobs": ShellDict({job.name: job for job in jobs}),
            "nodes": ShellDict(by_name),
        }


class ScaleLibCLI(_AzScaleCLI):
    """`azscale` without a driver: no jobs, and no scheduler that nodes could join.

    Passes serve request sets alone.
    """

    def _driver(self, config: Config) -> SchedulerDriver:
        return GenericDriver(self.project_name)

    def _fresh_driver(self, config: Config) -> SchedulerDriver:
        path = path_of(REQUEST_SETS, config, self._state_home(config))
        if not os.path.exists(path) and not config.get("_recorded"):
            self._warn_once(
                f"no driver is configured, and nobody has reported a request to {path}: no jobs"
                " are known of (the key driver names that of your scheduler)"
            )
        return driver_for({}, self._directory)

    def _place_of_nodes(self) -> str:
        return ""

    @disablecommand
    def jobs(self, config: Config) -> None:
        """Needs a driver."""
        super().jobs(config)

    @disablecommand
    def join_nodes(self, *args: Any, **kwargs: Any) -> None:
        """Needs a driver."""
        super().join_nodes(*args, **kwargs)

    @disablecommand
    def remove_nodes(self, *args: Any, **kwargs: Any) -> None:
        """Needs a driver."""
        super().remove_nodes(*args, **kwargs)


class DriverCLI(_AzScaleCLI):
    """`azscale` with the scheduler driver that the configuration names."""

    def __init__(self, project_name: str = PROJECT_NAME, directory: str = "") -> None:
        super().__init__(project_name, directory)
        self._loaded: SchedulerDriver | None = None
        self._has_served = False

    def _driver(self, config: Config) -> SchedulerDriver:
        if self._loaded is None:
            spec = str(config.get("driver", ""))
            self._loaded = load_driver(spec, self.project_name, config, self._directory)
        return self._loaded

    def _fresh_driver(self, config: Config) -> SchedulerDriver:
        if self._has_served:
            self._loaded = None
        self._has_served = True
        return self._driver(config)


class _DemandTable(NamedTuple):
    """How the demand of a pass is printed, and whether somebody asked for it."""

    columns: Sequence[str]
    output_format: OutputFormat | None
    long: bool
    is_asked_for: bool


class _LoopReporter(ServiceLog):
    """Says on stderr what each pass came to, and prints its demand on stdout.

    Demand is printed for those who ask for columns or a format, and on a terminal when a pass did
    something.
    """

    def __init__(
        self, cli: _AzScaleCLI, config: Config, table: _DemandTable, log_format: LogFormat
    ) -> None:
        super().__init__(log_format)
        self._cli = cli
        self._config = config
        self._is_read = True
        self.table = table

    def is_unheard(self) -> bool:
        """Whether what is printed or said goes nowhere, as when a pipe's reader has ended: whoever
        began the loop would not know that it goes on."""
        return not (self._is_read and has_reader(sys.stderr))

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """A context that prints to stdout; that this cannot be done is no failure of the pass."""
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            self._is_read = False
        except OutputError as problem:
            self.tell(f"{problem}; demand is not printed any more")

    def dry_pass_finished(self, one: DryPass) -> None:
        """Print the demand, the summary, and the plan where that is another than the last."""
        if self._is_shown(one.summary):
            with self._printing():
                print(one.table, end="")
        super().pass_finished(one.summary)
        self.plan_made(one.found)

    def _is_shown(self, summary: PassSummary) -> bool:
        """Whether the demand is printed."""
        on_terminal = sys.stdout.isatty() and self.is_news(summary)
        return bool(summary.demand and (self.table.is_asked_for or on_terminal))

    def pass_finished(self, summary: PassSummary) -> None:
        """Print the demand and the summary, and bring completion up to date."""
        table = self.table
        if self._is_shown(summary) and summary.demand:
            self._cli._check_columns(summary.demand, may_refuse=False)
            begin_to_boot(summary.demand.new_nodes, self._config)
            with self._printing():
                print_demand(
                    table.columns,
                    summary.demand,
                    None,
                    table.output_format,
                    log=True,
                    long=table.long,
                    width=self._cli._width,
                )
        super().pass_finished(summary)
        self._cli._refresh_in_passing(self._config)


def _configured_interval(config: Config) -> float:
    seconds = (config.get("autoscale") or {}).get("interval")
    if seconds is None:
        raise ConfigurationException(
            "autoscale.interval: expected seconds from pass to pass, here or after --interval,"
            " found neither"
        )
    return float(seconds)


def main(argv: Iterable[str] | None = None, default_config: str | None = None) -> None:
    """Run one command of `azscale`; by default the one given to this process.

    Ends with exit code 1 and one line on stderr when the command fails, 2 when the command line
    makes no sense, 3 when another process holds the lock, 4 when there can be no lock.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    # how some launchers pass their own name
    if args and os.path.isfile(args[0]) and not hasattr(DriverCLI, args[0]):
        args = args[1:]
    if args[:1] == ["help"]:  # help plan is plan --help
        args = [*args[1:2], "--help"]
    if args and not args[0].startswith("-"):  # serve-autostop is serve_autostop
        args[0] = args[0].replace("-", "_")
    debug = "--debug" in args or debugging()
    args = [arg for arg in args if arg != "--debug"]
    try:
        found = find_config(default_config or os.path.join(default_home(PROJECT_NAME), NAME))
        completes = is_completing()
        if found.doubt and args and not completes and _config_path(args) is None:
            warn("%s", found.doubt)
        module = _command_line_for(args, found)
        run_command(args, PROJECT_NAME, module, debug=debug)
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - the edge of the program
        is_known = isinstance(problem, AutoscaleError) and not isinstance(problem, HookError)
        hint = "" if is_known else " (azscale --debug shows more)"
        fail(problem, f"{_title(args)}: error: {{}}{hint}", debug)


def _title(args: Sequence[str]) -> str:
    """What a line on stderr begins with: `azscale`, and the command if there is one."""
    return " ".join([_AzScaleCLI._command_name, *(arg for arg in args[:1] if arg[:1] != "-")])


def _command_line_for(args: list[str], found: FoundConfig) -> _AzScaleCLI:
    """The command line with the driver of the configuration, or without one when it names none.

    Help, and completion without a configuration, are those with a driver. `found` is the
    configuration of those who name none. ConfigurationException when the command needs a driver and
    there is none.
    """
    command = args[0] if args else ""
    needs_driver = _needs_driver(command)
    asks = not command or command.startswith("-") or not {"-h", "--help"}.isdisjoint(args)
    path = _config_path(args) or found.path
    try:
        driver = load_config(path).get("driver") if path and command != "initconfig" else None
    except ConfigurationException:
        if needs_driver and not asks:
            raise
        driver = None  # the command loads it again, or does not need it
    if needs_driver and path and not driver and not asks:
        raise ConfigurationException(
            f"{command} needs to know the scheduler: expected the key driver, as in"
            f' "driver": "package.module:Class", in {path}'
        )
    completes_with_one = not command and is_completing() and path is not None
    shows_all = (needs_driver or not command or command.startswith("-")) and not completes_with_one
    directory = os.path.dirname(os.path.abspath(path)) if path else ""
    made = DriverCLI if driver or shows_all else ScaleLibCLI
    module: _AzScaleCLI = made(directory=directory)
    module._found = found
    return module


def _needs_driver(command: str) -> bool:
    """Whether there is such a command only where there is a driver."""
    return bool(getattr(getattr(ScaleLibCLI, command, None), "disabled", False))


def _config_path(args: list[str]) -> str | None:
    """The argument of -c/--config; while a line is being completed, that of the line, which the
    shell has not read yet."""
    if is_completing():
        words = shlex.shlex(os.environ.get("COMP_LINE", ""), posix=True)
        words.whitespace_split, words.commenters = True, ""
        args = []
        with suppress(ValueError):  # the last word may have a quotation mark that is open yet
            for word in words:
                args.append(os.path.expanduser(word))
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-c", "--config")
    try:
        path: str | None = parser.parse_known_args(args)[0].config
        return path
    except ArgumentError:
        return None
