"""A journal added up: how many nodes of each bucket there were when, what waited, what it cost.

Passes go into a fixed number of spans of time, and of nodes, buckets and causes the foremost are
kept by themselves and the rest together: so what is drawn is small, whatever the journal has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.journal import PassRecord
from hpc.autoscale.metrics import Health
from hpc.autoscale.node.vm_sizes.prices import price_per_hour

SPANS = 200
"""Into how many spans the time of a journal is divided at most."""

FOREMOST = 7
"""So many buckets and causes have a figure of their own."""

LIVES = 60
"""So many nodes have a line of their own."""

OTHERS = "others"
_CAUSE_LENGTH = 90
_NUMBERS = re.compile(r"\d+(\.\d+)?")


@dataclass
class Sample:
    """What was there at one pass: nodes and new nodes by bucket, waiting jobs by cause, and US
    dollars per hour; None where a price is unknown."""

    at: float
    nodes: Counter[str]
    wanted: Counter[str]
    waiting: Counter[str]
    per_hour: float | None
    jobs: int


@dataclass
class Life:
    """One node: from when to when it was there, from when it was ready, and whether it failed."""

    name: str
    bucket: str
    began: float
    last: float
    ready: float | None = None
    failed: bool = False
    gone: bool = False


@dataclass
class QuotaUse:
    """A limit with what is used of it, in the unit of its name."""

    name: str
    used: int
    most: int


@dataclass
class WaitingCause:
    """Why jobs wait now: the cause, the limit in it, how many jobs, and some of them by name."""

    cause: str
    jobs: int
    names: list[str]


@dataclass
class History:
    """All that is shown of a journal. Times are unix seconds, `cost` US dollars for the whole time.

    `last` is the last pass, `health` what all of them have come to.
    """

    samples: list[Sample] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    quotas: list[QuotaUse] = field(default_factory=list)
    explanations: list[WaitingCause] = field(default_factory=list)
    cluster: str = ""
    passes: int = 0
    errors: list[str] = field(default_factory=list)
    cost: float = 0.0
    unpriced: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    last: PassRecord | None = None
    health: Health = field(default_factory=Health)

    def add(self, record: PassRecord) -> None:
        """One more pass."""
        self.passes += 1
        self.health = self.health.after(record.at, record.did)
        self.cluster = str(record.config.get("cluster_name") or self.cluster)
        for error in record.did.get("errors") or ():
            self.errors = [*self.errors[-19:], str(error)]
        if record.did.get("ended_by"):
            self.errors = [*self.errors[-19:], str(record.did["ended_by"])]
        sample = self._sample(record)
        if self.samples and sample.at > self.samples[-1].at:
            before = self.samples[-1]
            self.cost += (before.per_hour or 0.0) * (sample.at - before.at) / 3600
        self.samples.append(sample)
        if len(self.samples) > 4 * SPANS:
            self.samples = _fewer(self.samples, 2 * SPANS)
        self.last = record

    def conclude(self) -> History:
        """The same, with what is said of the last pass alone."""
        if self.last is not None:
            self.quotas = list(_quotas(self.last.status))
            self.explanations = _explanations(self.last.did.get("unsatisfied") or ())
        return self

    def _sample(self, record: PassRecord) -> Sample:
        nodes: Counter[str] = Counter()
        per_hour = 0.0
        seen = set()
        for node in record.nodes:
            key = str(node.get("NodeId") or node.get("Name"))
            if node.get("TargetState") not in (None, "Started"):
                continue
            bucket = _bucket(node)
            nodes[bucket] += 1
            seen.add(key)
            self._note(key, bucket, node, record.at)
            price = _price(node)
            if price is None:
                self.unpriced.add(str(node.get("MachineType")))
            else:
                per_hour += price
        self._note_gone(seen, record.at)
        wanted: Counter[str] = Counter()
        for row in record.decided:
            if row.get("action") in ("create", "start"):
                wanted[str(row.get("bucket"))] += int(row.get("count") or 0)
        waiting = Counter(_cause(job) for job in record.did.get("unsatisfied") or ())
        jobs = int(record.did.get("jobs") or len(record.jobs))
        return Sample(record.at, nodes, wanted, waiting, per_hour, jobs)

    def _note(self, key: str, bucket: str, node: Mapping[str, Any], at: float) -> None:
        life = self.lives.get(key)
        if life is None:
            life = self.lives[key] = Life(str(node.get("Name")), bucket, at, at)
        life.last = at
        if node.get("Status") == "Ready" and life.ready is None:
            life.ready = at
        life.failed = life.failed or node.get("State") == "Error"

    def _note_gone(self, seen: set[str], at: float) -> None:
        for key in self._there - seen:
            life = self.lives[key]
            life.last, life.gone = at, True
        self._there = seen

    _there: set[str] = field(default_factory=set)

    # -- what is shown

    @property
    def began(self) -> float:
        """The time of the first pass."""
        return self.samples[0].at if self.samples else 0.0

    @property
    def ended(self) -> float:
        """The time of the last pass."""
        return self.samples[-1].at if self.samples else 0.0

    def spans(self) -> list[Sample]:
        """The samples, at most `SPANS`; in each the most that there was at a time."""
        return _fewer(self.samples, SPANS)

    def foremost(self, what: str) -> list[str]:
        """The buckets, or causes, of which there was most over time. `what` is the name of a field
        of samples."""
        total: Counter[str] = Counter()
        for sample in self.samples:
            total.update(getattr(sample, what))
        return [name for name, _ in total.most_common(FOREMOST)]

    def longest_lives(self) -> list[Life]:
        """The nodes that were there longest, in the order in which they came."""
        by_time = sorted(self.lives.values(), key=lambda life: life.began - life.last)
        return sorted(by_time[:LIVES], key=lambda life: (life.began, life.name))


def of_records(records: Iterable[PassRecord]) -> History:
    """The history of these passes."""
    history = History()
    for record in records:
        history.add(record)
    return history.conclude()


def together(counted: Mapping[str, int], foremost: Sequence[str]) -> dict[str, int]:
    """The figures of those that have one of their own, and of all others together."""
    rest = sum(counted.values()) - sum(counted.get(name, 0) for name in foremost)
    found = {name: counted[name] for name in foremost if counted.get(name)}
    return found | ({OTHERS: rest} if rest else {})


def _fewer(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most so many samples over the same time, each with the most of what it stands for."""
    if len(samples) <= most:
        return list(samples)
    began = samples[0].at
    width = (samples[-1].at - began) / most or 1.0
    spans: dict[int, list[Sample]] = {}
    for sample in samples:
        spans.setdefault(min(most - 1, int((sample.at - began) / width)), []).append(sample)
    return [_joined(some) for some in spans.values()]


def _joined(some: Sequence[Sample]) -> Sample:
    first = some[0]
    if len(some) == 1:
        return first
    nodes, waiting = Counter(first.nodes), Counter(first.waiting)
    wanted: Counter[str] = Counter()
    for sample in some:
        nodes |= sample.nodes
        waiting |= sample.waiting
        wanted += sample.wanted
    known = [sample.per_hour for sample in some if sample.per_hour is not None]
    mean = sum(known) / len(known) if known else None
    return Sample(first.at, nodes, wanted, waiting, mean, max(sample.jobs for sample in some))


def _bucket(node: Mapping[str, Any]) -> str:
    group = node.get("PlacementGroupId")
    return "/".join(str(p) for p in (node.get("Template"), node.get("MachineType"), group) if p)


def _price(node: Mapping[str, Any]) -> float | None:
    place, size = ht.Location(str(node.get("Region"))), ht.VMSize(str(node.get("MachineType")))
    return price_per_hour(place, size, bool(node.get("Interruptible")))


def _cause(job: Mapping[str, Any]) -> str:
    """The cause of a job that waits, in a form in which equal causes are equal."""
    said = job.get("limit") or job.get("reason")
    if not said:
        return "not worked out"
    text = " ".join(str(said).split()).partition(";")[0]
    text = _NUMBERS.sub("…", text)
    return text if len(text) <= _CAUSE_LENGTH else text[: _CAUSE_LENGTH - 1] + "…"


def _explanations(jobs: Sequence[Mapping[str, Any]]) -> list[WaitingCause]:
    found: dict[str, WaitingCause] = {}
    for job in jobs:
        said = " ".join(str(job.get("reason") or job.get("limit") or "not worked out").split())
        known = found.setdefault(said, WaitingCause(said, 0, []))
        known.jobs += 1
        if len(known.names) < 5:
            known.names.append(str(job.get("job")))
    return sorted(found.values(), key=lambda each: -each.jobs)[:50]


def _quotas(status: Mapping[str, Any]) -> Iterable[QuotaUse]:
    """The limits of a status, each once, those that are fullest first."""
    found: dict[str, QuotaUse] = {}
    parts = status.get("parts")
    for part in parts.values() if isinstance(parts, Mapping) else [status]:
        for array in part.get("nodearrays") or ():
            for bucket in array.get("buckets") or ():
                for quota in _quotas_of(array, bucket):
                    found.setdefault(quota.name, quota)
    return sorted(found.values(), key=lambda each: -each.used / max(each.most, 1))[:50]


def _quotas_of(array: Mapping[str, Any], bucket: Mapping[str, Any]) -> Iterable[QuotaUse]:
    size = (bucket.get("definition") or {}).get("machineType")
    record = array.get("nodearray") or {}
    kind = "spot" if record.get("Interruptible") else "regional"
    place = record.get("Region")
    name = array.get("name")
    rows = (
        (f"{name}/{size}: nodes", bucket.get("activeCount"), bucket.get("maxCount")),
        (
            f"{kind} quota of {place}: cores",
            bucket.get("regionalConsumedCoreCount"),
            bucket.get("regionalQuotaCoreCount"),
        ),
        (
            f"family quota of {size} in {place}: cores",
            bucket.get("familyConsumedCoreCount"),
            bucket.get("familyQuotaCoreCount"),
        ),
    )
    for text, used, most in rows:
        # a quota of millions is none, and 0 stands for one that does not apply
        if isinstance(used, int) and isinstance(most, int) and 0 < most < 1_000_000:
            yield QuotaUse(text, used, most)
