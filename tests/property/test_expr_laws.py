"""The algebra of the engine's expressions."""

from hypothesis import given
from hypothesis import strategies as st

from builders.random_constraints import constraints, nodes, takings
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.node.node.contents import shape_of
from hpc.autoscale.packing.amounts import left
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import (
    FITS,
    FREE_OF_CHARGE,
    UNBOUNDED,
    Fit,
    MinResource,
    how_many,
)
from hpc.autoscale.packing.shape import ShapeTable

exprs = constraints.map(lambda constraint: constraint.lower())
taking = takings.map(lambda constraint: constraint.lower())
shapes = nodes().map(lambda node: shape_of(node, ShapeTable(), QUERYABLE_PROPERTIES))
several = st.lists(exprs, max_size=4)


def fits(expr, shape):
    """Whether it fits at all."""
    return isinstance(expr.fit(shape), Fit)


def answer(expr, shape):
    """Count, takes and closing, or None; the order in which things are taken does not matter."""
    fit = expr.fit(shape)
    if not isinstance(fit, Fit):
        return None
    return fit.count, {name: round(amount, 9) for name, amount in fit.take}, fit.closes


@given(several, shapes)
def test_all_of_needs_every_child(children, shape):
    """What all fit, each fits; with no more than the smallest count, and the sum of all takes."""
    fit = AllOf(children).fit(shape)
    each = [child.fit(shape) for child in children]
    if not isinstance(fit, Fit):
        return
    assert all(isinstance(f, Fit) for f in each)
    assert fit.count <= min((f.count for f in each), default=UNBOUNDED)
    assert fit.closes == any(f.closes for f in each)
    sums = {}
    for f in each:
        for name, amount in f.take:
            sums[name] = sums.get(name, 0) + amount
    assert dict(fit.take) == sums


@given(several, shapes)
def test_all_of_is_the_minimum_where_nothing_is_shared(children, shape):
    """Children that take different things fit as often as the scarcest of them."""
    each = [child.fit(shape) for child in children]
    names = [name for f in each if isinstance(f, Fit) for name, _ in f.take]
    if len(set(names)) < len(names):
        return
    fit = AllOf(children).fit(shape)
    assert isinstance(fit, Fit) == all(isinstance(f, Fit) for f in each)
    if isinstance(fit, Fit):
        assert fit.count == min((f.count for f in each), default=UNBOUNDED)


@given(several, shapes, st.randoms())
def test_all_of_does_not_care_about_order(children, shape, random):
    """In any order it is the same."""
    shuffled = random.sample(children, len(children))
    assert answer(AllOf(children), shape) == answer(AllOf(shuffled), shape)


@given(several, several, shapes)
def test_all_of_is_associative(left_side, right_side, shape):
    """Grouping does not matter."""
    grouped = AllOf([AllOf(left_side), AllOf(right_side)])
    assert answer(grouped, shape) == answer(AllOf([*left_side, *right_side]), shape)


@given(exprs, shapes)
def test_all_of_one_is_that_one(child, shape):
    """One child alone, and with what always fits beside it."""
    assert answer(AllOf([child]), shape) == answer(child, shape)
    assert answer(AllOf([AllOf(()), child]), shape) == answer(child, shape)


@given(several, shapes)
def test_any_of_is_the_first_that_fits(children, shape):
    """Its count, its takes only, and its place."""
    fit = AnyOf(children).fit(shape)
    first = next((i for i, child in enumerate(children) if fits(child, shape)), None)
    assert isinstance(fit, Fit) == (first is not None)
    if isinstance(fit, Fit):
        assert fit.rank == first
        assert answer(AnyOf(children), shape) == answer(children[first], shape)


@given(several, several, shapes)
def test_any_of_is_associative(left_side, right_side, shape):
    """Grouping does not matter."""
    grouped = AnyOf([AnyOf(left_side), AnyOf(right_side)])
    assert answer(grouped, shape) == answer(AnyOf([*left_side, *right_side]), shape)


@given(several, shapes)
def test_exactly_one(children, shape):
    """Fits iff one child does, and is then that child."""
    fitting = [child for child in children if fits(child, shape)]
    expected = answer(fitting[0], shape) if len(fitting) == 1 else None
    assert answer(ExactlyOne(children), shape) == expected


@given(exprs, shapes)
def test_not_is_the_opposite_and_takes_nothing(child, shape):
    """Fits iff the child does not; twice is whether the child fits."""
    fit = Negation(child).fit(shape)
    assert isinstance(fit, Fit) != fits(child, shape)
    assert fit is FITS or not fit
    assert fits(Negation(Negation(child)), shape) == fits(child, shape)


@given(several, shapes)
def test_de_morgan(children, shape):
    """None of several is each of them not."""
    neither = Negation(AnyOf(children))
    assert fits(neither, shape) == fits(AllOf([Negation(child) for child in children]), shape)


@given(exprs, exprs, shapes, st.integers(1, 5))
def test_refusals_of_monotone_expressions_stay(asked, placed, shape, times):
    """Placing other work does not make a node fit that a monotone expression refused."""
    if not asked.monotone or fits(asked, shape):
        return
    fit = placed.fit(shape)
    if isinstance(fit, Fit):
        assert not fits(asked, shape.after(fit, min(times, fit.count)))


few = st.builds(MinResource, st.sampled_from(["ncpus", "ngpus"]), st.integers(1, 3))
choices = st.lists(st.lists(few, max_size=2).map(AllOf), min_size=2, max_size=3).map(AnyOf)
tangled = st.lists(few | choices, min_size=2, max_size=3).map(AllOf)
tangled = tangled | st.lists(tangled | few, min_size=1, max_size=2).map(AllOf)


@given(tangled)
def test_refusals_stay_where_a_choice_is_among_amounts(asked):
    """An alternative that no longer fits may leave more to the others: such an expression is not
    monotone."""
    if not asked.monotone:
        return
    table = ShapeTable()
    template = table.template({}, {})
    fit = {
        (cpus, gpus): fits(asked, table.shape(template, {"ncpus": cpus, "ngpus": gpus}))
        for cpus in range(7)
        for gpus in range(7)
    }
    for (cpus, gpus), fitted in fit.items():
        if fitted:
            assert all(fit[more, gpus] for more in range(cpus, 7))
            assert all(fit[cpus, more] for more in range(gpus, 7))


def test_choice_that_stands_alone_is_monotone():
    """Most alternatives have nothing to do with the amounts beside them."""
    alone = AnyOf([MinResource("ngpus", 1), AllOf([MinResource("ngpus", 2)])])
    assert AllOf([MinResource("ncpus", 1), alone]).monotone
    assert not AllOf([MinResource("ngpus", 1), alone]).monotone
    assert not AllOf([MinResource("ngpus", 1), AllOf([MinResource("ncpus", 1), alone])]).monotone


@given(exprs, exprs, shapes, st.integers(1, 5))
def test_answers_of_settled_expressions_stay(asked, placed, shape, times):
    """Placing other work changes nothing about whether a node fits a settled expression."""
    fit = placed.fit(shape)
    if asked.settled and isinstance(fit, Fit):
        assert asked.monotone
        assert fits(asked, shape) == fits(asked, shape.after(fit, min(times, fit.count)))


@given(taking, shapes)
def test_count_uses_up(expr, shape):
    """Taken as often as it fits, it fits no more, and nothing is below zero."""
    fit = expr.fit(shape)
    if not isinstance(fit, Fit) or fit.count in (UNBOUNDED, FREE_OF_CHARGE):
        return
    after = shape.after(fit, fit.count)
    assert all(after.free[name] >= 0 for name, _ in fit.take)
    assert not fits(expr, after)


@given(taking, shapes, st.integers(1, 6))
def test_count_goes_down_one_by_one(expr, shape, times):
    """After n times it fits n times fewer."""
    fit = expr.fit(shape)
    if not isinstance(fit, Fit) or fit.count >= FREE_OF_CHARGE or fit.count <= times:
        return
    after = expr.fit(shape.after(fit, times))
    assert isinstance(after, Fit)
    assert after.count == fit.count - times


@given(exprs, shapes, st.sampled_from(["ncpus", "ngpus", "share", "mem", "owner", "fast"]))
def test_reads_tells_all(expr, shape, name):
    """A resource that an expression does not name does not change its answer."""
    if name in expr.reads:
        return
    free = {key: value for key, value in shape.free.items() if key != name}
    other = shape.table.shape(shape.template, free, shape.vacant, shape.closed, shape.dormant)
    assert answer(expr, other) == answer(expr, shape)


@given(exprs, shapes)
def test_fit_is_pure(expr, shape):
    """The same question has the same answer."""
    before = dict(shape.free)
    assert answer(expr, shape) == answer(expr, shape)
    assert shape.free == before


@given(exprs)
def test_an_expression_can_be_said(expr):
    """In words, without the names of classes."""
    assert expr.__class__.__name__ not in str(expr)


numbers = st.integers(0, 10**12) | st.integers(0, 10**6).map(lambda n: n / 10)


@given(st.integers(1, 2**80), st.integers(1, 1000))
def test_whole_numbers_are_exact(amount, times):
    """However large they are: a byte less than a terabyte is less than a terabyte."""
    assert how_many(amount * times, amount) == times
    assert how_many(amount * times - 1, amount) == (amount * times - 1) // amount


@given(numbers, numbers.filter(bool))
def test_what_fits_can_be_taken(available, amount):
    """How often an amount fits, so often it can be taken, and then less than one is left."""
    count = how_many(available, amount)
    rest = left(available, amount, count) if count else available
    assert 0 <= rest < amount
