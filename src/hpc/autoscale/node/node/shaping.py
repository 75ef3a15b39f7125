"""From a node to what the engine sees of it, and back.

`NodeView` lets an expression look at one node directly. `shape_of` gives the interned shape under
which the engine groups it. In both, sized resources are numbers of bytes; `restore` turns such a
number back into a value of the class and magnitude that the node had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from hpc.autoscale.hpctypes import Size, magnitude_bytes
from hpc.autoscale.packing.shape import IDENTITY, NodeShape, ShapeTable, Unit

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node

# Statuses of nodes that must get no work: broken, or on their way out.
_TROUBLED = frozenset(
    [
        "Failed",
        "Failure",
        "Error",
        "Unavailable",
        "Terminating",
        "Terminated",
        "Stopping",
        "Stopped",
        "Deallocating",
    ]
)


@cache
def _unit(factor: int, suffix: str) -> Unit:
    return Unit(factor, suffix)


def split_sizes(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Unit]]:
    """The values with sizes as bytes, and the units those sizes were written in."""
    plain: dict[str, Any] = {}
    units: dict[str, Unit] = {}
    for name, value in values.items():
        if isinstance(value, Size):
            plain[name] = value.bytes
            units[name] = _unit(magnitude_bytes(value.magnitude), value.magnitude)
        else:
            plain[name] = value
    return plain, units


def restore(values: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Engine values as a node holds them: bytes become sizes of the class and magnitude found in
    `like`."""
    restored: dict[str, Any] = {}
    for name, value in values.items():
        was = like.get(name)
        if isinstance(was, Size) and not isinstance(value, Size):
            restored[name] = was if was.bytes == value else was.with_bytes(value)
        else:
            restored[name] = value
    return restored


def trouble_of(node: Node) -> str | None:
    """What keeps a node from being given work, as a word or two; None when nothing does."""
    if node.state in _TROUBLED:
        return str(node.state)
    if node.target_state == "Terminated" or (node.exists and node.target_state == "Off"):
        return f"going to be {node.target_state}"
    return None


class _Free(Mapping[str, Any]):
    """What `split_sizes` gives, worked out for what is asked for: a node has much, and most
    questions are about one thing."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return value.bytes if isinstance(value, Size) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _Units(Mapping[str, Unit]):
    """The units that `split_sizes` gives, likewise."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Unit:
        value = self._values[name]
        if not isinstance(value, Size):
            raise KeyError(name)
        return _unit(magnitude_bytes(value.magnitude), value.magnitude)

    def __iter__(self) -> Iterator[str]:
        return (name for name, value in self._values.items() if isinstance(value, Size))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class NodeView:
    """One node as an expression sees it, as it is now: made anew for each question."""

    __slots__ = ("_node", "last_capacity_failure")

    def __init__(self, node: Node, last_capacity_failure: float | None = None) -> None:
        self._node = node
        self.last_capacity_failure = last_capacity_failure

    @property
    def free(self) -> Mapping[str, Any]:
        """What is available, sizes as bytes."""
        return _Free(self._node.available)

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units those sizes are written in."""
        return _Units(self._node.available)

    @property
    def vacant(self) -> bool:
        """Nothing is assigned."""
        return not self._node._is_assigned

    @property
    def closed(self) -> bool:
        """Takes no more work."""
        return self._node.closed

    def prop(self, name: str) -> object:
        """The value of any node property."""
        return getattr(self._node, name)


def shape_of(
    node: Node,
    table: ShapeTable,
    properties: Collection[str],
    deferred: Collection[str] = (),
    last_capacity_failure: float | None = None,
    like: NodeShape | None = None,
) -> NodeShape:
    """The shape of a node. `properties`: which of its properties decide (identity ones are left
    out anyway); `deferred`: resources that differ from node to node and are looked up on the
    node when a constraint reads them. `last_capacity_failure`: of its bucket, which concerns
    nodes that must be started again. `like`: the shape of a node that is like this one but for
    amounts."""
    free, units = split_sizes(node.available)
    for name in deferred:
        free.pop(name, None)
        units.pop(name, None)
    is_deallocated = not node.exists and node.state == "Deallocated"
    if like is not None and like.units == units:
        template = like.template
    else:
        template = table.template(
            {name: getattr(node, name) for name in properties if name not in IDENTITY},
            units,
            trouble_of(node),
            last_capacity_failure if is_deallocated else None,
        )
    return table.shape(
        template,
        free,
        vacant=not node._is_assigned,
        closed=node.closed,
        dormant=is_deallocated and not node._in_demand,
    )


def in_group(shape: NodeShape, placement_group: str) -> NodeShape:
    """The shape of a node in a placement group, as of the same node in another one."""
    return shape.table.with_property(shape, "placement_group", placement_group)
