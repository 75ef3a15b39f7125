"""Asks the cluster to change, and learns from its answer: bootup, delete and the other commands.

The commands themselves are in `operations`; here their outcome is taken over by nodes, buckets and
limits, and put into the published results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.errors import BadRequest, Conflict
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.errors import CycleCloudError, counted
from hpc.autoscale.hpctypes import NodeStatus, OperationId
from hpc.autoscale.node import operations
from hpc.autoscale.node.adopting import Record, set_of, set_of_record
from hpc.autoscale.node.guards import Facts, Gate, Refusal, in_words
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.records import refresh
from hpc.autoscale.node.operations import REMOVING, Created, Managed
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.results import BootupResult, NodeOperationResult

if TYPE_CHECKING:
    from hpc.autoscale.backoff.holds import Holds
    from hpc.autoscale.node.bucket import NodeBucket
    from hpc.autoscale.node.nodemanager.inventory import Inventory

R = TypeVar("R", bound=NodeOperationResult)

_GONE = ("Terminated", "Off")
# a command that names only nodes that CycleCloud does not have did all that it could
_LEFT_ALONE = ("NotManaged", "NeverCreated")


class Provisioner:
    """Creates, starts, stops and deletes the nodes of an inventory.

    `requests` keeps creates and removals until their outcome is known. `assume_hostnames`: a host
    name may follow from the address, see `records`. `cluster_target`: the state that the cluster is
    to reach, where that is known.
    """

    def __init__(self, cluster_bindings: ClusterBindingInterface, inventory: Inventory) -> None:
        self.cluster_bindings = cluster_bindings
        self.assume_hostnames = False
        self.cluster_target: str | None = None
        self.holds: Holds | None = None
        self._inventory = inventory
        # ids of creates of which nobody knows whether they were carried out, with their nodes
        self._in_doubt: list[tuple[str, list[Node]]] = []

    @cached_property
    def requests(self) -> RequestLog:
        """Without a file, where none is given."""
        return RequestLog()

    @cached_property
    def gate(self) -> Gate:
        """What is asked before every command."""
        where = operations.where(self.cluster_bindings)
        return Gate(Facts(cluster_target=self.cluster_target), where)

    # -- more nodes

    def bootup(
        self,
        nodes: Sequence[Node] | None = None,
        request_id_start: str | None = None,
        request_id_create: str | None = None,
    ) -> BootupResult[Node]:
        """What `NodeManager.bootup` promises."""
        outcome = _Outcome(operations.where(self.cluster_bindings))
        with self._warning_of("bootup"):
            self._settle_doubts(outcome)
            given = operations.each_once(nodes or self._inventory.new_nodes())
            wanted = [n for n in given if n.managed and not n.exists]
            if not wanted and not outcome.operation_ids:
                return BootupResult("success", "", [], None, ["No new nodes required or created."])
            to_start = [n for n in wanted if n.delayed_node_id.node_id]
            to_create = [n for n in wanted if not n.delayed_node_id.node_id]
            if to_start:
                with self._noting_refusal(to_start):
                    started = operations.start(
                        self.cluster_bindings, to_start, request_id_start, self.gate
                    )
                made = self._learn(started, removes=False)
                self._note_started(to_start, started, made)
                outcome.add_managed(started, made)
            if to_create:
                self._create(to_create, request_id_create, outcome)
        return outcome.result()

    @contextmanager
    def _warning_of(self, command: str) -> Iterator[None]:
        """Say in the log that a command ended in an error, whatever its caller makes of that."""
        try:
            yield
        except CycleCloudError as error:
            where = operations.where(self.cluster_bindings)
            logging.warning("%s: %s failed: %s", where, command, error)
            raise

    @contextmanager
    def _noting_refusal(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Remember that the server refused a whole request, unless that is about its id."""
        try:
            yield
        except CycleCloudError as error:
            self._note_refusal(nodes, error)
            raise

    def _note_refusal(self, nodes: Sequence[Node], error: CycleCloudError) -> None:
        if self.holds is not None and isinstance(error, BadRequest | Conflict):
            about_its_id = "requestid" in error.server_message.lower().replace(" ", "")
            if not about_its_id:
                self.holds.refused(nodes, error.server_message)

    def _create(self, nodes: list[Node], request_id: str | None, outcome: _Outcome) -> None:
        nodes, refused = self.gate.ask("create", nodes)
        outcome.refuse(refused)
        if not nodes:
            return
        wanted = {
            self.requests.begin(request_id, cluster): some
            for cluster, some in operations.by_cluster(self.cluster_bindings, nodes).items()
        }
        if self.holds is not None:
            self.holds.sending(wanted)
        # those stay whose creation fails: then nobody knows whether the nodes were made
        self._in_doubt += wanted.items()
        binding, failed = self.cluster_bindings, []
        found = operations.create_each(binding, wanted, self.requests, self.gate)
        for (asked, some), created in zip(wanted.items(), found.values(), strict=True):
            if isinstance(created, operations.Created):
                self._learn_created(created, outcome)
                self._in_doubt.remove((asked, some))
                continue
            failed.append(created)
            outcome.reasons.append(f"{counted(len(some), 'node')} not made: {created}")
            self._note_refusal(some, created)
        if len(failed) == len(found):
            raise failed[0]

    def _note_started(self, asked: Sequence[Node], done: Managed, made: Sequence[Node]) -> None:
        """Remember which nodes the server starts, and which it does not."""
        if self.holds is not None:
            self.holds.asked((), (str(node.delayed_node_id.node_id) for node in made))
            left = {id(node) for node in (*made, *(refusal.node for refusal in done.refused))}
            refused = [node for node in asked if id(node) not in left]
            self.holds.refused(refused, "; ".join(done.reasons))

    def _settle_doubts(self, outcome: _Outcome) -> None:
        """Ask about creates of this manager that nobody knows the outcome of, before anything
        else is created."""
        while self._in_doubt:
            request_id, nodes = self._in_doubt[0]
            created = operations.find_out(self.cluster_bindings, nodes, self.requests, request_id)
            del self._in_doubt[0]
            if created is not None:
                self._learn_created(created, outcome)

    def _learn_created(self, created: Created, outcome: _Outcome) -> None:
        made, not_made = [], created.names_not_made()
        for offset, (node, record) in enumerate(created.adopted):
            self._renew(node, record)
            node.delayed_node_id.operation_id = OperationId(created.operation_id)
            node.delayed_node_id.operation_offset = offset
            made.append(node)
        for record in created.surplus_records:
            made.extend(self._take_in(record))
        self._inventory.names.reserve(node.name for node in made)
        for node in created.pending:
            # it is on its way: nobody may create it again, though it has no id yet
            node.target_state = NodeStatus("Started")
            node.exists = True
        if self.holds is not None:
            self.holds.refused(created.not_made, "; ".join(dict.fromkeys(created.messages)))
            settled = None if created.pending or created.not_made else created.request_id
            ids = (str(node.delayed_node_id.node_id) for node in made)
            self.holds.asked(ids, request_id=settled)
        for node, name in not_made:
            node._rename(name)
            self._drop(node)
        outcome.add(created.operation_id, created.request_id, made, _why_not_made(created))
        outcome.pending += len(created.pending)

    def _renew(self, node: Node, record: Record) -> None:
        """Take over a newer record; what followed from the node's old identity is given anew."""
        self._inventory.defaults.withdraw_identity(node)
        refresh(node, record, self.assume_hostnames)
        self._inventory.defaults.apply(node)

    def _take_in(self, record: Record) -> list[Node]:
        """A node that the server made beyond what was asked: it exists, so it counts."""
        for bucket in self._inventory.buckets:
            if bucket.valid and set_of(bucket) == set_of_record(record):
                node = bucket._new_node(str(record.get("Name")), "")
                node._is_planned = True
                self._renew(node, record)
                bucket.add_nodes([node])
                recount(node)
                return [node]
        logging.warning("created node %s belongs to no known bucket", record.get("Name"))
        return []

    # -- nodes that are there

    def command(
        self, verb: str, result_type: type[R], nodes: Sequence[Node], request_id: str | None = None
    ) -> R:
        """Send a command of the bindings for some nodes, and learn from the answer."""
        with self._warning_of(verb):
            managed = operations.manage(
                self.cluster_bindings, verb, nodes, request_id, self.gate, self.requests
            )
        outcome = _Outcome(operations.where(self.cluster_bindings), verb)
        accepted = self._learn(managed, removes=verb in REMOVING)
        if verb in REMOVING and self.holds is not None:
            self.holds.leaving(str(node.delayed_node_id.node_id) for node in accepted)
        outcome.add_managed(managed, accepted)
        if not managed.request_id:  # nothing was asked
            left_alone = all(refusal.code in _LEFT_ALONE for refusal in managed.refused)
            return result_type("success" if left_alone else "Failed", "", None, [], outcome.reasons)
        status = "success" if accepted or not managed.reasons else "Failed"
        return result_type(
            status, managed.operation_id, outcome.request_ids, accepted, outcome.reasons
        )

    def _learn(self, managed: Managed, removes: bool) -> list[Node]:
        for node, record in managed.accepted:
            if record is not None:
                self._renew(node, record)
            node.delayed_node_id.operation_id = OperationId(managed.operation_id)
            self._settle(node, is_gone=record is None and removes and managed.was_read)
        return [node for node, _ in managed.accepted]

    def _settle(self, node: Node, is_gone: bool = False) -> None:
        """Drop a node that goes, or is gone from the listing; count any other as it is now."""
        if is_gone:
            node.state = node.target_state = NodeStatus("Off")
        if node.target_state in _GONE:
            self._drop(node)
        else:
            recount(node)

    def _drop(self, node: Node) -> None:
        """A node goes, or never came: its place under the limits, if it had one, is free again."""
        bucket = _bucket_of(node)
        if bucket is not None:
            is_counted = node._is_counted
            bucket._remove(node)
            if is_counted:
                bucket.limits.release(1)
        node.exists = False

    # -- looking again

    def nodes_by_request_id(self, request_id: str) -> list[Node]:
        """The nodes that a request has touched, as they are now. OperationNotFound when there
        was no such request."""
        return self._refreshed(self.cluster_bindings.get_nodes(request_id=request_id).nodes or [])

    def nodes_by_operation(self, operation_id: str) -> list[Node]:
        """The nodes that an operation has touched, as they are now; those that it no longer
        lists are gone."""
        listing = self.cluster_bindings.get_nodes(operation_id=operation_id)
        found = self._refreshed(listing.nodes or [])
        listed = {id(node) for node in found}
        for node in self._inventory.nodes() if listing.operation else ():
            if node.delayed_node_id.operation_id == operation_id and id(node) not in listed:
                self._settle(node, is_gone=True)
        return found

    def _refreshed(self, records: Sequence[Record]) -> list[Node]:
        nodes = self._inventory.nodes()
        by_id: dict[Any, Node] = {n.delayed_node_id.node_id: n for n in nodes}
        by_name: dict[Any, Node] = {n.name: n for n in nodes if not n.delayed_node_id.node_id}
        found = []
        for record in records:
            node = by_id.get(record["NodeId"]) if record.get("NodeId") else None
            node = node or by_name.get(record.get("Name"))
            if node is not None:
                self._renew(node, record)
                self._settle(node)
                found.append(node)
        return found


class _Outcome:
    """What came of a command so far, which may have been several requests. What the server did
    not do is in the log, and in the reasons, with `where` that was."""

    def __init__(self, where: str, command: str = "bootup") -> None:
        self.operation_ids: list[str] = []
        self.request_ids: list[str] = []
        self.made: list[Node] = []
        self.reasons: list[str] = []
        self.pending = 0
        self._where = where
        self._command = command

    def add(
        self, operation_id: str, request_id: str, made: Sequence[Node], reasons: Sequence[str]
    ) -> None:
        """What came of one request."""
        self.operation_ids.append(operation_id)
        self.request_ids.append(request_id)
        self.made.extend(made)
        self.reasons.extend(f"{self._where}: {reason}" for reason in reasons)
        if reasons:
            more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
            shown = "; ".join(reasons[:3]) + more
            logging.warning("%s: %s %s: %s", self._where, self._command, request_id, shown)

    def add_managed(self, managed: Managed, accepted: Sequence[Node]) -> None:
        """What came of one management call; one that was not sent has no ids."""
        self.refuse(managed.refused)
        if managed.request_id:
            self.add(managed.operation_id, managed.request_id, accepted, managed.reasons)

    def refuse(self, refused: Sequence[Refusal]) -> None:
        """Nodes that the gate refused, which is in the log already."""
        self.reasons.extend(f"{self._where}: {reason}" for reason in in_words(refused))

    def result(self) -> BootupResult[Node]:
        """All of it."""
        status = "success" if self.made or self.pending else "Failed"
        operation_id = ",".join(self.operation_ids)
        return BootupResult(status, operation_id, self.request_ids, self.made, self.reasons)


def recount(node: Node) -> None:
    """A node may have been started or put to rest: it takes a place under the limits now, or
    does not any more. It does when it runs, or rests and work was placed on it."""
    bucket = _bucket_of(node)
    takes_place = bool(node.exists or node._in_demand)
    if bucket is None or takes_place == node._is_counted:
        return
    bucket._nodes.count(node, takes_place)
    if takes_place:
        bucket.limits.bear(1)
    else:
        bucket.limits.release(1)


def _bucket_of(node: Node) -> NodeBucket | None:
    home = node._home
    return None if home is None else cast("NodeBucket", home.bucket)


def _why_not_made(created: Created) -> list[str]:
    pending, missing = len(created.pending), created.not_made
    late = [f"{counted(pending, 'node')} accepted and not listed yet"] if pending else []
    messages = list(dict.fromkeys(created.messages))
    if not missing:
        return [*messages, *late]
    said = "; ".join(messages) or "the server did not say why"
    names = ", ".join(node.name for node in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return [
        *late,
        f"{len(missing)} of the nodes asked for were not created ({names}{more}): {said}",
    ]
