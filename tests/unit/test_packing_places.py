"""Positions by shape are those that a scan finds."""

from hypothesis import given
from hypothesis import strategies as st
from packing_kit import Anything, Bench, cores

from hpc.autoscale.packing.draft import Want
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.reject import Reject

FREE = st.one_of(st.none(), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(FREE, min_size=1, max_size=90)),
        st.tuples(st.just("fill"), st.integers(0, 99), st.integers(1, 80), st.integers(0, 3)),
        st.tuples(st.just("write"), st.lists(st.tuples(st.integers(0, 99), FREE), min_size=1)),
        st.tuples(st.just("look"), st.integers(0, 99)),
    ),
    max_size=12,
)


def scan(shapes, start):
    """Each shape from a position on, with the first such position."""
    found = {}
    for position in range(start, len(shapes)):
        found.setdefault(shapes[position], position)
    return found


@given(STEPS)
def test_finds_what_a_scan_finds(steps):
    """After nodes were added, filled in a row or one by one, and written to, with looks between them or without."""
    bench = Bench()
    stock = bench.stock("a")

    def shape(free):
        return None if free is None else bench.shape("a", ncpus=free)

    for what, *details in steps:
        size = len(stock.shapes)
        if what == "add":
            stock.extend([shape(free) for free in details[0]])
        elif what == "fill" and size:
            lo, count, free = details
            stock.fill(lo % size, min(size, lo % size + count), shape(free))
        elif what == "write" and size:
            stock.reshape({position % size: shape(free) for position, free in details[0]})
        elif what == "look":
            assert dict(stock.first_of_each(details[0])) == scan(stock.shapes, details[0])
    for start in (0, 1, 7):
        assert dict(stock.first_of_each(start)) == scan(stock.shapes, start)


def odd(fits):
    """Fits nodes with an odd number of free cores only, and takes one: a refusal is not final."""

    def fit(view):
        free = view.free["ncpus"]
        fits.append(free)
        return Fit(1, (("ncpus", 1),)) if free % 2 else Reject("Never", f"{free} is even")

    return Anything(fit, monotone=False)


def test_a_node_that_refused_is_asked_again():
    """In order of positions, and with the first refusal before it."""
    bench = Bench()
    stock = bench.stock("a", limit=0, nodes=[4, 2, 3, 1], ncpus=5)
    asked = []
    expr = odd(asked)
    assert [(p.lo, p.times) for p in bench.place(expr, Want(3)).placed] == [(2, 1), (3, 1)]
    assert not bench.place(expr, Want(1))
    bench.place(cores(1), Want(1))
    assert stock.shapes[0].free["ncpus"] == 3
    assert [(p.lo, p.times) for p in bench.place(expr, Want(1)).placed] == [(0, 1)]


def test_what_looks_alike_is_asked_once():
    """A thousand nodes of two kinds take two questions, however many demands there are."""
    bench = Bench()
    bench.stock("a", limit=0, nodes=[4] * 1000 + [5] * 20, ncpus=7)
    asked = []
    expr = odd(asked)
    for _ in range(20):
        assert bench.place(expr, Want(1)).units == 1
    assert sorted(asked) == [4, 4, 5, 7]
