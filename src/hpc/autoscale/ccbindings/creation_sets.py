"""New nodes as a creation request: equal nodes become one set with a count.

The server names the nodes of a set itself, filling the lowest free numbers, set by set. So sets go
in the order of the lowest node that they hold: then the names that were worked out locally are most
often those that the server gives. A set may also ask for one node by its name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale.ccbindings.errors import InvalidModel
from hpc.autoscale.ccbindings.models import (
    NodeCreationRequestSet,
    NodeCreationRequestSetDefinition,
)

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


def partition_by_set(nodes: Sequence["Node"]) -> list[list["Node"]]:
    """The nodes grouped by everything that a set says of its nodes.

    Groups are in the order in which they are asked for; within a group nodes stay in the order
    given.
    """
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for node in nodes:
        groups.setdefault(_set_key(node), []).append(node)
    return sorted(groups.values(), key=lambda group: min(map(_place, group)))


def creation_set(group: Sequence["Node"]) -> NodeCreationRequestSet:
    """The set that asks for a group of equal nodes."""
    node = group[0]
    attributes = _plain(node.node_attribute_overrides, node.name)
    if node.keep_alive:
        attributes["KeepAlive"] = True
    return NodeCreationRequestSet(
        nodearray=node.nodearray,
        count=len(group),
        definition=NodeCreationRequestSetDefinition(machine_type=node.vm_size),
        placement_group_id=node.placement_group or None,
        name_format=node.name_format or None,
        name_offset=node.name_offset,
        node_attributes=attributes or None,
    )


def plain_name(name_format: str | None) -> str | None:
    """The name that a name format without a number stands for; None for one with a number."""
    return name_format if name_format and "%" not in name_format else None


def _set_key(node: "Node") -> tuple[Any, ...]:
    overrides = node.node_attribute_overrides
    return (
        node.nodearray,
        node.vm_size,
        node.placement_group or None,
        # JSON text, so that the values are compared and not the order or the type of the mappings
        json.dumps(_plain(overrides, node.name), sort_keys=True) if overrides else "",
        node.keep_alive,
        node.name_format or None,
        node.name_offset,
    )


def _place(node: "Node") -> tuple[str, int, str]:
    number = re.search(r"(\d+)$", node.name)
    return (node.nodearray, int(number.group(1)) if number else 0, node.name)


def _plain(value: Any, node_name: str) -> Any:
    """A value as JSON will hold it. Raises InvalidModel for one that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, node_name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, node_name) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    raise InvalidModel(
        "NodeCreationRequestSet",
        [f"nodeAttributes of {node_name}: expected JSON, found {type(value).__name__} {value!r}"],
    )
