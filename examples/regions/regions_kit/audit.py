"""The judgement over a run, and the table about it. Pure: records in, lines out."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hpc_queue import JobSpec, State

_LOST = re.compile(r"run (\d+): .*, runs again$")
MOST_FAULTS = 10


@dataclass(frozen=True)
class Run:
    """A line that a job wrote when it ran. `machine` is the id of a node, or the name of a host;
    the region of a host is empty."""

    job: str
    index: int
    attempt: int
    region: str
    machine: str

    @staticmethod
    def parse(line: str) -> "Run":
        """What `jobs.record` has written. The region may be empty, so there are always four
        blanks."""
        job, index, attempt, region, machine = line.split(" ")
        return Run(job, int(index), int(attempt), region, machine)


@dataclass(frozen=True)
class Outcome:
    """What the queue says of a job in the end: state and number of tries of each element, and its
    history as positions and texts."""

    job: str
    spec: JobSpec
    elements: Sequence[tuple[State, int]]
    history: Sequence[tuple[int, int, str]]

    def lost(self) -> dict[int, list[int]]:
        """The tries whose workers were lost, so that the element ran again, by position."""
        found: dict[int, list[int]] = defaultdict(list)
        for low, high, text in self.history:
            again = _LOST.match(text)
            if again:
                for position in range(low, high + 1):
                    found[position].append(int(again[1]))
        return found


def job_faults(outcomes: Iterable[Outcome], runs: Iterable[Run]) -> list[str]:
    """A line for each element that did not run exactly as often as its retries say.

    One that succeeds runs once, and once more for each run that its history says was lost. One that
    always fails, and is retried for that, runs once and once more for each retry. A run that was
    not lost has left a trace, and none has left two.
    """
    seen: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for run in runs:
        seen[run.job, run.index][run.attempt] += 1
    faults = []
    for outcome in outcomes:
        lost, spec = outcome.lost(), outcome.spec
        for position, (state, tries) in enumerate(outcome.elements):
            index = spec.index_of(position)
            ran = seen.pop((outcome.job, index), Counter())
            why = _fault(spec, state, tries, lost.get(position, []), ran)
            if why:
                faults.append(f"job {outcome.job}.{index} of {spec.name}: {why}")
    faults += [f"job {job}.{index} ran, and is not known" for job, index in seen]
    return faults


def _fault(
    spec: JobSpec, state: State, tries: int, lost: Sequence[int], ran: Counter[int]
) -> str | None:
    wanted = State.Failed if spec.retry_failed else State.Successful
    expected = spec.retries + 1 if spec.retry_failed else 1 + len(lost)
    if state is not wanted:
        return f"expected to end as {wanted.name}, found {state.name}"
    if tries != expected:
        return f"expected {expected} runs, found {tries}"
    if tries > spec.retries + 1:
        return f"expected at most {spec.retries} retries, found {tries - 1}"
    twice = [attempt for attempt, times in ran.items() if times > 1 or attempt > tries]
    if twice:
        return f"run {twice[0]} was seen {ran[twice[0]]} times, of {tries} runs"
    # one that was lost may have been lost before it wrote that it ran
    missing = [at for at in range(1, tries + 1) if at not in lost and not ran[at]]
    if missing:
        return f"run {missing[0]} left no trace"
    return None


@dataclass
class Machines:
    """The nodes of a region that there ever were: how long each had a VM in seconds, by id, and
    which of them were ready at some time."""

    seconds: dict[str, float] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    price: float | None = 0.0

    @property
    def cost(self) -> float | None:
        """US dollars; None when the price is unknown."""
        return None if self.price is None else self.price * sum(self.seconds.values()) / 3600


@dataclass(frozen=True)
class Figures:
    """What is said of the run as a whole. Times in seconds."""

    first: float
    took: float
    jobs: int


def table(
    regions: Mapping[str, Machines], runs: Sequence[Run], figures: Figures, slots: int
) -> list[str]:
    """Lines: a row for each region, then the run as a whole. `regions` have the machines of each;
    surplus workers are those of machines that were ready and ran nothing."""
    worked = {run.machine for run in runs}
    ran = Counter(run.region for run in runs)
    lines = [f"{'region':<16} {'nodes':>6} {'runs':>8} {'cost, $':>10} {'surplus workers':>16}"]
    surplus = 0
    for region, machines in regions.items():
        idle = slots * len(machines.ready - worked)
        surplus += idle
        cost = "unknown" if machines.cost is None else f"{machines.cost:.5f}"
        lines.append(
            f"{region or 'on premises':<16} {len(machines.seconds):>6} {ran[region]:>8}"
            f" {cost:>10} {idle:>16}"
        )
    lines.append(
        f"first job after {figures.first:.1f} s, {figures.jobs / figures.took:.0f} jobs a second,"
        f" {surplus} surplus workers"
    )
    return lines
