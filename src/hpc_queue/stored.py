"""What the store gives and takes: jobs, runs and workers as they stand, and what a slot learns.

Values only; what they are read from is the business of `store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpc_queue.model import JobSpec, State


@dataclass(frozen=True)
class Ended:
    """How a run ended. `state` Waiting: it has not begun after all. `begun` is a time, `seconds` a
    duration, `output` the end of an output that had `length` bytes in all."""

    state: State
    exit: int = 0
    begun: float = 0.0
    seconds: float = 0.0
    output: bytes = b""
    length: int = 0
    why: str = ""


@dataclass(frozen=True)
class Step:
    """What a slot learns: whether what it reported counts, whether that element waits again, what
    became of its claim (`begun`, `none`, `busy`, `draining`, `halted`, `lost`), which element it
    got, and which jobs need no longer wait for others."""

    counted: bool
    again: bool
    answer: str
    position: int
    tries: int
    released: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A run: when it began, how long it took in seconds, its exit code, and by which worker."""

    begun: float
    seconds: float
    exit: int
    worker: str


@dataclass(frozen=True)
class Job:
    """A job as it stands: its description, and how many elements are in each state."""

    id: str
    spec: JobSpec
    counts: Mapping[State, int]
    held: int
    submitted: float
    begun: float | None
    ended: float | None

    @property
    def open(self) -> int:
        """How many elements have not ended."""
        return self.counts[State.Waiting] + self.counts[State.Running]


@dataclass(frozen=True)
class WorkerRecord:
    """A worker as it stands. `running` are the jobs of the elements that it runs; `said` is what it
    says of itself."""

    name: str
    running: tuple[str, ...]
    beats: int
    done: int
    draining: bool
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def busy(self) -> int:
        """How many elements it runs."""
        return len(self.running)

    @property
    def slots(self) -> int:
        return int(self.said.get("slots", "1"))


def state_of(byte: int) -> State:
    """The state in the byte of an element."""
    return State(byte & 7)


def tries_of(byte: int) -> int:
    """How often the element was begun, up to 31."""
    return byte >> 3


def job_of(name: str, packed: Mapping[bytes, bytes]) -> Job:
    """The job that a hash of Redis has."""

    def number(field: bytes) -> float | None:
        return float(packed[field]) if field in packed else None

    return Job(
        id=name,
        spec=JobSpec.from_json(packed[b"spec"]),
        counts={state: int(packed[b"n%d" % state]) for state in State},
        held=int(packed[b"held"]),
        submitted=number(b"submitted") or 0.0,
        begun=number(b"begun"),
        ended=number(b"ended"),
    )
