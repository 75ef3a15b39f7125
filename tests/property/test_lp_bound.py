"""The lower bound of the least-cost mode is that of a second formulation, and no plan is better
than the least price."""

from collections import Counter

import pytest

from builders.cost_problems import features_of, problem
from builders.pattern_programme import arc_flow, least_price, loads_of, lower_bound
from builders.scenario_laws import for_scenarios, tell
from hpc.autoscale.leastcost.generation import COLUMNS, Effort, solve
from hpc.autoscale.leastcost.problem import Item, Problem
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import Exclusive, MinResource
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.planner import Planner

CLOSE = 5e-4
"""Relative: the search stops a little short of the end, prefers fewer nodes a little, and counts in
single precision."""

ROUNDS = Effort(rounds=300)


def expression(item):
    """What an item asks for, as the engine has it."""
    ways = [
        AllOf(
            [
                *(MinResource(name, way[name]) for name in ("ncpus", "memgb") if way[name]),
                *([Exclusive()] if way["closes"] else []),
            ]
        )
        for way in item["ways"]
    ]
    return ways[0] if len(ways) == 1 else AnyOf(ways)


def engine_problem(described):
    """The problem as the engine sees it."""
    planner, prices = Planner(), {}
    taken = [0, 0]
    for each in described["bins"]:
        taken[each["quota"]] += each["ncpus"] * len(each["there"])
    quotas = [
        Limit(f"quota{i}", max_cores=quota, used_cores=taken[i])
        for i, quota in enumerate(described["quotas"])
        if quota is not None
    ]
    quotas = {limit.name: limit for limit in quotas}
    for number, each in enumerate(described["bins"]):
        template = planner.table.template({"bucket": number}, {})
        amounts = {"ncpus": each["ncpus"], "memgb": each["memgb"]}
        new = planner.table.shape(template, amounts)
        most = Limit(f"bin{number}", max_nodes=each["most"], used_nodes=len(each["there"]))
        shared = quotas.get(f"quota{each['quota']}")
        candidate = Candidate(
            f"bin{number}", new, new, each["ncpus"], [most, *([shared] if shared else [])]
        )
        planner.add(candidate)
        for there in each["there"]:
            candidate.append(planner.table.shape(template, dict(there), vacant=False))
        prices[candidate] = each["price"]
    items = [Item(expression(item), item["units"]) for item in described["items"]]
    return Problem.of(items, lambda expr: planner.ranking(expr).candidates, prices.get)


@for_scenarios(times=4, make=problem, kinds=features_of)
def test_bound_is_that_of_the_second_formulation(described):
    """Never above it; and no lower, unless the plan reaches it so that the search has ended, or
    there are alternatives: the engine has its own way to choose among them, and loads that it would
    not make lower the bound and not the price.
    """
    found = solve(engine_problem(described), ROUNDS)
    if any(found.unplaced):
        assert found.bound == 0
        return
    bound = lower_bound(described)
    tell(described, f"{found.price} {found.bound} {bound}")
    assert bound is not None
    assert found.bound <= bound * (1 + 1e-6) + 1e-9
    chooses = any(len(item["ways"]) > 1 for item in described["items"])
    if not chooses and found.price > found.bound * (1 + CLOSE):
        assert found.bound >= bound * (1 - CLOSE)


@for_scenarios(times=2, make=problem, kinds=features_of)
def test_greedy_bound_is_never_above_it(described):
    """Without the search there is a weaker one."""
    found = solve(engine_problem(described))
    if not any(found.unplaced):
        assert found.bound <= lower_bound(described) * (1 + 1e-6) + 1e-9


@for_scenarios(times=2, make=problem, kinds=features_of)
def test_no_plan_is_better_than_the_least_price(described):
    """That of whole nodes, by integer programming; or it would place too little, or overfill
    something."""
    found = solve(engine_problem(described), ROUNDS)
    if any(found.unplaced):
        return
    least = least_price(described)
    tell(described, f"{found.price} {least}")
    assert least is not None
    assert found.price >= least * (1 - 1e-6) - 1e-9
    assert found.bound <= least * (1 + 1e-6) + 1e-9


@for_scenarios(make=problem, kinds=features_of)
def test_same_problem_same_plan(described):
    """Under a limit of work in place of one of time."""
    one, other = (solve(engine_problem(described), ROUNDS) for _ in range(2))
    assert one == other


def without_limits(sizes, units, bins):
    """A problem of one resource."""
    return {
        "bins": [
            {"ncpus": n, "memgb": 0, "price": p, "most": 1000, "quota": 0, "there": []}
            for n, p in bins
        ],
        "quotas": [None, None],
        "items": [
            {"ways": [{"ncpus": size, "memgb": 0, "closes": False}], "units": n}
            for size, n in zip(sizes, units, strict=True)
        ],
    }


@pytest.mark.parametrize(
    ("sizes", "units", "bins"),
    [
        ((3, 5, 7), (20, 15, 10), [(16, 1.0), (10, 0.7)]),
        ((2, 3), (31, 17), [(7, 1.0)]),
        ((4, 9, 11), (40, 30, 21), [(32, 2.3), (20, 1.2), (12, 0.9)]),
    ],
)
def test_arc_flow_says_the_same(sizes, units, bins):
    """A third formulation, so that the second one is not alone in what it says."""
    described = without_limits(sizes, units, bins)
    bound = arc_flow(sizes, units, [n for n, _ in bins], [p for _, p in bins])
    assert lower_bound(described) == pytest.approx(bound)
    assert solve(engine_problem(described), ROUNDS).bound == pytest.approx(bound, rel=CLOSE)


def test_bound_by_hand():
    """Three halves of a node need a node and a half; in whole nodes two."""
    described = without_limits((2,), (3,), [(4, 1.0)])
    assert lower_bound(described) == pytest.approx(1.5)
    assert least_price(described) == pytest.approx(2.0)
    assert loads_of({"ncpus": 4, "memgb": 0}, described["items"], False) == [(0,), (1,), (2,)]


def test_what_cannot_be_placed_has_no_bound():
    """By any of them."""
    described = without_limits((2,), (9,), [(4, 1.0)])
    described["bins"][0]["most"] = 3
    assert lower_bound(described) is None
    assert least_price(described) is None
    assert solve(engine_problem(described), ROUNDS).bound == 0


def test_every_kind_of_problem_occurs():
    """Also those for which the search has something to do."""
    counts = Counter()
    for seed in range(150):
        described = problem(seed)
        found = solve(engine_problem(described), ROUNDS)
        counts.update(set(features_of(described)))
        counts["searched"] += found.method == COLUMNS
        counts["unplaced"] += any(found.unplaced)
        counts["a gap"] += found.price > found.bound * (1 + CLOSE)
    expected = {
        *("nodes that are there", "few nodes", "quota", "alternatives", "one way", "closes"),
        *("searched", "unplaced", "a gap"),
    }
    assert {kind for kind in expected if counts[kind] < 5} == set()


def test_few_nodes_at_a_low_price_do_not_raise_the_bound():
    """What is paid for a node that is one of few goes down with the other prices, when they are too
    high."""
    bins = [
        {"ncpus": 6, "memgb": 0, "price": 3.72, "most": 5, "quota": 1, "there": []},
        {"ncpus": 4, "memgb": 0, "price": 5.237, "most": 1000, "quota": 0, "there": []},
    ]
    described = {**without_limits((1, 4), (12, 5), []), "bins": bins}
    bound = lower_bound(described)
    assert solve(engine_problem(described), ROUNDS).bound == pytest.approx(bound, rel=CLOSE)
    assert solve(engine_problem(described), ROUNDS).bound <= bound * (1 + 1e-9)
