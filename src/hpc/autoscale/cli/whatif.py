"""The command whatif: what the next pass would do if something were different, beside what it will
do.

Both are rehearsals of the same queue (`hpc.autoscale.rehearsal`); `otherwise` there understands the
settings.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any

from hpc.autoscale.autoscaler import SetAsideJob, UnsatisfiedJob
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.argparser import count_type
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import screen_width
from hpc.autoscale.cli.plan_text import SIGNS
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.journal import Journal, PassRecord
from hpc.autoscale.journal.snapshots import foreign_constraints
from hpc.autoscale.plaintext import columns_of, on_one_line, padded, wrapped
from hpc.autoscale.rehearsal import NewBinding, Rehearsal
from hpc.autoscale.rehearsal.otherwise import Otherwise
from hpc.autoscale.rehearsal.recorded import RecordedSite, record_in
from hpc.autoscale.replaying import remembered_before

_LABEL, _VALUE = 36, 14


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
            "--case",
            dest="cases",
            action="append",
            nargs="+",
            default=[],
            metavar="KEY=VALUE",
            help="one of several questions, with what is different in it beside --set; may be given"
            " more than once",
        )
        parser.add_argument(
            "--journal", metavar="FILE", help="of the queue and the cluster in this journal"
        )
        parser.add_argument(
            "--pass",
            dest="number",
            type=count_type,
            help="as they were at this pass (default: the last)",
        )
        self._add_output_format(parser)

    def whatif(
        self,
        config: Config,
        settings: Sequence[str] = (),
        cases: Sequence[Sequence[str]] = (),
        journal: str | None = None,
        number: int | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Compares what the next pass will do with what it would do under other quotas, prices,
        nodearrays, timeouts or policies, and does nothing."""
        if not (settings or cases):
            raise CommandLineError("expected what would be different, as in --set idle_timeout=600")
        if number is not None and journal is None:
            raise CommandLineError("--pass: expected --journal with it, found none")
        asked = [(*settings, *own) for own in cases] or [tuple(settings)]
        try:
            others = [Otherwise(each) for each in asked]
            # all of them are looked at before the first is tried
            changed = [other.config(config) for other in others]
        except ConfigurationException as problem:
            raise CommandLineError(problem.in_words()) from None
        notes: list[str] = []
        if journal is None:
            now, *then = self._compared(config, changed, others)
        else:
            found = Journal(journal, skip_garbled=True)
            record = record_in(found, number)
            for sentence in found.problems:
                warn("%s", sentence)
            doors = remembered_before(found, record.number, exactly=False)
            notes = list(_doubts(record, doors is not None))
            with RecordedSite(record, doors and doors["state"]) as site:
                own = site.config(config), [site.config(each) for each in changed]
                now, *then = self._compared(*own, others, **site.doors)
        if output_format == "json":
            json.dump(_as_json(now, then, others, bool(cases), notes), sys.stdout, indent=2)
            print()
            return
        names = [f"case {i}" for i in range(1, len(then) + 1)] if cases else ["then"]
        for line in _lines(now, then, names, others, screen_width()):
            print(line)
        for note in notes:
            print(f"\n{note}")

    def _compared(
        self,
        config: Config,
        changed: Sequence[Config],
        others: Sequence[Otherwise],
        new_binding: NewBinding = new_cluster_bindings,
        **doors: Any,
    ) -> list[_Case]:
        """What comes of a configuration, and of each of others with other limits."""
        # prices are of the process: what is compared is worked out before the next is rehearsed
        found = [_Case(self._rehearsed(config, new_binding=new_binding, **doors))]
        for own, other in zip(changed, others, strict=True):
            doors_of_it = {**doors, "new_binding": other.binding(new_binding)}
            try:
                found.append(_Case(self._rehearsed(own, **doors_of_it)))
            except ConfigurationException as problem:  # without what was set, there was none
                raise CommandLineError(problem.in_words()) from None
        return found


_NOT_REMEMBERED = (
    "What the autoscaler remembered then is not in the journal: no node goes for being idle here."
)


def _doubts(record: PassRecord, remembers: bool) -> Iterator[str]:
    """Why what is said of a pass of a journal may not be true."""
    if not remembers:
        yield _NOT_REMEMBERED
    if foreign := foreign_constraints(record.jobs):
        yield f"Only an integration knows {foreign}, so jobs that ask for that are not placed here."


def _as_json(
    now: _Case,
    then: Sequence[_Case],
    others: Sequence[Otherwise],
    are_several: bool,
    notes: list[str],
) -> dict[str, Any]:
    found = [{"set": o.given, "then": t.to_dict()} for o, t in zip(others, then, strict=True)]
    said: dict[str, Any] = {"now": now.to_dict(), "notes": notes}
    return {**said, "cases": found} if are_several else {**said, **found[0]}


class _Case:
    """What is compared of a rehearsal."""

    def __init__(self, found: Rehearsal) -> None:
        summary = found.summary
        self.jobs = summary.jobs
        aside = summary.aside_waiting
        self.placed = summary.jobs - len(summary.unsatisfied) - len(aside)
        self.before, self.after = found.before, found.after
        self.counts: dict[tuple[str, str], int] = {}
        for row in found.changes:
            if row.action in ("create", "start", "delete"):
                key = row.action, row.bucket
                self.counts[key] = self.counts.get(key, 0) + row.count
        self.nodes = sum(1 for node in found.nodes if node.managed and node.exists)
        never = set(map(id, found.never))
        waiting: list[UnsatisfiedJob | SetAsideJob] = [*summary.unsatisfied, *aside]
        self.waiting = [(job.name, _why(job), id(job) in never) for job in waiting]
        told = summary.details(judge_all=True)  # `found.never` has done that
        self.details = [(kind, text) for kind, text in told if kind != "note"]
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


def _lines(
    now: _Case,
    then: Sequence[_Case],
    names: Sequence[str],
    others: Sequence[Otherwise],
    width: int,
) -> Iterator[str]:
    """The table, or one below the other where there are more cases than it has room for, and what
    still waits."""
    for name, other in zip(names, others, strict=True):
        head = "What if" if name == "then" else f"What if ({name})"
        yield from wrapped(f"{head}: {on_one_line(', '.join(other.written.values()))}", width)
    label = max(0, min(_LABEL, width - 2 * _VALUE))
    at_once = max(1, (width - label) // _VALUE - 1)
    for first in range(0, len(then), at_once):
        part = slice(first, first + at_once)
        yield ""
        for row in _table([now, *then[part]], ["now", *names[part]]):
            yield from _row(row, label, width)
    for name, each in zip(["now", *names], [now, *then], strict=True):
        yield from _waiting(name if name in ("now", "then") else f"in {name}", each, width)


def _table(cases: Sequence[_Case], names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The rows of the table: a label, and a figure for each case."""
    yield "", *names
    yield "jobs placed", *(f"{each.placed} of {each.jobs}" for each in cases)
    yield "nodes after the pass", *(str(each.nodes) for each in cases)
    for action, bucket in dict.fromkeys(key for each in cases for key in each.counts):
        figures = (str(each.counts.get((action, bucket), 0)) for each in cases)
        yield f"  {SIGNS[action][0]} {action} {bucket}", *figures
    yield "nodes cost per hour", *map(_dollars, cases)


def _row(row: Sequence[str], label: int, width: int) -> Iterator[str]:
    """A row in lines: the figures are below its label where that takes more columns than
    `label`."""
    shown, cells = on_one_line(row[0]), "".join(f"{value:>{_VALUE}}" for value in row[1:])
    if columns_of(shown) > label:
        yield from wrapped(shown, width, "    ")
        shown = ""
    yield f"{padded(shown, label)}{cells}".rstrip()


def _dollars(each: _Case) -> str:
    more = f" + {each.after.unpriced}?" if each.after.unpriced else ""
    return f"${each.after.per_hour:,.2f}{more}"


def _waiting(name: str, each: _Case, width: int) -> Iterator[str]:
    yield ""
    yield f"What waits {name}:{'' if each.waiting else ' nothing'}"
    for kind, text in each.details:
        said = f"  ! {text}" if kind == "error" else f"  {text}"
        yield from wrapped(said, width, "    ")
