"""The command whatif: what the next pass would do if something were different, beside what it will
do.

Both are rehearsals of the same queue (`hpc.autoscale.rehearsal`); `otherwise` there understands the
settings.
"""

from __future__ import annotations

import json
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any

from hpc.autoscale.autoscaler import SetAsideJob, UnsatisfiedJob
from hpc.autoscale.autoscaler.summary import shorten
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import screen_width
from hpc.autoscale.cli.plan_text import SIGNS
from hpc.autoscale.errors import AutoscaleError, counted
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.rehearsal import NewBinding, Rehearsal
from hpc.autoscale.rehearsal.otherwise import Otherwise
from hpc.autoscale.rehearsal.recorded import RecordedSite, record_in

CAUSES_TOLD = 8
"""How many kinds of waiting jobs are told of before they are only counted."""

_LABEL, _VALUE = 36, 20


class WhatIfCommands(CommandLine):
    """Questions about what is not so."""

    def whatif_parser(self, parser: ArgumentParser) -> None:
        """Options of whatif."""
        parser.add_argument(
            "--set",
            dest="settings",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="what would be different: a key of autoscale.json with dots, quota.FAMILY or"
            " quota.REGION in cores, nodearray.NAME.max_count, price.SIZE; may be given more than"
            " once",
        )
        parser.add_argument(
            "--journal", metavar="FILE", help="of the queue and the cluster in this journal"
        )
        parser.add_argument(
            "--pass", dest="number", type=int, help="as they were at this pass (default: the last)"
        )
        self._add_output_format(parser)

    def whatif(
        self,
        config: Config,
        settings: Sequence[str] = (),
        journal: str | None = None,
        number: int | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Compares what the next pass will do with what it would do under other quotas, prices,
        nodearrays, timeouts or policies, and does nothing."""
        if not settings:
            raise AutoscaleError("expected what would be different, as in --set idle_timeout=600")
        if number is not None and journal is None:
            raise AutoscaleError("--pass: expected --journal with it, found none")
        other = Otherwise(settings)
        changed = other.config(config)
        if journal is None:
            now, then = self._compared(config, changed, other)
        else:
            with RecordedSite(record_in(journal, number)) as site:
                both = site.config(config), site.config(changed)
                now, then = self._compared(*both, other, **site.doors)
        if output_format == "json":
            said = {"set": other.given, "now": now.to_dict(), "then": then.to_dict()}
            json.dump(said, sys.stdout, indent=2)
            print()
            return
        for line in _lines(now, then, settings, screen_width()):
            print(line)

    def _compared(
        self,
        config: Config,
        changed: Config,
        other: Otherwise,
        new_binding: NewBinding = new_cluster_bindings,
        **doors: Any,
    ) -> tuple[_Case, _Case]:
        """What comes of a configuration, and of another one with other limits."""
        now = self._rehearsed(config, new_binding=new_binding, **doors)
        outcome = _Case(now)  # prices are of the process, and others are used from here on
        then = self._rehearsed(changed, new_binding=other.binding(new_binding), **doors)
        return outcome, _Case(then)


class _Case:
    """What is compared of a rehearsal."""

    def __init__(self, found: Rehearsal) -> None:
        summary = found.summary
        self.jobs = summary.jobs
        self.placed = summary.jobs - len(summary.unsatisfied) - len(summary.set_aside)
        self.before, self.after = found.before, found.after
        self.counts: dict[tuple[str, str], int] = {}
        for row in found.changes:
            if row.action in ("create", "start", "delete"):
                key = row.action, row.bucket
                self.counts[key] = self.counts.get(key, 0) + row.count
        self.nodes = sum(1 for node in found.demand.compute_nodes if node.managed and node.exists)
        never = set(map(id, found.never))
        waiting: list[UnsatisfiedJob | SetAsideJob] = [*summary.unsatisfied, *summary.set_aside]
        self.waiting = [(job.name, _why(job), id(job) in never) for job in waiting]
        self.errors = [*map(str, summary.errors)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "jobs": self.jobs,
            "placed": self.placed,
            "nodes_after": self.nodes,
            "changes": [
                {"action": action, "bucket": bucket, "count": count}
                for (action, bucket), count in self.counts.items()
            ],
            "cost_per_hour": {"before": self.before.to_dict(), "after": self.after.to_dict()},
            "waiting": [
                {"job": name, "reason": why, "never": never} for name, why, never in self.waiting
            ],
            "errors": self.errors,
        }


def _why(job: UnsatisfiedJob | SetAsideJob) -> str:
    return job.reason if isinstance(job, SetAsideJob) else str(job.verdict.causes[0])


def _lines(now: _Case, then: _Case, settings: Sequence[str], width: int) -> Iterator[str]:
    """The table, and what still waits."""
    yield from textwrap.wrap(f"What if: {on_one_line(', '.join(settings))}", width)
    yield ""
    yield _row("", "now", "then")
    yield _row("jobs placed", *(f"{each.placed} of {each.jobs}" for each in (now, then)))
    yield _row("nodes after the pass", str(now.nodes), str(then.nodes))
    for action, bucket in dict.fromkeys([*now.counts, *then.counts]):
        figures = (each.counts.get((action, bucket), 0) for each in (now, then))
        yield _row(f"  {SIGNS[action][0]} {action} {bucket}", *map(str, figures))
    yield _row("nodes cost per hour", _dollars(now), _dollars(then))
    for name, each in (("now", now), ("then", then)):
        yield from _waiting(name, each, width)


def _row(label: str, now: str, then: str) -> str:
    return f"{on_one_line(label):<{_LABEL}} {now:>{_VALUE}} {then:>{_VALUE}}".rstrip()


def _dollars(each: _Case) -> str:
    more = f" + {each.after.unpriced}?" if each.after.unpriced else ""
    return f"${each.after.per_hour:,.2f}{more}"


def _waiting(name: str, each: _Case, width: int) -> Iterator[str]:
    alike: dict[tuple[str, bool], list[str]] = {}
    for job, why, never in each.waiting:
        alike.setdefault((why, never), []).append(job)
    yield ""
    yield f"What waits {name}: {'' if alike else 'nothing'}".rstrip()
    told = list(alike.items())
    for (why, never), names in told[:CAUSES_TOLD]:
        how = "can never run" if never else "waits" if len(names) == 1 else "wait"
        said = f"  {counted(len(names), 'job')} ({shorten(names)}) {how}: {why}"
        yield from textwrap.wrap(on_one_line(said), width, subsequent_indent="    ")
    rest = sum(len(names) for _, names in told[CAUSES_TOLD:])
    if rest:
        yield f"  and {counted(rest, 'more job')}, for other reasons"
    for error in each.errors:
        yield from textwrap.wrap(f"  ! {on_one_line(error)}", width, subsequent_indent="    ")
