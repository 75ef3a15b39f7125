"""Where slots go: small cases, each worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engine import Bench, codes, cores, free_cores, named, said, state_of
from hpc.autoscale.packing import layers
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import UNBOUNDED, AnyNode, Exclusive, PropertyIs, ResourceIs
from hpc.autoscale.packing.limits import Limit, LimitExceeded
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.planner import StalePlan


def test_fills_nodes_in_order_then_opens_new_ones():
    """Nodes with room in order, as much as fits on each, then as many new ones as it takes."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[1, 0, 4, 4])
    plan = bench.place(cores(1), Request(14))
    assert said(plan) == [
        ("a", 0, 1, 1, False),
        ("a", 2, 4, 4, False),
        ("a", 4, 5, 4, True),
        ("a", 5, 6, 1, True),
    ]
    assert free_cores(candidate) == [0, 0, 0, 0, 0, 3]
    assert candidate.limits[0].used_nodes == 2


def test_equal_nodes_are_one_step():
    """A thousand nodes are opened and filled in one step, and stay one run."""
    bench = Bench()
    candidate = bench.candidate("a", limit=2000)
    assert said(bench.place(cores(1), Request(4000))) == [("a", 0, 1000, 4, True)]
    assert said(bench.place(cores(4), Request(500))) == [("a", 1000, 1500, 1, True)]
    assert len(set(candidate.shapes)) == 1


@pytest.mark.parametrize(
    ("existing_first", "expected"),
    [
        (True, [("a", 0, 1, 2, False), ("b", 0, 1, 4, False), ("a", 1, 2, 2, True)]),
        (False, [("a", 0, 1, 2, False), ("a", 1, 2, 4, True), ("a", 2, 3, 2, True)]),
    ],
)
def test_nodes_that_are_there_come_first(existing_first, expected):
    """In all buckets before a new node in the first; or bucket by bucket, where that is asked
    for."""
    bench = Bench(existing_first)
    bench.candidate("a", nodes=[2])
    bench.candidate("b", nodes=[4])
    assert said(bench.place(cores(1), Request(8))) == expected


def test_preference_decides_where():
    """The order is that of the ranking."""
    bench = Bench()
    bench.candidate("a", limit=1)
    bench.candidate("b", limit=1)
    wanted = AllOf([PropertyIs("bucket", ["b", "a"]), cores(4)])
    assert said(bench.place(wanted, Request(2))) == [("b", 0, 1, 1, True), ("a", 0, 1, 1, True)]


def test_one_on_each_node():
    """Nodes wanted: one unit on each, however much there is room for."""
    bench = Bench()
    bench.candidate("a", nodes=[4, 2])
    assert said(bench.place(cores(1), Request(3, per_node=1))) == [
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
    bench.candidate("a")
    assert said(bench.place(expr, Request(3))) == expected


def test_part_of_it_is_a_success_that_says_what_stopped_the_rest():
    """As much as the limit allows, and its name with its figures."""
    bench = Bench()
    bench.candidate("a", limit=2, nodes=[1])
    plan = bench.place(cores(4), Request(5))
    assert plan.units == 2
    assert codes(plan) == [("a", "NodesFull"), ("a", "NoCapacity")]
    assert (
        "Bucket(a) has 2 of 2 nodes in use or planned (2 nodes planned)"
        in plan.rejects[-1][1].explain()
    )
    assert not bench.place(cores(4), Request(1))


def test_a_bucket_at_its_limit_still_takes_what_fits_on_its_nodes():
    """A full quota stops new nodes, not work on those that run."""
    bench = Bench()
    bench.candidate("a", limit=0, nodes=[3])
    assert said(bench.place(cores(1), Request(5))) == [("a", 0, 1, 3, False)]


def test_a_shared_limit_is_charged_once_for_all():
    """What one bucket uses within a plan is gone for the next one in the same plan."""
    bench = Bench()
    region = Limit("Region(x)", max_cores=20)
    a = bench.candidate("a", limits=[Limit("Bucket(a)", max_nodes=3), region])
    b = bench.candidate("b", limits=[Limit("Bucket(b)", max_nodes=9), region])
    plan = bench.place(cores(4), Request(9))
    assert plan.units == 5
    assert (len(a.shapes), len(b.shapes), region.used_cores) == (3, 2, 20)
    assert (
        "Region(x) has 20 of 20 cores in use or planned (20 cores planned)"
        in plan.rejects[-1][1].explain()
    )


def test_reserved_places_are_not_given_away():
    """What is promised elsewhere is neither used nor counted as used."""
    bench = Bench()
    candidate = bench.candidate("a", limit=5)
    candidate.reserved = 3
    assert bench.place(cores(4), Request(9)).units == 2
    assert candidate.limits[0].used_nodes == 2


def test_machines_that_cannot_be_ordered_are_only_filled():
    """An artificial bucket gets no new nodes."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[4], artificial=True)
    assert bench.place(cores(1), Request(9)).units == 4
    assert len(candidate.shapes) == 1


def test_a_sleeping_node_needs_a_place_under_the_limits():
    """It is used as far as the limits allow, and charged once."""
    bench = Bench()
    asleep = bench.shape("a", ncpus=4, dormant=True)
    candidate = bench.candidate("a", limit=1, nodes=[asleep, asleep])
    assert said(bench.place(cores(1), Request(9))) == [("a", 0, 1, 4, False)]
    assert candidate.limits[0].used_nodes == 1
    assert not candidate.shapes[0].dormant
    assert candidate.shapes[1].dormant


def test_a_sleeping_node_and_a_new_one_share_the_limit():
    """The place that the first takes is gone for the second, within one plan."""
    bench = Bench()
    bench.candidate("a", limit=2, nodes=[bench.shape("a", ncpus=2, dormant=True)])
    plan = bench.place(cores(1), Request(9))
    assert said(plan) == [("a", 0, 1, 2, False), ("a", 1, 2, 4, True)]


@pytest.mark.parametrize("existing_first", [True, False])
@pytest.mark.parametrize("layer", ["one-slot", "groups"])
def test_unclaimed_nodes_come_after_the_others_and_before_new_ones(existing_first, layer):
    """One that boots is passed over while another has room, until work was counted on it; bucket by
    bucket that is so within each."""
    layers.leave_out(layer)
    bench = Bench(existing_first)
    boots = bench.shape("a", ncpus=4, is_up=False)
    bench.candidate("a", limit=1, nodes=[boots, boots, 2])
    bench.candidate("b", limit=0, nodes=[2])
    layers.leave_out()
    found = [said(bench.place(cores(2), Request(1)))[0][:3] for _ in range(8)]
    up, of_b, new = ("a", 2, 3), ("b", 0, 1), ("a", 3, 4)
    booting = [*[("a", 0, 1)] * 2, *[("a", 1, 2)] * 2]
    if existing_first:
        assert found == [up, of_b, *booting, new, new]
    else:
        assert found == [up, *booting, new, new, of_b]


def test_unclaimed_nodes_are_taken_in_the_order_for_new_ones():
    """What a job prefers is what was opened for it."""
    bench = Bench()
    for name in ("a", "b"):
        bench.candidate(name, nodes=[bench.shape(name, ncpus=4, is_up=False)])
    expr = AllOf([cores(4), PropertyIs("bucket", ["b", "a"])])
    found = [said(bench.place(expr, Request(1)))[0][:3] for _ in range(3)]
    assert found == [("b", 0, 1), ("a", 0, 1), ("b", 1, 2)]


@pytest.mark.parametrize("are_up", [[False, False], [True, False]])
def test_what_keeps_work_off_unclaimed_nodes_is_said_once(are_up):
    """What the first of them says that has the room, and not that all are full."""
    bench = Bench()
    nodes = [bench.shape("a", ncpus=4, owner="ann", is_up=is_up) for is_up in are_up]
    bench.candidate("a", limit=0, nodes=[0, *nodes], owner="bob")
    plan = bench.place(AllOf([cores(2), ResourceIs("owner", ["bob"])]), Request(3))
    assert codes(plan) == [("a", "InvalidOption"), ("a", "NoCapacity")]


def test_a_node_that_becomes_unclaimed_later_is_found():
    """As one that is started by somebody else while a pass runs."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[1])
    assert said(bench.place(cores(4), Request(1)))[0][1:3] == (1, 2)
    candidate.reshape({0: bench.shape("a", ncpus=4, is_up=False)})
    assert said(bench.place(cores(4), Request(1)))[0][1:3] == (0, 1)


class TestWhole:
    """All in one bucket, or not at all."""

    def test_goes_to_a_bucket_without_unclaimed_nodes_first(self):
        """Then to the first that holds it with them, and none is opened."""
        bench = Bench()
        bench.candidate("a", nodes=[4, bench.shape("a", ncpus=4, is_up=False)])
        bench.candidate("b", nodes=[4, 4])
        found = [said(bench.place(cores(4), Request(2, whole=True))) for _ in range(2)]
        assert found == [[("b", 0, 2, 1, False)], [("a", 0, 1, 1, False), ("a", 1, 2, 1, False)]]

    def test_goes_to_the_first_bucket_that_holds_all(self):
        """A bucket that could take a part takes none."""
        bench = Bench()
        a = bench.candidate("a", limit=2)
        bench.candidate("b", limit=3)
        assert said(bench.place(cores(4), Request(3, whole=True))) == [("b", 0, 3, 1, True)]
        assert (len(a.shapes), a.limits[0].used_nodes) == (0, 0)

    def test_prefers_a_bucket_where_nothing_must_be_opened(self):
        """Nodes that are there come first here too, unless buckets go in declared order."""
        for existing_first, expected in ((True, "b"), (False, "a")):
            bench = Bench(existing_first)
            bench.candidate("a", nodes=[4])
            bench.candidate("b", nodes=[4, 4])
            assert bench.place(cores(4), Request(2, whole=True)).steps[0].candidate.name == expected

    def test_uses_nodes_that_are_there_and_new_ones_together(self):
        """Within one bucket."""
        bench = Bench()
        bench.candidate("a", limit=1, nodes=[2])
        assert said(bench.place(cores(2), Request(3, whole=True))) == [
            ("a", 0, 1, 1, False),
            ("a", 1, 2, 2, True),
        ]

    def test_a_failure_changes_nothing_and_says_how_close_it_came(self):
        """Every bucket with what it could have taken."""
        bench = Bench()
        a = bench.candidate("a", limit=2, nodes=[4])
        b = bench.candidate("b", limit=1)
        plan = bench.planner.ask(cores(4), Request(4, whole=True))
        assert not plan
        assert plan.steps == ()
        assert [(s.name, r.code, r.facts[:2]) for s, r in plan.rejects] == [
            ("a", "GangTooLarge", (4, 3)),
            ("b", "GangTooLarge", (4, 1)),
        ]
        assert (free_cores(a), free_cores(b)) == ([4], [])
        assert (a.limits[0].used_nodes, b.limits[0].used_nodes) == (0, 0)


class TestCommit:
    """A plan becomes true once, whole, and only while nothing else has changed."""

    def test_asking_changes_nothing(self):
        """Asked twice, the answer is the same."""
        bench = Bench()
        candidate = bench.candidate("a", nodes=[3])
        first = bench.planner.ask(cores(1), Request(9))
        assert said(bench.planner.ask(cores(1), Request(9))) == said(first)
        assert (free_cores(candidate), candidate.limits[0].used_nodes) == ([3], 0)

    def test_only_the_newest_answer_can_be_committed(self):
        """An older one, and one that was committed before, are stale."""
        bench = Bench()
        bench.candidate("a")
        old, new = (bench.planner.ask(cores(1), Request(1)) for _ in range(2))
        with pytest.raises(StalePlan):
            bench.planner.apply(old)
        bench.planner.apply(new)
        with pytest.raises(StalePlan):
            bench.planner.apply(new)

    def test_a_plan_does_not_outlive_a_change_of_buckets(self):
        """Another bucket makes it stale."""
        bench = Bench()
        bench.candidate("a")
        plan = bench.planner.ask(cores(1), Request(1))
        bench.candidate("b")
        with pytest.raises(StalePlan):
            bench.planner.apply(plan)

    @pytest.mark.parametrize("change", ["append", "reshape"])
    def test_a_plan_does_not_outlive_a_change_of_nodes(self, change):
        """Nodes that were added or written to from outside make it stale."""
        bench = Bench()
        candidate = bench.candidate("a", nodes=[4])
        plan = bench.planner.ask(cores(1), Request(1))
        if change == "append":
            candidate.append(bench.shape("a", ncpus=4))
        else:
            candidate.reshape({0: bench.shape("a", ncpus=2)})
        with pytest.raises(StalePlan):
            bench.planner.apply(plan)

    @pytest.mark.parametrize("cores_there", [[4], [], [4, 2, 4]])
    def test_a_plan_for_other_nodes_is_not_adopted(self, cores_there):
        """A used node of 4 cores and a new one behind two, where there are others."""
        bench = Bench()
        candidate = bench.candidate("a", nodes=[4, 4])
        there = bench.planner.ask(cores(4), Request(3))
        candidate.shapes[:] = [bench.shape("a", ncpus=n) for n in cores_there]
        with pytest.raises(StalePlan):
            bench.planner.adopt(there)

    def test_what_the_limits_can_no_longer_bear_is_not_begun(self):
        """Charged from outside between question and commit: LimitExceeded, and nothing has
        changed."""
        bench = Bench()
        candidate = bench.candidate("a", limit=2, nodes=[4])
        plan = bench.planner.ask(cores(4), Request(3))
        candidate.limits[0].charge(1, 4)
        with pytest.raises(LimitExceeded):
            bench.planner.apply(plan)
        assert (free_cores(candidate), candidate.limits[0].used_nodes) == ([4], 1)


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
CANDIDATES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=4),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=3,
)


def filled(candidates, existing_first):
    """A bench with candidates: of each the nodes (free cores, whether they sleep, and whether they
    are up) and how many more there may be."""
    bench = Bench(existing_first)
    for index, (nodes, limit) in enumerate(candidates):
        name = f"s{index}"
        bench.candidate(
            name,
            limit=limit,
            nodes=[bench.shape(name, ncpus=n, dormant=s, is_up=up) for n, s, up in nodes],
        )
    return bench


@given(
    CANDIDATES,
    st.booleans(),
    st.lists(
        st.tuples(EXPRS, st.integers(1, 5), st.sampled_from([1, UNBOUNDED]), st.booleans()),
        max_size=8,
    ),
)
def test_reasons_and_fast_cases_change_no_plan(candidates, existing_first, demands):
    """Whether somebody asks why not, and whether one slot is a case of its own: the plan is the
    same."""
    benches = [filled(candidates, existing_first) for _ in range(3)]
    layers.leave_out("one-slot")
    plain = filled(candidates, existing_first)
    layers.leave_out()
    for expr, *wanted in demands:
        request = Request(*wanted)
        expected = said(plain.place(expr, request))
        for bench, explain in zip(benches, (True, False, bool(request.units % 2)), strict=True):
            plan = bench.planner.plan(bench.planner.cursor(expr), request, explain=explain)
            assert said(plan) == expected
            if plan:
                bench.planner.apply(plan)
            assert state_of(bench) == state_of(plain)


@given(
    CANDIDATES,
    st.booleans(),
    st.lists(
        st.tuples(EXPRS, st.integers(1, 5), st.sampled_from([1, UNBOUNDED]), st.booleans()),
        max_size=8,
    ),
)
def test_asking_changes_nothing(candidates, existing_first, demands):
    """However often is asked, and for whatever else: the answers and the state stay the same."""
    bench, plain = (filled(candidates, existing_first) for _ in range(2))
    for expr, *wanted in demands:
        before = state_of(bench)
        for other, *others in demands:
            bench.planner.ask(other, Request(*others))
        assert state_of(bench) == before
        request = Request(*wanted)
        assert said(bench.place(expr, request)) == said(plain.place(expr, request))
        assert state_of(bench) == state_of(plain)


def test_nothing_may_serve():
    """No bucket fits: a plan of nothing."""
    bench = Bench()
    bench.candidate("a")
    assert not bench.planner.ask(named("z"), Request(1))


def test_what_nobody_serves_can_be_asked_for_before_and_after_buckets_come():
    """What is remembered of such requests ends with the buckets that it was about."""
    bench = Bench()
    candidate = bench.candidate("a", nodes=[4])
    for more in ("b", "c"):
        assert not bench.planner.ask(ResourceIs("none", (1,)), Request(1)).units
        candidate.reshape({0: candidate.shapes[0]})
        assert not bench.planner.ask(ResourceIs("none", (1,)), Request(1)).units
        bench.candidate(more)
