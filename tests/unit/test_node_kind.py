"""Nodes that are made alike answer as if each had been made by itself, and share nothing that can be changed."""

import copy
import pickle

import pytest
from node_kit import a_cluster, a_manager, a_node

from hpc.autoscale.node.node.kind import LOOKS, Kind, is_untouched, stamp


def two_of_a_kind(**kwargs):
    """Two nodes of one kind, whose resource `who` is each one's own."""
    sample = a_node(**kwargs)
    sample._resources["who"] = sample.available["who"] = None
    kind = Kind(sample, [("who", lambda node: node.name)])
    return [
        stamp(
            type(sample),
            kind.attributes,
            {"_name": name, "_node_id": f"id-{name}", "_hostname": f"host-{name}"},
        )
        for name in ("htc-1", "htc-2")
    ]


def test_each_has_what_is_its_own():
    """Names, ids and resources of its own; all else as the sample."""
    first, second = two_of_a_kind(resources={"a": 1})
    assert (first.name, second.name) == ("htc-1", "htc-2")
    assert (first.hostname, second.hostname) == ("host-htc-1", "host-htc-2")
    assert [n.delayed_node_id.node_id for n in (first, second)] == ["id-htc-1", "id-htc-2"]
    assert dict(first.resources) == first.available == {"a": 1, "who": "htc-1"}
    assert second.available["who"] == "htc-2"
    assert first.vm_size == second.vm_size == a_node().vm_size


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
    sample = a_node(resources={"a": 1}, exists=False)
    first = stamp(type(sample), Kind(sample).attributes, {"_name": "htc-1", "_hostname": "h"})
    first.assign("job")
    copied = again(first)
    assert copied.to_dict() == first.to_dict()
    assert type(copied) is type(first)
    assert copied._kind is None


def test_planned_nodes_have_a_host_name_once_asked():
    """Made up, of each one's own, and the same each time."""
    manager = a_manager(a_cluster())
    first, second = manager.allocate({"ncpus": 4}, slot_count=2).nodes
    assert first.hostname != second.hostname
    assert first.hostname == first.hostname_or_uuid == first.fqdn


def test_a_node_without_its_state_says_so():
    """An attribute that no constructor has set is an error, not a guess."""
    node = object.__new__(type(a_node()))
    for name in ("state", "metadata", "available", "delayed_node_id"):
        with pytest.raises(AttributeError):
            getattr(node, name)
