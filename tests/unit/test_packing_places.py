"""Positions by shape are those that a scan finds."""

from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Anything, Bench, cores
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.cursor import pinned_resource
from hpc.autoscale.packing.expr import Fit, PropertyIs, ResourceIs
from hpc.autoscale.packing.plan import Request
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
    """After nodes were added, filled in a row or one by one, and written to, with looks between
    them or without."""
    bench = Bench()
    candidate = bench.candidate("a")

    def shape(free):
        return None if free is None else bench.shape("a", ncpus=free)

    for what, *details in steps:
        size = len(candidate.shapes)
        if what == "add":
            candidate.extend([shape(free) for free in details[0]])
        elif what == "fill" and size:
            lo, count, free = details
            candidate.fill(lo % size, min(size, lo % size + count), shape(free))
        elif what == "write" and size:
            candidate.reshape({position % size: shape(free) for position, free in details[0]})
        elif what == "look":
            assert dict(candidate.first_of_each(details[0])) == scan(candidate.shapes, details[0])
    for start in (0, 1, 7):
        assert dict(candidate.first_of_each(start)) == scan(candidate.shapes, start)


@given(
    st.lists(st.one_of(st.sampled_from("abc"), st.none(), st.integers(0, 1)), max_size=40),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abcd")), max_size=5),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=2),
    st.integers(0, 41),
)
def test_finds_texts_where_a_scan_finds_them(racks, moved, wanted, start):
    """After nodes got another text too; what is no text is nobody's."""
    bench = Bench()
    candidate = bench.candidate("a")
    candidate.extend([bench.shape("a", ncpus=1, rack=rack) for rack in racks])
    candidate.first_with("rack", wanted, 0)
    for position, rack in moved if racks else ():
        candidate.reshape({position % len(racks): bench.shape("a", ncpus=1, rack=rack)})
    found = [i for i, s in enumerate(candidate.shapes) if i >= start and s.free["rack"] in wanted]
    assert candidate.first_with("rack", wanted, start) == (found[0] if found else -1)


def test_one_node_of_many_is_looked_up():
    """A thousand machines, each with a name of its own: few of them are asked."""
    bench = Bench()
    candidate = bench.candidate("a", limit=0, artificial=True)
    candidate.extend([bench.shape("a", ncpus=4, host=f"h{i}") for i in range(1000)])
    for number in (900, 500, 3):
        expr = AllOf([cores(2), ResourceIs("host", [f"h{number}", "h999"])])
        (placed,) = bench.place(expr, Request(1)).steps
        assert placed.lo == number


def test_which_resources_pin():
    """Texts without wildcards, as they are written."""
    pinned = ResourceIs("host", ["a", "b"])
    assert pinned_resource(AllOf([cores(1), pinned])) == ("host", ("a", "b"))
    for other in (
        ResourceIs("host", ["a", "b*"]),
        ResourceIs("host", ["a"], fold_case=True),
        ResourceIs("host", ["a", None]),
        PropertyIs("bucket", ["a"]),
        cores(1),
    ):
        assert pinned_resource(other) is None


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
    candidate = bench.candidate("a", limit=0, nodes=[4, 2, 3, 1], ncpus=5)
    asked = []
    expr = odd(asked)
    assert [(p.lo, p.times) for p in bench.place(expr, Request(3)).steps] == [(2, 1), (3, 1)]
    assert not bench.place(expr, Request(1))
    bench.place(cores(1), Request(1))
    assert candidate.shapes[0].free["ncpus"] == 3
    assert [(p.lo, p.times) for p in bench.place(expr, Request(1)).steps] == [(0, 1)]


def test_what_looks_alike_is_asked_once():
    """A thousand nodes of two kinds take two questions, however many demands there are."""
    bench = Bench()
    bench.candidate("a", limit=0, nodes=[4] * 1000 + [5] * 20, ncpus=7)
    asked = []
    expr = odd(asked)
    for _ in range(20):
        assert bench.place(expr, Request(1)).units == 1
    assert sorted(asked) == [4, 4, 5, 7]
