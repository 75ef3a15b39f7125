"""Random constraints, nodes and buckets that have something to say to each other."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from builders.nodes import a_definition
from hpc.autoscale.hpctypes import Memory, NodeName
from hpc.autoscale.node.bucket import NodeBucket, node_from_bucket
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.node.node import Node

wholes = st.integers(0, 8)
tenths = st.integers(0, 40).map(lambda n: n / 10)
sizes = st.builds(Memory, wholes, st.sampled_from("kmg"))
owners = st.sampled_from(["alice", "bob", "carol"])
vm_sizes = st.sampled_from(["Standard_F4", "Standard_F8", "Standard_E4"])

resources = st.fixed_dictionaries(
    {},
    optional={
        "ncpus": wholes,
        "ngpus": wholes | st.just("two"),
        "share": tenths,
        "mem": sizes,
        "owner": owners | st.none(),
        "fast": st.booleans(),
    },
)


@st.composite
def buckets(draw: DrawFn) -> NodeBucket:
    """A bucket in some state."""
    definition = a_definition(
        vm_size=draw(vm_sizes),
        placement_group=draw(st.sampled_from([None, None, "pg"])),
        resources=draw(resources),
    )
    failed_ago = draw(st.none() | st.integers(0, 100))
    return NodeBucket(
        definition, null_bucket_limits(0, 4), 20, [], last_capacity_failure=failed_ago
    )


@st.composite
def nodes(draw: DrawFn) -> Node:
    """An open node, perhaps with somebody else's work on it."""
    node = node_from_bucket(draw(buckets()), NodeName("htc-1"), exists=False)
    if draw(st.booleans()):
        node.assign("somebody else")
    return node


def _one_key(name: str, values: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    return values.map(lambda value: {name: value})


amounts = st.one_of(
    _one_key("ncpus", wholes),
    _one_key("ngpus", wholes),
    _one_key("share", tenths),
    _one_key("mem", wholes | sizes | st.sampled_from(["memory::1g", "memory::512.0m", "size::3k"])),
)
conditions = st.one_of(
    _one_key("owner", owners | st.none() | st.lists(owners | st.just("*o*"), max_size=3)),
    _one_key("ncpus", st.lists(wholes, max_size=3)),
    _one_key("fast", st.booleans()),
    _one_key("node.vm_size", vm_sizes | st.lists(vm_sizes | st.just("*_F*"), max_size=3)),
    _one_key("node.placement_group", st.sampled_from([None, "pg"])),
    _one_key("in-a-placement-group", st.booleans()),
    _one_key("exclusive", st.booleans()),
    _one_key("exclusive-task", st.booleans()),
    _one_key("never", st.just("today")),
    _one_key("capacity-failure-backoff", st.integers(0, 100)),
)
leaves = amounts | conditions


def _composites(children: SearchStrategy[dict[str, Any]]) -> SearchStrategy[dict[str, Any]]:
    several = st.lists(children, min_size=2, max_size=3)
    merged = st.lists(children, max_size=3).map(lambda ds: {k: v for d in ds for k, v in d.items()})
    return st.one_of(
        _one_key("or", several),
        _one_key("xor", several),
        _one_key("and", st.lists(children, max_size=3)),
        _one_key("not", children),
        merged.filter(bool),
    )


expressions = st.recursive(leaves, _composites, max_leaves=6)
"""JSON of the constraint language."""

constraints = expressions.map(get_constraint)


def no_more_than_amounts(
    children: SearchStrategy[dict[str, Any]],
) -> SearchStrategy[dict[str, Any]]:
    """What only takes amounts: no alternatives, no conditions."""
    return _one_key("and", st.lists(children, min_size=1, max_size=3))


takings = st.recursive(amounts, no_more_than_amounts, max_leaves=4).map(get_constraint)
"""Constraints that take amounts and do nothing else."""
