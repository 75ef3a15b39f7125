"""Accounts are never overdrawn, and a tab is settled whole or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.packing.ledger import NO_LIMIT, Account, Overdrawn, Tab

LIMITS = st.one_of(st.just(NO_LIMIT), st.integers(0, 40))


@st.composite
def accounts(draw):
    """An account, some of it used."""
    cores, nodes = draw(LIMITS), draw(LIMITS)
    return Account(
        "Account(a)",
        max_cores=cores,
        used_cores=draw(st.integers(0, min(cores, 40))),
        max_nodes=nodes,
        used_nodes=draw(st.integers(0, min(nodes, 40))),
    )


def state(account):
    """What is used."""
    return account.used_cores, account.used_nodes


@given(accounts(), st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 9)), max_size=20))
def test_never_overdrawn(account, charges):
    """However often it is charged and refunded, no more is used than allowed and no less than nothing."""
    for nodes, each in charges:
        before = state(account)
        try:
            account.charge(nodes, nodes * each)
        except Overdrawn:
            assert state(account) == before
        assert 0 <= account.used_cores <= account.max_cores
        assert 0 <= account.used_nodes <= account.max_nodes


@given(accounts(), st.integers(0, 8))
def test_room_is_what_can_be_charged(account, cores):
    """As many nodes as there is room for can be charged, and not one more."""
    room = account.room(cores)
    if room < 1000:  # with a bound at all
        assert account.bears(room, room * max(1, cores))
        assert not account.bears(room + 1, (room + 1) * max(1, cores))
    account.charge(min(room, 50), min(room, 50) * cores)


@given(accounts(), st.integers(1, 8), st.integers(0, 9), st.integers(0, 40))
def test_what_is_owed_leaves_less_room(account, cores, owed_nodes, owed_cores):
    """Room beside a debt is the room of an account that has paid it; never below 0."""
    found = account.room(cores, owed_nodes, owed_cores)
    paid = Account(
        "Account(b)",
        account.max_cores,
        account.used_cores + owed_cores,
        account.max_nodes,
        account.used_nodes + owed_nodes,
    )
    assert found == paid.room(cores) >= 0


@given(
    st.lists(accounts(), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.sets(st.integers(0, 3)), st.integers(0, 5), st.integers(1, 8)), max_size=6
    ),
)
def test_settles_all_or_nothing(shared, orders):
    """A tab charges every account what is owed to it, or raises Overdrawn and charges none."""
    tab = Tab()
    owed = {account: [0, 0] for account in shared}
    for which, nodes, cores in orders:
        chosen = [account for i, account in enumerate(shared) if i in which]
        tab.add(chosen, nodes, cores)
        for account in chosen:
            owed[account][0] += nodes
            owed[account][1] += nodes * cores
    before = {account: state(account) for account in shared}
    bearable = all(account.bears(*owed[account]) for account in shared)
    if bearable:
        tab.settle()
        for account, (nodes, cores) in owed.items():
            assert state(account) == (before[account][0] + cores, before[account][1] + nodes)
    else:
        with pytest.raises(Overdrawn):
            tab.settle()
        assert {account: state(account) for account in shared} == before


@given(st.lists(accounts(), max_size=4), st.integers(1, 8), st.integers(0, 3))
def test_what_a_tab_has_room_for_it_can_settle(shared, cores, first):
    """Asked before each step, a tab never fails to settle; and what is on it counts."""
    tab = Tab()
    total = 0
    for wanted in (first, 2, 50):
        nodes = min(wanted, tab.room(shared, cores))
        tab.add(shared, nodes, cores)
        total += nodes
        assert tab.room(shared, cores) <= min((a.room(cores) for a in shared), default=NO_LIMIT)
    before = {account: account.used_nodes for account in shared}
    tab.settle()
    for account in shared:
        assert account.used_nodes - before[account] == total
        assert account.used_cores <= account.max_cores
        assert account.used_nodes <= account.max_nodes


def test_the_tightest_account_is_the_one_that_stops():
    """Of several, the one that leaves the least room, beside what is on the tab; None without any."""
    wide, narrow = Account("Region(wide)", max_cores=100), Account("Family(narrow)", max_cores=60)
    tab = Tab()
    assert tab.tightest([], 4) == "no limit is known"
    assert tab.tightest([wide, narrow], 4).startswith(narrow.name)
    tab.add([wide], 20, 4)
    assert tab.tightest([wide, narrow], 4).startswith(wide.name)
    assert tab.room([wide, narrow], 4) == 5


def test_refunds_stop_at_nothing_used():
    """More given back than was taken leaves nothing used, not less."""
    account = Account("Account(a)", max_cores=8, used_cores=4, max_nodes=2, used_nodes=1)
    account.charge(-3, -12)
    assert state(account) == (0, 0)


def test_says_which_limit_with_its_figures():
    """A refusal names the account, how much of it is used and how much was asked."""
    account = Account("NodeArray(htc)", max_cores=100, used_cores=96, max_nodes=30, used_nodes=24)
    with pytest.raises(Overdrawn) as e:
        account.charge(2, 8)
    assert "NodeArray(htc) has 24 of 30 nodes and 96 of 100 cores in use" in str(e.value)
    assert "2 nodes, 8 cores" in str(e.value)
    assert Account("Cluster").describe() == "Cluster has no limit in use"
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
    account = Account("NodeArray(htc)", **counts)
    account.charge(*charged)
    assert account.describe(*owed) == f"NodeArray(htc) has {said}"
