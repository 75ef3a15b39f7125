"""What is there for speed alone changes no plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import cores, said, state_of
from builders.gangs import NODES, Site, nodes, slots
from hpc.autoscale.packing import layers
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import InPlacementGroup

GROUPS = st.lists(
    st.tuples(
        st.sampled_from(["F4", "F8", "F16"]),
        st.integers(0, 6),
        st.integers(0, 3),
        st.lists(st.integers(0, 8), max_size=2),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=7,
)
EXPRS = st.sampled_from([NODES, AllOf([InPlacementGroup(), cores(2)]), cores(3)])
WANTS = st.one_of(st.integers(1, 7).map(nodes), st.integers(1, 14).map(slots))
GANGS = st.lists(st.tuples(EXPRS, WANTS), min_size=1, max_size=8)


def site_of(groups, most):
    """Groups of three sizes under limits of their own and of their sizes; some have nodes, or nodes
    promised elsewhere."""
    site = Site(F4=most, F8=most)
    for number, (size, room, busy, idle, reserved) in enumerate(groups):
        ncpus = int(size[1:])
        candidate = site.group(f"g{number}", room, size, busy, [min(i, ncpus) for i in idle], ncpus)
        candidate.reserved = reserved
    return site


@given(GROUPS, st.integers(0, 12), GANGS)
def test_a_layer_that_is_left_out_changes_no_plan(groups, most, gangs):
    """Nodes and limits are the same after each gang, with the index of rooms or without."""
    layers.leave_out()
    sites = [site_of(groups, most)]
    for names in ({"groups"}, set(layers.LAYERS)):
        layers.leave_out(*names)
        sites.append(site_of(groups, most))
    layers.leave_out()
    for expr, request in gangs:
        plans = [said(site.place(expr, request)) for site in sites]
        assert plans == plans[:1] * len(sites)
        assert [state_of(site) for site in sites] == [state_of(sites[0])] * len(sites)


@pytest.mark.parametrize("request_", [nodes(4), slots(13)])
def test_a_gang_without_room_changes_nothing(request_):
    """Of what does not fit as a whole nothing is charged or added."""
    site = Site(F4=3)
    candidate = site.group("a", room=9)
    assert not site.place(cores(1), request_)
    assert not candidate.shapes
    assert all(limit.used_nodes == 0 for limit in candidate.limits)


def test_what_is_no_layer_cannot_be_left_out():
    """Whoever mistypes one is told which there are, and none is left out."""
    with pytest.raises(KeyError, match="one-slot"):
        layers.leave_out("one-slott")
    assert not layers.OFF
