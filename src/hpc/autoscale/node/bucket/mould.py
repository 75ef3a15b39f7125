"""What new nodes of a bucket are made from, and the example node that stands for them.

The bucket's `resources` and the totals of its example node are one dict, so that a write through either shows in both
and in every node made later. Values that default resources gave are told from those that the cluster or a caller gave:
a new node takes over the latter, and works out the former for itself, because they may name the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.bucket.definition import NodeDefinition, node_from_bucket
from hpc.autoscale.node.bucket.facts import BucketFacts
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.copying import same
from hpc.autoscale.node.node.kind import Kind, stamp
from hpc.autoscale.node.node.record import copied
from hpc.autoscale.node.node.shaping import use, used_up
from hpc.autoscale.node.node.tracked import TrackedDict
from hpc.autoscale.packing.shape import NodeShape, freeze

FinishNode = Callable[[Node], None]
Caster = Callable[[str, int, NodeShape, Sequence[str]], Node]
"""Makes a node of its name, its position in the bucket, its shape, and who was placed on it."""


class Finish(Protocol):
    """What gives new nodes their default resources."""

    def apply(self, node: Node) -> None:
        """Give a node everything."""

    def apply_to(self, nodes: Iterable[Node]) -> None:
        """Give each of many nodes everything."""

    def refined(self, kind: Kind) -> Kind | None:
        """What nodes of a kind become; None when each node must be asked."""

    def prepare(self, prototype: Node) -> FinishNode | None:
        """Give a prototype what all nodes made alike get; the rest is given to each copy by what is returned, if any."""


class _Cast(NamedTuple):
    """What planned nodes are copies of, and what is still to be done to each. `of_shape`: the attributes of such a node in
    the shapes that were asked for; None where each is to be worked out by itself."""

    sample: Node
    kind: Kind
    rest: FinishNode | None
    of_shape: dict[NodeShape, dict[str, Any]] | None


class Mould:
    """The new nodes of one bucket. A write into its resources is reported as one to the example node."""

    def __init__(self, bucket: BucketFacts, definition: NodeDefinition) -> None:
        self._bucket = bucket
        self._definition = definition
        self._example = node_from_bucket(
            bucket, ht.NodeName(f"{definition.nodearray}-0"), exists=False, hostname=None
        )
        self._resources = TrackedDict(definition.resources, self._example)
        self._example._resources = definition.resources = self._resources
        # what the example node's available amounts were last brought in line with
        self._seen = copied(self._resources)
        self._derived: dict[str, Any] = {}
        self._cast = copied(self._resources)
        self._planned: _Cast | None = None

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
        self._planned = None
        example = self.example
        before = dict(self._resources)
        apply(example)
        for name, value in self._resources.items():
            if before.get(name) is None:
                self._derived[name] = value
        self._seen = copied(self._resources)

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
        self._planned = None
        self._cast = self.given()

    def looks_but_for_group(self) -> object:
        """All that new nodes are made from, but for the placement group and default resources: the same for buckets whose
        new nodes differ by these alone."""
        d = self._definition
        place = (d.nodearray, d.bucket_id, d.vm_size, d.location, d.spot, d.subnet)
        size = (d.vcpu_count, d.gpu_count, d.memory)
        return (*place, *size, id(d.software_configuration), freeze(self._cast))

    def caster(self, finish: Finish, empty: NodeShape) -> Caster:
        """What makes nodes that work was placed on before anybody looked at them. `empty`: the shape of a new node.

        Cost of each: one dict, where all that is new nodes have in common can be shared; else that of a new node.
        """
        sample, kind, rest, of_shape = self._planned or self._new_cast(finish)
        if of_shape is None:
            return partial(self._cast_one, kind, rest, empty)

        def cast(name: str, position: int, shape: NodeShape, assignment_ids: Sequence[str]) -> Node:
            attributes = of_shape.get(shape)
            if attributes is None:
                left = dict(sample.available)
                use(left, used_up(empty.free, shape.free))
                attributes = of_shape[shape] = {
                    **kind.attributes,
                    "_home": self._bucket,
                    "_is_planned": True,
                    "_left": left,
                    "_allocated": True,
                    "_Node__closed": shape.closed,
                }
            made, own = stamp(Node, attributes)
            own["_name"], own["_position"], own["_assigned"] = name, position, assignment_ids
            return made

        return cast

    def _cast_one(
        self,
        kind: Kind,
        rest: FinishNode | None,
        empty: NodeShape,
        name: str,
        position: int,
        shape: NodeShape,
        assignment_ids: Sequence[str],
    ) -> Node:
        node, own = stamp(Node, kind.attributes)
        own["_name"] = name
        if rest is not None:
            rest(node)
        node._placed(used_up(empty.free, shape.free), shape.closed, assignment_ids)
        own["_home"], own["_position"], own["_is_planned"] = self._bucket, position, True
        return node

    def _new_cast(self, finish: Finish) -> _Cast:
        sample = self.new_node(f"{self._definition.nodearray}-new", "new", None)
        rest = finish.prepare(sample)
        kind = Kind(sample)
        shared: dict[NodeShape, dict[str, Any]] = {}
        by_shape = rest is None and kind.can_be_shared
        self._planned = _Cast(sample, kind, rest, shared if by_shape else None)
        return self._planned

    def new_node(self, name: str, hostname: str, finish: Finish | None) -> Node:
        """A new node. `finish` gives it the default resources."""
        node = node_from_bucket(
            self._bucket,
            ht.NodeName(name),
            exists=False,
            hostname=ht.Hostname(hostname),
            resources=self._cast,
        )
        if finish is not None:
            finish.apply(node)
        return node
