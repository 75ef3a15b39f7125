"""What a bucket is made of: the definition of its nodes, and a node made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.record import copied

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket.facts import BucketFacts

OFF = ht.NodeStatus("Off")


class NodeDefinition:
    """What a new node of a bucket would be. Everything but `placement_group` must be given (AssertionError)."""

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
        given = {k: v for k, v in locals().items() if k not in ("self", "placement_group")}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise AssertionError(f"a node definition needs {', '.join(missing)}")
        self.nodearray = nodearray
        self.bucket_id = bucket_id
        self.vm_size = vm_size
        self.location = location
        self.spot = spot
        self.subnet = subnet
        self.vcpu_count = vcpu_count
        self.gpu_count = gpu_count
        self.memory = memory
        self.placement_group = placement_group
        self.resources: dict[str, Any] = copied(resources)
        self.software_configuration = software_configuration

    def in_placement_group(
        self, placement_group: ht.PlacementGroup | None, resources: Mapping[str, Any]
    ) -> NodeDefinition:
        """The same within a placement group, or (None) in none, with these resources."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.placement_group = placement_group
        made.resources = copied(resources)
        return made

    def __str__(self) -> str:
        return f"NodeDefinition({self.nodearray}, {self.vm_size}, {self.placement_group})"

    __repr__ = __str__


def node_from_bucket(
    bucket: BucketFacts,
    new_node_name: ht.NodeName,
    state: ht.NodeStatus = OFF,
    target_state: ht.NodeStatus = OFF,
    power_state: ht.NodeStatus = OFF,
    hostname: ht.Hostname | None = None,
    placement_group: ht.PlacementGroup | None = None,
    exists: bool = True,
) -> Node:
    """A node as the bucket would make it. Without a host name it gets a made-up one, unless it is the example node."""
    if hostname is None and not new_node_name.endswith("-0"):
        hostname = ht.Hostname(util.uuid("hostname"))
    return node_of(
        bucket._definition,
        new_node_name,
        hostname,
        bucket.resources,
        placement_group,
        (state, target_state, power_state),
        exists,
    )


def node_of(
    d: NodeDefinition,
    name: str,
    hostname: str | None,
    resources: Mapping[str, Any],
    placement_group: str | None = None,
    states: tuple[ht.NodeStatus, ht.NodeStatus, ht.NodeStatus] = (OFF, OFF, OFF),
    exists: bool = False,
) -> Node:
    """A node of a definition, with resources of its own; by itself one that does not exist yet. `placement_group`: in the
    place of the definition's; `states`: state, target state and power state."""
    node_name = ht.NodeName(name)
    group = ht.PlacementGroup(placement_group) if placement_group else d.placement_group
    state, target_state, power_state = states
    return Node(
        node_id=DelayedNodeId(node_name),
        name=node_name,
        nodearray=d.nodearray,
        bucket_id=d.bucket_id,
        hostname=None if hostname is None else ht.Hostname(hostname),
        private_ip=None,
        instance_id=None,
        vm_size=d.vm_size,
        location=d.location,
        spot=d.spot,
        vcpu_count=d.vcpu_count,
        memory=d.memory,
        infiniband=bool(group),
        state=state,
        target_state=target_state,
        power_state=power_state,
        exists=exists,
        placement_group=group,
        managed=True,
        resources=resources,
        software_configuration=d.software_configuration,
        keep_alive=False,
        gpu_count=d.gpu_count,
    )
