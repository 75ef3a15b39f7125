"""Names of placement groups, on each way in: letters, digits, `_` and `-`, or an error with the
place."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.config import check_config
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.node.bucket import node_from_bucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import new_node_manager


def configured(groups):
    """The placement groups of a cluster whose configuration has these for a nodearray."""
    return told({"htc": {"placement_groups": groups}})


def told(nodearrays):
    """The placement groups of a cluster whose configuration has this for its nodearrays."""
    binding = MockClusterBinding("clusty")
    binding.add_nodearray("htc", {})
    binding.add_bucket("htc", "Standard_F4s", 10, 10)
    config = {"_mock_bindings": binding, "nodearrays": nodearrays}
    return [b.placement_group for b in new_node_manager(config).get_buckets()]


@pytest.mark.parametrize("groups", [["a", "b-1_C"], ("a", "b-1_C"), ["a", "", None, "b-1_C"]])
def test_names_of_a_configuration(groups):
    """Are groups of the nodearray, in order; what is empty is none."""
    assert configured(groups) == ["a", "b-1_C", None]
    assert configured(None) == [None]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (["a", "a b"], r"nodearrays\.htc\.placement_groups\[1\]: expected letters.*found 'a b'"),
        (["a\n"], r"placement_groups\[0\]: .*found 'a\\n'"),
        ([5], r"placement_groups\[0\]: .*found 5"),
        ("abc", r"nodearrays\.htc\.placement_groups: expected a list of names.*found 'abc'"),
        ({"a": 1}, r"placement_groups: expected a list of names"),
        (7, r"placement_groups: expected a list of names.*found 7"),
    ],
)
def test_names_of_a_configuration_that_are_none(groups, said):
    """Are an error, and none of them becomes a group."""
    with pytest.raises(ConfigurationException, match=said):
        configured(groups)


@pytest.mark.parametrize(
    ("nodearrays", "said"),
    [
        (3, "nodearrays: expected an object, found 3"),
        (["htc"], r"nodearrays: expected an object, found \['htc'\]"),
        ({"htc": 3}, r"nodearrays\.htc: expected an object, found 3"),
        ({"default": ["a"]}, r"nodearrays\.default: expected an object"),
    ],
)
def test_settings_of_nodearrays_that_are_no_object(nodearrays, said):
    """Are an error with the place, and not buckets that are set aside."""
    with pytest.raises(ConfigurationException, match=said):
        told(nodearrays)
    assert told({"_comment": "ours", "htc": None, "default": {}}) == told(None) == [None]


def test_names_in_a_file():
    """Are checked with the rest of the file."""
    check_config({"nodearrays": {"htc": {"placement_groups": ["a", "b-1"]}}})
    said = r"nodearrays\.htc\.placement_groups\[1\]: expected a name of letters, digits, _ and -"
    with pytest.raises(ConfigurationException, match=said):
        check_config({"nodearrays": {"htc": {"placement_groups": ["a", "a b"]}}})


def test_names_that_the_cluster_gave():
    """Are what they are: their nodes and the size are there, and take work."""
    binding = MockClusterBinding("clusty")
    binding.add_nodearray("htc", {})
    binding.add_bucket("htc", "Standard_F4s", 10, 10, placement_groups=["pg.1"])
    binding.add_node("htc-1", "htc", placement_group="pg.1")
    manager = new_node_manager({"_mock_bindings": binding})
    assert [b.placement_group for b in manager.get_buckets()] == ["pg.1", None]
    result = manager.allocate({"node.placement_group": "pg.1"}, node_count=2)
    assert [(n.name, n.placement_group) for n in result.nodes] == [
        ("htc-1", "pg.1"),
        ("htc-2", "pg.1"),
    ]
    first = result.nodes[0]
    first.placement_group = "pg.1"  # as constraints do that name the group
    assert Node.from_dict(first.to_dict()).placement_group == "pg.1"


def test_names_of_nodes_that_a_bucket_would_make():
    """Are checked, for nobody has given them yet."""
    binding = MockClusterBinding("clusty")
    binding.add_nodearray("htc", {})
    binding.add_bucket("htc", "Standard_F4s", 10, 10)
    (bucket,) = new_node_manager({"_mock_bindings": binding}).get_buckets()
    with pytest.raises(RuntimeError, match=r"found 'a b' \(node x\)"):
        node_from_bucket(bucket, "x", placement_group="a b")


@pytest.mark.parametrize("kind", [TempNode, SchedulerNode])
def test_names_of_nodes_that_are_made(kind):
    """Are checked as those are that a node is given later."""
    if kind is TempNode:
        assert TempNode("h", {}, placement_group="a-b").placement_group == "a-b"
        assert TempNode("h", {}, placement_group="").placement_group is None
        with pytest.raises(RuntimeError, match=r"found 'a b' \(node h\)"):
            TempNode("h", {}, placement_group="a b")
        return
    written = {**SchedulerNode("h", {}).to_dict(), "placement_group": "a b"}
    with pytest.raises(RuntimeError, match="found 'a b'"):
        SchedulerNode.from_dict(written)
