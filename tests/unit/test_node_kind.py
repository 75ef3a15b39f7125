"""Nodes that are made alike answer as if each had been made by itself, and share nothing that can
be changed."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.node.node.kind import LOOKS, Kind, stamp, untouched
from hpc.autoscale.node.node.shaping import look_of, shape_of
from hpc.autoscale.packing.shape import ShapeTable


def a_node_of(kind, name):
    """One more node of a kind."""
    node, own = stamp(type(a_planned_node()), kind.attributes)
    own.update(_name=name, _node_id=f"id-{name}", _hostname=f"host-{name}")
    return node


def two_of_a_kind(**kwargs):
    """Two nodes of one kind, whose resource `who` is each one's own."""
    sample = a_planned_node(**kwargs)
    sample._resources["who"] = sample.available["who"] = None
    kind = Kind(sample, [("who", lambda node: node.name)])
    return [a_node_of(kind, name) for name in ("htc-1", "htc-2")]


def is_untouched(node):
    """Whether it is still as its kind made it."""
    return untouched([node]) == ({node._kind: [node]}, [])


def test_each_has_what_is_its_own():
    """Names, ids and resources of its own; all else as the sample."""
    first, second = two_of_a_kind(resources={"a": 1})
    assert (first.name, second.name) == ("htc-1", "htc-2")
    assert (first.hostname, second.hostname) == ("host-htc-1", "host-htc-2")
    assert [n.delayed_node_id.node_id for n in (first, second)] == ["id-htc-1", "id-htc-2"]
    assert dict(first.resources) == first.available == {"a": 1, "who": "htc-1"}
    assert second.available["who"] == "htc-2"
    assert first.vm_size == second.vm_size == a_planned_node().vm_size


def test_nothing_that_can_be_changed_is_shared():
    """A write into one shows in no other."""
    first, second = two_of_a_kind(resources={"tags": ["a"]})
    first.available["tags"].append("b")
    first._resources["tags"].append("c")
    first.assign("job")
    first.metadata["seen"] = True
    first._Node__node_attribute_overrides["Zone"] = 1
    assert (second.available["tags"], second.resources["tags"]) == (["a"], ["a"])
    assert not (second.assignments or second.metadata or second.node_attribute_overrides)


def test_resources_are_named_after_the_first_name():
    """A new name comes too late for what the node was given by the old one."""
    first, _ = two_of_a_kind()
    first._rename("htc-9")
    assert (first.available["who"], first.delayed_node_id.name) == ("htc-1", "htc-9")


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_a_write_makes_it_unlike(name):
    """Whatever the engine sees of a node: one that was written to is looked at by itself."""
    first, second = two_of_a_kind()
    setattr(first, name, getattr(first, name))
    assert not is_untouched(first)
    assert is_untouched(second)


def test_writes_into_amounts_are_told_from_none():
    """A node that somebody holds the amounts of may be written to."""
    first, second = two_of_a_kind()
    assert first.available
    assert not is_untouched(first)
    assert second.resources
    assert not is_untouched(second)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))]
)
def test_copies_are_whole(again):
    """A copy, deep or not, or by way of pickle, says the same and is a node like any other."""
    first = a_node_of(Kind(a_planned_node(resources={"a": 1}, exists=False)), "htc-1")
    first.assign("job")
    copied = again(first)
    assert copied.to_dict() == first.to_dict()
    assert type(copied) is type(first)
    assert copied._kind is None


def test_planned_nodes_have_a_host_name_once_asked():
    """Made up, of each one's own, and the same each time."""
    manager = a_manager(an_htc_cluster())
    first, second = manager.allocate({"ncpus": 4}, slot_count=2).nodes
    assert first.hostname != second.hostname
    assert first.hostname == first.hostname_or_uuid == first.fqdn


def test_a_node_that_was_never_set_up_says_so():
    """An attribute that no constructor has set is an error, not a guess."""
    node = object.__new__(type(a_planned_node()))
    for name in ("name", "metadata", "available", "delayed_node_id"):
        with pytest.raises(AttributeError):
            getattr(node, name)


AMOUNTS = st.sampled_from(
    [0, 1, 1.0, True, "1", None, Size(1, "g"), Memory(1, "g"), Memory(1024, "m"), (1,), [1]]
)
WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ncpus", "memgb", "other", "who"]), AMOUNTS),
        st.tuples(st.just("closed"), st.just(True)),
        st.tuples(st.just("assign"), st.just("job")),
        st.tuples(st.just("drop"), st.sampled_from(["ncpus", "memgb"])),
    ),
    max_size=4,
)


def write(node, writes):
    """Write to a node as integrations do."""
    for name, value in writes:
        if name == "closed":
            node.closed = True
        elif name == "assign":
            node.assign(value)
        elif name == "drop":
            node.available.pop(value, None)
        else:
            node.available[name] = value


@given(WRITES, WRITES)
def test_equal_looks_are_equal_shapes(first_writes, second_writes):
    """What a shape is looked up by tells apart whatever the shape tells apart."""
    nodes = two_of_a_kind(resources={"ncpus": 1, "memgb": Memory(1, "g")})
    for node, writes in zip(nodes, (first_writes, second_writes), strict=True):
        write(node, writes)
    looks = [look_of(node, {"who"}) for node in nodes]
    table = ShapeTable()
    shapes = [shape_of(node, table, QUERYABLE_PROPERTIES, {"who"}) for node in nodes]
    if looks[0] is not None and looks[0] == looks[1]:
        assert shapes[0] is shapes[1]


def test_a_resource_defined_later_is_seen_by_the_engine():
    """Also on nodes that it has looked at before, and that nobody else has."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    manager = a_manager(cluster)
    assert not manager.allocate({"gold": 1}, slot_count=1)
    manager.add_default_resource({}, "gold", 3)
    (node,) = manager.allocate({"gold": 1}, slot_count=1).nodes
    assert (node.name, node.available["gold"]) == ("htc-1", 2)


def test_kinds_in_placement_groups():
    """Nodes of each are in theirs, and told apart from those of the other."""
    sample = a_planned_node(placement_group="pg0", resources={"a": 1})
    kinds = [Kind(sample), Kind(sample).in_group("pg1")]
    first, second = (a_node_of(kind, "htc-1") for kind in kinds)
    assert (first.placement_group, second.placement_group) == ("pg0", "pg1")
    assert first.available == second.available == {"a": 1}
    assert look_of(first, ()) != look_of(second, ())
    assert [node._alike for node in (first, second)] == kinds
