"""What `azscale autoscale --interval` says while it runs: a line with the time for each pass, more
only when there is something new, or a JSON object for each.

A reason, note or error is told when it appears and not again until it was gone for a pass. Numbers
in it may change meanwhile: seconds that are left, cores that are used.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import LogReporter, PassError, PassSummary
from hpc.autoscale.cli.painting import text_width
from hpc.autoscale.cli.plan_text import lines_of
from hpc.autoscale.plaintext import NAMED_AT_MOST, cut_to, on_one_line
from hpc.autoscale.rehearsal import Rehearsal
from hpc.autoscale.rehearsal.changes import without_moot

LogFormat = Literal["text", "json"]

# how much of a reason a line has; the log of the library and `-F json` have all of it
LONGEST = 240

# What a pass did to nodes, as opposed to what they are; only these are named in JSON. Nodes that
# run are joined anew in every pass.
_EVENTS = (
    "created",
    "started",
    "drained",
    "given_back",
    "undrained",
    "deleted",
    "hosts_started",
    "hosts_stopped",
)


class ServiceLog(LogReporter):
    """Tells of passes, a line each. `say` writes a line, by default on stderr."""

    def __init__(self, form: LogFormat = "text", say: Callable[[str], None] | None = None) -> None:
        self._form = form
        self._say = say or _on_stderr
        self._told: set[str] = set()
        self._joined: set[str] | None = None
        self._planned: list[tuple[object, ...]] | None = None

    def tell(self, text: str) -> None:
        """A line of its own, as about a doubt that came up."""
        self._write("note", {"message": text}, [text])

    def pass_finished(self, summary: PassSummary) -> None:
        """A line for the pass, and one for each reason, note and error that is new. Of the nodes
        that joined it names those that had not joined in the pass before; of the first pass, those
        that the scheduler had never reported."""
        super().pass_finished(summary)
        before, self._joined = self._joined, set(summary.joined)
        if before is not None:  # else this is the first pass of this process
            new = tuple(name for name in summary.joined if name not in before)
            summary = replace(summary, newly_joined=new)
        level = "info" if summary.ok else "warning"
        fresh = (
            self._fresh(f"  {text}" for _, text in summary.details())
            if self._form == "text"
            else []
        )
        self._write("pass", {"level": level, **_fields(summary)}, [summary.headline(), *fresh])

    def pass_failed(self, error: PassError, failures: int, pause: float) -> None:
        """Why there was no pass, and when the next one is tried."""
        super().pass_failed(error, failures, pause)
        fields = {
            "level": "warning" if error.is_skip else "error",
            "error": str(error),
            "failures_in_a_row": failures,
            "next_pass_in": pause,
        }
        again = f" ({failures} in a row)" if failures > 1 and not error.is_skip else ""
        then = f"{again}; next pass in {pause:.0f} s"
        self._write("failed", fields, [cut_to(on_one_line(str(error)), LONGEST - len(then)) + then])

    def plan_made(self, found: Rehearsal) -> None:
        """What a dry pass would do; as text only when that is something else than before."""
        if self._form == "json":
            said = found.to_dict()
            self._write("plan", {key: said[key] for key in ("changes", "cost_per_hour")}, [])
            return
        rows: list[tuple[object, ...]] = [
            (r.action, r.node or r.bucket, r.count) for r in without_moot(found.changes)
        ]
        if rows != self._planned:
            self._planned = rows
            for _, line in lines_of(found, text_width()):
                self._say(line)

    def is_news(self, summary: PassSummary) -> bool:
        """Whether the pass did something."""
        return any(getattr(summary, name) for name in _EVENTS)

    def _fresh(self, lines: Iterable[str]) -> list[str]:
        """The lines that the last pass did not have, but for numbers, times and names of jobs."""
        before, self._told = self._told, set()
        fresh = []
        for line in lines:
            gist = _gist(line)
            if gist not in before and gist not in self._told:
                fresh.append(line)
            self._told.add(gist)
        return fresh

    def _write(self, event: str, fields: dict[str, Any], lines: Iterable[str]) -> None:
        with clock.heard_by(None):  # what time a line has is no part of a pass that is recorded
            at = clock.in_utc(clock.time())
        if self._form == "json":
            self._say(json.dumps({"at": at, "event": event, **fields}))
            return
        for line in lines:
            self._say(f"{at} {cut_to(on_one_line(line), LONGEST)}")


class _Waits(logging.Handler):
    """Tells for whom or what the loop waits as it tells everything else."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of it."""
        self._tell(record.getMessage())


@contextmanager
def telling_of_waits(tell: Callable[[str], None]) -> Iterator[None]:
    """A context in which `tell` says for whom or what the process waits, where that would be a line
    on stderr otherwise: the handler `waits` of commands, and of the `logging.conf` of the
    package."""
    log = logging.getLogger("cyclecloud.waits")
    replaced = [handler for handler in log.handlers if handler.name == "waits"]
    own = _Waits(tell)
    for handler in replaced:
        log.removeHandler(handler)
        log.addHandler(own)
    try:
        yield
    finally:
        log.removeHandler(own)
        for handler in replaced:
            log.addHandler(handler)


def _on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _gist(line: str) -> str:
    """A line without what changes from pass to pass."""
    text = re.sub(r"^ *\d+ jobs? \(.*?\) (waits?|can never run):", "", line)
    text = re.sub(r"^ *(job|host) .*? set aside:", "", text)
    text = re.sub(r" or planned( \([^)]*\))?", "", text)  # in the next pass it is in use
    text = re.sub(r"in [^()]+ \(\d\d:\d\d:\d\d UTC\)", "", text)  # as of `at_time`
    return re.sub(r"\d+(?:\.\d+)?", "#", text)


def _fields(summary: PassSummary) -> dict[str, Any]:
    """The summary for a log: counts of everything, names of what happened, and the first jobs."""
    some = replace(
        summary,
        unsatisfied=summary.unsatisfied[:NAMED_AT_MOST],
        set_aside=summary.set_aside[:NAMED_AT_MOST],
    )
    fields = some.fields()
    fields["jobs_unsatisfied"] = len(summary.unsatisfied)
    fields["jobs_set_aside"] = len(summary.set_aside)
    fields["refused"] = dict(Counter(refusal.code for refusal in summary.refused))
    counts = {name.removeprefix("nodes_") for name in fields if name.startswith("nodes_")}
    return {key: value for key, value in fields.items() if key not in counts.difference(_EVENTS)}
