"""In which order stocks are asked."""

import pytest
from packing_kit import Bench, cores, named, said

from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import AnyNode, Never, PropertyIs, ResourceIs, Rested
from hpc.autoscale.packing.ranking import rank
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.strategy import Want


@pytest.fixture
def bench():
    """Three stocks: a, b and c."""
    bench = Bench()
    for name in "abc":
        bench.stock(name, owner=f"o-{name}")
    return bench


def order(bench, expr):
    """Names of those that may serve, best first."""
    return "".join(stock.name for stock in rank(expr, bench.packer.stocks).stocks)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (AnyNode(), "abc"),
        (cores(1), "abc"),
        (PropertyIs("bucket", ["c", "b", "a"]), "cba"),
        (PropertyIs("bucket", ["c", "*"]), "cab"),
        (PropertyIs("bucket", ["b"]), "b"),
        (ResourceIs("owner", ["o-b", "o-c"]), "bc"),
        (AnyOf([named("c"), named("a")]), "ca"),
        (ExactlyOne([named("c"), named("a")]), "ac"),
        (Negation(named("a")), "bc"),
        (Negation(PropertyIs("bucket", ["c", "b"])), "a"),
        (AllOf([PropertyIs("bucket", ["b", "a"]), PropertyIs("bucket", ["a", "b"])]), "ab"),
        (AllOf([PropertyIs("bucket", ["c", "*"]), ResourceIs("owner", ["o-b", "*"])]), "bca"),
        (Never("no"), ""),
    ],
)
def test_preferences_then_declared_order(bench, expr, expected):
    """Preferences add up, equals stay as declared, and what does not fit is left out."""
    assert order(bench, expr) == expected


def test_those_left_out_say_why_in_the_order_of_preference(bench):
    """Every refusal is kept with its stock."""
    ranking = rank(AllOf([PropertyIs("bucket", ["c", "a"]), cores(5)]), bench.packer.stocks)
    assert ranking.stocks == ()
    assert [stock.name for stock, _ in ranking.rejects] == ["c", "a", "b"]
    codes = [reject.code for _, reject in ranking.rejects]
    assert codes == ["InsufficientResource", "InsufficientResource", "InvalidOption"]


def test_conditions_are_asked_one_by_one(bench):
    """A node that is there may have room for all of them where a new one has not, so the bucket is not left out."""
    together = AllOf([cores(2), AnyOf([AllOf([named("z"), cores(1)]), cores(3)])])
    assert order(bench, together) == "abc"
    stock = bench.packer.stocks[0]
    stock.append(bench.shape("z", ncpus=4))
    assert said(bench.place(together, Want(9))) == [("a", 0, 1, 1, False)]


def test_machines_that_are_there_anyway_come_first():
    """Artificial stocks go before real ones, whatever is preferred."""
    bench = Bench()
    for name in "abc":
        bench.stock(name, artificial=name == "b")
    assert order(bench, PropertyIs("bucket", ["c", "b", "a"])) == "bca"


def test_a_bucket_that_just_failed_is_left_out():
    """While it rests; a bucket that never failed is always rested."""
    bench = Bench()
    bench.stock("a", failed=30.0)
    bench.stock("b", failed=90.0)
    bench.stock("c")
    assert order(bench, Rested(60)) == "bc"
    assert order(bench, AllOf([Rested(60), PropertyIs("bucket", ["c", "b", "a"])])) == "cb"
    assert rank(Rested(60), bench.packer.stocks).rejects[0][1].code == "CapacityFailureBackoff"


def test_a_closed_bucket_example_is_refused():
    """A bucket is asked as a node would be."""
    bench = Bench()
    stock = bench.stock("a")
    stock.bucket_shape = bench.shape("a", ncpus=4, closed=True)
    assert rank(cores(1), [stock]).rejects == ((stock, Reject("NodeClosed")),)


def test_rankings_are_remembered_until_something_changes(bench):
    """The same object is handed out until a stock comes or rankings are forgotten."""
    packer = bench.packer
    first = packer.ranking(cores(1))
    assert packer.ranking(cores(1)) is first
    packer.forget_rankings()
    assert packer.ranking(cores(1)) is not first
    assert packer.ranking(cores(1)) == first
    bench.stock("d")
    assert len(packer.ranking(cores(1)).stocks) == 4
