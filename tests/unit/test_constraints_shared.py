"""Pools that all nodes share, and the constraints on them."""

import json

import pytest

from builders.constraints import Owned, a_bucket_with, a_node_with
from hpc.autoscale.errors import AutoscaleError, ConstraintError
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.constraints import (
    MinResourcePerNode,
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableConstraint,
    SharedNonConsumableResource,
    get_constraint,
    pool_room,
)


def a_pool(left=5, name="lic", source="q"):
    """A pool of licences."""
    return SharedConsumableResource(name, source, 9, left)


def draw(amount, *pools, once=False):
    """A constraint on pools."""
    return SharedConsumableConstraint(list(pools), amount, decrement_once=once)


def test_resources_compare_by_value():
    """Ordered against each other and plain values; equal by name and value, or to a plain value."""
    five, six = a_pool(5), a_pool(6)
    assert five < six <= 6
    assert six > 5 >= five
    assert six > 5
    assert five == a_pool(5)
    assert five != a_pool(5, name="other")
    assert five == 5
    assert five != 4
    assert not five < 5


def test_kinds_of_resources():
    """Consumable or not; both constructors are published with positions and keywords."""
    keywords = SharedConsumableResource(
        resource_name="lic", source="q", initial_value=9, current_value=5
    )
    assert keywords == a_pool()
    assert keywords.is_consumable
    assert keywords.initial_value == 9
    assert not SharedNonConsumableResource("version", "server", 3).is_consumable


def test_taking_from_a_pool():
    """Every iteration takes the amount; every constraint on the pool sees it."""
    pool = a_pool(5)
    first, second = draw(2, pool), draw(4, pool)
    node = a_node_with()
    assert second.satisfied_by_node(node)
    assert first.minimum_space(node) == 2
    assert first.do_decrement(node)
    assert pool.current_value == 3
    assert second.satisfied_by_node(node).status == "SharedLimitReached"
    assert second.minimum_space(node) == 0
    assert "needs 4 of 'lic', and 3 is left" in second.satisfied_by_node(node).reasons[0]
    assert second.satisfied_by_bucket(a_bucket_with()).status == "SharedLimitReached"


def test_all_pools_or_none():
    """When one pool is short, none is touched."""
    many, few = a_pool(9), a_pool(1)
    both = draw(2, many, few)
    assert both.do_decrement(a_node_with()) is False
    assert (many.current_value, few.current_value) == (9, 1)


def test_one_pool_need_not_be_a_list():
    """A pool stands for the list of it."""
    pool = a_pool()
    assert SharedConsumableConstraint(pool, 1).shared_resources == [pool]


def test_space_is_that_of_the_emptiest_pool():
    """As often as the smallest pool holds the amount; fractions included."""
    assert draw(2, a_pool(9), a_pool(5)).minimum_space(a_node_with()) == 2
    assert draw(0.1, a_pool(0.3)).minimum_space(a_node_with()) == 3
    assert draw(1).minimum_space(a_node_with()) == -1


def test_packing_stops_at_the_pool():
    """A node takes no more iterations than the pool has licences for, and a refusal takes
    nothing."""
    pool = a_pool(3)
    constraints = [draw(1, pool), MinResourcePerNode("ncpus", 1)]
    result = a_node_with(ncpus=4).decrement(constraints, 4, "job")
    assert result.total_slots == 3
    assert pool.current_value == 0
    assert a_node_with(ncpus=4).decrement(constraints, 1, "job").status == "NodeRejected"
    assert pool.current_value == 0


def test_a_failed_decrement_gives_back():
    """What an attempt took from a pool is put back when another constraint refuses."""
    pool = a_pool(3)
    node = a_node_with(owner="me", tokens=0)

    class Fickle(Owned):
        def minimum_space(self, node):
            return -1

    assert not node.decrement([draw(1, pool), Fickle("me")], 2, "job")
    assert pool.current_value == 3
    assert node.available["tokens"] == 0
    assert not node.assignments
    node.available["tokens"] = 1
    assert node.decrement([draw(1, pool), Fickle("me")], 2, "job").total_slots == 1
    assert (pool.current_value, node.available["tokens"]) == (2, 0)


def test_paying_once():
    """With `decrement_once` the first iteration pays for all."""
    pool = a_pool(3)
    once = draw(2, pool, once=True)
    node = a_node_with()
    assert once.minimum_space(node) == -1
    assert once.do_decrement(node)
    assert pool.current_value == 1
    assert once.satisfied_by_node(node)
    assert once.do_decrement(node)
    assert pool.current_value == 1
    assert draw(4, pool, once=True).minimum_space(node) == 0


def test_paying_for_several_at_once():
    """The engine pays a number of iterations in one step, all or nothing."""
    pool = a_pool(7)
    constraint = draw(2, pool)
    assert constraint.cap(10) == 3
    assert constraint.cap(2) == 2
    assert constraint.pay(4) is False
    assert pool.current_value == 7
    assert "3 of 10" in constraint.refusal(10)
    assert constraint.pay(3)
    assert pool.current_value == 1
    assert "needs 2 of 'lic', and 1 is left" in constraint.refusal(1)


def test_several_tolls_on_one_pool():
    """Together they need the sum; one that pays once needs its amount once."""
    pool = a_pool(10)
    assert pool_room([draw(1, pool), draw(2, pool)]) == 3
    assert pool_room([draw(4, pool, once=True), draw(2, pool)]) == 3
    assert pool_room([draw(9, pool, once=True), draw(2, pool)]) == 0
    assert pool_room([draw(6, pool, once=True), draw(6, pool, once=True)]) == 0


def test_sizes_in_pools():
    """A pool may hold a size; plain numbers are in its unit."""
    pool = SharedConsumableResource("mem", "q", Memory(8, "g"), Memory(4, "g"))
    assert draw(1, pool).minimum_space(a_node_with()) == 4
    assert draw(Size(512, "m"), pool).minimum_space(a_node_with()) == 8
    assert draw(1, pool).do_decrement(a_node_with())
    assert pool.current_value == Memory(3, "g")
    assert isinstance(pool.current_value, Memory)
    assert "3.00g is left" in draw(9, pool).satisfied_by_node(a_node_with()).reasons[0]


def test_unknown_value_holds_nothing():
    """A pool without a number refuses, and says what it holds."""
    result = draw(1, a_pool(None)).satisfied_by_node(a_node_with())
    assert result.status == "SharedLimitReached"
    assert "None is left" in result.reasons[0]


@pytest.mark.parametrize("amount", [-1, float("nan"), "1"])
def test_amounts_are_checked(amount):
    """A negative amount would fill the pool."""
    with pytest.raises(ValueError, match="expected"):
        draw(amount, a_pool())


def test_saved_and_restored():
    """What was taken since is undone, and the first iteration pays again."""
    pool = a_pool(5)
    once = draw(2, pool, once=True)
    saved = once.saved()
    assert once.do_decrement(a_node_with())
    once.restore(saved)
    assert pool.current_value == 5
    assert once.do_decrement(a_node_with())
    assert pool.current_value == 3


def test_non_consumable():
    """The value must be the target; nothing is taken."""
    version = SharedNonConsumableResource("version", "server", 3)
    wanted = SharedNonConsumableConstraint(version, 3)
    node = a_node_with()
    assert wanted.satisfied_by_node(node)
    assert wanted.do_decrement(node)
    assert wanted.minimum_space(node) == -1
    assert wanted.pay(5)
    version.current_value = 4
    result = wanted.satisfied_by_node(node)
    assert result.status == "InvalidSharedValue"
    assert "needs 'version' to be 3, and it is 4" in result.reasons[0]
    assert wanted.do_decrement(node) is False
    assert wanted.cap(5) == 0


@pytest.mark.parametrize(
    "constraint",
    [
        draw(2, a_pool(5)),
        draw(1, a_pool(5), a_pool(7, source="p")),
        draw(1, a_pool(5), a_pool(5, name="tokens", source="p"), once=True),
        draw(Size(1, "g"), SharedConsumableResource("mem", "q", Size(8, "g"), Size(4, "g"))),
        SharedNonConsumableConstraint(SharedNonConsumableResource("version", "server", 3), 4),
    ],
    ids=str,
)
def test_shared_json_reads_back(constraint):
    """Through real JSON text, too."""
    assert get_constraint(constraint.to_dict()) == constraint
    text = json.dumps(constraint.to_dict(), default=lambda size: size.to_json())
    assert get_constraint(json.loads(text)) == constraint
    assert type(constraint).from_dict(constraint.to_dict()) == constraint


def test_both_spellings():
    """The names that were once read, and those that were written."""
    old = {
        "resource-name": "lic",
        "source": "q",
        "initial-value": 9,
        "current-value": 5,
        "requested": 2,
    }
    new = {
        "resource-name": "lic",
        "sources": ["q"],
        "initial-values": [9],
        "current-value": 5,
        "requested": 2,
    }
    name = "shared-consumable-constraint"
    assert get_constraint({name: old}) == get_constraint({name: new}) == draw(2, a_pool(5))


def test_both_names_of_what_a_shared_value_must_be():
    """`requested` is what is written, as in the other form."""
    shared = {"resource-name": "release", "source": "s", "current-value": "a"}
    name = "shared-non-consumable-constraint"
    read = [get_constraint({name: {**shared, key: "b"}}) for key in ("requested", "target")]
    assert read[0] == read[1]
    assert read[0].target == "b"
    assert read[1].to_dict() == {name: {**shared, "requested": "b"}}


def test_current_value_starts_as_the_initial_one():
    """When it is not given."""
    body = {"resource-name": "lic", "sources": ["q"], "initial-values": [9], "requested": 2}
    constraint = get_constraint({"shared-consumable-constraint": body})
    assert constraint.shared_resources[0].current_value == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requested": "many"}, "expected a number or a size, found 'many'"),
        ({"requested": -1}, "expected an amount from 0"),
        ({"requested": "size::4q"}, "expected a size such as"),
        ({"initial-values": [1, 2]}, "expected 1 values in 'initial-values'"),
        ({"initial-values": [True]}, "expected a number or a size"),
        ({"wanted": 1}, "found 'wanted'"),
    ],
)
def test_shared_json_errors(change, message):
    """Each names the constraint and what was expected."""
    body = {"resource-name": "lic", "sources": ["q"], "initial-values": [9], "requested": 2}
    with pytest.raises(ConstraintError, match=message) as caught:
        get_constraint({"not": {"shared-consumable-constraint": {**body, **change}}})
    assert caught.value.path == "not.shared-consumable-constraint"


def test_missing_keys():
    """A key that must be there is named."""
    with pytest.raises(ConstraintError, match="expected the key 'sources'"):
        get_constraint({"shared-consumable-constraint": {"resource-name": "lic", "requested": 1}})
    with pytest.raises(ConstraintError, match="expected the key 'requested'"):
        SharedNonConsumableConstraint.from_dict(
            {
                "shared-non-consumable-constraint": {
                    "resource-name": "v",
                    "source": "s",
                    "current-value": 1,
                }
            }
        )


def test_a_class_without_a_json_form_cannot_be_read():
    """It says so; integrations register a parser for theirs."""
    with pytest.raises(AutoscaleError, match="expected d to be Mapping, found 3"):
        SharedConsumableConstraint.from_dict(3)
    with pytest.raises(NotImplementedError, match="SharedConstraint has no JSON form"):
        SharedConstraint.from_dict({"x": 1})


@pytest.mark.parametrize("pools", [[5], [SharedNonConsumableResource("release", "q", "a")]])
def test_a_pool_of_another_kind(pools):
    """Is refused when the constraint is made, and not when a job is placed."""
    with pytest.raises(ConstraintError, match="expected a SharedConsumableResource"):
        SharedConsumableConstraint(pools, 1)
