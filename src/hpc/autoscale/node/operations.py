"""Commands to the cluster. Every create, start and shutdown leaves through here, and through nothing else.

A command carries a request id that was written down before it left; nodes that CycleCloud does not manage are never
part of one; and what came of it is taken from the server's own records, never assumed. After a create, planned nodes
become the nodes that the server made: its names win, what it did not make is given up with its reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.errors import OperationNotFound
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.requests import RequestLog

Record = Mapping[str, Any]


class Created(NamedTuple):
    """What came of a create: planned nodes with the record each has become, records nobody planned, planned nodes that
    were not made, and what the server said of each set."""

    operation_id: str
    request_id: str
    adopted: list[tuple[Node, Record]]
    surplus_records: list[Record]
    not_made: list[Node]
    messages: list[str]


class Managed(NamedTuple):
    """What came of a management call: accepted nodes with their newest record (None: the record is gone), and a reason
    for each node that was refused."""

    operation_id: str
    request_id: str
    accepted: list[tuple[Node, Record | None]]
    reasons: list[str]


def settle_lost_creates(binding: ClusterBindingInterface, requests: RequestLog) -> list[str]:
    """Ask the server about creates whose reply never came; returns the ids that it did carry out.

    To be called before a pass decides anything: until each is known, a listing may be about to grow.
    """
    happened = []
    for request_id in requests.unsettled:
        try:
            binding.get_nodes(request_id=request_id)
        except OperationNotFound:
            requests.never_happened(request_id)
        else:
            requests.settle(request_id)
            happened.append(request_id)
    return happened


def create(
    binding: ClusterBindingInterface,
    nodes: Sequence[Node],
    requests: RequestLog,
    request_id: str | None = None,
) -> Created:
    """Ask for planned nodes. CycleCloudError when the server cannot be reached or does not understand."""
    request_id = requests.begin(request_id)
    result = binding.create_nodes(nodes, request_id=request_id)
    records = binding.get_nodes(operation_id=result.operation_id).nodes or []
    requests.settle(request_id)
    messages = [s.message for s in result.sets or () if s.message]
    for message in messages:
        logging.warning("create %s: %s", request_id, message)
    adopted, surplus, not_made = adopt(nodes, records)
    return Created(result.operation_id, request_id, adopted, surplus, not_made, messages)


def start(
    binding: ClusterBindingInterface, nodes: Sequence[Node], request_id: str | None = None
) -> Managed:
    """Boot deallocated nodes."""
    return manage(binding, binding.start_nodes, nodes, request_id)


def manage(
    binding: ClusterBindingInterface,
    call: Callable[..., Any],
    nodes: Sequence[Node],
    request_id: str | None = None,
) -> Managed:
    """Make one management call for nodes that have a NodeId, and read back what has become of them."""
    request_id = request_id or str(uuid4())
    result = call(nodes=list(nodes), request_id=request_id)
    by_id = {node.delayed_node_id.node_id: node for node in nodes}
    by_name = {node.name: node for node in nodes}
    answered: list[Node] = []
    reasons = []
    for said in result.nodes or ():
        node = by_id.get(said.id) or by_name.get(said.name)
        if node is None:
            continue
        if said.status in (None, "OK"):
            answered.append(node)
        else:
            reasons.append(f"{said.name}: {said.error or said.status}")
    missing = [node.name for node in nodes if node not in answered]
    refused = {reason.partition(":")[0] for reason in reasons}
    reasons.extend(
        f"{name}: the server knows no such node" for name in missing if name not in refused
    )
    records = _records(binding, result.operation_id)
    found = {record.get("NodeId"): record for record in records or ()}
    accepted = [(node, found.get(node.delayed_node_id.node_id)) for node in answered]
    return Managed(result.operation_id, request_id, accepted, reasons)


def _records(binding: ClusterBindingInterface, operation_id: str) -> list[Record] | None:
    try:
        return list(binding.get_nodes(operation_id=operation_id).nodes or [])
    except CycleCloudError as e:
        # the command was accepted; only its effect could not be read back, and the next listing will show it
        logging.warning("operation %s: its nodes could not be read: %s", operation_id, e)
        return None


def manageable(nodes: Iterable[Node], what: str) -> list[Node]:
    """The nodes that a command may name: managed by CycleCloud, and known to it by a NodeId."""
    found = []
    for node in nodes:
        if not node.managed:
            logging.warning("%s: %s is not managed by CycleCloud and is left alone", what, node)
        elif not node.delayed_node_id.node_id:
            logging.warning("%s: %s was never created and is left alone", what, node)
        else:
            found.append(node)
    return found


def adopt(
    nodes: Sequence[Node], records: Sequence[Record]
) -> tuple[list[tuple[Node, Record]], list[Record], list[Node]]:
    """Match planned nodes to the records of the operation that created them, set by set.

    A set is nodearray, VM size and placement group; within one, a record that carries the node's own attributes comes
    before one that does not, then one of the same name before another. Returns the matches, the records nobody
    planned, and the nodes that nothing was made for.
    """
    waiting: dict[tuple[Any, Any, Any], list[Record]] = defaultdict(list)
    for record in records:
        waiting[_set_of_record(record)].append(record)
    adopted, not_made = [], []
    names = {record.get("Name") for record in records}
    # nodes whose name was taken over by the server choose first, so that the others only take what is left
    for node in sorted(nodes, key=lambda n: n.name not in names):
        candidates = waiting[(node.nodearray, node.vm_size, node.placement_group or None)]
        if not candidates:
            not_made.append(node)
            continue
        best = max(candidates, key=lambda record: _likeness(node, record))
        candidates.remove(best)
        adopted.append((node, best))
    order = {id(node): i for i, node in enumerate(nodes)}
    adopted.sort(key=lambda pair: order[id(pair[0])])
    return adopted, [record for rest in waiting.values() for record in rest], not_made


def _set_of_record(record: Record) -> tuple[Any, Any, Any]:
    return (
        record.get("Template"),
        record.get("MachineType"),
        record.get("PlacementGroupId") or None,
    )


def _likeness(node: Node, record: Record) -> tuple[bool, bool]:
    wanted = node.node_attribute_overrides
    carried = all(record.get(key) == value for key, value in wanted.items())
    return (carried, record.get("Name") == node.name)
