"""Telling the scheduler why jobs wait, so that users see it where they look.

A driver that has `explain_job` is called for each job whose verdict is another than it was told
last. What was told is kept in a file, so that the next process does not say it again. Nothing of
this ever harms a pass: what a hook raises is a note, and the file may be lost. Called by `passes`
at the end of a real pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.summary import SetAsideJob, UnsatisfiedJob, part_that_counts
from hpc.autoscale.errors import counted, one_line_and_where
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import UnusableHost
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict
from hpc.autoscale.util import partition
from hpc.autoscale.wholefiles import unwritable, write_whole

TOLD_PER_PASS = 500
"""Jobs that one pass tells of at most; the others are told of in later ones."""

TOLD_SECONDS = 20.0
"""For so long a pass goes on to tell: where the scheduler wants a command for each job, the nodes
of the next pass would wait for it."""

JUDGED_PER_PASS = 50
"""Causes that one pass works out at most for this; jobs that are alike share one. The others keep
what was said of them until their turn comes."""

_GIVE_UP_AFTER = 3
"""Failures in a row after which a pass tells no more: then it is not one job that has ended
meanwhile, but the command or the scheduler."""

_NOTED = 3
"""Failures of one pass that are notes of their own; the others are counted in one more."""


class Telling:
    """What the driver was told of jobs. `path`: the file; None where nothing outlives this
    object."""

    def __init__(self, driver: SchedulerDriver, path: str | None) -> None:
        self.notes: list[str] = []
        self._driver = driver
        self._path = path
        self._in_a_row = 0
        self._failed = 0

    @property
    def is_wanted(self) -> bool:
        """Whether the driver does anything with a verdict."""
        return self._driver.has_place_for_verdicts

    def tell(
        self,
        jobs: Iterable[object],
        unsatisfied: Sequence[UnsatisfiedJob],
        set_aside: Sequence[SetAsideJob],
    ) -> list[str]:
        """Tell of jobs that wait, and of those that did and do no more; names of those told of."""
        before = self._read()
        waiting = partition(unsatisfied, lambda job: job.name)
        aside = {job.name: job for job in set_aside}
        now: dict[str, str] = {}
        told: list[str] = []
        later: list[str] = []
        judged: set[int] = set()
        end = time.monotonic() + TOLD_SECONDS  # real time, which a hook takes
        for job in _in_turn(jobs, before):
            name = str(job.name)
            if not all(_may_be_judged(part, judged) for part in waiting.get(name, ())):
                later.append(name)
                continue
            verdict = self._verdict(name, job, waiting, aside, before)
            if verdict is None or name in now:
                continue
            if before.get(name) == verdict.key:
                now[name] = verdict.key
            elif (
                len(told) >= TOLD_PER_PASS
                or self._in_a_row >= _GIVE_UP_AFTER
                or (told and time.monotonic() >= end)
            ):
                later.append(name)
            elif self._say(job, verdict):
                told.append(name)
                now[name] = verdict.key
        if self._failed > _NOTED:
            more = counted(self._failed - _NOTED, "more job")
            self.notes.append(f"not told why they wait: {more}")
        # what was said of these stays until their turn comes
        now.update({name: before[name] for name in later if name in before})
        if later:
            logging.debug("%s are looked at later", counted(len(later), "job"))
        if now != before:
            self._write(now)
        return told

    @staticmethod
    def _verdict(
        name: str,
        job: Job,
        waiting: Mapping[str, Sequence[UnsatisfiedJob]],
        set_aside: Mapping[str, SetAsideJob],
        before: Mapping[str, str],
    ) -> Verdict | None:
        """What to tell of a job now; None where there is nothing to tell of it."""
        if name in waiting:
            return part_that_counts(waiting[name]).verdict
        if name in set_aside:
            if set_aside[name].runs:
                return None
            text = set_aside[name].reason
            line = f"Job {name} is set aside: {text}"
            cause = Cause("SetAside", text)
            return Verdict(f"job {name}", Stand.NEVER, "SetAside", line, (cause,))
        if name not in before or job.metadata.get("job_state") == "running":
            return None
        line = f"Job {name} waits no more: nodes for it are there, or on their way"
        return Verdict(f"job {name}", Stand.COMES, "Starts", line, (Cause("Starts", line),))

    def _say(self, job: Job, verdict: Verdict) -> bool:
        try:
            hooks.ask(self._driver.explain_job, job, verdict)
        except Exception as error:  # noqa: BLE001  a hook, of which nothing depends
            self._in_a_row += 1
            self._failed += 1
            if self._failed <= _NOTED:
                self.notes.append(f"telling why job {job.name} waits: {one_line_and_where(error)}")
                logging.warning("%s", self.notes[-1])
            return False
        self._in_a_row = 0
        return True

    def _read(self) -> dict[str, str]:
        if self._path is None:
            return {}
        try:
            found: Any = json.loads(Path(self._path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {str(name): key for name, key in found.items() if isinstance(key, str)}

    def _write(self, told: Mapping[str, str]) -> None:
        if self._path is None:
            return
        try:
            write_whole(self._path, json.dumps(told))
        except OSError as error:
            logging.warning("what jobs were told, %s: %s", self._path, unwritable(error))


def _may_be_judged(job: UnsatisfiedJob, judged: set[int]) -> bool:
    """Whether the cause of a job is among those that are worked out in this pass, or may still
    be."""
    if id(job.cause) not in judged and len(judged) >= JUDGED_PER_PASS:
        return False
    judged.add(id(job.cause))
    return True


def _in_turn(jobs: Iterable[object], told: Mapping[str, str]) -> list[Job]:
    """Jobs that nobody was told of first; then the others, from another one on each minute, so that
    all have their turn."""
    every = [job for job in jobs if isinstance(job, Job) and not isinstance(job, UnusableHost)]
    new = [job for job in every if job.name not in told]
    known = [job for job in every if job.name in told]
    if known:
        start = int(clock.time() // 60) * JUDGED_PER_PASS % len(known)
        known = [*known[start:], *known[:start]]
    return [*new, *known]
