"""What new nodes of a bucket are: the definition of their hardware and configuration, and the
template they are made from.

A bucket's `resources` and the totals of its example node are one dict, so that a write through
either shows in both and in every node made later. Values that default resources gave are told from
those that the cluster or a caller gave: a new node takes over the latter, and works out the former
for itself, because they may name the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.config.naming import group_or_none
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.contents import NodeClass, copied, live_resources, same, shape_of
from hpc.autoscale.packing.shape import NodeShape, ShapeTable

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket.bucket import NodeBucket

OFF = ht.NodeStatus("Off")


class NodeDefinition:
    """What a new node of a bucket would be. Everything but `placement_group` must be given
    (AssertionError)."""

    def __init__(
        self,
        nodearray: ht.NodeArrayName,
        bucket_id: ht.BucketId,
        vm_size: ht.VMSize,
        location: ht.Location,
        spot: bool,
        subnet: ht.SubnetId,
        vcpu_count: int,
        gpu_count: int,
        memory: ht.Memory,
        placement_group: ht.PlacementGroup | None,
        resources: Mapping[str, Any],
        software_configuration: Mapping[str, Any],
    ) -> None:
        given = {**locals(), "placement_group": ""}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise AssertionError(f"a node definition needs {', '.join(missing)}")
        self.nodearray, self.bucket_id, self.vm_size = nodearray, bucket_id, vm_size
        self.location, self.spot, self.subnet = location, spot, subnet
        self.vcpu_count, self.gpu_count, self.memory = vcpu_count, gpu_count, memory
        self.placement_group, self.resources = placement_group, copied(resources)
        self.software_configuration = software_configuration

    def in_placement_group(
        self, placement_group: str | None, resources: Mapping[str, Any] | None = None
    ) -> NodeDefinition:
        """This definition in a placement group, or (None) in none; with resources, if given."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.placement_group = ht.PlacementGroup(placement_group) if placement_group else None
        made.resources = copied(self.resources if resources is None else resources)
        return made

    def __str__(self) -> str:
        return f"NodeDefinition({self.nodearray}, {self.vm_size}, {self.placement_group})"

    __repr__ = __str__


def node_from_bucket(
    bucket: NodeBucket,
    new_node_name: ht.NodeName,
    state: ht.NodeStatus = OFF,
    target_state: ht.NodeStatus = OFF,
    power_state: ht.NodeStatus = OFF,
    hostname: ht.Hostname | None = None,
    placement_group: ht.PlacementGroup | None = None,
    exists: bool = True,
) -> Node:
    """A node as the bucket would make it. Without a host name it gets a made-up one, unless it
    is the example node."""
    if hostname is None and not new_node_name.endswith("-0"):
        hostname = ht.Hostname(util.uuid("hostname"))
    return node_of(
        bucket._definition,
        new_node_name,
        hostname,
        bucket.resources,
        group_or_none(placement_group, f"node {new_node_name}"),
        state=state,
        target_state=target_state,
        power_state=power_state,
        exists=exists,
    )


# What a node has as its definition has it.
_OF_NODES = (
    *("nodearray", "bucket_id", "vm_size", "location", "spot", "vcpu_count", "gpu_count", "memory"),
    "software_configuration",
)


def node_of(
    d: NodeDefinition,
    name: str,
    hostname: str | None,
    resources: Mapping[str, Any],
    placement_group: str | None = None,
    **more: Any,
) -> Node:
    """A node of a definition, with resources of its own; by itself one that does not exist yet.
    `placement_group`: in the place of the definition's; `more`: arguments of `Node` that are to be
    others."""
    group = placement_group or d.placement_group
    given: dict[str, Any] = {
        **{name: getattr(d, name) for name in _OF_NODES},
        **dict.fromkeys(("state", "target_state", "power_state"), OFF),
        "node_id": DelayedNodeId(ht.NodeName(name)),
        "name": name,
        "hostname": hostname,
        **dict.fromkeys(("private_ip", "instance_id")),
        **dict.fromkeys(("exists", "keep_alive"), False),
        "infiniband": bool(group),
        "placement_group": group,
        "managed": True,
        "resources": resources,
    }
    return Node(**{**given, **more})


FinishNode = Callable[[Node], None]


class Finish(Protocol):
    """What gives nodes their default resources. `ignore_groups`: what the engine knows of those
    is the same in whatever placement group a node is."""

    ignore_groups: bool

    def apply(self, node: Node) -> None:
        """Give a node everything."""

    def apply_to(self, nodes: Iterable[Node]) -> None:
        """Give each of many nodes everything."""

    def refined(self, node_class: NodeClass) -> NodeClass | None:
        """What nodes of a class become; None when each node must be asked."""

    def prepare(self, prototype: Node) -> FinishNode | None:
        """Give a prototype what all nodes made alike get; the rest is given to each copy by what
        is returned, if any."""


def _noted(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy to hold later values against. What equals no copy of itself stands for itself."""
    copies = copied(values)
    return {name: copies[name] if same(copies[name], v) else v for name, v in values.items()}


class NodeTemplate:
    """The new nodes of one bucket. A write into its resources is reported as one to the example
    node.

    `is_shared`: of several buckets, which differ by their placement groups alone and which nobody
    has looked into; then the example node is nobody's, and `of` makes a template for a bucket whose
    resources or example node somebody asks for.
    """

    def __init__(self, definition: NodeDefinition, is_shared: bool = False) -> None:
        self._definition = definition
        self.is_shared = is_shared
        self._example = node_of(definition, f"{definition.nodearray}-0", None, definition.resources)
        # totals of a new node: live, may be written to
        self.resources = definition.resources = live_resources(self._example)
        # what the example node's available amounts were last brought in line with
        self._seen = _noted(self.resources)
        self._derived: dict[str, Any] = {}
        self._applied: list[FinishNode] = []
        self._made_from = copied(self.resources)
        self._sample: tuple[Node, FinishNode | None] | None = None
        self._shapes: Sequence[NodeShape] | None = None
        self._planned: dict[str | None, NodeClass] = {}

    def of(self, definition: NodeDefinition) -> NodeTemplate:
        """What this one is for a bucket that shares it, for that bucket alone."""
        made = NodeTemplate(definition)
        for apply in self._applied:
            made.derive(apply)
        made.renew()
        return made

    @property
    def example(self) -> Node:
        """The example node; resources that were written since show in what it has available."""
        now, seen = self.resources, self._seen
        # most values are the very same objects, which takes a tenth of the time to see
        are_same = now.keys() == seen.keys() and (
            all(map(is_, now.values(), map(seen.get, now)))
            or all(map(same, now.values(), map(seen.get, now)))
        )
        if not are_same:
            self._seen = _noted(now)
            for name in seen.keys() - now.keys():
                self._example.available.pop(name, None)
            for name, value in copied(now).items():
                if name not in seen or not same(seen[name], value):
                    self._example.available[name] = value
        return self._example

    def derive(self, apply: FinishNode) -> None:
        """Give the example node, and new nodes, the default resources that they lack."""
        if self.is_shared:
            if self._applied and self._applied[-1] is apply:
                return  # another of the buckets has asked for it
            self._applied.append(apply)
        self._forget()
        example = self.example
        before, home = dict(self.resources), example._home
        example._home = None  # the bucket need not be told of each resource
        try:
            apply(example)
        finally:
            example._home = home
        self._derived.update((k, v) for k, v in self.resources.items() if before.get(k) is None)
        self._seen = _noted(self.resources)

    def _forget(self) -> None:
        self._sample = self._shapes = None
        self._planned.clear()

    def given(self) -> dict[str, Any]:
        """The resources that do not come from definitions of default resources."""
        return copied(
            {
                name: value
                for name, value in self.resources.items()
                if not (name in self._derived and same(self._derived[name], value))
            }
        )

    def renew(self) -> None:
        """From now on new nodes are as the bucket is now, and no more as at the last call."""
        if not self.is_shared:  # nobody writes to that
            self._forget()
            self._made_from = self.given()

    def shapes(
        self, table: ShapeTable, finish: Finish, deferred: Collection[str]
    ) -> Sequence[NodeShape]:
        """The shapes of the example node and of a new node. `deferred`: see `shape_of`."""
        if self._shapes is None:
            sample, rest = self._sampled(finish)
            if rest is not None:
                sample = self.new_node(self._example.name, "new", finish)
            self._shapes = (
                shape_of(self.example, table, QUERYABLE_PROPERTIES, deferred),
                shape_of(sample, table, QUERYABLE_PROPERTIES, deferred),
            )
        return self._shapes

    def _sampled(self, finish: Finish) -> tuple[Node, FinishNode | None]:
        """A new node with what all have, and what gives each the rest, if any."""
        if self._sample is None:
            sample = self.new_node(f"{self._definition.nodearray}-new", "new", None)
            self._sample = sample, finish.prepare(sample)
        return self._sample

    def planned(self, finish: Finish, group: str | None) -> NodeClass:
        """The class of planned nodes in a placement group."""
        found = self._planned.get(group)
        if found is None:
            sample, rest = self._sampled(finish)
            found = self._planned[group] = NodeClass(
                sample, finish=rest, _is_planned=True, _Node__placement_group=group
            )
        return found

    def new_node(
        self,
        name: str,
        hostname: str,
        finish: Finish | None,
        definition: NodeDefinition | None = None,
    ) -> Node:
        """A new node. `finish` gives it the default resources. `definition`: of the bucket,
        where others share this."""
        node = node_of(definition or self._definition, name, hostname, self._made_from)
        if finish is not None:
            finish.apply(node)
        return node
