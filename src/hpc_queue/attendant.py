"""What goes on beside the slots of a worker: signs of life, orders, leaving in time, and looking
after what others have left behind.

Every worker has an attendant; one of them at a time, the leader, also gives up workers that are
silent, and writes tickets for what waits without one. Silence is measured by the leader's own
monotonic clock, and starts anew whenever the broker does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autostop.callback import Metadata
from hpc.autoscale.silence import Silence
from hpc_queue import searching
from hpc_queue.errors import BrokerUnreachable, QueueError, UnknownJob
from hpc_queue.queue import Queue
from hpc_queue.slots import LEAVES, Worker
from hpc_queue.stored import WorkerRecord

_EVENT_SECONDS = 5.0
_PAUSE = 0.5


class Heartbeats:
    """Who has been silent for how long, as one observer of the store sees it.

    `lease`: seconds after which a silent worker is given up, as `Silence` counts them.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease = lease
        self._silence = Silence(lease, clock)
        self._beats: dict[str, int] = {}

    def look(self, workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
        """The workers that have been silent for the whole lease."""
        before, self._beats = self._beats, {worker.name: worker.beats for worker in workers}
        heard = {name for name, beats in self._beats.items() if before.get(name) != beats}
        self._silence.look(self._beats, heard)
        given_up = self._silence.given_up
        return [worker for worker in workers if worker.name in given_up]

    def begin_anew(self) -> None:
        """As `Silence` says."""
        self._silence.begin_anew()

    def silent_for(self, worker: str) -> float:
        """For how many seconds a worker had been silent at the last look; 0 for an unknown one."""
        return self._silence.silent_for(worker)


def give_up(queue: Queue, worker: str, why: str, beats: int | None = None) -> int:
    """Give a worker up, and write tickets for what it held; how many chunks these are."""
    chunks, released = queue.store.lose(worker, why, beats)
    for job, low, high in chunks:
        try:
            queue.write_tickets(job, low, high)
        except UnknownJob:
            continue
    queue.release(released)
    return len(chunks)


class Attendant:
    """The attendant of one worker. `leave` makes Celery end in good order."""

    def __init__(
        self,
        worker: Worker,
        queue: Queue,
        leave: Callable[[], None],
        consume: Callable[[bool], None],
        metadata: Metadata | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._queue = queue
        self._leave = leave
        self._consume = consume
        self._metadata = metadata
        self._clock = clock
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="attendant", daemon=True)
        lease = queue.settings.lease
        self._beat_seconds = min(lease / 5, 10.0)
        self._heartbeats = Heartbeats(lease, clock)
        self._began = self._busy_at = clock()
        self._runs = 0
        self._next_beat = self._next_event = clock()
        self._must_end_by: float | None = None
        self._leaving = False
        self._is_lost = False
        # the last job of which it was asked whether anything is kept of it
        self._looked_at = "0"

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join(timeout=5)

    def end_by(self, seconds: float) -> None:
        """What still runs in so many seconds is ended then and runs again elsewhere."""
        until = self._clock() + seconds
        self._must_end_by = min(until, self._must_end_by or until)

    def _go_on(self) -> None:
        while not self._end.is_set():
            try:
                self.turn(min(self._beat_seconds, 1.0))
            except BrokerUnreachable as error:
                logging.warning("%s", error)
                self._heartbeats.begin_anew()  # nobody could be heard
                self._end.wait(_PAUSE)
            except QueueError as error:
                logging.error("%s", error)
                self._end.wait(_PAUSE)

    def turn(self, patience: float) -> None:
        """Do what is due; wait for an order for so many seconds at most."""
        order = self._queue.store.told(self._worker.name, patience)
        while order is not None:
            self._obey(order.split())
            order = self._queue.store.told(self._worker.name, 0.01)
        now = self._clock()
        if now >= self._next_beat:
            self._next_beat = now + self._beat_seconds
            self._beat()
        self._look_for_events(now)
        self._leave_in_time(now)

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["kill", job, position]:
                if not self._worker.stop_run(job, int(position), "cancelled"):
                    logging.info("%s at %s does not run here any more", job, position)
            case ["drain"]:
                self._consume(False)
            case ["resume"]:
                self._consume(True)
            case ["leave", seconds]:
                self.end_by(float(seconds))
                self.go("told to leave")
            case _:
                logging.warning("expected an order, found %s", words)

    def go(self, why: str) -> None:
        """Take nothing more, and end when what runs has ended."""
        if not self._leaving:
            self._leaving = True
            logging.info("the worker leaves: %s", why)
            self._worker.stopping.set()
            self._leave()

    def _beat(self) -> None:
        if self._is_lost:
            return
        store = self._queue.store
        if not store.beat(self._worker.name):
            self._is_lost = True
            logging.error("this worker was given up; what it runs is run by others")
            self._worker.stop_all("its worker was given up")
            self.go("it was given up")
            return
        if not store.lead(self._worker.name, 3 * self._beat_seconds):
            return
        for silent in self._heartbeats.look(store.workers()):
            if silent.name != self._worker.name:
                why = f"worker {silent.name} was lost"
                logging.warning("%s: silent for %g s", why, self._heartbeats.lease)
                give_up(self._queue, silent.name, why, silent.beats)
        if store.may_search(self._heartbeats.lease):
            searching.write_forgotten(self._queue)
            searching.write_overtaken(self._queue)
            self._looked_at = store.forget_ended(self._looked_at)

    def _look_for_events(self, now: float) -> None:
        if self._metadata is None or self._leaving or now < self._next_event:
            return
        self._next_event = now + _EVENT_SECONDS
        for event in self._metadata.events():
            if event.ends_it:
                self.end_by(self._queue.settings.notice)
                self.go(f"Azure: {event.kind}, not before {event.not_before}")

    def _leave_in_time(self, now: float) -> None:
        definition = self._worker.definition
        if self._worker.is_busy() or self._worker.runs != self._runs:
            self._busy_at, self._runs = now, self._worker.runs
        if definition.idle_time and now - self._busy_at >= definition.idle_time:
            self.go(f"without work for {definition.idle_time:g} s")
        if definition.max_age and now - self._began >= definition.max_age:
            self.go(f"{definition.max_age:g} s old")
        if definition.max_jobs and self._worker.runs >= definition.max_jobs:
            self.go(f"{self._worker.runs} jobs done")
        if self._must_end_by is not None and now >= self._must_end_by:
            self._worker.stop_all(LEAVES)
