"""Who may stop, decided from what is known of the nodes."""

import pytest

from hpc.autoscale.autostop.decision import Answer, Code, KnownNode, Surplus, decide

POOL = ("execute", "F4", "")


def a_node(name, wanted=False, pool=POOL, **more):
    """A node whose NodeId is its name."""
    return KnownNode(name, name, pool, f"vm-{name}", wanted=wanted, **more)


def nodes(count, wanted=0, prefix="n", **more):
    """So many nodes, demand being placed on the first ones."""
    return [a_node(f"{prefix}{i}", i < wanted, **more) for i in range(count)]


def codes(surplus, asking, reserved=(), asked=()):
    """What each node is told, in the order in which they ask."""
    answers = decide(surplus, asking, set(reserved), asked)
    return [answers[each].code for each in asking]


def test_as_many_as_demand_does_without():
    """And no more, whichever of them ask first."""
    surplus = Surplus(nodes(5, wanted=3))
    yes, no = [Code.MAY_STOP] * 2, [Code.WANTED]
    assert codes(surplus, ["n0", "n1", "n2"]) == yes + no
    assert codes(surplus, ["n4", "n0", "n3"]) == yes + no


def test_who_was_told_yes_counts():
    """While the node is there; one that is gone is no surplus either."""
    surplus = Surplus(nodes(5, wanted=3))
    assert codes(surplus, ["n0", "n4"], reserved=["n1"]) == [Code.MAY_STOP, Code.WANTED]
    assert codes(surplus, ["n0", "n4"], reserved=["gone", "n1"]) == [Code.MAY_STOP, Code.WANTED]
    assert codes(surplus, ["n1"], reserved=["n1", "n2", "n3"]) == [Code.MAY_STOP]


def test_who_is_deleted_for_a_yes():
    """And asks again, was not: it goes before the others, and stays when demand takes it now."""
    answers = decide(Surplus(nodes(3, wanted=2)), ["n0", "n1"], {"n1"}, (), yes_is_final=False)
    assert [answers[each].accepted for each in ("n0", "n1")] == [False, True]
    reserved = {"n1", "n2"}
    answers = decide(Surplus(nodes(3, wanted=3)), ["n1"], reserved, (), yes_is_final=False)
    assert (answers["n1"].code, reserved) == (Code.WANTED, {"n2"})


def test_pools_do_not_stand_in_for_each_other():
    """Another machine type is no replacement."""
    other = ("execute", "F8", "")
    surplus = Surplus([*nodes(2, wanted=2), *nodes(2, prefix="m", pool=other)])
    assert codes(surplus, ["n0", "m0"]) == [Code.WANTED, Code.MAY_STOP]


def test_a_node_that_can_take_no_demand():
    """May stop, and lets nobody else stop in its place."""
    surplus = Surplus([*nodes(2, wanted=2), a_node("failed", serves=False)])
    assert codes(surplus, ["n0", "failed"]) == [Code.WANTED, Code.MAY_STOP]
    assert codes(surplus, ["n0"], reserved=["failed"]) == [Code.WANTED]


def test_what_keeps_a_node():
    """Comes before everything, also before a yes that was told."""
    kept = Answer(Code.KEEP_ALIVE, "kept", "k")
    surplus = Surplus([a_node("k", refusal=kept), a_node("n")])
    assert codes(surplus, ["k", "n"]) == [Code.KEEP_ALIVE, Code.MAY_STOP]
    assert codes(surplus, ["k"], reserved=["k"]) == [Code.KEEP_ALIVE]


@pytest.mark.parametrize(
    ("wanted", "refusal", "asked", "code"),
    [
        (0, None, ["g0", "g1"], Code.MAY_STOP),
        (0, None, ["g1"], Code.GROUP_WAITS),
        (1, None, ["g0", "g1"], Code.GROUP_WANTED),
        (0, Answer(Code.HAS_WORK, "busy"), ["g0", "g1"], Code.HAS_WORK),
    ],
)
def test_groups(wanted, refusal, asked, code):
    """All of its nodes have asked, demand is on none, and nothing keeps any; else none may."""
    group = [
        a_node("g0", wanted > 0, group="g"),
        a_node("g1", group="g"),
        a_node("g2", group="g", refusal=refusal),
    ]
    surplus = Surplus([*group, *nodes(3)])
    asking = "g2" if refusal is None else "g1"
    assert codes(surplus, [asking], asked=asked) == [code]


def test_a_group_is_reserved_as_a_whole():
    """Once the last one has asked, the others are told yes as well, without asking at once."""
    surplus = Surplus(nodes(3, group="g"))
    reserved: set[str] = set()
    decide(surplus, ["n2"], reserved, ["n0", "n1"])
    assert reserved == {"n0", "n1", "n2"}
    assert codes(surplus, ["n0"], reserved) == [Code.MAY_STOP]


def test_groups_are_no_surplus_of_their_pool():
    """A node outside of groups does not stop because a group could."""
    surplus = Surplus([*nodes(2, wanted=2), *nodes(2, prefix="g", group="g")])
    assert codes(surplus, ["n0"]) == [Code.WANTED]


def test_finding_a_node():
    """By InstanceId, else by NodeId; two with the same are both found."""
    twins = [KnownNode(each, each, POOL, "same") for each in "ab"]
    surplus = Surplus([*twins, a_node("n")])
    assert [one.name for one in surplus.find("same")] == ["a", "b"]
    assert [one.name for one in surplus.find("vm-n")] == ["n"]
    assert [one.name for one in surplus.find("n")] == ["n"]
    assert surplus.find("vm") == []
