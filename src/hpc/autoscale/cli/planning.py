"""The commands plan and apply: what the next pass will do, and doing just that.

`hpc.autoscale.rehearsal` finds it out and keeps it; here it is asked for, printed, and carried out.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from hpc.autoscale.autoscaler import PassSummary, hooks
from hpc.autoscale.autoscaler.commanding import BOUNDS
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.autoscaling import PassIncomplete, SummaryReporter, finishing
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.plan_text import print_plan
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.node.operations import where
from hpc.autoscale.rehearsal import PassPlan, PlanError, Rehearsal
from hpc.autoscale.rehearsal.plan import Bounds, left_undone

NOTHING, CHANGES, NEVER = 0, 2, 3
"""Exit codes of plan: nothing to do, changes, and some job can never run."""


class PlanUnfinished(AutoscaleError):
    """A plan was carried out, but not all of it."""


class PlanCommands(CommandLine):
    """Commands that say what a pass will do, and hold it to that."""

    def plan_parser(self, parser: ArgumentParser) -> None:
        """Options of plan."""
        parser.add_argument(
            "--out", metavar="FILE", help="write the plan there, for `apply` to carry out"
        )
        self._add_output_format(parser)

    def plan(
        self,
        config: Config,
        out: str | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Shows what the next pass will do, and does nothing: what it creates, starts, joins,
        drains and deletes, why, and for how much. Exit code 0: nothing, 2: changes, 3: some job
        can never run."""
        if out == "-":
            raise PlanError("--out: expected a file, found '-'; -F json prints the plan as JSON")
        found = self._rehearsed(config)
        if out:
            PassPlan.of(found).write(out)
        if output_format == "json":
            json.dump(_as_json(found), sys.stdout, indent=2)
            print()
        else:
            print_plan(found, judge_all=True)  # the exit code needs it anyway
        sys.stdout.flush()
        if not found.summary.ok:
            raise PassIncomplete(found.summary)
        code = NEVER if found.never else CHANGES if found.changes else NOTHING
        if code:
            raise SystemExit(code)

    def apply_parser(self, parser: ArgumentParser) -> None:
        """Options of apply."""
        parser.set_defaults(read_only=False)
        parser.add_argument(
            "plan_file", metavar="PLAN", help="what `plan --out` has written; -: on stdin"
        )

    def apply(self, config: Config, plan_file: str) -> None:
        """Carries out a plan, just so: refuses where the next pass would not do the same any
        more."""
        plan = PassPlan.read(plan_file)
        driver = self._fresh_driver(config)
        _check_cluster(plan_file, plan, hooks.prepared_config(driver, dict(config)))
        lock = hooks.new_lock(driver, hooks.prepared_config(driver, dict(config)))
        try:
            now = self._rehearsed(plan.config_of_a_pass(config))
            moved = plan.moved(now)
            if moved:
                raise PlanError(f"{plan_file} is not carried out, nothing was changed: {moved}")
            summary = self._carried_out(config, plan)
        finally:
            lock.unlock()
        if not summary.ok:
            raise PassIncomplete(summary)
        left = left_undone(plan, summary, now.changes)
        if left:
            why = "; ".join(summary.notes) or "the next pass goes on"
            raise PlanUnfinished(f"{plan_file}: not done: {', '.join(left)}: {why}")

    def _carried_out(self, config: Config, plan: PassPlan) -> PassSummary:
        """The pass that does what was planned and nothing else; the lock is held."""
        bounded = {**plan.config_of_a_pass(config), BOUNDS: Bounds(plan).objection}
        reporter = SummaryReporter(errors=False)
        with finishing(bounded) as patient:
            return self._autoscaler(patient, dry_run=False, reporter=reporter).run_locked()


def _check_cluster(plan_file: str, plan: PassPlan, config: Config) -> None:
    """PlanError where a plan is for another cluster than the configuration, before anything is
    asked there."""
    try:
        here = where(new_cluster_bindings(config))
    except AutoscaleError:
        return  # the pass says what is wrong
    if plan.cluster != here:
        raise PlanError(
            f"{plan_file} is not carried out, nothing was changed: it is for {plan.cluster}, this"
            f" configuration is of {here}"
        )


def _as_json(found: Rehearsal) -> Mapping[str, Any]:
    """What the plan has, with the jobs that wait."""
    never = set(map(id, found.never))
    summary = found.summary
    return {
        **PassPlan.of(found).to_dict(),
        "jobs": summary.jobs,
        "waiting": [
            {
                "job": job.name,
                "missing": job.missing,
                "unit": job.unit,
                "reason": job.reason,
                "limit": job.limit,
                "never": id(job) in never,
                "verdict": job.verdict.line,
                "until": job.verdict.until,
            }
            for job in summary.unsatisfied
        ],
        "set_aside": [
            {"job": job.name, "reason": job.reason, "never": id(job) in never}
            for job in summary.set_aside
        ],
        "refused": summary.fields()["refused"],
        "notes": list(summary.notes),
        "errors": [str(error) for error in summary.errors],
    }
