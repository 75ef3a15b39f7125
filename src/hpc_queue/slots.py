"""What a worker does with a ticket: claims its elements one after another, runs them, and reports.

A chunk of short jobs stays in one slot, at one round trip for each. When an element takes longer
than `PATIENCE`, the rest of its chunk is given back in halves, so that a chunk of long jobs is
soon shared by all workers, and more urgent jobs are not kept waiting behind it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from pathlib import Path

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import one_line
from hpc_queue import processes
from hpc_queue.callables import Runner
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import JobSpec, Range, State
from hpc_queue.processes import Finished, Program, Watch
from hpc_queue.queue import Queue
from hpc_queue.settings import Definition, Settings
from hpc_queue.store import BLOCK, Store
from hpc_queue.stored import Ended, Step

PATIENCE = 0.2
"""Seconds that one element may take before the rest of its chunk is given back."""
AGE = 30.0
"""Seconds for which a job that takes several slots may see others begin that fit sooner."""
_KEPT = 2.0
"""Seconds for which a job that takes one slot waits for that here, before others may have it."""
_SHOW = 1.0
"""Seconds between two looks at the output of a running job."""
LEAVES = "its worker leaves"
"""Why what still runs is ended when a worker has to go; it runs again elsewhere."""
WORKER_VARIABLE = "HPCQ_WORKER"
_PRIVATE = ("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND")
"""Variables of a worker that its jobs do not get: they may have passwords in them."""
_NOT_STARTED = 127
_REST = 10.0
"""Seconds for which a slot begins nothing after its machine could not start a job."""
_EARLY = 1000
_PAUSE = 1.0
_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)
_OF_THE_JOB = (
    *(errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ELIBBAD, errno.EINVAL),
)


@dataclass(frozen=True)
class Element:
    """An element that was claimed."""

    job: str
    position: int
    tries: int
    token: str


@dataclass(frozen=True, eq=False)
class _Place:
    """That of a thread that waits for slots, and since when it does."""

    since: float

    def is_old(self) -> bool:
        return time.monotonic() - self.since >= AGE


class Worker:
    """The slots of one worker. `open_queue` opens a queue for a thread of its own.

    `stopping` is set when it is to take nothing more.
    """

    def __init__(
        self,
        name: str,
        definition: Definition,
        settings: Settings,
        slots: int,
        open_queue: Callable[[], Queue],
    ) -> None:
        self.name = name
        self.definition = definition
        self.settings = settings
        self.slots = slots
        self.stopping = threading.Event()
        self.runs = 0
        self._open = open_queue
        self._here = threading.local()
        self._lock = threading.Lock()
        self._free = list(range(slots))
        self._running: dict[tuple[str, int], Watch] = {}
        # what was to be ended before it was known to run, and why
        self._early: dict[tuple[str, int], str] = {}
        self._directory = Path(definition.directories or Path(settings.home) / "jobs")
        self._all: list[_Slot] = []
        self._changed = threading.Condition()
        self._taken = 0
        # since when each thread waits for slots, in the order in which they came
        self._waiting: list[_Place] = []

    def take(self, ranges: Sequence[Range]) -> None:
        """Work off a ticket; called by Celery in a thread of its pool."""
        slot: _Slot | None = getattr(self._here, "slot", None)
        if slot is None:
            with self._lock:
                number = self._free.pop(0)
            slot = self._here.slot = _Slot(self, number, self._open(), self._directory)
            self._all.append(slot)
        for job, low, high in ranges:
            chunk = str(job), int(low), int(high)
            with self._room(slot.cores_of(chunk[0])) as is_free:
                if is_free:
                    slot.work_off(chunk)
            if not is_free:
                slot.hand_on(chunk)
                self._wait_for_a_slot()

    @contextmanager
    def _room(self, cores: int) -> Iterator[bool]:
        """Wait until so many slots are free, and take them; at most all that there are.

        What fits goes first for a while; then slots are kept free for who has waited the longest.
        It also ends when the worker stops: then nothing is begun. False for what takes one slot and
        has waited for it for too long: other workers may have one.
        """
        taken = min(cores, self.slots)
        with self._changed:
            place = _Place(time.monotonic())
            self._waiting.append(place)
            is_free = self._changed.wait_for(lambda: self._may_begin(place, taken), timeout=_KEPT)
            while not is_free and taken > 1:
                is_free = self._changed.wait_for(
                    lambda: self._may_begin(place, taken), timeout=min(1.0, AGE)
                )
            self._waiting.remove(place)
            self._taken += taken * is_free
            self._changed.notify_all()
        try:
            yield is_free
        finally:
            with self._changed:
                self._taken -= taken * is_free
                self._changed.notify_all()

    def _wait_for_a_slot(self) -> None:
        """Fetch no ticket while there is no slot for it."""
        with self._changed:
            while self._taken >= self.slots and not self.stopping.is_set():
                self._changed.wait(timeout=1.0)

    def _may_begin(self, place: _Place, taken: int) -> bool:
        return self.stopping.is_set() or self._may_enter(place, taken)

    def _may_enter(self, place: _Place, taken: int) -> bool:
        first = self._waiting[0]
        if first is not place and first.is_old():
            return False
        return self._taken + taken <= self.slots

    def is_short_of_room(self) -> bool:
        """Whether something has waited for slots for so long that others are to make room."""
        return any(place.is_old() for place in self._waiting[:1])

    def is_busy(self) -> bool:
        """Whether anything runs."""
        return bool(self._running)

    def stop_run(self, job: str, position: int, why: str) -> bool:
        """End a running element, or one that is about to run; False when it does not run yet."""
        with self._lock:
            watch = self._running.get((job, position))
            if watch is not None:
                watch.stop(why)
            else:
                # it was claimed, and its slot has not heard of that yet; or it has ended
                self._early[job, position] = why
                while len(self._early) > _EARLY:
                    del self._early[next(iter(self._early))]
        return watch is not None

    def stop_all(self, why: str) -> None:
        """End whatever runs."""
        with self._lock:
            for watch in self._running.values():
                watch.stop(why)

    def close(self) -> None:
        """End what the slots have kept running for themselves."""
        for slot in self._all:
            slot.close()

    def begins(self, element: Element, watch: Watch) -> bool:
        """From now on it can be ended; True when somebody has wanted that before."""
        key = element.job, element.position
        with self._lock:
            watch.clear()
            self._running[key] = watch
            return self._early.pop(key, None) is not None

    def ended(self, element: Element) -> None:
        with self._lock:
            self._running.pop((element.job, element.position), None)
            self.runs += 1


class _Slot:
    """One place of a worker: a thread with its connections, and what it runs now."""

    def __init__(self, worker: Worker, number: int, queue: Queue, directory: Path) -> None:
        self._worker = worker
        self._number = number
        self._queue = queue
        self._directory = directory
        self._watch = Watch()
        self._runner: Runner | None = None
        self._spec = lru_cache(100)(queue.store.spec_of)
        self._differences = lru_cache(4)(queue.store.differences)
        self._rest: Range | None = None
        self._environment = _environment(worker)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def cores_of(self, job: str) -> int:
        """How many slots an element of a job takes; 1 for a job that is not known any more."""
        with suppress(QueueError):
            return max(1, ceil(self._spec(job).cpus or 1))
        return 1

    @property
    def _store(self) -> Store:
        return self._queue.store

    def hand_on(self, chunk: Range) -> None:
        """Give back a chunk of which nothing was begun."""
        with suppress(QueueError):  # nothing is kept of the job any more
            self._give_back([chunk])

    def work_off(self, chunk: Range) -> None:
        """Run what waits in a chunk. What is not begun is given back when the worker stops, or is
        to make room."""
        self._rest = chunk
        element, ended = None, None
        while True:
            makes_room = element is not None and self._worker.is_short_of_room()
            claim = None if makes_room or self._worker.stopping.is_set() else self._rest
            if element is None and claim is None:
                break
            step, token = self._report(element, ended, claim)
            self._follow(element, step)
            element = self._learn(claim, step, token)
            if element is None:
                break
            ended = self._run(element)
        if self._rest is not None:
            self._give_back([self._rest])

    def _report(
        self, element: Element | None, ended: Ended | None, claim: Range | None
    ) -> tuple[Step, str]:
        token = uuid.uuid4().hex[:16]
        over = (element.token, ended) if element and ended else None
        claiming = (claim, token) if claim else None
        while True:
            try:
                return self._store.step(self._worker.name, self._number, over, claiming), token
            except QueueError as error:
                # sent again it changes nothing; left alone the slot would stay taken for ever
                logging.warning("slot %d tries again: %s", self._number, error)
                time.sleep(_PAUSE)

    def _follow(self, element: Element | None, step: Step) -> None:
        """What the end of an element leads to."""
        if element and not step.counted:
            logging.warning(
                "the run of %s at %d does not count: it was given to others meanwhile",
                element.job,
                element.position,
            )
        if element and step.again:
            self._give_back([(element.job, element.position, element.position + 1)])
        if step.released:
            self._insist(step.released, lambda: self._queue.release(step.released))

    def _learn(self, claim: Range | None, step: Step, token: str) -> Element | None:
        """The element that was claimed, if any; `_rest` is what is left of the chunk."""
        if claim is None:
            return None
        job, _, high = claim
        if step.answer == "begun":
            after = step.position + 1
            self._rest = (job, after, high) if after < high else None
            return Element(job, step.position, step.tries, token)
        if step.answer in ("none", "halted", "lost"):
            # nothing of it waits; or nothing may begin, and who lifts that writes new tickets
            self._rest = None
        if step.answer == "lost":
            self._worker.stopping.set()
        return None

    def _give_back(self, chunks: Sequence[Range]) -> None:
        spec = self._spec(chunks[0][0])
        send = self._queue.tickets.send
        self._insist(chunks, lambda: send(spec.definition, spec.priority, chunks))

    @staticmethod
    def _insist(what: object, write: Callable[[], None]) -> None:
        """Write tickets, again while the broker is away. Without them the slot goes on, and an
        attendant finds what waits."""
        for pause in (*_PAUSES, None):
            try:
                write()
                return
            except BrokerUnreachable as error:
                if pause is None:
                    logging.warning("no ticket is written for %s now: %s", what, error)
                else:
                    time.sleep(pause)
            except QueueError as error:
                logging.warning("no ticket is written for %s: %s", what, error)
                return

    # -- running one element

    def _run(self, element: Element) -> Ended:
        was_to_end = self._worker.begins(element, self._watch)
        try:
            if was_to_end and self._store.is_to_end(element.job, element.position):
                self._watch.stop("cancelled")
            spec = self._spec(element.job)
            return self._run_spec(element, spec)
        except (OSError, ValueError) as error:
            # what is wrong with the job stays wrong; a machine without room may not
            its_own = isinstance(error, ValueError) or error.errno in _OF_THE_JOB
            if not its_own:
                self._leave_to_others()
            state = State.Failed if its_own else State.Error
            return Ended(
                state, _NOT_STARTED, why=f"could not be started: {_what_is_missing(error)}"
            )
        except Exception as error:  # noqa: BLE001 - or the slot would stay taken for ever
            logging.exception("a slot failed")
            return Ended(State.Error, _NOT_STARTED, why=f"its slot failed: {one_line(error)}")
        finally:
            self._worker.ended(element)

    def _run_spec(self, element: Element, spec: JobSpec) -> Ended:
        tick = self._ticking(element, spec)
        if "call" in spec.command:
            return self._run_callable(element, spec, tick)
        try:
            directory = self._prepared(element, spec)
        except OSError as error:  # without its number, as the job is not to blame for any
            raise OSError(str(error)) from error
        words = self._words(element, spec, directory)
        program = Program(words, directory, self._variables(element, spec))
        finished = processes.run_program(
            program, self._watch, spec.seconds, self._worker.settings.grace, tick
        )
        ended = self._ended(finished, directory / processes.OUTPUT_FILE)
        self._tidy(element, spec, directory, ended)
        return ended

    def _run_callable(
        self, element: Element, spec: JobSpec, tick: Callable[[float], float]
    ) -> Ended:
        command = dict(spec.command)
        name = str(command["call"])
        if not self._worker.definition.allows(name):
            why = f"its definition does not declare the callable {name}"
            return Ended(State.Failed, _NOT_STARTED, why=why)
        if self._runner is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = self._directory / f"{self._worker.name}-{self._number}.output"
            self._runner = Runner(file, self._environment)
        own = self._replacements(element, spec)
        if own:
            command["kwargs"] = {**command.get("kwargs", {}), **own}
        runs = self._variables(element, spec, base=False)
        grace = self._worker.settings.grace
        finished = self._runner.run(command, runs, self._watch, spec.seconds, grace, tick)
        return self._ended(finished, self._runner.output)

    def _ended(self, finished: Finished, output: Path) -> Ended:
        length, end = processes.end_of(output, self._worker.definition.output_bytes)
        state, why = State.Successful, finished.stopped
        if finished.stopped == LEAVES:
            state = State.Error
        elif finished.stopped or finished.exit:
            state = State.Failed
        return Ended(state, finished.exit, finished.begun, finished.seconds, end, length, why)

    def _ticking(self, element: Element, spec: JobSpec) -> Callable[[float], float]:
        """What to do while an element runs: give the rest of its chunk back in time, and show its
        output. Takes the seconds since its begin, and returns when it wants to be called next."""
        length = 0

        def tick(passed: float) -> float:
            nonlocal length
            if passed < PATIENCE:
                return PATIENCE
            written, end = self._written(element, spec)
            with suppress(QueueError):  # it is tried again at the next tick
                self._halve()
                if written != length:
                    self._store.show_output(element.job, element.position, end, written)
                    length = written
            return passed + _SHOW

        return tick

    def _halve(self) -> None:
        """Give the rest of the chunk back, in halves; it stays here while the broker is away."""
        if self._rest is not None:
            job, low, high = self._rest
            middle = (low + high + 1) // 2
            halves = [(job, low, middle)] + ([(job, middle, high)] if middle < high else [])
            spec = self._spec(job)
            self._queue.tickets.send(spec.definition, spec.priority, halves)
            self._rest = None

    def _written(self, element: Element, spec: JobSpec) -> tuple[int, bytes]:
        """How much a running job has written by now, and the end of it. One that has written more
        than it may is ended."""
        if "call" in spec.command:
            path = self._runner.output if self._runner else Path(os.devnull)
        else:
            path = self._place(element, spec) / processes.OUTPUT_FILE
        definition = self._worker.definition
        length, end = processes.end_of(path, definition.output_bytes)
        if definition.output_limit and length > definition.output_limit:
            self._watch.stop(
                f"wrote more than {definition.output_limit} bytes of output, the output_limit of"
                f" definition {definition.name}"
            )
        return length, end

    def _leave_to_others(self) -> None:
        """Begin nothing for a while, and keep no chunk: a machine that starts no jobs, as its disk
        is full, would be done with all that wait before those that do."""
        with suppress(QueueError):
            self._halve()
        self._worker.stopping.wait(_REST)

    # -- its directory, its words, its variables

    def _place(self, element: Element, spec: JobSpec) -> Path:
        if spec.reuse_workdir:
            return self._directory / f"{self._worker.name}-{self._number}"
        return self._directory / element.job / str(spec.index_of(element.position))

    def _prepared(self, element: Element, spec: JobSpec) -> Path:
        directory = self._place(element, spec)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            if not spec.reuse_workdir:  # of an earlier run
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory

    def _words(self, element: Element, spec: JobSpec, directory: Path) -> list[str]:
        replaced = {**spec.replacements, **self._replacements(element, spec)}
        if "argv" in spec.command:
            return [filled(str(word), replaced) for word in spec.command["argv"]]
        text = filled(str(spec.command["script"]), replaced)
        path = directory / "script"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o700)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        return [*interpreter_of(text), str(path)]

    def _replacements(self, element: Element, spec: JobSpec) -> Mapping[str, str]:
        block, at = divmod(element.position, BLOCK)
        found = self._differences(element.job, block) if spec.is_array else []
        return found[at] if at < len(found) else {}

    def _variables(self, element: Element, spec: JobSpec, base: bool = True) -> dict[str, str]:
        own = {
            "HPCQ_JOB_ID": element.job,
            "HPCQ_JOB_NAME": spec.name,
            "HPCQ_QUEUE": spec.queue,
            "HPCQ_DEFINITION": spec.definition,
            "HPCQ_TRY": str(element.tries),
        }
        if spec.is_array:
            own["HPCQ_ARRAY_INDEX"] = str(spec.index_of(element.position))
        return {**self._environment, **own} if base else own

    def _tidy(self, element: Element, spec: JobSpec, directory: Path, ended: Ended) -> None:
        keep = self._worker.definition.keep_directories
        kept = keep == "all" or (keep == "failed" and ended.state is not State.Successful)
        if kept or spec.reuse_workdir:
            return
        shutil.rmtree(directory, ignore_errors=True)
        if not spec.is_array:
            with suppress(OSError):
                directory.parent.rmdir()


def filled(text: str, replaced: Mapping[str, str]) -> str:
    """A text in which others are replaced, all at once: not within what has replaced one, and the
    longer one where two begin alike."""
    if not replaced:
        return text
    longest_first = sorted(replaced, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: replaced[found[0]], text)


def interpreter_of(text: str) -> list[str]:
    """The words before the file name of a script: none where its first line says them."""
    return [] if text.startswith("#!") else ["/bin/sh"]


def _what_is_missing(error: OSError | ValueError) -> object:
    """The error; that of a script which is there says that of its interpreter."""
    path = error.filename if isinstance(error, FileNotFoundError) else None
    with suppress(OSError, TypeError), open(path or "", "rb") as file:
        if (first := file.readline(200).rstrip(b"\n")).startswith(b"#!"):
            said = os.fsdecode(first)
            return f"there is no interpreter as the first line of {path} says: {said!r}"
    return error


def _environment(worker: Worker) -> dict[str, str]:
    """The variables of all jobs of a worker."""
    base = {key: value for key, value in os.environ.items() if key not in _PRIVATE}
    own = {WORKER_VARIABLE: worker.name, "HPCQ_HOST": socket.gethostname()}
    return {**base, **worker.definition.environment, **own}
