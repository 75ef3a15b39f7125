"""The result that a lost reply must have had, worked out from the nodes of its operation.

Pure functions over the protocol's models. The id of the operation cannot be found out this way; the
request id stands in for it, and `clusters.get_nodes` accepts it in its place.
"""

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

from hpc.autoscale.ccbindings.creation_sets import plain_name
from hpc.autoscale.ccbindings.models import (
    NodeCreationRequest,
    NodeCreationRequestSet,
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    NodeManagementResult,
    NodeManagementResultNode,
)

_GOING = frozenset({"Terminated", "Off"})

# the target states that a node has once an action was accepted for it
TARGET_STATES: Mapping[str, frozenset[str]] = {
    "start": frozenset({"Started"}),
    "restart": frozenset({"Started"}),
    "reimage": frozenset({"Started"}),
    "deallocate": frozenset({"Deallocated"}),
    "shutdown": _GOING | {"Deallocated"},
    "terminate": _GOING,
    "remove": _GOING,
}

# what distinguishes the nodes of one set from those of another: nodearray, VM size, placement
# group, and its name where a set asks for that
_Key = tuple[str, str, str, str]


def creation_result(
    request: NodeCreationRequest, request_id: str, listing: NodeList
) -> NodeCreationResult:
    """The result of a creation. Its nodes are counted to the sets that they fit, in their order."""
    asked = {name for wanted in request.sets if (name := _asked_name(wanted))}
    left = Counter(_key(record, asked) for record in listing.nodes)
    results = []
    for wanted in request.sets:
        fitting = [key for key in left if _fits(key, wanted)]
        added = 0
        for key in fitting:
            taken = min(left[key], wanted.count - added)
            left[key] -= taken
            added += taken
        missing = f"{wanted.count - added} fewer than asked for; the reply with the reason was lost"
        message = missing if added < wanted.count else None
        results.append(NodeCreationResultSet(added=added, message=message))
    return NodeCreationResult(operation_id=request_id, sets=results)


def management_result(action: str, request_id: str, listing: NodeList) -> NodeManagementResult:
    """The result of a management action, judged by what has become of its nodes.

    A node is OK when its target state is the one that the action asks for. Of another one nothing
    is known: the listing may be older than the request.
    """
    expected = TARGET_STATES[action]
    nodes = []
    for record in listing.nodes:
        target = record.get("TargetState")
        accepted = target in expected
        nodes.append(
            NodeManagementResultNode(
                id=record.get("NodeId") or "",
                name=record.get("Name") or "",
                status="OK" if accepted else "Error",
                error=None if accepted else f"its target state is {target}; the reply was lost",
            )
        )
    result = NodeManagementResult(operation_id=request_id, nodes=nodes)
    result.is_worked_out = True
    return result


def _key(record: Mapping[str, Any], asked: Container[str]) -> _Key:
    machine_type = str(record.get("MachineType") or "").lower()
    name = str(record.get("Name") or "").lower()
    return (
        record.get("Template") or "",
        machine_type,
        record.get("PlacementGroupId") or "",
        name if name in asked else "",
    )


def _fits(key: _Key, wanted: NodeCreationRequestSet) -> bool:
    _, machine_type, _, _ = key
    size = (wanted.definition.machine_type if wanted.definition else None) or machine_type
    return key == (
        wanted.nodearray,
        size.lower(),
        wanted.placement_group_id or "",
        _asked_name(wanted),
    )


def _asked_name(wanted: NodeCreationRequestSet) -> str:
    return (plain_name(wanted.name_format) or "").lower()
