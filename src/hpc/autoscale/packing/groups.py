"""Placement groups of one bucket, and how much room each has: what choosing a group for a gang needs to know.

Stocks of one nodearray and VM size that are in placement groups are a *family*: nodes in one group of it are as good as in
another, so that which one gets a gang is a question of room alone. With hundreds of groups, asking each for every gang
takes longer than all else; an index of each family answers in a few steps. Kept by `Packer`, used by `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.packing.expr import Expr, InPlacementGroup, PropertyIs
from hpc.autoscale.packing.ledger import NO_LIMIT, Account
from hpc.autoscale.packing.maxima import Row
from hpc.autoscale.packing.pins import conditions
from hpc.autoscale.packing.stock import Journal, Stock

_GROUP = "placement_group"


def families(stocks: Sequence[Stock]) -> list[tuple[int, ...]]:
    """The numbers of stocks by family, families in the order of their first members. A stock that is in no placement
    group, or stands for machines that cannot be ordered, is alone."""
    found: dict[object, list[int]] = {}
    for index, stock in enumerate(stocks):
        found.setdefault(_family_of(stock), []).append(index)
    return [tuple(members) for members in found.values()]


def _family_of(stock: Stock) -> object:
    properties = stock.bucket_shape.template.properties
    if stock.artificial or not properties.get(_GROUP):
        return stock
    return properties.get("nodearray"), properties.get("vm_size")


def is_in_use(stock: Stock) -> bool:
    """Whether a stock has a node, existing or planned; nodes that are gone do not count."""
    shapes = stock.shapes
    return bool(shapes) and (shapes[0] is not None or any(shape is not None for shape in shapes))


class Family:
    """Stocks that differ in placement group alone, with the room that each has under the limits that are its own.

    `members`: their numbers, in the order in which they are asked. `even`: a new node of one is like a new node of any
    other, but for the group.
    """

    __slots__ = ("_own", "_rooms", "_stocks", "_unused", "_used", "even", "members", "shared")

    def __init__(self, members: tuple[int, ...], stocks: Sequence[Stock]) -> None:
        self.members = members
        self._stocks = [stocks[index] for index in members]
        common = set(self._stocks[0].accounts).intersection(*(s.accounts for s in self._stocks))
        self.shared = tuple(a for a in self._stocks[0].accounts if a in common)
        self._own = [tuple(a for a in s.accounts if a not in common) for s in self._stocks]
        self.even = _are_alike(self._stocks)
        self._used, self._unused = Row(len(members)), Row(len(members))
        # with the room that they share
        self._rooms: tuple[int, Sequence[int]] | None = None
        for place in range(len(members)):
            self.look(place)

    def own_accounts(self, place: int) -> tuple[Account, ...]:
        """The limits of one member alone."""
        return self._own[place]

    def look(self, place: int) -> None:
        """A member, or one of its limits, has changed. Cost: its accounts, and the logarithm of the members."""
        stock, room = self._stocks[place], NO_LIMIT
        for account in self._own[place]:
            room = min(room, account.room(stock.cores))
        in_use = is_in_use(stock)
        self._rooms = None
        self._used.set(place, room if in_use else -1)
        self._unused.set(place, -1 if in_use else room)

    def vacant(self, nodes: int) -> int | None:
        """The number of the member to open so many nodes in: the first with room that is in use, else the first."""
        found = self.first_with_room(nodes, in_use=True)
        return self.first_with_room(nodes, in_use=False) if found is None else found

    def first_with_room(self, nodes: int, in_use: bool) -> int | None:
        """The number of the first member, in use or not, whose limits allow so many more nodes."""
        cores = self._stocks[0].cores
        for account in self.shared:
            if account.room(cores) < nodes:
                return None
        rooms = self._used if in_use else self._unused
        place = rooms.first(nodes, 0)
        # nodes promised elsewhere are not in the index
        while place >= 0 and self._stocks[place].reserved:
            if self._stocks[place].has_room_for(nodes):
                break
            place = rooms.first(nodes, place + 1)
        return self.members[place] if place >= 0 else None

    def rooms(self) -> Sequence[int]:
        """How many more nodes the limits allow each member, in order, counting those promised elsewhere as free. Cost: none
        where nothing has changed since the last time."""
        cores = self._stocks[0].cores
        shared = min((account.room(cores) for account in self.shared), default=NO_LIMIT)
        if self._rooms is None or self._rooms[0] != shared:
            own = map(max, self._used.all(), self._unused.all())
            self._rooms = shared, [room if room < shared else shared for room in own]
        return self._rooms[1]


def _are_alike(stocks: Sequence[Stock]) -> bool:
    first = stocks[0].new_shape
    expected = {**first.template.properties, _GROUP: None}
    return all(
        (stock.cores, stock.since_failure) == (stocks[0].cores, stocks[0].since_failure)
        and stock.new_shape.free == first.free
        and stock.new_shape.units == first.units
        and (stock.new_shape.vacant, stock.new_shape.closed) == (first.vacant, first.closed)
        and {**stock.new_shape.template.properties, _GROUP: None} == expected
        for stock in stocks
    )


class Groups:
    """The families of some stocks, kept up with what happens to them. Cost of `catch_up`: what is new in the journal."""

    __slots__ = (
        "_even",
        "_holders",
        "_journal",
        "_places",
        "_read",
        "families",
        "number",
        "stocks",
    )

    def __init__(self, stocks: Sequence[Stock], journal: Journal) -> None:
        self.stocks = stocks
        self.families: list[Family] = []
        # by number of a stock: that of its family
        self.number = [0] * len(stocks)
        self._journal = journal
        self._places: dict[Stock, tuple[Family, int]] = {}
        self._holders: dict[Account, list[tuple[Family, int]]] = {}
        self._even: dict[Expr, bool] = {}
        for members in families(stocks):
            family = Family(members, stocks)
            for index in members:
                self.number[index] = len(self.families)
            # who is alone is tried, and needs no index
            for place, index in enumerate(members if len(members) > 1 else ()):
                self._places[stocks[index]] = (family, place)
                for account in family.own_accounts(place):
                    self._holders.setdefault(account, []).append((family, place))
                    account.told = journal.charged
            self.families.append(family)
        self._read = (len(journal.added), len(journal.reshaped), len(journal.charged))

    def catch_up(self) -> None:
        """Take into account what has happened to the stocks since the last time."""
        journal, (added, reshaped, charged) = self._journal, self._read
        now = (len(journal.added), len(journal.reshaped), len(journal.charged))
        if now == self._read:
            return
        self._read = now
        changed: set[tuple[Family, int]] = set()
        for account in journal.charged[charged:]:
            changed.update(self._holders.get(account, ()))
        written = [stock for stock, _ in journal.reshaped[reshaped:]]
        for stock in (*journal.added[added:], *written):
            found = self._places.get(stock)
            if found is not None:
                changed.add(found)
        for family, place in changed:
            family.look(place)

    def treats_alike(self, expr: Expr) -> bool:
        """Whether an expression that the stocks meet asks the same of nodes in any placement group."""
        found = self._even.get(expr)
        if found is None:
            found = self._even[expr] = all(
                isinstance(part, (InPlacementGroup, PropertyIs))
                or f"node.{_GROUP}" not in part.reads
                for part in conditions(expr)
            )
        return found
