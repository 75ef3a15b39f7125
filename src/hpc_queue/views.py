"""Jobs as text: rows of a table, all that is known of one, output, and metrics.

Names and output are text from outside: they are shown by the rule of `hpc.autoscale.plaintext`.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.metrics.exposition import Metric, text_of
from hpc.autoscale.plaintext import on_its_lines, on_one_line
from hpc_queue.errors import QueueError
from hpc_queue.model import KINDS, State
from hpc_queue.store import Store
from hpc_queue.stored import Job, WorkerRecord, state_of, tries_of

COLUMNS = ("id", "name", "queue", "definition", "state", "elements", *(s.name for s in State))
SHORT_COLUMNS = (
    "id",
    "name",
    "queue",
    "state",
    "elements",
    "Waiting",
    "Running",
    "Failed",
    "Error",
)
"""The columns of a line of 80 characters."""
_WIDE = ("wide", "all")


def state_of_job(job: Job) -> State:
    """One state for all elements: Running while some are begun and not all have ended; in the end
    the worst that became of any."""
    counts, total = job.counts, job.spec.count
    if counts[State.Waiting] == total:
        return State.Waiting
    if job.open:
        return State.Running
    for state in (State.Error, State.Failed, State.Cancelled):
        if counts[state]:
            return state
    return State.Successful


def row(job: Job) -> list[Any]:
    """The row of a job, as `COLUMNS` has it."""
    spec = job.spec
    numbers = [job.counts[state] for state in State]
    name = state_of_job(job).name + (" (held)" if job.held else "")
    return [job.id, spec.name, spec.queue, spec.definition, name, spec.count, *numbers]


def chosen_columns(asked: str, every: Sequence[str]) -> list[str]:
    """The columns of these names, which commas separate, in any case of letters; `wide` or `all`
    for every one. QueueError for another name."""
    known = {name.lower(): name for name in every}
    found: list[str] = []
    for text in asked.split(","):
        if text.lower() not in (*known, *_WIDE):
            guess = did_you_mean(text, [*known, *_WIDE])
            raise QueueError(
                f"expected columns ({', '.join(known)}, or wide for all), found {text!r}{guess}"
            )
        found += every if text.lower() in _WIDE else [known[text.lower()]]
    return list(dict.fromkeys(found))


ELEMENT_COLUMNS = ("id", "name", "state", "tries", "retries_left")


def element_rows(
    store: Store, job: Job, low: int, high: int, wanted: State | None = None
) -> Iterator[list[Any]]:
    """A row for each element of a range, as `ELEMENT_COLUMNS` has it."""
    states = store.states(job.id)
    for position in range(low, min(high, len(states))):
        byte = states[position]
        state, tries = state_of(byte), tries_of(byte)
        if wanted in (None, state):
            left = max(0, job.spec.retries + 1 - max(1, tries))
            yield [element_id(job, position), job.spec.name, state.name, tries, left]


def reason_of(job: Job, reasons: Mapping[str, str]) -> str | None:
    """Why a job waits for workers, as the loop has it; None of one that does not, or is held."""
    if job.held or not job.counts[State.Waiting]:
        return None
    return reasons.get(job.spec.demand_class()) or reasons.get(job.spec.definition)


def waiting_lines(jobs: Iterable[Job], reasons: Mapping[str, str]) -> Iterator[str]:
    """Why jobs wait for workers, a line for all of a definition that wait for the same."""
    alike: dict[tuple[str, str], int] = {}
    for job in jobs:
        reason = reason_of(job, reasons)
        if reason is not None:
            key = job.spec.definition, reason
            alike[key] = alike.get(key, 0) + job.counts[State.Waiting]
    for (definition, reason), many in alike.items():
        yield on_one_line(f"{many} of {definition}: {reason}")


def element_id(job: Job, position: int) -> str:
    """The id of an element: that of the job, with its index where it is an array."""
    return f"{job.id}.{job.spec.index_of(position)}" if job.spec.is_array else job.id


def counts_of(store: Store, job: Job, low: int, high: int) -> Mapping[State, int]:
    """How many elements of a range are in each state."""
    if (low, high) == (0, job.spec.count):
        return job.counts
    return Counter(map(state_of, store.states(job.id)[low:high]))


def totals(counted: Iterable[Mapping[State, int]]) -> dict[str, int]:
    """How many elements there are, in all and by state."""
    counts = {state.name: 0 for state in State}
    for each in counted:
        for state in State:
            counts[state.name] += each[state]
    return {"Total": sum(counts.values()), **counts}


def in_lines(words: Iterable[str], width: int | None) -> str:
    """Words beside each other, in as many lines as a width in characters takes; None for one."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]}  {word}" if lines else word
        if lines and (width is None or len(longer) <= width):
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def all_of(store: Store, job: Job, position: int | None) -> dict[str, Any]:
    """All that is known of a job, or of one element of it."""
    spec = job.spec
    found: dict[str, Any] = {
        "id": job.id if position is None else element_id(job, position),
        "name": spec.name,
        "queue": spec.queue,
        "definition": spec.definition,
        "state": state_of_job(job).name,
        "command": next(spec.command[kind] for kind in KINDS if kind in spec.command),
        "elements": spec.count,
        **{state.name: job.counts[state] for state in State},
        "priority": spec.priority,
        "retries": spec.retries,
        "after": list(spec.after),
        "held": job.held,
        "waits_for": reason_of(job, store.reasons()),
        "submitted": moment(job.submitted),
        "begun": moment(job.begun),
        "ended": moment(job.ended),
    }
    if position is None and not spec.is_array:
        position = 0
    low, high = (0, spec.count) if position is None else (position, position + 1)
    if position is not None:
        found.update(_run_of(store, job, position))
    found["history"] = [
        f"{moment(when)} {what}"
        for first, last, when, what in store.history(job.id)
        if first < high and last >= low
    ]
    return found


def _run_of(store: Store, job: Job, position: int) -> dict[str, Any]:
    states = store.states(job.id)
    record = store.record(job, position)
    found: dict[str, Any] = {
        "state": state_of(states[position]).name,
        "tries": tries_of(states[position]),
    }
    where = store.where(job.id, position)
    if where:
        found["worker"] = where
    elif record:
        found.update(exit=record.exit, seconds=record.seconds, worker=record.worker)
        found["last_run"] = moment(record.begun or None)  # it may not have come to that
    return found


def moment(seconds: float | None) -> str | None:
    """A time as text, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds").replace("+00:00", "Z")


class ShownOutput:
    """Output that is written piece by piece as text that acts on no terminal: what is no text is
    shown as its escapes. A piece may end within a line or a character. With `raw`, the bytes as
    they are."""

    def __init__(self, stream: TextIO, raw: bool) -> None:
        self._stream = stream
        self._raw = raw
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")
        self._line = ""

    def add(self, output: bytes, is_last: bool = False) -> None:
        """Write the next piece."""
        if self._raw:
            self._stream.flush()
            self._stream.buffer.write(output)
        elif text := on_its_lines(self._decoder.decode(output, is_last)):
            self._stream.write(text)
            self._line = text
        self._stream.flush()

    def end(self) -> None:
        """Nothing follows on this line."""
        self.add(b"", is_last=True)
        if self._line and not self._line.endswith("\n"):
            self._stream.write("\n")
            self._stream.flush()
        self._line = ""


def by_definition(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """How many elements each definition has by the name of their state, and `Held`."""
    found: dict[str, dict[str, int]] = {}
    for (kind, state), number in sorted(counts.items()):
        if not state.isdigit() and state != "h":
            continue
        name = "Held" if state == "h" else State(int(state)).name
        each = found.setdefault(kind.partition("|")[0], {})
        each[name] = each.get(name, 0) + number
    return found


def metrics(store: Store) -> str:
    """The queue as text for Prometheus."""
    jobs = Metric("hpcq_jobs", "Elements by definition and state.")
    for definition, numbers in by_definition(store.counts()).items():
        for state, number in numbers.items():
            jobs.add(number, definition=definition, state=state.lower())
    runs = Metric("hpcq_runs_total", "Runs begun.", "counter")
    for definition, number in sorted(store.begun().items()):
        runs.add(number, definition=definition)
    halted = Metric("hpcq_halted", "Whether nothing may begin.")
    halted.add(int(store.is_halted()))
    workers, cluster = _of_workers(store.workers()), _of_cluster(store.cluster())
    return text_of([jobs, runs, *workers, *cluster, halted])


def _of_workers(workers: Iterable[WorkerRecord]) -> list[Metric]:
    numbers: dict[tuple[str, str], list[int]] = {}
    for worker in workers:
        place = worker.said.get("definition", ""), worker.said.get("region", "")
        each = numbers.setdefault(place, [0, 0, 0, 0])
        for index, number in enumerate((1, worker.slots, worker.busy, int(worker.draining))):
            each[index] += number
    families = [
        Metric("hpcq_workers", "Workers that live."),
        Metric("hpcq_slots", "Jobs that they can run at once."),
        Metric("hpcq_busy_slots", "Jobs that they run."),
        Metric("hpcq_draining_workers", "Workers that begin nothing more."),
    ]
    for index, family in enumerate(families):
        for (definition, region), each in sorted(numbers.items()):
            family.add(each[index], definition=definition, region=region)
    return families


def _of_cluster(seen: Mapping[str, Any]) -> list[Metric]:
    """What the last pass of the loop has seen; nothing before the first one."""
    if not seen:
        return []
    looked = Metric("hpcq_pass_time_seconds", "When the loop has looked last, in unix seconds.")
    looked.add(round(seen["time"]))
    wanted = Metric("hpcq_workers_wanted", "Workers that the backlog wants.")
    for definition, number in sorted(seen["wanted"].items()):
        wanted.add(number, definition=definition)
    by_key = {
        "booting": Metric("hpcq_nodes_booting", "Nodes that are not ready yet, and are to be."),
        "live": Metric("hpcq_nodes_live", "Nodes that are ready."),
        "dollars": Metric("hpcq_dollars_per_hour", "What nodes cost an hour, by known prices."),
        "unpriced": Metric("hpcq_nodes_unpriced", "Nodes whose price is not known."),
    }
    for region, each in sorted(seen["regions"].items()):
        for key, family in by_key.items():
            if key in each:
                family.add(each[key], region=region)
    weights = Metric("hpcq_region_weight", "Weight of a region.")
    for region, weight in sorted(seen.get("weights", {}).items()):
        weights.add(weight, region=region)
    return [looked, wanted, *by_key.values(), weights]
