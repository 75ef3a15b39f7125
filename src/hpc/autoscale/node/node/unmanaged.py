"""A machine that CycleCloud does not know, as on premises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node.handle import Node


class UnmanagedNode(Node):
    """A machine that CycleCloud does not know: always there, never created or deleted.

    A `vm_size` needs a `location` (AssertionError). Without a known size and without figures of its own, vcpu_count
    and memory are -1: unknown.
    """

    def __init__(
        self,
        hostname: str,
        resources: Mapping[str, Any] | None = None,
        vm_size: ht.VMSize | None = None,
        location: ht.Location | None = None,
        vcpu_count: int | None = None,
        memory: ht.Memory | None = None,
        placement_group: ht.PlacementGroup | None = None,
    ) -> None:
        if vm_size and not location:
            raise AssertionError(f"a location is needed with vm_size {vm_size} of {hostname}")
        size = ht.VMSize(vm_size or "unknown")
        where = ht.Location(location or "unknown")
        aux = vm_sizes.get_aux_vm_size_info(where, size)
        super().__init__(
            node_id=DelayedNodeId(ht.NodeName(hostname)),
            name=ht.NodeName(hostname),
            nodearray=ht.NodeArrayName("unknown"),
            bucket_id=ht.BucketId("unknown"),
            hostname=ht.Hostname(hostname),
            private_ip=None,
            instance_id=None,
            vm_size=size,
            location=where,
            spot=False,
            vcpu_count=aux.vcpu_count if vcpu_count is None else vcpu_count,
            memory=aux.memory if memory is None else memory,
            infiniband=False,
            state=ht.NodeStatus("running"),
            target_state=ht.NodeStatus("running"),
            power_state=ht.NodeStatus("running"),
            exists=True,
            placement_group=placement_group,
            managed=False,
            resources=resources or {},
            software_configuration={},
            keep_alive=True,
        )

    def __str__(self) -> str:
        return "Unmanaged" + super().__str__()

    def __repr__(self) -> str:
        return "Unmanaged" + super().__repr__()
