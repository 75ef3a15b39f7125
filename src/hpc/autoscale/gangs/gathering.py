"""What a pass makes of gangs of which only a part of the nodes has come.

A gang is a job whose nodes are all in one place, or it gets none. When its nodes are asked for,
that is remembered, with a deadline. `Gangs.kept_from` is asked before jobs are placed: which gangs
get no new nodes where they came short, until one may try again, or lack some at their deadline.
`Gangs.settle` is called after that. A gang that could not be placed keeps what it has, and is
given as many of the nodes that it lacks as the limits allow, those of the back-off among them; at
its deadline it is given up there, and its nodes are to be released. Of a gang that has nodes in two
places the fuller one stays.

Nothing is commanded here: `releasing` has the nodes that are to go, and the gate is asked about
them. Called by the loop, and by commands that say what the loop would do, which write nothing.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.backoff.held import ShutOff
from hpc.autoscale.backoff.listed import WITHOUT_A_VM
from hpc.autoscale.backoff.settings import LEARNS
from hpc.autoscale.backoff.subjects import Reach, Subject, facts_of, subject
from hpc.autoscale.ccbindings.pacing import doubled
from hpc.autoscale.config.clusters import cluster_of_bucket
from hpc.autoscale.config.timeouts import as_seconds
from hpc.autoscale.errors import ConfigurationException, counted
from hpc.autoscale.gangs.file import (
    GangFile,
    GangFileError,
    Gathering,
    KnownGangs,
    Place,
    Shortfall,
)
from hpc.autoscale.gangs.members import Members, id_of
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeView, assigned_to
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.shares import NodeShare
from hpc.autoscale.plaintext import NAMED_AT_MOST, shorten
from hpc.autoscale.regions import shares_by_region
from hpc.autoscale.util import parse_boot_timeout, partition

REST_IN_DEADLINES = 4.0
"""Where a gang came short it is not asked for again for so many times as long as its deadline; each
time in a row doubles that, up to `MOST_IN_DEADLINES`."""

MOST_IN_DEADLINES = 8.0

UNWATCHED = 1200.0
"""Time between two passes that is longer than this, in seconds, or than twice the interval, does
not count towards a deadline."""

FORGOTTEN_AFTER = 86400.0
"""Where a gang came short is forgotten so many seconds after it may be tried again."""


class GangNews(NamedTuple):
    """What is known of a gang that waits, in words. `until`: the unix time at which that ends; None
    where it is not known."""

    text: str
    until: float | None = None


class Gangs:
    """The gangs of one cluster, for one pass. `path`: the file (None: nothing outlives this
    object), which is written only with `may_write`. `deadline`: seconds for all nodes of a gang to
    come into being. `interval`: seconds from pass to pass, where that is known.

    A file that cannot be used costs a warning, which is in `problems`: then gangs are as all jobs.
    `notes` says what became of gangs, `releasing` has the nodes that gangs were given up on, and
    `reasons` what is known of jobs that wait, by name.
    """

    def __init__(
        self,
        path: str | None,
        deadline: float,
        may_write: bool = False,
        interval: float | None = None,
    ) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.releasing: list[Node] = []
        self.reasons: dict[str, GangNews] = {}
        self._deadline = deadline
        self._may_write = may_write
        self._longest = max(UNWATCHED, 2.0 * (interval or 0.0))
        self._file = GangFile(path) if path else None
        self._given_up: list[_GivenUp] = []
        self._gatherings: dict[tuple[str, Place], Gathering] = {}
        self._shortfalls: list[Shortfall] = []
        self._numbers: Mapping[str, int] = {}
        self._number = 1
        self._leaving: list[str] = []
        self._before = KnownGangs()
        self._measures: dict[int, tuple[str, int]] = {}
        self._serving: dict[object, bool] = {}
        self._taking: dict[object, tuple[int, int]] = {}
        self._now = clock.time()
        self._members = Members((), {})
        self._read()

    # -- before jobs are placed

    def kept_from(
        self, jobs: Iterable[Job], node_mgr: NodeManager
    ) -> dict[tuple[ShutOff, ...], list[Job]]:
        """The gangs that get no new nodes of some offers, by the limits that are to be shut while
        they are placed.

        A gang is kept from an offer of which it, or a smaller gang, came short, and from one of
        which nodes are missing at the deadline. Where one of them may try, the others wait until it
        has all of its nodes.
        """
        found: dict[tuple[ShutOff, ...], list[Job]] = defaultdict(list)
        limits = node_mgr.holds.shut_offs if node_mgr.holds is not None else {}
        if not limits:
            return found
        late = self._late(node_mgr)
        tries = {(g.job, g.place.offer) for g in self._gatherings.values() if g.goal == g.size}
        for job in filter(is_gang, jobs):
            short_of = [
                s
                for s in self._shortfalls
                if self._concerns(s, job)
                and (job.name, s.place.offer) not in tries
                and self._serves(s.place, job, node_mgr)
            ]
            offers = [*(s.place.offer for s in short_of), *late.get(job.name, ())]
            shut = dict.fromkeys(limits[offer] for offer in offers if offer in limits)
            if shut and short_of:
                self.reasons[job.name] = self._came_short(short_of[-1])
            if shut:
                found[tuple(shut)].append(job)
        return found

    def at_home(self, jobs: Iterable[Job], node_mgr: NodeManager) -> dict[int, NodeShare]:
        """Where regions have weights, the region that is to be asked for the rest of a gang before
        others, as it has nodes of it there; by the `id` of the job."""
        under_way = [g for g in self._gatherings.values() if not g.is_due(self._now)]
        shares = shares_by_region(node_mgr.get_buckets()) if under_way else {}
        if not shares:
            return {}
        self._members = Members(node_mgr.get_nodes(), self._numbers)
        found: dict[str, NodeShare] = {}
        for name, mine in partition(under_way, lambda gathering: gathering.job).items():
            fullest = self._fullest(mine)
            share = shares.get(fullest.place.location)
            if share is not None and self._members.has_some(fullest):
                found[name] = share
        return {id(job): found[job.name] for job in jobs if is_gang(job) and job.name in found}

    def _late(self, node_mgr: NodeManager) -> dict[str, list[Subject]]:
        """The offers of which nodes are missing at the deadline, by gang."""
        found: dict[str, list[Subject]] = defaultdict(list)
        late = [g for g in self._gatherings.values() if g.is_due(self._now)]
        if late:
            self._members = Members(node_mgr.get_nodes(), self._numbers)
        for gathering in late:
            if len(self._members.of(gathering)) < gathering.size:
                found[gathering.job].append(gathering.place.offer)
        return found

    # -- after jobs were placed

    def settle(self, outcomes: Sequence[Outcome], node_mgr: NodeManager) -> None:
        """Decide about every gang that waits."""
        waiting = [o for o in outcomes if is_gang(o.job) and o.error is None]
        if not waiting and not self._gatherings and not self._leaving:
            return
        counts = Counter(o.job.name for o in waiting)
        parts = Counter(o.job.name for o in outcomes)
        # of two jobs of one name nobody could tell whose nodes they are
        gangs = {o.job.name: o for o in waiting if counts[o.job.name] == 1}
        placed: dict[str, list[Node]] = defaultdict(list)
        for node in node_mgr.get_nodes() if gangs else ():
            for name in assigned_to(node):
                if name in gangs:
                    placed[str(name)].append(node)
        self._members = Members(node_mgr.get_nodes(), self._numbers)
        self._forget(counts.keys())
        under_way: dict[str, list[Gathering]] = defaultdict(list)
        for gathering in self._gatherings.values():  # what becomes of a gang changes no other
            under_way[gathering.job].append(gathering)
        for name, outcome in gangs.items():
            mine, nodes = under_way[str(name)], placed[name]
            if parts[name] > 1 and not outcome.missing:
                # others of its name, the other parts of a job, have nodes elsewhere
                nodes = _of_one_place(nodes, outcome.job.node_count)
            if not outcome.missing and nodes:
                self._is_placed(outcome.job, nodes, mine, node_mgr)
            else:
                self._is_not_placed(outcome.job, mine, node_mgr)
        self._tell_who_was_given_up()
        self._release()
        self._numbers = self._members.numbers if self._gatherings else {}
        self._number += 1

    def _is_placed(
        self, job: Job, nodes: Sequence[Node], mine: list[Gathering], node_mgr: NodeManager
    ) -> None:
        """A gang has all of its nodes, those that are planned included."""
        self.reasons.pop(job.name, None)
        place, size = _place_of(nodes[0]), len(nodes)
        here = next((g for g in mine if g.place == place), None)
        is_complete = all(node.exists and node.state in ht.READY_STATES for node in nodes)
        if is_complete and here is not None:
            self._shortfalls = [
                s for s in self._shortfalls if s.place.offer != place.offer or s.size > size
            ]
        elsewhere = [g for g in mine if g.place != place]
        come = sum(node.exists and node.state not in WITHOUT_A_VM for node in nodes)
        for gathering in elsewhere:
            members = self._members.of(gathering)
            if is_complete or come >= len(members) or gathering.is_due(self._now):
                self._give_up(job, gathering, f"planned in {place} instead", node_mgr)
        if here is not None and (is_complete or not self._members.has_some(here)):
            del self._gatherings[here.job, here.place]
            here = None
        elif here is not None and here.goal < size:
            self._put(here._replace(goal=size))
        if here is None and not is_complete and not all(node.exists for node in nodes):
            self._members.number(place, self._number)
            own = filter(None, map(id_of, nodes))
            self._begin(job, place, size, size, self._number, tuple(own))

    def _is_not_placed(self, job: Job, mine: list[Gathering], node_mgr: NodeManager) -> None:
        """A gang lacks nodes: those that it has stay until the deadline, in one place."""
        fullest = self._fullest(mine) if mine else None
        for gathering in mine:
            if gathering is not fullest:
                more = f"more of them in {fullest.place}" if fullest else ""
                self._give_up(job, gathering, more, node_mgr)
        if fullest is None:
            self._try_again(job, node_mgr)
            return
        if fullest.goal < fullest.size:
            fullest = self._judge_trial(job, fullest, node_mgr)
        if fullest is None:
            return
        if fullest.is_due(self._now):
            self._give_up(job, fullest, "to be planned elsewhere", node_mgr)
            return
        self._ask_for_the_rest(job, fullest, node_mgr)

    def _ask_for_the_rest(self, job: Job, gathering: Gathering, node_mgr: NodeManager) -> None:
        """Keep what there is of a gang for it, and plan as much of the rest as limits allow."""
        members = self._members.of(gathering)
        wanted = max(len(members), gathering.goal)
        self.reasons[job.name] = GangNews(
            f"the gang has {len(members)} of {gathering.size} nodes in {gathering.place},"
            f" and {gathering.deadline - self._now:.0f} s left for the rest",
            gathering.deadline,
        )
        place = gathering.place
        where: list[Any] = [
            {"node.nodearray": place.nodearray},
            {"node.vm_size": place.vm_size},
            {"node.placement_group": place.group or None},
        ]
        job.part(wanted, where).do_allocate(node_mgr)

    def _try_again(self, job: Job, node_mgr: NodeManager) -> None:
        """Where a gang came short, try one node more than it had then."""
        for short in self._shortfalls:
            offer = short.place.offer
            is_tried = any(g.place.offer == offer for g in self._gatherings.values())
            if is_tried or self._now < short.until or not self._concerns(short, job):
                continue
            takes = self._size_in(short.place, job, node_mgr)
            if not takes:
                continue
            size = max(short.size, takes)
            goal = min(short.had + 1, size)
            # all nodes that are there may be of it
            self._ask_for_the_rest(job, self._begin(job, short.place, size, goal), node_mgr)
            return

    def _judge_trial(self, job: Job, trial: Gathering, node_mgr: NodeManager) -> Gathering | None:
        """What becomes of a gang of which a part was tried: all of it when that is there."""
        members = self._members.of(trial)
        come = sum(node.state not in WITHOUT_A_VM for node in members)
        if come >= trial.goal:
            return self._put(trial._replace(goal=trial.size, deadline=self._now + self._deadline))
        if come == len(members) and self._is_closed(trial.place, node_mgr):
            self._give_up(job, trial, f"tried with {trial.goal}, and not enough", node_mgr)
            return None
        return trial

    @staticmethod
    def _is_closed(place: Place, node_mgr: NodeManager) -> bool:
        """Whether the back-off leaves no room for a new node in a place now."""
        holds = node_mgr.holds
        family = vm_sizes.quota_family(ht.Location(place.location), ht.VMSize(place.vm_size))
        return holds is not None and holds.room_for(place.facts(family)) == 0

    # -- gatherings

    def _begin(
        self,
        job: Job,
        place: Place,
        size: int,
        goal: int,
        number: int = 0,
        own: tuple[str, ...] = (),
    ) -> Gathering:
        asked, until = self._now, self._now + self._deadline
        gathering = Gathering(job.name, place, size, goal, asked, until, asked, number, own)
        return self._put(gathering)

    def _put(self, gathering: Gathering) -> Gathering:
        """Remember a gathering, in the place of what it was before."""
        self._gatherings[gathering.job, gathering.place] = gathering
        return gathering

    def _fullest(self, mine: Sequence[Gathering]) -> Gathering:
        """Which of the gatherings of a gang has most nodes."""
        if len(mine) == 1:
            return mine[0]
        return max(mine, key=lambda g: (len(self._members.of(g)), -g.asked))

    def _give_up(self, job: Job, gathering: Gathering, outcome: str, node_mgr: NodeManager) -> None:
        """A gang did not come together in a place: its nodes go, unless others work there."""
        members = self._members.of(gathering)
        del self._gatherings[gathering.job, gathering.place]
        self._leaving += map(id_of, members)
        had = sum(node.state not in WITHOUT_A_VM for node in members)
        self._given_up.append(_GivenUp(gathering, outcome, members))
        is_late = gathering.is_due(self._now)
        if had < gathering.size and (is_late or self._is_closed(gathering.place, node_mgr)):
            self._note_shortfall(job, gathering, had)

    def _tell_who_was_given_up(self) -> None:
        """Note of each gang that was given up what it had, or of all, where they are many."""
        given_up, self._given_up = self._given_up, []
        if len(given_up) > NAMED_AT_MOST:
            for each in given_up:
                logging.debug("%s", _in_words([each], self._now))
            said = [_in_words(given_up, self._now)]
        else:
            said = [_in_words([each], self._now) for each in given_up]
        for text in said:
            logging.warning("%s", text)
        self.notes += said

    def _note_shortfall(self, job: Job, gathering: Gathering, had: int) -> None:
        offer = gathering.place.offer
        known = [s for s in self._shortfalls if s.place.offer == offer and self._concerns(s, job)]
        # several that came short at one time, maybe of each other's nodes, did so once
        is_new = not any(s.until > self._now for s in known)
        times = max((s.times for s in known), default=0) + is_new
        had = max([had, *(s.had for s in known if not is_new)])
        rest = doubled(REST_IN_DEADLINES, times - 1, MOST_IN_DEADLINES) * self._deadline
        # where nothing came at all, the back-off alone says when to try
        until = self._now + (rest if had else 0.0)
        kind, units = self._measure(job)
        self._shortfalls = [s for s in self._shortfalls if s not in known]
        short = Shortfall(job.name, gathering.place, kind, units, gathering.size, had, times, until)
        self._shortfalls.append(short)
        self.reasons[job.name] = self._came_short(short)

    def _release(self) -> None:
        """Gather the nodes of gangs that were given up, until none is left without work: what has
        work by now is a node like others from now on."""
        free = self._members.without_work(dict.fromkeys(self._leaving))
        self._leaving = list(free)
        self.releasing += free.values()

    def _came_short(self, short: Shortfall) -> GangNews:
        left = short.until - self._now
        when = f"in {left:.0f} s" if left > 0 else "as soon as the back-off allows"
        return GangNews(
            f"gang {short.job} came short in {short.place} ({short.had} of {short.size} nodes, "
            f"{counted(short.times, 'time')}), tried again {when} with"
            f" {counted(short.had + 1, 'node')}",
            short.until if left > 0 else None,
        )

    def _forget(self, waiting: Iterable[str]) -> None:
        """Forget what was asked for for gangs that do not wait any more, and old shortfalls."""
        names, now = set(waiting), self._now
        self._gatherings = {
            key: g._replace(seen=now) for key, g in self._gatherings.items() if g.job in names
        }
        self._shortfalls = [s for s in self._shortfalls if now < s.until + FORGOTTEN_AFTER]

    def _measure(self, job: Job) -> tuple[str, int]:
        """By what the size of a gang is compared with that of others, and how much it is; of a job
        as it came."""
        found = self._measures.get(id(job))
        if found is None:
            found = ("nodes", job.node_count)
            if job.node_count <= 0:
                text = json.dumps(job.to_dict()["constraints"], sort_keys=True, default=str)
                found = (f"slots {zlib.crc32(text.encode()):08x}", job.iterations)
            self._measures[id(job)] = found
        return found

    def _concerns(self, short: Shortfall, job: Job) -> bool:
        """Whether a job asks for as much as what came short."""
        kind, units = self._measure(job)
        return short.job == job.name or (short.kind == kind and units >= short.units)

    def _serves(self, place: Place, job: Job, node_mgr: NodeManager) -> bool:
        """Whether a job may be on new nodes of the offer of a place. One that may not has nothing
        to do with what came short there."""
        key = (job.compiled_constraints(), place.offer)
        if key not in self._serving:
            self._serving[key] = any(map(job.is_served_by, _buckets_of(place, node_mgr)))
        return self._serving[key]

    def _size_in(self, place: Place, job: Job, node_mgr: NodeManager) -> int:
        """How many nodes a gang takes at least in just that place; 0 where it may not be there, or
        where the limits never allow so many."""
        key = (job.compiled_constraints(), place)
        if key not in self._taking:
            here = (b for b in _buckets_of(place, node_mgr) if _where_of(b) == _where(place))
            bucket = next(filter(job.is_served_by, here), None)
            self._taking[key] = (0, 0) if bucket is None else _room_in(bucket, job)
        each, most = self._taking[key]
        size = job.node_count if job.node_count > 0 else -(-job.iterations // max(1, each))
        return size if each and size <= most else 0

    # -- the file

    def _read(self) -> None:
        if self._file is None:
            return
        try:
            known = self._file.read()
        except GangFileError as error:
            self._complain(error)
            self._file = None  # what it has may still be read by the next pass
            return
        self._before = known
        for gathering in known.gatherings:
            self._put(self._watched(gathering))
        most = self._now + MOST_IN_DEADLINES * self._deadline
        self._shortfalls = [s._replace(until=min(s.until, most)) for s in known.shortfalls]
        self._numbers, self._leaving = known.numbers, [*known.leaving]
        numbers = (*known.numbers.values(), *(g.number for g in known.gatherings))
        self._number = max(numbers, default=0) + 1

    def _watched(self, gathering: Gathering) -> Gathering:
        """A gathering whose deadline is moved on by time that nobody watched. One that was put off
        has as long as others from now on."""
        gap = self._now - gathering.seen
        if not 0 <= gap <= self._longest:
            asked, deadline = gathering.asked + gap, gathering.deadline + gap
            gathering = gathering._replace(asked=asked, deadline=deadline, seen=self._now)
        return gathering._replace(deadline=min(gathering.deadline, self._now + self._deadline))

    def save(self) -> None:
        """Write what has changed; called before anything is asked for."""
        gatherings = [*self._gatherings.values()]
        now = KnownGangs(gatherings, self._shortfalls, self._numbers, self._leaving)
        if self._file is None or not self._may_write or now == self._before:
            return
        try:
            self._file.write(now)
        except GangFileError as error:
            self._complain(error)

    def put_off(self, left: Iterable[Node]) -> None:
        """Planned nodes are left for the next pass, though the cloud might have them: the gangs
        that they are for have as long again from then on until all have to be there."""
        names = {str(name) for node in left for name in assigned_to(node)}
        late = self._now + self._longest + self._deadline  # the next pass knows when it is
        waiting = [g for g in self._gatherings.values() if g.job in names and g.deadline < late]
        for gathering in waiting:
            self._put(gathering._replace(deadline=late))
        if waiting:
            self.save()

    def _complain(self, error: GangFileError) -> None:
        text = f"{error}; for which gangs nodes are asked for is not remembered"
        if self._may_write:
            self.problems.append(text)
        logging.warning("%s", text)


class _GivenUp(NamedTuple):
    """A gang that was given up in a place, what becomes of it, and the nodes that it had there."""

    gathering: Gathering
    outcome: str
    members: Sequence[Node]


def _in_words(given_up: Sequence[_GivenUp], now: float) -> str:
    """What gangs had where they were given up, and what becomes of them."""
    places = dict.fromkeys(each.gathering.place for each in given_up)
    jobs = dict.fromkeys(str(each.gathering.job) for each in given_up)
    nodes = {id(node): node for each in given_up for node in each.members}.values()
    had = sum(node.state not in WITHOUT_A_VM for node in nodes)
    seconds = now - min(each.gathering.asked for each in given_up)
    outcomes = dict.fromkeys(each.outcome for each in given_up)
    who = f"gang {next(iter(jobs))}" if len(jobs) == 1 else f"{len(jobs)} gangs ({shorten(jobs)})"
    where = str(next(iter(places))) if len(places) == 1 else f"{len(places)} places"
    return (
        f"{who}: {had} of {sum(each.gathering.size for each in given_up)} nodes in {where},"
        f" {'up to ' if len(given_up) > 1 else ''}{seconds:.0f} s after they were asked for:"
        f" {next(iter(outcomes)) if len(outcomes) == 1 else 'given up there'};"
        f" {counted(len(nodes), 'node')} to be released"
    )


def new_gangs(config: Mapping[str, Any], interval: float | None = None) -> Gangs:
    """The gangs of a configuration. `interval`: seconds from pass to pass, where that is known.
    ConfigurationException for a deadline that is none."""
    section = config.get("autoscale") or {}
    deadline = section.get("gang_deadline")
    if deadline is None:
        deadline = parse_boot_timeout(dict(config))
    seconds = as_seconds(deadline)
    if seconds is None or not seconds > 0:
        raise ConfigurationException(
            f"autoscale.gang_deadline: expected a number of seconds above 0, found {deadline!r}"
        )
    path = config.get("gangsdb")
    may_write = bool(config.get(LEARNS)) and not config.get("read_only")
    return Gangs(str(path) if path else None, seconds, may_write, interval)


def is_gang(job: object) -> bool:
    """Whether a job gets nodes in one place or none, and may need several."""
    return isinstance(job, Job) and job.colocated and max(job.node_count, job.iterations) > 1


def _place_of(node: Node) -> Place:
    return Place(
        str(node.nodearray),
        str(node.vm_size),
        str(node.location),
        bool(node.spot),
        str(node.placement_group or ""),
        cluster_of_bucket(str(node.bucket_id), str(node.nodearray)),
    )


def _of_one_place(nodes: Iterable[Node], count: int) -> list[Node]:
    """The nodes in the one place where there are so many; none where that is not one place."""
    found = [each for each in partition(nodes, _place_of).values() if len(each) == count]
    return found[0] if len(found) == 1 else []


def _where_of(node: Node | NodeBucket) -> tuple[str, str, str]:
    return str(node.nodearray), str(node.vm_size), str(node.placement_group or "")


def _buckets_of(place: Place, node_mgr: NodeManager) -> Iterator[NodeBucket]:
    """The buckets of the offer of a place."""
    for bucket in node_mgr.get_buckets():
        if subject(Reach.OFFER, facts_of(bucket)) == place.offer:
            yield bucket


def _room_in(bucket: NodeBucket, job: Job) -> tuple[int, int]:
    """How many slots of a job a new node of a bucket takes, and how many nodes there may be."""
    fit = job.compiled_constraints().expr.fit(NodeView(bucket.example_node))
    return fit.count if isinstance(fit, Fit) else 0, bucket.limits.most_nodes


def _where(place: Place) -> tuple[str, str, str]:
    return place.nodearray, place.vm_size, place.group
