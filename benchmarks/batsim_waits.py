"""By which rule the simulator Batsim began the jobs of a schedule that evalys ships.

    .venv/bin/python benchmarks/batsim_waits.py

Plays tests/data/evalys-batsim.swf, which has the waits that Batsim gave 800 jobs on 32 processors,
by the rules of `azscale simulate` and by others, and prints for each the mean wait and how many
jobs begin at another time than they did there. docs/simulate.md says what came out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from statistics import fmean

from hpc.autoscale.traces.choices import Choice, play_of
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.playing import play_trace
from hpc.autoscale.traces.workload import Trace, TraceJob

LOG = Path(__file__).resolve().parents[1] / "tests" / "data" / "evalys-batsim.swf"
PROCESSORS = 32

TOLERANCE = 0.5
"""Jobs that begin within so many seconds of each other begin at the same time."""

Waits = Mapping[str, float]
"""How long each job waits, by its name."""


@dataclass(frozen=True)
class Rule:
    """A rule of backfill in which a job that waits is promised certain processors, those of the
    lowest numbers that are free for as long as it asked for.

    `all_promised`: every job is promised a time and processors, not the first one alone. `is_kept`:
    what a job was promised when it came stands until it is its turn to be promised something
    earlier; otherwise all promises are made anew whenever a job comes or ends. `ends_before`: who
    goes ahead has to end before the first one's time.
    """

    all_promised: bool = False
    is_kept: bool = False
    ends_before: bool = False


RULES: Mapping[str, Rule] = {
    "EASY, the first job has certain processors": Rule(),
    "EASY, who goes ahead ends before the first one's time": Rule(ends_before=True),
    "conservative, certain processors, promised anew": Rule(all_promised=True),
    "conservative, certain processors, promises are kept": Rule(all_promised=True, is_kept=True),
}


@dataclass(frozen=True)
class Slot:
    """Processors from a time to another one, as expected."""

    begins: float
    ends: float
    processors: frozenset[int]


class Machine:
    """The processors, and the jobs that run and wait, by a rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.waits: dict[str, float] = {}
        self._waiting: list[TraceJob] = []
        self._taken: dict[str, Slot] = {}  # by jobs that run, and promised to others
        self._ends: list[tuple[float, int, str]] = []

    def play(self, jobs: Sequence[TraceJob]) -> Waits:
        """Let the jobs come and end, one after the other; how long each waits."""
        come = 0
        while come < len(jobs) or self._ends:
            arrives = jobs[come].submitted if come < len(jobs) else inf
            if self._ends and self._ends[0][0] <= arrives:
                now, _, name = heappop(self._ends)
                del self._taken[name]
            else:
                now = arrives
                self._waiting.append(jobs[come])
                come += 1
            self._promise(now)
        return self.waits

    def _promise(self, now: float) -> None:
        """Promise in order of arrival, and begin the jobs whose time is now."""
        rule, first = self.rule, inf
        if not rule.is_kept:
            for job in self._waiting:
                self._taken.pop(job.name, None)
        for job in list(self._waiting):
            self._taken.pop(job.name, None)
            slot = self._earliest(job, now, rule.all_promised or first == inf)
            if slot is None or (rule.ends_before and slot.ends > first):
                continue
            self._taken[job.name] = slot
            if slot.begins > now:
                first = min(first, slot.begins)
            else:
                self._waiting.remove(job)
                self.waits[job.name] = now - job.submitted
                heappush(self._ends, (now + job.seconds, len(self.waits), job.name))

    def _earliest(self, job: TraceJob, now: float, is_promised: bool) -> Slot | None:
        times = {slot.ends for slot in self._taken.values()} if is_promised else set()
        for begins in sorted({now, *times}):
            ends = begins + job.estimate
            free = set(range(PROCESSORS)).difference(
                *(s.processors for s in self._taken.values() if s.begins < ends and s.ends > begins)
            )
            if len(free) >= job.cores:
                return Slot(begins, ends, frozenset(sorted(free)[: job.cores]))
        return None


def simulated(log: Trace, scheduler: str = "easy") -> Waits:
    """The waits that `azscale simulate --fixed --cores-per-node 1 --nodes 32` finds."""
    machine = Choice(fixed=True, cores_per_node=1, nodes=PROCESSORS, scheduler=scheduler)
    play = play_of(machine, log)
    return {task.job.name: task.wait for task in play_trace(play, log.jobs).tasks}


def apart(log: Iterable[TraceJob], waits: Waits) -> list[float]:
    """How many seconds from its time in the log each job begins."""
    return [abs(waits[job.name] - (job.waited or 0.0)) for job in log]


def begun_at_another_time(log: Iterable[TraceJob], waits: Waits) -> int:
    """How many jobs begin at another time than in the log."""
    return sum(seconds > TOLERANCE for seconds in apart(log, waits))


def main() -> None:
    """Print what each rule comes to."""
    log = read_trace(str(LOG))
    found: dict[str, Waits] = {
        "the log": {job.name: job.waited or 0.0 for job in log.jobs},
        "azscale simulate, EASY": simulated(log),
        "azscale simulate, FCFS": simulated(log, scheduler="fcfs"),
    }
    found |= {name: Machine(rule).play(log.jobs) for name, rule in RULES.items()}
    print(f"{'':54} mean wait   from the log's   begin at another time")
    for name, waits in found.items():
        mean, off = fmean(waits.values()), fmean(apart(log.jobs, waits))
        others = begun_at_another_time(log.jobs, waits)
        print(f"{name:54} {mean:7.2f} s   {off:12.2f} s   {others} of {len(waits)}")


if __name__ == "__main__":
    main()
