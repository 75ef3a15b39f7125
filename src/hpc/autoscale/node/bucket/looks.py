"""What the engine sees of the nodes of one bucket: those that look alike have one shape, worked out once.

Called by the bucket, for nodes that were written to and for those that nobody has looked at yet.
"""

from __future__ import annotations

from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.kind import Kind
from hpc.autoscale.node.node.shaping import look_of, shape_of
from hpc.autoscale.packing.shape import NodeShape, ShapeTable


class Looks:
    """Shapes by what nodes look like. `deferred`: resources that differ from node to node, and are not looked at.
    `last_capacity_failure`: of the bucket."""

    def __init__(self, last_capacity_failure: float | None = None) -> None:
        self._last_capacity_failure = last_capacity_failure
        self.deferred: frozenset[str] = frozenset()
        # by what `look_of` says of a node, and by kind for nodes that are as their kind made them
        self._known: dict[object, NodeShape] = {}
        # of each kind the shape that was worked out last
        self._last: dict[Kind, NodeShape] = {}

    def defer(self, deferred: frozenset[str]) -> None:
        """From now on these differ from node to node."""
        self.deferred = deferred
        self._known.clear()

    def shape_of(self, node: Node, table: ShapeTable) -> NodeShape:
        """The shape of a node."""
        look = look_of(node, self.deferred)
        if look is None:
            failure = self._last_capacity_failure
            return shape_of(node, table, QUERYABLE_PROPERTIES, self.deferred, failure)
        found = self._known.get(look)
        if found is None:
            like = self._last.get(node._alike) if node._alike is not None else None
            found = shape_of(node, table, QUERYABLE_PROPERTIES, self.deferred, like=like)
            self._known[look] = found
            if node._alike is not None:
                self._last[node._alike] = found
        return found

    def shape_of_kind(self, kind: Kind, table: ShapeTable) -> NodeShape:
        """The shape of nodes that are as their kind made them."""
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self.shape_of(kind.sample(Node), table)
        return found
