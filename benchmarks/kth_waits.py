"""Why jobs waited longer in the log of KTH's SP2 than they do when it is simulated.

    .venv/bin/python benchmarks/kth_waits.py KTH-SP2-1996-2.swf.gz

Plays the log on 100 processors that are always there, with one thing changed at a time, and prints
the waiting times beside those of the log itself. docs/simulate.md says what came out.
"""

import argparse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from zoneinfo import ZoneInfo

from hpc.autoscale.traces.measures import Waits, waits_of
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.scheduling import Scheduler, Task, task_of
from hpc.autoscale.traces.workload import TraceJob

PROCESSORS = 100
DAY = 86400.0
STOCKHOLM = ZoneInfo("Europe/Stockholm")
LONG = 4 * 3600.0
OPENS, CLOSES = 17, 7
"""Jobs that ask for more than four hours begin after five in the afternoon, before seven in the
morning and at weekends: so does nearly every one of them in the log."""


class AtNight(Scheduler):
    """Lets long jobs begin at night and at weekends only."""

    def dispatch(self) -> None:
        """Start what can start, without long jobs by day."""
        if not is_day(self._now()):
            super().dispatch()
            return
        everybody = self.waiting
        self.waiting = {n: t for n, t in everybody.items() if t.job.estimate <= LONG}
        super().dispatch()
        self.waiting = {n: t for n, t in everybody.items() if t.started is None}

    def next_end(self) -> float | None:
        """When the next job ends, or the night begins."""
        end = super().next_end()
        if not (self.waiting and is_day(self._now())):
            return end
        now = datetime.fromtimestamp(self._now(), STOCKHOLM)
        opens = now.replace(hour=OPENS, minute=0, second=0, microsecond=0).timestamp()
        return opens if end is None else min(end, opens)

    def end_jobs(self) -> None:
        """End the jobs whose time is over, and start others."""
        super().end_jobs()
        self.dispatch()


def played(
    jobs: Sequence[TraceJob], kind: type[Scheduler], policy: str
) -> list[tuple[TraceJob, float]]:
    """Each job with how long it waits on a machine that is always there."""
    now = jobs[0].submitted
    scheduler = kind(lambda: now, policy)
    for number in range(PROCESSORS):
        scheduler.join(str(number), str(number), 1)
    tasks = [task_of(number, job, 1) for number, job in enumerate(jobs)]
    come = 0
    while come < len(tasks) or scheduler.waiting or scheduler.running:
        end = scheduler.next_end()
        arrives = tasks[come].job.submitted if come < len(tasks) else None
        now = min(at for at in (end, arrives) if at is not None)
        scheduler.end_jobs()
        new: list[Task] = []
        while come < len(tasks) and tasks[come].job.submitted <= now:
            new.append(tasks[come])
            come += 1
        if new:
            scheduler.submit(new)
    return [(task.job, task.wait) for task in tasks]


def hours_by_cause(pairs: Sequence[tuple[TraceJob, float]]) -> dict[str, float]:
    """What a mean waiting time is made of, in hours: pairs are jobs with how long they waited.

    A job that waits while fewer processors are free than it asks for has no room. Where there is
    room, EASY may keep it for a job that came before; all other waiting is somebody's decision, or
    that of a machine that is away.
    """
    events: list[tuple[float, int, int]] = []
    for index, (job, wait) in enumerate(pairs):
        start = job.submitted + wait
        events += [(job.submitted, 1, index), (start, 2, index), (start + job.seconds, 0, index)]
    events.sort()
    seconds = dict.fromkeys(CAUSES, 0.0)
    waiting: dict[int, TraceJob] = {}
    running: dict[int, tuple[float, int]] = {}
    last = events[0][0]
    for now, what, index in events:
        if now > last:
            for cause, count in _causes(waiting, running.values(), last).items():
                seconds[cause] += count * (now - last)
        last = now
        job, wait = pairs[index]
        if what == 1:
            waiting[index] = job
        elif what == 2:
            waiting.pop(index, None)
            running[index] = (job.submitted + wait + job.estimate, job.cores)
        else:
            running.pop(index)
    return {cause: each / len(pairs) / 3600 for cause, each in seconds.items()}


CAUSES = (
    *("no room", "nothing runs at all", "a long job by day", "the first 15 minutes"),
    *("kept for another", "other"),
)


def _causes(
    waiting: Mapping[int, TraceJob], running: Collection[tuple[float, int]], now: float
) -> Counter[str]:
    """How many jobs wait for which cause; `running` has the expected ends and the processors of
    those that run."""
    busy = sum(cores for _, cores in running)
    found = {index: _cause(job, busy, now) for index, job in waiting.items()}
    if "other" in found.values():
        allowed = {i: job for i, job in waiting.items() if found[i] != "a long job by day"}
        begun = begun_by_easy(allowed, running, now)
        for index in allowed:
            if found[index] == "other" and index not in begun:
                found[index] = "kept for another"
    return Counter(found.values())


def begun_by_easy(
    waiting: Mapping[int, TraceJob], running: Collection[tuple[float, int]], now: float
) -> set[int]:
    """Which of the jobs that wait, in the order in which they came, EASY would begin now."""
    free = PROCESSORS - sum(cores for _, cores in running)
    ends, begun = list(running), set()
    promised, spare = 0.0, 0
    for index, job in waiting.items():
        is_later = now + job.estimate > promised
        if job.cores <= free and (not promised or not is_later or job.cores <= spare):
            begun.add(index)
            free -= job.cores
            ends.append((now + job.estimate, job.cores))
            spare -= job.cores if is_later else 0
        elif not promised:
            # the first one that has no room: it gets it when enough of the others have ended
            room, promised = free, inf
            for end, cores in sorted(ends):
                room += cores
                if room >= job.cores:
                    promised, spare = max(end, now), room - job.cores
                    break
    return begun


def _cause(job: TraceJob, busy: int, now: float) -> str:
    if job.cores > PROCESSORS - busy:
        return "no room"
    if not busy:
        return "nothing runs at all"
    if job.estimate > LONG and is_day(now):
        return "a long job by day"
    return "the first 15 minutes" if now - job.submitted < 900 else "other"


def by_day(job: TraceJob) -> bool:
    """Whether a job began in the hours in which long ones did not."""
    return is_day(job.submitted + (job.waited or 0.0))


def is_day(now: float) -> bool:
    """Whether it is Monday to Friday between the hours in which long jobs may begin."""
    at = datetime.fromtimestamp(now, STOCKHOLM)
    return at.weekday() < 5 and CLOSES <= at.hour < OPENS


def main() -> None:
    """Print a row for each way to play it, and what the waiting is made of."""
    parser = argparse.ArgumentParser(description="why jobs waited at KTH")
    parser.add_argument("log")
    jobs = read_trace(parser.parse_args().log).jobs
    perfect = [replace(job, requested_seconds=None) for job in jobs]
    long = [job for job in jobs if job.estimate > LONG]
    begun = sum(map(by_day, long))
    print(f"{len(long)} jobs ask for more than 4 h; {begun} of them began by day")
    later = jobs[0].submitted + 14 * DAY
    recorded = [(job, job.waited or 0.0) for job in jobs]
    easy = played(jobs, Scheduler, "easy")
    rows = {
        "the log itself": recorded,
        "EASY": easy,
        "EASY, estimates are run times": played(perfect, Scheduler, "easy"),
        "EASY, long jobs begin at night": played(jobs, AtNight, "easy"),
        "FCFS": played(jobs, Scheduler, "fcfs"),
        "the log, from the 15th day on": [each for each in recorded if each[0].submitted >= later],
        "EASY, from the 15th day on": [each for each in easy if each[0].submitted >= later],
    }
    print(f"{'':32} {'mean wait':>10} {'half':>8} {'95 %':>8} {'slowdown':>8} {'95 %':>8}")
    for name, pairs in rows.items():
        _row(name, waits_of((wait, job.seconds) for job, wait in pairs))
    print(f"\n{'hours of the mean wait':32} {'':10}", *CAUSES, sep="  ")
    for name in ("the log itself", "EASY", "EASY, long jobs begin at night"):
        found = hours_by_cause(rows[name])
        print(f"{name:32} {'':10}", *(f"{found[c]:{len(c)}.2f}" for c in CAUSES), sep="  ")


def _row(name: str, waits: Waits) -> None:
    hours = [(value or 0.0) / 3600 for value in (waits.mean, waits.p50, waits.p95)]
    print(
        f"{name:32} {hours[0]:8.2f} h {hours[1]:6.2f} h {hours[2]:6.1f} h"
        f" {waits.slowdown or 0:8.1f} {waits.slowdown_p95 or 0:8.0f}"
    )


if __name__ == "__main__":
    main()
