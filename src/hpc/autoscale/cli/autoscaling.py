"""Commands about jobs: autoscale, demand, jobs, analyze."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import results
from hpc.autoscale.autoscaler import (
    LogReporter,
    PassError,
    PassSummary,
    hooks,
)
from hpc.autoscale.autoscaler.learning import nodes_at_work
from hpc.autoscale.autoscaler.passes import READING_THE_CLUSTER
from hpc.autoscale.ccbindings.settings import TOLD_TO_STOP
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.base import CommandLine, Config, begin_to_boot
from hpc.autoscale.cli.job_text import Analysis, print_analysis, print_jobs, reasons_of
from hpc.autoscale.cli.painting import folded
from hpc.autoscale.errors import AutoscaleError, CommandLineError, did_you_mean
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import OutputFormat, print_demand
from hpc.autoscale.requestsets.demand import requested_jobs

if TYPE_CHECKING:
    from hpc.autoscale.rehearsal import Rehearsal


class PassIncomplete(AutoscaleError):
    """A pass was done, but not all of it worked; `summary` says what."""

    def __init__(self, summary: PassSummary) -> None:
        self.summary = summary
        super().__init__("; ".join(map(str, summary.errors)))


class DryPass(NamedTuple):
    """A pass that was rehearsed: what was found, its summary as that of a dry run, and its demand
    as it is printed."""

    found: Rehearsal
    summary: PassSummary
    table: str


class AutoscalingCommands(CommandLine):
    """Commands that calculate demand for jobs."""

    def autoscale_parser(self, parser: ArgumentParser) -> None:
        """Options of autoscale."""
        parser.set_defaults(read_only=False)
        self._add_output_columns(parser)
        self._add_output_format(parser)

    def autoscale(
        self,
        config: Config,
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        dry_run: bool = False,
        long: bool = False,
    ) -> DemandResult:
        """Runs the whole cycle: creates the nodes that jobs need, joins them, and deletes those
        that are idle."""
        if dry_run or config.get("read_only"):
            return self._dry_run(config, output_columns, output_format, long)
        with finishing(config) as patient:
            summary = self._autoscaler(patient, dry_run).run_once()
        return self._conclude(config, summary, output_columns, output_format, long)

    def _dry_run(
        self,
        config: Config,
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool,
    ) -> DemandResult:
        """Print the demand of a pass that is rehearsed, and in a table's case on stderr what that
        pass would do; PassIncomplete when something went wrong in it."""
        from hpc.autoscale.cli.plan_text import print_plan

        one = self._dry_pass(config, output_columns, output_format, long)
        sys.stdout.write(one.table)
        sys.stdout.flush()
        is_for_people = (output_format or "table") == "table"
        self._tell_of_dry_run(one.summary, is_for_people)
        if is_for_people:
            print_plan(one.found, sys.stderr)
        if not one.summary.ok:
            raise PassIncomplete(one.summary)
        return one.found.demand

    def _dry_pass(
        self,
        config: Config,
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool,
        interval: float | None = None,
    ) -> DryPass:
        """A pass that is rehearsed. AutoscaleError where the cluster cannot be read."""
        own = (config.get("output-columns") or {}).get("demand")
        name = "demand" if own else "autoscale"
        columns = self._columns(config, output_columns, name, output_format)
        form = output_format or "table"
        table = io.StringIO()

        def show(demand: DemandResult) -> None:
            self._check_columns(demand)
            begin_to_boot(demand.new_nodes, config)
            print_demand(columns, demand, table, form, log=True, long=long, width=self._width)

        found = self._rehearsed(config, demand_known=show, interval=interval)
        for error in found.summary.errors:
            if error.phase == READING_THE_CLUSTER:
                raise AutoscaleError(f"{found.where}: {error.message}")
        done = {*found.summary.created, *found.summary.started}
        booting = tuple(name for name in found.summary.booting if name not in done)
        summary = replace(found.summary, dry_run=True, created=(), started=(), booting=booting)
        return DryPass(found, summary, table.getvalue())

    def _tell_of_dry_run(self, summary: PassSummary, is_planned: bool) -> None:
        """Tell whoever is interested what came of a dry run, beside what is printed.
        `is_planned`: a plan follows, which says why jobs wait."""

    def _conclude(
        self,
        config: Config,
        summary: PassSummary,
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool,
    ) -> DemandResult:
        """Print the demand of a pass; PassIncomplete when something went wrong in it."""
        demand = summary.demand or DemandResult([], [], [], [])
        columns = self._columns(config, output_columns, "autoscale", output_format)
        self._check_columns(demand, may_refuse=False)
        begin_to_boot(demand.new_nodes, config)
        form = output_format or "table"
        print_demand(columns, demand, sys.stdout, form, log=True, long=long, width=self._width)
        self._refresh_in_passing(config)
        if not summary.ok:
            raise PassIncomplete(summary)
        return demand

    def demand_parser(self, parser: ArgumentParser) -> None:
        """Options of demand."""
        self._add_output_columns(parser)
        self._add_output_format(parser)

    def demand(
        self,
        config: Config,
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool = False,
    ) -> DemandResult:
        """Shows what autoscale would do, and does nothing."""
        return self.autoscale(config, output_columns, output_format, dry_run=True, long=long)

    def jobs_parser(self, parser: ArgumentParser) -> None:
        """Options of jobs."""
        self._add_noted_format(parser, "json")

    def jobs(self, config: Config) -> None:
        """Prints the jobs that the scheduler has, as JSON unless asked otherwise."""
        driver, config = self._prepared(config)
        jobs, _ = hooks.read(driver, config)
        print_jobs(jobs, self._noted_format or "json")

    def analyze_parser(self, parser: ArgumentParser) -> None:
        """Options of analyze."""
        parser.add_argument("--job-id", "-j", required=True, help="the job in question")
        parser.add_argument(
            "--long", "-l", action="store_true", help="print everything, and the job itself"
        )
        self._add_noted_format(parser)

    def analyze(self, config: Config, job_id: str, long: bool = False) -> None:
        """Says which nodes a job gets, or why it gets none, bucket by bucket: the old name of
        explain."""
        if not job_id:
            raise CommandLineError("--job-id: expected the name of a job, found ''")
        driver, config = self._prepared(config)
        handler = self._ctx_handler(config)
        try:
            calculator, unsatisfied, set_aside = self._demand_and_rest(config, driver, handler)
        finally:
            results.unregister_result_handler(handler)
        every = hooks.read(driver, config)[0]
        node_mgr = calculator.node_mgr
        at_work = partial(nodes_at_work, node_mgr, every)
        every = [*every, *requested_jobs(config, driver.autoscale_home, node_mgr, at_work)]
        name = hooks.standing_for(driver, job_id, every)
        jobs = [j for j in every if _name_of(j) == name]
        nodes = calculator.get_demand().compute_nodes
        assigned = [node for node in nodes if name in node.assignments]
        if not jobs and not assigned:
            guess = did_you_mean(job_id, map(str, map(_name_of, every)))
            raise AutoscaleError(f"the scheduler has no job {job_id!r}{guess}")
        refused = [] if assigned else handler.by_context.get(f"[Job {name}]", [])
        reasons = reasons_of(name, refused, unsatisfied, set_aside, long)
        found = Analysis(name, jobs, assigned, reasons)
        print_analysis(found, self._noted_format or "table", long)


def _name_of(job: object) -> object:
    """The name of a job; None for something that a driver handed over and that is no job."""
    return getattr(job, "name", None)


class SummaryReporter(LogReporter):
    """Logs passes, and prints one line for each on stderr, and why jobs wait; folded on a terminal.

    The line has the errors of the pass unless `errors` is False.
    """

    def __init__(self, errors: bool = True) -> None:
        self._errors = errors

    def pass_finished(self, summary: PassSummary) -> None:
        """Print the summary of the pass."""
        super().pass_finished(summary)
        said = str(summary if self._errors else replace(summary, errors=()))
        warn("\n".join(folded(line, sys.stderr) for line in said.splitlines()))

    def pass_failed(self, error: PassError, failures: int, pause: float) -> None:
        """Print the error, and in how many seconds the next pass begins."""
        super().pass_failed(error, failures, pause)
        warn("%s; next pass in %.0f s", error, pause)


@contextmanager
def finishing(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A context in which a signal lets what is being done finish; it gives the configuration with
    which no server is waited for after that."""
    with stop_on_signals(says=FINISHES) as stop:
        yield {**config, TOLD_TO_STOP: stop.is_set}


FINISHES = "azscale: finishing what is under way; Ctrl-C again ends it at once"
"""What a person at a terminal is told after a first Ctrl-C."""

# SIGHUP, where there is such a signal
_HANGUP: Sequence[signal.Signals] = tuple(n for n in signal.Signals if n.name == "SIGHUP")


@contextmanager
def stop_on_signals(
    caught: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT, *_HANGUP),
    says: str = "",
) -> Iterator[threading.Event]:
    """A context in which SIGTERM, SIGINT and SIGHUP, or those that are `caught`, only set the event
    that it gives.

    So what is being done can be finished. A second signal does what it did before, but for SIGHUP,
    of which a terminal that goes sends several. SIGHUP stays ignored where it is, as under nohup.
    `says`: what is printed when SIGINT comes, where stderr is a terminal. Outside of the main
    thread, where signals cannot be caught, each does what it did before.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    found = {number: signal.getsignal(number) or signal.SIG_DFL for number in caught}
    before = {n: h for n, h in found.items() if n not in _HANGUP or h is not signal.SIG_IGN}

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        if says and number == signal.SIGINT and os.isatty(2):
            with suppress(OSError):
                os.write(2, f"\n{says}\n".encode())  # a stream may be in the middle of a write
        if number not in _HANGUP:
            signal.signal(number, before[signal.Signals(number)])  # the next one is not for us

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
