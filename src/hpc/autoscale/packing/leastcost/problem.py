"""What is to be placed and where it may go, as numbers: the least-cost problem.

Equal demands are one `Item`, nodes that look alike and cost the same are one `Bin`, and bins for
which the items mean the same share one `Profile`. Made from the state of the engine by
`Problem.of`; nothing here changes that state, and nothing here decides anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.amounts import Quantity, how_many, is_amount
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, Mode
from hpc.autoscale.packing.leastcost.modes import Roomy, modes
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.packing.shape import NodeShape, freeze

PriceOf = Callable[[Candidate], float | None]
"""Price of an hour of a new node; None, or what is no price, is unknown."""


_BEYOND = 1_000.0


class Item(NamedTuple):
    """`units` slots of equal demands. `alone`: they are one demand's, and a node that one of them
    closes may hold as many of them as fit."""

    expr: Expr
    units: int
    alone: bool = False


class Need(NamedTuple):
    """A mode, with resources by number: (dimension, amount) each above 0."""

    amounts: tuple[tuple[int, Quantity], ...]
    closes: bool


Profile = tuple[tuple[Need, ...], ...]
"""By item: in which ways it may lie on a node; none for an item that may not."""


class Bin(NamedTuple):
    """Nodes of one candidate and shape. `nodes`: how many there are, or may be opened. `price`: of
    an hour of one; 0 for one that runs already. `limits`: by number, where using one is charged.
    `positions`: of those that are there. `priced`: where the price is not known it is so high that
    any other is less, and means nothing."""

    candidate: Candidate
    shape: NodeShape
    price: float
    nodes: int
    opened: bool
    limits: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    priced: bool = True
    capacity: tuple[Quantity, ...] = ()
    profile: int = -1


class LimitLeft(NamedTuple):
    """What a limit still bears."""

    nodes: int
    cores: int


class Problem:
    """Items in queue order, bins, and the limits that bins share. `homeless`: numbers of the items
    for which there is no place at all."""

    def __init__(
        self,
        items: Sequence[Item],
        bins: Sequence[Bin],
        profiles: Sequence[Profile],
        dimensions: Sequence[str],
        limits: Sequence[LimitLeft],
        homeless: Sequence[int] = (),
    ) -> None:
        self.items = tuple(items)
        self.bins = tuple(bins)
        self.profiles = tuple(profiles)
        self.dimensions = tuple(dimensions)
        self.limits = tuple(limits)
        self.homeless = tuple(homeless)

    @staticmethod
    def of(
        items: Sequence[Item],
        ranked: Callable[[Expr], Sequence[Candidate]],
        price_of: PriceOf,
    ) -> Problem:
        """The problem of placing `items` as things are now. `ranked`: the candidates that may serve
        an expression."""
        return _Builder(items, ranked, price_of).problem()

    def changed(
        self, units: Sequence[int], bins: Sequence[Bin] = (), limits: Sequence[LimitLeft] = ()
    ) -> Problem:
        """The same items and bins with other amounts of them; bins and limits stay where none are
        given."""
        items = (item._replace(units=n) for item, n in zip(self.items, units, strict=True))
        return Problem(
            tuple(items),
            bins or self.bins,
            self.profiles,
            self.dimensions,
            limits or self.limits,
            self.homeless,
        )

    def only(self, wanted: Sequence[int]) -> Problem:
        """The same for some of the items, which are numbered anew."""
        profiles = [tuple(profile[i] for i in wanted) for profile in self.profiles]
        items = [self.items[i] for i in wanted]
        return Problem(items, self.bins, profiles, self.dimensions, self.limits)

    @property
    def units(self) -> list[int]:
        """Units by item."""
        return [item.units for item in self.items]

    def copies(self, item: int, bin_: Bin) -> int:
        """How many units of an item go on an untouched node of a bin, at most and alone."""
        return most(self.profiles[bin_.profile][item], bin_.capacity, self.items[item].alone)


def most(needs: Iterable[Need], capacity: Sequence[Quantity], alone: bool) -> int:
    """How many units go into what is free, in the best of their modes; closing ones once, unless
    they are `alone`."""
    found = 0
    for need in needs:
        count = room_for(need, capacity)
        if count and need.closes and not alone:
            count = 1
        found = max(found, count)
    return found


def room_for(need: Need, capacity: Sequence[Quantity]) -> int:
    """How often a mode fits what is free."""
    count = NO_LIMIT
    for dimension, amount in need.amounts:
        free = capacity[dimension]
        times = (
            free // amount
            if free.__class__ is int and amount.__class__ is int
            else how_many(free, amount)
        )
        if times < count:
            count = int(times)
    return max(count, 0)


def known_price(price: object) -> float | None:
    """A price as it can be counted with; None for what is none."""
    if isinstance(price, (int, float)) and not isinstance(price, bool):
        value = float(price)
        return value if math.isfinite(value) and value > 0 else None
    return None


class _Builder:
    """One `Problem` in the making."""

    def __init__(
        self,
        items: Sequence[Item],
        ranked: Callable[[Expr], Sequence[Candidate]],
        price_of: PriceOf,
    ) -> None:
        self.items = list(items)
        self.serving = [frozenset(ranked(item.expr)) for item in self.items]
        self.candidates = tuple(dict.fromkeys(s for item in self.items for s in ranked(item.expr)))
        self.price_of = price_of
        names = frozenset().union(*(item.expr.reads for item in self.items))
        self.properties = sorted(n[5:] for n in names if n[:5] == "node.")
        self.resources = sorted(n for n in names if n[:5] != "node.")
        self.limits: list[LimitLeft] = []
        self.account_numbers: dict[Limit, int] = {}
        self.housed: set[int] = set()
        self.highest: float | None = None
        self.read: dict[object, tuple[tuple[Mode, ...], ...]] = {}

    def problem(self) -> Problem:
        kinds = [kind for candidate in self.candidates for kind in self._kinds(candidate)]
        readings = [self._reading(kind.shape) for kind in kinds]
        every = (mode for ways in self.read.values() for way in ways for mode in way)
        dimensions = sorted({name for mode in every for name, amount in mode.take if amount > 0})
        whole = set(dimensions) - self._in_parts()
        number = {name: index for index, name in enumerate(dimensions)}
        all_needs = {key: _numbered(ways, number) for key, ways in self.read.items()}
        profiles: dict[object, int] = {}
        kept: list[Profile] = []
        bins = []
        for kind, reading in zip(kinds, readings, strict=True):
            free = kind.shape.free
            capacity = tuple(_free(free.get(name), name in whole) for name in dimensions)
            profile = all_needs[reading]
            barred, fits = self._judge(kind, capacity, profile)
            if fits:
                key = (reading, barred)
                if key not in profiles:
                    profiles[key] = len(kept)
                    kept.append(tuple(() if i in barred else n for i, n in enumerate(profile)))
                bins.append(kind._replace(capacity=capacity, profile=profiles[key]))
        homeless = [i for i in range(len(self.items)) if i not in self.housed]
        return Problem(self.items, bins, kept, dimensions, self.limits, homeless)

    def _in_parts(self) -> set[str]:
        """Resources of which something takes an amount that is not whole."""
        every = (mode for ways in self.read.values() for way in ways for mode in way)
        return {name for mode in every for name, n in mode.take if not isinstance(_amount(n), int)}

    def _kinds(self, candidate: Candidate) -> list[Bin]:
        """The bins of a candidate, without what depends on the items."""
        price = None if candidate.artificial else known_price(self.price_of(candidate))
        cost = self._beyond(candidate) if price is None else price
        room = min((limit.room(candidate.cores) for limit in candidate.limits), default=NO_LIMIT)
        room = max(0, room - candidate.reserved)
        limits = tuple(self._limit(limit) for limit in candidate.limits)
        found = []
        for shape, positions in _alike(candidate).items():
            count = len(positions)
            if not shape.dormant:
                found.append(Bin(candidate, shape, 0.0, count, False, (), tuple(positions)))
            elif room:
                priced, nodes = price is not None, min(room, count)
                found.append(
                    Bin(candidate, shape, cost, nodes, False, limits, tuple(positions), priced)
                )
        if room and not candidate.artificial and candidate.new_shape.unfit() is None:
            priced = price is not None
            found.append(Bin(candidate, candidate.new_shape, cost, room, True, limits, (), priced))
        return found

    def _beyond(self, candidate: Candidate) -> float:
        """A stand-in for a price that is not known: beyond all that are, and more for more
        cores."""
        if self.highest is None:
            prices = (known_price(self.price_of(candidate)) for candidate in self.candidates)
            self.highest = max((price for price in prices if price is not None), default=1.0)
        return _BEYOND * self.highest * max(1, candidate.cores)

    def _limit(self, limit: Limit) -> int:
        number = self.account_numbers.get(limit)
        if number is None:
            number = self.account_numbers[limit] = len(self.limits)
            nodes = max(0, limit.max_nodes - limit.used_nodes)
            self.limits.append(LimitLeft(nodes, max(0, limit.max_cores - limit.used_cores)))
        return number

    def _reading(self, shape: NodeShape) -> object:
        """A key for the facts of a shape that decide the modes; they are read when it is new."""
        facts: list[object] = [shape.last_capacity_failure]
        for name in self.properties:
            facts.append(shape.vacant if name == "assignments" else freeze(shape.prop(name)))
        for name in self.resources:
            value = shape.free.get(name)
            fact = None if is_amount(value) else (type(value), freeze(value))
            facts.append((shape.units.get(name), fact))
        key = tuple(facts)
        if key not in self.read:
            view = Roomy(shape)
            self.read[key] = tuple(modes(item.expr, view) for item in self.items)
        return key

    def _judge(
        self, kind: Bin, capacity: Sequence[Quantity], profile: Profile
    ) -> tuple[frozenset[int], bool]:
        """The items that would fit but that the candidate may not serve, or not with new nodes, and
        whether there are others that fit."""
        barred = []
        fits = False
        for index, item in enumerate(self.items):
            if profile[index] and most(profile[index], capacity, item.alone):
                at_rest = kind.opened and kind.candidate.at_rest(item.expr) is not None
                if kind.candidate in self.serving[index] and not at_rest:
                    fits = True
                    self.housed.add(index)
                else:
                    barred.append(index)
        return frozenset(barred), fits


def _alike(candidate: Candidate) -> Mapping[NodeShape, list[int]]:
    """The positions of nodes that take work, by shape, in order."""
    found: dict[NodeShape, list[int]] = {}
    for position, shape in enumerate(candidate.shapes):
        if shape is not None:
            positions = found.get(shape)
            if positions is None:
                found[shape] = [position]
            else:
                positions.append(position)
    return {shape: positions for shape, positions in found.items() if shape.unfit() is None}


def _amount(value: object) -> Quantity:
    if not isinstance(value, (int, float)) or value != value or value <= 0:
        return 0
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return int(value)


def _free(value: object, whole: bool) -> Quantity:
    """What is free of a resource. Where only whole amounts are taken of it, parts are of no use; a
    little less than whole is whole, as the engine has it."""
    amount = min(_amount(value), NO_LIMIT)
    return how_many(amount, 1) if whole and isinstance(amount, float) else amount


def _numbered(ways: Sequence[tuple[Mode, ...]], number: Mapping[str, int]) -> Profile:
    return tuple(
        tuple(
            Need(tuple((number[name], _amount(n)) for name, n in mode.take if n > 0), mode.closes)
            for mode in each
        )
        for each in ways
    )
