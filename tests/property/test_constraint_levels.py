"""What is placed does not depend on how much the engine knows of a constraint."""

from hypothesis import example, given
from hypothesis import strategies as st

from builders.random_constraints import constraints, resources
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    MinResourcePerNode,
    NodeResourceConstraint,
    Not,
    Or,
    SharedConsumableConstraint,
    SharedConsumableResource,
    XOr,
)
from hpc.autoscale.node.nodemanager import new_node_manager

# each part has room on a node of one core, and both together have not
TWICE = And({"ncpus": 1}, {"ncpus": 1})
# holds of a node before the first of its iterations has taken something
WHOLE = And({"ncpus": 1}, {"ncpus": [2]})


class Opaque(BaseNodeConstraint):
    """A constraint known by its published answers only."""

    def __init__(self, inner):
        self.inner = inner

    def satisfied_by_node(self, node):
        return self.inner.satisfied_by_node(node)

    def satisfied_by_bucket(self, bucket):
        return self.inner.satisfied_by_bucket(bucket)

    def minimum_space(self, node):
        return self.inner.minimum_space(node)

    def do_decrement(self, node):
        return self.inner.do_decrement(node)

    def weight_buckets(self, bucket_weights):
        return self.inner.weight_buckets(bucket_weights)

    def to_dict(self):
        return self.inner.to_dict()

    def __str__(self):
        return f"opaque {self.inner}"


def chooses_anew(constraint):
    """Whether an iteration may be the reason that the next one chooses another alternative: of
    what is taken, something must also have a certain value. By the published methods a choice is
    made for each iteration, by the engine when it comes to the node."""
    chooses, taken, asked = False, set(), set()

    def look(each, is_asked):
        nonlocal chooses
        chooses = chooses or isinstance(each, (Or, XOr))
        if isinstance(each, NodeResourceConstraint) or (is_asked and hasattr(each, "attr")):
            asked.add(each.attr)
        elif isinstance(each, MinResourcePerNode):
            taken.add(each.attr)
        for child in each.get_children():
            look(child, is_asked or isinstance(each, Not))

    look(constraint, False)
    return chooses and not taken.isdisjoint(asked)


arrays = st.lists(resources, min_size=1, max_size=2)
steady = constraints.filter(lambda constraint: not chooses_anew(constraint))
requests = st.lists(
    st.tuples(steady, st.integers(1, 6), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
)


def a_manager(array_resources):
    """A manager of a cluster with a nodearray for each dict of resources, and a running node in the
    first."""
    binding = MockClusterBinding()
    for index, each in enumerate(array_resources):
        binding.add_nodearray(f"array{index}", each)
        binding.add_bucket(f"array{index}", "Standard_F4", max_count=4, available_count=3)
    binding.add_node("array0-1", "array0")
    return new_node_manager({"_mock_bindings": binding, "disable_default_resources": True})


def cluster_state(manager):
    """Everything that placing changes."""
    return {
        node.name: (dict(node.available), set(node.assignments), node.closed, node.required)
        for node in manager.get_nodes()
    }


@given(arrays, requests)
@example([{"ncpus": 1}], [(TWICE, 1, False, False)])
@example([{"ncpus": 1}], [(And(TWICE, {"ncpus": 1}), 1, False, False)])
@example([{"ncpus": 1}], [(Or(TWICE, {"ncpus": 2}), 1, False, False)])
@example([{"ncpus": 1}], [(XOr(TWICE, {"ncpus": 1}), 1, False, False)])
@example([{"ncpus": 1}], [(Not(TWICE), 1, False, False)])
@example([{"ncpus": 2}], [(WHOLE, 4, False, False)])
@example([{"ncpus": 3}], [(And({"ncpus": 1}, Not({"ncpus": [2]})), 6, False, False)])
def test_known_and_opaque_place_alike(array_resources, asked):
    """The same requests, given as constraints the engine knows or not, end with the same nodes and
    the same status."""
    known, unknown = a_manager(array_resources), a_manager(array_resources)
    for number, (constraint, count, whole, by_node) in enumerate(asked):
        results = [
            manager.allocate(
                [given_as],
                node_count=count if by_node else None,
                slot_count=None if by_node else count,
                all_or_nothing=whole,
                assignment_id=f"job{number}",
            )
            for manager, given_as in ((known, constraint), (unknown, Opaque(constraint)))
        ]
        assert results[0].status == results[1].status
        assert results[0].total_slots == results[1].total_slots
        assert cluster_state(known) == cluster_state(unknown)


licences = st.lists(
    st.tuples(steady, st.integers(1, 6), st.booleans(), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(arrays, licences, st.integers(0, 12))
@example([{"ncpus": 2}], [(WHOLE, 4, False, 0, False)], 0)
def test_pools_are_never_overdrawn_and_always_paid(array_resources, asked, count):
    """Each slot placed has paid its licences, whichever way it went; a failure has paid nothing."""
    managers = [a_manager(array_resources) for _ in range(2)]
    pools = [SharedConsumableResource("lic", "q", count, count) for _ in range(2)]
    for slots_of, (constraint, slots, whole, amount, once) in enumerate(asked):
        before = [pool.current_value for pool in pools]
        results = [
            manager.allocate(
                [given_as, SharedConsumableConstraint([pool], amount, decrement_once=once)],
                slot_count=slots,
                all_or_nothing=whole,
                assignment_id=f"job{slots_of}",
            )
            for manager, pool, given_as in zip(
                managers, pools, (constraint, Opaque(constraint)), strict=True
            )
        ]
        for result, pool, had in zip(results, pools, before, strict=True):
            placed = result.total_slots if result else 0
            assert pool.current_value == had - amount * (min(placed, 1) if once else placed)
            assert pool.current_value >= 0
        assert bool(results[0]) == bool(results[1])
        assert results[0].total_slots == results[1].total_slots
        assert cluster_state(managers[0]) == cluster_state(managers[1])
