"""What every command has: the hooks of an integration, access to nodes and demand, shared options.

`CommandLine` is the base of all groups of commands; `common.CommonCLI` puts the groups together.
What it uses stands beside it: `options` (how shared options are added), `completion` (what the
shell may offer), `finding` (which nodes a user means), `wide` (the columns that a word stands for)
and `unknown` (names that nothing has). Helpers begin with an underscore, because every
public method of a command line object is a sub-command.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.autoscaler import Autoscaler, Reporter, hooks, learning
from hpc.autoscale.autoscaler.faults import Faults, call_with_up_to
from hpc.autoscale.autoscaler.summary import SetAsideJob, UnsatisfiedJob
from hpc.autoscale.cli.argtypes import constraint_option, str_list, warn
from hpc.autoscale.cli.completion import (
    CACHE_FILE,
    CompletionCache,
    completed_by,
    default_completer,
    fnmatch_validator,
    is_completing,
    note,
    write_cache,
)
from hpc.autoscale.cli.finding import NodeWork, find_nodes, is_planned
from hpc.autoscale.cli.options import NoteFormat, add_format, add_names
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.cli.unknown import unknown_columns, unknown_in_constraints, why_nothing
from hpc.autoscale.cli.wide import ALL, KEYWORDS, WIDE, widened
from hpc.autoscale.config.timeouts import parse_boot_timeout
from hpc.autoscale.errors import ConstraintError, MistakenWord
from hpc.autoscale.gangs.gathering import new_gangs
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import OutputFormat, print_demand
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import NodeConstraint, get_constraints
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.results import DefaultContextHandler
from hpc.autoscale.statefiles import REQUEST_SETS, path_of
from hpc.autoscale.util import SingletonLock, load_config

if TYPE_CHECKING:
    from hpc.autoscale.rehearsal import Rehearsal

Config = dict[str, Any]


class CommandLine(ABC):
    """What the groups of commands share; each group derives from this and from nothing else."""

    def __init__(self, project_name: str) -> None:
        self.project_name = project_name
        self._completion = CompletionCache()
        self._work = NodeWork()
        self._asked_columns: Sequence[str] = ()
        self._width: int | None = None
        self._is_short = False
        self._noted_format: OutputFormat | None = None
        # says something on stderr; a loop says it in its log
        self._tell: Callable[[str], None] = partial(warn, "%s")
        self.__node_mgr: NodeManager | None = None
        self.__lock: SingletonLock | None = None
        self.__warned: set[str] = set()

    @property
    def autoscale_home(self) -> str:
        """Where configuration, history and caches are.

        It is AUTOSCALE_HOME of the environment, or `/opt/azurehpc/<project>`.
        """
        return os.getenv("AUTOSCALE_HOME") or os.path.join("/opt", "azurehpc", self.project_name)

    # -- what an integration must write

    @abstractmethod
    def _driver(self, config: Config) -> SchedulerDriver:
        """The driver of the scheduler."""

    @abstractmethod
    def _default_output_columns(self, config: Config, cmd: str | None = None) -> list[str]:
        """The columns to print where neither the user nor the configuration names any."""

    @abstractmethod
    def _setup_shell_locals(self, config: Config) -> dict[str, Any]:
        """Names to have at hand in the shell."""

    @abstractmethod
    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        """Add the integration's own options to `initconfig`.

        The value of an option with the dest `a__b` becomes `{"a": {"b": value}}`.
        """

    @abstractmethod
    def _initconfig(self, config: Config) -> None:
        """Complete the configuration that `initconfig` is about to print."""

    # -- what an integration may write

    def _initialize(self, command: str, config: Config) -> None:  # noqa: B027 - optional
        """Called before a command, with the loaded configuration."""

    def _ctx_handler(self, config: Config) -> DefaultContextHandler:
        """A new handler, which is told the results of a demand calculation."""
        return DefaultContextHandler("[initialization]")

    def _state_home(self, config: Config) -> str:
        """The directory for files that commands write: the driver's, as for lock and history."""
        return self._driver(config).autoscale_home

    def _make_example_nodes(self, config: Config, node_mgr: NodeManager) -> list[Node]:
        """The nodes whose values completion offers: one for each bucket."""
        return [bucket.example_node for bucket in node_mgr.get_buckets()]

    def _add_completion_data(self, completion_json: dict[str, Any]) -> None:  # noqa: B027
        """Add to what is kept for completion, under keys of one's own."""

    def _read_completion_data(self, completion_json: dict[str, Any]) -> None:  # noqa: B027
        """Take back what `_add_completion_data` added."""

    # -- nodes and demand

    def _fresh_driver(self, config: Config) -> SchedulerDriver:
        """The driver for another pass of the loop.

        It may have to be another object, since drivers may keep what they read.
        """
        return self._driver(config)

    def _with_driver(self, config: Config) -> tuple[SchedulerDriver, Config]:
        """The driver, and the configuration with what the driver adds to it: all that is needed to
        find the files of passes. Nobody is asked for weights of regions."""
        driver = self._driver(config)
        return driver, hooks.prepared_config(driver, config)

    def _prepared(self, config: Config) -> tuple[SchedulerDriver, Config]:
        """The driver, and the configuration as a pass has it."""
        driver, config = self._with_driver(config)
        return driver, learning.for_a_pass(config, driver)

    def _node_mgr(
        self, config: Config, driver: SchedulerDriver | None = None, force: bool = False
    ) -> NodeManager:
        """The node manager, read from CycleCloud once per command unless forced."""
        if self.__node_mgr is None or force:
            path = path_of(REQUEST_SETS, config, self._state_home(config))
            node_mgr = new_node_manager({**config, "requestsetsdb": path})
            learning.prepared_manager(node_mgr, config, driver or self._driver(config))
            self.__node_mgr = node_mgr
            away = getattr(node_mgr.cluster_bindings, "away", {})
            self._warn_once(*node_mgr.doubts, *away.values())
        return self.__node_mgr

    def _warn_once(self, *doubts: str) -> None:
        """Tell the user, on stderr, what this object has not told before."""
        for doubt in doubts:
            if doubt not in self.__warned:
                self.__warned.add(doubt)
                self._tell(doubt)

    def _forget_node_mgr(self) -> None:
        """Let the next `_node_mgr` read the cluster anew."""
        self.__node_mgr = None

    def _node_history(self, config: Config) -> NodeHistory:
        """The history of this integration's nodes."""
        return hooks.new_history(self._driver(config), config)

    def _demand_calc(
        self, config: Config, driver: SchedulerDriver, node_mgr: NodeManager | None = None
    ) -> tuple[DemandCalculator, list[Job]]:
        """A demand calculator and the jobs, which it has not been given yet.

        Takes the lock until the command ends, or until the next call.
        """
        lock = self._take_lock(config, driver)
        node_mgr = node_mgr or self._node_mgr(config, driver)
        return learning.new_calculator(config, driver, node_mgr, lock)

    def _take_lock(self, config: Config, driver: SchedulerDriver) -> SingletonLock:
        """Hold the driver's lock until the command ends. MultipleInstancesError when another
        process has it."""
        self._unlock()
        self.__lock = hooks.new_lock(driver, config)
        return self.__lock

    def _unlock(self) -> None:
        """Give back the lock that a command took."""
        if self.__lock is not None:
            self.__lock.unlock()
            self.__lock = None

    def _demand(
        self,
        config: Config,
        driver: SchedulerDriver | None = None,
        ctx_handler: DefaultContextHandler | None = None,
        node_mgr: NodeManager | None = None,
    ) -> DemandCalculator:
        """A demand calculator that has been given all jobs."""
        return self._demand_and_rest(config, driver, ctx_handler, node_mgr)[0]

    def _demand_and_rest(
        self,
        config: Config,
        driver: SchedulerDriver | None = None,
        ctx_handler: DefaultContextHandler | None = None,
        node_mgr: NodeManager | None = None,
    ) -> tuple[DemandCalculator, list[UnsatisfiedJob], list[SetAsideJob]]:
        """A demand calculator that has been given all jobs, and the jobs that did not get all.

        The second list has the jobs that were not satisfied, the third those that could not be
        looked at.
        """
        driver = driver or self._driver(config)
        extra = () if node_mgr is None else (node_mgr,)
        calculator, jobs = self._calculated(config, driver, *extra)
        if ctx_handler is not None and ctx_handler not in results.HANDLERS:
            results.register_result_handler(ctx_handler)
        set_context = ctx_handler.set_context if ctx_handler else logging.set_context
        gangs = new_gangs(calculator.config)
        return calculator, *learning.add_jobs(calculator, jobs, set_context, gangs)

    def _autoscaler(
        self, config: Config, dry_run: bool, reporter: Reporter | None = None
    ) -> Autoscaler:
        return Autoscaler(
            config,
            lambda: self._fresh_driver(config),
            dry_run=dry_run,
            reporter=reporter,
            new_calculator=self._fresh_demand_calc,
            result_handler=self._ctx_handler(config),
        )

    def _rehearsed(
        self,
        config: Config,
        around: Callable[[SchedulerDriver], SchedulerDriver] = lambda driver: driver,
        **more: Any,
    ) -> Rehearsal:
        """What a pass would do now. `around`: makes a driver of that of the site; `more` is for
        `rehearse`, and may replace what is usual."""
        from hpc.autoscale.rehearsal import rehearse

        usual: dict[str, Any] = {
            "new_calculator": self._fresh_demand_calc,
            "result_handler": self._ctx_handler(config),
        }
        return rehearse(config, lambda: around(self._fresh_driver(config)), **{**usual, **more})

    def _fresh_demand_calc(
        self, config: Config, driver: SchedulerDriver
    ) -> tuple[DemandCalculator, Sequence[Job]]:
        """A calculator over the cluster as it is now, read anew with each call, and the jobs."""
        self._forget_node_mgr()
        return self._calculated(config, driver)

    def _calculated(
        self, config: Config, driver: SchedulerDriver, *more: NodeManager
    ) -> tuple[DemandCalculator, list[Job]]:
        """What `_demand_calc` gives; an override may know two arguments only, and hand over jobs
        that can be gone through once."""
        calculator, jobs = call_with_up_to(self._demand_calc, config, driver, *more)
        return calculator, list(jobs)

    def _find_nodes(
        self, config: Config, hostnames: Sequence[str] | None, node_names: Sequence[str] | None
    ) -> tuple[SchedulerDriver, DemandCalculator, list[Node]]:
        """The nodes that are meant by host names and node names, by the rules of `find_nodes`.

        The jobs have been placed on them, so that nodes that a queued job is about to get can be
        told. Nodes that are only planned are not found.
        """
        driver, config = self._prepared(config)
        calculator, jobs = self._calculated(config, driver)
        _, hosts = hooks.read(driver, config)
        gone = calculator.node_history.gone()
        self._work = NodeWork(jobs, hosts, calculator.node_mgr.get_nodes(), gone)
        learning.add_jobs(calculator, jobs, logging.set_context, new_gangs(calculator.config))
        nodes = [node for node in calculator.finish().compute_nodes if not is_planned(node)]
        names = (hostnames or (), node_names or ())
        return driver, calculator, find_nodes(nodes, self._work, *names, calculator.node_mgr)

    # -- constraints

    def _constraints(self, exprs: Iterable[str]) -> list[dict[str, Any]]:
        """Constraint expressions as JSON objects.

        Neighbours that have no key in common are merged into one. MistakenWord for JSON that is no
        object.
        """
        merged: list[dict[str, Any]] = []
        for expr in exprs or []:
            parsed = json.loads(expr)
            for item in parsed if isinstance(parsed, list) else [parsed]:
                if not isinstance(item, dict):
                    raise MistakenWord(f"expected a constraint as a JSON object, found {expr}")
                if merged and not merged[-1].keys() & item.keys():
                    merged[-1].update(item)
                else:
                    merged.append(dict(item))
        return merged

    def _understood(self, given: Sequence[dict[str, Any]]) -> list[NodeConstraint]:
        """The constraints that somebody gave with -C. MistakenWord where they make no sense."""
        try:
            return get_constraints(given)
        except ConstraintError as problem:
            raise MistakenWord(problem.in_words()) from problem

    # -- output

    def _get_default_output_columns(self, config: Config, cmd_name: str | None = None) -> list[str]:
        """The columns of a command where the user names none.

        They are those configured for the command, else those configured by default, else the
        integration's.
        """
        configured = config.get("output-columns") or {}
        return (
            configured.get(cmd_name)
            or configured.get("default")
            or call_with_up_to(self._default_output_columns, config, cmd_name)
            or self._default_output_columns(config)
        )

    def _columns_by_default_of(self, config: Config, command: str | None) -> list[str]:
        """The columns that a command prints when the user does not say which."""
        return call_with_up_to(self._get_default_output_columns, config, command)

    def _columns(
        self,
        config: Config,
        columns: Sequence[str] | None,
        cmd: str,
        output_format: OutputFormat | None = "json",
    ) -> list[str]:
        """The columns that the user asked for, or else the command's.

        `all` gives an empty list, by which the printer prints every column; `wide` stands for the
        command's columns and the usual ones. Tables of columns that nobody asked for may have
        others than JSON, and are cut to the width of a terminal.
        """
        self._asked_columns = list(columns or ())
        self._width, self._is_short = None, False
        if columns:
            if ALL in columns:
                return []
            if WIDE in columns:
                return widened(columns, self._columns_by_default_of(config, cmd), cmd)
            return list(columns)
        short = self._table_columns(config, cmd) if (output_format or "table") == "table" else []
        self._is_short = bool(short)
        if short:
            self._width = table_width()
        return short or list(self._columns_by_default_of(config, cmd))

    def _table_columns(self, config: Config, cmd: str | None) -> list[str]:
        """The columns of tables that fit on a screen; empty where they are those by default."""
        return []

    def _check_columns(self, result: DemandResult, may_refuse: bool = True) -> None:
        """Tell the user of columns that were asked for and that no node has; once for a wish.

        Without `may_refuse` it is no error, for what was done before is to be printed.
        """
        nodes = [*result.compute_nodes, *result.new_nodes]
        asked, self._asked_columns = self._asked_columns, ()
        tell = self._doubt_columns if may_refuse else partial(CommandLine._doubt_columns, self)
        tell(asked, nodes, result.buckets)

    def _doubt_columns(
        self, asked: Sequence[str], nodes: Sequence[Node], buckets: Sequence[NodeBucket]
    ) -> None:
        """Warn of unknown columns: scripts of integrations may ask for what no node has yet."""
        self._warn_once(*unknown_columns(asked, nodes, buckets))

    def _doubt_constraints(
        self,
        given: Sequence[dict[str, Any]],
        nodes: Sequence[Node],
        node_mgr: NodeManager,
    ) -> None:
        """Warn of names in constraints that nothing has."""
        self._warn_once(*unknown_in_constraints(given, nodes, node_mgr))

    def _say_if_nothing(
        self,
        left: Sequence[object],
        constraints: Sequence[NodeConstraint],
        every: Sequence[Node] | Sequence[NodeBucket],
    ) -> None:
        """Tell the user where constraints have `left` nothing of all nodes or buckets, and why.
        Where there was nothing from the start, nobody can tell of a value that it is mistyped."""
        if constraints and every and not left:
            self._warn_once(why_nothing(constraints, every))

    def _print_nodes(
        self,
        nodes: Iterable[Node],
        columns: Sequence[str],
        output_format: OutputFormat | None,
        long: bool = False,
        node_mgr: NodeManager | None = None,
    ) -> None:
        """Print nodes on stdout, a row each."""
        buckets = node_mgr.get_buckets() if node_mgr else []
        result = DemandResult([], list(nodes), [], [], buckets)
        self._check_columns(result)
        form = output_format or "table"
        print_demand(list(columns), result, sys.stdout, form, long=long, width=self._width)

    # -- options that several commands share

    def _add_output_columns(self, parser: ArgumentParser) -> None:
        """Add -o/--output-columns and -l/--long."""
        completed_by(
            self._complete_output_columns,
            parser.add_argument(
                "--output-columns",
                "-o",
                type=str_list,
                help="columns to print, separated by commas; wide for the usual ones, or all",
            ),
        )
        parser.add_argument(
            "--long", "-l", action="store_true", help="print values whole where columns are cut"
        )

    def _add_output_format(self, parser: ArgumentParser, default: OutputFormat = "table") -> None:
        """Add -F/--output-format."""
        add_format(parser, get_args(OutputFormat), default, default=default)

    def _add_noted_format(
        self,
        parser: ArgumentParser,
        default: str = "table",
        formats: Sequence[OutputFormat] = get_args(OutputFormat),
    ) -> None:
        """Add -F/--output-format to a command whose signature is published without it.

        Integrations override these commands, so the option is none of their arguments: it is noted
        in `_noted_format`. `default`: what the help calls so.
        """

        def note_format(value: OutputFormat) -> None:
            self._noted_format = value

        self._noted_format = None
        add_format(parser, formats, default, action=NoteFormat, note=note_format)

    def _add_hostnames(self, parser: ArgumentParser) -> None:
        """Add -H/--hostnames."""
        help_text = "host names, separated by commas; * for all"
        add_names(parser, "--hostnames", "-H", help_text, self._complete_hostnames)

    def _add_nodenames(self, parser: ArgumentParser) -> None:
        """Add -N/--node-names."""
        help_text = "node names, separated by commas; * for all"
        add_names(parser, "--node-names", "-N", help_text, self._complete_node_names)

    def _add_constraint_expr(self, parser: ArgumentParser) -> None:
        """Add -C/--constraint-expr."""
        completed_by(
            self._complete_constraints,
            parser.add_argument(
                "--constraint-expr",
                "-C",
                type=constraint_option,
                action="append",
                default=[],
                help="a constraint, as JSON or as name=value[,value…]; may be given more than once",
            ),
        )

    # -- completion

    @property
    def example_nodes(self) -> list[Node]:
        """The nodes whose values completion offers, as far as they have been read."""
        return self._completion.example_nodes

    @example_nodes.setter
    def example_nodes(self, nodes: list[Node]) -> None:
        self._completion.example_nodes = nodes

    @property
    def node_names(self) -> list[str]:
        """The names of nodes that completion offers, as far as they have been read."""
        return self._completion.node_names

    @node_names.setter
    def node_names(self, names: list[str]) -> None:
        self._completion.node_names = names

    @property
    def hostnames(self) -> list[str]:
        """The host names that completion offers, as far as they have been read."""
        return self._completion.hostnames

    @hostnames.setter
    def hostnames(self, names: list[str]) -> None:
        self._completion.hostnames = names

    def _invoke_autocomplete(self, parser: ArgumentParser) -> None:
        """Answer the shell, when it is the shell that asks."""
        if not is_completing():
            return
        import argcomplete

        complete: Callable[..., None] = argcomplete.autocomplete
        complete(parser, default_completer=default_completer, validator=fnmatch_validator)

    def refresh_autocomplete(self, config: Config) -> None:
        """Writes anew what completion knows about nodes."""
        self._get_example_nodes(config, force=True)

    def _refresh_in_passing(self, config: Config) -> None:
        """Write anew what completion knows, where its directory exists; errors are only logged."""
        if os.path.isdir(self._state_home(config)):
            Faults().guard("refreshing completion", self.refresh_autocomplete, config)

    def _get_example_nodes(self, config: Config, force: bool = False) -> list[Node]:
        """The example nodes, from the cache where there is one.

        With `force`, or without a cache, they are read from CycleCloud and the cache is written.
        """
        path = os.path.join(self._state_home(config), CACHE_FILE)
        if not force and (self.example_nodes or self._read_cache(path)):
            return self.example_nodes
        driver, config = self._prepared(config)
        node_mgr = self._node_mgr(config, driver)
        examples = self._make_example_nodes(config, node_mgr)
        read = Faults().guard("reading the scheduler's hosts", hooks.read, driver, config)
        nodes = node_mgr.get_nodes()
        known = {str(node.hostname).lower() for node in nodes if node.hostname}
        own = [n for n in (read[1] if read else ()) if str(n.hostname).lower() not in known]
        self._completion.fill(examples, [*nodes, *own])
        content = self._completion.to_dict()
        self._add_completion_data(content)
        write_cache(path, content)
        return self.example_nodes

    def _read_cache(self, path: str) -> bool:
        """Whether there was a cache that could be read."""
        content = self._completion.read(path)
        if content is not None:
            self._read_completion_data(content)
        return content is not None

    def _known_to(self, parsed_args: Namespace | None) -> CompletionCache:
        """What completion knows, from the cache of the configuration that the line names."""
        if not self.example_nodes:
            config = _config_at_hand(getattr(parsed_args, "config", None))
            home = Faults().guard("completing", self._state_home, config) if config else None
            self._read_cache(os.path.join(home or self.autoscale_home, CACHE_FILE))
        return self._completion

    def _complete_node_names(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).complete_node_names(prefix)

    def _complete_hostnames(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).complete_hostnames(prefix)

    def _complete_nodearrays(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).nodearrays()

    def _complete_vm_sizes(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).vm_sizes(getattr(parsed_args, "nodearray", None))

    def _complete_output_columns(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        known = self._known_to(parsed_args)
        config = _config_at_hand(getattr(parsed_args, "config", None))
        command = getattr(parsed_args, "cmd", None)
        by_default: list[str] = []
        if config is not None:
            by_default = call_with_up_to(self._default_output_columns, config, command)
        return known.complete_columns(prefix, [*by_default, *KEYWORDS])

    def _complete_constraints(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).constraints(prefix)


def begin_to_boot(nodes: Iterable[Node], config: Config) -> None:
    """Write how long nodes that are new may take until they are ready, as the node history does
    with those that it has seen."""
    for node in nodes:
        node.create_time_remaining = float(parse_boot_timeout(config, node))


def _config_at_hand(path: str | None) -> Config | None:
    """The configuration that a line being completed names; None when it cannot be used."""
    if not path:
        return None
    try:
        config: Config = load_config(os.path.expanduser(path))
        return config
    except RuntimeError as problem:
        note("%s: %s", path, problem)
        return None
