"""Where slots go: small cases, each worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, codes, cores, free_cores, named, said
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.draft import Want
from hpc.autoscale.packing.expr import UNBOUNDED, AnyNode, Exclusive, PropertyIs
from hpc.autoscale.packing.ledger import Account, Overdrawn
from hpc.autoscale.packing.packer import StalePlan


def test_fills_nodes_in_order_then_opens_new_ones():
    """Nodes with room in order, as much as fits on each, then as many new ones as it takes."""
    bench = Bench()
    stock = bench.stock("a", nodes=[1, 0, 4, 4])
    delta = bench.place(cores(1), Want(14))
    assert said(delta) == [
        ("a", 0, 1, 1, False),
        ("a", 2, 4, 4, False),
        ("a", 4, 5, 4, True),
        ("a", 5, 6, 1, True),
    ]
    assert free_cores(stock) == [0, 0, 0, 0, 0, 3]
    assert stock.accounts[0].used_nodes == 2


def test_equal_nodes_are_one_step():
    """A thousand nodes are opened and filled in one step, and stay one run."""
    bench = Bench()
    stock = bench.stock("a", limit=2000)
    assert said(bench.place(cores(1), Want(4000))) == [("a", 0, 1000, 4, True)]
    assert said(bench.place(cores(4), Want(500))) == [("a", 1000, 1500, 1, True)]
    assert len(set(stock.shapes)) == 1


@pytest.mark.parametrize(
    ("existing_first", "expected"),
    [
        (True, [("a", 0, 1, 2, False), ("b", 0, 1, 4, False), ("a", 1, 2, 2, True)]),
        (False, [("a", 0, 1, 2, False), ("a", 1, 2, 4, True), ("a", 2, 3, 2, True)]),
    ],
)
def test_nodes_that_are_there_come_first(existing_first, expected):
    """In all buckets before a new node in the first; or bucket by bucket, where that is asked for."""
    bench = Bench(existing_first)
    bench.stock("a", nodes=[2])
    bench.stock("b", nodes=[4])
    assert said(bench.place(cores(1), Want(8))) == expected


def test_preference_decides_where():
    """The order is that of the ranking."""
    bench = Bench()
    bench.stock("a", limit=1)
    bench.stock("b", limit=1)
    wanted = AllOf([PropertyIs("bucket", ["b", "a"]), cores(4)])
    assert said(bench.place(wanted, Want(2))) == [("b", 0, 1, 1, True), ("a", 0, 1, 1, True)]


def test_one_on_each_node():
    """Nodes wanted: one unit on each, however much there is room for."""
    bench = Bench()
    bench.stock("a", nodes=[4, 2])
    assert said(bench.place(cores(1), Want(3, per_node=1))) == [
        ("a", 0, 1, 1, False),
        ("a", 1, 2, 1, False),
        ("a", 2, 3, 1, True),
    ]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (AnyNode(), [("a", 0, 3, 1, True)]),
        (AllOf(()), [("a", 0, 1, 3, True)]),
        (cores(0), [("a", 0, 1, 3, True)]),
        (Exclusive(), [("a", 0, 1, 3, True)]),
        (AllOf([Exclusive(), cores(2)]), [("a", 0, 1, 2, True), ("a", 1, 2, 1, True)]),
        (AnyOf([cores(3), cores(1)]), [("a", 0, 3, 1, True)]),
        (AnyOf([cores(5), cores(2)]), [("a", 0, 1, 2, True), ("a", 1, 2, 1, True)]),
    ],
)
def test_how_many_go_on_a_node(expr, expected):
    """Without constraints one, without an opinion all, else what fits of the first that fits."""
    bench = Bench()
    bench.stock("a")
    assert said(bench.place(expr, Want(3))) == expected


def test_part_of_it_is_a_success_that_says_what_stopped_the_rest():
    """As much as the limit allows, and its name with its figures."""
    bench = Bench()
    bench.stock("a", limit=2, nodes=[1])
    delta = bench.place(cores(4), Want(5))
    assert delta.units == 2
    assert codes(delta) == [("a", "NodesFull"), ("a", "NoCapacity")]
    assert (
        "Bucket(a) has 2 of 2 nodes in use or planned (2 nodes planned)"
        in delta.rejects[-1][1].explain()
    )
    assert not bench.place(cores(4), Want(1))


def test_a_bucket_at_its_limit_still_takes_what_fits_on_its_nodes():
    """A full quota stops new nodes, not work on those that run."""
    bench = Bench()
    bench.stock("a", limit=0, nodes=[3])
    assert said(bench.place(cores(1), Want(5))) == [("a", 0, 1, 3, False)]


def test_a_shared_limit_is_charged_once_for_all():
    """What one bucket uses within a plan is gone for the next one in the same plan."""
    bench = Bench()
    region = Account("Region(x)", max_cores=20)
    a = bench.stock("a", accounts=[Account("Bucket(a)", max_nodes=3), region])
    b = bench.stock("b", accounts=[Account("Bucket(b)", max_nodes=9), region])
    delta = bench.place(cores(4), Want(9))
    assert delta.units == 5
    assert (len(a.shapes), len(b.shapes), region.used_cores) == (3, 2, 20)
    assert (
        "Region(x) has 20 of 20 cores in use or planned (20 cores planned)"
        in delta.rejects[-1][1].explain()
    )


def test_reserved_places_are_not_given_away():
    """What is promised elsewhere is neither used nor counted as used."""
    bench = Bench()
    stock = bench.stock("a", limit=5)
    stock.reserved = 3
    assert bench.place(cores(4), Want(9)).units == 2
    assert stock.accounts[0].used_nodes == 2


def test_machines_that_cannot_be_ordered_are_only_filled():
    """An artificial bucket gets no new nodes."""
    bench = Bench()
    stock = bench.stock("a", nodes=[4], artificial=True)
    assert bench.place(cores(1), Want(9)).units == 4
    assert len(stock.shapes) == 1


def test_a_sleeping_node_needs_a_place_under_the_limits():
    """It is used as far as the limits allow, and charged once."""
    bench = Bench()
    asleep = bench.shape("a", ncpus=4, dormant=True)
    stock = bench.stock("a", limit=1, nodes=[asleep, asleep])
    assert said(bench.place(cores(1), Want(9))) == [("a", 0, 1, 4, False)]
    assert stock.accounts[0].used_nodes == 1
    assert not stock.shapes[0].dormant
    assert stock.shapes[1].dormant


def test_a_sleeping_node_and_a_new_one_share_the_limit():
    """The place that the first takes is gone for the second, within one plan."""
    bench = Bench()
    bench.stock("a", limit=2, nodes=[bench.shape("a", ncpus=2, dormant=True)])
    delta = bench.place(cores(1), Want(9))
    assert said(delta) == [("a", 0, 1, 2, False), ("a", 1, 2, 4, True)]


class TestWhole:
    """All in one bucket, or not at all."""

    def test_goes_to_the_first_bucket_that_holds_all(self):
        """A bucket that could take a part takes none."""
        bench = Bench()
        a = bench.stock("a", limit=2)
        bench.stock("b", limit=3)
        assert said(bench.place(cores(4), Want(3, whole=True))) == [("b", 0, 3, 1, True)]
        assert (len(a.shapes), a.accounts[0].used_nodes) == (0, 0)

    def test_prefers_a_bucket_where_nothing_must_be_opened(self):
        """Nodes that are there come first here too, unless buckets go in declared order."""
        for existing_first, expected in ((True, "b"), (False, "a")):
            bench = Bench(existing_first)
            bench.stock("a", nodes=[4])
            bench.stock("b", nodes=[4, 4])
            assert bench.place(cores(4), Want(2, whole=True)).placed[0].stock.name == expected

    def test_uses_nodes_that_are_there_and_new_ones_together(self):
        """Within one bucket."""
        bench = Bench()
        bench.stock("a", limit=1, nodes=[2])
        assert said(bench.place(cores(2), Want(3, whole=True))) == [
            ("a", 0, 1, 1, False),
            ("a", 1, 2, 2, True),
        ]

    def test_a_failure_changes_nothing_and_says_how_close_it_came(self):
        """Every bucket with what it could have taken."""
        bench = Bench()
        a = bench.stock("a", limit=2, nodes=[4])
        b = bench.stock("b", limit=1)
        delta = bench.packer.ask(cores(4), Want(4, whole=True))
        assert not delta
        assert delta.placed == ()
        assert [(s.name, r.code, r.facts[:2]) for s, r in delta.rejects] == [
            ("a", "GangTooLarge", (4, 3)),
            ("b", "GangTooLarge", (4, 1)),
        ]
        assert (free_cores(a), free_cores(b)) == ([4], [])
        assert (a.accounts[0].used_nodes, b.accounts[0].used_nodes) == (0, 0)


class TestCommit:
    """A plan becomes true once, whole, and only while nothing else has changed."""

    def test_asking_changes_nothing(self):
        """Asked twice, the answer is the same."""
        bench = Bench()
        stock = bench.stock("a", nodes=[3])
        first = bench.packer.ask(cores(1), Want(9))
        assert said(bench.packer.ask(cores(1), Want(9))) == said(first)
        assert (free_cores(stock), stock.accounts[0].used_nodes) == ([3], 0)

    def test_only_the_newest_answer_can_be_committed(self):
        """An older one, and one that was committed before, are stale."""
        bench = Bench()
        bench.stock("a")
        old, new = (bench.packer.ask(cores(1), Want(1)) for _ in range(2))
        with pytest.raises(StalePlan):
            bench.packer.commit(old)
        bench.packer.commit(new)
        with pytest.raises(StalePlan):
            bench.packer.commit(new)

    def test_a_plan_does_not_outlive_a_change_of_buckets(self):
        """Another bucket makes it stale."""
        bench = Bench()
        bench.stock("a")
        delta = bench.packer.ask(cores(1), Want(1))
        bench.stock("b")
        with pytest.raises(StalePlan):
            bench.packer.commit(delta)

    def test_what_the_limits_can_no_longer_bear_is_not_begun(self):
        """Charged from outside between question and commit: Overdrawn, and nothing has changed."""
        bench = Bench()
        stock = bench.stock("a", limit=2, nodes=[4])
        delta = bench.packer.ask(cores(4), Want(3))
        stock.accounts[0].charge(1, 4)
        with pytest.raises(Overdrawn):
            bench.packer.commit(delta)
        assert (free_cores(stock), stock.accounts[0].used_nodes) == ([4], 1)


EXPRS = st.sampled_from(
    [
        cores(1),
        cores(3),
        AnyNode(),
        Exclusive(),
        AllOf([Exclusive(), cores(2)]),
        AnyOf([cores(4), cores(1)]),
        Negation(cores(2)),
        ExactlyOne([cores(4), cores(2)]),
    ]
)
STOCKS = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4), st.integers(0, 2)),
    min_size=1,
    max_size=3,
)


def filled(stocks, existing_first):
    """A bench with stocks: of each the nodes (free cores, whether they sleep) and how many more there may be."""
    bench = Bench(existing_first)
    for index, (nodes, limit) in enumerate(stocks):
        name = f"s{index}"
        bench.stock(
            name,
            limit=limit,
            nodes=[bench.shape(name, ncpus=n, dormant=asleep) for n, asleep in nodes],
        )
    return bench


@given(
    STOCKS,
    st.booleans(),
    st.lists(
        st.tuples(EXPRS, st.integers(1, 5), st.sampled_from([1, UNBOUNDED]), st.booleans()),
        max_size=8,
    ),
)
def test_the_short_way_is_the_long_one(stocks, existing_first, demands):
    """What goes on one node at once is what asking and committing would have done, or nothing is done."""
    short, long = filled(stocks, existing_first), filled(stocks, existing_first)
    for expr, *wanted in demands:
        want = Want(*wanted)
        expected = said(long.place(expr, want))
        before = [free_cores(stock) for stock in short.packer.stocks]
        fits_one = not want.whole and want.units <= want.per_node
        placed = short.place_on_one(expr, want.units) if fits_one else None
        if placed is not None:
            assert (placed or []) == expected
        else:
            assert [free_cores(stock) for stock in short.packer.stocks] == before
            assert said(short.place(expr, want)) == expected
        for one, other in zip(short.packer.stocks, long.packer.stocks, strict=True):
            assert free_cores(one) == free_cores(other)
            assert one.accounts[0].used_nodes == other.accounts[0].used_nodes


def test_nothing_may_serve():
    """No bucket fits: a plan of nothing."""
    bench = Bench()
    bench.stock("a")
    assert not bench.packer.ask(named("z"), Want(1))
