"""What is placed at once ends up where a plan would have put it."""

from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, cores, state_of
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.draft import Want
from hpc.autoscale.packing.expr import AnyNode, Exclusive
from hpc.autoscale.packing.ledger import Account

NODES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=5)
STOCKS = st.lists(st.tuples(NODES, st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=4)
EXPRS = st.one_of(
    st.integers(1, 5).map(cores),
    st.just(AnyNode()),
    st.integers(1, 3).map(lambda n: AllOf([cores(n), Exclusive()])),
    st.integers(1, 3).map(lambda n: AnyOf([cores(n + 2), cores(n)])),
)
DEMANDS = st.lists(st.tuples(EXPRS, st.integers(1, 12)), min_size=1, max_size=8)


def bench_of(stocks, quota):
    """Buckets with nodes, some of them dormant, under limits of their own and one that they share."""
    bench = Bench()
    shared = Account("Cluster", max_cores=quota)
    for number, (nodes, limit, new) in enumerate(stocks):
        name = str(number)
        accounts = [Account(f"Bucket({name})", max_nodes=limit), shared]
        there = [bench.shape(name, ncpus=free, dormant=dormant) for free, dormant in nodes]
        bench.stock(name, accounts=accounts, nodes=there, ncpus=new)
    return bench


def place_at_once(bench, expr, units):
    """Slots that were placed."""
    outlook = bench.packer.outlook(expr)
    spots, left = outlook.fill_some(units)
    runs, left = outlook.open_some(left)
    assert all(after is not before for _, _, before, after in spots if expr.minima)
    assert all(hi > lo for _, lo, hi in runs)
    return units - left


@given(STOCKS, st.integers(0, 60), DEMANDS)
def test_arrays_go_where_a_plan_would_put_them(stocks, quota, demands):
    """Nodes, limits and the number of slots are the same after each demand, dormant nodes and used-up limits included."""
    at_once, planned = bench_of(stocks, quota), bench_of(stocks, quota)
    for expr, units in demands:
        placed = place_at_once(at_once, expr, units)
        assert placed == planned.place(expr, Want(units)).units
        assert state_of(at_once) == state_of(planned)


@given(STOCKS, st.integers(0, 60), DEMANDS, st.data())
def test_both_ways_may_take_turns(stocks, quota, demands, data):
    """Whichever way each demand takes, the next one finds the same."""
    mixed, planned = bench_of(stocks, quota), bench_of(stocks, quota)
    for expr, units in demands:
        if data.draw(st.booleans(), label="at once"):
            place_at_once(mixed, expr, units)
        else:
            mixed.place(expr, Want(units))
        planned.place(expr, Want(units))
        assert state_of(mixed) == state_of(planned)


def test_a_limit_is_used_up_and_no_more():
    """Half of the nodes fit under the quota: so many are charged and added."""
    bench = Bench()
    quota = Account("Cluster", max_cores=10)
    stock = bench.stock("a", accounts=[Account("Bucket(a)", max_nodes=9), quota])
    assert place_at_once(bench, cores(2), 9) == 4
    assert (len(stock.shapes), quota.used_cores) == (2, 8)
