"""Gangs: which placement group gets one, and what is said of one that fits nowhere."""

from builders.engine import cores
from builders.gangs import NODES, Site, nodes, slots
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import Exclusive, InPlacementGroup, PropertyIs
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.reject import summarise

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
    b.reshape({0: None, 1: None})
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
    assert [g.limits[1].used_nodes for g in groups] == [5, 5, 2]
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
    """By whoever charges the limit."""
    site = Site()
    a = site.group("a", 4, busy=1)
    site.group("b", 0)
    assert site.where(nodes(4)) == ("F4/a", 4)
    assert site.where(nodes(1)) is None
    a.limits[1].charge(-1, 0)
    assert site.where(nodes(1)) == ("F4/a", 1)


def test_a_group_that_loses_its_nodes_is_as_good_as_new():
    """Also when it was known to be in use."""
    site = Site()
    a = site.group("a")
    b = site.group("b", busy=1)
    assert site.where(nodes(3)) == ("F4/b", 3)
    b.reshape({0: None, 1: None, 2: None, 3: None})
    assert site.where(nodes(3)) == ("F4/a", 3)
    a.reshape({0: None, 1: None, 2: None})
    b.append(b.new_shape)
    assert site.where(nodes(3)) == ("F4/b", 2)


# -- one that fits nowhere


def rejects(site, wanted, expr=NODES):
    """(candidate, wanted, could, unit) of each."""
    plan = site.planner.ask(expr, wanted)
    assert not plan
    assert {reject.code for _, reject in plan.rejects} == {"GangTooLarge"}
    return [(candidate.name, *reject.facts[:3]) for candidate, reject in plan.rejects]


def test_the_closest_comes_first():
    """Every candidate with how much it could take, most first, equals in order."""
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
    plan = site.planner.ask(NODES, nodes(16))
    assert summarise([(candidate.name, reject) for candidate, reject in plan.rejects]) == [
        "GangTooLarge: F4/pg30 could take 8 of the 16 nodes that must go together: NoCapacity: "
        "has no"
        " room for a new node: Group(pg30) has 8 of 8 nodes in use or planned (8 nodes planned)",
        "GangTooLarge: F4/pg0 could take 4 of the 16 nodes that must go together (and 38 more "
        "alike)",
    ]


def test_slots_are_counted_in_slots():
    """And nodes, where one slot goes on each, in nodes."""
    site = Site()
    site.group("a", 2)
    assert rejects(site, slots(12), AllOf([InPlacementGroup(), cores(1)])) == [
        ("F4/a", 12, 8, "slots")
    ]
    assert rejects(site, Request(12, 1, True)) == [("F4/a", 12, 2, "nodes")]


def test_what_is_said_is_how_it_was():
    """Reading it later does not change it."""
    site = Site()
    site.group("a", 4)
    site.group("b", 5)
    site.group("c", 3)
    plan = site.planner.ask(NODES, nodes(6))
    assert site.where(nodes(5)) == ("F4/b", 5)
    assert [(s.name, r.facts[1]) for s, r in plan.rejects] == [
        ("F4/b", 5),
        ("F4/a", 4),
        ("F4/c", 3),
    ]
    assert len(plan.rejects) == 3
    assert plan.rejects[1:][0][0].name == "F4/a"


def test_a_gang_that_fits_no_node():
    """Nothing could be taken, and why."""
    site = Site()
    site.group("a", idle=[2])
    plan = site.planner.ask(AllOf([InPlacementGroup(), AnyOf([cores(8)])]), nodes(2))
    assert not plan
