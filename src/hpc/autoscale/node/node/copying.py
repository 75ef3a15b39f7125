"""A copy of a node to try things on, and what placing work may change of a node, so that it can be undone or repeated.

`Node.clone` is the published copy, which leaves things out on purpose; these leave out nothing that a constraint may
ask about or write to.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale.node.node.record import copied
from hpc.autoscale.node.node.tracked import TrackedDict, TrackedSet

if TYPE_CHECKING:
    from hpc.autoscale.node.node.handle import Node

# Attributes by the names under which the node keeps them, so that its checks on writing are not asked again.
_MAPPINGS = ("_resources", "available", "metadata", "_Node__node_attribute_overrides")
_PLAIN = (
    "_allocated",
    "_Node__closed",
    "_Node__placement_group",
    "_Node__keep_alive",
    "name_format",
    "name_offset",
)


class Memento(NamedTuple):
    """Everything that placing work may change, as values of its own."""

    mappings: dict[str, dict[str, Any]]
    assignments: set[str]
    plain: dict[str, Any]


def saved(node: Node) -> Memento:
    """What the node is now."""
    return Memento(
        {name: copied(getattr(node, name)) for name in _MAPPINGS},
        set(node.assignments),
        {name: getattr(node, name) for name in _PLAIN},
    )


def restore(node: Node, memento: Memento) -> None:
    """Make the node again what it was."""
    carry_over(node, saved(node), memento)


def carry_over(node: Node, before: Memento, after: Memento) -> None:
    """Do to the node what made `after` of `before`; whatever did not change there stays as it is here."""
    for name in _MAPPINGS:
        _change(getattr(node, name), before.mappings[name], after.mappings[name])
    if after.assignments != before.assignments:
        node.assignments.difference_update(before.assignments - after.assignments)
        node.assignments.update(after.assignments - before.assignments)
    for name, value in after.plain.items():
        if value != before.plain[name]:
            setattr(node, name, value)


def _change(
    target: MutableMapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    for name in before.keys() - after.keys():
        target.pop(name, None)
    for name, value in copied(after).items():
        if name not in before or not same(before[name], value):
            target[name] = value


def same(one: object, other: object) -> bool:
    """Equal and of one class: 1, 1.0 and True are told apart."""
    return one.__class__ is other.__class__ and one == other


def twin(node: Node) -> Node:
    """A copy that answers every question as the node would, and belongs to no bucket."""
    made = copy(node)
    made._home = None
    made.delayed_node_id = node.delayed_node_id.clone()
    made.delayed_node_id.transient_id = node.delayed_node_id.transient_id
    fresh: dict[str, Any] = {
        "_resources": TrackedDict(copied(node._resources), made),
        "_Node__available": TrackedDict(copied(node.available), made),
        "_Node__assignments": TrackedSet(node.assignments, made),
        "metadata": deepcopy(node.metadata),
    }
    for name in ("_Node__node_attribute_overrides", "_Node__software_configuration"):
        fresh[name] = deepcopy(dict(getattr(node, name)))
    for name, value in fresh.items():
        setattr(made, name, value)
    return made
