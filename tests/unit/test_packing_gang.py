"""Gangs: which placement group gets one, and what is said of one that fits nowhere."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_kit import Bench, cores, free_cores, said

from hpc.autoscale.packing.compound import AllOf, AnyOf, Negation
from hpc.autoscale.packing.draft import Trial, Want
from hpc.autoscale.packing.expr import Exclusive, InPlacementGroup, PropertyIs
from hpc.autoscale.packing.groups import Groups, families
from hpc.autoscale.packing.ledger import Account
from hpc.autoscale.packing.reject import Reject, summarise
from hpc.autoscale.packing.stock import Stock
from hpc.autoscale.packing.strategy import plan

NODES = AllOf([Exclusive(), InPlacementGroup(), cores(1)])


def nodes(count):
    """So many nodes, all in one group."""
    return Want(count, 1, True)


def slots(count):
    """So many slots, all in one group."""
    return Want(count, whole=True)


class Site(Bench):
    """A bench of stocks that are placement groups of VM sizes."""

    def __init__(self, existing_first=True, **limits):
        super().__init__(existing_first)
        self.limits = {size: Account(f"Size({size})", max_nodes=n) for size, n in limits.items()}

    def group(self, group, room=10, size="F4", busy=0, idle=(), ncpus=4, artificial=False):
        """A group with room for so many new nodes; `busy` nodes are full, `idle` ones have these cores free."""
        props = {"nodearray": "hpc", "vm_size": size, "placement_group": group}
        template = self.table.template(props, {})

        def shape(free, **state):
            return self.table.shape(template, {"ncpus": free}, **state)

        own = Account(f"Group({group})", max_nodes=room)
        shared = self.limits.setdefault(size, Account(f"Size({size})"))
        new = shape(ncpus)
        stock = Stock(f"{size}/{group}", new, new, 4, [shared, own], artificial)
        for _ in range(busy):
            stock.append(shape(0, vacant=False, closed=True))
        for free in idle:
            stock.append(shape(free, vacant=free == ncpus))
        self.packer.add(stock)
        return stock

    def where(self, want, expr=NODES):
        """The stock that gets a gang, and how many nodes are opened; None when it fits nowhere."""
        delta = self.place(expr, want)
        if not delta:
            return None
        assert delta.units == want.units
        (name,) = {placed.stock.name for placed in delta.placed}
        return name, sum(p.hi - p.lo for p in delta.placed if p.opened)


# -- which group


def test_groups_fill_in_order():
    """The first that has room, so that a second one is opened when the first is full."""
    site = Site()
    site.group("a", 10)
    site.group("b", 10)
    assert [site.where(nodes(n)) for n in (6, 6, 4, 4, 9)] == [
        *(("F4/a", 6), ("F4/b", 6), ("F4/a", 4), ("F4/b", 4)),
        None,
    ]


def test_a_group_in_use_comes_before_one_that_would_be_opened():
    """Also when it comes later in order."""
    site = Site()
    site.group("a")
    site.group("b", busy=1)
    assert site.where(nodes(3)) == ("F4/b", 3)
    assert site.where(nodes(8)) == ("F4/a", 8)


def test_a_group_whose_nodes_are_gone_is_not_in_use():
    """It is like one that never had any."""
    site = Site()
    site.group("a")
    b = site.group("b", busy=2)
    b.reshape(0, 2, None)
    assert site.where(nodes(3)) == ("F4/a", 3)


def test_the_fewest_new_nodes():
    """Of groups in use, the one where idle nodes help most; equals in order."""
    site = Site()
    site.group("a", busy=3)
    site.group("b", idle=[4])
    site.group("c", idle=[4, 4])
    site.group("d", idle=[4, 4])
    assert site.where(nodes(3)) == ("F4/c", 1)
    assert site.where(nodes(3)) == ("F4/d", 1)
    assert site.where(nodes(3)) == ("F4/b", 2)
    assert site.where(nodes(3)) == ("F4/a", 3)


def test_nodes_that_are_there_come_before_all():
    """In any family, and whatever else is in use."""
    site = Site()
    site.group("a", busy=1)
    site.group("z", size="F8", idle=[4, 4])
    assert site.where(nodes(2)) == ("F8/z", 0)


def test_the_order_of_sizes_stays():
    """An empty group of a better size comes before one in use of another."""
    site = Site()
    site.group("a")
    site.group("z", size="F8", busy=1)
    assert site.where(nodes(2)) == ("F4/a", 2)


def test_the_first_member_says_where_a_family_comes():
    """Groups that were added later belong to the size that came first."""
    site = Site(F4=20)
    site.group("a", 1)
    site.group("z", size="F8", busy=1)
    site.group("b")
    assert site.where(nodes(3)) == ("F4/b", 3)


def test_a_bucket_that_is_in_no_group_is_by_itself():
    """Nodes outside of groups make it no better than a group in its place."""
    site = Site()
    site.group("a")
    site.group(None, busy=1)
    assert site.where(nodes(3), AllOf([Exclusive(), cores(1)])) == ("F4/a", 3)


def test_bucket_by_bucket_is_in_declared_order():
    """Whatever is in use."""
    site = Site(existing_first=False)
    site.group("a")
    site.group("b", busy=1, idle=[4, 4])
    assert site.where(nodes(2)) == ("F4/a", 2)


def test_no_group_is_overfilled():
    """However the gangs come."""
    site = Site(F4=12)
    groups = [site.group(name, 5) for name in "abc"]
    found = [site.where(nodes(n)) for n in (3, 4, 2, 1, 5, 2)]
    assert found == [("F4/a", 3), ("F4/b", 4), ("F4/a", 2), ("F4/b", 1), None, ("F4/c", 2)]
    assert [g.accounts[1].used_nodes for g in groups] == [5, 5, 2]
    assert site.limits["F4"].used_nodes == 12


def test_slots_of_a_gang():
    """As many as fit on each node; nodes with room in a group in use first."""
    site = Site()
    site.group("a")
    site.group("b", idle=[2])
    assert site.where(slots(9), AllOf([InPlacementGroup(), cores(1)])) == ("F4/b", 2)


def test_a_preferred_group_is_the_first_of_equals():
    """But does not go before one in use."""
    wanted = AllOf([NODES, PropertyIs("placement_group", ["b", "a"])])
    site = Site()
    site.group("a")
    site.group("b")
    assert site.where(nodes(2), wanted) == ("F4/b", 2)
    site = Site()
    site.group("a", busy=1)
    site.group("b")
    assert site.where(nodes(2), wanted) == ("F4/a", 2)


def test_promised_nodes_are_not_used():
    """A group whose room is reserved elsewhere is passed over until it is not."""
    site = Site()
    a = site.group("a", 4, busy=1)
    site.group("b", 4, busy=1)
    assert site.where(nodes(1)) == ("F4/a", 1)
    a.reserved = 3
    assert site.where(nodes(2)) == ("F4/b", 2)
    a.reserved = 0
    assert site.where(nodes(2)) == ("F4/a", 2)


def test_room_that_is_given_back_is_used_again():
    """By whoever charges the account."""
    site = Site()
    a = site.group("a", 4, busy=1)
    site.group("b", 0)
    assert site.where(nodes(4)) == ("F4/a", 4)
    assert site.where(nodes(1)) is None
    a.accounts[1].charge(-1, 0)
    assert site.where(nodes(1)) == ("F4/a", 1)


def test_a_group_that_loses_its_nodes_is_as_good_as_new():
    """Also when it was known to be in use."""
    site = Site()
    a = site.group("a")
    b = site.group("b", busy=1)
    assert site.where(nodes(3)) == ("F4/b", 3)
    b.reshape(0, 4, None)
    assert site.where(nodes(3)) == ("F4/a", 3)
    a.reshape(0, 3, None)
    b.append(b.new_shape)
    assert site.where(nodes(3)) == ("F4/b", 2)


# -- one that fits nowhere


def rejects(site, want, expr=NODES):
    """(stock, wanted, could, unit) of each."""
    delta = site.packer.ask(expr, want)
    assert not delta
    assert {reject.code for _, reject in delta.rejects} == {"GangTooLarge"}
    return [(stock.name, *reject.facts[:3]) for stock, reject in delta.rejects]


def test_the_closest_comes_first():
    """Every stock with how much it could take, most first, equals in order."""
    site = Site(F8=6)
    site.group("a", 2)
    site.group("b", 4, busy=1)
    site.group("c", 4, idle=[4])
    site.group("d", 4)
    site.group("z", 9, size="F8")
    assert rejects(site, nodes(7)) == [
        ("F8/z", 7, 6, "nodes"),
        ("F4/c", 7, 5, "nodes"),
        ("F4/b", 7, 4, "nodes"),
        ("F4/d", 7, 4, "nodes"),
        ("F4/a", 7, 2, "nodes"),
    ]


def test_the_closest_of_a_family_says_what_kept_the_rest_out():
    """The others are summed up."""
    site = Site()
    for number in range(40):
        site.group(f"pg{number}", 8 if number == 30 else 4)
    delta = site.packer.ask(NODES, nodes(16))
    assert summarise([(stock.name, reject) for stock, reject in delta.rejects]) == [
        "GangTooLarge: F4/pg30 could take 8 of the 16 nodes that must go together: NoCapacity: has no"
        " room for a new node: Group(pg30) has 8 of 8 nodes in use",
        "GangTooLarge: F4/pg0 could take 4 of the 16 nodes that must go together (and 38 more alike)",
    ]


def test_slots_are_counted_in_slots():
    """And nodes, where one slot goes on each, in nodes."""
    site = Site()
    site.group("a", 2)
    assert rejects(site, slots(12), AllOf([InPlacementGroup(), cores(1)])) == [
        ("F4/a", 12, 8, "slots")
    ]
    assert rejects(site, Want(12, 1, True)) == [("F4/a", 12, 2, "nodes")]


def test_what_is_said_is_how_it_was():
    """Reading it later does not change it."""
    site = Site()
    site.group("a", 4)
    site.group("b", 5)
    site.group("c", 3)
    delta = site.packer.ask(NODES, nodes(6))
    assert site.where(nodes(5)) == ("F4/b", 5)
    assert [(s.name, r.facts[1]) for s, r in delta.rejects] == [
        ("F4/b", 5),
        ("F4/a", 4),
        ("F4/c", 3),
    ]
    assert len(delta.rejects) == 3
    assert delta.rejects[1:][0][0].name == "F4/a"


def test_a_gang_that_fits_no_node():
    """Nothing could be taken, and why."""
    site = Site()
    site.group("a", idle=[2])
    delta = site.packer.ask(AllOf([InPlacementGroup(), AnyOf([cores(8)])]), nodes(2))
    assert not delta


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
WANTS = st.builds(Want, st.integers(1, 5), st.sampled_from([1, 2**62]), st.just(True))
HAPPENINGS = st.one_of(
    st.tuples(st.just("ask"), EXPRS, WANTS),
    st.tuples(st.just("ask"), st.just(NODES), WANTS),
    st.tuples(st.just("reserve"), st.integers(0, 5), st.integers(0, 2)),
    st.tuples(st.just("give back"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("gone"), st.integers(0, 5), st.just(0)),
)


def happen(site, what, which, amount):
    """Something from outside, to one of the stocks."""
    stock = site.packer.stocks[which % len(site.packer.stocks)]
    if what == "reserve":
        stock.reserved = amount
    elif what == "give back":
        used = stock.accounts[1].used_nodes
        for account in stock.accounts:
            account.charge(-used, -4 * used)
    elif what == "gone" and stock.shapes:
        stock.reshape(0, len(stock.shapes), None)


@settings(max_examples=200)
@given(
    st.lists(ANY_GROUP, min_size=2, max_size=6)
    | st.lists(ANY_GROUP | ODD_GROUP, min_size=1, max_size=6),
    st.integers(4, 20),
    st.booleans(),
    st.lists(HAPPENINGS, min_size=10, max_size=25),
)
def test_the_index_says_what_trying_says(described, limit, existing_first, happenings):
    """The same place for a gang, or the same that could be taken of it by each stock."""
    site = Site(existing_first, F4=limit)
    for number, each in enumerate(described):
        site.group(f"pg{number}", **each)
    for what, first, second in happenings:
        if what != "ask":
            happen(site, what, first, second)
            continue
        ranked = site.packer.ranking(first).stocks
        tried = plan(second, site.packer._outlook(first), existing_first)
        found = site.packer.ask(first, second)
        assert said(found) == said(tried)
        if found:
            site.packer.commit(found)
            continue
        could = [[(s.name, r.facts[:3]) for s, r in each.rejects] for each in (found, tried)]
        if not any(stock.reserved for stock in ranked):
            assert could[0] == could[1]
        assert len(could[0]) == len(ranked)
        for stock in site.packer.stocks:
            assert stock.accounts[1].used_nodes <= stock.accounts[1].max_nodes


@given(st.lists(ANY_GROUP, min_size=1, max_size=8))
def test_families_are_all_stocks(described):
    """Each once; those of one size together, in order."""
    site = Site()
    for number, each in enumerate(described):
        site.group(f"pg{number}", **each)
    found = families(site.packer.stocks)
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
    assert families(site.packer.stocks) == [(0, 2), (1,)]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (NODES, True),
        (InPlacementGroup(), True),
        (AllOf([NODES, PropertyIs("placement_group", ["a"])]), True),
        (AnyOf([PropertyIs("placement_group", ["a"]), cores(1)]), False),
        (AllOf([cores(1), Negation(InPlacementGroup())]), False),
    ],
)
def test_what_asks_the_same_of_every_group(expr, expected):
    """A condition on the group that must hold leaves others out, and says nothing of those that are left."""
    site = Site()
    stock = site.group("a")
    assert Groups([stock], stock.journal).treats_alike(expr) is expected


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

    def __call__(self, stock, position, units):
        if not self.times:
            return Reject("Never", "no more")
        self.times -= 1
        return Trial(1, stock.new_shape)

    def settle(self, keep):
        return ()


@pytest.mark.parametrize("times", range(8))
def test_a_constraint_that_changes_its_mind_does_not_split_a_gang(times):
    """What was agreed to when it was tried may not be when it is done; then it is none of it."""
    site = Site()
    site.group("a", busy=1)
    site.group("b", busy=1)
    delta = site.packer.ask(NODES, nodes(2), site.packer.stocks, Fickle(site, times))
    assert delta.units in (0, 2)
    assert sum(placed.units for placed in delta.placed) == delta.units
