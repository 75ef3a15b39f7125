"""New nodes as creation sets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_planned_node
from hpc.autoscale.ccbindings.creation_sets import creation_set, partition_by_set
from hpc.autoscale.ccbindings.errors import InvalidModel
from hpc.autoscale.node.node import Node


def planned(name: str, nodearray: str = "htc", vm_size: str = "Standard_F4", **more: Any) -> Node:
    node = a_planned_node(
        name=name,
        nodearray=nodearray,
        bucket_id="b",
        vm_size=vm_size,
        resources={},
        placement_group=more.pop("placement_group", None),
        keep_alive=more.pop("keep_alive", False),
    )
    node.node_attribute_overrides.update(more.pop("overrides", {}))
    for key, value in more.items():
        setattr(node, key, value)
    return node


def names(groups: list[list[Node]]) -> list[list[str]]:
    return [[node.name for node in group] for group in groups]


def test_equal_nodes_are_one_set() -> None:
    """A set has the count and everything that its nodes share."""
    group = [
        planned(
            f"x-{i}",
            placement_group="pg",
            keep_alive=True,
            name_format="x-%d",
            name_offset=1,
            overrides={"Fixed": True},
        )
        for i in (1, 2)
    ]
    assert names(partition_by_set(group)) == [["x-1", "x-2"]]
    assert creation_set(group).to_dict() == {
        "nodearray": "htc",
        "count": 2,
        "definition": {"machineType": "Standard_F4"},
        "placementGroupId": "pg",
        "nameFormat": "x-%d",
        "nameOffset": 1,
        "nodeAttributes": {"Fixed": True, "KeepAlive": True},
    }


def test_a_plain_set_says_nothing_more() -> None:
    """No attributes, names or placement group unless a node has them."""
    assert creation_set([planned("htc-1")]).to_dict() == {
        "nodearray": "htc",
        "count": 1,
        "definition": {"machineType": "Standard_F4"},
    }


@pytest.mark.parametrize(
    "different",
    [
        {"nodearray": "hpc"},
        {"vm_size": "Standard_F8"},
        {"placement_group": "pg"},
        {"keep_alive": True},
        {"name_format": "a-%d"},
        {"name_offset": 7},
        {"overrides": {"a": 1}},
    ],
)
def test_everything_that_a_set_says_separates(different: dict[str, Any]) -> None:
    """Nodes that differ in one of them are asked for apart."""
    assert len(partition_by_set([planned("htc-1"), planned("htc-2", **different)])) == 2


def test_overrides_are_compared_by_value() -> None:
    """Neither the order of keys nor the type of a mapping matters; 1, True and "1" differ."""
    first = planned("htc-1", overrides={"a": {"x": 1, "y": [1, 2]}, "b": 2})
    second = planned("htc-2", overrides={"b": 2, "a": {"y": (1, 2), "x": 1}})
    assert len(partition_by_set([first, second])) == 1
    kinds = [planned(f"htc-{i}", overrides={"a": v}) for i, v in enumerate((1, True, "1"))]
    assert len(partition_by_set(kinds)) == 3


def test_sets_go_by_the_lowest_node_that_they_hold() -> None:
    """By number and not by text, nodearray first."""
    nodes = [
        planned("htc-10", vm_size="Standard_F8"),
        planned("htc-2", vm_size="Standard_F16"),
        planned("htc-9", vm_size="Standard_F8"),
        planned("htc-11"),
        planned("hpc-50", nodearray="hpc"),
    ]
    assert names(partition_by_set(nodes)) == [
        ["hpc-50"],
        ["htc-2"],
        ["htc-10", "htc-9"],
        ["htc-11"],
    ]


def test_an_override_that_json_cannot_hold() -> None:
    """The error names the node and the value."""
    with pytest.raises(InvalidModel, match="nodeAttributes of htc-1: expected JSON, found object"):
        partition_by_set([planned("htc-1", overrides={"a": object()})])


@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from(["a", "b", "c"])), unique=True))
def test_no_node_is_lost_or_doubled(drawn: list[tuple[int, str]]) -> None:
    """The sets hold each node once, equal ones together."""
    nodes = [planned(f"htc-{n}", placement_group=group) for n, group in drawn]
    groups = partition_by_set(nodes)
    assert sorted(map(id, (node for group in groups for node in group))) == sorted(map(id, nodes))
    assert [len({node.placement_group for node in group}) for group in groups] == [1] * len(groups)
    assert len(groups) == len({group for _, group in drawn})
