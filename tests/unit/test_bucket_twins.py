"""Buckets that differ by their placement group alone share what is worked out of their new nodes,
and nothing else."""

import pytest

from builders.nodes import a_manager
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.node.node.contents import shape_of
from hpc.autoscale.results import SatisfiedResult

GROUPS = ["pg0", "pg1", "pg2"]


def a_site(**keys):
    """A manager of two sizes with three groups each."""
    binding = MockClusterBinding("mock")
    binding.add_nodearray("hpc", {"lic": 3}, location="westus2")
    for size in ("Standard_F4", "Standard_F8"):
        binding.add_bucket("hpc", size, 10, 10, placement_groups=GROUPS)
    return a_manager(binding, **keys)


def wrong(manager):
    """The buckets that, or whose new nodes, the engine sees otherwise than each by itself would
    say."""
    manager._placer.sync()
    table = manager._placer.planner.table

    def shape(bucket, node):
        return shape_of(node, table, QUERYABLE_PROPERTIES, bucket._nodes.deferred)

    return [
        b
        for b in manager.get_buckets()
        if b._candidate.new_shape is not shape(b, b._new_node("new", "new"))
        or b._candidate.bucket_shape is not shape(b, b.example_node)
    ]


def seen(manager, resource):
    """What new nodes have of a resource in the engine's eyes, by size and group."""
    manager._placer.sync()
    return {
        (b.vm_size[9:], b.placement_group): b._candidate.new_shape.free.get(resource)
        for b in manager.get_buckets()
    }


class Odd(BaseNodeConstraint):
    """A constraint on something that the library does not know of."""

    def satisfied_by_node(self, node):
        status = "success" if node.placement_group == "pg1" else "odd"
        return SatisfiedResult(status, self, node)

    def do_decrement(self, node):
        return True

    def to_dict(self):
        return {"odd": True}

    def __str__(self):
        return "odd"


@pytest.mark.parametrize(
    ("select", "value", "expected"),
    [
        ({}, "node.vcpu_count", {None: 4, "pg0": 4, "pg1": 4}),
        ({"node.placement_group": "pg1"}, 7, {None: None, "pg0": None, "pg1": 7}),
        ({"in-a-placement-group": True}, 7, {None: None, "pg0": 7, "pg1": 7}),
        ({"node.infiniband": True}, 7, {None: None, "pg0": 7, "pg1": 7}),
        ({}, "node.placement_group", {None: None, "pg0": "pg0", "pg1": "pg1"}),
        ({}, "node.colocated", {None: False, "pg0": True, "pg1": True}),
        (Odd(), 7, {None: None, "pg0": None, "pg1": 7}),
        ({}, lambda node: node.placement_group, {None: None, "pg0": "pg0", "pg1": "pg1"}),
    ],
)
def test_default_resources_may_depend_on_the_group(select, value, expected):
    """Or not; each bucket sees its own."""
    manager = a_site()
    manager.add_default_resource(select, "extra", value)
    assert wrong(manager) == []
    found = seen(manager, "extra")
    assert {group: found["F4", group] for group in expected} == expected


def test_default_resources_may_come_late():
    """When the buckets were asked already."""
    manager = a_site()
    assert not manager.allocate({"extra": 1, "ncpus": 4}, slot_count=1)
    manager.add_default_resource({}, "extra", 7)
    assert wrong(manager) == []
    assert set(seen(manager, "extra").values()) == {7}
    assert manager.allocate({"extra": 1, "ncpus": 4}, slot_count=1)


def test_whoever_looks_into_one_sees_what_all_have():
    """And what is written there stays there."""
    manager = a_site()
    one, other, *_ = manager.get_buckets()
    assert dict(one.resources) == dict(other.example_node.available)
    assert one.resources is one.example_node._resources
    one.resources["lic"] = 5
    assert wrong(manager) == []
    assert (one.example_node.available["lic"], other.resources["lic"]) == (5, 3)
    assert sorted(free for free in seen(manager, "lic").values()) == [3] * 7 + [5]


def test_nodes_of_their_own_identity():
    """Names and ids are left out for all alike."""
    manager = a_site()
    manager.add_default_resource({}, "who", "node.name")
    manager.add_default_resource({}, "whose", "node.hostname")
    assert wrong(manager) == []


def test_a_write_into_one_bucket_stays_there():
    """Into its resources, before the first question and after it."""
    manager = a_site()
    first, second = (b for b in manager.get_buckets() if b.placement_group == "pg1")
    first.resources["lic"] = 8
    assert wrong(manager) == []
    second.resources["lic"] = 9
    assert wrong(manager) == []
    expected = {("F4", "pg1"): 8, ("F8", "pg1"): 9}
    assert seen(manager, "lic") == {key: expected.get(key, 3) for key in seen(manager, "lic")}


def test_a_write_into_what_all_share_is_seen_in_all():
    """The nodearray's configuration says which version of the software its nodes have."""
    manager = a_site()
    assert wrong(manager) == []
    for bucket in manager.get_buckets():
        bucket.software_configuration["cyclecloud"] = {"version": "9"}
        bucket.resources["lic"] = 4
    assert wrong(manager) == []


def test_groups_that_are_added_later():
    """Are like those that were there."""
    manager = a_site()
    plain = next(b for b in manager.get_buckets() if b.placement_group is None)
    plain.resources["lic"] = 5
    manager.add_placement_group("pg9", plain)
    assert wrong(manager) == []
    assert seen(manager, "lic")["F4", "pg9"] == 5


def test_without_default_resources():
    """There is nothing that could differ."""
    manager = a_site(disable_default_resources=True)
    assert wrong(manager) == []
    placed = manager.allocate({"node.placement_group": "pg2", "lic": 1}, node_count=2)
    assert {node.placement_group for node in placed.nodes} == {"pg2"}
