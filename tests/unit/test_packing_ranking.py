"""In which order candidates are asked."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, cores, named, said
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import (
    AnyNode,
    Impossible,
    MinResource,
    PropertyIs,
    ResourceIs,
    Rested,
)
from hpc.autoscale.packing.feasibility import Feasibility
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import Unit

AMOUNTS = st.one_of(
    st.integers(-1, 6),
    st.sampled_from([0.5, 1 - 1.0005e-9, 2 - 9e-10, math.inf, math.nan]),
    st.sampled_from(["four", None, True]),
)
CONDITIONS = st.one_of(
    st.sampled_from([0, 1, 2, 0.5, 3]).map(cores),
    st.just(MinResource("ncpus", 2 * 2**30, sized=True)),
    st.just(MinResource("gone", 1)),
    st.sampled_from([ResourceIs("ncpus", [4, 2]), ResourceIs("ncpus", ["four"]), Impossible("no")]),
    st.sampled_from([ResourceIs("gone", ["x"]), PropertyIs("bucket", ["s3", "s*"]), named("s1")]),
    st.sampled_from([ResourceIs("ncpus", ["x", "four"]), ResourceIs("ncpus", ["four", None])]),
    st.sampled_from([PropertyIs("bucket", ["s4", "s1"]), PropertyIs("bucket", ["s[12]", "x"])]),
    st.just(AnyOf([cores(3), named("s2")])),
)


@given(
    st.lists(st.tuples(AMOUNTS, st.booleans(), st.booleans(), st.booleans()), max_size=8),
    st.lists(CONDITIONS, max_size=3),
)
def test_a_survey_says_what_asking_each_bucket_says(buckets, conditions):
    """Whatever amounts and units there are: who meets every condition, in the order of their
    weights."""
    bench = Bench()
    for index, (amount, sized, closed, artificial) in enumerate(buckets):
        candidate = bench.candidate(f"s{index}", artificial=artificial)
        units = {"ncpus": Unit(2**30, "g")} if sized else {}
        candidate.bucket_shape = bench.shape(f"s{index}", units, ncpus=amount, closed=closed)
    candidates, expr = bench.planner.candidates, AllOf(conditions)
    shapes = [candidate.bucket_shape for candidate in candidates]
    weights = [expr.weigh(shape, float(len(candidates) - i)) for i, shape in enumerate(shapes)]
    serving = [
        i
        for i in sorted(range(len(candidates)), key=lambda i: -weights[i])
        if candidates[i].artificial
        or (not shapes[i].closed and all(c.fit(shapes[i]) for c in conditions))
    ]
    expected = sorted(serving, key=lambda i: not candidates[i].artificial)
    ranking = Feasibility(candidates).rank(expr)
    assert [candidate.name for candidate in ranking.candidates] == [
        candidates[i].name for i in expected
    ]
    refused = {candidate.name for candidate, _ in ranking.rejects}
    assert refused == {
        candidate.name for candidate in candidates if candidate not in ranking.candidates
    }


@pytest.fixture
def bench():
    """Three candidates: a, b and c."""
    bench = Bench()
    for name in "abc":
        bench.candidate(name, owner=f"o-{name}")
    return bench


def order(bench, expr):
    """Names of those that may serve, best first."""
    return "".join(
        candidate.name for candidate in Feasibility(bench.planner.candidates).rank(expr).candidates
    )


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (AnyNode(), "abc"),
        (cores(1), "abc"),
        (PropertyIs("bucket", ["c", "b", "a"]), "cba"),
        (PropertyIs("bucket", ["c", "*"]), "cab"),
        (PropertyIs("bucket", ["b"]), "b"),
        (ResourceIs("owner", ["o-b", "o-c"]), "bc"),
        (AnyOf([named("c"), named("a")]), "ca"),
        (ExactlyOne([named("c"), named("a")]), "ac"),
        (Negation(named("a")), "bc"),
        (Negation(PropertyIs("bucket", ["c", "b"])), "a"),
        (AllOf([PropertyIs("bucket", ["b", "a"]), PropertyIs("bucket", ["a", "b"])]), "ab"),
        (AllOf([PropertyIs("bucket", ["c", "*"]), ResourceIs("owner", ["o-b", "*"])]), "bca"),
        (Impossible("no"), ""),
    ],
)
def test_preferences_then_declared_order(bench, expr, expected):
    """Preferences add up, equals stay as declared, and what does not fit is left out."""
    assert order(bench, expr) == expected


def test_those_left_out_say_why_in_the_order_of_preference(bench):
    """Every refusal is kept with its candidate."""
    ranking = Feasibility(bench.planner.candidates).rank(
        AllOf([PropertyIs("bucket", ["c", "a"]), cores(5)])
    )
    assert ranking.candidates == ()
    assert [candidate.name for candidate, _ in ranking.rejects] == ["c", "a", "b"]
    codes = [reject.code for _, reject in ranking.rejects]
    assert codes == ["InsufficientResource", "InsufficientResource", "InvalidOption"]


def test_conditions_are_asked_one_by_one(bench):
    """A node that is there may have room for all of them where a new one has not, so the bucket is
    not left out."""
    together = AllOf([cores(2), AnyOf([AllOf([named("z"), cores(1)]), cores(3)])])
    assert order(bench, together) == "abc"
    candidate = bench.planner.candidates[0]
    candidate.append(bench.shape("z", ncpus=4))
    assert said(bench.place(together, Request(9))) == [("a", 0, 1, 1, False)]


def test_machines_that_are_there_anyway_come_first():
    """Artificial candidates go before real ones, whatever is preferred."""
    bench = Bench()
    for name in "abc":
        bench.candidate(name, artificial=name == "b")
    assert order(bench, PropertyIs("bucket", ["c", "b", "a"])) == "bca"


def test_a_bucket_that_just_failed_is_asked_for_its_nodes():
    """That capacity failed is no reason to leave it out; see `Candidate.opening`."""
    bench = Bench()
    bench.candidate("a", failed=30.0)
    bench.candidate("b", failed=90.0)
    bench.candidate("c")
    assert order(bench, Rested(60)) == "abc"
    assert order(bench, AllOf([Rested(60), PropertyIs("bucket", ["c", "b", "a"])])) == "cba"


def test_a_closed_bucket_example_is_refused():
    """A bucket is asked as a node would be."""
    bench = Bench()
    candidate = bench.candidate("a")
    candidate.bucket_shape = bench.shape("a", ncpus=4, closed=True)
    assert Feasibility([candidate]).rank(cores(1)).rejects == ((candidate, Reject("NodeClosed")),)


def test_rankings_are_remembered_until_something_changes(bench):
    """The same object is handed out until a candidate comes or rankings are forgotten."""
    planner = bench.planner
    first = planner.ranking(cores(1))
    assert planner.ranking(cores(1)) is first
    planner.forget_rankings()
    assert planner.ranking(cores(1)) is not first
    assert planner.ranking(cores(1)).candidates == first.candidates
    bench.candidate("d")
    assert len(planner.ranking(cores(1)).candidates) == 4
