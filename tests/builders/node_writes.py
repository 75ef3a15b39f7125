"""Writes through nodes and placements, as steps that can be drawn, and all that can be seen of the
nodes afterwards."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from hpc.autoscale.hpctypes import Hostname, IpAddress, Memory, NodeStatus, Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.packing.shape import NodeShape

Step = tuple[Any, ...]

AMOUNTS: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, 1.0, True, "1", None, Size(1, "g"), Memory(1, "g"), Memory(1024, "m"), (1,), [1]]
)
NODE = st.integers(0, 7)
STEPS: st.SearchStrategy[list[Step]] = st.lists(
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


def carry_out(manager: NodeManager, step: Step, number: int) -> tuple[bool, list[str]] | None:
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
    return bool(found), [str(node.name) for node in found.nodes]


def write(manager: NodeManager, node: Node, kind: str, given_: list[Any], job: str) -> None:
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
        node.state = NodeStatus("Failed")
    elif kind == "rename":
        node._settle(Hostname(f"moved-{node.name}"), IpAddress("10.0.0.9"))
    elif kind == "array":
        setattr(node, "_Node__nodearray", "other")  # noqa: B010  as published
    elif kind == "take":
        node.decrement([], 1, job)
    elif kind == "report":
        told = SchedulerNode(node.hostname_or_uuid, {"ncpus": 1})
        told.assign("reported")
        node.update(told)
    elif node.managed:
        manager._provisioner._drop(node)


def look(manager: NodeManager) -> list[tuple[object, ...]]:
    """All that can be seen of the nodes, but for what is made up for each."""
    return [picture(node) for node in manager.get_nodes()]


def picture(node: Node) -> tuple[object, ...]:
    """All that can be seen of one node."""
    form = node.to_dict()
    if node._is_planned:
        form["hostname"] = None
    if not node.managed:
        form["bucket-id"] = None
    flags = (node.closed, node.required, node._allocated, node._is_counted, node.target_state)
    types = [(name, type(value), value) for name, value in sorted(node.available.items())]
    return form, flags, types


def states_of(manager: NodeManager) -> Iterator[tuple[NodeBucket, Node, NodeShape | None]]:
    """Each node with its shape."""
    manager._placer.sync()
    for bucket in manager.get_buckets():
        for position in range(len(bucket._nodes)):
            if position not in bucket._nodes.gone:
                yield bucket, bucket._nodes.handle(position), bucket._nodes.shapes[position]
