"""The published answers of constraints, and the engine's, are the same."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from builders.constraints import a_bucket_with
from builders.random_constraints import buckets, constraints, leaves, nodes, takings
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    Or,
    XOr,
    compile_constraints,
    get_constraint,
)
from hpc.autoscale.node.constraints.base import bucket_view, view_of
from hpc.autoscale.node.node.contents import restore
from hpc.autoscale.packing.amounts import FREE_OF_CHARGE, left
from hpc.autoscale.packing.expr import UNBOUNDED, Fit
from hpc.autoscale.packing.reject import Reject

# each has room on a node of three cores, and both together have not
ONE_AND_THREE = get_constraint({"and": [{"ncpus": 1}, {"ncpus": 3}]})


def answer(expr, view):
    """What an expression says of a view, in a form that compares."""
    fit = expr.fit(view)
    return (fit.count, dict(fit.take), fit.closes) if isinstance(fit, Fit) else fit.code


def rounded(values):
    """Values without the noise in the last digits of fractions."""
    return {k: round(v, 9) if isinstance(v, float) else v for k, v in values.items()}


class Opaque(BaseNodeConstraint):
    """The published answers of a constraint, without what the engine would know of it."""

    def __init__(self, inner):
        self.inner = inner

    def satisfied_by_node(self, node):
        return self.inner.satisfied_by_node(node)

    def satisfied_by_bucket(self, bucket):
        return self.inner.satisfied_by_bucket(bucket)

    def minimum_space(self, node):
        return self.inner.minimum_space(node)

    def do_decrement(self, node):
        return self.inner.do_decrement(node)

    def weight_buckets(self, bucket_weights):
        return self.inner.weight_buckets(bucket_weights)

    def to_dict(self):
        return self.inner.to_dict()

    def __str__(self):
        return f"opaque {self.inner}"


@given(constraints, nodes())
def test_satisfied_by_node_is_fit(constraint, node):
    """A node satisfies a constraint exactly when its expression fits, with the same status."""
    fit = constraint.lower().fit(view_of(node))
    result = constraint.satisfied_by_node(node)
    assert result.status == ("success" if isinstance(fit, Fit) else fit.code)
    assert result or result.reasons


@given(constraints, nodes())
def test_minimum_space_is_count(constraint, node):
    """Where it fits, the space is the count of the expression."""
    fit = constraint.lower().fit(view_of(node))
    if isinstance(fit, Fit):
        assert constraint.minimum_space(node) == (-1 if fit.count >= UNBOUNDED else fit.count)


@given(constraints, nodes())
def test_do_decrement_is_take(constraint, node):
    """Where it fits, one decrement takes what the expression says, and closes the node when that
    says so."""
    view = view_of(node)
    fit = constraint.lower().fit(view)
    if not isinstance(fit, Fit):
        return
    rest = {name: left(view.free[name], amount) for name, amount in fit.take}
    expected = {**node.available, **restore(rest, node.available)}
    assert constraint.do_decrement(node) is True
    assert node.available == expected
    assert {name: type(v) for name, v in node.available.items()} == {
        name: type(v) for name, v in expected.items()
    }
    assert node.closed == fit.closes


@given(constraints, nodes())
def test_asking_changes_nothing(constraint, node):
    """Questions leave the node as it was."""
    before = (dict(node.available), set(node.assignments), node.closed)
    constraint.satisfied_by_node(node)
    constraint.minimum_space(node)
    constraint.lower().fit(view_of(node))
    assert (dict(node.available), set(node.assignments), node.closed) == before


@given(constraints, buckets())
@example(ONE_AND_THREE, a_bucket_with(ncpus=3))
@example(Or(ONE_AND_THREE, {"ncpus": 4}), a_bucket_with(ncpus=3))
def test_satisfied_by_bucket_is_fit_of_each_condition(constraint, bucket):
    """A bucket is asked for each condition by itself, by both: a node that is there may have room
    for all of them together where a new one has not. What fits together is not refused."""
    expr, view = constraint.lower(), bucket_view(bucket)
    fits = [condition.fit(view) for condition in expr.conditions()]
    refusals = [fit.code for fit in fits if isinstance(fit, Reject)]
    result = constraint.satisfied_by_bucket(bucket)
    assert result.status == next(iter(refusals), "success")
    assert result or isinstance(expr.fit(view), Reject)


@given(constraints, buckets(), st.integers(0, 5))
def test_weight_is_weigh(constraint, bucket, weight):
    """Preferences are the same in both."""
    [(same, weighed)] = constraint.weight_buckets([(bucket, float(weight))])
    assert same is bucket
    assert weighed == constraint.lower().weigh(bucket_view(bucket), float(weight))


@given(st.lists(leaves.map(get_constraint), min_size=2, max_size=3), nodes(), st.booleans())
def test_opaque_children_give_the_same_answers(children, node, exclusive):
    """A choice between constraints does not depend on whether the engine knows them."""
    kind = XOr if exclusive else Or
    known, unknown = kind(*children), kind(*map(Opaque, children))
    assert unknown.lower() is None
    assert known.satisfied_by_node(node).status == unknown.satisfied_by_node(node).status
    assert known.minimum_space(node) == unknown.minimum_space(node)
    if known.satisfied_by_node(node):
        twin = node.clone()
        twin.assignments.update(node.assignments)
        assert known.do_decrement(node) == unknown.do_decrement(twin)
        assert node.available == twin.available
        assert node.closed == twin.closed


@given(st.lists(constraints, max_size=4), nodes())
def test_compiled_says_what_the_list_says(constraint_list, node):
    """A list holds exactly when its compiled form fits, and each of it holds alone."""
    compiled = compile_constraints(constraint_list)
    assert not compiled.pooled
    assert not compiled.opaque
    fit = compiled.expr.fit(view_of(node))
    if isinstance(fit, Fit):
        assert all(constraint.satisfied_by_node(node) for constraint in constraint_list)
    else:
        assert not get_constraint({"and": constraint_list}).satisfied_by_node(node)


@given(takings, nodes())
def test_space_is_how_often_it_can_be_taken(constraint, node):
    """One after another, as many decrements succeed as the space promised, and then no more."""
    space = constraint.minimum_space(node)
    if space in (-1, FREE_OF_CHARGE):
        return
    for _ in range(min(space, 500)):
        assert constraint.satisfied_by_node(node)
        assert constraint.do_decrement(node)
    if space <= 500:
        assert not constraint.satisfied_by_node(node)


@given(takings, nodes(), st.integers(1, 10))
def test_many_at_once_is_one_after_another(constraint, node, iterations):
    """`Node.decrement` of n iterations leaves what n single decrements leave."""
    twin = node.clone()
    placed = node.decrement([constraint], iterations, "job")
    if not placed:
        assert node.available == twin.available
        return
    for _ in range(placed.total_slots):
        assert constraint.do_decrement(twin)
    assert rounded(node.available) == rounded(twin.available)


@given(constraints, nodes())
def test_round_trip(constraint, node):
    """The dict of a constraint, and its JSON text, read back as the same constraint with the same
    answers."""
    again = get_constraint(constraint.to_dict())
    assert again == constraint
    text = json.dumps(constraint.to_dict(), default=lambda size: size.to_json())
    from_text = get_constraint(json.loads(text))
    assert from_text == constraint
    expected = answer(constraint.lower(), view_of(node))
    assert answer(again.lower(), view_of(node)) == expected
    assert answer(from_text.lower(), view_of(node)) == expected


@given(constraints)
def test_equal_constraints_are_one_expression(constraint):
    """Reading the same JSON twice gives equal expressions with equal hashes, as memoising needs."""
    one, two = (get_constraint(constraint.to_dict()).lower() for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
