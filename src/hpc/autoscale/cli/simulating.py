"""The command simulate: a recorded workload through the loop, in virtual time.

Only `azscale` has it. `hpc.autoscale.traces` does the work; here are its options and its tables.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.base import CommandLine
from hpc.autoscale.cli.parsing import start_logging, takes_path
from hpc.autoscale.errors import AutoscaleError, ConfigurationException
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.tables import OutputFormat
from hpc.autoscale.util import json_dump, load_config

if TYPE_CHECKING:
    from hpc.autoscale.traces.measures import Measures
    from hpc.autoscale.traces.playing import Play
    from hpc.autoscale.traces.workload import Trace, TraceJob

_DAY = 86400.0
# The width of the whole table, and of a figure in it.
_WIDTH = 80
_COLUMN = 12


class SimulationCommands(CommandLine):
    """The command simulate."""

    def simulate_parser(self, parser: ArgumentParser) -> None:
        """Options of simulate."""
        add = parser.add_argument
        add(
            "trace", help="file of jobs: SWF, or what sacct or qstat print, also gzipped; a journal"
        )
        add("--form", help="its form, where that cannot be seen: swf, sacct, qstat or journal")
        add("--start", type=float, default=0.0, metavar="DAYS", help="leave out the first days")
        add("--days", type=float, help="how many days of jobs to play; all")
        machine = parser.add_argument_group("the simulated machine")
        add = machine.add_argument
        add("--cluster", metavar="FILE", help="a description as the simulator reads it, instead")
        add("--nodes", type=int, help="nodes at most; as many cores as the recorded machine had")
        add("--vm-size", help="VM size of the nodes; Standard_F16s_v2")
        add("--region", help="where they are; westus2")
        add("--spot", action="store_const", const=True, help="spot nodes")
        add("--cores-per-node", type=int, help="cores of a node, in place of those of the VM size")
        add("--boot", type=float, metavar="SECONDS", help="until a node is ready; 300")
        add("--eviction-hours", type=float, help="mean life of a spot node; never evicted")
        add("--boot-failures", type=float, metavar="PART", help="part of the boots that fail; 0")
        add("--seed", type=int, help="of what is left to chance; 0")
        self._add_uses(parser)
        loop = parser.add_argument_group("the loop and the scheduler")
        add = loop.add_argument
        add("--interval", type=float, metavar="SECONDS", help="from pass to pass; 300")
        add("--scheduler", choices=("easy", "fcfs"), help="with EASY backfill (easy) or without")
        add("--whole-nodes", action="store_const", const=True, help="a job has its nodes alone")
        add("--fixed", action="store_const", const=True, help="all nodes all the time, no loop")
        add(
            "--compare",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="play it once more with this changed, as in idle_timeout=60 or"
            " 'packing.objective=cost nodes=50'; again for another one",
        )
        parser.add_argument(
            "--journal",
            metavar="DIRECTORY",
            help="write the journal of the first run, for azscale report; empty or not there yet",
        )
        self._add_output_format(parser)

    def _add_uses(self, parser: ArgumentParser) -> None:
        asked = parser.add_argument_group("what jobs ask for beside cores, if it is to count")
        add = asked.add_argument
        add("--memory", action="store_const", const=True, help="memory")
        add("--memory-unit", metavar="UNIT", help="of SWF: kb of each core; mb, b/job and so on")
        add("--gpus", action="store_const", const=True, help="GPUs")
        add("--dependencies", action="store_const", const=True, help="jobs that go before others")
        of: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=NODEARRAY"}
        add(
            "--queue", **of, help="jobs of this queue run only on that nodearray; again for another"
        )
        add("--partition", **of, help="the same for a partition")

    @takes_path
    def simulate(
        self,
        config: str | None,
        trace: str,
        form: str | None = None,
        start: float = 0.0,
        days: float | None = None,
        compare: Sequence[str] = (),
        journal: str | None = None,
        memory_unit: str | None = None,
        queue: Sequence[str] = (),
        partition: Sequence[str] = (),
        output_format: OutputFormat | None = None,
        **given: Any,
    ) -> None:
        """Plays a recorded workload through the loop on a simulated cluster, and says what it would
        have waited and cost."""
        from hpc.autoscale.traces.comparing import play_all
        from hpc.autoscale.traces.measures import as_recorded

        content = _loaded(config)
        workload = _read(trace, form, memory_unit)
        for sentence in (*workload.problems, *workload.set_aside.sentences()):
            warn("%s: %s", trace, sentence)
        jobs = _part(workload, start, days)
        given["queues"] = _pairs("--queue", queue)
        given["partitions"] = _pairs("--partition", partition)
        plays = _plays(content, workload, given, compare)
        if memory_unit and not any(play.uses.memory for play in plays):
            raise CommandLineError(
                "--memory-unit: expected --memory with it: memory does not count"
            )
        if memory_unit and workload.form != "swf":
            raise CommandLineError(f"--memory-unit: expected SWF, found {workload.form}")
        if journal is not None:
            if plays[0].fixed:
                raise CommandLineError("--journal: expected a loop, found --fixed without one")
            plays[0] = replace(plays[0], journal=_new_directory(journal))
        with _ended_by_sigterm():
            found = play_all(plays, jobs, _progress(plays, jobs))
        recorded = as_recorded(workload, jobs)
        _print([*([recorded] if recorded else []), *found], output_format or "table")
        for measures in found:
            if measures.error:
                warn("%s: passes with errors, most often: %s", measures.name, measures.error)
        if found[0].not_in_journal:
            raise AutoscaleError(f"--journal: {journal} does not have {found[0].not_in_journal}")
        if journal is not None and not os.listdir(journal):
            warn("--journal: %s stays empty: no job could be played, so there was no pass", journal)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends what is done here as Ctrl-C does: no process goes on, and no file is left."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _read(path: str, form: str | None, memory_unit: str | None) -> Trace:
    """The workload of a path. CommandLineError for a form or a unit that there is not."""
    from hpc.autoscale.traces.opening import read_trace
    from hpc.autoscale.traces.swf import MEMORY_UNIT
    from hpc.autoscale.traces.workload import ReadingError

    try:
        return read_trace(path, form, memory_unit or MEMORY_UNIT)
    except ReadingError as problem:
        key, _, said = str(problem).partition(":")
        raise CommandLineError(f"{_option(key)}:{said}") from None


def _part(workload: Trace, start: float, days: float | None) -> list[TraceJob]:
    """The jobs of the days that were asked for; CommandLineError when there are none."""
    if not start >= 0:
        raise CommandLineError(f"--start: expected days, 0 or more, found {start:g}")
    if days is not None and not days > 0:
        raise CommandLineError(f"--days: expected days above 0, found {days:g}")
    jobs = workload.part(start * _DAY, None if days is None else days * _DAY)
    if not jobs:
        raise CommandLineError(
            f"--start, --days: expected days with jobs, found none: {workload.path} has those of"
            f" {_days_of(workload.jobs[-1].submitted - workload.jobs[0].submitted)}"
        )
    return jobs


def _plays(
    config: dict[str, Any], workload: Trace, given: dict[str, Any], compare: Sequence[str]
) -> list[Play]:
    """What is played: what the options say, and that with each of the changes. `given`: values of
    options by the key of a choice. CommandLineError for what cannot be played because of them."""
    from hpc.autoscale.traces.choices import Choice, ChoiceError, changed, play_of, with_value

    choice = Choice(config=config, cluster=given.pop("cluster", None))
    try:
        for key, value in given.items():
            if value is not None:
                choice = with_value(choice, key, value)
        plays = [play_of(choice, workload)]
    except ChoiceError as problem:
        key, _, said = str(problem).partition(":")
        raise CommandLineError(f"{_option(key)}:{said}") from None
    try:
        plays += [play_of(changed(choice, text), workload) for text in compare]
    except ConfigurationException as problem:
        raise CommandLineError(str(problem)) from None
    has_spot = any(
        array.spot for play in plays if not play.fixed for array in play.nodearrays.values()
    )
    if given.get("eviction_hours") is not None and not has_spot:
        raise CommandLineError(
            "--eviction-hours: expected --spot with it, and not --fixed: no node is evicted"
        )
    return plays


def _option(key: str) -> str:
    """The option that sets a key of a choice."""
    word = {"queues": "queue", "partitions": "partition"}.get(key, key)
    return f"--{word.replace('_', '-')}"


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """The pairs NAME=NODEARRAY of an option."""
    pairs = {}
    for text in given:
        name, equals, nodearray = (part.strip() for part in text.partition("="))
        if not (name and equals and nodearray):
            raise CommandLineError(f"{option}: expected NAME=NODEARRAY, found {text!r}")
        pairs[name] = nodearray
    return pairs


def _new_directory(path: str) -> str:
    """A directory for a new journal. What was written of other passes is never mixed with it."""
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise ConfigurationException(f"--journal: expected a new directory, found {path}")
    except OSError as error:
        said = error.strerror or error
        raise ConfigurationException(f"--journal: {path} cannot be used: {said}") from error
    return os.path.abspath(path)


def _loaded(path: str | None) -> dict[str, Any]:
    """The configuration of a path; an empty one without. Nothing is written to its log."""
    start_logging({}, False)
    return load_config(path) if path else {}


def _progress(
    plays: Sequence[Any], jobs: Sequence[Any]
) -> Callable[[int, float, int], None] | None:
    """What says on a terminal how far runs are; None where nobody looks."""
    if not sys.stderr.isatty():
        return None
    ended = [0] * len(plays)
    every = len(jobs) * len(plays)

    def say(number: int, now: float, done: int) -> None:
        ended[number] = done
        sys.stderr.write(f"\r{sum(ended)} of {every} jobs have ended ")
        sys.stderr.flush()

    return say


def _days_of(seconds: float) -> str:
    return f"{seconds / _DAY:.1f} days"


def _print(found: Sequence[Measures], output_format: OutputFormat) -> None:
    """One column for each run, in blocks as wide as a screen; or all of it as JSON."""
    if output_format == "json":
        json_dump([asdict(measures) for measures in found], sys.stdout)
        print()
        return
    for number, measures in enumerate(found, 1):
        print(f"{number}: {on_one_line(measures.name)}")
    rows = [[text, *(show(measures) for measures in found)] for text, show in _ROWS]
    rows = [row for row in rows if any(row[1:])]
    first = max(len(row[0]) for row in rows)
    per_block = max(1, (_WIDTH - first) // (_COLUMN + 1))
    for begin in range(0, len(found), per_block):
        columns = range(begin, min(len(found), begin + per_block))
        print()
        if output_format == "table":
            heads = "".join(f" {column + 1:>{_COLUMN}}" for column in columns)
            print(f"{'':{first}}{heads}")
        for row in rows:
            cells = "".join(f" {row[1 + column]:>{_COLUMN}}" for column in columns)
            print(f"{row[0]:{first}}{cells}".rstrip())


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _time(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    if seconds is None:
        return ""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _cost(measures: Measures) -> str:
    return "unknown" if measures.unpriced else _amount(measures.cost)


def _passed_over(what: str) -> Callable[[Measures], str]:
    return lambda measures: _count(measures.not_looked_at.get(what))


_NOT_LOOKED_AT = tuple(
    (f"  {text} not looked at", _passed_over(what))
    for what, text in (
        ("memory", "memory"),
        ("gpus", "GPUs"),
        ("queues", "queue"),
        ("partitions", "partition"),
        ("dependencies", "dependency"),
    )
)
_ROWS: Sequence[tuple[str, Callable[[Measures], str]]] = (
    ("jobs", lambda m: _count(m.jobs)),
    ("  too large for the machine", lambda m: _count(m.impossible)),
    ("  never ended", lambda m: _count(m.unfinished)),
    *_NOT_LOOKED_AT,
    ("days", lambda m: f"{m.days:.1f}"),
    ("wait, mean", lambda m: _time(m.waits.mean)),
    ("  half wait at most", lambda m: _time(m.waits.p50)),
    ("  95 % wait at most", lambda m: _time(m.waits.p95)),
    ("  longest", lambda m: _time(m.waits.longest)),
    ("bounded slowdown, mean", lambda m: _amount(m.waits.slowdown)),
    ("  95 % have at most", lambda m: _amount(m.waits.slowdown_p95)),
    ("utilisation", lambda m: "" if m.utilisation is None else f"{m.utilisation:.1%}"),
    ("node-hours", lambda m: _count(m.node_hours)),
    ("core-hours", lambda m: _count(m.core_hours)),
    ("cost, US dollars", _cost),
    ("nodes at a time, at most", lambda m: _count(m.most_nodes)),
    ("boots", lambda m: _count(m.boots)),
    ("  that failed", lambda m: _count(m.failed_boots)),
    ("  without capacity", lambda m: _count(m.no_capacity)),
    ("evictions", lambda m: _count(m.evictions)),
    ("runs cut short", lambda m: _count(m.restarts)),
    ("  core-hours lost", lambda m: _amount(m.lost_core_hours)),
    ("passes", lambda m: _count(m.passes)),
    ("  with errors", lambda m: _count(m.failed_passes)),
)
