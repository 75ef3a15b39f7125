"""The least-cost problem as numbers: what is to be placed, where it may go, and what a plan is.

This is vector bin packing with bins of several sizes and prices. Equal demands are one `Item`,
nodes that look alike and cost the same are one `Bin`, and what one node of a bin takes is a
`Pattern`, as in the cutting-stock problem. A plan is a list of `Lot`s. `Problem.of` reads the state
of the engine; nothing here changes that state or chooses anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.amounts import Quantity, how_many, is_amount
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit, Mode, View
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.packing.shape import NodeShape, freeze

PriceOf = Callable[[Candidate], float | None]
"""Price of an hour of a new node; None, or what is no price, is unknown."""

Ranked = Callable[[Expr], Sequence[Candidate]]
"""The candidates that may serve an expression."""

MOST_MODES = 16
"""An expression with more alternatives than this is left to first fit."""

_BEYOND = 1_000.0


class Item(NamedTuple):
    """`units` slots of equal demands. `alone`: they are one demand's, and a node that one of them
    closes may hold as many of them as fit."""

    expr: Expr
    units: int
    alone: bool = False


class Usage(NamedTuple):
    """What one unit of an item takes of a node, in one of the modes of its expression: pairs of a
    dimension (a resource by number) and an amount above 0. `closes`: the node then takes nothing
    else."""

    amounts: tuple[tuple[int, Quantity], ...]
    closes: bool


Profile = tuple[tuple[Usage, ...], ...]
"""By item: the ways in which a unit may lie on a node; none for an item that may not."""


class Bin(NamedTuple):
    """Nodes of one candidate and shape. `nodes`: how many there are, or may be opened. `price`: of
    an hour of one; 0 for one that runs already. `limits`: by number, where using one is charged.
    `positions`: of nodes that exist. `priced`: False where the price is unknown; `price` is then
    higher than any known one. `capacity`: by dimension. `profile`: the number of the profile."""

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
    """How many more nodes and cores a limit allows."""

    nodes: int
    cores: int


Pattern = tuple[tuple[int, int], ...]
"""(item, units) of what one node takes, in order of items."""


class Lot(NamedTuple):
    """`nodes` nodes of bin number `bin` that get the same pattern."""

    bin: int
    pattern: Pattern
    nodes: int


class Problem(NamedTuple):
    """Items in queue order, bins, and the limits that bins share. `profiles`: bins for which the
    items mean the same share one. `dimensions`: resources by number. `unplaceable`: numbers of the
    items that fit no bin even alone. `answers`: what the engine has said to `ask`."""

    items: Sequence[Item]
    bins: Sequence[Bin]
    profiles: Sequence[Profile]
    dimensions: Sequence[str]
    limits: Sequence[LimitLeft]
    unplaceable: Sequence[int]
    answers: dict[tuple[NodeShape, int, int], tuple[int, NodeShape] | None]

    @staticmethod
    def of(items: Sequence[Item], ranked: Ranked, price_of: PriceOf) -> Problem:
        """The problem of placing `items` in the present state of the engine."""
        return _ProblemBuilder(items, ranked, price_of).problem()

    def changed(
        self, units: Sequence[int], bins: Sequence[Bin] = (), limits: Sequence[LimitLeft] = ()
    ) -> Problem:
        """The same items with other numbers of units; bins and limits stay where none are given."""
        items = [item._replace(units=n) for item, n in zip(self.items, units, strict=True)]
        return self._replace(items=items, bins=bins or self.bins, limits=limits or self.limits)

    @property
    def units(self) -> list[int]:
        """Units by item."""
        return [item.units for item in self.items]

    def copies(self, item: int, bin_: Bin) -> int:
        """How many units of an item alone fit an untouched node of a bin."""
        return most(self.profiles[bin_.profile][item], bin_.capacity, self.items[item].alone)

    def price_of(self, lots: Iterable[Lot]) -> float:
        """Price per hour of the nodes of a plan that do not run yet."""
        return sum(self.bins[lot.bin].price * lot.nodes for lot in lots)

    def left_over(self, lots: Iterable[Lot]) -> list[int]:
        """Units by item that a plan does not place; it may place more than is wanted."""
        left = self.units
        for lot in lots:
            for item, units in lot.pattern:
                left[item] -= units * lot.nodes
        return [max(0, n) for n in left]

    def residual(self, lots: Iterable[Lot]) -> Problem:
        """The problem of placing what a plan leaves over, on the nodes that it leaves."""
        lots = list(lots)
        room = NodesLeft(self)
        for lot in lots:
            room.use(lot.bin, lot.nodes)
        return room.problem(self.left_over(lots))

    def feasible(self, number: int, wanted: Iterable[tuple[int, int]]) -> Pattern:
        """The part of a pattern, or of other units of items, that the engine takes on an untouched
        node of bin `number`, one item after another."""
        shape, found = self.bins[number].shape, []
        for item, units in wanted:
            left = units
            while left > 0 and (answer := self.ask(shape, item, left)):
                left, shape = left - answer[0], answer[1]
            if left < units:
                found.append((item, units - left))
        return tuple(found)

    def ask(self, shape: NodeShape, item: int, units: int) -> tuple[int, NodeShape] | None:
        """How many of some units of an item the engine puts on a node in one way, and what the node
        then looks like; None where it puts none."""
        key = (shape, item, units)
        if key not in self.answers:
            expr, _, alone = self.items[item]
            fit = shape.fit(expr)
            self.answers[key] = None
            if isinstance(fit, Fit):
                times = 1 if fit.closes and not alone else min(units, fit.count)
                self.answers[key] = (times, shape.after(fit, times))
        return self.answers[key]


class NodesLeft:
    """How many nodes of each bin a plan in the making may still use under all limits."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._nodes = [bin_.nodes for bin_ in problem.bins]
        self._limits = [[limit.nodes, limit.cores] for limit in problem.limits]

    def of(self, number: int) -> int:
        """Nodes of bin `number` that may still be used."""
        bin_, room = self._problem.bins[number], self._nodes[number]
        cores = bin_.candidate.cores
        for a in bin_.limits:
            nodes_left, cores_left = self._limits[a]
            room = min(room, nodes_left, cores_left // cores if cores > 1 else cores_left)
        return max(0, room)

    def use(self, number: int, nodes: int) -> None:
        """So many nodes of bin `number` are used."""
        bin_ = self._problem.bins[number]
        self._nodes[number] -= nodes
        for a in bin_.limits:
            self._limits[a][0] -= nodes
            self._limits[a][1] -= nodes * bin_.candidate.cores

    def problem(self, units: Sequence[int]) -> Problem:
        """The problem of placing `units` by item on the nodes that are left."""
        pairs = zip(self._problem.bins, self._nodes, strict=True)
        bins = [bin_._replace(nodes=nodes) for bin_, nodes in pairs]
        return self._problem.changed(units, bins, [LimitLeft(*limit) for limit in self._limits])


def most(usages: Iterable[Usage], capacity: Sequence[Quantity], alone: bool) -> int:
    """How many units fit in the best of their ways; those that close the node once, unless they are
    `alone`."""
    found = 0
    for usage in usages:
        count = room_for(usage, capacity)
        if count and usage.closes and not alone:
            count = 1
        found = max(found, count)
    return found


def room_for(usage: Usage, capacity: Sequence[Quantity], at_most: int = UNBOUNDED) -> int:
    """How often the amounts of one way fit into what is free; not more often than `at_most`."""
    count = at_most
    for dimension, amount in usage.amounts:
        free = capacity[dimension]
        times = (
            free // amount
            if free.__class__ is int and amount.__class__ is int
            else how_many(free, amount)
        )
        if times < count:
            count = int(times)
    return count if count > 0 else 0


def known_price(price: object) -> float | None:
    """A price as a positive finite number; None for anything else."""
    if isinstance(price, (int, float)) and not isinstance(price, bool):
        value = float(price)
        return value if math.isfinite(value) and value > 0 else None
    return None


def is_plain(expr: Expr) -> bool:
    """Whether an expression can be planned: it can tell its modes, and they are not too many."""
    return 0 < expr.most_modes() <= MOST_MODES


def may_close(expr: Expr) -> bool:
    """Whether a unit may have a node to itself."""
    return "node.assignments" in expr.reads


def roomy(shape: NodeShape) -> NodeShape:
    """A node of the same kind with an endless amount of every resource that can be used up.

    `modes` of an expression on it are all that the expression may ever take on such nodes, whatever
    was placed there before. So a bound that is worked out from modes holds; a plan made from them
    is still asked of the engine, node by node, before it is carried out."""
    free = {name: math.inf if is_amount(n) else n for name, n in shape.free.items()}
    return shape.table.shape(shape.template, free, shape.vacant, shape.closed, shape.dormant)


def modes(expr: Expr, view: View) -> tuple[Mode, ...]:
    """The different modes of a plain expression on a `roomy` node, in the order of its
    alternatives."""
    return tuple(dict.fromkeys(expr.modes(view)))


class _ProblemBuilder:
    """Makes one `Problem`."""

    def __init__(self, items: Sequence[Item], ranked: Ranked, price_of: PriceOf) -> None:
        self.items = items
        self.serving = [frozenset(ranked(item.expr)) for item in items]
        self.candidates = tuple(dict.fromkeys(s for item in items for s in ranked(item.expr)))
        self.price_of = price_of
        names = frozenset().union(*(item.expr.reads for item in items))
        self.properties = sorted(n[5:] for n in names if n[:5] == "node.")
        self.resources = sorted(n for n in names if n[:5] != "node.")
        self.limits: list[LimitLeft] = []
        self.limit_numbers: dict[Limit, int] = {}
        self.placeable: set[int] = set()
        self.highest: float | None = None
        # by facts of a shape: the modes of each item
        self.read: dict[object, list[tuple[Mode, ...]]] = {}

    def problem(self) -> Problem:
        bare = [bin_ for candidate in self.candidates for bin_ in self._bins(candidate)]
        facts = [self._facts(bin_.shape) for bin_ in bare]
        takes = [take for by_item in self.read.values() for way in by_item for take in way]
        amounts = [pair for mode in takes for pair in mode.take]
        dimensions = sorted({name for name, amount in amounts if amount > 0})
        whole = {name for name, _ in amounts}
        whole -= {name for name, amount in amounts if not isinstance(_amount(amount), int)}
        number = {name: index for index, name in enumerate(dimensions)}
        usages = {key: _numbered(by_item, number) for key, by_item in self.read.items()}
        numbers: dict[tuple[object, frozenset[int]], int] = {}
        profiles: list[Profile] = []
        bins = []
        for bin_, key in zip(bare, facts, strict=True):
            free = bin_.shape.free
            capacity = tuple(_free(free.get(name), name in whole) for name in dimensions)
            profile = usages[key]
            barred, fits = self._judge(bin_, capacity, profile)
            if fits:
                index = numbers.setdefault((key, barred), len(profiles))
                if index == len(profiles):
                    profiles.append(tuple(() if i in barred else n for i, n in enumerate(profile)))
                bins.append(bin_._replace(capacity=capacity, profile=index))
        unplaceable = [i for i in range(len(self.items)) if i not in self.placeable]
        return Problem(self.items, bins, profiles, dimensions, self.limits, unplaceable, {})

    def _bins(self, candidate: Candidate) -> list[Bin]:
        """The bins of a candidate, without what depends on the items."""
        price = None if candidate.artificial else known_price(self.price_of(candidate))
        priced = price is not None
        cost = self._beyond(candidate) if price is None else price
        room = min((limit.room(candidate.cores) for limit in candidate.limits), default=NO_LIMIT)
        room = max(0, room - candidate.reserved)
        limits = tuple(self._limit(limit) for limit in candidate.charged)
        alike: dict[NodeShape, list[int]] = {}
        for position, shape in enumerate(candidate.shapes):
            if shape is not None:
                alike.setdefault(shape, []).append(position)
        found = []
        for shape, at in alike.items():
            if shape.unfit() is not None:
                continue
            if not shape.dormant:
                found.append(Bin(candidate, shape, 0.0, len(at), False, (), tuple(at)))
            elif room:
                nodes = min(room, len(at))
                found.append(Bin(candidate, shape, cost, nodes, False, limits, tuple(at), priced))
        if room and not candidate.artificial and candidate.new_shape.unfit() is None:
            found.append(Bin(candidate, candidate.new_shape, cost, room, True, limits, (), priced))
        return found

    def _beyond(self, candidate: Candidate) -> float:
        """A stand-in for an unknown price: above all known ones, and higher for more cores."""
        if self.highest is None:
            prices = (known_price(self.price_of(candidate)) for candidate in self.candidates)
            self.highest = max((price for price in prices if price is not None), default=1.0)
        return _BEYOND * self.highest * max(1, candidate.cores)

    def _limit(self, limit: Limit) -> int:
        number = self.limit_numbers.setdefault(limit, len(self.limits))
        if number == len(self.limits):
            nodes = max(0, limit.max_nodes - limit.used_nodes)
            self.limits.append(LimitLeft(nodes, max(0, limit.max_cores - limit.used_cores)))
        return number

    def _facts(self, shape: NodeShape) -> object:
        """All of a shape that decides the modes of the items, as a key of `read`."""
        facts: list[object] = [shape.last_capacity_failure]
        for name in self.properties:
            facts.append(shape.vacant if name == "assignments" else freeze(shape.prop(name)))
        for name in self.resources:
            value = shape.free.get(name)
            fact = None if is_amount(value) else (type(value), freeze(value))
            facts.append((shape.units.get(name), fact))
        key = tuple(facts)
        if key not in self.read:
            view = roomy(shape)
            self.read[key] = [modes(item.expr, view) for item in self.items]
        return key

    def _judge(
        self, bin_: Bin, capacity: Sequence[Quantity], profile: Profile
    ) -> tuple[frozenset[int], bool]:
        """The items that would fit but that the candidate may not serve, or not with new nodes, and
        whether there are others that fit."""
        barred = []
        fits = False
        for index, item in enumerate(self.items):
            if profile[index] and most(profile[index], capacity, item.alone):
                at_rest = bin_.opened and bin_.candidate.at_rest(item.expr) is not None
                if bin_.candidate in self.serving[index] and not at_rest:
                    fits = True
                    self.placeable.add(index)
                else:
                    barred.append(index)
        return frozenset(barred), fits


def _amount(value: object) -> Quantity:
    if not isinstance(value, (int, float)) or value != value or value <= 0:
        return 0
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return int(value)


def _free(value: object, whole: bool) -> Quantity:
    """What is free of a resource. `whole`: only whole amounts are taken of it, so the rest is of no
    use; a little less than whole counts as whole, as in the engine."""
    amount = min(_amount(value), UNBOUNDED)
    return how_many(amount, 1) if whole and isinstance(amount, float) else amount


def _numbered(by_item: Sequence[tuple[Mode, ...]], number: Mapping[str, int]) -> Profile:
    def usage(mode: Mode) -> Usage:
        amounts = ((number[name], _amount(amount)) for name, amount in mode.take if amount > 0)
        return Usage(tuple(amounts), mode.closes)

    return tuple(tuple(usage(mode) for mode in each) for each in by_item)
