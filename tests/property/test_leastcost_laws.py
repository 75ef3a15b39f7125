"""Laws of the least-cost mode, over tiny problems whose best plan can be found by trying
everything."""

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc.autoscale.leastcost.filling import filled
from hpc.autoscale.leastcost.generation import Effort, solve
from hpc.autoscale.leastcost.greedy import greedy
from hpc.autoscale.leastcost.knapsack import Knapsacks
from hpc.autoscale.leastcost.problem import Item, Problem
from hpc.autoscale.leastcost.queue import Share, Wanted, lay_out, plan_queue
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import Exclusive, Fit, MinResource
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.planner import Planner

EFFORT = Effort(rounds=40)
TOLERANCE = 1e-6

sizes = st.tuples(st.integers(1, 6), st.integers(0, 6))
offers = st.tuples(
    st.integers(2, 9),  # cores
    st.integers(2, 9),  # memory
    st.integers(1, 50),  # price in cents
    st.integers(0, 4),  # most new nodes
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2),  # what nodes have left
)
kinds = st.sampled_from(("plain", "plain", "plain", "alone", "either"))
items = st.tuples(sizes, st.integers(1, 3), kinds)
worlds = st.tuples(
    st.lists(offers, min_size=1, max_size=3),
    st.lists(items, min_size=1, max_size=3, unique_by=lambda item: item[::2]),
    st.integers(1, 6),  # nodes in all
)


class World:
    """Candidates with prices under one common limit, and expressions for cores and memory."""

    def __init__(self, offered, wanted, most):
        self.planner = Planner()
        self.prices = {}
        common = Limit("all", max_nodes=most)
        for number, (cores, memory, price, limit, nodes) in enumerate(offered):
            template = self.planner.table.template({"bucket": number}, {})
            new = self.planner.table.shape(template, {"ncpus": cores, "memgb": memory})
            own = Limit(f"bucket {number}", max_nodes=limit)
            candidate = Candidate(str(number), new, new, cores, [own, common])
            for free_cores, free_memory in nodes:
                free = {"ncpus": min(cores, free_cores), "memgb": min(memory, free_memory)}
                candidate.append(self.planner.table.shape(template, free))
            self.planner.add(candidate)
            self.prices[candidate] = price / 100
        self.items = [Item(expression(*size, kind), units) for size, units, kind in wanted]
        self.problem = Problem.of(self.items, self.ranked, self.prices.get)

    def ranked(self, expr):
        """Who may serve an expression."""
        return self.planner.ranking(expr).candidates

    def at_home(self):
        """The problem without items for which there is no place at all."""
        homeless = set(self.problem.unplaceable)
        kept = [0 if i in homeless else item.units for i, item in enumerate(self.items)]
        return self.problem.changed(kept)


def expression(cores, memory, kind="plain"):
    """Cores, and memory where there is some. `kind`: "alone" on its node, or "either" that or two
    cores more."""
    parts = [MinResource("ncpus", cores)]
    if memory:
        parts.append(MinResource("memgb", memory))
    if kind == "alone":
        parts.append(Exclusive())
    if kind == "either":
        return AnyOf([AllOf(parts), MinResource("ncpus", cores + 2)])
    return AllOf(parts)


def steps(problem, item, shape):
    """(units, what the node then looks like) for as many units of an item as the engine puts there,
    one after another."""
    yield 0, shape
    for units in range(1, problem.items[item].units + 1):
        fit = shape.fit(problem.items[item].expr)
        if not isinstance(fit, Fit):
            return
        shape = shape.after(fit, 1)
        yield units, shape


def least(problem):
    """The least price for everything, by trying everything; None where there is no room. Nodes of
    one bin are alike, and bins are used one node after another."""
    items, bins = problem.items, problem.bins

    @functools.cache
    def loads(number):
        """All that a node of a bin can take, by asking the engine."""
        found = set()

        def more(shape, item, load):
            if item == len(items):
                found.add(load)
                return
            for units, after in steps(problem, item, shape):
                more(after, item + 1, (*load, units))

        more(bins[number].shape, 0, ())
        return sorted(load for load in found if any(load))

    @functools.cache
    def cost(number, used, left, room):
        if not any(left):
            return 0.0
        if number == len(bins):
            return None
        bin_ = bins[number]
        best = cost(number + 1, 0, left, room)
        charged = 1 if bin_.limits else 0
        if used < bin_.nodes and charged <= room:
            for load in loads(number):
                rest = tuple(max(0, n - m) for n, m in zip(left, load, strict=True))
                if rest != left:
                    then = cost(number, used + 1, rest, room - charged)
                    if then is not None and (best is None or then + bin_.price < best):
                        best = then + bin_.price
        return best

    charged = [frozenset(bin_.limits) for bin_ in bins if bin_.limits]
    shared = frozenset.intersection(*charged) if charged else ()
    room = min((problem.limits[a].nodes for a in shared), default=0)
    return cost(0, 0, tuple(problem.units), room)


def check_limits(problem, lots):
    """No bin and no limit is exceeded."""
    nodes = [0] * len(problem.limits)
    cores = [0] * len(problem.limits)
    used = [0] * len(problem.bins)
    for lot in lots:
        bin_ = problem.bins[lot.bin]
        used[lot.bin] += lot.nodes
        for a in bin_.limits:
            nodes[a] += lot.nodes
            cores[a] += lot.nodes * bin_.candidate.cores
    assert all(n <= bin_.nodes for n, bin_ in zip(used, problem.bins, strict=True))
    for limit, n, c in zip(problem.limits, nodes, cores, strict=True):
        assert n <= limit.nodes
        assert c <= limit.cores


@settings(max_examples=150, deadline=None)
@given(worlds)
def test_the_bound_and_the_price_enclose_the_best_plan(world):
    """bound <= the least price <= the price found, wherever everything was placed."""
    problem = World(*world).at_home()
    found = solve(problem, EFFORT)
    if any(found.unplaced):
        return
    best = least(problem)
    assert best is not None
    assert found.bound <= best * (1 + TOLERANCE) + TOLERANCE
    assert best <= found.price + TOLERANCE


@settings(max_examples=60, deadline=None)
@given(worlds)
def test_search_never_does_worse_than_the_greedy_way(world):
    """Columns are kept only where they cost less, and both place as much."""
    problem = World(*world).at_home()
    greedily, searched = solve(problem), solve(problem, EFFORT)
    assert searched.unplaced == greedily.unplaced
    assert searched.price <= greedily.price + TOLERANCE


@settings(max_examples=60, deadline=None)
@given(worlds, st.booleans())
def test_no_limit_is_exceeded_and_every_load_fits(world, search):
    """Every node takes its load by the engine's own word, and the limits hold."""
    problem = World(*world).at_home()
    found = solve(problem, EFFORT if search else None)
    check_limits(problem, found.lots)
    assert problem.left_over(found.lots) == list(found.unplaced)
    for lot in found.lots:
        shape = problem.bins[lot.bin].shape
        for item, units in lot.pattern:
            while units:
                fit = shape.fit(problem.items[item].expr)
                assert isinstance(fit, Fit)
                times = min(units, fit.count)
                shape = shape.after(fit, times)
                units -= times


@settings(max_examples=40, deadline=None)
@given(worlds)
def test_the_same_problem_gets_the_same_plan(world):
    """With rounds to limit it and nothing else."""
    first = solve(World(*world).at_home(), EFFORT)
    second = solve(World(*world).at_home(), EFFORT)
    assert (first.lots, first.price, first.bound) == (second.lots, second.price, second.bound)


@settings(max_examples=60, deadline=None)
@given(worlds)
def test_a_layout_can_be_carried_out(world):
    """The engine commits it, every demand gets its share, and nothing is overdrawn."""
    made = World(*world)
    problem = made.at_home()
    found = solve(problem, EFFORT)
    shares = [Share(i, i, item.units) for i, item in enumerate(problem.items)]
    layout = lay_out(problem, found.lots, shares)
    made.planner.adopt(layout.plan)
    made.planner.apply(layout.plan)
    for i, item in enumerate(problem.items):
        placed = sum(p.units for p in layout.placed.get(i, ()))
        assert placed == item.units - found.unplaced[i]
    for candidate in made.planner.candidates:
        assert all(limit.room(candidate.cores) >= 0 for limit in candidate.limits)
        assert all(min(shape.free.values()) >= 0 for shape in candidate.shapes)


@settings(max_examples=60, deadline=None)
@given(worlds, st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_a_queue_is_cut_where_room_ends(world, order):
    """All before the cut is placed, and what is at the cut gets no more than it asked for."""
    made = World(*world)
    queue = [
        Wanted(made.items[n % len(made.items)].expr, made.items[n % len(made.items)].units)
        for n in order
    ]
    cut = plan_queue(queue, made.ranked, made.prices.get, EFFORT)
    planned = {share.demand: share.units for share in cut.shares}
    end = len(queue) if cut.stopped_at is None else cut.stopped_at
    for number in range(end):
        assert number in cut.unplaceable or planned[number] == queue[number].units
    if cut.stopped_at is not None:
        assert planned.get(cut.stopped_at, 0) < queue[cut.stopped_at].units
        assert max(planned, default=0) <= cut.stopped_at
    assert not any(cut.solution.unplaced)


@settings(max_examples=60, deadline=None)
@given(worlds, st.lists(st.integers(0, 30), min_size=3, max_size=3))
def test_the_knapsack_finds_the_most_valuable_load(world, worth):
    """As good as any load that the engine would take; where there are alternatives it may look
    better than it is."""
    problem = World(*world).at_home()
    if not problem.bins:
        return
    values = np.array([float(worth[i]) for i in range(len(problem.items))])
    tables = Knapsacks(problem)
    best = tables.fill(values)
    loads = tables.patterns(range(len(problem.bins)))
    for number, bin_ in enumerate(problem.bins):
        reached = best_by_hand(problem, bin_.shape, values, 0)
        assert best[number] >= reached - 1e-3
        assert abs(float(loads[number] @ values) - best[number]) <= 1e-3
        if all(item.expr.minima for item in problem.items):
            assert best[number] <= reached + 1e-3


def best_by_hand(problem, shape, values, item):
    """The most valuable load of a node, by trying everything."""
    if item == len(problem.items):
        return 0.0
    return max(
        units * values[item] + best_by_hand(problem, after, values, item + 1)
        for units, after in steps(problem, item, shape)
    )


@settings(max_examples=20, deadline=None)
@given(st.lists(sizes, min_size=70, max_size=120), st.integers(8, 12))
def test_nodes_are_filled_with_what_fits(wanted, cores):
    """A plan that is filled node by node fits, and with a greedy one for what it leaves it places
    everything where there is room for all."""
    counted = {}
    for size in wanted:
        counted[size] = counted.get(size, 0) + 1
    world = World([(cores, 9, 10, 1000, [])], [(s, n, "plain") for s, n in counted.items()], 1000)
    lots = filled(world.problem)
    for lot in lots:
        assert world.problem.feasible(lot.bin, lot.pattern) == lot.pattern
    lots += greedy(world.problem.residual(lots))
    assert not any(world.problem.left_over(lots))
    check_limits(world.problem, lots)
