"""The published JSON form of a node: dashed keys, sizes as `size::…` and `memory::…` texts.

`to_dict` leaves sizes as objects (`util.json_dump` writes them); `parse` reads either. Neither
touches its argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node.tracked import copied

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node

_REQUIRED = (
    "hostname",
    "name",
    "node-id",
    "nodearray",
    "vm-size",
    "location",
    "bucket-id",
    "private-ip",
    "instance-id",
)


class Parsed(NamedTuple):
    """`Node(**arguments)`, and what is set on it afterwards."""

    arguments: dict[str, Any]
    available: dict[str, Any]
    assignments: list[str]
    metadata: dict[str, Any]


def to_dict(node: Node) -> dict[str, Any]:
    """The JSON form; nothing in it is shared with the node."""
    return {
        "name": node.name,
        "hostname": node.hostname,
        "private-ip": node.private_ip,
        "instance-id": node.instance_id,
        "nodearray": node.nodearray,
        "placement_group": node.placement_group,
        "node-id": node.delayed_node_id.node_id,
        "operation-id": node.delayed_node_id.operation_id,
        "vm-size": node.vm_size,
        "location": node.location,
        "job-ids": sorted(node.assignments),
        "resources": copied(node.resources),
        "software-configuration": deepcopy(dict(node.software_configuration)),
        "available": copied(node.available),
        "bucket-id": node.bucket_id,
        "metadata": deepcopy(node.metadata),
        "spot": node.spot,
        "state": node.state,
        "exists": node.exists,
        "managed": node.managed,
    }


def parse(d: Mapping[str, Any]) -> Parsed:
    """Read the JSON form. AutoscaleError names the keys that are missing."""
    missing = [key for key in _REQUIRED if key not in d]
    if missing:
        raise AutoscaleError(
            f"expected the JSON form of a node, found one without {', '.join(missing)}"
        )
    aux = vm_sizes.get_aux_vm_size_info(d["location"], d["vm-size"])
    resources = ht.with_sizes(copied(d.get("resources") or {}))
    state = ht.NodeStatus(d.get("state", "unknown"))
    memory = d.get("memory")
    arguments = {
        "node_id": DelayedNodeId(d["name"], d["node-id"], d.get("operation-id")),
        "name": d["name"],
        "nodearray": d["nodearray"],
        "bucket_id": d["bucket-id"],
        "hostname": d["hostname"],
        "private_ip": d["private-ip"],
        "instance_id": d["instance-id"],
        "vm_size": d["vm-size"],
        "location": d["location"],
        "spot": d.get("spot", False),
        "vcpu_count": d.get("vcpu-count", aux.vcpu_count),
        "memory": aux.memory if memory is None else _memory(memory),
        "infiniband": aux.infiniband,
        "state": state,
        "target_state": state,
        "power_state": state,
        "exists": d.get("exists", True),
        "placement_group": d.get("placement_group"),
        "managed": d.get("managed", False),
        "resources": resources,
        "software_configuration": deepcopy(dict(d.get("software-configuration") or {})),
        "keep_alive": d.get("keep-alive", False),
    }
    given = d.get("available")
    available = copied(resources) if given is None else ht.with_sizes(copied(given))
    return Parsed(
        arguments, available, list(d.get("job-ids") or []), deepcopy(dict(d.get("metadata") or {}))
    )


def arguments_of(node: Node, software_configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What `Node` is called with to make another like this one with this configuration, under an
    id of its own."""
    return {
        "node_id": node.delayed_node_id.clone(),
        "name": node.name,
        "nodearray": node.nodearray,
        "bucket_id": node.bucket_id,
        "hostname": ht.Hostname(node.hostname_or_uuid),
        "private_ip": node.private_ip,
        "instance_id": node.instance_id,
        "vm_size": node.vm_size,
        "location": node.location,
        "spot": node.spot,
        "vcpu_count": node._vcpu_count,
        "memory": node.memory,
        "infiniband": node.infiniband,
        "state": node.state,
        "target_state": node.target_state,
        "power_state": node.state,
        "exists": node.exists,
        "placement_group": node.placement_group,
        "managed": node.managed,
        "resources": node._resources,
        "software_configuration": deepcopy(dict(software_configuration)),
        "keep_alive": node.keep_alive,
        "gpu_count": node._gpu_count,
    }


def _memory(value: Any) -> ht.Memory:
    if isinstance(value, ht.Memory):
        return value
    size = ht.Memory.value_of(value)
    return size if isinstance(size, ht.Memory) else ht.Memory(size.value, size.magnitude)
