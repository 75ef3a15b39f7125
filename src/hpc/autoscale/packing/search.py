"""Where one request finds room: on nodes that are there, and on new ones.

`Search` fills nodes and opens new ones, candidate by candidate. Each turn of every loop either
places at least one unit or is done with some nodes or a candidate, so all of them end.

A gang is all or nothing: `plan_whole` puts all of it in one candidate. Nodes that are there come
first: the first candidate that takes everything on them gets it. Otherwise families are asked in
order. A *family* is the placement groups of one nodearray and VM size: a node in one group of it is
as good as in another. Of its groups in use, the one that needs the fewest new nodes gets the gang,
before one that would have to be opened. Any other candidate is a family of its own. Where
candidates are filled bucket by bucket, the first that takes everything gets it. `Groups` keeps an
index of the room that groups have for new nodes: with hundreds of them, to try each for every gang
takes longer than all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hpc.autoscale.packing.candidate import Candidate, ChangeLog
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.limits import NO_LIMIT, Limit, Reservation, room_under
from hpc.autoscale.packing.plan import NOTHING, Plan, Probe, Refusals, Request, Step
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.segment_tree import SegmentTree
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.packing.shares import NodeShare, new_nodes

_GROUP = "placement_group"


class Search:
    """The steps found so far for one request. Candidates go by their numbers in the cursor.

    `explain`: what keeps units out is noted, for `rejects`.
    """

    def __init__(
        self, request: Request, cursor: Cursor, probe: Probe | None = None, explain: bool = True
    ) -> None:
        self.request = request
        self.cursor = cursor
        self.probe = probe
        self.explain = explain
        self.left = request.units
        self.reservation = Reservation()
        self.steps: list[Step] = []
        # by number of the candidate, and whether it was to make new nodes
        self._said: dict[tuple[int, bool], list[Reject]] = {}

    @property
    def units(self) -> int:
        """Units placed so far."""
        return self.request.units - self.left

    @property
    def opened(self) -> int:
        """New nodes so far."""
        return sum(step.hi - step.lo for step in self.steps if step.opened)

    def plan(self, rejects: Refusals = ()) -> Plan:
        """The finished plan."""
        effects = self.probe.settle(keep=self.units > 0) if self.probe else ()
        return Plan(self.steps, self.units, rejects, effects)

    def abandon(self) -> None:
        """Give the search up: what custom constraints were tried with is undone."""
        if self.probe:
            self.probe.settle(keep=False)

    def rejects(self, existing_first: bool, indices: Sequence[int] | None = None) -> Refusals:
        """What keeps the rest out, in the order in which it was asked; nothing where there is no
        rest, or nobody asked. `indices`: of these candidates only."""
        if not self.left or not self.explain:
            return []
        asked = range(len(self.cursor.candidates)) if indices is None else indices
        parts = [(index, opened) for index in asked for opened in (False, True)]
        if existing_first:
            parts.sort(key=lambda part: part[1])
        found: list[tuple[Candidate, Reject]] = []
        for index, opened in parts:
            candidate = self.cursor.candidates[index]
            said = self._said.get((index, opened), [])
            if not said and opened:
                fit = self.cursor.opening(index)
                said = [fit] if isinstance(fit, Reject) else []
            elif not said and candidate.shapes:
                said = [Reject("NodesFull", len(candidate.shapes))]
            found.extend((candidate, reject) for reject in said)
        return found

    def use(self, index: int, cursor: Cursor | None = None) -> None:
        """Place units on nodes of a candidate that are there; without a `cursor` of its own not on
        unclaimed ones."""
        cursor = cursor or self.cursor
        candidate = cursor.candidates[index]
        if not self.left or not candidate.shapes:
            return
        only = None if self.probe is None else self.probe.positions(candidate)
        if only is not None:
            self._use_only(index, only, cursor)
            return
        start, found = cursor.first[index], cursor.find(index)
        while found is not None:
            position, shape, fit = found
            end = position + 1
            is_lone = end == len(candidate.shapes) or candidate.shapes[end] is not shape
            if is_lone and self.probe is None and not shape.dormant:
                # most are, and `_fill` takes longer
                times = min(fit.count, self.request.per_node, self.left)
                after = cursor.after(shape, fit, times)
                self.steps.append(Step(candidate, position, end, times, shape, after, False))
                self.left -= times
            else:
                end = candidate.alike(position, self._most_nodes(fit))
                self._fill(index, position, end, shape, fit, cursor)
            if not self.left:
                return
            found = cursor.find(index, end)
        if self.explain:
            self._say(index, False, self.cursor.why_none(index, start))

    def claim(self, index: int) -> None:
        """Place units on unclaimed nodes of a candidate, in order."""
        if self.cursor.unclaimed is not None:
            self.use(index, self.cursor.unclaimed)

    def use_existing(self) -> None:
        """Place units on nodes of all candidates that are there, the unclaimed ones last."""
        for index in self.cursor.in_use():
            self.use(index)
            if not self.left:
                return
        for index in self.cursor.unclaimed_of(self.left, self.request.per_node):
            self.claim(index)

    def _use_only(self, index: int, positions: Sequence[int] | Reject, cursor: Cursor) -> None:
        """Place units on nodes at some positions, the only ones that may take any."""
        refusals = [positions] if isinstance(positions, Reject) else []
        for position in () if isinstance(positions, Reject) else positions:
            shape = self.cursor.candidates[index].shapes[position]
            if shape is None or shape.unclaimed is not (cursor is self.cursor.unclaimed):
                continue
            fit = cursor.fit(shape)
            if isinstance(fit, Fit):
                self._fill(index, position, position + 1, shape, fit, cursor)
                if not self.left:
                    return
            else:
                refusals.append(fit)
        if refusals:
            self._say(index, False, refusals[0])

    def _most_nodes(self, fit: Fit) -> int:
        """On how many nodes what is left may come to lie; custom constraints may take as little as
        one unit of each."""
        if self.probe is not None:
            return self.left
        return -(-self.left // min(fit.count, self.request.per_node))

    def open_by_share(self) -> None:
        """Add new nodes where candidates have shares: so many at a time that whichever takes the
        most of them is not asked for too many, and in each part as many as it falls short of."""
        closed: set[NodeShare] = set()
        while self.left:
            every = self.cursor.parts(self.left, self.request.per_node)
            open_to = (each for each in every if each is not None and each not in closed)
            parts = {share: every[share] for share in open_to}
            nodes = min(filter(None, map(self._needed, parts.values())), default=0)
            if nodes > 1:  # one goes to whose turn it is, in whichever order they stand
                turns = self.cursor.shares_in_turn()
                parts = {share: parts[share] for share in turns if share in parts}
            there = [share.used_nodes + self.reservation.owed_to(share) for share in parts]
            found = new_nodes([share.weight for share in parts], there, nodes)
            for (share, indices), most in zip(parts.items(), found, strict=True):
                for index in indices:
                    if most > 0:
                        before = self.reservation.owed_to(share)
                        self.open(index, most)
                        most -= self.reservation.owed_to(share) - before
                if most > 0 or not share.weight:
                    closed.add(share)
                for index in () if share.weight else indices:
                    self.open(index)  # it cannot be, and says why
            if not nodes or closed.issuperset(parts):
                return

    def _needed(self, indices: Sequence[int]) -> int:
        """How many new nodes of the first of some candidates that can have any take all."""
        units, per_node = self.left, self.request.per_node
        needs = (self.cursor.needed(index, units, per_node) for index in indices)
        return next((need.nodes for need in needs if need is not None), 0)

    def open(self, index: int, most: int = NO_LIMIT) -> None:
        """Add new nodes, as many as are needed and the limits allow, and no more than `most`."""
        candidate = self.cursor.candidates[index]
        if not self.left or candidate.artificial:
            return
        fit = self.cursor.opening(index)
        if not isinstance(fit, Fit):
            return
        if self.probe and (refusal := self.probe.refuses_new(candidate)) is not None:
            self._say(index, True, refusal)
            return
        room = candidate.room(self.reservation) if candidate.has_room_for(1) else 0
        needed = self._most_nodes(fit)
        if room > 0 and most > 0:
            self.open_so_many(index, min(room, needed, most))
        if self.left and room < min(needed, most) and self.explain:
            short = self.reservation.tightest(candidate.limits, candidate.cores)
            self._say(index, True, Reject("NoCapacity", short))

    def open_so_many(self, index: int, nodes: int) -> None:
        """Add new nodes, as many as the caller knows the limits to allow."""
        candidate, fit = self.cursor.candidates[index], self.cursor.opening(index)
        if isinstance(fit, Fit):
            start = len(candidate.shapes)
            start += sum(s.hi - s.lo for s in self.steps if s.opened and s.candidate is candidate)
            self._fill(index, start, start + nodes, candidate.new_shape, fit)

    def _say(self, index: int, opened: bool, reject: Reject) -> None:
        said = self._said.setdefault((index, opened), [])
        if reject not in said:
            said.append(reject)

    def _fill(
        self, index: int, lo: int, hi: int, shape: NodeShape, fit: Fit, found: Cursor | None = None
    ) -> None:
        """Place units on nodes in a row that are alike, which a cursor `found` or are new."""
        candidate, each = self.cursor.candidates[index], min(fit.count, self.request.per_node)
        opened, cursor = found is None, found or self.cursor
        if self.probe is not None:
            self._try(index, lo, hi, shape, each, opened)
            return
        if shape.dormant:
            hi = min(hi, lo + candidate.room(self.reservation))
        full = min(hi - lo, self.left // each)
        rest = min(each, self.left - full * each) if lo + full < hi else 0
        for start, nodes, times in ((lo, full, each), (lo + full, 1, rest)):
            if nodes > 0 and times > 0:
                after = cursor.after(shape, fit, times)
                units = nodes * times
                self._place(Step(candidate, start, start + nodes, units, shape, after, opened))

    def _try(self, index: int, lo: int, hi: int, shape: NodeShape, each: int, opened: bool) -> None:
        """Place units on nodes in a row that look alike, and ask custom constraints about each."""
        candidate, probe = self.cursor.candidates[index], self.probe
        why: Reject | None = None
        position = lo
        for _ in range(lo, hi):
            if not self.left or probe is None:
                break
            if (opened or shape.dormant) and candidate.room(self.reservation) <= 0:
                break
            trial = probe(candidate, position, min(each, self.left))
            if isinstance(trial, Reject):
                why = why or trial
                if opened:
                    break  # another new node would be refused the same
            else:
                end = position + 1
                self._place(Step(candidate, position, end, trial.units, shape, trial.after, opened))
            position += 1
        if why is not None and self.left:
            self._say(index, opened, why)

    def _place(self, step: Step) -> None:
        if step.opened or step.before.dormant:
            nodes = step.hi - step.lo
            self.reservation.add(step.candidate.limits, nodes, step.candidate.cores)
        self.steps.append(step)
        self.left -= step.units


def plan_whole(
    request: Request,
    cursor: Cursor,
    existing_first: bool,
    probe: Probe | None,
    groups: Groups | None = None,
    explain: bool = True,
) -> Plan:
    """Place all that is wanted in one candidate, or nothing and (`explain`) say of each how much of
    it fits.

    `groups`: an index of the cursor's candidates, where the expression asks the same of nodes in
    any group; without it, that is found out by trying.
    """
    gang = _Gang(request, cursor, probe, groups if probe is None else None, explain)
    if existing_first:
        found = gang.fewest_opened()
    else:
        found = gang.first(cursor.openings(request.units, request.per_node))
    if found is not None:
        return found.plan()
    return Plan((), 0, gang.misses(existing_first)) if explain else NOTHING


class _Gang:
    """A request that is all or nothing, while its candidate is looked for.

    `tried`: by number of the candidate, searches that took as much as they could. `partly`: by
    number of the family and of the candidate, those that placed a part on nodes that are there.
    """

    def __init__(
        self,
        request: Request,
        cursor: Cursor,
        probe: Probe | None,
        groups: Groups | None,
        explain: bool,
    ) -> None:
        self.request = request
        self.cursor = cursor
        self.is_probed = probe is not None
        self.groups = groups
        self.search = partial(Search, request, cursor, probe, explain)
        self.tried: dict[int, Search] = {}
        self.partly: dict[int, dict[int, Search]] = {}

    def fewest_opened(self) -> Search | None:
        """On nodes that are there; else in a group in use; else in the first group."""
        found = self._on_existing()
        if found is not None:
            return found
        if self.groups is not None:
            alike = [family.members for family in self.groups.families]
        else:
            alike = families(self.cursor.candidates)
        for number in self._in_order(alike):
            members = alike[number]
            if len(members) == 1:
                found = self.first(members)
            elif self.groups is not None and self.groups.families[number].even:
                found = self._by_room(self.groups.families[number], self.partly.get(number, {}))
            else:
                found = self._by_trying(members)
            if found is not None:
                return found
        return None

    def _on_existing(self) -> Search | None:
        """The first candidate whose existing nodes take all; notes what those of groups take."""
        units, per_node, groups = self.request.units, self.request.per_node, self.groups
        ways = [(index, False) for index in self.cursor.in_use()]
        ways += [(index, True) for index in self.cursor.unclaimed_of(units, per_node)]
        for index, claims in ways:
            candidate = self.cursor.candidates[index]
            is_grouped = groups is not None and candidate in groups.places
            if not is_grouped and len(candidate.shapes) * per_node < units:
                continue
            search = self.search()
            search.use(index)
            if claims:
                search.claim(index)
            if not search.left:
                return search
            search.abandon()
            if groups is not None and is_grouped and search.units:
                self.partly.setdefault(groups.number[index], {})[index] = search
        return None

    def _in_order(self, members: Sequence[Sequence[int]]) -> Sequence[int]:
        """The numbers of families in the order in which they are asked for new nodes."""
        if not self.cursor.orders_by_need:
            return range(len(members))
        order = self.cursor.openings(self.request.units, self.request.per_node)
        place = {index: i for i, index in enumerate(order)}
        return sorted(range(len(members)), key=lambda number: place[members[number][0]])

    def _each(self, index: int) -> int:
        """How many units a new node of a candidate takes."""
        fit = self.cursor.opening(index)
        return min(fit.count, self.request.per_node) if isinstance(fit, Fit) else 0

    def first(self, indices: Sequence[int]) -> Search | None:
        """The first of some candidates that takes all."""
        for index in indices:
            if not (self.is_probed or self._may_hold(index)):
                continue
            search = self._try(index)
            if not search.left:
                return search
            search.abandon()
        return None

    def _may_hold(self, index: int) -> bool:
        """Whether a candidate may hold all that is wanted, as far as numbers of nodes tell."""
        candidate, each = self.cursor.candidates[index], self._each(index)
        if each and candidate.has_room_for(-(-self.request.units // each)):
            return True
        if not self.cursor.may_use(index):
            return False
        room = max(0, room_under(candidate.limits, candidate.cores)) if each else 0
        return self.request.units <= len(candidate.shapes) * self.request.per_node + room * each

    def _try(self, index: int) -> Search:
        """A search that placed as much as one candidate takes, on existing and new nodes."""
        search = self.tried[index] = self.search()
        search.use(index)
        search.claim(index)
        search.open(index)
        return search

    def _by_trying(self, members: Sequence[int]) -> Search | None:
        """The group of a family to take, each of them tried."""
        candidates = self.cursor.candidates
        best: tuple[int, int] | None = None
        for index in members:
            if candidates[index].is_in_use:
                search = self._try(index)
                search.abandon()
                if not search.left and (best is None or search.opened < best[0]):
                    best = (search.opened, index)
        if best is not None:
            search = self._try(best[1])
            if not search.left:
                return search
            search.abandon()  # a custom constraint changed its mind
        return self.first([index for index in members if not candidates[index].is_in_use])

    def _by_room(self, family: Family, partly: dict[int, Search]) -> Search | None:
        """The group of a family to take, found in the index, of those without room on nodes."""
        each = self._each(family.members[0])
        nodes = -(-self.request.units // each) if each else NO_LIMIT
        best: tuple[int, int] | None = None
        for index, search in partly.items():
            search.open(index)
            self.tried[index] = search
            if not search.left and (best is None or (search.opened, index) < best):
                best = (search.opened, index)
        vacant = family.first_with_room(nodes, in_use=True)
        if best is not None and (vacant is None or best <= (nodes, vacant)):
            return partly[best[1]]
        if vacant is None:
            vacant = family.first_with_room(nodes, in_use=False)
        if vacant is None:
            return None
        # nodes with room were looked for before, and the limits allow this
        search = self.search()
        search.open_so_many(vacant, nodes)
        return search

    # -- how close it came

    def misses(self, existing_first: bool) -> Refusals:
        """Every candidate with how much of the request fits, those that take most first, or (bucket
        by bucket) in their order. The closest of each family says what kept the rest out."""
        units: dict[int, int] = {}
        why: dict[int, str] = {}
        for members in families(self.cursor.candidates):
            for index in members:
                # what needed no trying to find a place is tried to say how close it came
                if index not in self.tried:
                    self._try(index).abandon()
                units[index] = self.tried[index].units
            closest = max(members, key=lambda index: (units[index], -index))
            said = self.tried[closest].rejects(existing_first, (closest,))
            why[closest] = f": {said[-1][1].explain()}" if said else ""
        order = sorted(units, key=lambda index: (-units[index] if existing_first else 0, index))
        most, unit = self.request.units, "nodes" if self.request.per_node == 1 else "slots"
        return [
            (
                self.cursor.candidates[index],
                Reject("GangTooLarge", most, units[index], unit, why.get(index, "")),
            )
            for index in order
        ]


def families(candidates: Sequence[Candidate]) -> list[tuple[int, ...]]:
    """The numbers of candidates by family, families in the order of their first members. A
    candidate that is in no placement group, or stands for machines that cannot be ordered, is
    alone."""
    found: dict[object, list[int]] = {}
    for index, candidate in enumerate(candidates):
        found.setdefault(_family_of(candidate), []).append(index)
    return [tuple(members) for members in found.values()]


def _family_of(candidate: Candidate) -> object:
    properties = candidate.bucket_shape.template.properties
    if candidate.artificial or not properties.get(_GROUP):
        return candidate
    return properties.get("nodearray"), properties.get("vm_size")


class Family:
    """Candidates that differ in placement group alone, with the room that each has under the limits
    that are its own.

    `members`: their numbers, in the order in which they are asked. `shared`, `own`: the limits of
    all, and those of each that are not of all. `even`: a new node of one is like a new node of any
    other, but for the group.
    """

    def __init__(self, members: tuple[int, ...], candidates: Sequence[Candidate]) -> None:
        self.members = members
        self._candidates = [candidates[index] for index in members]
        common = set(self._candidates[0].limits).intersection(*(s.limits for s in self._candidates))
        self.shared = tuple(a for a in self._candidates[0].limits if a in common)
        self.own = [tuple(a for a in s.limits if a not in common) for s in self._candidates]
        self.even = _are_alike(self._candidates)
        self._used, self._unused = SegmentTree(len(members)), SegmentTree(len(members))
        for place in range(len(members)):
            self.look(place)

    def look(self, place: int) -> None:
        """A member, or one of its limits, has changed. Cost: its limits, and log of the members."""
        candidate = self._candidates[place]
        room = room_under(self.own[place], candidate.cores)
        in_use = candidate.is_in_use
        self._used.set(place, room if in_use else -1)
        self._unused.set(place, -1 if in_use else room)

    def first_with_room(self, nodes: int, in_use: bool) -> int | None:
        """The number of the first member, in use or not, whose limits allow so many more nodes."""
        cores = self._candidates[0].cores
        if room_under(self.shared, cores) < nodes:
            return None
        rooms = self._used if in_use else self._unused
        place = rooms.first(nodes, 0)
        # nodes promised elsewhere are not in the index
        all_of = self._candidates
        while place >= 0 and all_of[place].reserved and not all_of[place].has_room_for(nodes):
            place = rooms.first(nodes, place + 1)
        return self.members[place] if place >= 0 else None


def _are_alike(candidates: Sequence[Candidate]) -> bool:
    first = candidates[0].new_shape
    expected = {**first.template.properties, _GROUP: None}
    return all(
        (candidate.cores, candidate.since_failure)
        == (candidates[0].cores, candidates[0].since_failure)
        and candidate.new_shape.free == first.free
        and candidate.new_shape.units == first.units
        and (candidate.new_shape.vacant, candidate.new_shape.closed) == (first.vacant, first.closed)
        and {**candidate.new_shape.template.properties, _GROUP: None} == expected
        for candidate in candidates
    )


class Groups:
    """The families of some candidates, kept up with what happens to them. Cost of `catch_up`: what
    is new in the changes."""

    def __init__(self, candidates: Sequence[Candidate], changes: ChangeLog) -> None:
        self.candidates = candidates
        self.families: list[Family] = []
        # by number of a candidate: that of its family
        self.number = [0] * len(candidates)
        self._changes = changes
        self.places: dict[Candidate, tuple[Family, int]] = {}
        self._holders: dict[Limit, list[tuple[Family, int]]] = {}
        self._even: dict[Expr, bool] = {}
        for members in families(candidates):
            family = Family(members, candidates)
            for index in members:
                self.number[index] = len(self.families)
            # who is alone is tried, and needs no index
            for place, index in enumerate(members if len(members) > 1 else ()):
                self.places[candidates[index]] = (family, place)
                for limit in family.own[place]:
                    self._holders.setdefault(limit, []).append((family, place))
                    limit.told = changes.charged
            self.families.append(family)
        self._read = (len(changes.added), len(changes.reshaped), len(changes.charged))

    def catch_up(self) -> None:
        """Take into account what has happened to the candidates since the last time."""
        changes, (added, reshaped, charged) = self._changes, self._read
        now = (len(changes.added), len(changes.reshaped), len(changes.charged))
        if now == self._read:
            return
        self._read = now
        changed: set[tuple[Family, int]] = set()
        for limit in changes.charged[charged:]:
            changed.update(self._holders.get(limit, ()))
        for candidate in (*changes.added[added:], *changes.reshaped[reshaped:]):
            found = self.places.get(candidate)
            if found is not None:
                changed.add(found)
        for family, place in changed:
            family.look(place)

    def treats_alike(self, expr: Expr) -> bool:
        """Whether an expression asks the same of nodes in any placement group."""
        found = self._even.get(expr)
        if found is None:
            found = self._even[expr] = all(
                part.settled or not part.reads_any((f"node.{_GROUP}",))
                for part in expr.conditions()
            )
        return found
