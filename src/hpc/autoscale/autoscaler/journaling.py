"""The journal of a loop: whether there is one and where, and one record for each real pass.

A pass never fails because of its journal. What keeps a record or figures from being written is for
the notes of the pass; the log has it once, and once more when the journal is written again. Called
by `loop`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import metering
from hpc.autoscale.autoscaler.hooks import end_of_pass, hook_of
from hpc.autoscale.errors import AutoscaleError, one_line
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.statefiles import directory_of_files

if TYPE_CHECKING:
    from hpc.autoscale.autoscaler.passes import Pass
    from hpc.autoscale.autoscaler.reading import Readings
    from hpc.autoscale.autoscaler.summary import PassSummary
    from hpc.autoscale.journal.recording import PassRecorder
    from hpc.autoscale.journal.state import Stamp
    from hpc.autoscale.journal.writing import JournalWriter

SECTION = "journal"
DIRECTORY = "journal"
BY_DEFAULT = True
"""Whether there is a journal where the configuration says nothing."""


def journal_path(config: Mapping[str, Any], home: str) -> str | None:
    """The directory of the journal; None where it is off, or where there is no place for it.

    It is `directory` of the section `journal`, else beside the node history.
    """
    section = config.get(SECTION, {} if BY_DEFAULT else False)
    if section is False:
        return None
    given = section.get("directory") if isinstance(section, Mapping) else None
    if given:
        return str(given)
    directory = directory_of_files(config, home)
    if config.get("nodehistorydb") == ":memory:" or not os.path.isdir(directory):
        return None
    return os.path.join(directory, DIRECTORY)


def why_none(config: Mapping[str, Any], home: str) -> str:
    """Why `journal_path` gives none, in words that follow the name of a configuration."""
    if config.get(SECTION) is False or config.get("nodehistorydb") == ":memory:":
        return "has no journal"
    directory = directory_of_files(config, home)
    return f"has its journal beside the node history, and there is no directory {directory}"


def check_written(path: str) -> None:
    """AutoscaleError where no pass was written yet to the journal of a configuration, which is at
    this path. For those who want to see passes; what else is wrong there they find themselves."""
    try:
        is_empty = not os.listdir(path)
    except OSError as error:
        is_empty = isinstance(error, FileNotFoundError)
    if is_empty:
        raise AutoscaleError(
            f"no pass was written yet: the first one begins the journal {os.path.abspath(path)}"
        )


class LoopJournal:
    """The journal of the passes of one loop. `missing`: how many of them are not in it, and
    `first_problem` why the first of these is not."""

    def __init__(self) -> None:
        self._writer: JournalWriter | None = None
        self._problem: str | None = None
        self.missing = 0
        self.first_problem = ""
        self._unmetered: list[str] = []
        self._paths: dict[str, str] = {}
        self._before: Stamp = {}
        self._stamp: Stamp = {}
        self._is_first = True
        self._goes_on = False

    def listen(
        self, config: Mapping[str, Any], driver: SchedulerDriver, at: float
    ) -> PassRecorder | None:
        """What is to listen to a pass; None where there is no journal, and nobody wants figures."""
        path = journal_path(config, driver.autoscale_home)
        if config.get("read_only") or not (path or metering.is_wanted(config)):
            return None
        from hpc.autoscale.journal.files import DAY, Keeping
        from hpc.autoscale.journal.recording import PassRecorder
        from hpc.autoscale.journal.state import stamp_of
        from hpc.autoscale.journal.writing import JournalWriter

        if path is None:
            self._writer = None
        elif self._writer is None or self._writer.path != path:
            section = config.get(SECTION)
            own = section if isinstance(section, Mapping) else {}
            size = float(own.get("megabytes") or Keeping().size / 1_000_000) * 1_000_000
            age = float(own.get("days") or Keeping().age / DAY) * DAY
            self._writer = JournalWriter(path, Keeping(int(min(size, sys.maxsize)), age))
            self._stamp, self._is_first = stamp_of(self._writer.take_up().get("files")), True
        return PassRecorder(at, driver, {} if self._writer is None else self._writer.lists)

    def begin(self, recorder: PassRecorder, one: Pass, readings: Readings) -> None:
        """Note what a pass remembers of those before it, where a replay could not know that: the
        record will stand by itself, or somebody else has written its files."""
        from hpc.autoscale.config.secrets import known_secrets
        from hpc.autoscale.journal.state import paths_of, saved, stamp
        from hpc.autoscale.redaction import Hiding

        try:
            with recorder.outside():
                self._paths = paths_of(one.config, one.driver.autoscale_home)
                self._before = stamp(self._paths)
                self._goes_on = self._writer is not None and not self._writer.will_stand_alone()
                has_to_know = not self._goes_on or self._before != self._stamp
                if has_to_know:
                    hiding = Hiding(*known_secrets(one.config))
                    recorder.doors["state"] = saved(self._paths, hiding)
                if has_to_know or self._is_first:
                    reported = (key for key in readings.reported if isinstance(key, str))
                    recorder.doors["reported"] = sorted(reported)
                recorder.doors["interval"] = one.interval
                recorder.note_senders(one.config)
        except Exception as error:  # noqa: BLE001 - whatever it is, the pass goes on
            self._say(one_line(error), error)

    def keep(
        self,
        recorder: PassRecorder,
        one: Pass,
        end: PassSummary | Exception,
        took: float,
        interval: float | None = None,
    ) -> tuple[str, ...]:
        """Write the record of a pass that took so many seconds, or was ended by an error after
        them, and its figures. `interval`: of the loop, in seconds; None for a pass by itself.

        What could not be written, and why; each of them is written whether another one can be or
        not.
        """
        problems: list[str] = []
        did: dict[str, Any] = {}
        try:
            did = _told(recorder, one, end, took, interval)
            self._write(recorder, one, did, interval)
        except Exception as error:  # noqa: BLE001 - whatever it is, the pass was done
            problem = one_line(error)
            self.missing += 1
            self.first_problem = self.first_problem or problem
            problems.append(self._say(problem, error))
        else:
            self._say(None)
        if did and metering.is_wanted(one.config):
            problems += self._meter(recorder, one.config, did)
        return tuple(problems)

    def _write(
        self, recorder: PassRecorder, one: Pass, did: Mapping[str, Any], interval: float | None
    ) -> None:
        """Write the record of a pass that did this."""
        from hpc.autoscale.journal.state import replaced, stamp, stamp_json

        trouble = (
            _about_files(did, self._paths)
            or replaced(self._before, self._paths)
            or recorder.problem
        )
        if trouble:
            recorder.doors["files"] = trouble
        with recorder.outside():
            record = recorder.written(one.config, did)
            # what could not be written may have been written in part
            self._stamp = {} if trouble else stamp(self._paths)
            # a loop goes on; another process may have been made for this pass alone
            is_alone = self._is_first and interval is None
            self._is_first = False
            if self._writer is not None:
                known = {"files": stamp_json(self._stamp)} if is_alone else None
                if self._writer.append(record, known) and self._goes_on:
                    # its file was moved away during the pass: what was remembered is not in it
                    self._writer.begin_anew()

    def _meter(
        self, recorder: PassRecorder, config: Mapping[str, Any], did: Mapping[str, Any]
    ) -> list[str]:
        """Write the figures of a pass; which cannot be written, and why."""
        try:
            with recorder.outside():
                problems = metering.write_figures(config, recorder, did)
        except Exception as error:  # noqa: BLE001 - whatever it is, the pass was done
            problems = [f"no figures of this pass: {one_line(error)}"]
        told, self._unmetered = self._unmetered, problems
        for each in problems:
            if each not in told:
                logging.warning("%s", each)
        return problems

    def _say(self, problem: str | None, error: Exception | None = None) -> str:
        """Put it into the log where that is news; what it says."""
        said = f"this pass is not in the journal: {problem}"
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                logging.info("the journal is written again")
            else:
                logging.warning("%s", said)
                logging.debug("journal: stack trace", exc_info=error)
        return said


def _told(
    recorder: PassRecorder,
    one: Pass,
    end: PassSummary | Exception,
    took: float,
    interval: float | None,
) -> dict[str, Any]:
    """What a pass did, or that it was ended, as the journal has it; the recorder is told of what
    else is in the record."""
    from hpc.autoscale.journal.raised import as_json

    if isinstance(end, Exception):
        did: dict[str, Any] = {"ended_by": end_of_pass(end), "duration": took}
        if hook := hook_of(end):
            recorder.doors["raised"] = {"hook": hook, "error": as_json(end)}
    else:
        did = did_of(end)
        if interval is not None:  # after a pass that failed it depends on those before
            did["next_pass_in"] = max(interval, end.retry_after or 0.0)
        recorder.note_waiting(end.unsatisfied)
    if interval is not None:
        did["loop"] = {name: recorder.by[name] for name in ("host", "pid")}
    did["steps"] = {name: round(seconds, 6) for name, seconds in one.steps.seconds.items()}
    return did


def _about_files(did: Mapping[str, Any], paths: Mapping[str, str]) -> str | None:
    """What a pass has said about its own files that cannot be used; None when nothing."""
    said = [*did.get("errors", ()), *did.get("notes", ()), did.get("ended_by") or ""]
    return next((text for text in said for path in paths.values() if path in text), None)


def did_of(summary: PassSummary) -> dict[str, Any]:
    """What a pass did, in terms of JSON; jobs that wait are left out."""
    from hpc.autoscale.journal.records import NAMES

    return {
        "duration": summary.duration,
        "jobs": summary.jobs,
        "price_per_hour": None if summary.cost is None else summary.cost.total_per_hour,
        "refused": [
            {"node": r.node.name, "command": r.command, "code": r.code, "reason": r.text}
            for r in summary.refused
        ],
        "notes": list(summary.notes),
        "errors": [str(error) for error in summary.errors],
        "set_aside": [{"job": j.name, "reason": j.reason} for j in summary.set_aside],
        **{name: list(getattr(summary, name)) for name in NAMES},
    }
