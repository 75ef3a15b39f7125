"""Where demands go that are all or nothing: all of it in one candidate (a bucket, or a placement group of one).

Nodes that are there come first: the first candidate that takes everything on them gets it. Otherwise families of placement
groups (see `groups`) are asked in order. In a family, groups in use come before those that would have to be opened, so
that as few as possible are: of groups in use, the one that needs the fewest new nodes, and of equals the first. Bucket by
bucket, it is simply the first candidate that takes everything. A demand that fits nowhere is told how close each candidate came,
the closest first, or bucket by bucket. Called by `strategy.plan` for a demand that is wanted whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.direct import Direct, Run
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.groups import Family, Groups, families, is_in_use
from hpc.autoscale.packing.limits import NO_LIMIT, Reservation
from hpc.autoscale.packing.plan import Draft, Plan, Probe, Request
from hpc.autoscale.packing.reject import Reject


def plan_whole(
    request: Request,
    cursor: Cursor,
    existing_first: bool,
    probe: Probe | None,
    groups: Groups | None = None,
) -> Plan:
    """Place all that is wanted in one candidate, or nothing and say of each candidate how much of it fits.

    `groups`: an index of the cursor's candidates, where the expression asks the same of nodes in any group; without it the
    same is found out by trying.
    """
    search = _Search(request, cursor, probe, groups if probe is None else None)
    in_order = cursor.openings(request.units, request.per_node)
    found = search.fewest_opened() if existing_first else search.first(in_order)
    if found is not None:
        return found.plan()
    return Plan((), 0, Reservation(), search.misses(existing_first))


def open_whole(request: Request, cursor: Direct, groups: Groups) -> list[Run]:
    """Place all that is wanted on new nodes of one candidate, as `plan_whole` would where no node that is there has room: where.
    Nowhere, and nothing is done, where it takes a plan to tell.
    """
    for index, _ in cursor.in_use():
        if cursor.find(index)[0] >= 0:
            return []
    for number in _in_order([family.members for family in groups.families], request, cursor):
        family = groups.families[number]
        chosen: int | None = family.members[0]
        if len(family.members) > 1:
            if not family.even:
                return []
            each = _each(request, cursor, family.members[0])
            chosen = family.vacant(-(-request.units // each)) if each else None
        runs = [] if chosen is None else cursor.open_whole(chosen, request.units, request.per_node)
        if runs:
            return runs
    return []


def _in_order(members: Sequence[Sequence[int]], request: Request, cursor: Cursor) -> Sequence[int]:
    """The numbers of families in the order in which they are asked for new nodes."""
    if not cursor.orders_by_need:
        return range(len(members))
    place = {index: i for i, index in enumerate(cursor.openings(request.units, request.per_node))}
    return sorted(range(len(members)), key=lambda number: place[members[number][0]])


def _each(request: Request, cursor: Cursor, index: int) -> int:
    """How many units a new node of a candidate takes."""
    fit = cursor.opening(index)
    return min(fit.count, request.per_node) if isinstance(fit, Fit) else 0


class _Search:
    """One demand on its way to a candidate. `tried`: complete drafts, by the number of the candidate."""

    def __init__(
        self, request: Request, cursor: Cursor, probe: Probe | None, groups: Groups | None
    ) -> None:
        self.request = request
        self.cursor = cursor
        self.probe = probe
        self.groups = groups
        self.tried: dict[int, Draft] = {}
        # by number of the family: drafts that place a part on nodes that are there, by number of the candidate
        self.partly: dict[int, dict[int, Draft]] = {}

    def fewest_opened(self) -> Draft | None:
        """Nodes that are there; else groups in use; else the first group."""
        for index, _ in self.cursor.in_use():
            if self.probe is None and self.cursor.find(index)[0] < 0:
                continue
            draft = Draft(self.request, self.cursor, self.probe)
            draft.use(index)
            if not draft.left:
                return draft
            draft.abandon()
            if draft.units and self.groups is not None:
                self.partly.setdefault(self.groups.number[index], {})[index] = draft
        if self.groups is not None:
            return self._fewest_by_room(self.groups)
        alike = families(self.cursor.candidates)
        for number in _in_order(alike, self.request, self.cursor):
            members = alike[number]
            found = self.first(members) if len(members) == 1 else self._by_trying(members)
            if found is not None:
                return found
        return None

    def first(self, indices: Sequence[int]) -> Draft | None:
        """The first of some candidates that takes all."""
        for index in indices:
            if self.probe is None and not _may_hold(self.cursor, index, self.request):
                continue
            draft = self._try(index)
            if not draft.left:
                return draft
            draft.abandon()
        return None

    def _try(self, index: int) -> Draft:
        """As much as one candidate takes."""
        draft = self.tried[index] = Draft(self.request, self.cursor, self.probe)
        draft.use(index)
        draft.open(index)
        return draft

    def _by_trying(self, members: Sequence[int]) -> Draft | None:
        """The group of a family to take, each of them tried."""
        candidates = self.cursor.candidates
        best: tuple[int, int] | None = None
        for index in members:
            if is_in_use(candidates[index]):
                draft = self._try(index)
                draft.abandon()
                if not draft.left and (best is None or _opened(draft) < best[0]):
                    best = (_opened(draft), index)
        if best is not None:
            draft = self._try(best[1])
            if not draft.left:
                return draft
            draft.abandon()  # a custom constraint changed its mind
        return self.first([index for index in members if not is_in_use(candidates[index])])

    def _fewest_by_room(self, groups: Groups) -> Draft | None:
        every = [family.members for family in groups.families]
        for number in _in_order(every, self.request, self.cursor):
            family = groups.families[number]
            if len(family.members) == 1:
                found = self.first(family.members)
            elif family.even:
                found = self._by_room(family, self.partly.get(number, {}))
            else:
                found = self._by_trying(family.members)
            if found is not None:
                return found
        return None

    def _by_room(self, family: Family, partly: dict[int, Draft]) -> Draft | None:
        """The group of a family to take, found in the index; but for those with some nodes that have room."""
        each = _each(self.request, self.cursor, family.members[0])
        nodes = -(-self.request.units // each) if each else NO_LIMIT
        best: tuple[int, int] | None = None
        for index, draft in partly.items():
            draft.open(index)
            self.tried[index] = draft
            if not draft.left and (best is None or (_opened(draft), index) < best):
                best = (_opened(draft), index)
        vacant = family.first_with_room(nodes, in_use=True)
        if best is not None and (vacant is None or best <= (nodes, vacant)):
            return partly[best[1]]
        if vacant is None:
            vacant = family.first_with_room(nodes, in_use=False)
        if vacant is None:
            return None
        # nodes with room were looked for before, and the limits allow this
        draft = Draft(self.request, self.cursor, None)
        draft.open_so_many(vacant, nodes)
        return draft

    # -- how close it came

    def misses(self, existing_first: bool) -> Sequence[tuple[Candidate, Reject]]:
        """Every candidate with how much of it fits, those that take most first, or (bucket by bucket) in their order. Of each
        family the closest says what kept the rest out; the others are worked out when somebody reads them, from what they
        were."""
        found: list[_Miss] = []
        later: list[Callable[[], list[_Miss]]] = []
        groups = self.groups
        if groups is None:
            found = [
                self._miss(index, existing_first) for index in range(len(self.cursor.candidates))
            ]
        else:
            for number, family in enumerate(groups.families):
                if len(family.members) == 1 or not family.even:
                    found.extend(self._miss(index, existing_first) for index in family.members)
                    continue
                tried = {i: d.units for i, d in self.tried.items() if groups.number[i] == number}
                closest, others = self._closest_by_room(family, tried)
                found.append(self._miss(closest, existing_first))
                later.append(others)
        candidates, request = self.cursor.candidates, self.request
        unit = "nodes" if request.per_node == 1 else "slots"

        def said() -> list[tuple[Candidate, Reject]]:
            misses = [*found, *(miss for others in later for miss in others())]
            misses.sort(key=lambda miss: (-miss.units if existing_first else 0, miss.number))
            return [
                (
                    candidates[miss.number],
                    Reject("GangTooLarge", request.units, miss.units, unit, miss.why),
                )
                for miss in misses
            ]

        return _Later(said)

    def _miss(self, index: int, existing_first: bool) -> _Miss:
        # what needed no trying to find a place is tried to say how close it came
        draft = self.tried.get(index)
        if draft is None:
            draft = self._try(index)
            draft.abandon()
        said = draft.rejects(existing_first, (index,))
        return _Miss(draft.units, index, f": {said[-1][1].explain()}" if said else "")

    def _closest_by_room(
        self, family: Family, tried: dict[int, int]
    ) -> tuple[int, Callable[[], list[_Miss]]]:
        """The member of a family that takes most, and the others. `tried`: what those take that were tried."""
        members, wanted, rooms = family.members, self.request.units, family.rooms()
        each = _each(self.request, self.cursor, members[0])
        # candidates that were not tried have no node with room
        roomiest = members[rooms.index(max(rooms))]
        possible = {roomiest: min(wanted, max(rooms) * each), **tried}
        closest = max(possible, key=lambda index: (possible[index], -index))

        def others() -> list[_Miss]:
            units = {
                index: min(wanted, room * each) for index, room in zip(members, rooms, strict=True)
            }
            units.update(tried)
            return [_Miss(units[index], index, "") for index in members if index != closest]

        return closest, others


class _Miss(NamedTuple):
    """How many units a candidate takes, its number, and what keeps the rest out."""

    units: int
    number: int
    why: str


class _Later(Sequence[tuple[Candidate, Reject]]):
    """Refusals that are made when they are first read."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], list[tuple[Candidate, Reject]]]) -> None:
        self._make = make
        self._made: list[tuple[Candidate, Reject]] | None = None

    def _all(self) -> list[tuple[Candidate, Reject]]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> tuple[Candidate, Reject]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[Candidate, Reject]]: ...

    def __getitem__(self, index: int | slice) -> object:
        return self._all()[index]


def _may_hold(cursor: Cursor, index: int, request: Request) -> bool:
    """Whether a candidate may hold all that is wanted: it has nodes with room, or the limits allow enough new ones."""
    if cursor.may_use(index):
        return True
    fit = cursor.opening(index)
    if not isinstance(fit, Fit):
        return False
    return cursor.candidates[index].has_room_for(
        -(-request.units // min(fit.count, request.per_node))
    )


def _opened(draft: Draft) -> int:
    return sum(placed.hi - placed.lo for placed in draft.placed if placed.opened)
