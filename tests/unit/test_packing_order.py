"""Order policies: what each makes of the facts of a bucket, and which answers are refused."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.packing.order import (
    BUILT_IN,
    HALF_LIFE_SECONDS,
    RECENT_SECONDS,
    Offering,
    PolicyError,
    arranged,
    capacity_aware,
    cheapest,
    checked,
    known_policies,
    least_waste,
    register_policy,
    spot_first,
    unregister_policy,
)


def offering(price=None, **facts):
    """A bucket of four cores, unless the facts say otherwise."""
    return Offering("htc", "Standard_F4", **{"vcpu_count": 4, "ask_price": lambda: price, **facts})


def order(policy, *offerings):
    """The letters of offerings in the policy's order."""
    return "".join("abcdefgh"[i] for i in arranged(policy, offerings))


def failed(seconds, **facts):
    """A bucket that had a capacity failure so long ago."""
    return offering(last_capacity_failure=seconds, **facts)


def scored(score, **facts):
    """A spot bucket with a placement score."""
    return offering(spot=True, spot_placement_score=score, **facts)


def test_declared_is_the_order_that_is_given():
    """Whatever the buckets are."""
    assert order(BUILT_IN["declared"], scored("Low"), offering(0.1), failed(1)) == "abc"


def test_cheapest_is_by_core():
    """A large node at the same price for a core is no dearer; equal ones stay in order."""
    small, large = offering(0.4), offering(0.8, vcpu_count=8)
    assert order(cheapest, offering(0.5), small, large, offering(0.3)) == "dbca"


def needing(nodes, price, **facts):
    """A bucket in which a demand needs so many nodes."""
    return offering(price, ask_nodes_needed=lambda: nodes, **facts)


def test_cheapest_for_a_demand_is_by_what_it_needs():
    """Nodes times price, whatever a core costs; equal ones stay in order, and unknown prices are
    last."""
    large = needing(1, 3.96, vcpu_count=120)
    assert order(cheapest, large, needing(1, 0.1)) == "ba"
    assert order(cheapest, needing(1, None), large, needing(40, 0.1)) == "bca"
    assert order(cheapest, needing(2, 0.5), needing(1, 1.0), needing(4, 0.2)) == "cab"


def taking(share, price, **facts):
    """A bucket of which one slot of a demand takes such a share of a node."""
    return offering(price, ask_share_of_node=lambda: share, **facts)


def test_least_waste_is_by_the_price_of_what_a_slot_takes():
    """Whatever else is on the node; of equal ones the cheaper node is first, and unknown prices are
    last."""
    assert order(least_waste, taking(0.5, 1.0), taking(0.25, 1.9), taking(1.0, 0.4)) == "cba"
    assert order(least_waste, taking(3 / 64, 3.072), taking(3 / 4, 0.192)) == "ba"
    assert order(least_waste, taking(0.0, None), taking(1.0, 9.0), taking(0.1, 1.0)) == "cba"
    assert order(least_waste, offering(0.4), offering(0.3), offering(None)) == "bac"


def test_what_an_offering_is_without_a_demand():
    """Positional facts are what they were, and nothing is needed."""
    one = Offering("htc", "F4", "westus2", True, "pg0", 4, 1, 10.0, "Low", lambda: 0.5)
    assert (one.price_per_hour, one.nodes_needed, one.share_of_node) == (0.5, None, None)


def test_an_unknown_price_is_never_cheap():
    """It comes after the dearest."""
    assert order(cheapest, offering(None), offering(1e9), offering(None), offering(0.1)) == "dbac"


def test_a_bucket_without_cores_is_not_divided_by():
    """It counts as one core."""
    assert cheapest(offering(2.0, vcpu_count=0)) == (0, 2.0)


def test_spot_first_then_regular():
    """In declared order each."""
    spot, regular = offering(spot=True), offering()
    assert order(spot_first, regular, spot, regular, spot) == "bdac"


def test_spot_without_capacity_gives_way_to_regular():
    """For an hour after the last failure, even where the regular bucket failed too."""
    short = failed(RECENT_SECONDS - 1, spot=True)
    assert order(spot_first, short, failed(5), offering()) == "bca"
    assert order(spot_first, offering(), failed(RECENT_SECONDS, spot=True)) == "ba"


def test_the_longer_ago_the_better():
    """A bucket that never failed first, then the one whose failure is longest ago; after an hour it
    is forgotten."""
    assert order(capacity_aware, failed(10), failed(600), offering(), failed(3000)) == "cdba"
    assert order(capacity_aware, failed(RECENT_SECONDS), offering()) == "ab"


def test_half_lives():
    """A failure weighs 1 at once, half of it after one."""
    assert capacity_aware(failed(0)) == 1
    assert capacity_aware(failed(HALF_LIFE_SECONDS)) == pytest.approx(0.5)


@pytest.mark.parametrize("never", [None, -1.0, math.inf])
def test_never_failed(never):
    """What the server says of buckets that never failed weighs nothing."""
    assert capacity_aware(failed(never)) == 0
    assert spot_first(failed(never, spot=True)) == 0


def test_placement_scores():
    """High before medium before low; no score, and one that nobody knows, tell of no shortage."""
    found = [capacity_aware(scored(s)) for s in ("High", "medium", "LOW", None, "", "DataNotFound")]
    assert found == [0, 0.25, 0.5, 0, 0, 0]
    assert capacity_aware(offering(spot_placement_score="Low")) == 0


def test_a_failure_and_a_low_score_add_up():
    """A bucket with both comes after one with either."""
    assert order(capacity_aware, scored("Low", last_capacity_failure=10), failed(10)) == "ba"


def test_prices_are_asked_for_when_they_matter():
    """The price list is not read for other policies."""
    asked = []
    one = Offering("htc", "Standard_F4", ask_price=lambda: asked.append(1))
    for name in ("declared", "spot-first", "capacity-aware"):
        arranged(BUILT_IN[name], [one])
    assert not asked
    assert (one.price_per_hour, asked) == (None, [1])


@pytest.mark.parametrize("key", ["cheap", None, math.nan, (1, None), [1], (0, math.nan)])
def test_an_answer_that_is_no_key(key):
    """Says which policy, which bucket, what was expected and what was found."""

    def odd(one):
        return key

    with pytest.raises(
        PolicyError, match=r"order policy odd: expected a number .* htc, Standard_F4"
    ):
        arranged(odd, [offering(placement_group="pg0")])


def test_keys_that_cannot_be_compared():
    """All must be of one length."""

    def odd(one):
        return (1, 2) if one.spot else 1

    with pytest.raises(PolicyError, match=r"keys of one length, found \(1,\) for .* and \(1, 2\)"):
        arranged(odd, [offering(), offering(spot=True)])


def test_a_policy_that_raises_is_named():
    """A KeyError of its says nothing by itself."""

    def by_zone(offering):
        return {"eastus": 1}[offering.nodearray]

    with pytest.raises(PolicyError, match=r"^order policy by_zone: KeyError: 'htc'$"):
        arranged(by_zone, [offering()])


class Named:
    """A policy that is an object."""

    def __call__(self, one):
        return -one.vcpu_count


@pytest.mark.parametrize(
    "given_as", [Named(), Named, Named().__call__, lambda one: -one.vcpu_count]
)
def test_what_can_be_a_policy(given_as):
    """An object, its class, a method, a function."""
    policy = checked(given_as, "largest")
    assert order(policy, offering(), offering(vcpu_count=8)) == "ba"


def test_registered_policies():
    """Known by their name until they are forgotten; the last one of a name counts."""
    register_policy("mine", cheapest)
    register_policy("mine", spot_first)
    assert known_policies()["mine"] is spot_first
    unregister_policy("mine")
    unregister_policy("mine")
    assert known_policies() == BUILT_IN


@pytest.mark.parametrize(
    ("name", "policy", "said"),
    [
        ("cheapest", cheapest, "other than declared, cheapest, .* found 'cheapest'"),
        ("", cheapest, "found ''"),
        (3, cheapest, "found 3"),
        ("mine", "cheapest", "order policy mine: expected a function .* found 'cheapest'"),
    ],
)
def test_what_cannot_be_registered(name, policy, said):
    """The library's names, no name, and what is no policy."""
    with pytest.raises(PolicyError, match=said):
        register_policy(name, policy)
    assert known_policies() == BUILT_IN


OFFERINGS = st.lists(
    st.builds(
        offering,
        st.none() | st.floats(0.01, 10),
        spot=st.booleans(),
        vcpu_count=st.integers(0, 96),
        last_capacity_failure=st.none() | st.floats(-1, 10_000),
        spot_placement_score=st.sampled_from([None, "High", "Medium", "Low", "?"]),
    ),
    max_size=8,
)


@given(OFFERINGS, st.sampled_from(sorted(BUILT_IN)), st.data())
def test_laws_of_order(offerings, name, data):
    """All buckets, each once; the same for the same; equal keys as declared; without one bucket the
    others stay in order."""
    policy = BUILT_IN[name]
    found = arranged(policy, offerings)
    assert sorted(found) == list(range(len(offerings)))
    assert arranged(policy, offerings) == found
    for before, after in pairwise(found):
        assert (policy(offerings[before]), before) < (policy(offerings[after]), after)
    if offerings:
        out = data.draw(st.integers(0, len(offerings) - 1))
        rest = [i for i in range(len(offerings)) if i != out]
        assert [rest[i] for i in arranged(policy, [offerings[i] for i in rest])] == [
            i for i in found if i != out
        ]
