"""What is done to the copy of a limit does not touch the limit, and the other way round, of each
kind that there is; copies share and show each other as their originals do."""

import copy
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.held import HeldBack, ShutOff
from hpc.autoscale.backoff.law import Backoff
from hpc.autoscale.backoff.subjects import Reach, Subject
from hpc.autoscale.node.limits import _SharedLimit, _SpotLimit
from hpc.autoscale.packing.limits import Limit, LimitExceeded
from hpc.autoscale.packing.shares import NodeShare

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["charge", "bear", "release", "cover", "max_nodes", "max_cores"]),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=6,
)


def one_of_each() -> list[Limit]:
    """A limit of each class, the spot limit behind the regional one that it shows."""
    about = Subject(Reach.REGION, ("westus2", False))
    regional = _SharedLimit("Region(westus2)", 10, 40, 2, 20)
    return [
        Limit("a", 40, 10, 20, 2),
        regional,
        _SpotLimit(regional),
        HeldBack(about, Backoff(FailureKind.QUOTA, "no room", 1.0), 3, 2.0),
        ShutOff(about),
        NodeShare("westus2", 3, 2),
    ]


def classes_below(base: type[Limit]) -> Iterator[type[Limit]]:
    """A class, and all that derive from it in this library."""
    if base.__module__.startswith("hpc."):
        yield base
    for each in base.__subclasses__():
        yield from classes_below(each)


def act(limit, what, nodes, cores):
    """Do something to a limit; what it has no room for, it refuses."""
    if what.startswith("max_"):
        setattr(limit, what, nodes)
        return
    try:
        getattr(limit, what)(nodes, cores)
    except LimitExceeded:
        limit.opened()


def stand(limits):
    """All that there is to see of limits."""
    return [
        (type(each), each.describe(), each.room(4), {**copy.deepcopy(vars(each)), "told": None})
        for each in limits
    ]


def test_every_class_is_here():
    assert {type(limit) for limit in one_of_each()} == set(classes_below(Limit))


@pytest.mark.parametrize("number", range(len(one_of_each())))
@given(before=ACTS, after=ACTS, are_copied=st.booleans())
def test_a_copy_and_its_original_do_not_touch_each_other(number, before, after, are_copied):
    originals = one_of_each()
    for each in before:
        act(originals[number], *each)
    copies: dict[Limit, Limit] = {}
    made = [limit.copied(copies) for limit in originals]
    assert stand(made) == stand(originals)
    changed, kept = (made, originals) if are_copied else (originals, made)
    known = stand(kept)
    for each in after:
        act(changed[number], *each)
    assert stand(kept) == known


def test_copies_share_what_originals_share():
    regional = _SharedLimit("Region(westus2)", 10, 40)
    spot = _SpotLimit(regional)
    copies: dict[Limit, Limit] = {}
    of_spot, of_regional = spot.copied(copies), regional.copied(copies)
    assert regional.copied(copies) is of_regional
    of_regional.charge(1, 20)
    assert (of_spot.room(1), spot.room(1)) == (10, 30)


def test_nobody_hears_of_charges_to_a_copy():
    original = Limit("a")
    original.told = []
    made = original.copied({})
    made.charge(1, 1)
    assert (original.told, made.told) == ([], None)
