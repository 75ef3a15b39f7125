"""Several runs of one workload, side by side: as many at a time as there are processors.

Each run is a process of its own, because the clock and the log of a process are those of the run
in it. A single one stays in this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process

from hpc.autoscale.traces.measures import Measures, measures_of
from hpc.autoscale.traces.playing import Play, play_trace
from hpc.autoscale.traces.workload import TraceError, TraceJob

SMALL = 2000
"""So many jobs to play in all are played in this process: another one takes a second to begin."""

_TO_TIDY_UP = 5.0
"""Seconds in which a run that nobody waits for any more removes its files."""

Progress = Callable[[int, float, int], None]
"""Hears which run is at which time, and how many of its jobs have ended."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_all(
    plays: Sequence[Play], jobs: Sequence[TraceJob], progress: Progress | None = None
) -> list[Measures]:
    """The figures of each run, in the order given.

    Raises TraceError when a process with a run comes to an end by itself. Whatever else it raises,
    as when it is interrupted, ends all runs.
    """
    processes = min(len(plays), processors())
    if len(plays) * len(jobs) <= SMALL:
        processes = 1
    if processes <= 1:
        return [_play(play, jobs, number, progress) for number, play in enumerate(plays)]
    # a fresh interpreter for each: what threads of this one hold is of no use there
    of_others = active_children()
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        runs: list[Future[Measures]] = [pool.submit(_play_here, play, jobs) for play in plays]
        try:
            found = []
            for number, run in enumerate(runs):
                found.append(run.result())
                if progress is not None:
                    progress(number, 0.0, len(jobs))
            return found
        except BrokenProcessPool as error:
            raise TraceError(f"a process that played a workload has ended: {error}") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                if process not in of_others:
                    process.terminate()
            raise


def _begin() -> None:
    """A process for runs ends when the one that has begun it says so, or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TO_TIDY_UP)
    os._exit(1)


def _play_here(play: Play, jobs: Sequence[TraceJob]) -> Measures:
    """A run in a process of its own, which removes its files when it is told to end, and ends: the
    next run may have been handed to it by then, and nobody waits for that."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        return _play(play, jobs)
    except KeyboardInterrupt:
        pass  # the error is dropped first, and with it what closes a directory not in use yet
    finally:
        signal.signal(signal.SIGTERM, before)
    os._exit(1)


def _stop(number: int, _: object) -> None:
    """End the run. Once is enough: a second signal would come while files are removed."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _play(
    play: Play, jobs: Sequence[TraceJob], number: int = 0, progress: Progress | None = None
) -> Measures:
    def say(now: float, done: int) -> None:
        if progress is not None:
            progress(number, now, done)

    return measures_of(play_trace(play, jobs, say))
