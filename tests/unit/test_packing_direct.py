"""What is placed at once ends up where a plan would have put it."""

from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, cores, state_of
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import AnyNode, Exclusive
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Request

NODES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=5)
CANDIDATES = st.lists(
    st.tuples(NODES, st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=4
)
EXPRS = st.one_of(
    st.integers(1, 5).map(cores),
    st.just(AnyNode()),
    st.integers(1, 3).map(lambda n: AllOf([cores(n), Exclusive()])),
    st.integers(1, 3).map(lambda n: AnyOf([cores(n + 2), cores(n)])),
)
DEMANDS = st.lists(st.tuples(EXPRS, st.integers(1, 12)), min_size=1, max_size=8)


def bench_of(candidates, quota):
    """Buckets with nodes, some of them dormant, under limits of their own and one that they share."""
    bench = Bench()
    shared = Limit("Cluster", max_cores=quota)
    for number, (nodes, limit, new) in enumerate(candidates):
        name = str(number)
        limits = [Limit(f"Bucket({name})", max_nodes=limit), shared]
        there = [bench.shape(name, ncpus=free, dormant=dormant) for free, dormant in nodes]
        bench.candidate(name, limits=limits, nodes=there, ncpus=new)
    return bench


def place_at_once(bench, expr, units):
    """Slots that were placed."""
    cursor = bench.planner.cursor(expr)
    spots, left = cursor.fill_some(units)
    runs, left = cursor.open_some(left)
    assert all(after is not before for _, _, before, after in spots if expr.minima)
    assert all(hi > lo for _, lo, hi in runs)
    return units - left


@given(CANDIDATES, st.integers(0, 60), DEMANDS)
def test_arrays_go_where_a_plan_would_put_them(candidates, quota, demands):
    """Nodes, limits and the number of slots are the same after each demand, dormant nodes and used-up limits included."""
    at_once, planned = bench_of(candidates, quota), bench_of(candidates, quota)
    for expr, units in demands:
        placed = place_at_once(at_once, expr, units)
        assert placed == planned.place(expr, Request(units)).units
        assert state_of(at_once) == state_of(planned)


@given(CANDIDATES, st.integers(0, 60), DEMANDS, st.data())
def test_both_ways_may_take_turns(candidates, quota, demands, data):
    """Whichever way each demand takes, the next one finds the same."""
    mixed, planned = bench_of(candidates, quota), bench_of(candidates, quota)
    for expr, units in demands:
        if data.draw(st.booleans(), label="at once"):
            place_at_once(mixed, expr, units)
        else:
            mixed.place(expr, Request(units))
        planned.place(expr, Request(units))
        assert state_of(mixed) == state_of(planned)


def test_a_limit_is_used_up_and_no_more():
    """Half of the nodes fit under the quota: so many are charged and added."""
    bench = Bench()
    quota = Limit("Cluster", max_cores=10)
    candidate = bench.candidate("a", limits=[Limit("Bucket(a)", max_nodes=9), quota])
    assert place_at_once(bench, cores(2), 9) == 4
    assert (len(candidate.shapes), quota.used_cores) == (2, 8)
