"""Queues under short limits, expressions as modes, and who may go first, in the least-cost mode."""

import sys

import pytest

from builders.engine import Bench, cores
from builders.least_cost import Market
from hpc.autoscale.leastcost.generation import Effort, gap_of
from hpc.autoscale.leastcost.problem import is_plain, modes, roomy
from hpc.autoscale.leastcost.queue import EngineCopy, Wanted, plan_queue
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import (
    AnyNode,
    Exclusive,
    Expr,
    MinResource,
    Mode,
    PropertyIs,
    ResourceIs,
)
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Request

EFFORT = Effort(rounds=20)


def plan(market, wanted):
    """The plan of a queue of (cores, units)."""
    queue = [Wanted(cores(n) if isinstance(n, int) else n, units) for n, units in wanted]
    return plan_queue(queue, market.ranked, market.price_of, EFFORT)


def test_all_is_planned_where_there_is_room():
    """No cut, and every demand has its share."""
    market = Market()
    market.offer("a", 1.0, 8)
    cut = plan(market, [(4, 2), (2, 5), (4, 1)])
    assert cut.stopped_at is None
    assert [(s.demand, s.units) for s in cut.shares] == [(0, 2), (1, 5), (2, 1)]


def test_the_queue_is_cut_within_a_demand():
    """Two nodes take four units of four cores: the second demand gets one of its three, the third
    nothing."""
    market = Market()
    market.offer("a", 1.0, 8, limit=2)
    cut = plan(market, [(4, 3), (4, 3), (4, 1)])
    assert cut.stopped_at == 1
    assert [(s.demand, s.units) for s in cut.shares] == [(0, 3), (1, 1)]
    assert not any(cut.solution.unplaced)


def test_a_demand_without_any_place_stops_nobody():
    """It is named, and the rest is planned."""
    market = Market()
    market.offer("a", 1.0, 8)
    cut = plan(market, [(16, 1), (4, 2)])
    assert cut.unplaceable == [0]
    assert cut.stopped_at is None
    assert [s.demand for s in cut.shares] == [1]


def test_no_room_at_all_is_a_cut_before_the_first():
    """A common limit that is used up leaves everybody without a place."""
    market = Market()
    market.offer("a", 1.0, 8, limit=0)
    cut = plan(market, [(4, 1)])
    assert cut.unplaceable == [0]
    assert not cut.solution.lots


def test_equal_demands_are_one_item():
    """However many there are."""
    market = Market()
    market.offer("a", 1.0, 8)
    assert len(plan(market, [(4, 1)] * 50).problem.items) == 1


def test_an_exclusive_array_is_an_item_of_its_own():
    """Its units share a node with each other, and with nobody else's."""
    alone = AllOf([cores(2), Exclusive()])
    market = Market()
    market.offer("a", 1.0, 8)
    cut = plan(market, [(alone, 4), (alone, 4), (alone, 1), (alone, 1)])
    assert len(cut.problem.items) == 3
    assert sum(lot.nodes for lot in cut.solution.lots) == 4


SIZES = [(n, 1 + n % 3) for n in range(1, 400)]


def test_many_sizes_are_planned_node_by_node():
    """Hundreds of sizes all find room, at a price near the bound."""
    pytest.importorskip("highspy")
    market = Market()
    market.offer("a", 1.0, 1000, limit=10_000)
    cut = plan(market, SIZES)
    assert cut.stopped_at is None
    assert not any(cut.solution.unplaced)
    assert gap_of(cut.solution.price, cut.solution.bound) < 0.05


def test_without_the_solver_there_is_no_plan_for_many_sizes(monkeypatch):
    """They are left to first fit."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    market = Market()
    market.offer("a", 1.0, 1000, limit=10_000)
    assert plan(market, SIZES) is None


def test_there_is_no_plan_for_many_sizes_without_room_for_all():
    """They are left to first fit, which serves those who came first."""
    market = Market()
    market.offer("a", 1.0, 1000, limit=20)
    assert plan(market, SIZES) is None


@pytest.mark.parametrize(
    "expr",
    [AnyNode(), MinResource("ncpus", -1), MinResource("ncpus", float("inf"))],
    ids=str,
)
def test_what_cannot_be_read_as_amounts_is_left_to_first_fit(expr):
    """Any node, less than nothing, without end."""
    assert not is_plain(expr)


def test_an_expression_of_somebody_else_is_left_to_first_fit():
    """Also inside others."""

    class Odd(Expr):
        __slots__ = ()

    assert not is_plain(AllOf([cores(1), Odd(("odd",))]))


def test_endless_alternatives_are_left_to_first_fit():
    """Each `or` multiplies the ways in which a node may be used."""
    either = AnyOf([cores(1), cores(2)])
    assert is_plain(AllOf([either] * 4))
    assert not is_plain(AllOf([either] * 5))


def read(expr, **resources):
    """The modes of an expression on a node with some resources."""
    return modes(expr, roomy(Bench().shape("a", **resources)))


def test_amounts_add_up():
    """All that an expression takes of one resource."""
    assert read(AllOf([cores(2), cores(3)]), ncpus=1) == (Mode((("ncpus", 5),)),)


def test_alternatives_are_modes():
    """Those that a node can never meet are left out."""
    expr = AnyOf([cores(2), MinResource("ngpus", 1), PropertyIs("bucket", ["b"])])
    assert read(expr, ncpus=8) == (Mode((("ncpus", 2),)),)
    assert len(read(expr, ncpus=8, ngpus=1)) == 2


def test_exactly_one_and_not_may_turn_out_either_way():
    """What is refused for an amount now may be let through once there is less."""
    assert len(read(ExactlyOne([cores(2), MinResource("ngpus", 1)]), ncpus=8, ngpus=1)) == 2
    assert read(Negation(cores(4)), ncpus=8) == (Mode(),)
    assert read(Negation(PropertyIs("bucket", ["a"])), ncpus=8) == ()


def test_a_switch_is_on_or_off_for_good():
    """It is no amount, so what it refuses now it will refuse; an amount may come to be what is
    wanted."""
    assert read(ResourceIs("infiniband", [True]), infiniband=False) == ()
    assert read(ResourceIs("infiniband", [True]), infiniband=True) == (Mode(),)
    assert read(ResourceIs("ncpus", [4]), ncpus=8) == (Mode(),)


def test_exclusive_closes():
    """And is nothing for a node that is in use."""
    assert read(Exclusive(), ncpus=8) == (Mode((), True),)
    used = roomy(Bench().shape("a", ncpus=8, vacant=False))
    assert modes(Exclusive(), used) == ()


def bears(market, ncpus, units, others):
    """Whether new nodes have room for units of so many cores, and for nodes of others beside."""
    copy = EngineCopy(market.planner, market.price_of, has_nodes=False)
    return copy.place(cores(ncpus), Request(units)) == units and copy.bears(others)


def test_there_is_room_for_others_far_below_the_limits():
    """Even if others open as many nodes as they may need; room on nodes that are there is not
    counted."""
    market = Market()
    market.offer("a", 1.0, 8, limits=[Limit("quota", max_cores=800)], nodes=[8])
    assert bears(market, 4, 20, others=90)
    assert not bears(market, 4, 20, others=91)


def test_without_a_candidate_that_fits_there_is_not_room_for_all():
    """Nor with one that has too little by itself."""
    market = Market()
    market.offer("a", 1.0, 8, limit=3)
    assert not bears(market, 16, 1, others=0)
    assert not bears(market, 8, 4, others=0)
