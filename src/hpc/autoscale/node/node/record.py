"""The published JSON form of a node: dashed keys, sizes as `size::…` and `memory::…` texts.

`to_dict` leaves sizes as objects (`util.json_dump` writes them); `arguments` reads either. Neither
touches its argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError, check_entries
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node.contents import copied

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node

_REQUIRED = (
    *("hostname", "name", "node-id", "nodearray", "vm-size", "location", "bucket-id"),
    *("private-ip", "instance-id"),
)
_KINDS = {
    "name": str,
    "hostname": str | None,
    **dict.fromkeys(("vcpu-count", "gpu-count"), int | None),
    "job-ids": list | tuple | set | frozenset | None,
    **dict.fromkeys(("resources", "available", "metadata"), Mapping | None),
    "software-configuration": Mapping | None,
}


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
        "job-ids": sorted(node.assignments, key=str),
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


def arguments(d: Mapping[str, Any]) -> dict[str, Any]:
    """What `Node` is called with to be what the JSON form says; what it has available, who was
    placed there and its metadata come afterwards. AutoscaleError names the keys that are missing,
    or of another kind."""
    check_entries("the JSON form of a node", _KINDS, d)
    if missing := [key for key in _REQUIRED if key not in d]:
        raise AutoscaleError(f"the JSON form of a node: expected {', '.join(missing)} in it")
    aux = vm_sizes.get_aux_vm_size_info(d["location"], d["vm-size"])
    size = aux.memory if d.get("memory") is None else ht.Memory.value_of(d["memory"])
    memory = size if isinstance(size, ht.Memory) else ht.Memory(size.value, size.magnitude)
    return {
        "node_id": DelayedNodeId(d["name"], d["node-id"], d.get("operation-id")),
        **{key.replace("-", "_"): d[key] for key in _REQUIRED if key != "node-id"},
        "spot": d.get("spot", False),
        "vcpu_count": aux.vcpu_count if (cores := d.get("vcpu-count")) is None else cores,
        "memory": memory,
        "infiniband": aux.infiniband,
        **dict.fromkeys(("state", "target_state", "power_state"), d.get("state", "unknown")),
        "exists": d.get("exists", True),
        "placement_group": d.get("placement_group"),
        "managed": d.get("managed", False),
        "resources": ht.with_sizes(copied(d.get("resources") or {})),
        "software_configuration": deepcopy(dict(d.get("software-configuration") or {})),
        "keep_alive": d.get("keep-alive", False),
    }
