"""What a candidate remembers and skips never hides a node that could take work."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, cores, free_cores, said
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Exclusive, Fit, MinResource, ResourceIs
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.shape import Unit

GIB = Unit(2**30, "g")


def places(candidate, expr):
    """Positions that a full search of the candidate offers and that fit."""
    needs, found, position = candidate.needs(expr), [], 0
    while (position := candidate.next_meeting(needs, position)) >= 0:
        shape = candidate.shapes[position]
        if shape is not None and needs.are_met_by(shape) and isinstance(shape.fit(expr), Fit):
            found.append(position)
        position += 1
    return found


def fitting(candidate, expr):
    """The same by asking every node."""
    shapes = candidate.shapes
    return [i for i, s in enumerate(shapes) if s is not None and isinstance(s.fit(expr), Fit)]


def units_by_position(plan):
    """How many units a plan puts where."""
    return {position: p.times for p in plan.steps for position in range(p.lo, p.hi)}


AMOUNTS = st.one_of(
    st.integers(-1, 4),
    st.sampled_from([0.3, 0.1, 1 - 1.0005e-9, 1 - 9e-10, math.inf, math.nan]),
    st.sampled_from(["four", None, True]),
)
EXPRS = st.one_of(
    st.sampled_from([0, 1, 2, 0.1, 0.3]).map(cores),
    st.just(MinResource("ncpus", 2**30, sized=True)),
    st.just(Exclusive()),
    st.just(AllOf([Exclusive(), cores(1)])),
    st.just(AllOf([cores(1), MinResource("gone", 1)])),
)


@given(
    st.lists(st.tuples(AMOUNTS, st.booleans(), st.booleans(), st.booleans()), max_size=9),
    EXPRS,
    EXPRS,
    st.booleans(),
)
def test_no_node_that_fits_is_skipped(nodes, first, second, sized):
    """Whatever nodes hold, in whatever unit, the tree offers each one that fits."""
    bench = Bench()
    candidate = bench.candidate("a", units={"ncpus": GIB} if sized else {})
    for index, (amount, in_units, vacant, closed) in enumerate(nodes):
        units = {"ncpus": GIB} if in_units else {}
        candidate.append(bench.shape("a", units, ncpus=amount, vacant=vacant, closed=closed))
        if index == 3:
            places(candidate, first)  # from here on the tree is kept up to date
    assert places(candidate, first) == fitting(candidate, first)
    assert places(candidate, second) == fitting(candidate, second)


@pytest.mark.parametrize(
    ("amount", "asked"), [(1 - 1.0005e-9, 1), (1 - 9e-10, 1), (-1, 0), (0, 0), (-1e-12, 0)]
)
def test_the_tree_and_the_node_agree_on_what_is_almost_enough(amount, asked):
    """What rounding may have taken is forgiven by both; what is below nothing by neither."""
    candidate = Bench().candidate("a", nodes=())
    candidate.append(Bench().shape("a", ncpus=amount))
    assert places(candidate, cores(asked)) == fitting(candidate, cores(asked))


def test_a_resource_that_is_no_number_hides_no_other_node():
    """An amount that is not a number is no room, and says nothing of the nodes beside it."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[2, 2])
    for amount in (math.nan, 5):
        candidate.append(bench.shape("a", ncpus=amount))
    assert places(candidate, cores(4)) == [3]


def test_units_of_new_nodes_may_change():
    """Nodes that hold an amount in another unit than new ones do are still found."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[4, 4])
    assert places(candidate, cores(3)) == [0, 1]
    candidate.new_shape = bench.shape("a", {"ncpus": GIB}, ncpus=4 * 2**30)
    assert places(candidate, cores(3)) == [0, 1]
    candidate.append(candidate.new_shape)
    assert places(candidate, cores(3)) == [0, 1, 2]


@pytest.mark.parametrize("wanted", [True, 1, Size(1, "b")])
def test_a_value_that_comes_to_be_is_seen(wanted):
    """A node refused for a value that is a number may get that value by giving some of it away."""
    bench = Bench()
    bench.candidate("a", limit=0, ncpus=1, nodes=[2])
    asked = ResourceIs("ncpus", [wanted])
    assert not bench.place(asked, Request(1))
    assert bench.place(cores(1), Request(1))
    assert said(bench.place(asked, Request(1))) == [("a", 0, 1, 1, False)]


def test_a_node_that_was_written_to_is_asked_again():
    """What refused a monotone expression is passed over until it was changed from outside."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, nodes=[1, 1, 4])
    assert said(bench.place(cores(2), Request(1))) == [("a", 2, 3, 1, False)]
    candidate.reshape({0: bench.shape("a", ncpus=3)})
    assert said(bench.place(cores(2), Request(1))) == [("a", 0, 1, 1, False)]


def test_what_others_have_searched_is_forgotten_when_a_node_is_written_to():
    """A job that asks for more than another begins where that one ended, and at a node that has
    more since then."""
    bench = Bench()
    nodes = [
        bench.shape("a", ncpus=cpus, mem=mem) for cpus, mem in [(4, 1), (1, 4), (4, 4), (4, 4)]
    ]
    candidate = bench.candidate("a", limit=0, mem=4, nodes=nodes)

    def place(mem):
        return said(bench.place(AllOf([cores(2), MinResource("mem", mem)]), Request(1)))

    assert place(2) == [("a", 2, 3, 1, False)]
    assert place(3) == [("a", 3, 4, 1, False)]
    candidate.reshape({0: bench.shape("a", ncpus=4, mem=4)})
    assert place(4) == [("a", 0, 1, 1, False)]


def test_many_nodes_that_were_written_to_are_asked_again():
    """Each with what it has now, whichever of them is the first."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, nodes=[1] * 40)
    assert not bench.place(cores(2), Request(1))
    candidate.reshape({30: bench.shape("a", ncpus=4), 7: bench.shape("a", ncpus=2), 8: None})
    assert said(bench.place(cores(2), Request(9))) == [
        ("a", 7, 8, 1, False),
        ("a", 30, 31, 2, False),
    ]
    candidate.extend([bench.shape("a", ncpus=2), bench.shape("a", ncpus=3)])
    assert said(bench.place(cores(2), Request(9))) == [
        ("a", 40, 41, 1, False),
        ("a", 41, 42, 1, False),
    ]


def test_a_node_that_is_gone_takes_nothing():
    """Its position stays, empty."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, nodes=[4, 4, 4])
    candidate.reshape({1: None})
    assert said(bench.place(cores(4), Request(9))) == [("a", 0, 1, 1, False), ("a", 2, 3, 1, False)]
    assert free_cores(candidate) == [0, None, 0]


@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_node_that_one_limit_has_no_room_for_is_charged_to_none(short):
    """Whichever of several limits it is, and as often as it is tried."""
    bench = Bench()
    limits = [Limit(str(n), max_nodes=1 if n == short else 9, max_cores=99) for n in range(3)]
    candidate = bench.candidate("a", limits=limits)
    assert [bench.place_quietly(cores(4)) for _ in range(3)] == [[("a", 0, 1, 1, True)], [], []]
    assert [(a.used_nodes, a.used_cores) for a in limits] == [(1, 4)] * 3
    assert free_cores(candidate) == [0]
    assert not candidate.has_room_for(1)


def test_reserved_nodes_leave_room_for_themselves():
    """What is promised elsewhere is not opened here."""
    bench = Bench()
    bench.candidate("a", limit=2).reserved = 1
    assert [bool(bench.place_quietly(cores(4))) for _ in range(2)] == [True, False]


@given(
    st.lists(st.integers(0, 4), max_size=8),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6), st.booleans()), max_size=8),
)
def test_memory_changes_no_answer(nodes, wants):
    """A candidate that has been asked before answers as a new one in the same state."""
    used = Bench()
    candidate = used.candidate("a", limit=3, nodes=nodes)
    for amount, units, commit in wants:
        fresh = Bench()
        fresh.candidate("a", limit=3 - candidate.limits[0].used_nodes, nodes=free_cores(candidate))
        expected = units_by_position(fresh.planner.ask(cores(amount), Request(units)))
        plan = used.planner.ask(cores(amount), Request(units))
        assert units_by_position(plan) == expected
        if commit:
            used.planner.apply(plan)
