"""Shapes and templates are one object for equal contents; frozen values tell types apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, cores
from hpc.autoscale.packing.amounts import left
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Exclusive, Fit, MinResource
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import ShapeTable, freeze
from hpc.autoscale.shown import Unit

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, 1.0, 0.5]),
    st.sampled_from(["", "1", "a"]),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def alike(a, b):
    """Equal, with equal types, at every depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    return a == b


@given(VALUES, VALUES)
def test_frozen_values_are_equal_iff_the_values_are_alike(a, b):
    """1, 1.0 and True stay apart, at every depth; equal ones have equal hashes."""
    wrapped = freeze({"x": a}), freeze({"x": b})
    assert (wrapped[0] == wrapped[1]) == alike(a, b)
    if alike(a, b):
        assert hash(wrapped[0]) == hash(wrapped[1])


def test_frozen_mappings_do_not_care_about_order():
    """The same pairs in another order are the same; sets too."""
    assert freeze({"a": 1, "b": [2]}) == freeze({"b": [2], "a": 1})
    assert freeze({"s": {1, 2}}) == freeze({"s": {2, 1}})
    assert freeze({"s": {1, 2}}) != freeze({"s": {1, 3}})


def test_what_cannot_be_hashed_stands_for_itself():
    """Two such objects differ, one is equal to itself."""

    class Odd:
        __hash__ = None

    one, other = Odd(), Odd()
    assert freeze([one]) == freeze([one])
    assert freeze([one]) != freeze([other])


def test_equal_is_identical():
    """One template and one shape for equal contents, however they were given."""
    table = ShapeTable()
    one = table.template({"a": 1, "b": "x"}, {"mem": Unit(2**30, "g")})
    assert table.template({"b": "x", "a": 1}, {"mem": Unit(2**30, "g")}) is one
    assert table.template({"a": 1.0, "b": "x"}, {"mem": Unit(2**30, "g")}) is not one
    assert table.template({"a": 1, "b": "x"}, {}) is not one
    shape = table.shape(one, {"ncpus": 4, "x": [1]})
    assert table.shape(one, {"x": [1], "ncpus": 4}) is shape
    assert table.shape(one, {"ncpus": 4, "x": [True]}) is not shape
    assert len(table) == 2


@pytest.mark.parametrize("state", [{"vacant": False}, {"closed": True}, {"dormant": True}])
def test_every_state_makes_another_shape(state):
    """How a node is occupied is part of its shape."""
    bench = Bench()
    assert bench.shape(ncpus=4, **state) is not bench.shape(ncpus=4)
    assert bench.shape(ncpus=4, **state) is bench.shape(ncpus=4, **state)


def test_later_writes_do_not_reach_a_shape():
    """What was given may be changed afterwards."""
    bench = Bench()
    free = {"ncpus": 4}
    shape = bench.table.shape(bench.table.template({}, {}), free)
    free["ncpus"] = 0
    assert shape.free["ncpus"] == 4


def test_after_is_a_shape_like_any_other():
    """Placing work leads to the same object as having been made like that."""
    bench = Bench()
    shape = bench.shape(ncpus=4, mem=8.0, dormant=True)
    fit = shape.fit(cores(1))
    assert shape.after(fit, 3) is bench.shape(ncpus=1, mem=8.0, vacant=False)
    assert shape.after(fit, 1).after(fit, 2) is not shape.after(fit, 2).after(fit, 2)
    assert shape.after(fit, 3) is shape.after(fit, 3)


def test_after_an_exclusive_job_a_node_is_closed():
    """It takes nothing more, whatever is asked."""
    bench = Bench()
    shape = bench.shape(ncpus=4)
    after = shape.after(shape.fit(AllOf([Exclusive(), cores(1)])), 2)
    assert after.closed
    assert after.free["ncpus"] == 2
    assert after.fit(cores(1)) == Reject("NodeClosed")


def test_an_unusable_node_takes_nothing():
    """A failed node says what it is, and is asked nothing."""
    bench = Bench()
    assert bench.shape(trouble="Failed", ncpus=4).fit(cores(0)) == Reject("NodeUnusable", "Failed")


def test_unknown_properties_are_an_error():
    """Asking a shape for what differs from node to node is a mistake of the caller."""
    with pytest.raises(KeyError):
        Bench().shape().prop("hostname")


@pytest.mark.parametrize(
    ("available", "amount", "times", "rest"),
    [(4, 1, 3, 1), (0.3, 0.1, 3, 0), (1.0, 0.1, 10, 0), (2**70, 1, 1, 2**70 - 1), (True, 1, 1, 0)],
)
def test_left_is_exact_where_it_can_be(available, amount, times, rest):
    """Whole numbers stay exact; a remainder that rounding made is nothing."""
    assert left(available, amount, times) == rest


def test_nothing_can_be_taken_from_a_text():
    """That is a mistake, not an amount."""
    with pytest.raises(TypeError, match="expected a number"):
        left("four", 1)


@given(st.integers(0, 50), st.integers(1, 9))
def test_tenths_fill_up_exactly(whole, tenths):
    """As many tenths as are there fit, and then nothing is left: 0.3 holds 0.1 three times."""
    available, amount = (whole * tenths) / 10, tenths / 10
    shape = Bench().shape(share=available)
    fit = shape.fit(MinResource("share", amount))
    if whole == 0:
        assert isinstance(fit, Reject)
        return
    assert isinstance(fit, Fit)
    assert fit.count == whole
    assert shape.after(fit, whole).free["share"] == 0


@given(VALUES, st.booleans(), st.booleans())
def test_shapes_that_differ_by_a_property(value, vacant, closed):
    """Are the ones that the table would hand out for it."""
    table, units = ShapeTable(), {"mem": Unit(2**30, "g")}
    free = {"mem": 2**31, "odd": value}
    one, other = (
        table.shape(table.template({"size": "F4", "group": g}, units), free, vacant, closed)
        for g in ("pg0", "pg1")
    )
    assert table.with_property(one, "group", "pg1") is other
    assert table.with_property(other, "group", "pg1") is other
