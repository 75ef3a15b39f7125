"""The objects of CycleCloud's REST protocol, under the names that its own client gives them.

Only data: what the fields are, which of them must be there and how they are called in JSON. The
REST client, the bindings and the simulator all speak in these. Some fields that the current
reference calls required are optional here, because older servers leave them out.
"""

from typing import Any

from hpc.autoscale.ccbindings.modelbase import (
    ANY_INT,
    BOOL,
    INT,
    NODE,
    NUMBER,
    RECORD,
    STR,
    Model,
    Record,
    list_of,
    optional,
    required,
)

__all__ = [
    "ClusterStatus",
    "ClusterNodearrayStatus",
    "NodearrayBucketStatus",
    "NodearrayBucketStatusDefinition",
    "NodearrayBucketStatusVirtualMachine",
    "PlacementGroupStatus",
    "NodeCreationRequest",
    "NodeCreationRequestSet",
    "NodeCreationRequestSetDefinition",
    "NodeCreationResult",
    "NodeCreationResultSet",
    "NodeList",
    "OperationStatus",
    "NodeManagementRequest",
    "NodeManagementResult",
    "NodeManagementResultNode",
    "ClusterUsage",
    "ClusterUsageInterval",
    "ClusterUsageItem",
    "ClusterUsageItemDetails",
    "Model",
    "Record",
]


class PlacementGroupStatus(Model):
    """A placement group of a bucket and how much of it is in use."""

    name: str = required(STR)
    active_count: int = required(INT)
    active_core_count: int = required(INT)


class NodearrayBucketStatusDefinition(Model):
    """What selects a bucket in a creation request."""

    machine_type: str = required(STR)


class NodearrayBucketStatusVirtualMachine(Model):
    """The VM size of a bucket; `memory` in GiB."""

    vcpu_count: int = required(INT)
    pcpu_count: int | None = optional(INT)
    gpu_count: int | None = optional(INT)
    memory: float = required(NUMBER)
    infiniband: bool = required(BOOL)
    vcpu_quota_count: int | None = optional(INT)


class NodearrayBucketStatus(Model):
    """One VM size of a nodearray: what is in use, what may still be created and what sets the
    limit.

    `last_capacity_failure` is in seconds since then; negative or None: never. The family numbers of
    a spot nodearray are 0, where the regional ones count.
    """

    bucket_id: str = required(STR)
    definition: NodearrayBucketStatusDefinition | None = optional(NodearrayBucketStatusDefinition)
    valid: bool = required(BOOL)
    invalid_reason: str | None = optional(STR)
    active_count: int = required(INT)
    active_core_count: int = required(INT)
    active_nodes: list[str] | None = optional(list_of(STR))
    available_count: int = required(INT)
    available_core_count: int = required(INT)
    max_count: int = required(INT)
    max_core_count: int = required(INT)
    max_placement_group_size: int = required(INT)
    max_placement_group_core_size: int = required(INT)
    quota_count: int = required(INT)
    quota_core_count: int = required(INT)
    consumed_core_count: int = required(INT)
    family_quota_count: int | None = optional(INT)
    family_quota_core_count: int | None = optional(INT)
    family_consumed_core_count: int | None = optional(INT)
    regional_quota_count: int | None = optional(INT)
    regional_quota_core_count: int | None = optional(INT)
    regional_consumed_core_count: int | None = optional(INT)
    last_capacity_failure: float | None = optional(NUMBER)
    spot_placement_score: str | None = optional(STR)
    placement_groups: list[PlacementGroupStatus] = required(list_of(PlacementGroupStatus))
    virtual_machine: NodearrayBucketStatusVirtualMachine = required(
        NodearrayBucketStatusVirtualMachine
    )


class ClusterNodearrayStatus(Model):
    """A nodearray with its limits, its buckets and, as `nodearray`, the record that defines it."""

    name: str = required(STR)
    max_count: int = required(INT)
    max_core_count: int = required(INT)
    nodearray: dict[str, Any] = required(RECORD)
    buckets: list[NodearrayBucketStatus] = required(list_of(NodearrayBucketStatus))


class ClusterStatus(Model):
    """A cluster; `nodes` are records and present only when asked for. `is_bounded`: whether there
    are no more nodes than `max_count`; false of one on which that is only written."""

    is_bounded: bool = True
    state: str | None = optional(STR)
    target_state: str | None = optional(STR)
    max_count: int = required(INT)
    max_core_count: int = required(INT)
    nodearrays: list[ClusterNodearrayStatus] = required(list_of(ClusterNodearrayStatus))
    nodes: list[dict[str, Any]] | None = optional(list_of(NODE))


class OperationStatus(Model):
    """What a request set in motion and when (ISO-8601, UTC)."""

    action: str = required(STR)
    start_time: str = required(STR)


class NodeList(Model):
    """Node records; with `operation` when those of one operation were asked for.

    `body`: the reply that says so, as it came; None where there is none. Equal replies have equal
    records.
    """

    body: bytes | None = None

    nodes: list[dict[str, Any]] = required(list_of(NODE))
    operation: OperationStatus | None = optional(OperationStatus)


class NodeCreationRequestSetDefinition(Model):
    """The VM size that a set wants."""

    machine_type: str | None = optional(STR)


class NodeCreationRequestSet(Model):
    """`count` equal nodes of one nodearray."""

    nodearray: str = required(STR)
    count: int = required(ANY_INT)
    definition: NodeCreationRequestSetDefinition | None = optional(NodeCreationRequestSetDefinition)
    name_format: str | None = optional(STR)
    name_offset: int | None = optional(ANY_INT)
    node_attributes: dict[str, Any] | None = optional(RECORD)
    placement_group_id: str | None = optional(STR)


class NodeCreationRequest(Model):
    """Sets of nodes to create, at least one; a server carries out one `request_id` once."""

    request_id: str | None = optional(STR)
    sets: list[NodeCreationRequestSet] = required(list_of(NodeCreationRequestSet, "set"))


class NodeCreationResultSet(Model):
    """How many nodes of a set were added, and why not all."""

    added: int = required(INT)
    message: str | None = optional(STR)


class NodeCreationResult(Model):
    """The answer to a creation request: one set for each one asked for, in that order."""

    operation_id: str = required(STR)
    sets: list[NodeCreationResultSet] = required(list_of(NodeCreationResultSet))


class NodeManagementRequest(Model):
    """Which nodes an action is for: the union of all selectors given. `hostnames` are short
    ones."""

    ids: list[str] | None = optional(list_of(STR))
    names: list[str] | None = optional(list_of(STR))
    hostnames: list[str] | None = optional(list_of(STR))
    ip_addresses: list[str] | None = optional(list_of(STR), wire="ip_addresses")
    filter: str | None = optional(STR)
    request_id: str | None = optional(STR)


class NodeManagementResultNode(Model):
    """What became of one selected node: `status` is "OK" or "Error", then with the reason in
    `error`."""

    id: str = required(STR)
    name: str = required(STR)
    status: str | None = optional(STR)
    error: str | None = optional(STR)


class NodeManagementResult(Model):
    """The answer to a management action: the nodes that it matched.

    `is_worked_out` is True where the answer itself was lost, and this is what the nodes of the
    operation say. A node that is not OK then may become so yet: the request may be under way.
    """

    is_worked_out = False

    operation_id: str = required(STR)
    nodes: list[NodeManagementResultNode] = required(list_of(NodeManagementResultNode))


class ClusterUsageItemDetails(Model):
    """Usage of one VM size; `hours` are core-hours, `cost` is in USD. Its JSON keys are in
    snake_case."""

    vm_size: str | None = optional(STR, wire="vm_size")
    hours: float | None = optional(NUMBER)
    core_count: float | None = optional(NUMBER, wire="core_count")
    region: str | None = optional(STR)
    priority: str | None = optional(STR)
    os: str | None = optional(STR)
    cost: float | None = optional(NUMBER)


class ClusterUsageItem(Model):
    """Usage of a cluster, a nodearray or a node (`category`); `hours` are core-hours, `cost` is in
    USD."""

    category: str = required(STR)
    node: str | None = optional(STR)
    hours: float = required(NUMBER)
    cost: float | None = optional(NUMBER)
    details: list[ClusterUsageItemDetails] | None = optional(list_of(ClusterUsageItemDetails))


class ClusterUsageInterval(Model):
    """Usage from `start` to `end`, which is not included."""

    start: str = required(STR)
    end: str = required(STR)
    total: ClusterUsageItem = required(ClusterUsageItem)
    breakdown: list[ClusterUsageItem] = required(list_of(ClusterUsageItem))


class ClusterUsage(Model):
    """Usage over time."""

    usage: list[ClusterUsageInterval] = required(list_of(ClusterUsageInterval))
