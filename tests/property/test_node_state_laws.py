"""Writes through nodes and placements, in any order: the state of a bucket, its nodes, their JSON
form and a manager that is built anew of them all say the same."""

import copy
import pickle

from hypothesis import given

from builders.node_writes import STEPS, carry_out, look, picture, states_of
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.contents import shape_of
from hpc.autoscale.node.nodemanager import NodeManager


def a_cluster():
    """Running nodes, and one that rests, with room for more."""
    cluster = an_htc_cluster(40)
    for i in range(1, 4):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    cluster.add_node("htc-4", "htc", state="Deallocated", hostname="ip-4")
    return cluster


def seen(shape):
    """What the engine knows by a shape, whatever table it is of."""
    properties = {k: v for k, v in shape.template.properties.items() if k != "bucket_id"}
    return dict(shape.free), shape.units, properties, shape.template.trouble, occupied(shape)


def occupied(shape):
    """Whether somebody is there, more fits, and no VM runs."""
    return shape.vacant, shape.closed, shape.dormant


@given(STEPS)
def test_the_state_is_what_the_nodes_say(steps):
    """At any time, by amounts, by who is placed, and by every property."""
    manager = a_manager(a_cluster())
    for number, step in enumerate(steps):
        carry_out(manager, step, number)
        table = manager._placer.planner.table
        for bucket, node, shape in states_of(manager):
            deferred = bucket._nodes.deferred
            assert shape is shape_of(node, table, QUERYABLE_PROPERTIES, deferred)


@given(STEPS)
def test_it_makes_no_difference_when_somebody_looks(steps):
    """After each step, or only in the end; and what was handed out before stays live."""
    cluster = a_cluster()
    watched, unwatched = a_manager(cluster), a_manager(cluster)
    held = {}
    for number, step in enumerate(steps):
        look(watched)
        for node in watched.get_nodes():
            held.setdefault(node, (node.available, node.assignments, node.resources))
        assert carry_out(watched, step, number) == carry_out(unwatched, step, number)
    assert look(watched) == look(unwatched)
    for node, (available, assignments, resources) in held.items():
        assert list(available.items()) == list(node.available.items())
        assert dict(available) == {**available} == node.available
        assert assignments == node.assignments
        assert resources == node.resources


@given(STEPS)
def test_a_manager_that_is_built_anew_knows_the_same(steps):
    """Of copies of the nodes, which say the same as the nodes."""
    manager = a_manager(a_cluster())
    for number, step in enumerate(steps):
        carry_out(manager, step, number)
    for bucket in manager.get_buckets():
        nodes = bucket.nodes
        copies = [copy.copy(node) for node in nodes]
        for again in (copies, copy.deepcopy(nodes), pickle.loads(pickle.dumps(nodes))):
            assert [picture(node) for node in again] == [picture(node) for node in nodes]
        restored = [Node.from_dict(node.to_dict()) for node in nodes]
        assert [node.available for node in restored] == [node.available for node in nodes]
        limits = null_bucket_limits(len(copies), bucket.vcpu_count)
        anew = NodeBucket(bucket._definition, limits, 0, copies)
        anew._nodes.deferred = bucket._nodes.deferred
        other = NodeManager(manager.cluster_bindings, [anew])
        manager._placer.sync()
        shapes = [seen(s) for b, _, s in states_of(manager) if b is bucket]
        assert [seen(s) for _, _, s in states_of(other)] == shapes
