"""The nodes of a mock cluster.

A `MockNode` is a `Node` that keeps its record at hand, so that listing thousands of them costs
little. Used by `mock.binding` alone.
"""

import uuid
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.mock.capacity import Slot
from hpc.autoscale.ccbindings.node_record import record_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node


class _Record:
    """An object with the values of a record as attributes.

    Objects of one class share the names of their attributes, so a copy of its `__dict__` takes half
    the memory of another dict.
    """


class MockNode(Node):
    """A node as the mock cluster holds it."""

    _record: dict[str, Any] | None = None

    @property
    def keep_alive(self) -> bool:
        """Whether the node is to be kept; the mock is the cluster, so it may be set at any time."""
        return super().keep_alive

    @keep_alive.setter
    def keep_alive(self, value: bool) -> None:
        self._Node__keep_alive = value

    if not TYPE_CHECKING:  # it would allow every attribute

        def __setattr__(self, name, value):
            self.__dict__["_record"] = None
            super().__setattr__(name, value)

    @property
    def in_use(self) -> bool:
        """Whether the node takes capacity of its bucket."""
        return bool(self.target_state == "Started")

    @property
    def listed(self) -> bool:
        """Whether the cluster lists the node: it is meant to run, or kept to be started again."""
        return self.target_state in ("Started", "Deallocated") or self.state == "Deallocated"

    def record(self) -> dict[str, Any]:
        """The record as a dict of the caller's own.

        Values within Configuration are the node's own and must not be changed.
        """
        return (self._record or self._new_record()).copy()

    def _new_record(self) -> dict[str, Any]:
        held = _Record()
        for key, value in record_of(self, self.metadata.get("__request_id__")).items():
            setattr(held, key, value)
        self.__dict__["_record"] = vars(held)
        return vars(held)


def new_node(
    slot: Slot,
    name: str,
    state: str,
    target_state: str,
    hostname: str | None = None,
    placement_group: str | None = None,
    keep_alive: bool = False,
    spot: bool = False,
    attributes: Mapping[str, Any] | None = None,
) -> MockNode:
    """A node that exists in a bucket, with the resources and the configuration of its nodearray.

    `attributes` are those that the creation request adds. In a spot nodearray every node is a spot
    node.
    """
    configuration = deepcopy(dict(slot.array.nodearray["Configuration"]))
    resources = configuration.get("autoscale", {}).get("resources", {})
    configuration.update((attributes or {}).get("Configuration") or {})
    machine = slot.bucket.virtual_machine
    return MockNode(
        node_id=DelayedNodeId(ht.NodeName(name), node_id=ht.NodeId(str(uuid.uuid4()))),
        name=ht.NodeName(name),
        nodearray=ht.NodeArrayName(slot.array.name),
        bucket_id=ht.BucketId(slot.bucket.bucket_id),
        hostname=ht.Hostname(hostname) if hostname else None,
        private_ip=None,
        instance_id=None,
        vm_size=ht.VMSize(slot.vm_size),
        location=ht.Location(slot.region),
        spot=spot or slot.spot,
        vcpu_count=machine.vcpu_count,
        memory=ht.Memory(machine.memory, "g"),
        infiniband=machine.infiniband,
        state=ht.NodeStatus(state),
        target_state=ht.NodeStatus(target_state),
        power_state=ht.NodeStatus(state),
        exists=True,
        placement_group=ht.PlacementGroup(placement_group) if placement_group else None,
        managed=True,
        resources=resources,
        software_configuration=configuration,
        keep_alive=keep_alive,
        gpu_count=machine.gpu_count,
    )
