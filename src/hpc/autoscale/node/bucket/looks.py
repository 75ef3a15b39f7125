"""What the engine sees of the nodes of one bucket: those that look alike have one shape, worked out once.

Called by the bucket, for nodes that were written to and for those that nobody has looked at yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.kind import Kind
from hpc.autoscale.node.node.shaping import looks_of, shape_of
from hpc.autoscale.packing.shape import NodeShape, ShapeTable


class Looks:
    """Shapes by what nodes look like. `deferred`: resources that differ from node to node, and are not looked at."""

    def __init__(self) -> None:
        self.deferred: frozenset[str] = frozenset()
        # by what `looks_of` says of a node, and by kind for nodes that are as their kind made them
        self._known: dict[object, NodeShape] = {}
        # of each kind the shape that was worked out last
        self._last: dict[Kind, NodeShape] = {}

    def defer(self, deferred: frozenset[str]) -> None:
        """From now on these differ from node to node."""
        self.deferred = deferred
        self._known.clear()

    def shapes_of(self, nodes: Sequence[Node], table: ShapeTable) -> list[NodeShape]:
        """The shapes of nodes, one for each."""
        looks, known = looks_of(nodes, self.deferred), self._known
        return [
            known.get(look) or self._new_shape(node, look, table)
            for node, look in zip(nodes, looks, strict=True)
        ]

    def shape_of(self, node: Node, table: ShapeTable) -> NodeShape:
        """The shape of one node."""
        return self.shapes_of((node,), table)[0]

    def _new_shape(self, node: Node, look: object, table: ShapeTable) -> NodeShape:
        kind = node._alike
        if look is None or kind is None:
            return shape_of(node, table, QUERYABLE_PROPERTIES, self.deferred)
        like = self._last.get(kind)
        found = shape_of(node, table, QUERYABLE_PROPERTIES, self.deferred, like=like)
        self._known[look] = self._last[kind] = found
        return found

    def shape_of_kind(self, kind: Kind, table: ShapeTable) -> NodeShape:
        """The shape of nodes that are as their kind made them."""
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self.shape_of(kind.sample(Node), table)
        return found
