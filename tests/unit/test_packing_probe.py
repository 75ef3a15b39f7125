"""Constraints that are asked about one node at a time."""

from builders.engine import Bench, codes, cores, said
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.plan import Request, Trial
from hpc.autoscale.packing.reject import Reject


class Taster:
    """A probe that lets one unit onto each node at an even position, and keeps a diary."""

    def __init__(self, bench, most=1):
        self.bench = bench
        self.most = most
        self.asked = []
        self.settled = []

    def __call__(self, candidate, position, units):
        self.asked.append((candidate.name, position, units))
        if position % 2:
            return Reject("Never", "odd")
        taken = min(units, self.most)
        return Trial(taken, self.bench.shape(candidate.name, ncpus=4 - taken, vacant=False))

    def refuses_new(self, candidate):
        return None

    def positions(self, candidate):
        return None

    def settle(self, keep):
        self.settled.append(keep)
        return ("effect",) if keep else ()


class Pinned(Taster):
    """One that says in advance which nodes it may let units onto."""

    def __init__(self, bench, positions):
        super().__init__(bench)
        self.named = positions

    def positions(self, candidate):
        return self.named


class TestProbe:
    """Constraints that only their own methods understand are asked about one node after another."""

    def test_is_asked_only_about_nodes_that_it_names(self):
        """Of those the ones that the rest lets through."""
        bench = Bench()
        bench.candidate("a", limit=0, nodes=[4, 1, 4, 4, 4])
        probe = Pinned(bench, [1, 2, 4])
        plan = bench.planner.ask(cores(2), Request(9), probe=probe)
        assert [position for _, position, _ in probe.asked] == [2, 4]
        assert said(plan) == [("a", 2, 3, 1, False), ("a", 4, 5, 1, False)]
        assert ("a", "InsufficientResource") in codes(plan)

    def test_says_why_there_is_nobody_to_ask(self):
        """In place of the nodes; new ones are asked about all the same."""
        bench = Bench()
        bench.candidate("a", nodes=[4])
        probe = Pinned(bench, Reject("NoSuchNode", "gone"))
        plan = bench.planner.ask(cores(2), Request(1), probe=probe)
        assert [position for _, position, _ in probe.asked] == [1]
        assert ("a", "NoSuchNode") in codes(plan)

    def test_is_asked_in_order_and_only_about_nodes_that_the_rest_lets_through(self):
        """Each with as many units as the rest allows; a refused new node is the last one tried."""
        bench = Bench()
        bench.candidate("a", nodes=[4, 4, 1, 2])
        probe = Taster(bench)
        plan = bench.planner.ask(cores(2), Request(9), probe=probe)
        assert probe.asked == [("a", 0, 2), ("a", 1, 2), ("a", 3, 1), ("a", 4, 2), ("a", 5, 2)]
        assert said(plan) == [("a", 0, 1, 1, False), ("a", 4, 5, 1, True)]
        assert plan.effects == ("effect",)
        assert probe.settled == [True]
        assert ("a", "Never") in codes(plan)

    def test_tries_no_new_node_where_none_would_be_taken(self):
        """It says why once, and limits, which would be for nothing, are not spoken of."""
        bench = Bench()
        bench.candidate("a", limit=3)
        bench.candidate("b", limit=0)
        probe = Taster(bench)
        probe.refuses_new = lambda candidate: Reject("Never", candidate.name)
        plan = bench.planner.ask(cores(2), Request(9), probe=probe)
        assert (plan.units, probe.asked) == (0, [])
        assert codes(plan) == [("a", "Never"), ("b", "Never")]

    def test_stops_when_all_is_placed(self):
        """Nodes after the last unit are not asked."""
        bench = Bench()
        bench.candidate("a", nodes=[4, 4, 4])
        probe = Taster(bench, most=UNBOUNDED)
        assert bench.planner.ask(cores(1), Request(2), probe=probe).units == 2
        assert probe.asked == [("a", 0, 2)]

    def test_does_not_open_more_than_the_limits_allow(self):
        """Each new node is charged."""
        bench = Bench()
        bench.candidate("a", limit=1)
        probe = Taster(bench)
        assert bench.planner.ask(cores(1), Request(9), probe=probe).units == 1

    def test_a_gang_that_fails_is_undone_bucket_by_bucket(self):
        """What was tried in one bucket is forgotten before the next is asked."""
        bench = Bench()
        bench.candidate("a", limit=1)
        bench.candidate("b", limit=1)
        probe = Taster(bench)
        assert not bench.planner.ask(cores(1), Request(2, whole=True), probe=probe)
        assert probe.settled == [False, False]

    def test_nothing_placed_keeps_nothing(self):
        """Without a unit there is nothing to bring about."""
        bench = Bench()
        bench.candidate("a", limit=0, nodes=[0])
        probe = Taster(bench)
        plan = bench.planner.ask(cores(1), Request(2), probe=probe)
        assert (plan.effects, probe.settled) == ((), [False])
