"""and, or, xor, not: over our own constraints and over somebody else's."""

import pytest

from builders.constraints import Owned, a_bucket_with, a_node_with
from hpc.autoscale import results
from hpc.autoscale.node.constraints import (
    And,
    CapacityFailureBackoffConstraint,
    MinResourcePerNode,
    Never,
    Not,
    Or,
    ReadOnlyAlias,
    SharedConsumableConstraint,
    SharedConsumableResource,
    XOr,
    get_constraint,
)


def a_pooled_constraint(amount=1, left=5):
    """A constraint on a pool of licences."""
    return SharedConsumableConstraint([SharedConsumableResource("lic", "q", 9, left)], amount)


def test_and_takes_everything():
    """All children must fit, and all are taken."""
    node = a_node_with(ncpus=4, ngpus=2)
    both = And({"ncpus": 1}, {"ngpus": 1})
    assert both.satisfied_by_node(node)
    assert both.minimum_space(node) == 2
    assert both.do_decrement(node)
    assert node.available == {"ncpus": 3, "ngpus": 1}


def test_and_answers_with_the_first_refusal():
    """The result is that of the child."""
    both = And({"ncpus": 1}, {"ngpus": 1}, {"never": "x"})
    result = both.satisfied_by_node(a_node_with(ncpus=4))
    assert result.status == "UndefinedResource"
    assert result.constraint is both.constraints[1]
    assert both.minimum_space(a_node_with(ncpus=4)) == 0
    assert both.do_decrement(a_node_with(ncpus=4)) is False


def test_and_children_add_up():
    """Two children that take the same resource need the sum."""
    both = And({"ncpus": 2}, {"ncpus": 3})
    assert both.minimum_space(a_node_with(ncpus=11)) == 2
    node = a_node_with(ncpus=4)
    result = both.satisfied_by_node(node)
    assert result.status == "InsufficientResource"
    assert "together" in result.reasons[0]
    assert (
        both.satisfied_by_bucket(a_bucket_with(ncpus=4)).status == "success"
    )  # asked part by part
    assert (
        Or(both, {"never": "x"}).satisfied_by_bucket(a_bucket_with(ncpus=4)).status
        == "CompoundFailure"
    )
    assert both.do_decrement(node) is False
    assert node.available == {"ncpus": 4}


def test_and_without_opinion():
    """An And of conditions alone does not care how often; so does an empty one."""
    assert And({"owner": "a"}).minimum_space(a_node_with(owner="a")) == -1
    assert And().minimum_space(a_node_with()) == -1
    assert And().satisfied_by_node(a_node_with())
    assert And().do_decrement(a_node_with())


def test_and_dict_merges():
    """Keys that do not collide are merged; a collision, or nothing, needs the list."""
    assert And({"a": 1}, {"b": 1}).to_dict() == {"a": 1, "b": 1}
    assert And({"a": 1}, {"a": 2}).to_dict() == {"and": [{"a": 1}, {"a": 2}]}
    assert And().to_dict() == {"and": []}
    twice = And(And({"a": 1}, {"a": 2}), And({"a": 3}, {"a": 4}))
    assert get_constraint(twice.to_dict()) == twice


def test_and_dict_keeps_an_alias_whole():
    """The keys of an alias mean something only together."""
    alias = ReadOnlyAlias("slots", "ncpus")
    for both in (And(alias, {"a": 1}), And({"a": 1}, alias), And(And(alias), {"a": 1})):
        again = get_constraint(both.to_dict())
        assert again == both
        assert any(type(child) is ReadOnlyAlias for child in again.constraints)


def test_choice_stays_while_a_node_is_filled():
    """An exclusive alternative closes the node, and the iterations that follow still take it."""
    node = a_node_with(ncpus=4)
    either = Or({"exclusive": True}, {"ncpus": 1})
    assert either.do_decrement(node)
    assert either.do_decrement(node)
    assert node.closed
    assert node.available == {"ncpus": 4}


def test_and_of_a_value_and_what_is_taken_of_it():
    """That a node has two cores is asked before the first iteration, and not again of what that
    has left."""
    node = a_node_with(ncpus=2)
    both = And({"ncpus": 1}, {"ncpus": [2]})
    assert both.minimum_space(node) == 2
    assert both.do_decrement(node)
    assert both.do_decrement(node)
    assert both.do_decrement(node) is False
    assert node.available == {"ncpus": 0}
    assert not both.satisfied_by_node(a_node_with(ncpus=3))


def test_and_with_somebody_elses_constraint():
    """Opaque children have their say in every answer."""
    both = And({"ncpus": 1}, Owned("me"))
    node = a_node_with(ncpus=4, owner="me", tokens=2)
    assert both.lower() is None
    assert both.satisfied_by_node(node)
    assert both.minimum_space(node) == 2
    assert both.do_decrement(node)
    assert node.available == {"ncpus": 3, "owner": "me", "tokens": 1}
    assert both.satisfied_by_node(a_node_with(ncpus=4, owner="you")).status == "NotOwned"


def test_and_takes_nothing_when_somebody_else_refuses():
    """A refusing opaque child leaves amounts and pools alone."""
    pooled = a_pooled_constraint()
    both = And({"ncpus": 1}, pooled, Owned("me"))
    node = a_node_with(ncpus=4, owner="me", tokens=0)
    assert both.do_decrement(node) is False
    assert node.available == {"ncpus": 4, "owner": "me", "tokens": 0}
    assert pooled.shared_resources[0].current_value == 5


def test_and_with_tolls_on_one_pool():
    """Two children that draw on one pool need the sum of it."""
    pool = SharedConsumableResource("lic", "q", 9, 5)
    both = And(SharedConsumableConstraint([pool], 1), SharedConsumableConstraint([pool], 2))
    assert both.minimum_space(a_node_with()) == 1
    assert both.do_decrement(a_node_with())
    assert pool.current_value == 2
    assert both.satisfied_by_node(a_node_with()).status == "SharedLimitReached"
    assert both.satisfied_by_node(a_node_with()).reasons
    assert both.do_decrement(a_node_with()) is False
    assert pool.current_value == 2


def test_or_prefers_earlier():
    """The first satisfied child decides; its score is its place from the end."""
    node = a_node_with(ncpus=4, ngpus=2)
    either = Or({"nvme": 1}, {"ngpus": 1}, {"ncpus": 1})
    result = either.satisfied_by_node(node)
    assert result
    assert int(result) == 2
    assert either.minimum_space(node) == 2
    assert either.do_decrement(node)
    assert node.available == {"ncpus": 4, "ngpus": 1}


def test_or_moves_on():
    """Once the first child no longer fits, the next one is used."""
    node = a_node_with(ncpus=1, ngpus=1)
    either = Or({"ngpus": 1}, {"ncpus": 1})
    assert either.do_decrement(node)
    assert either.do_decrement(node)
    assert either.do_decrement(node) is False
    assert node.available == {"ncpus": 0, "ngpus": 0}
    assert either.minimum_space(node) == 0


def test_or_gives_all_reasons():
    """CompoundFailure has what each child says."""
    result = Or({"nvme": 1}, {"ngpus": 1}).satisfied_by_node(a_node_with())
    assert result.status == "CompoundFailure"
    assert len(result.reasons) == 2


def test_or_weighs():
    """Earlier alternatives weigh more; a bucket that satisfies none weighs nothing."""
    gpu, cpu, none = a_bucket_with(ngpus=1), a_bucket_with(ncpus=1), a_bucket_with()
    weights = Or({"ngpus": 1}, {"ncpus": 1}).weight_buckets([(cpu, 3.0), (gpu, 2.0), (none, 1.0)])
    assert [weight for _, weight in weights] == [103.0, 202.0, 0.0]


@pytest.mark.parametrize("kind", [Or, XOr])
@pytest.mark.parametrize("children", [[], [{"a": 1}], [{"a": 1}, {}]])
def test_alternatives_are_at_least_two(kind, children):
    """One alternative is none."""
    with pytest.raises(AssertionError, match="at least 2 alternatives"):
        kind(*children)


def test_xor_needs_exactly_one():
    """One satisfied child answers; none and two are failures."""
    one = XOr({"ngpus": 1}, {"ncpus": 1})
    node = a_node_with(ncpus=4)
    result = one.satisfied_by_node(node)
    assert result
    assert result.constraint is one.constraints[1]
    assert one.minimum_space(node) == 4
    assert one.do_decrement(node)
    assert node.available == {"ncpus": 3}


def test_xor_with_none_or_two():
    """Both are failures that take nothing; taking from two is an AssertionError."""
    one = XOr({"ngpus": 1}, {"ncpus": 1})
    none, two = a_node_with(), a_node_with(ncpus=4, ngpus=1)
    assert one.satisfied_by_node(none).status == "CompoundFailure"
    assert one.satisfied_by_node(two).status == "XORFailed"
    assert "exactly one" in one.satisfied_by_node(two).reasons[0]
    assert one.satisfied_by_bucket(a_bucket_with(ncpus=4, ngpus=1)).status == "XORFailed"
    assert one.minimum_space(none) == one.minimum_space(two) == 0
    assert one.do_decrement(none) is False
    with pytest.raises(AssertionError, match="satisfies both"):
        one.do_decrement(two)
    assert two.available == {"ncpus": 4, "ngpus": 1}


def test_not_takes_nothing():
    """What is not there cannot be taken."""
    no_gpus = Not({"ngpus": 1})
    node = a_node_with(ncpus=4)
    assert no_gpus.satisfied_by_node(node)
    assert no_gpus.minimum_space(node) == -1
    assert no_gpus.do_decrement(node)
    assert node.available == {"ncpus": 4}
    assert node.decrement([no_gpus, MinResourcePerNode("ncpus", 1)], 2, "job").total_slots == 2


def test_not_refuses():
    """The status says so, and the reason is the constraint."""
    no_gpus = Not({"ngpus": 1})
    result = no_gpus.satisfied_by_node(a_node_with(ngpus=1))
    assert result.status == "not(success)"
    assert result.reasons == [str(no_gpus)] == ["not (Node.ngpus >= 1)"]
    assert no_gpus.satisfied_by_bucket(a_bucket_with(ngpus=1)).status == "not(success)"


def test_not_and_xor_do_not_weigh():
    """They have no preference."""
    weights = [(a_bucket_with(owner="a"), 2.0), (a_bucket_with(), 1.0)]
    assert Not({"owner": "a"}).weight_buckets(weights) == weights
    assert XOr({"owner": "a"}, {"owner": "b"}).weight_buckets(weights) == weights


def test_and_weighs_through_its_children():
    """Preferences add up."""
    [(_, weight)] = And({"owner": "a"}, {"node.vm_size": ["x", "Standard_F4"]}).weight_buckets(
        [(a_bucket_with(owner="a"), 1.0)]
    )
    assert weight == 201.0


def test_buckets_are_asked_as_buckets():
    """A back-off inside a composite looks at the bucket."""
    tired = a_bucket_with(last_capacity_failure=5, ncpus=4)
    backoff = CapacityFailureBackoffConstraint(60)
    assert And({"ncpus": 1}, backoff).satisfied_by_bucket(tired).status == "CapacityFailureBackoff"
    assert Or(backoff, {"never": "x"}).satisfied_by_bucket(tired).status == "CompoundFailure"
    assert Not(backoff).satisfied_by_bucket(tired)
    assert XOr(backoff, {"ncpus": 1}).satisfied_by_bucket(tired)


def test_children():
    """Composites show what they are made of."""
    a, b = Never("a"), Never("b")
    for composite in (And(a, b), Or(a, b), XOr(a, b)):
        assert list(composite.get_children()) == [a, b]
    assert list(Not(a).get_children()) == [a]
    assert str(Or(a, And(a, b))) == "(Never(a) or (Never(a) and Never(b)))"


def test_nested_errors_name_the_path():
    """Dicts given to constructors say where they are wrong."""
    with pytest.raises(RuntimeError, match=r"^or\[1\]\.ncpus: expected"):
        Or({"a": 1}, {"ncpus": {}})
    with pytest.raises(RuntimeError, match=r"^not\.ncpus: expected"):
        Not({"ncpus": {}})


def test_handlers_hear_of_every_answer():
    """Direct calls report the children's results and the composite's."""
    seen = []
    results.register_result_handler(seen.append)
    Or({"nvme": 1}, {"ncpus": 1}).satisfied_by_node(a_node_with(ncpus=1))
    results.unregister_result_handler(seen.append)
    assert [r.status for r in seen] == ["UndefinedResource", "success", "success"]
