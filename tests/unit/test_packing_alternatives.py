"""An `or` looks at the alternatives that a node may meet, and comes to what asking all of them in
turn comes to."""

from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Anything, Bench, cores
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import Fit, MinResource, PropertyIs, ResourceIs
from hpc.autoscale.packing.reject import Reject

NAMES = st.lists(st.sampled_from(["a", "b", "c", "[ab]", "*", "a*"]), min_size=1, max_size=2)
LEAVES = st.one_of(
    NAMES.map(lambda names: PropertyIs("bucket", names)),
    st.sampled_from([1, 2, 3, 0.5]).map(cores),
    st.sampled_from([MinResource("ngpus", 1), MinResource("ncpus", 2, sized=True)]),
    st.just(ResourceIs("owner", ["ann"])),
)
ALTERNATIVES = st.lists(
    LEAVES | st.lists(LEAVES, min_size=1, max_size=3).map(AllOf), min_size=1, max_size=5
)
FREE = {
    "ncpus": st.integers(0, 4),
    "ngpus": st.integers(0, 2),
    "owner": st.sampled_from(["ann", "bob"]),
}


@given(ALTERNATIVES, st.sampled_from("abcd"), st.fixed_dictionaries(FREE))
def test_the_first_that_fits_counts(alternatives, bucket, free):
    """What it takes, how often, and which it is; or a refusal with what each of them says."""
    shape = Bench().shape(bucket, **free)
    fits = [child.fit(shape) for child in alternatives]
    found = AnyOf(alternatives).fit(shape)
    first = next((rank for rank, fit in enumerate(fits) if isinstance(fit, Fit)), None)
    if first is None:
        assert isinstance(found, Reject)
        assert found.explain().endswith("; ".join(fit.explain() for fit in fits))
    else:
        expected = fits[first]
        assert (found.count, found.take, found.rank) == (expected.count, expected.take, first)


@given(ALTERNATIVES, st.sampled_from("abcd"), st.fixed_dictionaries(FREE), st.booleans())
def test_a_node_that_fits_has_the_least(alternatives, bucket, free, known):
    """Of a node whose properties are known, or of which nothing is known."""
    expr, shape = AnyOf(alternatives), Bench().shape(bucket, **free)
    if isinstance(expr.fit(shape), Fit):
        minima = expr.minima_of({"bucket": bucket} if known else {})
        assert minima is not None
        assert all(free[name] >= amount for name, amount, _ in minima)


def test_only_what_a_node_may_meet_is_asked():
    """Of ten alternatives for ten sizes, one; and none for another size."""
    asked = []

    def alternative(name):
        return AllOf(
            [PropertyIs("bucket", [name]), Anything(lambda view: asked.append(name) or Fit())]
        )

    expr = AnyOf([alternative(name) for name in "abcdefghij"])
    assert expr.fit(Bench().shape("c")).rank == 2
    assert asked == ["c"]
    assert expr.minima_of({"bucket": "z"}) is None


def test_refusals_are_made_when_they_are_read():
    """Not for each node that refuses."""
    asked = []

    def no(view):
        asked.append(view)
        return Reject("Never", "no")

    shape = Bench().shape("z")
    refusal = AnyOf([AllOf([PropertyIs("bucket", ["a"]), Anything(no)]), Anything(no)]).fit(shape)
    assert len(asked) == 1
    assert "none of 2 alternatives" in refusal.explain()
    assert len(asked) == 2


def test_conditions_of_an_alternative_that_take_the_same_count_together():
    """A node with room for either of them and not for both does not meet the alternative."""
    both = {"and": [{"ncpus": 2}, {"ncpus": 3}]}
    refused = a_manager(an_htc_cluster()).allocate({"or": [both, {"ncpus": 64}]}, slot_count=1)
    assert refused.status == "NoCandidatesFound"
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8", 5, 5)
    (node,) = a_manager(cluster).allocate({"or": [both, {"ncpus": 1}]}, slot_count=1).nodes
    assert node.vm_size == "Standard_F8"
