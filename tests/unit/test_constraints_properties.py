"""Constraints on what a node is: properties, placement groups, exclusiveness, and the refusing
ones."""

import pytest

from builders.constraints import a_bucket_with, a_node_with
from hpc.autoscale.node.bucket import bucket_candidates
from hpc.autoscale.node.constraints import (
    CapacityFailureBackoffConstraint,
    ExclusiveNode,
    InAPlacementGroup,
    Never,
    NodePropertyConstraint,
    NotAllocated,
    get_constraint,
)


def test_property_is_one_of():
    """The first value that matches scores the most."""
    node = a_node_with()
    wanted = NodePropertyConstraint("vm_size", ["Standard_E2", "Standard_F*", "*"])
    assert wanted == NodePropertyConstraint("vm_size", "Standard_E2", "Standard_F*", "*")
    assert int(wanted.satisfied_by_node(node)) == 2
    assert wanted.minimum_space(node) == -1
    assert wanted.do_decrement(node)


def test_property_is_something_else():
    """InvalidOption says what it is."""
    result = get_constraint({"node.vm_size": ["a", "b"]}).satisfied_by_bucket(a_bucket_with())
    assert result.status == "InvalidOption"
    assert "node.vm_size = 'Standard_F4'" in result.reasons[0]
    assert "Bucket[array=htc vm_size=Standard_F4 attr=vm_size]" in result.reasons[0]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"node.vm_size": ["a", "b"]}, ["'a'", "'b'"]),
        ({"node.vm_size": "a"}, ["'a'"]),
        ({"node.spot": True}, ["True"]),
        ({"node.placement_group": ["pg0", None, "pg1"]}, ["'pg0'", "None", "'pg1'"]),
        ({"node.vm_size": []}, ["one of none"]),
    ],
)
def test_a_reason_for_each_value(wanted, said):
    """Of a node, and of a bucket as of each that was no candidate."""
    constraint, bucket = get_constraint(wanted), a_bucket_with(placement_group="pg9")
    for result in (
        constraint.satisfied_by_node(a_node_with(placement_group="pg9")),
        constraint.satisfied_by_bucket(bucket),
        bucket_candidates([bucket], [constraint]).child_results[0],
    ):
        assert result.status == "InvalidOption"
        assert all(f"and {v} is needed" in r for v, r in zip(said, result.reasons, strict=True))


def test_wildcard_weighs():
    """A wildcard weighs by its own place in the list, and a weight of 0 stays 0."""
    f, e, d = (a_bucket_with(vm_size=f"Standard_{x}4") for x in "FED")
    wanted = get_constraint({"node.vm_size": ["Standard_E*", "Standard_F*"]})
    weights = wanted.weight_buckets([(f, 3.0), (e, 2.0), (d, 1.0), (e, 0.0)])
    assert [weight for _, weight in weights] == [103.0, 202.0, 0.0, 0.0]


def test_values_of_a_property_keep_their_type():
    """A number is equal to a number, none to none, and a size in text to nothing."""
    node = a_node_with()
    assert get_constraint({"node.vcpu_count": 4}).satisfied_by_node(node)
    assert not get_constraint({"node.vcpu_count": "4"}).satisfied_by_node(node)
    assert get_constraint({"node.placement_group": None}).satisfied_by_node(node)
    assert get_constraint({"node.exists": False}).satisfied_by_node(node)
    assert not get_constraint({"node.memory": "memory::8g"}).satisfied_by_node(node)


def test_property_dict_is_always_a_list():
    """Also for one value, and for none."""
    assert NodePropertyConstraint("vm_size", "a").to_dict() == {"node.vm_size": ["a"]}
    assert NodePropertyConstraint("vm_size", None).to_dict() == {"node.vm_size": [None]}
    nothing = NodePropertyConstraint("vm_size")
    assert nothing.to_dict() == {"node.vm_size": []}
    assert not nothing.satisfied_by_node(a_node_with())


def test_placement_group():
    """In one, or in none, as asked."""
    inside, outside = a_node_with(placement_group="pg0"), a_node_with()
    assert InAPlacementGroup().satisfied_by_node(inside)
    assert InAPlacementGroup().satisfied_by_node(outside).status == "NotInAPlacementGroup"
    assert InAPlacementGroup(False).satisfied_by_node(outside)
    assert "'pg0'" in InAPlacementGroup(False).satisfied_by_node(inside).reasons[0]
    assert [InAPlacementGroup().minimum_space(n) for n in (inside, outside)] == [-1, 0]
    assert [InAPlacementGroup().do_decrement(n) for n in (inside, outside)] == [True, False]


def test_exclusive_node_is_free():
    """A free node is closed; all iterations of one allocation may share it."""
    node = a_node_with(ncpus=4)
    exclusive = ExclusiveNode(assignment_id="job")
    assert exclusive.satisfied_by_node(node)
    assert exclusive.minimum_space(node) == -1
    assert exclusive.do_decrement(node)
    assert node.closed
    assert exclusive.do_decrement(node)


@pytest.mark.parametrize("occupied", [{"assignments": ["other"]}, {"closed": True}])
@pytest.mark.parametrize("job_exclusive", [True, False])
def test_exclusive_node_is_in_use(occupied, job_exclusive):
    """A node that others use, or that is closed, is refused and left alone."""
    node = a_node_with(**occupied)
    exclusive = ExclusiveNode(job_exclusive=job_exclusive, assignment_id="job")
    assert exclusive.satisfied_by_node(node).status == "ExclusiveRequirementFailed"
    if node.assignments:
        assert exclusive.minimum_space(node) == 0
        assert exclusive.do_decrement(node) is False
        assert not node.closed


def test_own_work_on_the_node():
    """Tasks of one job share a node, a job exclusive to itself does not come twice."""
    node = a_node_with(assignments=["job"])
    task, job = ExclusiveNode(True, False, "job"), ExclusiveNode(True, True, "job")
    assert task.satisfied_by_node(node)
    assert task.minimum_space(node) == -1
    assert task.do_decrement(node)
    assert not job.satisfied_by_node(node)
    assert job.minimum_space(node) == 0
    assert job.do_decrement(node) is False


def test_not_exclusive():
    """`is_exclusive` false asks for nothing and takes nothing."""
    node = a_node_with(assignments=["other"])
    shared = ExclusiveNode(is_exclusive=False)
    assert shared.satisfied_by_node(node)
    assert shared.minimum_space(node) == -1
    assert shared.do_decrement(node)
    assert not node.closed


def test_exclusive_dicts():
    """The key says whose exclusiveness it is; each constraint has an id of its own."""
    assert ExclusiveNode().to_dict() == {"exclusive": True}
    assert ExclusiveNode(False, False).to_dict() == {"exclusive_task": False}
    assert ExclusiveNode().assignment_id != ExclusiveNode().assignment_id


def test_exclusive_slots_share_a_node():
    """Ten slots of one core need three nodes of four cores, each closed once used."""
    constraints = [get_constraint({"ncpus": 1}), ExclusiveNode(assignment_id="job")]
    nodes = [a_node_with(f"htc-{i}", ncpus=4) for i in (1, 2, 3)]
    placed, left = [], 10
    for node in nodes:
        result = node.decrement(constraints, left, "job")
        placed.append(result.total_slots)
        left -= result.total_slots
    assert placed == [4, 4, 2]
    assert node.decrement(constraints, 1, "job").status == "NodeClosed"


def test_never():
    """The message is the reason."""
    never = Never("the queue is stopped")
    result = never.satisfied_by_node(a_node_with())
    assert (result.status, result.reasons) == ("Never", ["the queue is stopped"])
    assert never.message == "the queue is stopped"
    assert never.do_decrement(a_node_with()) is False
    assert get_constraint({"never": 3}).message == "3"


@pytest.mark.parametrize(("failed_ago", "weight"), [(None, 5.0), (10, 0.0), (300, 5.0), (301, 5.0)])
def test_backoff(failed_ago, weight):
    """A bucket rests after a capacity failure; nodes are not concerned."""
    bucket = a_bucket_with(last_capacity_failure=failed_ago)
    backoff = CapacityFailureBackoffConstraint(300)
    result = backoff.satisfied_by_bucket(bucket)
    assert result.status == ("success" if weight else "CapacityFailureBackoff")
    assert backoff.weight_buckets([(bucket, 5.0)]) == [(bucket, weight)]
    assert backoff.satisfied_by_node(bucket.example_node)
    assert CapacityFailureBackoffConstraint.from_dict(backoff.to_dict()) == backoff


def test_backoff_says_how_long():
    """The reason has both numbers."""
    result = CapacityFailureBackoffConstraint(300).satisfied_by_bucket(
        a_bucket_with(last_capacity_failure=10)
    )
    assert "10 s ago" in result.reasons[0]
    assert "rest for 300 s" in result.reasons[0]


def test_not_allocated():
    """Only a node that nothing was allocated to, and only once."""
    node = a_node_with()
    constraint = NotAllocated()
    assert constraint.satisfied_by_node(node)
    assert constraint.do_decrement(node)
    assert constraint.satisfied_by_node(node).status == "AlreadyAllocated"
    assert constraint.satisfied_by_node(node).reasons
    assert constraint.do_decrement(node) is False
    assert constraint.minimum_space(node) == 0
