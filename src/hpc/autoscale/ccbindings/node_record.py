"""A `Node` as CycleCloud would describe it: its record, with PascalCase keys.

For the bindings that have no server to ask: the mock and the dry run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


def record_of(node: "Node", request_id: str | None = None) -> dict[str, Any]:
    """The record of a node; values that the node does not have are None.

    The values within Configuration are the node's own.
    """
    return {
        "Name": node.name,
        "Template": node.nodearray,
        "MachineType": node.vm_size,
        "Region": node.location,
        "NodeId": node.delayed_node_id.node_id,
        "Status": node.state,
        "TargetState": node.target_state,
        "Hostname": node.hostname,
        "PrivateIp": node.private_ip,
        "InstanceId": node.instance_id,
        "PlacementGroupId": node.placement_group,
        "CoreCount": node.vcpu_count,
        "Memory": node.memory.convert_to("g").value,
        "Infiniband": node.infiniband,
        "Interruptible": node.spot,
        "KeepAlive": node.keep_alive,
        "Configuration": dict(node.software_configuration),
        "RequestId": request_id,
    }
