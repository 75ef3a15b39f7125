"""Several runs of one workload, side by side: as many at a time as there are processors.

Each run is a process of its own, because the clock and the log of a process are those of the run
in it. A single one stays in this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from hpc.autoscale.traces.measures import Measures, measures_of
from hpc.autoscale.traces.playing import Play, play_trace
from hpc.autoscale.traces.workload import TraceError, TraceJob

SMALL = 2000
"""So many jobs to play in all are played in this process: another one takes a second to begin."""

Progress = Callable[[int, float, int], None]
"""Hears which run is at which time, and how many of its jobs have ended."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_all(
    plays: Sequence[Play], jobs: Sequence[TraceJob], progress: Progress | None = None
) -> list[Measures]:
    """The figures of each run, in the order given.

    Raises TraceError when a process with a run comes to an end by itself.
    """
    processes = min(len(plays), processors())
    if len(plays) * len(jobs) <= SMALL:
        processes = 1
    if processes <= 1:
        return [_play(play, jobs, number, progress) for number, play in enumerate(plays)]
    # a fresh interpreter for each: what threads of this one hold is of no use there
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        runs: list[Future[Measures]] = [pool.submit(_play, play, jobs) for play in plays]
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
            raise


def _play(
    play: Play, jobs: Sequence[TraceJob], number: int = 0, progress: Progress | None = None
) -> Measures:
    def say(now: float, done: int) -> None:
        if progress is not None:
            progress(number, now, done)

    return measures_of(play_trace(play, jobs, say))
