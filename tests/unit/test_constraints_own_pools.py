"""Classes of integrations that hold a pool themselves, rather than a constraint on it."""

import pytest

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    Never,
    Or,
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.constraints.declared import is_declared
from hpc.autoscale.results import SatisfiedResult

READS = [None, frozenset({"resources.seats"})]
HOLD = {
    "alone": lambda pool: pool,
    "in a list": lambda pool: [pool],
    "in a dict": lambda pool: {"q": (pool,)},
}


class Licensed(BaseNodeConstraint):
    """Each iteration takes a licence, from wherever `held` has it."""

    def __init__(self, held, pool):
        self.held = held
        self.take_from = lambda: pool

    def satisfied_by_node(self, node):
        there = self.take_from().current_value >= 1
        return SatisfiedResult("success" if there else "NoLicence", self, node, ["none left"])

    def do_decrement(self, node):
        pool = self.take_from()
        if pool.current_value < 1:
            return False
        pool.current_value -= 1
        return True

    def to_dict(self):
        return {"licensed": True}

    def __str__(self):
        return "licensed"


def five():
    """A pool of five."""
    return SharedConsumableResource("lic", "q", 5, 5)


def a_licensed(pool, reads=None, hold="alone"):
    """A constraint of a class of its own."""
    return type("SomeLicensed", (Licensed,), {"reads": reads})(HOLD[hold](pool), pool)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("hold", HOLD)
def test_what_a_failed_attempt_took_is_given_back(reads, hold):
    """Wherever it holds the pool, and whatever it declares."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    constraints = [{"ncpus": 1}, a_licensed(pool, reads, hold)]
    assert not manager.allocate(constraints, slot_count=7, all_or_nothing=True)
    assert pool.current_value == 5
    assert manager.get_new_nodes() == []


@pytest.mark.parametrize("reads", READS)
def test_it_is_placed_while_there_are_licences(reads):
    """And what it was given stays taken."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    result = manager.allocate([{"ncpus": 1}, a_licensed(pool, reads)], slot_count=7)
    assert (result.total_slots, pool.current_value) == (5, 0)


def test_inside_of_others():
    """As a child of a composite."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    either = Or(And({"ncpus": 1}, a_licensed(pool)), Never("no"))
    assert not manager.allocate([either], slot_count=7, all_or_nothing=True)
    assert pool.current_value == 5


def test_a_refusal_of_a_node_gives_back():
    """Also where a node is asked directly."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    node = manager.allocate({"ncpus": 1}, node_count=1).nodes[0]
    refuses = type("Refuses", (Licensed,), {"do_decrement": lambda self, node: False})
    assert not node.decrement([a_licensed(pool), refuses(None, pool)])
    assert pool.current_value == 5


def test_what_holds_more_than_plain_values_is_not_remembered():
    """What an object of somebody's class holds may change unseen."""
    reads = READS[1]
    assert not is_declared(a_licensed(five(), reads))
    changing = a_licensed(five(), reads)
    changing.held, changing.take_from = object(), None
    assert not is_declared(changing)
    changing.held = {"a": [1, "b", None, frozenset({2.5})]}
    assert is_declared(changing)


# -- subclasses of the constraints on pools


class Shared(Licensed, SharedConstraint):
    """By the published methods, from the published base."""


def test_the_published_base_needs_the_published_methods_only():
    """It is asked by them, and gives back when the attempt fails."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    constraints = [{"ncpus": 1}, Shared(pool, pool)]
    assert not manager.allocate(constraints, slot_count=7, all_or_nothing=True)
    assert pool.current_value == 5
    assert manager.allocate(constraints, slot_count=7).total_slots == 5
    assert pool.current_value == 0


class OnNone(SharedConsumableConstraint):
    """Satisfied by no node."""

    def satisfied_by_node(self, node):
        return SatisfiedResult("No", self, node, reasons=["not here"])


class Twice(SharedConsumableConstraint):
    """Pays twice, and notes it on the node."""

    def do_decrement(self, node):
        node.available["paid"] = True
        return super().do_decrement(node) and super().do_decrement(node)


@pytest.mark.parametrize("around", [lambda c: c, lambda c: And({"ncpus": 1}, c)], ids="1A")
def test_overridden_answers_count(around):
    """Those of a subclass of ours, not what it has inherited."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    refused = manager.allocate([{"ncpus": 1}, around(OnNone([pool], 1))], slot_count=1)
    (node,) = manager.allocate([{"ncpus": 1}, around(Twice([pool], 1))], slot_count=1).nodes
    assert "not here" in " ".join(refused.reasons)
    assert (node.available["paid"], pool.current_value) == (True, 3)


def test_what_pays_twice_stops_in_time():
    """Two slots are paid from five licences, and the third gives back what it took."""
    pool, manager = five(), a_manager(an_htc_cluster(10))
    result = manager.allocate([{"ncpus": 1}, Twice([pool], 1)], slot_count=4)
    assert (result.total_slots, pool.current_value) == (2, 1)
