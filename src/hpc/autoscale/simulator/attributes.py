"""Nodes and nodearrays as CycleCloud shows them: maps with attributes in PascalCase.

Everything a caller can see of a node is made here from the model's own `SimNode`; attributes
without a value are left out. Attributes named in `MANAGED` say what the simulator knows and cannot
be set by a request.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hpc.autoscale.ccbindings.models import Record
from hpc.autoscale.simulator.description import ClusterDescription, Nodearray
from hpc.autoscale.simulator.lifecycle import FACTS, Phase
from hpc.autoscale.simulator.nodes import SimNode

MANAGED = frozenset(
    name.lower()
    for name in (
        "Name",
        "NodeId",
        "ClusterName",
        "Template",
        "MachineType",
        "TargetState",
        "State",
        "Status",
        "StatusMessage",
        "PhaseFailed",
        "RetryCount",
        "InstanceId",
        "Hostname",
        "PrivateIp",
        "Region",
        "SubnetId",
        "PlacementGroupId",
        "RequestId",
        "IsArray",
        "Interruptible",
        "MaxCount",
        "MaxCoreCount",
        "Priority",
        "ThrottleCapacity",
        "ThrottleCapacityTime",
    )
)


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as the protocol writes a time: ISO-8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_record(node: SimNode) -> Record:
    """The record of a node."""
    facts = FACTS[node.phase]
    failed = node.phase is Phase.FAILED
    managed = {
        "Name": node.name,
        "NodeId": node.node_id,
        "ClusterName": node.cluster,
        "Template": node.nodearray.name,
        "MachineType": node.machine_type.name,
        "Status": node.phase.value,
        "State": facts.state,
        "TargetState": facts.target_state,
        "StatusMessage": node.status_message or None,
        "PhaseFailed": True if failed else None,
        "RetryCount": node.retry_count or None,
        "InstanceId": node.instance_id,
        "Hostname": node.hostname if node.registered else None,
        "PrivateIp": node.private_ip,
        "Region": node.nodearray.region,
        "SubnetId": node.nodearray.subnet_id,
        "PlacementGroupId": node.placement_group,
        "Interruptible": node.nodearray.spot,
        "RequestId": node.request_id,
    }
    # whatever its case, a name that both have is the managed one's; none of these is a map
    both = (*node.attributes.items(), *managed.items())
    return Record({key: value for key, value in both if value is not None})


def nodearray_record(cluster: ClusterDescription, array: Nodearray) -> Record:
    """The record that defines a nodearray."""
    managed = {
        "Name": array.name,
        "ClusterName": cluster.name,
        "Template": array.name,
        "IsArray": True,
        "State": "Started",
        "Status": "Ready",
        "TargetState": "Started",
        "MachineType": [machine_type.name for machine_type in array.machine_types.values()],
        "MaxCount": array.max_count,
        "MaxCoreCount": array.max_core_count,
        "Region": array.region,
        "SubnetId": array.subnet_id,
        "Interruptible": array.spot,
        "Priority": array.priority,
        "ThrottleCapacity": array.throttle_capacity or None,
        "ThrottleCapacityTime": array.throttle_capacity_time if array.throttle_capacity else None,
        "Azure": {"MaxScalesetSize": array.max_placement_group_size},
    }
    return _shown(array.attributes, managed)


def merged(attributes: Mapping[str, Any], changes: Mapping[str, Any]) -> Record:
    """Attributes with changes over them, also inside of maps.

    Attributes that the simulator manages stay as they are.
    """
    allowed = {key: value for key, value in changes.items() if key.lower() not in MANAGED}
    return _over(attributes, allowed)


def _over(attributes: Mapping[str, Any], changes: Mapping[str, Any]) -> Record:
    record = Record(attributes)
    for key, value in changes.items():
        record[key] = _inside(record.get(key), value)
    return record


def _inside(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: _inside(below.get(key), value) for key, value in above.items()}}


def _shown(attributes: Mapping[str, Any], managed: Mapping[str, Any]) -> Record:
    """The record made of both; attributes without a value are left out."""
    record = _over(attributes, {key: value for key, value in managed.items() if value is not None})
    return Record({key: value for key, value in record.items() if value is not None})
