"""Adding nodes: checking a request, choosing machine types and names, and keeping the limits.

There are two steps, so that one invalid set refuses a whole request before anything is done: `plan`
raises or returns values, `carry_out` adds what there is room for and says which limit stopped the
rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpc.autoscale.ccbindings import models
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.simulator.attributes import merged
from hpc.autoscale.simulator.description import MachineType, Nodearray
from hpc.autoscale.simulator.errors import Conflict
from hpc.autoscale.simulator.lifecycle import Event
from hpc.autoscale.simulator.limits import (
    CountLimit,
    Tally,
    group_limit,
    place_limits,
    quota_limits,
    room,
)
from hpc.autoscale.simulator.nodes import EventCause, SimNode, flag

if TYPE_CHECKING:
    from hpc.autoscale.simulator.cluster import Operation, SimCluster

_NAME_FORMAT = re.compile(r"[A-Za-z0-9_.-]*%(?:0[1-9])?d[A-Za-z0-9_.-]*")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LONGEST_FORMAT = 60
_MOST_OFFSET = 1_000_000_000
_LONGEST_GROUP = 100


@dataclass(frozen=True)
class SetPlan:
    """One set of a valid request; everything is decided but how many nodes there is room for.

    `name_format` has one `%d`, or is the name of the only node.
    """

    array: Nodearray
    size: MachineType
    count: int
    attributes: Mapping[str, Any]
    placement_group: str | None
    name_format: str
    name_offset: int


def plan(cluster: "SimCluster", request: models.NodeCreationRequest) -> list[SetPlan]:
    """The sets that a well-formed request asks for. Raises Conflict for the first invalid thing."""
    plans = [
        _plan_set(cluster, wanted, f"sets[{index}]") for index, wanted in enumerate(request.sets)
    ]
    _check_plain_names(cluster, plans)
    return plans


def _plan_set(cluster: "SimCluster", wanted: models.NodeCreationRequestSet, path: str) -> SetPlan:
    array = cluster.nodearray(wanted.nodearray)
    if wanted.count < 1:
        raise Conflict(f"{path}.count: expected 1 or more, found {wanted.count}")
    offset = 1 if wanted.name_offset is None else wanted.name_offset
    if not 0 <= offset <= _MOST_OFFSET:
        raise Conflict(f"{path}.nameOffset: expected 0 to {_MOST_OFFSET}, found {offset}")
    form = f"{array.name}-%d" if wanted.name_format is None else wanted.name_format
    _check_form(form, wanted.count, path)
    group = wanted.placement_group_id or None
    if group is not None and not (len(group) <= _LONGEST_GROUP and group.isprintable()):
        raise Conflict(
            f"{path}.placementGroupId: expected at most {_LONGEST_GROUP} printable characters"
        )
    machine_type = wanted.definition.machine_type if wanted.definition else None
    return SetPlan(
        array,
        _machine_type(array, machine_type, path) if machine_type else preferred(array),
        wanted.count,
        merged(array.attributes, wanted.node_attributes or {}),
        group,
        form,
        offset,
    )


def _check_form(form: str, count: int, path: str) -> None:
    if len(form) > _LONGEST_FORMAT or not (
        _NAME_FORMAT.fullmatch(form) or _PLAIN_NAME.fullmatch(form)
    ):
        raise Conflict(
            f"{path}.nameFormat: expected letters, digits, '-', '_' and '.' around one %d, or none,"
            f" at most {_LONGEST_FORMAT} characters, found {form[:80]!r}"
        )
    if "%" not in form and count > 1:
        raise Conflict(
            f"{path}.nameFormat: {form!r} is a name for one node; expected a %d in it, because"
            f" count is {count}"
        )


def _check_plain_names(cluster: "SimCluster", plans: Sequence[SetPlan]) -> None:
    """Raise Conflict when a name without a number is taken; numbers are chosen freely."""
    used = {node.name.lower() for node in cluster.nodes()}
    for index, wanted in enumerate(plans):
        name = wanted.name_format
        if "%" in name:
            continue
        if name.lower() in used:
            raise Conflict(f"sets[{index}].nameFormat: the name {name} is in use")
        used.add(name.lower())


def _machine_type(array: Nodearray, name: str, path: str) -> MachineType:
    if name.lower() not in array.machine_types:
        known = [machine_type.name for machine_type in array.machine_types.values()]
        raise Conflict(
            f"{path}.definition.machineType: nodearray {array.name} has no {name!r}"
            f" (it has {', '.join(known)}){did_you_mean(name, known)}"
        )
    return array.machine_types[name.lower()]


def preferred(array: Nodearray) -> MachineType:
    """The machine type for a request that names none: the first that can be used."""
    types = list(array.machine_types.values())
    return next((size for size in types if not size.invalid_reason), types[0])


def room_for(
    cluster: "SimCluster", array: Nodearray, size: MachineType, tally: Tally
) -> tuple[int, str]:
    """How many nodes may be created now, and which limit allows no more."""
    if size.invalid_reason:
        return 0, f"{size.name} cannot be used: {size.invalid_reason}"
    since = cluster.seconds_since_capacity_failure(array, size)
    if array.throttle_capacity and 0 <= since < array.throttle_capacity_time:
        wait = array.throttle_capacity_time - since
        return (
            0,
            f"{size.name} had no capacity {since:.0f} s ago and is held back {wait:.0f} s more",
        )
    limits = place_limits(cluster.description, array, size)
    limits += quota_limits(cluster.cloud.regions[array.region], array, size)
    return _tightest(limits, tally)


def _tightest(limits: Sequence[CountLimit], tally: Tally) -> tuple[int, str]:
    left, limit = room(limits, tally)
    return left, limit.sentence(tally.taken(limit.scope))


def carry_out(
    cluster: "SimCluster", plans: Sequence[SetPlan], operation: "Operation", cause: EventCause
) -> models.NodeCreationResult:
    """Add the nodes of each set, as many as there is room for."""
    names = _Names(cluster, plans)
    # records without a VM are held against the limits on nodes among themselves, but take nothing
    # from started ones
    started, parked = cluster.cloud.tally(), cluster.cloud.tally(with_parked=True)
    results = []
    for wanted in plans:
        starts = flag(wanted.attributes, "StartAutomatically", default=True)
        tally = started if starts else parked
        left, reason = _room_for_set(cluster, wanted, starts, tally)
        added = min(wanted.count, left)
        for name in names.next(wanted, added):
            node = _add(cluster, wanted, name, cause)
            operation.node_ids.append(node.node_id)
            if starts:
                cluster.cloud.orchestrator.fire(node, Event.START)
            started.add(node)
            parked.add(node)
        message = None
        if added < wanted.count:
            left, reason = _room_for_set(cluster, wanted, starts, tally)
            message = f"added {added} of {wanted.count} nodes: {reason}"
            cluster.note_shortfall(wanted.array, wanted.size, message, cause)
        results.append(models.NodeCreationResultSet(added=added, message=message))
    return models.NodeCreationResult(operation_id=operation.operation_id, sets=results)


def _room_for_set(
    cluster: "SimCluster", wanted: SetPlan, starts: bool, tally: Tally
) -> tuple[int, str]:
    if starts:
        left, reason = room_for(cluster, wanted.array, wanted.size, tally)
    else:
        left, reason = _tightest(
            place_limits(cluster.description, wanted.array, wanted.size), tally
        )
    if wanted.placement_group:
        limit = group_limit(cluster.name, wanted.array, wanted.size, wanted.placement_group)
        in_group, full = _tightest([limit], tally)
        if in_group < left:
            return in_group, full
    return left, reason


def _add(cluster: "SimCluster", wanted: SetPlan, name: str, cause: EventCause) -> SimNode:
    node = SimNode(
        node_id=cluster.cloud.orchestrator.new_id(),
        name=name,
        cluster=cluster.name,
        nodearray=wanted.array,
        machine_type=wanted.size,
        placement_group=wanted.placement_group,
        attributes=wanted.attributes,
        request_id=cause.request_id or None,
        cause=cause,
    )
    cluster.cloud.orchestrator.add(node)
    return node


class _Names:
    """The names that are free for new nodes.

    Names that differ only in case would be the same host. Names without a number are reserved for
    their sets, in whatever order the sets are.
    """

    def __init__(self, cluster: "SimCluster", plans: Sequence[SetPlan]) -> None:
        self._used = {node.name.lower() for node in cluster.nodes()}
        self._used |= {plan.name_format.lower() for plan in plans if "%" not in plan.name_format}
        self._tried: dict[tuple[str, int], int] = {}

    def next(self, wanted: SetPlan, count: int) -> Iterator[str]:
        """The first `count` free names of a set's format, counting from its offset.

        For a format without a number it is that name.
        """
        if "%" not in wanted.name_format:
            yield from [wanted.name_format][:count]
            return
        start = (wanted.name_format.lower(), wanted.name_offset)
        index = self._tried.get(start, wanted.name_offset)
        while count:
            name = wanted.name_format % index
            index += 1
            if name.lower() not in self._used:
                self._used.add(name.lower())
                count -= 1
                yield name
        self._tried[start] = index
