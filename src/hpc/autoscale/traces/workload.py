"""A recorded workload as values: jobs with when they came, how long they ran and what they took.

Nothing here reads files or knows in which form a workload was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hpc.autoscale.errors import AutoscaleError

NAMED_AT_MOST = 5
"""How many of the lines that were set aside are named with each reason."""

LATEST = 32503680000.0
"""The beginning of the year 3000, in unix seconds. What came later is not in seconds."""

TOO_LATE = "it came or ended after the year 3000: its times are not in seconds"


class TraceError(AutoscaleError):
    """A workload that cannot be read, or that has nothing to play."""


class ReadingError(TraceError):
    """A workload is to be read in a way that there is not. The message begins with what was chosen,
    `form` or `memory_unit`, a colon after it."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a recorded workload.

    Times are unix seconds, durations seconds. `cores` is what the whole job took, on `nodes` hosts
    where that is known (0: anywhere). `requested_seconds` is the user's estimate of the run time,
    `waited` how long the job waited when it was recorded; None where the record does not say.
    `memory` (bytes) and `gpus` are what the whole job asked for; None where that is not known.
    `array` is the name of the array job that it is a task of, by which others may wait for all of
    its tasks. `after` names the jobs that had to end before it; `think` is how many seconds after
    that its user submitted it, where the record says that rather than that it waited for them.
    """

    name: str
    submitted: float
    seconds: float
    cores: int
    nodes: int = 0
    requested_seconds: float | None = None
    waited: float | None = None
    user: str = ""
    memory: float | None = None
    gpus: int | None = None
    queue: str = ""
    partition: str = ""
    array: str = ""
    after: tuple[str, ...] = ()
    think: float | None = None

    @property
    def estimate(self) -> float:
        """How long a scheduler expects it to run; never shorter than it runs."""
        return max(self.seconds, self.requested_seconds or 0.0)


class SetAside:
    """The lines of a workload that are left out: how many, which, and why. `noun`: what they are,
    where they are no lines."""

    def __init__(self, noun: str = "line") -> None:
        self._noun = noun
        self._lines: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, line: int | str, reason: str, found: str = "") -> None:
        """Leave out a line. The reason is the same text for all that are left out for it; `found`
        is what was there."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
        lines = self._lines.setdefault(reason, [])
        if len(lines) < NAMED_AT_MOST:
            lines.append(f"{line}" + (f" ({found})" if found else ""))

    @property
    def count(self) -> int:
        """How many lines there are."""
        return sum(self._counts.values())

    def sentences(self) -> list[str]:
        """Each reason with the number of lines, and the first of them by number."""
        said = []
        for reason, count in self._counts.items():
            lines = self._lines[reason]
            more = ", …" if count > len(lines) else ""
            noun = self._noun if count == 1 else f"{self._noun}s"
            said.append(f"{count} {noun} set aside: {reason}: {noun} {', '.join(lines)}{more}")
        return said


@dataclass
class Trace:
    """A workload: its jobs in the order in which they came, and what its file says of itself.

    `header` has the statements of the file's header by their name; `machine_cores` is the size of
    the machine that it was recorded on, where the header says that. `problems` says what of the
    file could not be read, beside what was set aside.
    """

    path: str
    form: str
    jobs: list[TraceJob]
    set_aside: SetAside = field(default_factory=SetAside)
    header: dict[str, str] = field(default_factory=dict)
    machine_cores: int | None = None
    machine_nodes: int | None = None
    problems: list[str] = field(default_factory=list)

    def part(self, start: float = 0.0, seconds: float | None = None) -> list[TraceJob]:
        """The jobs that came from `start` seconds after the first one on, for so many seconds."""
        if not self.jobs:
            return []
        begin = self.jobs[0].submitted + start
        end = None if seconds is None else begin + seconds
        return [
            job
            for job in self.jobs
            if job.submitted >= begin and (end is None or job.submitted < end)
        ]


def in_order(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """Jobs in the order in which they came; those that came together stay as they were."""
    return sorted(jobs, key=lambda job: job.submitted)
