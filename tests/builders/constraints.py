"""Nodes and buckets for the tests of constraints, with the resources that a test names."""

from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition, node_from_bucket
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.results import SatisfiedResult


def a_bucket(
    nodearray="htc",
    vm_size="Standard_F4",
    placement_group=None,
    last_capacity_failure=None,
    **resources,
):
    """A bucket of nodes with these resources."""
    definition = NodeDefinition(
        nodearray=nodearray,
        bucket_id=f"{nodearray}-{vm_size}",
        vm_size=vm_size,
        location="westus2",
        spot=False,
        subnet="subnet",
        vcpu_count=4,
        gpu_count=0,
        memory=Memory(8, "g"),
        placement_group=placement_group,
        resources=resources,
        software_configuration={},
    )
    limits = null_bucket_limits(0, 4)
    return NodeBucket(definition, limits, 20, [], last_capacity_failure=last_capacity_failure)


def a_node(name="htc-1", assignments=(), closed=False, bucket=None, **resources):
    """A node with these resources."""
    node = node_from_bucket(bucket or a_bucket(**resources), name, exists=False)
    node.assignments.update(assignments)
    if closed:
        node.closed = True
    return node


class Owned(BaseNodeConstraint):
    """A constraint as an integration writes it: the node must belong to `owner`, and gives it one token each time."""

    def __init__(self, owner):
        self.owner = owner

    def satisfied_by_node(self, node):
        fine = node.available.get("owner") == self.owner
        return SatisfiedResult("success" if fine else "NotOwned", self, node, ["somebody else's"])

    def minimum_space(self, node):
        return node.available.get("tokens", 0)

    def do_decrement(self, node):
        if node.available.get("tokens", 0) < 1:
            return False
        node.available["tokens"] -= 1
        return True

    def to_dict(self):
        return {"owned-by": self.owner}

    def __str__(self):
        return f"Owned({self.owner})"
