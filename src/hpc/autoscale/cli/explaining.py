"""The command explain: why a job waits, a node stays, or a bucket gives none."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import PassSummary, hooks, learning
from hpc.autoscale.autoscaler.commanding import facts_of_the_loop
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.autoscaler.summary import part_that_counts
from hpc.autoscale.autostop.decision import Answer
from hpc.autoscale.cli.argtypes import CommandLineError
from hpc.autoscale.cli.asking_again import Rehearsals
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.completion import completed_by
from hpc.autoscale.cli.drivers import RequestSetDriver
from hpc.autoscale.cli.painting import text_width
from hpc.autoscale.cli.trouble import verdict_on_trouble
from hpc.autoscale.cli.unknown import check_is_read
from hpc.autoscale.errors import AutoscaleError, did_you_mean, one_line
from hpc.autoscale.explaining.asking import Queue
from hpc.autoscale.explaining.of_buckets import (
    bucket_names,
    explain_buckets,
    explain_constraints,
    find_buckets,
)
from hpc.autoscale.explaining.of_jobs import explain_job, explain_unknown
from hpc.autoscale.explaining.of_nodes import explain_node, find_node
from hpc.autoscale.explaining.scene import Scene, Waiting
from hpc.autoscale.explaining.text import lines_of
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.guards import Gate, Refusal
from hpc.autoscale.onpremises.workers import HostState, known_states
from hpc.autoscale.rehearsal.fates import Fates
from hpc.autoscale.rehearsal.rehearsing import rehearse, rehearse_stop
from hpc.autoscale.results.verdicts import Stand, Verdict
from hpc.autoscale.statefiles import STOPS, path_of
from hpc.autoscale.util import json_dump, partition

_KINDS = ("job", "node", "bucket")


class ExplainingCommands(CommandLine):
    """Commands that say why."""

    def explain_parser(self, parser: ArgumentParser) -> None:
        """Options of explain."""
        completed_by(
            self._complete_things,
            parser.add_argument(
                "what",
                nargs="?",
                default="",
                metavar="JOB|NODE|BUCKET",
                help="a job, a node or host, or a bucket such as htc/Standard_F4s_v2, a nodearray"
                " or a VM size; job:NAME, node:NAME or bucket:NAME where a name stands for several",
            ),
        )
        self._add_output_format(parser)
        self._add_constraint_expr(parser)

    def _complete_things(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return self._known_to(parsed_args).things()

    def explain(
        self,
        config: Config,
        what: str = "",
        constraint_expr: Sequence[str] = (),
        output_format: OutputFormat | None = None,
    ) -> None:
        """Says why a job waits, a node stays or a bucket gives none, and the smallest change that
        lifts it."""
        given = self._constraints(constraint_expr)
        if bool(what) == bool(given):
            raise CommandLineError(
                "expected a job, a node or a bucket to explain, or constraints (-C), found"
                f" {'both' if given else 'neither'}"
            )
        self._understood(given)
        kind, _, name = what.partition(":") if what.startswith(_KINDS) else ("", "", what)
        if kind in _KINDS and not name:
            raise CommandLineError(f"expected the name of a {kind} behind {what!r}")
        if kind not in _KINDS:
            kind, name = "", what
        try:
            scene = self._scene(config, name)
        except Exception as error:  # noqa: BLE001  it is what there is to tell
            logging.debug("what there is to tell: %s", one_line(error), exc_info=error)
            verdict = verdict_on_trouble(kind, name, error)
            is_seen = False
        else:
            is_seen = True
            verdict = explain_constraints(given, scene) if given else _of(kind, name, scene)
        _print(verdict, output_format)
        if verdict.stand is Stand.UNKNOWN or not is_seen:
            raise SystemExit(1)

    def _scene(self, config: Config, name: str) -> Scene:
        """What a pass sees now."""
        fresh = self._fresh_demand_calc
        return look(config, lambda: self._fresh_driver(config), fresh, name)


def look(
    config: Config,
    new_driver: Callable[[], SchedulerDriver],
    new_calculator: NewCalculator = learning.new_calculator,
    name: str = "",
) -> Scene:
    """A pass that ends when its demand is known, and what it saw. `name`: of the job that will be
    asked about, if any. Raises what keeps it from looking."""
    queue, seen, hosts, first_boots = Queue(), [], dict[str, HostState](), set[str]()
    standing_for = [name]

    def watched(config: Config, driver: SchedulerDriver) -> tuple[DemandCalculator, Sequence[Job]]:
        calculator, jobs = new_calculator(config, driver)
        if name:
            standing_for[0] = hooks.standing_for(driver, name, jobs)
        queue.watch(calculator, standing_for[0])
        seen.append((calculator, list(jobs)))
        hosts.update(known_states(config))
        return calculator, jobs

    def note_boots(demand: DemandResult) -> None:  # nobody can ask the node history afterwards
        first_boots.update(node.name for node in seen[-1][0].find_booting(at_least=-1))

    summary = rehearse(
        config,
        new_driver,
        new_calculator=watched,
        demand_known=note_boots,
        demand_only=True,
    ).summary
    calculator, jobs = seen[-1]
    unsatisfied = partition(summary.unsatisfied, lambda job: job.name)

    def waiting(name: str) -> Waiting | None:
        found = part_that_counts(unsatisfied[name]) if name in unsatisfied else None
        if found is None or found.job is None:
            return None
        parts = sum(getattr(job, "name", None) == name for job in jobs)
        return Waiting(found.job, found.verdict, len(unsatisfied[name]), parts)

    again = Rehearsals(config, new_driver, new_calculator, queue.is_planned)
    return Scene(
        config,
        calculator,
        jobs,
        queue,
        waiting,
        {job.name: job.reason for job in summary.set_aside},
        _held(config, summary),
        Fates(
            lambda: rehearse(config, new_driver, new_calculator=new_calculator),
            _asking_autostop(config, new_driver),
        ).of,
        ask_again=again.ask,
        go_to_turn=again.go_to_turn,
        is_timed=_is_timed(config),
        first_boots=first_boots,
        hosts=hosts,
        handed_over="" if standing_for[0] == name else standing_for[0],
    )


def _asking_autostop(
    config: Config, new_driver: Callable[[], SchedulerDriver]
) -> Callable[[str], Answer | None]:
    """What a node is told that asks whether it may stop; None where no node does: the configuration
    says nothing of autostop, and nobody has kept stops."""

    def ask(node_id: str) -> Answer | None:
        driver = new_driver()
        kept = os.path.exists(path_of(STOPS, config, driver.autoscale_home))
        if config.get("autostop") is None and not kept:
            return None
        has_scheduler = not isinstance(driver, RequestSetDriver)
        return rehearse_stop(config, new_driver, node_id, has_scheduler=has_scheduler)

    return ask


def _is_timed(config: Config) -> bool:
    """Whether jobs are placed by a search that ends when its time is over."""
    packing = config.get("packing") or {}
    return packing.get("objective") == "cost" and not packing.get("optimize_rounds")


def _held(config: Config, summary: PassSummary) -> dict[str, Refusal]:
    """The new nodes that one pass does not ask for, by name."""
    if summary.demand is None:
        return {}
    refused = Gate(facts_of_the_loop(config)).ration("create", summary.demand.new_nodes).refused
    return {refusal.node.name: refusal for refusal in refused}


def _of(kind: str, name: str, scene: Scene) -> Verdict:
    """The verdict on what somebody names: a job before a node, and a node before a bucket."""
    is_job = kind in ("", "job") and bool(scene.handed_over or name in scene.known_jobs())
    if kind == "job" or is_job:
        return explain_job(name, scene)
    node = find_node(name, scene) if kind in ("", "node") else None
    buckets = find_buckets(name, scene) if kind in ("", "bucket") else []
    if node is not None:
        return explain_node(node, scene)
    if buckets:
        return explain_buckets(name, buckets, scene)
    check_is_read(name, scene.calculator.node_mgr)
    names: dict[str, Callable[[], list[str]]] = {
        "node": lambda: [str(node.name) for node in scene.nodes],
        "bucket": lambda: bucket_names(scene),
    }
    if kind in names:
        raise AutoscaleError(f"there is no {kind} {name!r}{did_you_mean(name, names[kind]())}")
    known = [*scene.known_jobs(), *names["node"](), *names["bucket"]()]
    if ":" in name:
        known += [f"{prefix}:{name.partition(':')[2]}" for prefix in ("job", *names)]
    guess = did_you_mean(name, known)
    verdict = explain_job(name, scene)
    return verdict if guess and guess in verdict.line else explain_unknown(name, guess)


def _print(verdict: Verdict, output_format: OutputFormat | None) -> None:
    if output_format == "json":
        json_dump(verdict.to_dict(), sys.stdout)
        print()
        return
    for line in lines_of(verdict, text_width(), sys.stdout.isatty()):
        print(line)
