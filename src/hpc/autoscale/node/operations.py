"""Commands to the cluster. Every create, start and shutdown is sent from here and nowhere else.

Before a command is sent the gate is asked (`guards`), and what it refuses is left out and told. A
command has a request id that was written down before it was sent, and it never names nodes that
CycleCloud does not manage. Its result is taken from the server's own records and never assumed.
After a create, planned nodes become the nodes that the server made: their names are the server's,
and nodes that it did not make are given up with its reason.

A create whose reply is lost may or may not have happened. Its id is written down before the request
is sent (`requests`), so that a later pass, also of another process, can ask the server about it.
When it never happened the id is used again: the server carries out one id once. Nodes that are to
go are written down in the same way, until the server has answered.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.errors import (
    AccessDenied,
    AuthenticationFailed,
    BadRequest,
    ClusterAway,
    Conflict,
    InconsistentStatus,
    InvalidSelection,
    MutationUnconfirmed,
    NotFound,
    OperationNotFound,
)
from hpc.autoscale.ccbindings.evidence import answers, check_answers, distinct
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import NodeList
from hpc.autoscale.config.clusters import qualified, split_name
from hpc.autoscale.errors import CycleCloudError, InvalidArgument, counted
from hpc.autoscale.node.adopting import Record, adopt
from hpc.autoscale.node.guards import Command, Gate, Refusal
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.requests import (
    OLD_SECONDS,
    Made,
    Removal,
    RequestLog,
    RequestLogError,
    Sent,
    is_old,
    new_request_id,
)
from hpc.autoscale.sidebyside import side_by_side
from hpc.autoscale.util import partition

T = TypeVar("T")
N = TypeVar("N", bound=Node)

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

REMOVING = ("delete_nodes", "shutdown_nodes", "terminate_nodes", "remove_nodes")
"""The management calls after which nodes are gone, or at rest."""

REFUSALS = (BadRequest, AuthenticationFailed, AccessDenied, NotFound, Conflict, InvalidSelection)
"""Errors by which the server, or we ourselves, said no: nothing happened, and nothing is under
way."""


class Created(NamedTuple):
    """The result of a create, node by node.

    adopted: planned nodes, each with the record that it has become.
    surplus_records: records that nobody planned.
    pending: planned nodes that the server made and does not list yet.
    not_made: planned nodes that the server did not make.
    messages: what the server said of each set.
    refused: planned nodes that were not asked for, because the gate refused them.
    """

    operation_id: str
    request_id: str
    adopted: list[tuple[Node, Record]]
    surplus_records: list[Record]
    pending: list[Node]
    not_made: list[Node]
    messages: list[str]
    refused: Sequence[Refusal] = ()

    def names_not_made(self) -> list[tuple[Node, ht.NodeName]]:
        """What to call the nodes that were not made, so that no two nodes have one name: where the
        server gave the planned name to another node, as that one was called. To be asked before the
        records are taken over."""
        given_up = {record.get("Name"): node.name for node, record in self.adopted}
        found = []
        for node in self.not_made:
            name = node.name
            while name in given_up:
                name = given_up.pop(name)
            found.append((node, name))
        return found


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
    to grow. What another process may still be waiting for is left to that one.
    """
    happened = []
    unknown_for_long: list[Sent] = []
    in_doubt = requests.in_doubt
    answered = _created_by_each(binding, [sent.request_id for sent in in_doubt])
    for sent in in_doubt:
        if sent.request_id not in answered:
            continue  # nothing is created there in this pass
        records = answered[sent.request_id]
        if records is not None:
            requests.settle(sent.request_id, _made(binding, sent.request_id, records))
            happened.append(sent.request_id)
            continue
        requests.never_happened(sent.request_id)
        if is_old(sent):
            unknown_for_long.append(sent)
    if unknown_for_long:
        logging.warning(
            "%s: %s in %s, the first of %s, never reached the server and will be used again by the"
            " next create; `azscale requests` lists them, and drops them",
            where(binding),
            counted(len(unknown_for_long), "old request id"),
            requests.path,
            unknown_for_long[0].sender,
        )
    return happened


def is_known(binding: ClusterBindingInterface, request_id: str) -> bool:
    """Whether the server has carried out the create of this id. CycleCloudError when it cannot be
    asked."""
    return _created_by(binding, request_id, request_id) is not None


def create(
    binding: ClusterBindingInterface,
    nodes: Sequence[Node],
    requests: RequestLog,
    request_id: str,
    gate: Gate | None = None,
) -> Created:
    """Ask for planned nodes, as many of them as the gate allows; nothing is sent where it allows
    none. The id must have been begun.

    CycleCloudError when the server cannot be reached or its reply cannot be understood; then
    `find_out` tells whether the nodes were made.
    """
    nodes, refused = (gate or Gate()).ask("create", nodes)
    if not nodes:
        return Created("", "", [], [], [], [], [], refused)
    result = binding.create_nodes(nodes, request_id=request_id)
    operation_id = result.operation_id or request_id
    records = _created_by(binding, operation_id, request_id)
    if records is None:
        reason = f"operation {operation_id} is unknown right after it was accepted"
        raise MutationUnconfirmed(where(binding), request_id, reason)
    added = sum(s.added or 0 for s in result.sets or ())
    requests.settle(request_id, _made(binding, request_id, records, added))
    messages = [s.message for s in result.sets or () if s.message]
    adopted, surplus, missing = adopt(nodes, records)
    late = max(0, added - len(records))
    return Created(
        operation_id,
        request_id,
        adopted,
        surplus,
        missing[:late],
        missing[late:],
        messages,
        refused,
    )


def each_once(nodes: Iterable[N], where: str = "") -> list[N]:
    """The nodes in their order, also where a caller gave one of them twice, as happens when several
    allocations share a node. InvalidArgument where one is no node, such as the name of one.
    `where`: the function that was given them, for the message."""
    place = f"{where}: " if where else ""
    given: object = nodes
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise InvalidArgument(f"{place}expected a list of nodes, found {nodes!r}")
    found = list({id(node): node for node in nodes}.values())
    for node in found:
        if not hasattr(node, "managed"):
            raise InvalidArgument(f"{place}expected nodes as get_nodes lists them, found {node!r}")
    return found


def by_cluster(binding: ClusterBindingInterface, nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Nodes by the name of their cluster; by an empty one where the binding is of one cluster."""
    cluster_of = getattr(binding, "cluster_of", None)
    if cluster_of is None:
        return {"": list(nodes)}
    return partition(nodes, cluster_of)


def create_each(
    binding: ClusterBindingInterface,
    wanted: Mapping[str, Sequence[Node]],
    requests: RequestLog,
    gate: Gate | None = None,
) -> dict[str, Created | CycleCloudError]:
    """`create` for each request id with its nodes, each of one cluster, side by side; the error
    where one failed. The ids must have been begun."""

    def ask(request_id: str) -> Created:
        return create(binding, wanted[request_id], requests, request_id, gate)

    return _errors_told(side_by_side({each: functools.partial(ask, each) for each in wanted}))


def _errors_told(found: Mapping[str, T | Exception]) -> dict[str, T | CycleCloudError]:
    """What was found, where every error is one of CycleCloud; another one is raised."""
    told: dict[str, T | CycleCloudError] = {}
    for key, each in found.items():
        if isinstance(each, Exception) and not isinstance(each, CycleCloudError):
            raise each
        told[key] = each
    return told


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
    requests.settle(request_id, _made(binding, request_id, records))
    adopted, surplus, missing = adopt(nodes, records)
    return Created(request_id, request_id, adopted, surplus, [], missing, [])


def _made(
    binding: ClusterBindingInterface, request_id: str, records: Sequence[Record], added: int = 0
) -> Made:
    """What a create has made, by the records of its operation and by the count in its reply."""
    ids = frozenset(str(record["NodeId"]) for record in records if record.get("NodeId"))
    return Made(request_id, _identity(binding), max(added, len(ids)), ids, clock.time())


def check_made(
    binding: ClusterBindingInterface,
    requests: RequestLog,
    made_before: Sequence[Made],
    records: Sequence[Record],
    within: float,
) -> None:
    """Raise InconsistentStatus when a listing of all nodes lacks some that the server said it made
    in the last hour, unless it says now that they are gone. One of several clusters is set aside
    for that.

    `made_before` is what `requests` had of that before the listing was asked for: other processes
    make nodes at any time.

    A status and a listing that are of the same moment before agree with each other, and whoever
    believes them makes those nodes once more. The server is asked only about creates of which nodes
    are missing: those that it does not list either are gone, or never came. Where it does not know
    the create at all, it is as far behind as the listing; that is believed for some seconds
    (`within`) after the create.
    """
    ids = {str(record.get("NodeId")) for record in records}
    by_request = Counter(record.get("RequestId") for record in records)
    here, now = _identity(binding), clock.time()
    lacking: list[Made] = []
    for made in made_before:
        is_all = made.node_ids <= ids and by_request[made.request_id] >= made.promised
        if made.where == here and not is_all:
            lacking.append(made)
    answered = _created_by_each(binding, [made.request_id for made in lacking])
    for made in lacking:
        if made.request_id not in answered:
            continue
        found = answered[made.request_id]
        there = {
            str(record.get("NodeId"))
            for record in found or ()
            if record.get("TargetState") in (None, "Started")
        }
        believed = OLD_SECONDS if found is not None else within
        missing = (made.node_ids if found is None else there) - ids
        if missing and abs(now - made.begun) <= believed:
            cluster, _ = split_name(made.request_id)
            error = InconsistentStatus(
                cluster or binding.cluster_name,
                [
                    f"the nodes reply lacks {counted(len(missing), 'node')} of request id"
                    f" {made.request_id}, made {now - made.begun:.0f} seconds ago: it is older than"
                    " that, or they are gone, which is believed in"
                    f" {made.begun + believed - now:.0f} seconds"
                ],
            )
            set_aside = getattr(binding, "set_aside", None)
            if not (cluster and set_aside):
                raise error
            set_aside(cluster, error)
            continue
        if found is not None:
            requests.note_made(made._replace(promised=len(there), node_ids=frozenset(there)))


def where(binding: ClusterBindingInterface) -> str:
    """The cluster and the server of a binding, for messages.

    Bindings of integrations may have no method for that.
    """
    return str(getattr(binding, "where", f"cluster {binding.cluster_name}"))


def _identity(binding: ClusterBindingInterface) -> str:
    """What the cluster of a binding goes by among those of a request log: `where`, unless the
    binding says in its own `identity` that another one may be there by now."""
    return str(getattr(binding, "identity", None) or where(binding))


def _listing(binding: ClusterBindingInterface, operation_id: str, request_id: str) -> NodeList:
    """The nodes of an operation; where only a request id is known, the nodes of that. A reply
    whose operation id is empty has told none."""
    if not operation_id or operation_id == request_id:
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
    return distinct(listing.nodes or [])


def _created_by_each(
    binding: ClusterBindingInterface, request_ids: Sequence[str]
) -> dict[str, Sequence[Record] | None]:
    """`_created_by` for each of these ids, but for those of clusters that do not answer.

    Clusters are asked side by side, each of them for one id after another. CycleCloudError where
    the only cluster cannot be asked.
    """

    def ask(some: Sequence[str]) -> dict[str, Sequence[Record] | None]:
        found = {}
        for request_id in some:
            try:
                found[request_id] = _created_by(binding, request_id, request_id)
            except ClusterAway:
                break
        return found

    groups = partition(request_ids, lambda request_id: split_name(request_id)[0])
    calls = {cluster: functools.partial(ask, some) for cluster, some in groups.items()}
    found: dict[str, Sequence[Record] | None] = {}
    for answers_of_one in side_by_side(calls).values():
        if isinstance(answers_of_one, Exception):
            raise answers_of_one
        found.update(answers_of_one)
    return found


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
    requests: RequestLog | None = None,
) -> Managed:
    """Make one management call (`COMMANDS`) for those of the nodes that the gate allows, and read
    back what has become of them; nothing is sent where it allows none.

    With `requests`, nodes that are to go for good are written down there until the server answers.
    """
    nodes, refusals = (gate or Gate()).ask(COMMANDS[verb], each_once(nodes))
    if not nodes:
        return Managed("", "", [], [], False, refusals)
    parts = by_cluster(binding, nodes)

    # drawn one after another, and not side by side: so they are the same when decided again
    ids = {
        each: qualified(each, request_id or new_request_id()) if each else None for each in parts
    }

    def ask(cluster: str) -> Managed:
        return _manage(binding, verb, parts[cluster], ids[cluster] or request_id, requests)

    found = _errors_told(side_by_side({each: functools.partial(ask, each) for each in parts}))
    return _together(parts, found, refusals)


def _together(
    parts: Mapping[str, Sequence[Node]],
    found: Mapping[str, Managed | CycleCloudError],
    refusals: Sequence[Refusal],
) -> Managed:
    """What came of a management call in several clusters. Where it failed in some of them, that is
    the reason for their nodes; an error where it failed in all."""
    done = [each for each in found.values() if isinstance(each, Managed)]
    errors = {each: error for each, error in found.items() if isinstance(error, CycleCloudError)}
    if not done:
        raise next(iter(errors.values()))
    failed = [f"{counted(len(parts[each]), 'node')}: {error}" for each, error in errors.items()]
    return Managed(
        ",".join(each.operation_id for each in done if each.operation_id),
        ",".join(each.request_id for each in done),
        [pair for each in done for pair in each.accepted],
        [reason for each in done for reason in each.reasons] + failed,
        all(each.was_read for each in done),
        refusals,
    )


def _manage(
    binding: ClusterBindingInterface,
    verb: str,
    nodes: Sequence[Node],
    request_id: str | None,
    requests: RequestLog | None,
) -> Managed:
    """One management call for nodes of one cluster, and what has become of them."""
    request_id = request_id or new_request_id()
    if requests is not None and verb in REMOVING:
        result = _remove(binding, verb, nodes, request_id, requests)
    else:
        result = getattr(binding, verb)(nodes=list(nodes), request_id=request_id)
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
    missing = "the server knows no such node"
    if getattr(result, "is_worked_out", False):
        missing = "nobody knows what becomes of it; the reply was lost"
    for node in nodes:
        if id(node) not in answered:
            refused.setdefault(id(node), f"{node.name}: {missing}")
    records, was_read = _records(binding, result.operation_id, request_id)
    found = {record.get("NodeId"): record for record in records}
    accepted = [
        (node, found.get(node.delayed_node_id.node_id)) for node in nodes if id(node) not in refused
    ]
    reasons = list(refused.values())
    return Managed(result.operation_id, request_id, accepted, reasons, was_read)


def retry_failed(
    binding: ClusterBindingInterface, failed: Sequence[Node], gate: Gate | None = None
) -> list[Refusal]:
    """Have the server try again on all nodes that have failed; nothing is sent where the gate
    refuses one of them, because the request names none, or where none is known to have failed."""
    allowed, refused = (gate or Gate()).ask("retry", failed)
    if allowed and not refused:
        binding.retry_failed_nodes()
    return refused


def _remove(
    binding: ClusterBindingInterface,
    verb: str,
    nodes: Sequence[Node],
    request_id: str,
    requests: RequestLog,
) -> Any:
    """The server's answer to a removal, which is written down until there is one.

    An answer about a node settles what is under way for it. One that was worked out, because the
    reply was lost, settles nodes that go. A refusal leaves in doubt what was before.
    """
    leaving = [(str(node.delayed_node_id.node_id), node.name) for node in nodes]
    before = requests.begin_removal(request_id, verb, leaving)
    try:
        result = getattr(binding, verb)(nodes=list(nodes), request_id=request_id)
    except REFUSALS:
        _note_answer(requests, request_id, (), before, ())
        raise
    going = {said.id or said.name for said in result.nodes or () if said.status in (None, "OK")}
    others = {node_id for node_id, name in leaving if not going & {node_id, name}}
    if getattr(result, "is_worked_out", False):
        unknown, refused = others, []
    else:
        unknown, refused = set(), [removal for removal in before if removal.node_id in others]
    gone = {node_id for node_id, _ in leaving} - others
    _note_answer(requests, request_id, unknown, refused, gone)
    return result


def _note_answer(
    requests: RequestLog,
    request_id: str,
    unknown: Collection[str],
    before: Sequence[Removal],
    gone: Collection[str],
) -> None:
    try:
        requests.settle_removal(request_id, unknown, before, gone)
    except RequestLogError as e:
        # the answer counts; the next pass finds the nodes gone, or allowed to go
        logging.warning("%s", e)


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
