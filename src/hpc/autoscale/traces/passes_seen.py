"""Workloads from the loop's own journal: jobs as the passes of a loop have seen them.

A pass sees which jobs wait, and which run on which hosts. So each time is that of the first pass
that shows the change: a job came, began and ended at most one interval before that, and how long it
ran is right on average. What began and ended between two passes is not seen at all.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.journal import Journal, PassRecord
from hpc.autoscale.journal.again import is_packed_again
from hpc.autoscale.journal.files import is_named_so
from hpc.autoscale.journal.frames import made_at
from hpc.autoscale.traces.accounting import duration_of
from hpc.autoscale.traces.workload import SetAside, Trace, TraceJob, in_order

_CORES = ("ncpus", "slots", "cpus", "ncores", "cores")
_ESTIMATES = ("walltime", "time_limit", "timelimit", "h_rt")
_MEMORY = {"memtb": 2**40, "memgb": 2**30, "memmb": 2**20, "memkb": 2**10, "memb": 1, "mem": 1}
# what tells a task of an array job from the whole: 12[3].server, 12_3, 12.3
_OF_A_TASK = re.compile(r"[\[_.]")


def is_journal(path: str) -> bool:
    """Whether a path is that of a journal, or of a file of one. A pipe, which is read but once, is
    none. Raises OSError."""
    if os.path.isdir(path):
        return True
    if stat.S_ISFIFO(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        if is_named_so(path) or made_at(file) is not None:
            return True
        return is_packed_again(file, os.fstat(file.fileno()).st_size)


@dataclass(eq=False)
class _Seen:
    """What passes have shown of a job. `asked` is its JSON form, where it was seen waiting, and
    `others` those of its other parts, jobs of the same name that waited beside it;
    `from_before`: it ran in the first pass. `cores_on`: what it takes on each of its hosts; None
    where that is not known."""

    name: str
    came: float
    asked: Mapping[str, Any] | None = None
    from_before: bool = False
    is_task: bool = False
    began: float | None = None
    ended: float | None = None
    cores_on: dict[str, int | None] = field(default_factory=dict)
    tasks: int = 0
    others: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """What is known of all that it asks for."""
        return [] if self.asked is None else [self.asked, *self.others]

    @property
    def cores_used(self) -> int | None:
        """What it takes on all its hosts, as far as that was found out."""
        every = list(self.cores_on.values())
        return None if None in every else sum(each or 0 for each in every)


def read_journal(path: str) -> Trace:
    """The jobs that the passes of a journal have seen from beginning to end.

    Garbled records are passed over. Raises JournalError for a journal that cannot be read.
    """
    trace = Trace(path, "journal", [], SetAside("job"))
    journal = Journal(path, skip_garbled=True)
    watch = _Watch()
    most = 0
    record = None
    for record in journal:
        if record.did.get("ended_by") and not (record.jobs or record.hosts):
            continue  # nothing was read
        watch.look(record)
        most = max(most, sum(_cores_of(host.get("resources")) for host in record.hosts))
    if record is None:
        raise journal.without()
    for sentence in journal.problems:
        trace.problems.append(sentence)
    watch.find_out()
    found = (_job(seen, trace.set_aside) for seen in watch.all())
    trace.jobs = in_order(job for job in found if job is not None)
    if not watch.has_seen_waiting:  # its driver tells of jobs that run alone
        trace.jobs = [replace(job, waited=None) for job in trace.jobs]
    trace.machine_cores = most or None
    return trace


_Share = tuple[int, list[_Seen]]
"""How many cores of a host jobs take together."""


class _Watch:
    """The jobs that were seen, pass by pass."""

    def __init__(self) -> None:
        self._open: dict[str, _Seen] = {}
        self._shares: dict[str, list[_Share]] = {}
        self._over: list[_Seen] = []
        # those that waited and are not handed over any more, of which tasks may begin later
        self._set_back: dict[str, _Seen] = {}
        self._is_first = True
        self.has_seen_waiting = False

    def all(self) -> Iterator[_Seen]:
        """Every job, those that are over first."""
        yield from self._over
        yield from self._open.values()

    def look(self, record: PassRecord) -> None:
        """Take in what one pass has read."""
        there = set(self._waiting(record))
        self.has_seen_waiting = self.has_seen_waiting or bool(there)
        running = _running(record)
        for name in there - running.keys():  # what ran on a host that is lost begins again
            self._open[name].began = None
            self._open[name].cores_on.clear()
        wholes = {_OF_A_TASK.split(name, maxsplit=1)[0]: each for name, each in self._open.items()}
        for name, hosts in running.items():
            seen = self._open.get(name)
            if seen is None:
                seen = self._open[name] = self._begun(name, record.at, wholes)
            if seen.began is None:
                seen.began = record.at
                seen.from_before = seen.from_before or self._is_first
            for host in hosts:
                seen.cores_on.setdefault(str(host.get("hostname")), None)
        self._note_shares(record)
        for name in [n for n in self._open if n not in there and n not in running]:
            seen = self._open.pop(name)
            seen.ended = record.at
            self._over.append(seen)
            if seen.began is None:
                self._set_back[_OF_A_TASK.split(name, maxsplit=1)[0]] = seen
        self._is_first = False

    def _note_shares(self, record: PassRecord) -> None:
        """Note what the jobs on each host take together."""
        for host in record.hosts:
            whole = host.get("resources")
            cores = _cores_of(whole) - _cores_of(host.get("available", whole))
            those = [self._open[str(job_id)] for job_id in host.get("job-ids") or ()]
            shares = self._shares.setdefault(str(host.get("hostname")), [])
            if those and (not shares or shares[-1] != (cores, those)):
                shares.append((cores, those))

    def find_out(self) -> None:
        """Find out what jobs take: what is left of what several take together, where that of all
        others is known."""
        for host, shares in self._shares.items():
            is_new = True
            while is_new:
                is_new = False
                for cores, those in shares:
                    unknown = [seen for seen in those if not _known_on(host, seen)]
                    if len(unknown) == 1:
                        others = sum(_known_on(host, seen) for seen in those)
                        found = cores - others
                        if found > 0 and host in unknown[0].cores_on:
                            unknown[0].cores_on[host] = found
                            is_new = True

    def _waiting(self, record: PassRecord) -> Iterator[str]:
        new: set[str] = set()
        for job in record.jobs:
            if job.get("kind", "job") != "job":
                continue
            name = str(job.get("name"))
            seen = self._open.setdefault(name, _Seen(name, record.at))
            if name in new:
                seen.others.append(job)
            elif seen.asked is None:
                seen.asked = job
                new.add(name)
            if not job.get("executing-hostnames"):
                yield name

    def _begun(self, name: str, now: float, wholes: Mapping[str, _Seen]) -> _Seen:
        """A job that is first seen running: a task of one that waited, or one that came since the
        last pass."""
        base = _OF_A_TASK.split(name, maxsplit=1)[0]
        whole = wholes.get(base) or self._set_back.get(base)
        if whole is None:
            return _Seen(name, now)
        whole.tasks += 1
        return _Seen(name, whole.came, whole.asked, is_task=True)


def _running(record: PassRecord) -> dict[str, list[Mapping[str, Any]]]:
    """The hosts of each job that runs."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for host in record.hosts:
        for job_id in host.get("job-ids") or ():
            found.setdefault(str(job_id), []).append(host)
    for job in record.jobs:
        if job.get("executing-hostnames"):
            found.setdefault(str(job.get("name")), [])
    return found


def _known_on(host: str, seen: _Seen) -> int:
    """What a job takes on a host; 0 where that is not known."""
    known = seen.cores_on.get(host)
    if known is None and seen.asked is not None and len(seen.cores_on) == 1:
        known = _cores_asked(seen)
    return known or 0


def _cores_asked(seen: _Seen) -> int:
    return sum(_cores_of(_sums(part)) * _count(part, seen) for part in seen.parts)


def _count(part: Mapping[str, Any], seen: _Seen) -> int:
    """How many times a part of a job takes what it asks for."""
    nodes = int(part.get("node-count") or 0)
    return nodes or (1 if seen.is_task else max(1, int(part.get("iterations") or 1)))


def _asked_in_all(seen: _Seen) -> tuple[float, int]:
    """Bytes of memory and GPUs that all parts of a job ask for."""
    memory, gpus = 0.0, 0
    for part in seen.parts:
        asked, count = _sums(part), _count(part, seen)
        many = asked.get("ngpus")
        gpus += many * count if isinstance(many, int) else 0
        each = (_bytes(value, unit) for n, unit in _MEMORY.items() if (value := asked.get(n)))
        memory += sum(each) * count
    return memory, gpus


def _cores_of(amounts: Mapping[str, Any] | None) -> int:
    for name in _CORES:
        value = (amounts or {}).get(name)
        if isinstance(value, int | float) and value > 0:
            return int(value)
    return 0


def _job(seen: _Seen, set_aside: SetAside) -> TraceJob | None:
    if seen.began is None and seen.tasks:
        return None  # an array, of which the tasks were seen
    # of parts only some of which ask for nodes, nobody knows how many these come to before they run
    asked_nodes = 0 if seen.others else int((seen.asked or {}).get("node-count") or 0)
    nodes = asked_nodes or len(seen.cores_on)
    cores = _cores_asked(seen) or seen.cores_used or _cores_of(_metadata(seen.asked))
    if seen.began is None:
        set_aside.add(seen.name, "it was not seen to run: too short, or cancelled")
    elif seen.ended is None:
        set_aside.add(seen.name, "it had not ended when the journal did")
    elif seen.from_before:
        set_aside.add(seen.name, "it began before the journal did")
    elif not seen.came <= seen.began < seen.ended:
        set_aside.add(seen.name, "the clock was put back while it waited or ran")
    elif not cores:
        set_aside.add(seen.name, "the number of cores is unknown")
    else:
        memory, gpus = _asked_in_all(seen)
        array = _sums(seen.asked).get("nodearray")
        return TraceJob(
            seen.name,
            seen.came,
            seen.ended - seen.began,
            cores,
            nodes=nodes if nodes > 1 else 0,
            requested_seconds=_estimate_of(seen.asked),
            waited=seen.began - seen.came,
            memory=memory or None,
            gpus=gpus or None,
            queue=array if isinstance(array, str) else "",
        )
    return None


def _estimate_of(job: Mapping[str, Any] | None) -> float | None:
    """How long the user said that a job may run, in seconds, where the driver has put that into the
    metadata of the job: a number of seconds, or a text such as 1-12:00:00 or 01:30:00."""
    for name, value in _metadata(job).items():
        if str(name).lower() in _ESTIMATES:
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value)
            if isinstance(value, str) and (found := duration_of(value)):
                return found
    return None


def _metadata(job: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What the driver noted on a job."""
    said = (job or {}).get("metadata")
    return said if isinstance(said, Mapping) else {}


def _sums(job: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a job asks for on each host, by name."""
    asked: dict[str, Any] = {}
    for constraint in (job or {}).get("constraints") or ():
        if isinstance(constraint, Mapping):
            asked.update(constraint)
    return asked


def _bytes(value: object, unit: int) -> float:
    if isinstance(value, int | float):
        return value * unit
    size = ht.with_sizes({"": value})[""]
    return float(size.bytes) if isinstance(size, ht.Size) else 0.0
