"""Work on one node when constraints of several kinds draw on the same amounts."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.constraints import And, BaseNodeConstraint, Or, XOr
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import SatisfiedResult


class Cores(BaseNodeConstraint):
    """Takes cores the way integrations' classes do, without the engine knowing."""

    def __init__(self, amount):
        self.amount = amount

    def satisfied_by_node(self, node):
        enough = node.available["ncpus"] >= self.amount
        return SatisfiedResult("success" if enough else "InsufficientResource", self, node)

    def minimum_space(self, node):
        return node.available["ncpus"] // self.amount

    def do_decrement(self, node):
        if node.available["ncpus"] < self.amount:
            return False
        node.available["ncpus"] -= self.amount
        return True

    def to_dict(self):
        return {"class": "Cores", "amount": self.amount}

    def __str__(self):
        return f"Cores({self.amount})"


class Anything(Cores):
    """Always satisfied, and takes nothing."""

    def __init__(self):
        super().__init__(0)

    def minimum_space(self, node):
        return -1


@pytest.fixture
def manager():
    """Ten nodes of 4 cores to be had."""
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {})
    cluster.add_bucket("htc", "Standard_F4", 10, 10)
    return new_node_manager({"_mock_bindings": cluster})


def test_as_many_as_all_agree_to(manager):
    """2 cores by a class and 1 by number: one slot on each node, though each alone had room for
    more."""
    result = manager.allocate([Cores(2), {"ncpus": 1}], slot_count=3)
    assert result.total_slots == 3
    assert [node.available["ncpus"] for node in result.nodes] == [1, 1, 1]


def test_nothing_is_overdrawn(manager):
    """An alternative whose parts want 5 of 4 cores together does not fit."""
    together = And({"ncpus": 2}, Cores(3))
    result = manager.allocate([Or(together, {"gone": 1})], slot_count=3)
    assert not result
    assert all(node.available["ncpus"] >= 0 for node in manager.get_nodes())


def test_a_choice_that_becomes_ambiguous_is_a_refusal(manager):
    """It ends the demand, not the pass."""
    result = manager.allocate([{"ncpus": 1}, XOr(Anything(), {"ncpus": [3]})], slot_count=1)
    assert not result
    assert manager.allocate({"ncpus": 1}, slot_count=1)
