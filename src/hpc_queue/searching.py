"""Finds what waits without a ticket, and writes its tickets anew.

A ticket too many does no harm (`tickets`), so nothing here has to be certain. Called by the leader
of the workers now and then; what one look has found is kept in the store for the next, which may be
that of another leader.
"""

from __future__ import annotations

from hpc.autoscale import hpclogging as logging
from hpc_queue.model import State
from hpc_queue.queue import Queue
from hpc_queue.stored import Job

_LEAST = 1000
_MOST = 10_000
"""How many jobs a search looks at, at least, and how many it keeps an eye on."""

_Line = tuple[str, int]
"""Definition and priority: tickets of one line are taken in the order in which they came."""


def write_forgotten(queue: Queue) -> int:
    """Write tickets for what waits without one; how many.

    A definition has forgotten jobs when some wait, no ticket is at the broker, and nothing has
    begun since the last call, which may have been that of another leader.
    """
    begun, waiting = queue.store.begun(), set()
    for (kind, state), number in queue.store.counts().items():
        if state == "0" and number > 0:
            waiting.add(kind.partition("|")[0])
    now = {
        name: begun.get(name, 0)
        for name in waiting & set(queue.settings.definitions)
        if not queue.tickets.depth(name)
    }
    before = queue.store.exchange_looks(now)
    missing = {name for name, number in now.items() if before.get(name) == number}
    written = 0
    for job in queue.store.jobs(queue.store.job_ids(only_open=True) if missing else ()):
        if job.spec.definition in missing and not job.held:
            written += queue.write_tickets(job.id)
    if written:
        logging.warning("%d tickets were missing and are written anew", written)
    return written


def write_overtaken(queue: Queue) -> int:
    """Write tickets for jobs whose tickets must have been lost, since later ones were taken; how
    many.

    So a definition that always has work need not be idle before a lost ticket is found. A job is
    overtaken when another one of its line, submitted later, runs while it waits. That may be for
    another reason: it was held, or its ticket was given back. So it is noted how many of its
    elements wait, and which job is the last; when one that was submitted after that runs, and as
    many still wait, its ticket is lost.
    """
    store = queue.store
    before = store.overtaken()
    noted: dict[str, list[int]] = before.get("noted", {})
    newest = _newest_running(queue)
    last = store.last_id()
    kept: dict[str, list[int]] = {}
    written = 0
    for job in store.jobs(noted):
        waiting, mark = noted[job.id]
        if not _waits(job) or job.counts[State.Waiting] != waiting:
            continue
        if newest.get(_line(job), 0) > mark:
            written += queue.write_tickets(job.id)
        else:
            kept[job.id] = [waiting, mark]
    cursor, ids = store.some_open(before.get("cursor", 0), _LEAST)
    for job in store.jobs(ids):
        is_overtaken = _waits(job) and int(job.id) < newest.get(_line(job), 0)
        if is_overtaken and job.id not in noted and len(kept) < _MOST:
            kept[job.id] = [job.counts[State.Waiting], last]
    store.keep_overtaken({"cursor": cursor, "noted": kept})
    if written:
        logging.warning("%d tickets of jobs that were overtaken are written anew", written)
    return written


def _waits(job: Job) -> bool:
    return not job.held and job.counts[State.Waiting] > 0


def _line(job: Job) -> _Line:
    return job.spec.definition, job.spec.priority


def _newest_running(queue: Queue) -> dict[_Line, int]:
    """The job of each line that was submitted last of those that run."""
    newest: dict[_Line, int] = {}
    running = {name for worker in queue.store.workers() for name in worker.running}
    for job in queue.store.jobs(running):
        newest[_line(job)] = max(int(job.id), newest.get(_line(job), 0))
    return newest
