"""Constraints on resources: amounts, values, aliases."""

from functools import partial

import pytest

from builders.constraints import a_bucket_with, a_node_with
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.constraints import (
    And,
    CapacityFailureBackoffConstraint,
    InvalidAmount,
    MinResourcePerNode,
    NodeResourceConstraint,
    ReadOnlyAlias,
    get_constraint,
)


def test_amount_is_there():
    """An amount up to what is available is satisfied and taken."""
    node = a_node_with(ncpus=4)
    constraint = MinResourcePerNode("ncpus", 2)
    assert constraint.satisfied_by_node(node)
    assert constraint.minimum_space(node) == 2
    assert constraint.do_decrement(node) is True
    assert node.available == {"ncpus": 2}
    assert node.resources == {"ncpus": 4}


def test_amount_is_not_there():
    """The status and the reason say what is missing and from where."""
    bucket = a_bucket_with(ncpus=4)
    result = MinResourcePerNode("ncpus", 5).satisfied_by_bucket(bucket)
    assert result.status == "InsufficientResource"
    assert result.reasons == [
        "InsufficientResource: Bucket[array=htc vm_size=Standard_F4 attr=ncpus] has 4 of 'ncpus', "
        "and 5 is needed"
    ]
    node_result = MinResourcePerNode("ncpus", 5).satisfied_by_node(a_node_with("htc-7", ncpus=4))
    assert "Node[name=htc-7 attr=ncpus]" in node_result.reasons[0]


def test_amount_of_nothing():
    """A resource whose value is None is there, and there is nothing of it."""
    result = MinResourcePerNode("ncpus", 1).satisfied_by_node(a_node_with(ncpus=None))
    assert result.status == "InsufficientResource"
    assert "has None of 'ncpus', and 1 is needed" in result.reasons[0]


def test_resource_is_not_defined():
    """A node without the resource has no space, and the likely name is guessed."""
    node = a_node_with(ncpus=4)
    constraint = MinResourcePerNode("ncpu", 1)
    result = constraint.satisfied_by_node(node)
    assert result.status == "UndefinedResource"
    assert "did you mean 'ncpus'?" in result.reasons[0]
    assert constraint.minimum_space(node) == 0
    with pytest.raises(RuntimeError, match="ncpu"):
        constraint.do_decrement(node)


def test_taking_too_much():
    """A decrement below zero raises and takes nothing."""
    node = a_node_with(ncpus=1)
    with pytest.raises(RuntimeError, match="has 1 of 'ncpus'"):
        MinResourcePerNode("ncpus", 2).do_decrement(node)
    assert node.available == {"ncpus": 1}


def test_nothing_is_free():
    """An amount of 0 fits without bound and takes nothing, if the resource exists."""
    node = a_node_with(ncpus=4)
    constraint = MinResourcePerNode("ncpus", 0)
    assert constraint.minimum_space(node) == 2**31
    assert constraint.do_decrement(node)
    assert node.available == {"ncpus": 4}
    assert MinResourcePerNode("ngpus", 0).satisfied_by_node(node).status == "UndefinedResource"


@pytest.mark.parametrize("value", ["four", None, [4]])
def test_available_that_is_no_number(value):
    """A resource that holds no number is insufficient or undefined, never an exception."""
    constraint = MinResourcePerNode("ncpus", 1)
    node = a_node_with(ncpus=value)
    assert constraint.satisfied_by_node(node).status in (
        "InsufficientResource",
        "UndefinedResource",
    )
    assert constraint.satisfied_by_node(node).reasons
    assert constraint.minimum_space(node) == 0


def test_a_text_is_not_taken_for_the_number_in_it():
    """Nobody who is told that there are 4 can see why 1 does not fit."""
    (reason,) = MinResourcePerNode("ncpus", 1).satisfied_by_node(a_node_with(ncpus="4")).reasons
    assert reason.endswith("has '4' of 'ncpus', and 1 is needed")


def test_available_that_is_not_a_number():
    """Nothing fits into NaN."""
    assert MinResourcePerNode("ncpus", 1.0).minimum_space(a_node_with(ncpus=float("nan"))) == 0


@pytest.mark.parametrize("asked", [1, 1.0, Memory(1, "g"), Size(1024, "m")])
def test_one_meaning_of_numbers_and_sizes(asked):
    """A plain number asked of a sized resource is in its unit: the same for asking, counting and
    taking."""
    node = a_node_with(memgb=Memory(4, "g"))
    constraint = MinResourcePerNode("memgb", asked)
    assert constraint.minimum_space(node) == 4
    constraint.do_decrement(node)
    assert node.available["memgb"] == Memory(3, "g")
    assert isinstance(node.available["memgb"], Memory)
    assert node.available["memgb"].magnitude == "g"


@pytest.mark.parametrize("wanted", [4, 4.0, Memory(4, "g"), Size(4096, "m")])
def test_an_exact_size_is_in_the_unit_of_the_resource(wanted):
    """As the same number is that asks for an amount; what else a node has is said as a size."""
    constraint = get_constraint({"memgb": [1, wanted]})
    assert constraint.satisfied_by_node(a_node_with(memgb=Memory(4, "g"))).score == 1
    assert constraint.satisfied_by_bucket(a_bucket_with(memgb=Memory(4, "g")))
    refused = constraint.satisfied_by_node(a_node_with(memgb=Memory(8, "g")))
    assert "has memgb = 8g" in refused.reasons[0]
    assert not get_constraint({"memgb": [4 * 2**30]}).satisfied_by_node(
        a_node_with(memgb=Memory(4, "g"))
    )
    assert get_constraint({"memmb": [4096]}).satisfied_by_node(a_node_with(memmb=Memory(4096, "m")))


def test_size_asked_of_a_plain_number():
    """A size asked of a plain number counts in bytes."""
    node = a_node_with(disk=4096)
    constraint = MinResourcePerNode("disk", Size(1, "k"))
    assert constraint.minimum_space(node) == 4
    constraint.do_decrement(node)
    assert node.available["disk"] == 3072


def test_fractions_add_up():
    """0.3 holds 0.1 three times, with nothing left."""
    node = a_node_with(share=0.3)
    constraint = MinResourcePerNode("share", 0.1)
    assert constraint.minimum_space(node) == 3
    for _ in range(3):
        assert constraint.do_decrement(node)
    assert node.available["share"] == 0
    assert not constraint.satisfied_by_node(node)


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "2", None, Size(-1, "g")])
def test_amount_that_cannot_be(amount):
    """Negative, infinite and non-numeric amounts are refused at once."""
    with pytest.raises(ValueError, match="expected"):
        MinResourcePerNode("ncpus", amount)


def test_stand_in_for_a_node():
    """An object with `available` is enough to ask, and to take from."""

    class Double:
        name = "double"
        available = {"ncpus": 2, "memgb": Memory(4, "g")}

    assert MinResourcePerNode("ncpus", 1).satisfied_by_node(Double())
    assert MinResourcePerNode("ncpus", 1).minimum_space(Double()) == 2
    assert (
        "Node[name=double" in MinResourcePerNode("ncpus", 3).satisfied_by_node(Double()).reasons[0]
    )


@pytest.mark.parametrize(
    ("wanted", "score"), [(["a"], 1), (["x", "a"], 1), (["a", "x"], 2), (["x", "?", "*"], 2)]
)
def test_first_match_scores(wanted, score):
    """Earlier values score higher; texts match with wildcards."""
    result = NodeResourceConstraint("owner", *wanted).satisfied_by_node(a_node_with(owner="a"))
    assert result
    assert int(result) == score


def test_no_value_matches():
    """InvalidOption says what is there and what was wanted."""
    result = NodeResourceConstraint("owner", "x", "y*").satisfied_by_node(a_node_with(owner="a"))
    assert result.status == "InvalidOption"
    assert "'a'" in result.reasons[0]
    assert "'x', 'y*'" in result.reasons[0]
    assert NodeResourceConstraint("owner", "x").satisfied_by_node(a_node_with()).status == (
        "UndefinedResource"
    )


def test_values_of_other_types_are_equal_or_not():
    """A number in a list is equality, and uses up nothing."""
    node = a_node_with(ncpus=4, fast=True)
    exactly = get_constraint({"ncpus": [4]})
    assert exactly.satisfied_by_node(node)
    assert not get_constraint({"ncpus": [3]}).satisfied_by_node(node)
    assert get_constraint({"fast": True}).satisfied_by_node(node)
    assert exactly.minimum_space(node) == -1
    assert exactly.do_decrement(node)
    assert node.available["ncpus"] == 4


def test_exact_number_stays_exact_in_json():
    """One number is written as a list, because a bare one would read back as an amount."""
    assert NodeResourceConstraint("ncpus", 4).to_dict() == {"ncpus": [4]}
    assert NodeResourceConstraint("owner", "me").to_dict() == {"owner": "me"}
    assert NodeResourceConstraint("fast", True).to_dict() == {"fast": True}
    assert NodeResourceConstraint("owner", "a", "b").to_dict() == {"owner": ["a", "b"]}


def test_no_values_at_all():
    """An empty list is never satisfied, and weighs nothing."""
    never = get_constraint({"owner": []})
    assert never.satisfied_by_node(a_node_with(owner="a")).status == "InvalidOption"
    assert never.weight_buckets([(a_bucket_with(owner="a"), 3.0)])[0][1] == 0.0


def test_preference_weighs():
    """100 for each place from the end; 0 for buckets that do not match or lack the resource."""
    buckets = [
        a_bucket_with(owner="b"),
        a_bucket_with(owner="a"),
        a_bucket_with(owner="c"),
        a_bucket_with(),
    ]
    weights = get_constraint({"owner": ["a", "b"]}).weight_buckets(
        [(bucket, 4.0 - i) for i, bucket in enumerate(buckets)]
    )
    assert [weight for _, weight in weights] == [104.0, 203.0, 0.0, 0.0]
    assert [bucket for bucket, _ in weights] == buckets


def test_amounts_do_not_weigh():
    """An amount has no preference."""
    bucket = a_bucket_with(ncpus=1)
    assert MinResourcePerNode("ncpus", 5).weight_buckets([(bucket, 2.5)]) == [(bucket, 2.5)]


def test_case_insensitive_values():
    """Both sides are folded."""
    constraint = NodeResourceConstraint("owner", "ALICE", case_insensitive=True)
    assert constraint.values == ["alice"]
    assert constraint.satisfied_by_node(a_node_with(owner="Alice"))
    assert not NodeResourceConstraint("owner", "ALICE").satisfied_by_node(
        a_node_with(owner="Alice")
    )


def test_unknown_keyword():
    """Only `case_insensitive` is known."""
    with pytest.raises(RuntimeError, match="did you mean 'case_insensitive'"):
        NodeResourceConstraint("owner", "a", case_sensitive=True)


def test_alias():
    """The total becomes available under another name."""
    node = a_node_with(ncpus=4)
    alias = ReadOnlyAlias("slots", "ncpus")
    assert alias.satisfied_by_node(node)
    assert alias.do_decrement(node)
    assert node.available["slots"] == 4
    assert alias.lower() is None
    missing = ReadOnlyAlias("slots", "cores")
    assert missing.satisfied_by_node(node).status == "MissingResourceForAlias"
    assert "'cores'" in missing.satisfied_by_node(node).reasons[0]
    assert missing.do_decrement(node) is False


def test_class_is_an_ordinary_resource_too():
    """A resource may be called `class`."""
    assert type(get_constraint({"class": "ReadOnlyAlias"})) is NodeResourceConstraint
    assert type(get_constraint({"class": "gpu", "alias": "x"})) is And


@pytest.mark.parametrize(
    "make", [partial(MinResourcePerNode, "a"), CapacityFailureBackoffConstraint]
)
@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_is_no_amount(make, flag):
    """`{"a": true}` asks for a resource that is true: as an amount, what was written would read
    back as another constraint."""
    with pytest.raises(InvalidAmount, match=f"expected a number or a size, found {flag}"):
        make(flag)
