"""A gang that is placed at once ends up where a plan would have put it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import cores, state_of
from builders.gangs import NODES, Site, nodes, slots
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
    """Groups of three sizes under limits of their own and of their sizes; some have nodes, or nodes promised elsewhere."""
    site = Site(F4=most, F8=most)
    for number, (size, room, busy, idle, reserved) in enumerate(groups):
        ncpus = int(size[1:])
        candidate = site.group(f"g{number}", room, size, busy, [min(i, ncpus) for i in idle], ncpus)
        candidate.reserved = reserved
    return site


def at_once(site, expr, wanted):
    """On how many new nodes the gang was placed without a plan."""
    runs = site.planner.open_whole(site.planner.cursor(expr), wanted)
    return sum(hi - lo for _, lo, hi in runs)


@given(GROUPS, st.integers(0, 12), GANGS)
def test_gangs_go_where_a_plan_would_put_them(groups, most, gangs):
    """Nodes and limits are the same after each gang, whether it was placed at once or was left to a plan."""
    mixed, planned = site_of(groups, most), site_of(groups, most)
    for expr, wanted in gangs:
        before = state_of(mixed)
        opened = at_once(mixed, expr, wanted)
        if not opened:
            assert state_of(mixed) == before
            mixed.place(expr, wanted)
        plan = planned.place(expr, wanted)
        assert state_of(mixed) == state_of(planned)
        assert not opened or opened == sum(p.hi - p.lo for p in plan.steps if p.opened)


@given(GROUPS, st.integers(0, 12), GANGS)
def test_what_takes_new_nodes_alone_needs_no_plan(groups, most, gangs):
    """Where no group has a node with room, what a plan would place is placed at once."""
    without_room = [(size, room, busy, [], reserved) for size, room, busy, _, reserved in groups]
    site, planned = site_of(without_room, most), site_of(without_room, most)
    for _, wanted in gangs:
        plan = planned.place(NODES, wanted)
        assert bool(at_once(site, NODES, wanted)) is bool(plan)


def test_nodes_with_room_are_left_to_a_plan():
    """An idle node may take a part, which takes a plan to tell."""
    site = Site()
    candidate = site.group("a", idle=[4])
    assert not at_once(site, NODES, nodes(1))
    assert len(candidate.shapes) == 1


@pytest.mark.parametrize("wanted", [nodes(4), slots(13)])
def test_a_gang_without_room_changes_nothing(wanted):
    """Of what does not fit as a whole nothing is charged or added."""
    site = Site(F4=3)
    candidate = site.group("a", room=9)
    assert not at_once(site, cores(1), wanted)
    assert not candidate.shapes
    assert all(limit.used_nodes == 0 for limit in candidate.limits)
