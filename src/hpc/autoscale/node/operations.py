"""Commands to the cluster. Every create, start and shutdown is sent from here and nowhere else.

Before a command is sent the gate is asked (`guards`), and what it refuses is left out and told. A
command has a request id that was written down before it was sent, and it never names nodes that
CycleCloud does not manage. Its result is taken from the server's own records and never assumed.
After a create, planned nodes become the nodes that the server made: their names are the server's,
and nodes that it did not make are given up with its reason.

A create whose reply is lost may or may not have happened. Its id is written down before the request
is sent (`RequestLog`), so that a later pass, also of another process, can ask the server about it.
When it never happened the id is used again: the server carries out one id once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.creation_sets import plain_name
from hpc.autoscale.ccbindings.errors import MutationUnconfirmed, OperationNotFound
from hpc.autoscale.ccbindings.evidence import answers, check_answers
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import NodeList
from hpc.autoscale.errors import AutoscaleError, CycleCloudError, unreadable
from hpc.autoscale.node.guards import Command, Gate, Refusal
from hpc.autoscale.node.node import Node
from hpc.autoscale.util import random_uuid

if TYPE_CHECKING:
    from pathlib import Path

NewId = Callable[[], str]
Record = Mapping[str, Any]

COMMANDS: Mapping[str, Command] = {
    "start_nodes": "start",
    "delete_nodes": "delete",
    "shutdown_nodes": "shutdown",
    "terminate_nodes": "shutdown",
    "deallocate_nodes": "shutdown",
    "remove_nodes": "shutdown",
    "restart_nodes": "restart",
    "reimage_nodes": "reimage",
}
"""What each management call of a binding does to nodes, as the gate is asked for it."""


class Created(NamedTuple):
    """The result of a create, node by node.

    It has planned nodes with the record each has become, records that nobody planned, planned nodes
    that the server made and does not list yet, planned nodes that were not made, what the server
    said of each set, and planned nodes that were not asked for, because the gate refused them.
    """

    operation_id: str
    request_id: str
    adopted: list[tuple[Node, Record]]
    surplus_records: list[Record]
    pending: list[Node]
    not_made: list[Node]
    messages: list[str]
    refused: Sequence[Refusal] = ()


class Managed(NamedTuple):
    """The result of a management call, node by node.

    It has accepted nodes with their newest record (None: it is not listed), a reason for each node
    that the server refused, whether the newest records could be read at all, and the nodes that the
    gate refused, which the server was not asked about.
    """

    operation_id: str
    request_id: str
    accepted: list[tuple[Node, Record | None]]
    reasons: list[str]
    was_read: bool
    refused: Sequence[Refusal] = ()


def settle_lost_creates(binding: ClusterBindingInterface, requests: RequestLog) -> list[str]:
    """Ask the server about creates whose reply never came; returns the ids that it carried out.

    It has to be called before a pass decides anything: until each is known, a listing may be about
    to grow.
    """
    happened = []
    for request_id in requests.unsettled:
        if _created_by(binding, request_id, request_id) is None:
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
    gate: Gate | None = None,
) -> Created:
    """Ask for planned nodes, as many of them as the gate allows; nothing is sent where it allows
    none.

    CycleCloudError when the server cannot be reached or its reply cannot be understood; then
    `find_out` tells whether the nodes were made.
    """
    nodes, refused = (gate or Gate()).ask("create", nodes)
    if not nodes:
        return Created("", "", [], [], [], [], [], refused)
    request_id = requests.begin(request_id)
    result = binding.create_nodes(nodes, request_id=request_id)
    records = _created_by(binding, result.operation_id, request_id)
    if records is None:
        reason = f"operation {result.operation_id} is unknown right after it was accepted"
        raise MutationUnconfirmed(where(binding), request_id, reason)
    requests.settle(request_id)
    messages = [s.message for s in result.sets or () if s.message]
    adopted, surplus, missing = adopt(nodes, records)
    late = max(0, sum(s.added or 0 for s in result.sets or ()) - len(records))
    return Created(
        result.operation_id,
        request_id,
        adopted,
        surplus,
        missing[:late],
        missing[late:],
        messages,
        refused,
    )


def find_out(
    binding: ClusterBindingInterface,
    nodes: Sequence[Node],
    requests: RequestLog,
    request_id: str,
) -> Created | None:
    """The result of a create whose reply, or whose nodes, could not be read.

    None when the create never happened.
    """
    records = _created_by(binding, request_id, request_id)
    if records is None:
        requests.never_happened(request_id)
        return None
    requests.settle(request_id)
    adopted, surplus, missing = adopt(nodes, records)
    return Created(request_id, request_id, adopted, surplus, [], missing, [])


def where(binding: ClusterBindingInterface) -> str:
    """The cluster and the server of a binding, for messages.

    Bindings of integrations may have no method for that.
    """
    return str(getattr(binding, "where", f"cluster {binding.cluster_name}"))


def _listing(binding: ClusterBindingInterface, operation_id: str, request_id: str) -> NodeList:
    """The nodes of an operation; where only a request id is known, the nodes of that."""
    if operation_id == request_id:
        return binding.get_nodes(request_id=request_id)
    return binding.get_nodes(operation_id=operation_id)


def _created_by(
    binding: ClusterBindingInterface, operation_id: str, request_id: str
) -> Sequence[Record] | None:
    """The nodes that a create has made; None when the server does not know of it.

    Raises CycleCloudError when the server cannot be asked or answers with something else: then it
    is unknown whether the create happened.
    """
    try:
        listing = _listing(binding, operation_id, request_id)
    except OperationNotFound:
        return None
    check_answers(binding.cluster_name, listing, request_id)
    return listing.nodes or []


def start(
    binding: ClusterBindingInterface,
    nodes: Sequence[Node],
    request_id: str | None = None,
    gate: Gate | None = None,
) -> Managed:
    """Boot deallocated nodes."""
    return manage(binding, "start_nodes", nodes, request_id, gate)


def manage(
    binding: ClusterBindingInterface,
    verb: str,
    nodes: Sequence[Node],
    request_id: str | None = None,
    gate: Gate | None = None,
) -> Managed:
    """Make one management call (`COMMANDS`) for those of the nodes that the gate allows, and read
    back what has become of them; nothing is sent where it allows none."""
    nodes, refusals = (gate or Gate()).ask(COMMANDS[verb], nodes)
    if not nodes:
        return Managed("", "", [], [], False, refusals)
    call: Callable[..., Any] = getattr(binding, verb)
    request_id = request_id or random_uuid()
    result = call(nodes=list(nodes), request_id=request_id)
    by_id: dict[Any, Node] = {node.delayed_node_id.node_id: node for node in nodes}
    by_name: dict[Any, Node] = {node.name: node for node in nodes}
    answered: dict[int, Node] = {}
    refused: dict[int, str] = {}
    for said in result.nodes or ():
        node = by_id.get(said.id) or by_name.get(said.name)
        if node is None:
            continue
        if said.status in (None, "OK"):
            answered[id(node)] = node
        else:
            refused[id(node)] = f"{node.name}: {said.error or said.status}"
    for node in nodes:
        if id(node) not in answered:
            refused.setdefault(id(node), f"{node.name}: the server knows no such node")
    records, was_read = _records(binding, result.operation_id, request_id)
    found = {record.get("NodeId"): record for record in records}
    accepted = [
        (node, found.get(node.delayed_node_id.node_id))
        for node in nodes
        if id(node) in answered and id(node) not in refused
    ]
    reasons = list(refused.values())
    return Managed(result.operation_id, request_id, accepted, reasons, was_read, refusals)


def _records(
    binding: ClusterBindingInterface, operation_id: str, request_id: str
) -> tuple[Sequence[Record], bool]:
    """The nodes of an operation, and whether those that are not listed are known to be gone."""
    try:
        listing = _listing(binding, operation_id, request_id)
    except CycleCloudError as e:
        # the command was accepted; only its effect could not be read back, and the next listing
        # will show it
        logging.warning("operation %s: its nodes could not be read: %s", operation_id, e)
        return (), False
    return listing.nodes or (), answers(listing, request_id)


def adopt(
    nodes: Sequence[Node], records: Sequence[Record]
) -> tuple[list[tuple[Node, Record]], list[Record], list[Node]]:
    """Match planned nodes to the records of the operation that created them, set by set.

    A set is nodearray, VM size and placement group. Within one, nodes that were asked for with
    attributes of their own take records that carry those. A node that was asked for by a name is
    the record of that name or none; of the others, where records are fewer, the nodes that were
    planned first get them; which node gets which is by name where the server gave the planned one,
    else by order. Returns the matches in the order of `nodes`, the records nobody planned, and the
    nodes that nothing was made for. Cost: linear, but for sorting names.
    """
    waiting: dict[tuple[Any, Any, Any], list[Record]] = defaultdict(list)
    for record in sorted(records, key=_by_name):
        waiting[set_of_record(record)].append(record)
    planned: dict[tuple[Any, Any, Any], list[Node]] = defaultdict(list)
    for node in nodes:
        planned[(node.nodearray, node.vm_size, node.placement_group or None)].append(node)
    matches: dict[int, Record] = {}
    surplus: list[Record] = []
    for key, group in planned.items():
        surplus.extend(_match_set(group, waiting.pop(key, []), matches))
    surplus.extend(record for rest in waiting.values() for record in rest)
    adopted = [(node, matches[id(node)]) for node in nodes if id(node) in matches]
    return adopted, surplus, [node for node in nodes if id(node) not in matches]


def _match_set(
    group: Sequence[Node], records: list[Record], matches: dict[int, Record]
) -> list[Record]:
    """Match the nodes of one set into `matches`; the result is the records that are left."""
    group, records = _match_names(group, records, matches)
    alike: dict[str, list[Node]] = defaultdict(list)
    for node in group:
        alike[repr(_attributes(node))].append(node)
    rest = records
    # the pickiest first: what they leave is for those that take anything
    for nodes in sorted(alike.values(), key=lambda nodes: -len(_attributes(nodes[0]))):
        wanted = _attributes(nodes[0])
        fitting = [record for record in rest if _carries(record, wanted)][: len(nodes)]
        rest = _pair(nodes, fitting, rest, matches)
    left_over = [node for node in group if id(node) not in matches]
    return _pair(left_over, rest[: len(left_over)], rest, matches)


def _match_names(
    group: Sequence[Node], records: list[Record], matches: dict[int, Record]
) -> tuple[Sequence[Node], list[Record]]:
    """Match the nodes that were asked for by name into `matches`.

    The result is the nodes and the records that are left.
    """
    asked = {name.lower(): node for node in group if (name := plain_name(node.name_format))}
    if not asked:
        return group, records
    rest: list[Record] = []
    for record in records:
        node = asked.pop(str(record.get("Name")).lower(), None)
        if node is None:
            rest.append(record)
        else:
            matches[id(node)] = record
    return [node for node in group if not plain_name(node.name_format)], rest


def _pair(
    nodes: Sequence[Node], fitting: list[Record], rest: list[Record], matches: dict[int, Record]
) -> list[Record]:
    """Match the first nodes to the fitting records, and the other nodes to none."""
    chosen = nodes[: len(fitting)]
    by_name = {record.get("Name"): record for record in fitting}
    named = {id(node): by_name.pop(node.name) for node in chosen if node.name in by_name}
    others = iter([record for record in fitting if record.get("Name") in by_name])
    for node in chosen:
        matches[id(node)] = named[id(node)] if id(node) in named else next(others)
    taken = {id(record) for record in fitting}
    return [record for record in rest if id(record) not in taken]


def _attributes(node: Node) -> dict[str, Any]:
    """The attributes of a node in the creation request, besides those that make its set."""
    asked = dict(node.node_attribute_overrides)
    return {**asked, "KeepAlive": True} if node.keep_alive else asked


def _carries(record: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a record has everything that was asked for. It may have more, at every level."""
    for key, value in wanted.items():
        found = record.get(key) if isinstance(record, Mapping) else None
        if isinstance(value, Mapping):
            if not _carries(found, value):
                return False
        elif found != value:
            return False
    return True


def _by_name(record: Record) -> tuple[str, int, str]:
    return ht.name_order(str(record.get("Name") or ""))


def set_of_record(record: Record) -> tuple[Any, Any, Any]:
    """The nodearray, the VM size and the placement group of a node record."""
    return (
        record.get("Template"),
        record.get("MachineType"),
        record.get("PlacementGroupId") or None,
    )


# -- request ids that outlive the process


class RequestLogError(AutoscaleError):
    """The file that keeps request ids cannot be read or written; nothing was sent."""


class RequestLog:
    """Ids of creates that are not settled yet, in the order in which they were begun.

    The file holds a JSON list of texts and is replaced as a whole, so that a reader never sees half
    of it. Without a path the ids are kept as long as the object.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, new_id: NewId | None = None
    ) -> None:
        self._path: Path | None = None
        if path:
            from pathlib import Path

            self._path = Path(path)
        self._new_id = new_id or random_uuid
        self._unsettled = self._read()
        self._reusable: list[str] = []

    @property
    def unsettled(self) -> list[str]:
        """The ids of requests whose outcome is unknown."""
        return list(self._unsettled)

    def begin(self, request_id: str | None = None) -> str:
        """An id for a create that is about to be sent; it is on disk when this returns.

        It is the given id, else one that is known never to have happened, else a new one.
        """
        chosen = request_id or (self._reusable[0] if self._reusable else self._new_id())
        if chosen in self._reusable:
            self._reusable.remove(chosen)
        if chosen not in self._unsettled:
            self._write([*self._unsettled, chosen])
        return chosen

    def settle(self, request_id: str) -> None:
        """Note that the server has answered the request with this id."""
        if request_id in self._unsettled:
            self._write([known for known in self._unsettled if known != request_id])

    def never_happened(self, request_id: str) -> None:
        """Note that the server does not know this id: the next create uses it again."""
        if request_id in self._unsettled and request_id not in self._reusable:
            self._reusable.append(request_id)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        import json

        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except OSError as e:
            raise RequestLogError(f"request ids {self._path}: {unreadable(e)}") from e
        except (ValueError, RecursionError) as e:
            raise RequestLogError(
                f"request ids {self._path}: expected a JSON list of ids, found: {e}"
            ) from e
        if not isinstance(found, list) or not all(isinstance(i, str) for i in found):
            raise RequestLogError(
                f"request ids {self._path}: expected a JSON list of ids, found {found!r}"
            )
        return found

    def _write(self, unsettled: list[str]) -> None:
        if self._path is not None:
            import json

            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            try:
                with open(temporary, "w", encoding="utf-8") as f:
                    json.dump(unsettled, f)
                    f.flush()
                    os.fsync(f.fileno())
                os.replace(temporary, self._path)
                _sync_directory(self._path.parent)
            except OSError as e:
                with suppress(OSError):
                    temporary.unlink()
                raise RequestLogError(
                    f"request ids {self._path}: cannot be written: {e.strerror or e}"
                ) from e
        self._unsettled = unsettled


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power failure, where the file system can do that."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
