"""What new nodes of a bucket are made from, and the example node that stands for them.

The bucket's `resources` and the totals of its example node are one dict, so that a write through either shows in both
and in every node made later. Values that default resources gave are told from those that the cluster or a caller gave:
a new node takes over the latter, and works out the former for itself, because they may name the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from hpc.autoscale.node.bucket.definition import NodeDefinition, node_of
from hpc.autoscale.node.bucket.facts import BucketFacts
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.copying import same
from hpc.autoscale.node.node.kind import Kind, stamp
from hpc.autoscale.node.node.record import copied
from hpc.autoscale.node.node.shaping import shape_of, use, used_up
from hpc.autoscale.node.node.tracked import TrackedDict
from hpc.autoscale.packing.shape import NodeShape, ShapeTable

FinishNode = Callable[[Node], None]
Planned = tuple[str, int, NodeShape, Sequence[str]]
"""The name of a planned node, its position in the bucket, its shape, and who was placed on it."""


class Finish(Protocol):
    """What gives new nodes their default resources. `ignore_groups`: what the engine sees of those is the same in whatever
    placement group a node is."""

    ignore_groups: bool

    def apply(self, node: Node) -> None:
        """Give a node everything."""

    def apply_to(self, nodes: Iterable[Node]) -> None:
        """Give each of many nodes everything."""

    def refined(self, kind: Kind) -> Kind | None:
        """What nodes of a kind become; None when each node must be asked."""

    def prepare(self, prototype: Node) -> FinishNode | None:
        """Give a prototype what all nodes made alike get; the rest is given to each copy by what is returned, if any."""


class _Cast(NamedTuple):
    """What planned nodes are copies of. `of_shape`: the attributes of such a node in the shapes that were asked for; None
    where each is to be worked out by itself."""

    kind: Kind
    of_shape: dict[NodeShape, dict[str, Any]] | None


class Mould:
    """The new nodes of one bucket. A write into its resources is reported as one to the example node.

    `is_shared`: of several buckets, which differ by their placement groups alone and which nobody has looked into; then the
    example node is nobody's, and `of` makes a mould for a bucket whose resources or example node somebody asks for.
    """

    def __init__(self, definition: NodeDefinition, is_shared: bool = False) -> None:
        self._definition = definition
        self.is_shared = is_shared
        self._example = node_of(definition, f"{definition.nodearray}-0", None, definition.resources)
        self._resources = TrackedDict(definition.resources, self._example)
        self._example._resources = definition.resources = self._resources
        # what the example node's available amounts were last brought in line with
        self._seen = copied(self._resources)
        self._derived: dict[str, Any] = {}
        self._applied: list[FinishNode] = []
        self._cast = copied(self._resources)
        self._sample: tuple[Node, FinishNode | None] | None = None
        self._shapes: tuple[NodeShape, NodeShape] | None = None
        self._kind: Kind | None = None
        self._casts: dict[str | None, _Cast] = {}

    def of(self, definition: NodeDefinition) -> Mould:
        """What this one is for a bucket that shares it, for that bucket alone."""
        made = Mould(definition)
        for apply in self._applied:
            made.derive(apply)
        made.recast()
        return made

    @property
    def resources(self) -> dict[str, Any]:
        """Totals of a new node: live, may be written to."""
        return self._resources

    @property
    def example(self) -> Node:
        """The example node; resources that were written since show in what it has available."""
        if self._resources != self._seen:
            self._bring_in_line()
        return self._example

    def _bring_in_line(self) -> None:
        seen, self._seen = self._seen, copied(self._resources)
        for name in seen.keys() - self._seen.keys():
            self._example.available.pop(name, None)
        for name, value in copied(self._resources).items():
            if name not in seen or not same(seen[name], value):
                self._example.available[name] = value

    def derive(self, apply: FinishNode) -> None:
        """Give the example node the default resources that it lacks. New nodes get them too from now on."""
        if self.is_shared:
            if self._applied and self._applied[-1] is apply:
                return  # another of the buckets has asked for it
            self._applied.append(apply)
        self._forget()
        example = self.example
        before = dict(self._resources)
        apply(example)
        for name, value in self._resources.items():
            if before.get(name) is None:
                self._derived[name] = value
        self._seen = copied(self._resources)

    def _forget(self) -> None:
        self._sample = self._shapes = self._kind = None
        self._casts.clear()

    def given(self) -> dict[str, Any]:
        """The resources that do not come from definitions of default resources."""
        return copied(
            {
                name: value
                for name, value in self._resources.items()
                if not (name in self._derived and same(self._derived[name], value))
            }
        )

    def recast(self) -> None:
        """From now on new nodes are as the bucket is now; until then they are as it was at the last call."""
        if not self.is_shared:  # nobody writes to that
            self._forget()
            self._cast = self.given()

    def shapes(
        self,
        table: ShapeTable,
        finish: Finish,
        deferred: Collection[str],
    ) -> tuple[NodeShape, NodeShape]:
        """Those of the example node and of a new node. `deferred`: see `shape_of`."""
        if self._shapes is None:
            sample, rest = self._sampled(finish)
            if rest is not None:
                sample = self.new_node("new", "new", finish)
            self._shapes = (
                shape_of(self.example, table, QUERYABLE_PROPERTIES, deferred),
                shape_of(sample, table, QUERYABLE_PROPERTIES, deferred),
            )
        return self._shapes

    def fill(
        self,
        bucket: BucketFacts,
        finish: Finish,
        empty: NodeShape,
        planned: Iterable[Planned],
    ) -> list[Node]:
        """Nodes that work was placed on before anybody looked at them. `empty`: the shape of a new node.

        Cost of each: one dict, where all that is new nodes have in common can be shared; else that of a new node.
        """
        sample, rest = self._sampled(finish)
        group = bucket.placement_group
        kind, of_shape = self._casts.get(group) or self._new_cast(sample, rest, group)
        if of_shape is None:
            return [_cast_one(bucket, kind, rest, empty, each) for each in planned]
        made = []
        for name, position, shape, assignment_ids in planned:
            attributes = of_shape.get(shape)
            if attributes is None:
                left = dict(sample.available)
                use(left, used_up(empty.free, shape.free))
                attributes = of_shape[shape] = {
                    **kind.attributes,
                    "_home": bucket,
                    "_is_planned": True,
                    "_left": left,
                    "_allocated": True,
                    "_Node__closed": shape.closed,
                }
            node, own = stamp(Node, attributes)
            own["_name"], own["_position"], own["_assigned"] = name, position, assignment_ids
            made.append(node)
        return made

    def _sampled(self, finish: Finish) -> tuple[Node, FinishNode | None]:
        """A new node with what all have, and what gives each the rest, if any."""
        if self._sample is None:
            sample = self.new_node(f"{self._definition.nodearray}-new", "new", None)
            self._sample = sample, finish.prepare(sample)
        return self._sample

    def _new_cast(self, sample: Node, rest: FinishNode | None, group: str | None) -> _Cast:
        if self._kind is None:
            self._kind = Kind(sample)
        kind = self._kind
        if group != sample.placement_group:
            kind = kind.in_group(group)
        made = self._casts[group] = _Cast(kind, {} if rest is None and kind.can_be_shared else None)
        return made

    def new_node(
        self,
        name: str,
        hostname: str,
        finish: Finish | None,
        definition: NodeDefinition | None = None,
    ) -> Node:
        """A new node. `finish` gives it the default resources. `definition`: of the bucket, where others share this."""
        node = node_of(definition or self._definition, name, hostname, self._cast)
        if finish is not None:
            finish.apply(node)
        return node


def _cast_one(
    bucket: BucketFacts,
    kind: Kind,
    rest: FinishNode | None,
    empty: NodeShape,
    planned: Planned,
) -> Node:
    name, position, shape, assignment_ids = planned
    node, own = stamp(Node, kind.attributes)
    own["_name"] = name
    if rest is not None:
        rest(node)
    node._placed(used_up(empty.free, shape.free), shape.closed, assignment_ids)
    own["_home"], own["_position"], own["_is_planned"] = bucket, position, True
    return node
