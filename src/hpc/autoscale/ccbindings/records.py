"""A `Node` as CycleCloud would describe it: its record, with PascalCase keys.

For the bindings that have no server to ask: the mock and the dry run.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.ccbindings.models import Record

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node


def record_of(node: "Node", request_id: str | None = None) -> Record:
    """The record of a node; what it does not have is left out. The values of Configuration are shared with the node."""
    record = Record(
        Name=node.name,
        Template=node.nodearray,
        MachineType=node.vm_size,
        Region=node.location,
        NodeId=node.delayed_node_id.node_id,
        Status=node.state,
        TargetState=node.target_state,
        CoreCount=node.vcpu_count,
        Memory=node.memory.convert_to("g").value,
        Infiniband=node.infiniband,
        Interruptible=node.spot,
        KeepAlive=node.keep_alive,
        Configuration=dict(node.software_configuration),
    )
    optional = {
        "Hostname": node.hostname,
        "PrivateIp": node.private_ip,
        "InstanceId": node.instance_id,
        "PlacementGroupId": node.placement_group,
        "RequestId": request_id,
    }
    record.update({key: value for key, value in optional.items() if value})
    return record
