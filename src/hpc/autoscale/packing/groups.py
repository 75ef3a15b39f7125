"""Placement groups of one bucket, and how much room each has: what choosing a group for a gang needs to know.

Candidates of one nodearray and VM size that are in placement groups are a *family*: nodes in one group of it are as good as in
another, so that which one gets a gang is a question of room alone. With hundreds of groups, asking each for every gang
takes longer than all else; an index of each family answers in a few steps. Kept by `Planner`, used by `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.packing.candidate import Candidate, Journal
from hpc.autoscale.packing.expr import Expr, InPlacementGroup, PropertyIs
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.packing.pins import conditions
from hpc.autoscale.packing.segment_tree import Row

_GROUP = "placement_group"


def families(candidates: Sequence[Candidate]) -> list[tuple[int, ...]]:
    """The numbers of candidates by family, families in the order of their first members. A candidate that is in no placement
    group, or stands for machines that cannot be ordered, is alone."""
    found: dict[object, list[int]] = {}
    for index, candidate in enumerate(candidates):
        found.setdefault(_family_of(candidate), []).append(index)
    return [tuple(members) for members in found.values()]


def _family_of(candidate: Candidate) -> object:
    properties = candidate.bucket_shape.template.properties
    if candidate.artificial or not properties.get(_GROUP):
        return candidate
    return properties.get("nodearray"), properties.get("vm_size")


def is_in_use(candidate: Candidate) -> bool:
    """Whether a candidate has a node, existing or planned; nodes that are gone do not count."""
    shapes = candidate.shapes
    return bool(shapes) and (shapes[0] is not None or any(shape is not None for shape in shapes))


class Family:
    """Candidates that differ in placement group alone, with the room that each has under the limits that are its own.

    `members`: their numbers, in the order in which they are asked. `even`: a new node of one is like a new node of any
    other, but for the group.
    """

    __slots__ = ("_candidates", "_own", "_rooms", "_unused", "_used", "even", "members", "shared")

    def __init__(self, members: tuple[int, ...], candidates: Sequence[Candidate]) -> None:
        self.members = members
        self._candidates = [candidates[index] for index in members]
        common = set(self._candidates[0].limits).intersection(*(s.limits for s in self._candidates))
        self.shared = tuple(a for a in self._candidates[0].limits if a in common)
        self._own = [tuple(a for a in s.limits if a not in common) for s in self._candidates]
        self.even = _are_alike(self._candidates)
        self._used, self._unused = Row(len(members)), Row(len(members))
        # with the room that they share
        self._rooms: tuple[int, Sequence[int]] | None = None
        for place in range(len(members)):
            self.look(place)

    def own_limits(self, place: int) -> tuple[Limit, ...]:
        """The limits of one member alone."""
        return self._own[place]

    def look(self, place: int) -> None:
        """A member, or one of its limits, has changed. Cost: its limits, and the logarithm of the members."""
        candidate, room = self._candidates[place], NO_LIMIT
        for limit in self._own[place]:
            room = min(room, limit.room(candidate.cores))
        in_use = is_in_use(candidate)
        self._rooms = None
        self._used.set(place, room if in_use else -1)
        self._unused.set(place, -1 if in_use else room)

    def vacant(self, nodes: int) -> int | None:
        """The number of the member to open so many nodes in: the first with room that is in use, else the first."""
        found = self.first_with_room(nodes, in_use=True)
        return self.first_with_room(nodes, in_use=False) if found is None else found

    def first_with_room(self, nodes: int, in_use: bool) -> int | None:
        """The number of the first member, in use or not, whose limits allow so many more nodes."""
        cores = self._candidates[0].cores
        for limit in self.shared:
            if limit.room(cores) < nodes:
                return None
        rooms = self._used if in_use else self._unused
        place = rooms.first(nodes, 0)
        # nodes promised elsewhere are not in the index
        while place >= 0 and self._candidates[place].reserved:
            if self._candidates[place].has_room_for(nodes):
                break
            place = rooms.first(nodes, place + 1)
        return self.members[place] if place >= 0 else None

    def rooms(self) -> Sequence[int]:
        """How many more nodes the limits allow each member, in order, counting those promised elsewhere as free. Cost: none
        where nothing has changed since the last time."""
        cores = self._candidates[0].cores
        shared = min((limit.room(cores) for limit in self.shared), default=NO_LIMIT)
        if self._rooms is None or self._rooms[0] != shared:
            own = map(max, self._used.all(), self._unused.all())
            self._rooms = shared, [room if room < shared else shared for room in own]
        return self._rooms[1]


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
    """The families of some candidates, kept up with what happens to them. Cost of `catch_up`: what is new in the journal."""

    __slots__ = (
        "_even",
        "_holders",
        "_journal",
        "_places",
        "_read",
        "candidates",
        "families",
        "number",
    )

    def __init__(self, candidates: Sequence[Candidate], journal: Journal) -> None:
        self.candidates = candidates
        self.families: list[Family] = []
        # by number of a candidate: that of its family
        self.number = [0] * len(candidates)
        self._journal = journal
        self._places: dict[Candidate, tuple[Family, int]] = {}
        self._holders: dict[Limit, list[tuple[Family, int]]] = {}
        self._even: dict[Expr, bool] = {}
        for members in families(candidates):
            family = Family(members, candidates)
            for index in members:
                self.number[index] = len(self.families)
            # who is alone is tried, and needs no index
            for place, index in enumerate(members if len(members) > 1 else ()):
                self._places[candidates[index]] = (family, place)
                for limit in family.own_limits(place):
                    self._holders.setdefault(limit, []).append((family, place))
                    limit.told = journal.charged
            self.families.append(family)
        self._read = (len(journal.added), len(journal.reshaped), len(journal.charged))

    def catch_up(self) -> None:
        """Take into limit what has happened to the candidates since the last time."""
        journal, (added, reshaped, charged) = self._journal, self._read
        now = (len(journal.added), len(journal.reshaped), len(journal.charged))
        if now == self._read:
            return
        self._read = now
        changed: set[tuple[Family, int]] = set()
        for limit in journal.charged[charged:]:
            changed.update(self._holders.get(limit, ()))
        written = [candidate for candidate, _ in journal.reshaped[reshaped:]]
        for candidate in (*journal.added[added:], *written):
            found = self._places.get(candidate)
            if found is not None:
                changed.add(found)
        for family, place in changed:
            family.look(place)

    def treats_alike(self, expr: Expr) -> bool:
        """Whether an expression that the candidates meet asks the same of nodes in any placement group."""
        found = self._even.get(expr)
        if found is None:
            found = self._even[expr] = all(
                isinstance(part, (InPlacementGroup, PropertyIs))
                or f"node.{_GROUP}" not in part.reads
                for part in conditions(expr)
            )
        return found
