"""Limits are never overdrawn, and a tab is settled whole or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.packing.limits import NO_LIMIT, Limit, LimitExceeded, Reservation, charge_all

LIMITS = st.one_of(st.just(NO_LIMIT), st.integers(0, 40))


@st.composite
def limits(draw):
    """A limit, some of it used."""
    cores, nodes = draw(LIMITS), draw(LIMITS)
    return Limit(
        "Limit(a)",
        max_cores=cores,
        used_cores=draw(st.integers(0, min(cores, 40))),
        max_nodes=nodes,
        used_nodes=draw(st.integers(0, min(nodes, 40))),
    )


def state(limit):
    """What is used."""
    return limit.used_cores, limit.used_nodes


@given(limits(), st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 9)), max_size=20))
def test_never_overdrawn(limit, charges):
    """However often it is charged and refunded, no more is used than allowed and no less than
    nothing."""
    for nodes, each in charges:
        before = state(limit)
        try:
            limit.charge(nodes, nodes * each)
        except LimitExceeded:
            assert state(limit) == before
        assert 0 <= limit.used_cores <= limit.max_cores
        assert 0 <= limit.used_nodes <= limit.max_nodes


@given(limits(), st.integers(0, 8))
def test_room_is_what_can_be_charged(limit, cores):
    """As many nodes as there is room for can be charged, and not one more."""
    room = limit.room(cores)
    if room < 1000:  # with a bound at all
        assert limit.bears(room, room * max(1, cores))
        assert not limit.bears(room + 1, (room + 1) * max(1, cores))
    limit.charge(min(room, 50), min(room, 50) * cores)


@given(limits(), st.integers(1, 8), st.integers(0, 9), st.integers(0, 40))
def test_what_is_owed_leaves_less_room(limit, cores, owed_nodes, owed_cores):
    """Room beside a debt is the room of a limit that has paid it; never below 0."""
    found = limit.room(cores, owed_nodes, owed_cores)
    paid = Limit(
        "Account(b)",
        limit.max_cores,
        limit.used_cores + owed_cores,
        limit.max_nodes,
        limit.used_nodes + owed_nodes,
    )
    assert found == paid.room(cores) >= 0


@given(st.lists(limits(), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 8))
def test_charges_all_or_nothing(shared, nodes, cores):
    """Every limit is charged, or LimitExceeded is raised and none is."""
    before = {limit: state(limit) for limit in shared}
    if all(limit.bears(nodes, nodes * cores) for limit in shared):
        charge_all(shared, nodes, nodes * cores)
        added = (nodes * cores, nodes)
    else:
        with pytest.raises(LimitExceeded):
            charge_all(shared, nodes, nodes * cores)
        added = (0, 0)
    for limit, (used_cores, used_nodes) in before.items():
        assert state(limit) == (used_cores + added[0], used_nodes + added[1])


@given(st.lists(limits(), max_size=4), st.integers(1, 8), st.integers(0, 3))
def test_what_a_reservation_has_room_for_can_be_charged(shared, cores, first):
    """Asked before each step, a charge never fails; and what is reserved counts."""
    reservation = Reservation()
    total = 0
    for wanted in (first, 2, 50):
        nodes = min(wanted, reservation.room(shared, cores))
        reservation.add(shared, nodes, cores)
        total += nodes
        assert reservation.room(shared, cores) <= min(
            (a.room(cores) for a in shared), default=NO_LIMIT
        )
    before = {limit: limit.used_nodes for limit in shared}
    if total:
        charge_all(shared, total, total * cores)
    for limit in shared:
        assert limit.used_nodes - before[limit] == total
        assert limit.used_cores <= limit.max_cores
        assert limit.used_nodes <= limit.max_nodes


def test_the_tightest_limit_is_the_one_that_stops():
    """Of several, the one that leaves the least room, beside what is on the reservation; None
    without any."""
    wide, narrow = Limit("Region(wide)", max_cores=100), Limit("Family(narrow)", max_cores=60)
    reservation = Reservation()
    assert reservation.tightest([], 4) == "no limit is known"
    assert reservation.tightest([wide, narrow], 4).startswith(narrow.name)
    reservation.add([wide], 20, 4)
    assert reservation.tightest([wide, narrow], 4).startswith(wide.name)
    assert reservation.room([wide, narrow], 4) == 5


def test_refunds_stop_at_nothing_used():
    """More given back than was taken leaves nothing used, not less."""
    limit = Limit("Limit(a)", max_cores=8, used_cores=4, max_nodes=2, used_nodes=1)
    limit.charge(-3, -12)
    assert state(limit) == (0, 0)


def test_says_which_limit_with_its_figures():
    """A refusal names the limit, how much of it is used and how much was asked."""
    limit = Limit("NodeArray(htc)", max_cores=100, used_cores=96, max_nodes=30, used_nodes=24)
    with pytest.raises(LimitExceeded) as e:
        limit.charge(2, 8)
    assert "NodeArray(htc) has 24 of 30 nodes and 96 of 100 cores in use" in str(e.value)
    assert "2 nodes, 8 cores" in str(e.value)
    assert Limit("Cluster").describe() == "Cluster has no limit in use"
    assert isinstance(e.value, RuntimeError)


@pytest.mark.parametrize(
    ("counts", "charged", "owed", "said"),
    [
        (
            {"max_cores": 100, "used_cores": 60},
            (10, 40),
            (0, 0),
            "100 of 100 cores in use or planned (40 cores planned)",
        ),
        (
            {"max_cores": 100, "used_cores": 60},
            (1, 4),
            (2, 8),
            "72 of 100 cores in use or planned (12 cores planned)",
        ),
        ({"max_cores": 100, "used_cores": 60}, (-2, -8), (0, 0), "52 of 100 cores in use"),
        ({"max_cores": 100, "used_cores": 60}, (0, 0), (0, 0), "60 of 100 cores in use"),
        (
            {"max_cores": 100, "used_cores": 60, "max_nodes": 30, "used_nodes": 15},
            (1, 4),
            (0, 0),
            "16 of 30 nodes and 64 of 100 cores in use or planned (1 node and 4 cores planned)",
        ),
    ],
)
def test_what_is_planned_is_not_called_in_use(counts, charged, owed, said):
    """What was used at first and what was charged since are said apart."""
    limit = Limit("NodeArray(htc)", **counts)
    limit.charge(*charged)
    assert limit.describe(*owed) == f"NodeArray(htc) has {said}"


def test_what_was_given_back_and_is_charged_again_is_planned():
    """Of nodes and of cores."""
    limit = Limit("Cluster", max_cores=40, used_cores=8, max_nodes=10, used_nodes=2)
    limit.charge(-1, -4)
    limit.charge(1, 4)
    said = "2 of 10 nodes and 8 of 40 cores in use or planned (1 node and 4 cores planned)"
    assert limit.describe() == f"Cluster has {said}"


@pytest.mark.parametrize(
    ("most", "beyond"), [((8, 99), (4, 0)), ((99, 2), (0, 1)), ((8, 2), (4, 1))]
)
def test_nodes_that_are_there_are_in_use_whatever_a_limit_says(most, beyond):
    """What is beyond it goes first, and then there is room again."""
    limit = Limit("Cluster", max_cores=most[0], max_nodes=most[1])
    limit.bear(2, 8)
    limit.bear(1, 4)
    assert (limit.beyond_cores, limit.beyond_nodes) == beyond
    assert state(limit) == (12 - beyond[0], 3 - beyond[1])
    assert "planned" not in limit.describe()
    limit.release(1, 4)
    assert (limit.beyond_cores, limit.beyond_nodes) == (0, 0)
    assert state(limit) == (8, 2)
    limit.release(1, 4)
    assert limit.room(4) > 0
