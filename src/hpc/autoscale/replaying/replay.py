"""Passes decided again, one after the other, and where they come to something else."""

from __future__ import annotations

import json
import logging as python_logging
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from tempfile import TemporaryDirectory
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler.hooks import end_of_pass
from hpc.autoscale.autoscaler.journaling import did_of
from hpc.autoscale.autoscaler.learning import new_calculator as new_calculator_of_the_loop
from hpc.autoscale.autoscaler.passes import Pass
from hpc.autoscale.autoscaler.reading import Readings
from hpc.autoscale.backoff.settings import LEARNS
from hpc.autoscale.ccbindings import MADE_BY
from hpc.autoscale.errors import one_line
from hpc.autoscale.journal.recording import PassRecorder
from hpc.autoscale.journal.records import GAP, NAMES, PassRecord
from hpc.autoscale.journal.snapshots import foreign_constraints
from hpc.autoscale.journal.state import in_directory, restore, saved, settings
from hpc.autoscale.journal.writing import as_read
from hpc.autoscale.leastcost.searches import SEARCHES, Searches
from hpc.autoscale.node.requests import Assumed, Sender, SenderState, assuming
from hpc.autoscale.onpremises.workers import RUN_EACH
from hpc.autoscale.replaying.doors import (
    JournalClock,
    JournalDriver,
    NotInRecord,
    Tape,
    binding_of,
    runs_workers,
)
from hpc.autoscale.requestsets.extending import DRIVERS_WISH, DriversWish

_NOT_COMPARED = ("duration", "steps", "next_pass_in", "loop")
_OF_THE_SITE = ("logging", "lock_file", "read_only")


@dataclass
class Replayed:
    """A pass that was decided again. `differences`: a sentence on each; `skipped`: why it could not
    be."""

    number: int
    at: float
    differences: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def is_same(self) -> bool:
        """Whether the pass came to the same decisions."""
        return not self.differences and not self.skipped


class Replay:
    """Decides the passes of a journal again. What passes remember is kept in a directory that goes
    with this object; use it as a context."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="hpc-autoscale-")
        self._home = self._directory.name
        self._readings = Readings()
        self._knows = False

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def passes(self, records: Iterable[PassRecord]) -> Iterator[Replayed]:
        """Each pass in turn."""
        for record in records:
            yield self.one(record)

    def one(self, record: PassRecord) -> Replayed:
        """The next pass."""
        result = Replayed(record.number, record.at)
        if record.doors.get(GAP):
            self._knows = False
        if not record.doors.get("calls"):
            result.skipped = "it has not what is needed to decide again"
            self._knows = False
            return result
        if record.doors.get("files"):
            result.skipped = f"its files could not be used then: {record.doors['files']}"
            self._knows = False
            return result
        if foreign := foreign_constraints(record.jobs):
            result.skipped = f"only an integration knows what its jobs ask for: {foreign}"
            self._knows = False
            return result
        if "state" in record.doors:
            try:
                self._take_state(record)
            except (ValueError, zlib.error, OSError) as error:
                result.skipped = f"its state cannot be used: {one_line(error)}"
                self._knows = False
                return result
        if "reported" in record.doors:  # by a new process, which remembers nothing else
            self._readings = Readings()
            self._readings.reported = set(record.doors["reported"])
        if not self._knows:
            result.skipped = "what it remembered is not known: the record that has it is missing"
            return result
        with _quiet():
            self._decide(record, result)
        return result

    def remembered(self) -> dict[str, Any] | None:
        """What the next pass remembers of those so far, as doors of a record; None where that is
        not known."""
        if not self._knows:
            return None
        reported = sorted(key for key in self._readings.reported if isinstance(key, str))
        return {"state": saved(in_directory(self._home)), "reported": reported}

    def _take_state(self, record: PassRecord) -> None:
        restore(record.doors["state"], self._home)
        self._knows = True

    def _decide(self, record: PassRecord, result: Replayed) -> None:
        tape = Tape(record)
        own_clock = JournalClock(tape)
        ids = deque(record.doors.get("ids", ()))

        def next_id() -> str:
            if not ids:
                tape.odd.append("it draws more ids for requests than the recorded pass did")
                raise NotInRecord(tape.odd[-1])
            return str(ids.popleft())

        with ExitStack() as stack:
            driver = JournalDriver(tape, self._home)
            stack.callback(driver.close_histories)
            recorder = PassRecorder(record.at, driver)
            stack.callback(clock.use_clock, clock.use_clock(own_clock))
            stack.enter_context(assuming(_assumed(record, next_id)))
            config = recorder.around(self._config(record, tape, driver))
            one = Pass(
                config,
                driver,
                self._readings,
                lambda: (driver, {}),
                new_calculator_of_the_loop,
                lambda context: None,
                False,
                record.doors.get("interval"),
            )
            try:
                one.run()
            except Exception as error:  # noqa: BLE001 - a pass may end in any error, as it did then
                did: dict[str, Any] = {"ended_by": end_of_pass(error)}
            else:
                summary = one.summary(record.at, record.at)
                did = did_of(summary)
                recorder.note_waiting(summary.unsatisfied)
        found = as_read(recorder.written(config, did))
        result.differences += tape.odd
        result.differences += differences("decided", record.decided, found.decided)
        told = record.doors.get("telling", ())
        before = _decisions(record.did, told)
        result.differences += differences("did", before, _decisions(found.did))
        result.differences += tape.left()
        if result.differences:
            result.differences += own_clock.odd()

    def _config(self, record: PassRecord, tape: Tape, driver: JournalDriver) -> dict[str, Any]:
        own = {key: value for key, value in record.config.items() if key not in _OF_THE_SITE}
        return {
            **own,
            **settings(own, self._home),
            "lock_file": None,
            LEARNS: True,
            DRIVERS_WISH: DriversWish(
                str(record.doors.get("driver", "")), partial(driver.wanted_arrays, {})
            ),
            MADE_BY: lambda config: binding_of(tape),
            RUN_EACH: runs_workers(tape),
            SEARCHES: Searches(record.doors.get("searches", ())),
        }


def remembered_before(
    journal: Iterable[PassRecord], number: int, exactly: bool = True
) -> dict[str, Any] | None:
    """What a pass of a journal remembered of those before it (node history, back-off, requests …),
    as doors of a record; None where that cannot be known. The journal is gone through twice.

    It is in its record, or else those before are decided again from the last one that has it.
    `exactly`: it is not known either where one of these comes to something else than it did then.
    """
    until = takewhile(lambda record: record.number <= number, journal)
    first = max((record.number for record in until if "state" in record.doors), default=None)
    if first is None:
        return None
    with Replay() as replay:
        for record in journal:
            if record.number == number:
                own = {k: record.doors[k] for k in ("state", "reported") if k in record.doors}
                return own if number == first else replay.remembered()
            if record.number >= first and not replay.one(record).is_same and exactly:
                return None
    return None


def _assumed(record: PassRecord, next_id: Any) -> Assumed:
    here = record.doors.get("here") or ["", 0, ""]
    states: dict[Sender, SenderState] = {
        Sender(*each[:3]): each[3] for each in record.doors.get("senders", ())
    }

    def state_of(sender: Sender) -> SenderState:
        return "running" if sender == Sender(*here) else states.get(sender, "ended")

    return Assumed(next_id, Sender(*here), state_of)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is logged: it would be told of what happened long ago."""
    before = python_logging.root.manager.disable
    python_logging.disable(python_logging.CRITICAL)
    try:
        yield
    finally:
        python_logging.disable(before)


def _decisions(did: Mapping[str, Any], told: Sequence[str] = ()) -> dict[str, Any]:
    """What is compared: times are left out, and the reasons why jobs wait, which are worked out
    when somebody reads them; and notes that were `told` of what nothing depends on."""
    found = {key: value for key, value in did.items() if key not in _NOT_COMPARED}
    if told:
        notes = list(found.get("notes", ()))
        for note in told:
            if note in notes:
                notes.remove(note)
        found["notes"] = notes
    waiting = found.get("unsatisfied") or ()
    found["unsatisfied"] = [[w["job"], w["missing"], w["unit"]] for w in waiting]
    for name in NAMES:
        found.setdefault(name, [])
    return found


def differences(where: str, before: Any, after: Any) -> list[str]:
    """Where two values of JSON differ, a sentence each; byte for byte the same where there is
    none."""
    if _text(before) == _text(after):
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found: list[str] = []
        for key in dict.fromkeys([*before, *after]):
            found += differences(f"{where}.{key}", before.get(key), after.get(key))
        return found or [f"{where}: the keys are in another order"]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [d for i, (a, b) in pairs for d in differences(f"{where}[{i}]", a, b)]
    return [f"{where}: expected {_short(before)}, found {_short(after)}"]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"
