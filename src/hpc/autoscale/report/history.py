"""A journal added up: how many nodes of each bucket there were when, what waited, what it cost.

Passes go into a fixed number of spans of time, and of nodes, buckets and causes the foremost are
kept by themselves and the rest together: so what is drawn, and what is remembered while a journal
is read, is small, whatever the journal has. A pass that could not look says nothing of nodes, jobs
and cost: what was known before it stands.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.modelbase import is_disabled
from hpc.autoscale.config.clusters import names_of
from hpc.autoscale.errors import AutoscaleError, one_line
from hpc.autoscale.explaining.noted import aside_noted, causes_noted, nearest_noted
from hpc.autoscale.journal import PassRecord
from hpc.autoscale.metrics import Health
from hpc.autoscale.node.vm_sizes.info import configure, quota_family
from hpc.autoscale.node.vm_sizes.prices import price_per_hour
from hpc.autoscale.requestsets.dynamic import array_in

SPANS = 200
"""Into how many spans the time of a journal is divided at most."""

FOREMOST = 7
"""So many buckets and causes have a figure of their own."""

LIVES = 60
"""So many nodes have a line of their own."""

ERRORS = 20
"""So many of the last errors are kept."""

OTHERS = "others"
_CAUSE_LENGTH = 140
_GONE = 10 * LIVES
_CAUSES = 10_000
# a figure by itself, as in "40 of 64 cores"; not one in a name, as in westus2 and Standard_F4s_v2
_PLANNED = re.compile(r" or planned( \([^)]*\))?")  # in the next pass it is in use
_NUMBERS = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")


@dataclass
class Sample:
    """What was there at one pass: nodes and new nodes by bucket, waiting jobs by cause, US dollars
    per hour, and jobs in the queue. `unpriced`: nodes whose price is not known; they are not in
    the cost. Joined with later ones it stands for all of them: `passes` in number, of which
    `failed` could not look, and in `bad` something went wrong. `cost`: US dollars from this one to
    the next. `took`: seconds of the longest pass; None where unknown."""

    at: float
    nodes: Counter[str]
    wanted: Counter[str]
    waiting: Counter[str]
    per_hour: float
    jobs: int
    unpriced: int = 0
    cost: float = 0.0
    passes: int = 1
    failed: int = 0
    bad: int = 0
    took: float | None = None


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


class NotedError(NamedTuple):
    """What went wrong in a pass, which began at `at`."""

    at: float
    text: str


class _Priced(NamedTuple):
    """What a node record comes to."""

    record: Mapping[str, Any]
    bucket: str
    per_hour: float | None


@dataclass
class History:
    """All that is shown of a journal. Times are unix seconds, money is in US dollars.

    `samples` are the passes in order, older ones joined, from the first that could look. `last` is
    the last that could, `health` what all passes have come to, `lives` what is known of nodes:
    those that are there, and of those that are gone the ones that were there longest. `nodes_seen`
    is how many there were in all, `clusters` what the clusters are called, as a heading has it.
    """

    samples: list[Sample] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    nodes_seen: int = 0
    quotas: list[QuotaUse] = field(default_factory=list)
    explanations: list[WaitingCause] = field(default_factory=list)
    clusters: str = ""
    errors: deque[NotedError] = field(default_factory=lambda: deque(maxlen=ERRORS))
    unpriced: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    last: PassRecord | None = None
    health: Health = field(default_factory=Health)
    _began: float | None = None
    _ended: float = 0.0
    _failed: int = 0
    _there: dict[str, _Priced] = field(default_factory=dict)
    _listed: Sequence[Mapping[str, Any]] = ()
    _unsatisfied: Sequence[Mapping[str, Any]] = ()
    _aside: Sequence[Mapping[str, Any]] = ()
    _causes: dict[str, str] = field(default_factory=dict)
    _sizes: Mapping[str, Any] = field(default_factory=dict)

    def add(self, record: PassRecord) -> None:
        """One more pass."""
        self.health = self.health.after(record.at, record.did)
        self.clusters = _clusters(record.config) or self.clusters
        self._use_prices(record.config.get("vm_sizes") or {})
        self._began = record.at if self._began is None else min(self._began, record.at)
        self._ended = max(self._ended, record.at)
        ended_by = record.did.get("ended_by")
        for error in [*(record.did.get("errors") or ()), *([ended_by] if ended_by else ())]:
            self.errors.append(NotedError(record.at, str(error)))
        before = self.samples[-1] if self.samples else None
        if ended_by and before is None:
            self._failed += 1
            return
        if ended_by and before is not None:
            sample = _that_failed(record, before)
        else:
            sample = self._sample(record, before)
            self.last = record
        if before is not None:
            before.cost += before.per_hour * max(0.0, sample.at - before.at) / 3600
        # the last one always stands for itself
        if len(self.samples) >= 4 * SPANS:
            self.samples = _fewer(self.samples, 2 * SPANS)
        self.samples.append(sample)

    def conclude(self) -> History:
        """This history, with what is said of the last pass alone."""
        if self.last is not None:
            self.quotas = list(_quotas(self.last.status))
            self.explanations = _explanations(self.last)
        return self

    def forget_before(self, at: float) -> None:
        """Leave out what was before a time. The last pass is kept whenever it was."""
        if self._began is None or self._began >= at:
            return
        self.samples = [each for each in self.samples[:-1] if each.at >= at] + self.samples[-1:]
        self.errors = deque((e for e in self.errors if e.at >= at), maxlen=ERRORS)
        old = [key for key, life in self.lives.items() if life.gone and life.last <= at]
        for key in old:
            del self.lives[key]
        self.nodes_seen -= len(old)
        self._began = min(at, self._ended)

    def _use_prices(self, sizes: Mapping[str, Any]) -> None:
        """Go by the sizes and prices that a pass went by."""
        if sizes == self._sizes:
            return
        self._sizes, self._listed = sizes, ()
        try:
            configure({"vm_sizes": sizes})
        except AutoscaleError as error:
            logging.warning("prices are not those of the passes: %s", one_line(error))
        self._there = {
            key: each._replace(per_hour=_price(each.record)) for key, each in self._there.items()
        }

    def _sample(self, record: PassRecord, before: Sample | None) -> Sample:
        wanted: Counter[str] = Counter()
        for row in record.decided:
            if row.get("action") in ("create", "start"):
                wanted[str(row.get("bucket"))] += int(row.get("count") or 0)
        jobs = int(record.did.get("jobs") or len(record.jobs))
        failed, self._failed = self._failed, 0
        unsatisfied, aside = record.did.get("unsatisfied") or (), record.set_aside
        # most passes find what the one before has found, often the very same objects
        if before is not None and (unsatisfied, aside) == (self._unsatisfied, self._aside):
            waiting = before.waiting
        else:
            waiting = Counter(map(self._cause, unsatisfied))
            waiting.update(_cause_of(aside_noted(job).text) for job in aside)
        self._unsatisfied, self._aside = unsatisfied, aside
        if before is not None and record.nodes == self._listed:
            nodes, per_hour, unpriced = before.nodes, before.per_hour, before.unpriced
        else:
            self._listed = record.nodes
            self._note_nodes(record)
            nodes = Counter(each.bucket for each in self._there.values())
            prices = [each.per_hour for each in self._there.values()]
            unpriced, per_hour = prices.count(None), sum(filter(None, prices))
        return Sample(
            record.at,
            nodes,
            wanted,
            waiting,
            per_hour,
            jobs,
            unpriced,
            passes=1 + failed,
            failed=failed,
            bad=failed + bool(record.did.get("errors")),
            took=record.did.get("duration"),
        )

    def _note_nodes(self, record: PassRecord) -> None:
        """Learn which nodes are there now, and which are no more."""
        there: dict[str, _Priced] = {}
        for node in record.nodes:
            if node.get("TargetState") not in (None, "Started"):
                continue
            key = str(node.get("NodeId") or node.get("Name"))
            known = self._there.get(key)
            if known is None or known.record is not node:
                known = _Priced(node, _bucket(node), _price(node))
                self._note(key, known, record.at)
                if known.per_hour is None:
                    self.unpriced.add(str(node.get("MachineType")))
            there[key] = known
        for key in self._there.keys() - there.keys():
            self.lives[key].last, self.lives[key].gone = record.at, True
        self._there = there
        gone = [key for key, life in self.lives.items() if life.gone]
        if len(gone) > 2 * _GONE:
            gone.sort(key=lambda key: self.lives[key].began - self.lives[key].last)
            for key in gone[_GONE:]:
                del self.lives[key]

    def _note(self, key: str, priced: _Priced, at: float) -> None:
        node, life = priced.record, self.lives.get(key)
        if life is None:
            life = self.lives[key] = Life(str(node.get("Name")), priced.bucket, at, at)
            self.nodes_seen += 1
        life.gone = False
        if node.get("Status") == "Ready" and life.ready is None:
            life.ready = at
        life.failed = life.failed or node.get("State") == "Error"

    def _cause(self, job: Mapping[str, Any]) -> str:
        """The cause of a job that waits, in a form in which equal causes are equal."""
        reason, limit = job.get("reason"), job.get("limit")
        said = str(limit or reason or "")
        known = self._causes.get(said)
        if known is None:
            if len(self._causes) >= _CAUSES:
                self._causes.clear()
            cause = nearest_noted(reason, limit)
            known = self._causes[said] = _cause_of(cause.tried or cause.text)
        return known

    # -- what is shown

    @property
    def passes(self) -> int:
        """How many passes there were."""
        return sum(sample.passes for sample in self.samples) + self._failed

    @property
    def failed(self) -> int:
        """How many passes could not look."""
        return sum(sample.failed for sample in self.samples) + self._failed

    @property
    def cost(self) -> float:
        """What the nodes cost from the first pass to the last, as far as prices are known."""
        return sum(sample.cost for sample in self.samples)

    @property
    def began(self) -> float:
        """The time of the first pass."""
        return self._began or 0.0

    @property
    def ended(self) -> float:
        """The time of the last pass."""
        return self._ended

    @property
    def until(self) -> float:
        """Up to when the last pass is taken to hold: for as long as passes were apart on average,
        a minute where that is not known."""
        apart = (self.ended - self.began) / max(1, self.passes - 1)
        return self.ended + (apart or 60.0)

    def spans(self) -> list[Sample]:
        """The samples, at most `SPANS`; in each the most that there was at a time. The last one is
        the last pass alone."""
        return [*_fewer(self.samples[:-1], SPANS - 1), *self.samples[-1:]]

    def foremost(self, what: str) -> list[str]:
        """The buckets, or causes, of which there was most over time. `what` is the name of a field
        of samples."""
        total: Counter[str] = Counter()
        for sample in self.spans():
            total.update(getattr(sample, what))
        return [name for name, _ in total.most_common(FOREMOST)]

    def longest_lives(self) -> list[Life]:
        """The nodes that were there longest, in the order in which they came."""
        for key in self._there:
            self.lives[key].last = self.ended
        by_time = sorted(self.lives.values(), key=lambda life: life.began - life.last)
        return sorted(by_time[:LIVES], key=lambda life: (life.began, ht.name_order(life.name)))


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


def _clusters(config: Mapping[str, Any]) -> str:
    names = names_of(config)
    return f"Cluster{'s' if config.get('clusters') else ''} {names}" if names else ""


def _that_failed(record: PassRecord, before: Sample) -> Sample:
    """A pass that could not look: what was known before it stands."""
    took = record.did.get("duration")
    own: dict[str, Any] = {"wanted": Counter(), "cost": 0.0, "passes": 1, "failed": 1, "bad": 1}
    return replace(before, at=record.at, took=took, **own)


def _fewer(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most so many samples over the same time, each with the most of what it stands for."""
    if len(samples) <= most:
        return list(samples)
    times = [sample.at for sample in samples]
    began = min(times)
    width = (max(times) - began) / most or 1.0
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
    passes = sum(sample.passes for sample in some)
    took = [sample.took for sample in some if sample.took is not None]
    return Sample(
        first.at,
        nodes,
        wanted,
        waiting,
        per_hour=sum(sample.per_hour * sample.passes for sample in some) / passes,
        jobs=max(sample.jobs for sample in some),
        unpriced=max(sample.unpriced for sample in some),
        cost=sum(sample.cost for sample in some),
        passes=passes,
        failed=sum(sample.failed for sample in some),
        bad=sum(sample.bad for sample in some),
        took=max(took, default=None),
    )


def _bucket(node: Mapping[str, Any]) -> str:
    group = node.get("PlacementGroupId")
    return "/".join(str(p) for p in (array_in(node), node.get("MachineType"), group) if p)


def _price(node: Mapping[str, Any]) -> float | None:
    place, size = ht.Location(str(node.get("Region"))), ht.VMSize(str(node.get("MachineType")))
    return price_per_hour(place, size, bool(node.get("Interruptible")))


def _cause_of(said: str) -> str:
    text = _NUMBERS.sub("…", _PLANNED.sub("", said))
    return text if len(text) <= _CAUSE_LENGTH else text[: _CAUSE_LENGTH - 1] + "…"


def _explanations(record: PassRecord) -> list[WaitingCause]:
    found = causes_noted(record.did.get("unsatisfied") or (), record.set_aside)[:50]
    return [WaitingCause(each.cause.text, each.jobs, each.names) for each in found]


def _quotas(status: Mapping[str, Any]) -> Iterable[QuotaUse]:
    """The limits of a status, each once, those that are fullest first."""
    found: dict[str, QuotaUse] = {}
    parts = status.get("parts")
    # each cluster may have a subscription of its own
    several = parts.items() if isinstance(parts, Mapping) else [("", status)]
    for cluster, part in several:
        for quota in _quotas_of_cluster(part):
            name = f"{cluster}: {quota.name}" if cluster else quota.name
            found.setdefault(name, replace(quota, name=name))
    return sorted(found.values(), key=lambda each: -each.used / max(each.most, 1))[:50]


def _quotas_of_cluster(status: Mapping[str, Any]) -> Iterable[QuotaUse]:
    arrays = status.get("nodearrays") or ()
    yield from _maxima("the cluster", status, [b for a in arrays for b in a.get("buckets") or ()])
    for array in arrays:
        buckets = array.get("buckets") or ()
        # what one bucket may have is no more than its nodearray
        if len(buckets) > 1:
            shared = array.get("maxCoreCount") == status.get("maxCoreCount")
            own = {**array, "maxCoreCount": None} if shared else array
            yield from _maxima(f"nodearray {array.get('name')}", own, buckets)
        for bucket in buckets:
            yield from _quotas_of_bucket(array, bucket)


def _maxima(
    name: str, part: Mapping[str, Any], buckets: Iterable[Mapping[str, Any]]
) -> Iterable[QuotaUse]:
    """MaxCoreCount and MaxCount of a cluster or a nodearray, which all its buckets share."""
    cores, nodes = 0, 0
    for bucket in buckets:
        cores += int(bucket.get("activeCoreCount") or 0)
        nodes += int(bucket.get("activeCount") or 0)
    yield from _that_apply(
        (f"limit of {name}: cores", cores, part.get("maxCoreCount")),
        (f"limit of {name}: nodes", nodes, part.get("maxCount")),
    )


def _quotas_of_bucket(array: Mapping[str, Any], bucket: Mapping[str, Any]) -> Iterable[QuotaUse]:
    size = (bucket.get("definition") or {}).get("machineType")
    record = array.get("nodearray") or {}
    kind = "spot" if record.get("Interruptible") else "core"
    place = record.get("Region")
    name = f"{array.get('name')}/{size}: nodes"
    if is_disabled(record):
        name += " (the nodearray has autoscale.enabled=false)"
    yield from _that_apply(
        (name, bucket.get("activeCount"), bucket.get("maxCount")),
        (
            f"{kind} quota of {place}: cores",
            bucket.get("regionalConsumedCoreCount"),
            bucket.get("regionalQuotaCoreCount"),
        ),
        (
            f"quota of {quota_family(ht.Location(str(place)), ht.VMSize(str(size)))} in {place}:"
            " cores",
            bucket.get("familyConsumedCoreCount"),
            bucket.get("familyQuotaCoreCount"),
        ),
    )


def _that_apply(*rows: tuple[str, Any, Any]) -> Iterable[QuotaUse]:
    for text, used, most in rows:
        # a quota of millions is none, and 0 stands for one that does not apply
        if isinstance(used, int) and isinstance(most, int) and 0 < most < 1_000_000:
            yield QuotaUse(text, used, most)
