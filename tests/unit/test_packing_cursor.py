"""What is remembered between demands hides nothing, and what is ranked at once is ranked as if each
had been asked."""

import math

from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Anything, Bench, cores, said
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Fit, MinResource, ResourceIs
from hpc.autoscale.packing.feasibility import Feasibility
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.shape import Unit

GIB = Unit(2**30, "g")


def test_a_candidate_that_changes_again_is_asked_again():
    """Also when nothing else happened since it was last found full."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, nodes=[1])
    for _ in range(2):
        assert not bench.place(cores(4), Request(1))
        candidate.append(bench.shape("a", ncpus=4))
        assert bench.place(cores(4), Request(1))
    candidate.reshape({0: bench.shape("a", ncpus=4)})
    assert said(bench.place(cores(4), Request(1))) == [("a", 0, 1, 1, False)]


def test_many_changes_are_as_one():
    """More than there are candidates, in candidates that do not concern the demand too."""
    bench = Bench()
    a, b = bench.candidate("a", limit=0, nodes=[0]), bench.candidate("b", limit=0)
    assert not bench.place(cores(1), Request(1))
    for _ in range(9):
        a.append(bench.shape("a", ncpus=0))
    b.append(bench.shape("b", ncpus=1))
    assert said(bench.place(cores(1), Request(1))) == [("b", 0, 1, 1, False)]


def test_nodes_that_were_added_together_may_differ_by_now():
    """The first one of them was closed by somebody else meanwhile; the others still have room."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0)
    assert not bench.place(cores(2), Request(1))
    candidate.append(bench.shape("a", ncpus=4), 3)
    candidate.fill(0, 1, bench.shape("a", ncpus=4, closed=True))
    assert said(bench.place(cores(2), Request(3))) == [("a", 1, 2, 2, False), ("a", 2, 3, 1, False)]


class Counting(list):
    """A list that counts what of it is copied, and how often it is asked how long it is."""

    copied = measured = 0

    def __len__(self):
        self.measured += 1
        return super().__len__()

    def __getitem__(self, at):
        found = super().__getitem__(at)
        if isinstance(at, slice):
            self.copied += len(found)
        return found


def test_each_expression_does_not_look_at_every_node():
    """Where thousands of nodes were added since it was last asked, those with room are looked up;
    who came back looked at all of them, which took longer the more jobs there were."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, ncpus=200)
    shapes = candidate.shapes = Counting()
    changes = candidate.changes
    changes.added, changes.shapes = Counting(), Counting()
    demands = [cores(amount) for amount in range(100, 150)]
    for _ in range(3):
        for demand in demands:
            assert not bench.place_quietly(demand)
        candidate.extend([bench.shape("a", ncpus=n % 100) for n in range(3_000)])
    candidate.extend([bench.shape("a", ncpus=120)])
    for demand in demands[:21]:
        assert said(bench.planner.ask(demand, Request(1))) == [("a", 9_000, 9_001, 1, False)]
    assert not bench.place_quietly(demands[21])
    assert shapes.copied < 50_000  # some 450,000 where each looks at every node
    # nor at each of the changes; some 300,000 where it does
    assert changes.added.copied + changes.shapes.copied < 5_000


def test_candidates_that_did_not_change_are_not_looked_at():
    """With hundreds of buckets, to look at each took longer than to place the job."""
    bench = Bench()
    candidates = [bench.candidate(f"c{n:03}", limit=0) for n in range(100)]
    assert not bench.place(cores(1), Request(1))
    for candidate in candidates:
        candidate.shapes = Counting()
    for number in range(60):
        candidates[number].append(bench.shape(f"c{number:03}", ncpus=1))
        (step,) = said(bench.place(cores(1), Request(1)))
        assert step == (f"c{number:03}", 0, 1, 1, False)
    assert all(0 < each.shapes.measured < 10 for each in candidates[:60])
    assert sum(each.shapes.measured for each in candidates[60:]) < 60


def test_room_that_is_given_back_is_seen():
    """A limit that was short is asked again each time."""
    bench = Bench()
    candidate = bench.candidate("a", limit=1)
    assert bench.place(cores(4), Request(1))
    assert not bench.place(cores(4), Request(1))
    assert not bench.place(cores(4), Request(1, whole=True))
    candidate.limits[0].charge(-1, -4)
    assert bench.place(cores(4), Request(1, whole=True))
    candidate.limits[0].charge(-1, -4)
    assert bench.place(cores(4), Request(1))


def test_a_shape_is_asked_once():
    """However many nodes look like it, and however many demands there are."""
    asked = []

    def fit(view):
        asked.append(view)
        return Fit(1, (("ncpus", 1),))

    bench = Bench()
    bench.candidate("a", nodes=[4, 4, 4])
    anything = Anything(fit)
    bench.planner.ranking(anything)
    asked.clear()
    for _ in range(6):
        assert bench.place_quietly(anything)
    assert 0 < len(asked) == len(set(map(id, asked)))


AMOUNTS = st.one_of(
    st.integers(-1, 4),
    st.sampled_from([0.5, 1 - 1.0005e-9, 1 - 9e-10, 3.0, math.inf, math.nan, "four", None, True]),
)
EXPRS = st.one_of(
    st.sampled_from([0, 1, 2, 0.5, 3, 5]).map(cores),
    st.sampled_from([1, 2**30, 2**31]).map(lambda n: MinResource("ncpus", n, sized=True)),
    st.sampled_from([1, "four", "gone"]).map(lambda v: ResourceIs("ncpus", [v])),
    st.just(ResourceIs("gone", [1])),
    st.just(MinResource("gone", 1)),
)


@given(
    st.lists(st.tuples(AMOUNTS, st.booleans(), st.booleans(), st.booleans()), max_size=5),
    st.lists(st.lists(EXPRS, min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_a_survey_knows_who_may_serve(buckets, demands):
    """As many demands as there are, each bucket that meets all conditions is named, artificial ones
    always."""
    bench = Bench()
    candidates = []
    for index, (amount, sized, closed, artificial) in enumerate(buckets):
        candidate = bench.candidate(str(index), artificial=artificial)
        units = {"ncpus": GIB} if sized else {}
        candidate.bucket_shape = bench.shape(str(index), units, ncpus=amount, closed=closed)
        candidates.append(candidate)
    feasibility = Feasibility(candidates)
    survey = Feasibility(candidates)
    for demand in demands:
        serving = {
            candidate.name
            for candidate in candidates
            if candidate.artificial
            or all(isinstance(candidate.bucket_shape.fit(e), Fit) for e in demand)
        }
        ranking = feasibility.rank(AllOf(demand))
        assert {candidate.name for candidate in ranking.candidates} == serving
        assert {candidate.name for candidate, _ in ranking.rejects} == {
            s.name for s in candidates
        } - serving
        ranking = survey.rank(AllOf(demand))
        assert {candidate.name for candidate, _ in ranking.rejects} == {
            s.name for s in candidates
        } - serving
