"""Least-cost plans of small problems whose best plan is known."""

import math
import sys

import pytest

from builders.least_cost import Market, nodes_used, placed_units
from hpc.autoscale.leastcost.generation import COLUMNS, GREEDY, Effort, gap_of, solve
from hpc.autoscale.leastcost.problem import known_price
from hpc.autoscale.packing.expr import MinResource
from hpc.autoscale.packing.limits import Limit

REPEATABLE = Effort(rounds=50)


def hard_problem():
    """A problem that the greedy way does not solve."""
    market = Market()
    market.offer("a", 1.0, 100)
    market.offer("b", 0.52, 50)
    return market.problem({51: 7, 27: 9, 26: 9, 23: 13, 10: 3})


@pytest.fixture(params=[None, REPEATABLE], ids=["greedy", "columns"])
def effort(request):
    """Both ways to plan."""
    return request.param


def test_the_cheapest_size_per_unit_is_chosen(effort):
    """Large nodes where they are cheaper for what they hold."""
    market = Market()
    market.offer("small", 1.0, 4)
    market.offer("large", 1.5, 8)
    problem = market.problem({4: 10})
    solution = solve(problem, effort)
    assert nodes_used(problem, solution.lots) == {("large", True): 5}
    assert solution.price == pytest.approx(7.5)


def test_a_rest_goes_on_a_smaller_node(effort):
    """What does not fill a large node is put on a small one."""
    market = Market()
    market.offer("large", 1.6, 8)
    market.offer("small", 1.0, 4)
    problem = market.problem({4: 5})
    solution = solve(problem, effort)
    assert nodes_used(problem, solution.lots) == {("large", True): 2, ("small", True): 1}


def test_what_runs_already_is_free_and_used_first(effort):
    """Existing nodes cost nothing, so they are filled before any is opened."""
    market = Market()
    market.offer("a", 1.0, 8, nodes=[8, 4])
    problem = market.problem({4: 4})
    solution = solve(problem, effort)
    assert solution.price == pytest.approx(1.0)
    assert nodes_used(problem, solution.lots)[("a", False)] == 2


def test_sizes_are_combined_to_fill_nodes():
    """Columns find that 5 and 3 fill a node of 8, which neither does alone."""
    market = Market()
    market.offer("a", 1.0, 8)
    problem = market.problem({5: 6, 3: 6})
    solution = solve(problem, REPEATABLE)
    assert solution.price == pytest.approx(6.0)
    assert solution.bound == pytest.approx(6.0, rel=1e-3)


def test_columns_improve_on_the_greedy_plan():
    """Where filling one node well spoils the others, the search over loads does better."""
    market = Market()
    market.offer("a", 1.0, 12)
    wanted = {6: 4, 4: 6, 3: 8}
    problem = market.problem(wanted)
    solution = solve(problem, REPEATABLE)
    assert solution.price == pytest.approx(math.ceil(sum(n * k for n, k in wanted.items()) / 12))


def test_an_unknown_price_is_not_taken_for_free(effort):
    """A candidate without a price is left alone while a priced one has room."""
    market = Market()
    market.offer("unknown", None, 8)
    market.offer("known", 5.0, 8)
    problem = market.problem({4: 4})
    solution = solve(problem, effort)
    assert nodes_used(problem, solution.lots) == {("known", True): 2}
    assert solution.unpriced == 0


def test_a_candidate_without_a_price_is_the_last_resort(effort):
    """It is used where nothing priced has room, and its nodes are in neither price nor bound."""
    market = Market()
    market.offer("unknown", None, 8)
    market.offer("known", 5.0, 8, limit=1)
    problem = market.problem({4: 5})
    solution = solve(problem, effort)
    assert nodes_used(problem, solution.lots) == {("known", True): 1, ("unknown", True): 2}
    assert (solution.price, solution.unpriced) == (pytest.approx(5.0), 2)
    assert solution.bound <= 5.0


@pytest.mark.parametrize("price", [None, math.nan, math.inf, 0, -1.0, True, "3", object()])
def test_what_is_no_price_is_unknown(price):
    """Only numbers above 0 are prices."""
    assert known_price(price) is None


def test_a_shared_limit_holds_for_all_candidates_under_it(effort):
    """Two candidates that share a limit get no more nodes than it allows, whatever is cheaper."""
    market = Market()
    shared = Limit("shared", max_nodes=3)
    market.offer("cheap", 1.0, 4, limits=[shared])
    market.offer("other", 2.5, 8, limits=[shared])
    problem = market.problem({4: 5})
    solution = solve(problem, effort)
    assert not any(solution.unplaced)
    assert sum(nodes_used(problem, solution.lots).values()) <= 3
    assert solution.price == pytest.approx(6.0)


def test_limits_in_cores_hold(effort):
    """A quota of cores bounds the cores of all nodes under it."""
    market = Market()
    quota = Limit("quota", max_cores=12)
    market.offer("large", 1.0, 8, limits=[quota])
    market.offer("small", 2.0, 4, limits=[quota])
    problem = market.problem({4: 4})
    solution = solve(problem, effort)
    assert sum(solution.unplaced) == 1
    assert nodes_used(problem, solution.lots) == {("large", True): 1, ("small", True): 1}


def test_without_the_solver_the_greedy_plan_has_to_do(monkeypatch):
    """Effort without numpy and highspy installed is no error."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    market = Market()
    market.offer("a", 1.0, 12)
    solution = solve(market.problem({6: 4, 4: 6, 3: 8}), REPEATABLE)
    assert solution.method == GREEDY
    assert not any(solution.unplaced)
    assert 0 < solution.bound <= solution.price


def test_a_work_limit_makes_plans_repeatable():
    """The same problem gets the same plan."""
    lots = set()
    for _ in range(3):
        market = Market()
        market.offer("a", 1.0, 12)
        market.offer("b", 0.7, 8, nodes=[5, 3, 8])
        lots.add(solve(market.problem({7: 9, 5: 11, 3: 8, 2: 5}), Effort(rounds=20)).lots)
    assert len(lots) == 1


def test_time_that_is_up_ends_the_search():
    """Nothing is searched once the budget, asked through the clock that is given, is spent."""
    asked = []

    def seconds_left():
        asked.append(len(asked))
        return 0.0

    problem = hard_problem()
    assert solve(problem, Effort(seconds_left)).lots == solve(problem).lots
    assert asked


def test_a_clock_that_runs_on_ends_the_rounds():
    """Each look at the clock costs a second here, so three seconds end the search after few
    looks."""
    looks = []

    def seconds_left():
        looks.append(1)
        return 3.0 - len(looks)

    solve(hard_problem(), Effort(seconds_left))
    assert len(looks) < 12


def test_the_bound_is_never_above_the_price(effort):
    """Price, bound and gap agree with each other."""
    market = Market()
    market.offer("a", 1.0, 12)
    market.offer("b", 0.9, 8, nodes=[7, 6])
    solution = solve(market.problem({7: 9, 5: 11, 3: 8, 2: 5}), effort)
    assert 0 < solution.bound <= solution.price
    gap = gap_of(solution.price, solution.bound)
    assert gap == pytest.approx(solution.price / solution.bound - 1)


def test_nothing_to_pay_is_no_gap(effort):
    """What fits on running nodes costs nothing, and nothing is less."""
    market = Market()
    market.offer("a", 1.0, 8, nodes=[8])
    solution = solve(market.problem({2: 4}), effort)
    assert (solution.price, solution.bound, gap_of(0, solution.bound)) == (0, 0, 0)


def test_what_finds_no_room_is_said(effort):
    """Units without room are counted by item, and the bound then says nothing."""
    market = Market()
    market.offer("a", 1.0, 8, limit=1)
    solution = solve(market.problem({4: 3}), effort)
    assert solution.unplaced == (1,)
    assert solution.bound == 0


def test_a_deallocated_node_costs_what_a_new_one_does(effort):
    """It does not run, so an hour of it has its price, and it is charged to the limits."""
    market = Market()
    asleep = market.shape("a", ncpus=8, dormant=True)
    market.offer("a", 2.0, 8, limit=1, nodes=[asleep])
    problem = market.problem({4: 4})
    solution = solve(problem, effort)
    assert solution.price == pytest.approx(2.0)
    assert sum(solution.unplaced) == 2


def test_of_equal_prices_fewer_nodes_are_taken(effort):
    """Sizes that cost the same per core are no reason for many small nodes."""
    market = Market()
    market.offer("small", 0.25, 2)
    market.offer("large", 1.0, 8)
    problem = market.problem({2: 8, 1: 16})
    assert nodes_used(problem, solve(problem, effort).lots) == {("large", True): 4}


@pytest.mark.parametrize("garbage", [math.inf, math.nan, -5, "many", True])
def test_nodes_with_odd_amounts_do_no_harm(garbage, effort):
    """What a running node says of itself may be no amount at all."""
    market = Market()
    odd = market.shape("a", ncpus=garbage)
    market.offer("a", 1.0, 8, nodes=[odd])
    problem = market.problem({4: 2, 3: 1})
    solution = solve(problem, effort)
    assert not any(solution.unplaced)
    assert solution.price <= 2.0


def test_parts_of_amounts_are_counted():
    """Ten times 0.1 is one, here as in the engine."""
    market = Market()
    market.offer("a", 1.0, 1)
    solution = solve(market.problem({MinResource("ncpus", 0.1): 20}), REPEATABLE)
    assert solution.price == pytest.approx(2.0)


def test_the_way_that_won_is_named():
    """A plan that columns made says so, and costs less than the greedy one."""
    problem = hard_problem()
    greedily, searched = solve(problem), solve(problem, REPEATABLE)
    assert (greedily.method, searched.method) == (GREEDY, COLUMNS)
    assert searched.price < greedily.price
    assert placed_units(problem, searched.lots) >= problem.units
