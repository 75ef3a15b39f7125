"""What a pass learns about what has failed, and what it holds its plan back from.

`Holds.look` reads the newest listing: which nodes have failed and why, which are well, which are
on their way. Then each bucket that something is in back-off for is given one more limit
(`HeldBack`), which leaves room for no new node, or for those that are to be tried. Nodes that exist
stay as they are. `Holds.refused` is told what the server did not do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.backoff import law
from hpc.autoscale.backoff.causes import Diagnosis, FailureKind, of_a_node, of_a_refusal, plain
from hpc.autoscale.backoff.file import Boot
from hpc.autoscale.backoff.held import HeldBack, ShutOff
from hpc.autoscale.backoff.hosts import takes_no_work
from hpc.autoscale.backoff.law import Backoff, Draw, Policy, seeded
from hpc.autoscale.backoff.listed import (
    WITHOUT_A_VM,
    Listed,
    Place,
    Record,
    failed_lately,
    may_be_at,
    place_in,
    place_of,
)
from hpc.autoscale.backoff.memory import FailureMemory
from hpc.autoscale.backoff.subjects import (
    BucketFacts,
    Reach,
    Subject,
    facts_of,
    node,
    subject,
    subjects_of,
)
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.limits import BucketLimits
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.limits import Limit

_AT_REST = ("Deallocated", "Deallocating", "Off", "Terminated")

_ABSENT = 3600.0
"""A listing may be older than the one before: for so many seconds after it was asked for a node
that booted, and is not listed any more, may be listed again."""

_UNHEARD = 86400.0
"""For so many seconds a node is watched whose host has taken no work."""

_EMPTY = 120.0
"""For so many seconds a host that has come up may have nothing available, as one that the scheduler
has not heard yet."""

# A capacity failure that the status dates this much later than the one that is known, in seconds,
# is another one.
_ANOTHER = 5.0


class Holds:
    """What is held back in one cluster, for one pass. `path`: the file, which is never written with
    `read_only`. `draw`: how jitter is drawn. `short_of`: the offers that some jobs are to be kept
    from, by their limits in `shut_offs`. `hears_hosts`: the scheduler reports its hosts, so that
    nodes are watched until theirs takes work.

    A file that cannot be used costs a warning: then nothing is remembered, and nothing held back
    for what happened before. `problems` says so.
    """

    def __init__(
        self,
        path: str,
        policy: Policy | None = None,
        read_only: bool = False,
        draw: Draw = seeded,
        short_of: Iterable[Subject] = (),
        hears_hosts: bool = False,
    ) -> None:
        self.policy = policy or Policy()
        self.limits: dict[Subject, HeldBack] = {}
        self.shut_offs: dict[Subject, ShutOff] = {}
        # of buckets that are not in back-off, and may be before anything is planned
        self._open: dict[Subject, HeldBack] = {}
        self._short_of = frozenset(short_of)
        self._hears_hosts = hears_hosts
        self._memory = FailureMemory(path, self.policy, read_only, draw)
        self._facts: dict[Place, BucketFacts] = {}

    @property
    def problems(self) -> list[str]:
        """Why something is not remembered."""
        return self._memory.problems

    # -- at the start of a pass

    def look(self, listed: Listed, buckets: Sequence[NodeBucket]) -> None:
        """Learn from a listing, and give limits to the buckets that something is in back-off for.

        Costs next to nothing where nothing boots, has failed or is remembered.
        """
        now = clock.time()
        self._memory.read(now)
        lately = [b for b in buckets if failed_lately(b, self.policy.ceiling)]
        news = (listed.booting, listed.failed, listed.unavailable, lately)
        if self._memory.is_empty and not (any(news) or self._short_of):
            return
        by_place = {place_of(b): b for b in buckets if b.valid}
        # what came before a failure is no sign that all is well again, so failures come first
        told = {(r.get("Template"), str(r.get("MachineType")).lower()) for r in listed.failed}
        silent = [b for b in lately if (b.nodearray, b.vm_size.lower()) not in told]
        self._learn_from_buckets(silent, now)
        self._learn_from_nodes(listed, by_place, now)
        self._memory.save()
        self._hold(listed, by_place, now)

    def _learn_from_nodes(
        self, listed: Listed, by_place: Mapping[Place, NodeBucket], now: float
    ) -> None:
        bad: dict[Subject, list[tuple[FailureKind, str]]] = defaultdict(list)
        unusable = {str(record.get("NodeId")): (record, why) for record, why in listed.unusable}
        self._note_unusable(unusable, by_place, bad)
        self._note_sent(listed, now)
        boots = self._memory.boots
        booting, failed, evicted = (
            {i: each for each in records if (i := str(each.get("NodeId"))) not in unusable}
            for records in (listed.booting, listed.failed, listed.unavailable)
        )
        here = booting.keys() | failed.keys() | evicted.keys() | unusable.keys()
        gone = [each for each in boots if each not in here]
        records = listed.find(gone) if gone else {}
        good = self._note_booting(booting, by_place, now)
        for node_id, record in failed.items():
            seen = boots.get(node_id)
            facts = self._facts_of(record, by_place)
            message = plain(record.get("StatusMessage"))
            finding = of_a_node(message)
            was_up = seen is None or bool(seen.up_at)
            if facts is None or (was_up and finding.kind is FailureKind.BOOT):
                continue  # it was up, for all that is known
            if finding.kind is FailureKind.EVICTED and not facts.spot:
                continue
            seen = seen or Boot(now)
            if seen.has_failed:
                continue
            self._memory.note_boot(node_id, seen._replace(has_failed=True))
            bad[subject(finding.reach, facts)].append((finding.kind, message))
            if seen.was_started:
                bad[node(node_id)].append((FailureKind.REFUSED, message))
        for node_id, record in evicted.items():
            self._note_eviction(node_id, self._facts_of(record, by_place), now, bad)
        for node_id in gone:
            record = records.get(node_id) or {}
            if record or boots[node_id].up_at or abs(now - boots[node_id].since) > _ABSENT:
                self._end_boot(node_id, record, by_place, good, bad)
        self._judge(good, bad, now)

    def _note_unusable(
        self,
        unusable: Mapping[str, tuple[Record, str]],
        by_place: Mapping[Place, NodeBucket],
        bad: dict[Subject, list[tuple[FailureKind, str]]],
    ) -> None:
        """Nodes that were asked for, and of whose records none can be made. They take no work, so
        that others would be asked for in their place in each pass: such a node is a boot that
        failed, once, in each bucket that it may be of."""
        sent = self._memory.sent
        for node_id, (record, why) in unusable.items():
            seen = self._memory.boots.get(node_id)
            if seen is None and (request_id := str(record.get("RequestId"))) in sent:
                seen = Boot(sent[request_id])
            if seen is None or seen.up_at or seen.has_failed:
                continue
            self._memory.note_boot(node_id, seen._replace(has_failed=True))
            buckets = (b for place, b in by_place.items() if may_be_at(place, record))
            for about in {subject(Reach.BUCKET, facts_of(each)) for each in buckets}:
                bad[about].append((FailureKind.BOOT, plain(why)))

    def _note_sent(self, listed: Listed, now: float) -> None:
        """The nodes of a create boot, also where nobody was told of them, until they are listed as
        something else."""
        sent = self._memory.sent
        found = {each for each, since in sent.items() if abs(now - since) > _ABSENT}
        for record in listed.made_by(sent) if sent else ():
            node_id, request_id = str(record.get("NodeId")), str(record.get("RequestId"))
            if node_id not in self._memory.boots:
                self._memory.note_boot(node_id, Boot(sent[request_id]))
            found.add(request_id)
        self._memory.forget_sent(found)

    def _judge(
        self,
        good: Counter[Subject],
        bad: dict[Subject, list[tuple[FailureKind, str]]],
        now: float,
    ) -> None:
        """Take over successes, and failures with their messages."""
        for about, count in good.items():
            failures = bad.get(about, ())
            # of nodes that boot some may fail by themselves; capacity for some is not enough
            by_chance = all(kind is FailureKind.BOOT for kind, _ in failures)
            if not failures or (by_chance and count >= len(failures)):
                bad.pop(about, None)
                self._memory.succeed(about)
        for about, failures in bad.items():
            cause, message = failures[-1]
            self._memory.fail(
                about, Diagnosis(cause, about.reach), message, now, now, len(failures)
            )

    def _note_booting(
        self, booting: Mapping[str, Record], by_place: Mapping[Place, NodeBucket], now: float
    ) -> Counter[Subject]:
        """Remember nodes that boot; what those show to be well that have a VM now."""
        good: Counter[Subject] = Counter()
        for node_id, record in booting.items():
            boot = self._memory.boots.get(node_id) or Boot(now)
            if not boot.has_vm and record.get("Status") == "Preparing":
                boot = boot._replace(has_vm=True)
                facts = self._facts_of(record, by_place)
                good.update(self._proven(facts, boot, is_up=False))
            self._memory.note_boot(node_id, boot)
        return good

    def _end_boot(
        self,
        node_id: str,
        record: Record,
        by_place: Mapping[Place, NodeBucket],
        good: Counter[Subject],
        bad: dict[Subject, list[tuple[FailureKind, str]]],
    ) -> None:
        """What has become of a node that booted, and neither boots nor has failed."""
        boot = self._memory.boots[node_id]
        status = record.get("Status")
        if boot.up_at and (status in READY_STATES or boot.has_failed):
            facts = self._facts_of(record, by_place)
            is_watched = facts is None or facts.spot or abs(clock.time() - boot.since) < _UNHEARD
            self._memory.note_boot(node_id, boot if is_watched and status in READY_STATES else None)
            return
        if boot.up_at and not record:
            # nobody told it to go, for then it would be forgotten, or be seen to go
            facts = self._facts_of(boot.record, by_place)
            self._note_eviction(node_id, facts, boot.since, bad)
        self._memory.note_boot(node_id, None)
        if status in READY_STATES:
            facts = self._facts_of(record, by_place)
            if facts is not None and (facts.spot or self._hears_hosts):
                up_at = "\x1f".join((facts.nodearray, facts.vm_size, facts.group))
                self._memory.note_boot(node_id, boot._replace(up_at=up_at))
            good.update(self._proven(facts, boot, is_up=True))
            good.update([node(node_id)] if boot.was_started else [])
        elif status in _AT_REST and boot.was_started and not boot.has_failed:
            bad[node(node_id)].append((FailureKind.REFUSED, "it was started and is at rest again"))

    def _note_eviction(
        self,
        node_id: str,
        facts: BucketFacts | None,
        now: float,
        bad: dict[Subject, list[tuple[FailureKind, str]]],
    ) -> None:
        """A node is being evicted, or was: that is about the offer of spot nodes, once for each
        node."""
        seen = self._memory.boots.get(node_id) or Boot(now)
        if facts is None or not facts.spot or seen.has_failed:
            return
        self._memory.note_boot(node_id, seen._replace(has_failed=True))
        bad[subject(Reach.OFFER, facts)].append((FailureKind.EVICTED, "a spot node was evicted"))

    def _proven(self, facts: BucketFacts | None, boot: Boot, is_up: bool) -> list[Subject]:
        """What a node shows to be well again: one that has a VM, the capacity and quota that it
        needed; one that is up, its bucket too, but for whether its host takes work, also where
        others of it fail just now. Only what was asked for after a failure counts."""
        if facts is None:
            return []
        known, bucket = self._memory.backoffs, subject(Reach.BUCKET, facts)
        found = [about for about in subjects_of(facts) if about in known]
        proven = [
            about
            for about in found
            if (is_up or known[about].cause is not FailureKind.BOOT)
            and known[about].cause is not FailureKind.HOST
            and (known[about].cause is FailureKind.BOOT or boot.since > known[about].failed_at)
            and (not (is_up and boot.has_vm) or known[about].cause is FailureKind.BOOT)
        ]
        return [*proven, bucket] if is_up and bucket not in known else proven

    def _learn_from_buckets(self, lately: Iterable[NodeBucket], now: float) -> None:
        """Capacity failures that the status dates, and that are not known yet."""
        for bucket in lately:
            elapsed = bucket.last_capacity_failure
            if elapsed is None or bucket.placement_group or not bucket.valid:
                continue
            facts, at = facts_of(bucket), now - elapsed
            about = subject(Reach.OFFER, facts)
            inside = subject(Reach.GROUP, facts._replace(group="any"))
            dates = [
                known.failed_at
                for known in map(self._memory.backoffs.get, (about, inside))
                if known is not None
            ]
            if all(at > date + _ANOTHER for date in dates):
                message = f"CycleCloud saw a capacity failure {elapsed:.0f} s ago"
                self._memory.fail(
                    about, Diagnosis(FailureKind.CAPACITY, Reach.OFFER), message, at, now
                )

    def _hold(self, listed: Listed, by_place: Mapping[Place, NodeBucket], now: float) -> None:
        """Give limits to buckets."""
        coming = self._on_their_way(listed, by_place)
        for about, known in self._memory.backoffs.items():
            room = law.allowance(known, now, coming[about])
            if room is not None:
                self.limits[about] = HeldBack(about, known, room, now)
                logging.debug("%s", self.limits[about].describe())
        self.shut_offs = {offer: ShutOff(offer) for offer in self._short_of}
        well = Backoff(FailureKind.BOOT, "", now)
        unproven = self._unproven(listed, by_place) - self.limits.keys()
        self._open = {about: HeldBack(about, well, None, now) for about in unproven}
        of_kinds: tuple[Mapping[Subject, Limit], ...] = (self.limits, self.shut_offs, self._open)
        for bucket in by_place.values() if any(of_kinds) else ():
            subjects = subjects_of(facts_of(bucket))
            held = [limits[a] for limits in of_kinds for a in subjects if a in limits]
            if held and isinstance(bucket.limits, BucketLimits):
                bucket.limits.hold(*held)

    def _unproven(self, listed: Listed, by_place: Mapping[Place, NodeBucket]) -> set[Subject]:
        """The buckets of nodes that boot, or are watched: this pass may learn that they are not
        ready in time, or that their hosts take no work."""
        records = [*listed.booting, *(self._memory.boots[i].record for i in self.may_become_fit())]
        facts = {self._facts_of(record, by_place) for record in records}
        return {subject(Reach.BUCKET, each) for each in facts if each is not None}

    def _on_their_way(
        self, listed: Listed, by_place: Mapping[Place, NodeBucket]
    ) -> Counter[Subject]:
        """How many nodes will show, for each subject in back-off, whether it is well: those that
        have no VM yet, where it is about single nodes those that boot, and where it is about hosts
        those that are up and of whose hosts nobody knows yet whether they take work."""
        coming: Counter[Subject] = Counter()
        for record in listed.booting:
            for about, cause in self._resting(record, by_place):
                is_early = record["Status"] in WITHOUT_A_VM
                coming[about] += is_early or cause in law.OF_SINGLE_NODES
        for boot in self._memory.boots.values():
            if boot.up_at and not (boot.is_fit or boot.has_failed):
                for about, cause in self._resting(boot.record, by_place):
                    coming[about] += cause is FailureKind.HOST
        return coming

    def _resting(
        self, record: Record, by_place: Mapping[Place, NodeBucket]
    ) -> Iterator[tuple[Subject, FailureKind]]:
        """What of a node's bucket is in back-off, and why."""
        facts = self._facts_of(record, by_place)
        for about in subjects_of(facts) if facts is not None else ():
            known = self._memory.backoffs.get(about)
            if known is not None:
                yield about, known.cause

    # -- what is held back

    def of(self, bucket: NodeBucket) -> str | None:
        """Why a bucket is held back, and for how long; None where it is not."""
        if not self.limits:
            return None
        subjects = subjects_of(facts_of(bucket))
        return "; ".join(self.limits[a].describe() for a in subjects if a in self.limits) or None

    def room_for(self, facts: BucketFacts) -> int | None:
        """How many new nodes are let through where something rests, before any was planned; None
        where nothing does."""
        held = [self.limits[a].max_nodes for a in subjects_of(facts) if a in self.limits]
        return min(held, default=None)

    def is_closed(self, node_id: str) -> bool:
        """Whether a node is not to be started now."""
        held = self.limits.get(node(node_id))
        return held is not None and held.max_nodes < 1

    @property
    def closes_nodes(self) -> bool:
        """Whether any node is not to be started now."""
        return any(about.reach is Reach.NODE for about in self.limits)

    def lift(self) -> None:
        """Hold nothing back in this pass: for what a person asks for."""
        for limit in self.limits.values():
            limit.lift()

    # -- what the server answered

    def refused(self, nodes: Iterable[Node], said: str) -> None:
        """Nodes that were not made, or not started, and what the server said."""
        now = clock.time()
        found: dict[Subject, tuple[Diagnosis, str]] = {}
        message = plain(said)
        finding = of_a_refusal(message)
        for each in nodes:
            if each.delayed_node_id.node_id and finding.reach is Reach.BUCKET:
                found[node(str(each.delayed_node_id.node_id))] = finding, message
            else:
                found[subject(finding.reach, facts_of(each))] = finding, message
        for about, (finding, message) in found.items():
            self._memory.fail(about, finding, message, now, now)
        self._memory.save()

    def sending(self, request_ids: Iterable[str]) -> None:
        """Ids of creates that are about to be sent. What nodes each makes may never be said."""
        self._memory.note_sent(request_ids, clock.time())
        self._memory.save()

    def asked(
        self, made: Iterable[str], started: Iterable[str] = (), request_id: str | None = None
    ) -> None:
        """NodeIds of nodes that the server makes, and of those that it starts. `request_id`: a
        create of which these are all nodes."""
        now = clock.time()
        if request_id is not None:
            self._memory.forget_sent([request_id])
        for node_id in made:
            self._memory.note_boot(node_id, Boot(now))
        for node_id in started:
            self._memory.note_boot(node_id, Boot(now, was_started=True))
        self._memory.save()

    def watched(self) -> set[str]:
        """NodeIds of the nodes that are up and whose hosts have taken no work yet."""
        boots = self._memory.boots.items()
        return {node_id for node_id, boot in boots if boot.up_at and not boot.is_fit}

    def may_become_fit(self) -> set[str]:
        """Those of the watched nodes whose hosts are no failures yet."""
        return {node_id for node_id in self.watched() if not self._memory.boots[node_id].has_failed}

    def hosts_heard(self, hosts: Iterable[tuple[Node, Node]], named: Collection[str] = ()) -> None:
        """Watched nodes, each with its host as the scheduler reports it: one with work, or of which
        anything is available, is fit for work. One that is not for a while is a failure, once.
        `named`: short names of hosts that jobs name as where they run."""
        now = clock.time()
        fit: set[Subject] = set()
        unfit: Counter[Subject] = Counter()
        for each, host in hosts:
            node_id = str(each.delayed_node_id.node_id)
            boot, about = self._memory.boots[node_id], subject(Reach.BUCKET, facts_of(each))
            if not takes_no_work(host, named):
                fit.add(about)
                boot = boot._replace(is_fit=True)
            elif not boot.empty_since or boot.empty_since > now:
                boot = boot._replace(empty_since=now)
            elif not boot.has_failed and now - boot.empty_since >= _EMPTY:
                unfit[about] += 1
                boot = boot._replace(has_failed=True)
            self._memory.note_boot(node_id, None if boot.is_fit and not each.spot else boot)
        for about in fit:
            if (known := self._memory.backoffs.get(about)) and known.cause is FailureKind.HOST:
                self._memory.succeed(about)
        for about in unfit.keys() - fit:
            self._nodes_failed(about, FailureKind.HOST, "took no work", now, unfit[about])
        self._memory.save()

    def leaving(self, node_ids: Iterable[str]) -> None:
        """NodeIds of nodes that were told to go: that they vanish is no eviction."""
        for node_id in node_ids:
            if node_id in self._memory.boots:
                self._memory.note_boot(node_id, None)
        self._memory.save()

    def overdue(self, nodes: Iterable[Node]) -> None:
        """Nodes that have not become ready in time; each counts once."""
        self._all_failed(nodes, FailureKind.BOOT, "not ready within the boot timeout")

    def never_heard(self, nodes: Iterable[Node]) -> None:
        """Nodes that are up and whose hosts the scheduler does not report in time; each of those
        that are watched counts once."""
        watched = self.watched()
        late = [each for each in nodes if str(each.delayed_node_id.node_id) in watched]
        self._all_failed(late, FailureKind.HOST, "the scheduler has never reported them")

    def need_no_host(self, nodes: Iterable[Node]) -> None:
        """Nodes that are up and that no scheduler need know: what it says of their hosts is
        watched no longer."""
        watched = self.watched()
        for each in nodes:
            if (node_id := str(each.delayed_node_id.node_id)) in watched:
                fit = self._memory.boots[node_id]._replace(is_fit=True)
                self._memory.note_boot(node_id, fit if each.spot else None)
        self._memory.save()

    def _all_failed(self, nodes: Iterable[Node], kind: FailureKind, message: str) -> None:
        now = clock.time()
        alone = Diagnosis(FailureKind.REFUSED, Reach.NODE)
        late: Counter[Subject] = Counter()
        for each in nodes:
            node_id = str(each.delayed_node_id.node_id)
            boot = self._memory.boots.get(node_id)
            if boot is None or boot.has_failed:
                continue
            self._memory.note_boot(node_id, boot._replace(has_failed=True))
            late[subject(Reach.BUCKET, facts_of(each))] += 1
            if boot.was_started:  # it may rest again, and would be the next one to be started
                self._memory.fail(node(node_id), alone, message, now, now)
        for about, count in late.items():
            self._nodes_failed(about, kind, message, now, count)
        self._memory.save()

    def _nodes_failed(
        self, about: Subject, kind: FailureKind, message: str, now: float, count: int
    ) -> None:
        """So many nodes of a bucket have failed, and nothing is planned yet: where it begins to
        rest, it gets no new ones in this pass."""
        self._memory.fail(about, Diagnosis(kind, Reach.BUCKET), message, now, now, count)
        known, limit = self._memory.backoffs.get(about), self.limits.get(about)
        limit = limit or self._open.get(about)
        if known is not None and limit is not None and now < known.until:
            limit.close(known, 0)
            self.limits[about] = limit

    def _facts_of(self, record: Record, by_place: Mapping[Place, NodeBucket]) -> BucketFacts | None:
        place = place_in(record)
        if place not in self._facts:
            bucket = by_place.get(place) or by_place.get((*place[:2], ""))
            if bucket is None:
                return None
            self._facts[place] = facts_of(bucket)
        return self._facts[place]
