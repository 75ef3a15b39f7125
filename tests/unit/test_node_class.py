"""Nodes that are made alike answer as if each had been made by itself, and share nothing that can
be changed."""

import copy
import pickle

import pytest

from builders.nodes import a_manager, a_planned_node, a_running_node, an_htc_cluster
from hpc.autoscale.node.node.contents import Change, NodeClass, class_of_unread
from hpc.autoscale.node.node.node import _REPORTED


def a_node_of(node_class, name):
    """One more node of a class."""
    node = node_class.node(name)
    node.__dict__.update(_node_id=f"id-{name}", _hostname=f"host-{name}")
    return node


def two_of_a_class(**kwargs):
    """Two nodes of one class, whose resource `who` is each one's own."""
    sample = a_planned_node(**kwargs)
    sample._resources["who"] = sample.available["who"] = None
    node_class = NodeClass(sample, [("who", lambda node: node.name)])
    return [a_node_of(node_class, name) for name in ("htc-1", "htc-2")]


def is_as_made(node):
    """Whether it is still as its class made it."""
    return node._class is not None and class_of_unread(node) is node._class


def test_each_has_what_is_its_own():
    """Names, ids and resources of its own; all else as the sample."""
    first, second = two_of_a_class(resources={"a": 1})
    assert (first.name, second.name) == ("htc-1", "htc-2")
    assert (first.hostname, second.hostname) == ("host-htc-1", "host-htc-2")
    assert [n.delayed_node_id.node_id for n in (first, second)] == ["id-htc-1", "id-htc-2"]
    assert dict(first.resources) == first.available == {"a": 1, "who": "htc-1"}
    assert second.available["who"] == "htc-2"
    assert first.vm_size == second.vm_size == a_planned_node().vm_size


def test_nothing_that_can_be_changed_is_shared():
    """A write into one shows in no other."""
    first, second = two_of_a_class(resources={"tags": ["a"]})
    first.available["tags"].append("b")
    first._resources["tags"].append("c")
    first.assign("job")
    first.metadata["seen"] = True
    first._Node__node_attribute_overrides["Zone"] = 1
    assert (second.available["tags"], second.resources["tags"]) == (["a"], ["a"])
    assert not (second.assignments or second.metadata or second.node_attribute_overrides)


def test_resources_are_named_after_the_first_name():
    """A new name comes too late for what the node was given by the old one."""
    first, _ = two_of_a_class()
    first._rename("htc-9")
    assert (first.available["who"], first.delayed_node_id.name) == ("htc-1", "htc-9")


@pytest.mark.parametrize(
    "name", sorted(name for name, what in _REPORTED.items() if what is Change.ALL)
)
def test_a_write_makes_it_unlike(name):
    """Whatever the engine sees of a node: one that was written to is looked at by itself."""
    first, second = two_of_a_class()
    setattr(first, name, getattr(first, name))
    assert not is_as_made(first)
    assert is_as_made(second)


def test_writes_into_amounts_are_told_from_none():
    """A node that somebody holds the amounts of may be written to."""
    first, second = two_of_a_class()
    assert first.available
    assert not is_as_made(first)
    assert second.resources
    assert not is_as_made(second)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))]
)
def test_copies_are_whole(again):
    """A copy, deep or not, or by way of pickle, says the same and is a node like any other."""
    first = a_node_of(NodeClass(a_planned_node(resources={"a": 1}, exists=False)), "htc-1")
    first.assign("job")
    copied = again(first)
    assert copied.to_dict() == first.to_dict()
    assert type(copied) is type(first)
    assert copied._class is None


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))]
)
@pytest.mark.parametrize(
    "name", ["resources", "software_configuration", "node_attribute_overrides"]
)
def test_views_can_be_copied(name, again):
    """What a node gives to read may be kept, and put into the metadata of another node."""
    node = a_running_node(resources={"a": 1}, software_configuration={"b": {"c": 2}})
    view = getattr(node, name)
    found = again(view)
    assert found == view
    with pytest.raises(TypeError):
        found["x"] = 1
    other = a_planned_node()
    other.metadata["of another"] = view
    assert again(other).metadata["of another"] == view
    assert other.to_dict()["metadata"]["of another"] == other.clone().metadata["of another"]


def test_a_copy_shares_nothing_that_can_be_changed():
    """Whatever is written into it, the node stays what it was, under the same transient id."""
    node = a_planned_node(resources={"tags": ["a"]}, software_configuration={"a": {"b": 1}})
    before, copied = node.to_dict(), copy.copy(node)
    assert copied.delayed_node_id.transient_id == node.delayed_node_id.transient_id
    copied.assign("job")
    copied.closed = True
    copied.metadata["seen"] = True
    copied.available["tags"].append("b")
    copied._resources["tags"].append("c")
    copied.software_configuration["a"]["b"] = 2
    copied.node_attribute_overrides["Zone"] = 1
    copied.delayed_node_id.node_id = "other"
    assert node.to_dict() == before
    assert not (node.closed or node.node_attribute_overrides)


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


def test_a_resource_defined_later_is_seen_by_the_engine():
    """Also on nodes that it has looked at before, and that nobody else has."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    manager = a_manager(cluster)
    assert not manager.allocate({"gold": 1}, slot_count=1)
    manager.add_default_resource({}, "gold", 3)
    (node,) = manager.allocate({"gold": 1}, slot_count=1).nodes
    assert (node.name, node.available["gold"]) == ("htc-1", 2)


def test_classes_in_placement_groups():
    """Nodes of each are in theirs, and have the same."""
    sample = a_planned_node(placement_group="pg0", resources={"a": 1})
    classes = [NodeClass(sample), NodeClass(sample, _Node__placement_group="pg1")]
    first, second = (a_node_of(node_class, "htc-1") for node_class in classes)
    assert (first.placement_group, second.placement_group) == ("pg0", "pg1")
    assert first.available == second.available == {"a": 1}
