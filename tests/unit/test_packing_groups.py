"""The index of placement groups says what trying each group says."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.engine import cores, free_cores, said
from builders.gangs import NODES, Site, nodes
from hpc.autoscale.packing.compound import AllOf, AnyOf, Negation
from hpc.autoscale.packing.expr import InPlacementGroup, PropertyIs
from hpc.autoscale.packing.plan import Request, Trial
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.search import Groups, families, plan_whole

# -- the index says what trying says

ANY_GROUP = st.fixed_dictionaries(
    {
        "size": st.sampled_from(["F4", "F4", "F4", "F8"]),
        "room": st.integers(0, 4),
        "busy": st.integers(0, 1),
        "idle": st.lists(st.integers(0, 4), max_size=2),
    }
)
ODD_GROUP = ANY_GROUP.map(lambda group: {**group, "ncpus": 2})
EXPRS = st.sampled_from(
    [
        NODES,
        AllOf([InPlacementGroup(), cores(1)]),
        AllOf([InPlacementGroup(), cores(2)]),
        AllOf([InPlacementGroup(), Negation(cores(2))]),
        AllOf([NODES, PropertyIs("placement_group", ["pg2", "pg0", "pg1"])]),
        AllOf([AnyOf([AllOf([PropertyIs("placement_group", ["pg1"]), cores(1)]), cores(2)])]),
    ]
)
WANTS = st.builds(Request, st.integers(1, 5), st.sampled_from([1, 2**62]), st.just(True))
HAPPENINGS = st.one_of(
    st.tuples(st.just("ask"), EXPRS, WANTS),
    st.tuples(st.just("ask"), st.just(NODES), WANTS),
    st.tuples(st.just("reserve"), st.integers(0, 5), st.integers(0, 2)),
    st.tuples(st.just("give back"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("gone"), st.integers(0, 5), st.just(0)),
)


def happen(site, what, which, amount):
    """Something from outside, to one of the candidates."""
    candidate = site.planner.candidates[which % len(site.planner.candidates)]
    if what == "reserve":
        candidate.reserved = amount
    elif what == "give back":
        used = candidate.limits[1].used_nodes
        for limit in candidate.limits:
            limit.charge(-used, -4 * used)
    elif what == "gone" and candidate.shapes:
        candidate.reshape(dict.fromkeys(range(len(candidate.shapes))))


@settings(max_examples=200)
@given(
    st.lists(ANY_GROUP, min_size=2, max_size=6)
    | st.lists(ANY_GROUP | ODD_GROUP, min_size=1, max_size=6),
    st.integers(4, 20),
    st.booleans(),
    st.lists(HAPPENINGS, min_size=10, max_size=25),
)
def test_the_index_says_what_trying_says(described, limit, existing_first, happenings):
    """The same place for a gang, or the same that could be taken of it by each candidate."""
    site = Site(existing_first, F4=limit)
    for number, each in enumerate(described):
        site.group(f"pg{number}", **each)
    for what, first, second in happenings:
        if what != "ask":
            happen(site, what, first, second)
            continue
        ranked = site.planner.ranking(first).candidates
        cursor = site.planner.cursor(first)
        cursor.catch_up()
        tried = plan_whole(second, cursor, existing_first, None)
        found = site.planner.ask(first, second)
        assert said(found) == said(tried)
        if found:
            site.planner.apply(found)
            continue
        could = [[(s.name, r.facts[:3]) for s, r in each.rejects] for each in (found, tried)]
        if not any(candidate.reserved for candidate in ranked):
            assert could[0] == could[1]
        assert len(could[0]) == len(ranked)
        for candidate in site.planner.candidates:
            assert candidate.limits[1].used_nodes <= candidate.limits[1].max_nodes


@given(st.lists(ANY_GROUP, min_size=1, max_size=8))
def test_families_are_all_candidates(described):
    """Each once; those of one size together, in order."""
    site = Site()
    for number, each in enumerate(described):
        site.group(f"pg{number}", **each)
    found = families(site.planner.candidates)
    assert sorted(i for members in found for i in members) == list(range(len(described)))
    assert len(found) == len({each["size"] for each in described})
    for members in found:
        assert all(before < after for before, after in pairwise(members))
        assert len({described[i]["size"] for i in members}) == 1


def test_machines_that_cannot_be_ordered_are_alone():
    """Whatever group they are in."""
    site = Site()
    site.group("a")
    site.group("b", artificial=True, idle=[4])
    site.group("c")
    assert families(site.planner.candidates) == [(0, 2), (1,)]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (NODES, True),
        (InPlacementGroup(), True),
        (AllOf([NODES, PropertyIs("placement_group", ["a"])]), True),
        (AnyOf([PropertyIs("placement_group", ["a"]), cores(1)]), False),
        (AllOf([cores(1), Negation(InPlacementGroup())]), True),
    ],
)
def test_what_asks_the_same_of_every_group(expr, expected):
    """A condition on the group that must hold leaves others out, and says nothing of those that are
    left."""
    site = Site()
    candidate = site.group("a")
    assert Groups([candidate], candidate.changes).treats_alike(expr) is expected


def test_free_amounts_after_a_gang():
    """Nodes of a gang are closed when it wants them for itself."""
    site = Site()
    a = site.group("a", idle=[4])
    site.where(nodes(2))
    assert free_cores(a) == [3, 3]
    assert all(shape.closed for shape in a.shapes)


class Fickle:
    """A probe that agrees to so many new nodes, and to none after them."""

    def __init__(self, site, times):
        self.site = site
        self.times = times

    def __call__(self, candidate, position, units):
        if not self.times:
            return Reject("Never", "no more")
        self.times -= 1
        return Trial(1, candidate.new_shape)

    def refuses_new(self, candidate):
        return None

    def positions(self, candidate):
        return None

    def settle(self, keep):
        return ()


@pytest.mark.parametrize("times", range(8))
def test_a_constraint_that_changes_its_mind_does_not_split_a_gang(times):
    """What was agreed to when it was tried may not be when it is done; then it is none of it."""
    site = Site()
    site.group("a", busy=1)
    site.group("b", busy=1)
    plan = site.planner.ask(NODES, nodes(2), site.planner.candidates, Fickle(site, times))
    assert plan.units in (0, 2)
    assert sum(placed.units for placed in plan.steps) == plan.units
