"""Writes through nodes and placements, in any order: the state of a bucket, its nodes, their JSON
form and a manager that is built anew of them all say the same."""

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.contents import shape_of
from hpc.autoscale.node.nodemanager import NodeManager

AMOUNTS = st.sampled_from(
    [0, 1, 1.0, True, "1", None, Size(1, "g"), Memory(1, "g"), Memory(1024, "m"), (1,), [1]]
)
NODE = st.integers(0, 7)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(1, 4), st.integers(1, 3)),
        st.tuples(st.just("exclusive"), st.integers(1, 2)),
        st.tuples(st.just("memory"), st.sampled_from([0.5, 1, 3])),
        st.tuples(st.just("gang"), st.integers(2, 3)),
        st.tuples(st.just("write"), NODE, st.sampled_from(["ncpus", "memgb", "other"]), AMOUNTS),
        st.tuples(st.just("drop"), NODE, st.sampled_from(["ncpus", "memgb"])),
        st.tuples(st.just("total"), NODE),
        st.tuples(st.just("assign"), NODE),
        st.tuples(st.just("release"), NODE),
        st.tuples(st.just("require"), NODE, st.booleans()),
        st.tuples(st.just("close"), NODE),
        st.tuples(st.just("fail"), NODE),
        st.tuples(st.just("rename"), NODE),
        st.tuples(st.just("array"), NODE),
        st.tuples(st.just("take"), NODE),
        st.tuples(st.just("report"), NODE),
        st.tuples(st.just("remove"), NODE),
        st.tuples(st.just("define"), st.sampled_from(["gold", "silver"]), st.booleans()),
        st.tuples(st.just("bucket"), st.integers(1, 5)),
        st.tuples(st.just("machine"), st.integers(1, 3)),
        st.tuples(st.just("look")),
    ),
    max_size=12,
)


def a_cluster():
    """Running nodes, and one that rests, with room for more."""
    cluster = an_htc_cluster(40)
    for i in range(1, 4):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    cluster.add_node("htc-4", "htc", state="Deallocated", hostname="ip-4")
    return cluster


def carry_out(manager, step, number):
    """One step; what came of it."""
    kind, *given_ = step
    job = f"job-{number}"
    if kind == "place":
        found = manager.allocate({"ncpus": given_[0]}, slot_count=given_[1], assignment_id=job)
    elif kind == "exclusive":
        found = manager.allocate({"exclusive": True}, node_count=given_[0], assignment_id=job)
    elif kind == "memory":
        wanted = {"memgb": Memory(given_[0], "g")}
        found = manager.allocate(wanted, slot_count=1, assignment_id=job)
    elif kind == "gang":
        found = manager.allocate(
            {"ncpus": 2}, node_count=given_[0], all_or_nothing=True, assignment_id=job
        )
    elif kind == "define":
        name, by_node = given_
        manager.add_default_resource({}, name, (lambda node: len(node.name)) if by_node else 3)
        return None
    elif kind == "bucket":
        manager.get_buckets()[0].resources["other"] = given_[0]
        return None
    elif kind == "machine":
        manager.add_unmanaged_nodes([SchedulerNode(f"tux{given_[0]}", {"ncpus": 2})])
        return None
    elif kind == "look":
        look(manager)
        return None
    else:
        nodes = manager.get_nodes()
        write(manager, nodes[given_[0] % len(nodes)], kind, given_[1:], job) if nodes else None
        return None
    return bool(found), [node.name for node in found.nodes]


def write(manager, node, kind, given_, job):
    """What an integration does to one node."""
    if kind == "write":
        node.available[given_[0]] = given_[1]
    elif kind == "drop":
        node.available.pop(given_[0], None)
    elif kind == "total":
        node._resources["qname"] = "all.q"
    elif kind == "assign":
        node.assignments.add("somebody")
    elif kind == "release":
        node.assignments.clear()
        node.available.update(node.resources)
    elif kind == "require":
        node.required = given_[0]
    elif kind == "close":
        node.closed = True
    elif kind == "fail":
        node.state = "Failed"
    elif kind == "rename":
        node._settle("moved", "10.0.0.9")
    elif kind == "array":
        node._Node__nodearray = "other"
    elif kind == "take":
        node.decrement([], 1, job)
    elif kind == "report":
        told = SchedulerNode(node.hostname_or_uuid, {"ncpus": 1})
        told.assign("reported")
        node.update(told)
    elif node.managed:
        manager._provisioner._drop(node)


def look(manager):
    """All that can be seen of the nodes, but for what is made up for each."""
    return [picture(node) for node in manager.get_nodes()]


def picture(node):
    """All that can be seen of one node."""
    form = node.to_dict()
    if node._is_planned:
        form["hostname"] = None
    if not node.managed:
        form["bucket-id"] = None
    flags = (node.closed, node.required, node._allocated, node._is_counted, node.target_state)
    types = [(name, type(value), value) for name, value in sorted(node.available.items())]
    return form, flags, types


def seen(shape):
    """What the engine knows by a shape, whatever table it is of."""
    properties = {k: v for k, v in shape.template.properties.items() if k != "bucket_id"}
    return dict(shape.free), shape.units, properties, shape.template.trouble, occupied(shape)


def occupied(shape):
    """Whether somebody is there, more fits, and no VM runs."""
    return shape.vacant, shape.closed, shape.dormant


def states_of(manager):
    """Each node with its shape."""
    manager._placer.sync()
    for bucket in manager.get_buckets():
        for position in range(len(bucket._nodes)):
            if position not in bucket._nodes.gone:
                yield bucket, bucket._nodes.handle(position), bucket._nodes.shapes[position]


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
