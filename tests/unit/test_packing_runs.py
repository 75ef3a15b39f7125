"""A run list is a list of shapes, written shorter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_kit import lone_shapes

from hpc.autoscale.packing.runs import RunList

SHAPES = [None, *lone_shapes(3)]
KINDS = st.integers(0, len(SHAPES) - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KINDS, st.integers(0, 4), st.just(0)),
        st.tuples(st.just("assign"), KINDS, st.integers(0, 20), st.integers(1, 6)),
    ),
    max_size=25,
)


def both(steps):
    """A run list and a plain list after the same steps."""
    runs, plain = RunList(), []
    for what, kind, a, b in steps:
        if what == "append":
            runs.append(SHAPES[kind], a)
            plain += [SHAPES[kind]] * a
        elif a < len(plain):
            hi = min(len(plain), a + b)
            runs.assign(a, hi, SHAPES[kind])
            plain[a:hi] = [SHAPES[kind]] * (hi - a)
    return runs, plain


def spread(runs, start=0):
    """The shapes by position, from `start` on."""
    return [shape for lo, hi, shape in runs.walk(start) for _ in range(lo, hi)]


@given(STEPS)
def test_holds_what_a_plain_list_holds(steps):
    """Same shapes at the same positions, whatever was appended and assigned."""
    runs, plain = both(steps)
    assert spread(runs) == plain
    assert runs.size == len(plain)
    assert [runs.at(i) for i in range(len(plain))] == plain


@given(STEPS)
def test_neighbouring_runs_differ(steps):
    """Equal neighbours are one run, so that the number of runs is the number of changes."""
    runs, plain = both(steps)
    changes = sum(i == 0 or plain[i] is not plain[i - 1] for i in range(len(plain)))
    assert len(runs) == changes


@given(STEPS, st.integers(0, 40))
def test_walks_from_anywhere(steps, start):
    """A walk from a position covers the rest, without gaps, and ends behind the last."""
    runs, plain = both(steps)
    assert spread(runs, start) == plain[start:]
    position = start
    for lo, hi, _ in runs.walk(start):
        assert lo == position < hi
        position = hi
    assert position == max(start, len(plain))


@given(STEPS)
def test_run_from_says_how_far_a_shape_goes(steps):
    """From any position, the end of its run and its shape."""
    runs, plain = both(steps)
    for position, shape in enumerate(plain):
        end, found = runs.run_from(position)
        assert found is shape
        assert all(other is shape for other in plain[position:end])
        assert end == len(plain) or plain[end] is not shape


@pytest.mark.parametrize(("lo", "hi"), [(-1, 1), (1, 1), (2, 1), (0, 4), (3, 4)])
def test_refuses_what_is_not_there(lo, hi):
    """A range that is empty or not within the list is an error, and changes nothing."""
    runs = RunList()
    runs.append(SHAPES[1], 3)
    with pytest.raises(IndexError, match="within 0…3"):
        runs.assign(lo, hi, SHAPES[2])
    assert spread(runs) == [SHAPES[1]] * 3


def test_a_thousand_equal_nodes_are_one_run():
    """Splitting and mending leaves no seams."""
    runs = RunList()
    runs.append(SHAPES[1], 1000)
    for position in (0, 500, 999):
        runs.assign(position, position + 1, SHAPES[2])
    assert len(runs) == 5
    for position in (500, 0, 999):
        runs.assign(position, position + 1, SHAPES[1])
    assert len(runs) == 1
