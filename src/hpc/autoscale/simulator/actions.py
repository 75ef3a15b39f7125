"""The management actions: what each does to a node in which phase, and when it is refused.

`SimCluster.manage` calls `act` for each selected node; it returns the reason why the action is
refused for that node, or nothing. What follows from an action over time is in `orchestrator`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hpc.autoscale.simulator.lifecycle import Event, Phase
from hpc.autoscale.simulator.limits import Tally, group_limit, place_limits, quota_limits, room
from hpc.autoscale.simulator.nodes import EventCause, SimNode

if TYPE_CHECKING:
    from hpc.autoscale.simulator.cluster import SimCluster

_Action = Callable[["SimCluster", SimNode, EventCause, Tally], str]


def act(cluster: "SimCluster", action: str, node: SimNode, cause: EventCause, tally: Tally) -> str:
    """Carry out an action on a node; returns why it was refused, empty when it was not.

    `tally` is what all nodes take from the limits; a start that is granted is counted in it.
    """
    return ACTIONS[action](cluster, node, cause, tally)


def _terminate(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    if node.phase is Phase.TERMINATING:
        return ""
    if node.parked:
        return "" if node.keeps_record else _remove(cluster, node, cause, tally)
    return _kept_alive(node) or _fire(cluster, node, Event.TERMINATE, cause)


def _remove(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    if node.parked:
        return _fire(cluster, node, Event.REMOVE_RECORD, cause)
    if node.keeps_record:
        return f"{node.name} must be terminated before it can be removed"
    return _terminate(cluster, node, cause, tally)


def _deallocate(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    if node.phase in (Phase.DEALLOCATING, Phase.DEALLOCATED):
        return ""
    return _kept_alive(node) or _fire(cluster, node, Event.DEALLOCATE, cause)


def _shutdown(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    return ACTIONS[node.shutdown_action](cluster, node, cause, tally)


def _start(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    if node.phase is Phase.FAILED:
        node.retry_count += 1
        return _fire(cluster, node, Event.START, cause)
    if node.counts:
        return ""
    if node.phase in (Phase.TERMINATING, Phase.DEALLOCATING):
        return f"{node.name} is still {node.phase.value.lower()}"
    limits = quota_limits(
        cluster.cloud.regions[node.nodearray.region], node.nodearray, node.machine_type
    )
    if node.placement_group:
        limits.append(
            group_limit(cluster.name, node.nodearray, node.machine_type, node.placement_group)
        )
    # CycleCloud lets deallocated nodes come back whatever its own limits say; Azure's quotas hold
    # for everybody
    if node.phase is not Phase.DEALLOCATED:
        limits += place_limits(cluster.description, node.nodearray, node.machine_type)
    left, limit = room(limits, tally)
    if not left:
        return f"{node.name} cannot start: {limit.sentence(tally.taken(limit.scope))}"
    error = _fire(cluster, node, Event.START, cause)
    tally.add(node)
    return error


def _restart(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    return _on_vm(cluster, node, Event.RESTART, cause)


def _reimage(cluster: "SimCluster", node: SimNode, cause: EventCause, tally: Tally) -> str:
    return _on_vm(cluster, node, Event.REIMAGE, cause)


def _on_vm(cluster: "SimCluster", node: SimNode, event: Event, cause: EventCause) -> str:
    if not node.vm_running:
        return f"{node.name} has no running VM: it is {node.phase.value}"
    return _fire(cluster, node, event, cause)


def _kept_alive(node: SimNode) -> str:
    return f"{node.name} has KeepAlive set; clear it first" if node.is_set("KeepAlive") else ""


def _fire(cluster: "SimCluster", node: SimNode, event: Event, cause: EventCause) -> str:
    if cluster.cloud.orchestrator.fire(node, event, cause):
        return ""
    return f"{node.name} is {node.phase.value}, where {event.value} is not possible"


ACTIONS: Mapping[str, _Action] = {
    "terminate": _terminate,
    "remove": _remove,
    "deallocate": _deallocate,
    "shutdown": _shutdown,
    "start": _start,
    "restart": _restart,
    "reimage": _reimage,
}
