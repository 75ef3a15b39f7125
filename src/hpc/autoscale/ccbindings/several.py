"""Several clusters as one binding: the union of what they have, and each command to whom it is for.

The name of a cluster stands before the names of its nodearrays and nodes, and before the ids of
its nodes, buckets, operations and requests, as in `east/htc-1` (`config.clusters`): so nothing of
two clusters has one name. Clusters are read side by side. One that does not answer in time, or
answers with nonsense, is set aside until the end of the pass: its nodes are shown as they were last
(`lastseen`), in the state `AWAY`, in buckets that take no work, and no command is sent to it.

`new_cluster_bindings` makes it for a configuration with `clusters`; the node manager calls it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.errors import (
    ClusterAway,
    CycleCloudError,
    InvalidSelection,
    OperationNotFound,
    shorten,
)
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.lastseen import LastSeen, Look, Record
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.ccbindings.selection import SelectingBinding, Selection
from hpc.autoscale.config.clusters import qualified, split_name, unknown_cluster
from hpc.autoscale.errors import one_line
from hpc.autoscale.hpctypes import NodeId
from hpc.autoscale.node.guards import AWAY
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.sidebyside import side_by_side

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node

T = TypeVar("T")


class Member(NamedTuple):
    """One of several clusters: its binding, or the error because of which there is none; which
    cluster of which server it is (`place`); and for how many seconds it is waited for when it is
    read."""

    name: str
    binding: ClusterBindingInterface | Exception
    place: str = ""
    patience: float | None = None

    @property
    def where(self) -> str:
        """The cluster and its server, for messages."""
        binding = self.binding
        name = getattr(binding, "cluster_name", self.name)
        return str(getattr(binding, "where", f"cluster {name}"))


class SeveralStatus(ClusterStatus):
    """The status of several clusters. `parts`: those of each of them, whose limits are their own,
    by cluster; `problems`: a sentence on each cluster that is set aside, or to be terminated, and
    on a file of what they had that cannot be used."""

    def __init__(
        self, parts: Mapping[str, ClusterStatus], problems: Sequence[str], **values: Any
    ) -> None:
        super().__init__(**values)
        self.parts = parts
        self.problems = problems


class SeveralClusters(SelectingBinding):
    """The clusters of `members`, as one, for one pass.

    `away`: why clusters are set aside, a sentence each, by name. ClusterAway where a call needs a
    cluster that is set aside.
    """

    def __init__(self, members: Iterable[Member], seen: LastSeen | None = None) -> None:
        self._members = {member.name: member for member in members}
        self._seen = seen or LastSeen()
        self._answers: dict[str, Look] = {}
        self._listing_is_new = False
        # clusters that are another one of them, under another address
        self._doubles: set[str] = set()
        self.away: dict[str, str] = {}
        for member in self._members.values():
            if isinstance(member.binding, Exception):
                self.set_aside(member.name, member.binding)

    @property
    def cluster_name(self) -> str:
        """The names of all clusters."""
        return ", ".join(self._members)

    @property
    def where(self) -> str:
        """The clusters, for messages."""
        return f"clusters {self.cluster_name}"

    @property
    def never_read(self) -> tuple[str, ...]:
        """Those of the clusters that are set aside of which nobody knows what they had."""
        away = (name for name in self.away if name not in self._doubles)
        return tuple(name for name in away if self._last(name) is None)

    @property
    def members(self) -> dict[str, str]:
        """Each cluster by name: itself and its server, for messages."""
        return {name: member.where for name, member in self._members.items()}

    def __str__(self) -> str:
        return f"SeveralClusters({self.cluster_name})"

    __repr__ = __str__

    def __deepcopy__(self, memo: object) -> SeveralClusters:
        """Connections are not copied."""
        return self

    def cluster_of(self, node: Node) -> str:
        """The name of the cluster that a node is of, or is planned for. InvalidSelection when it is
        of none."""
        said = (node.delayed_node_id.node_id, node.bucket_id, node.nodearray)
        clusters = (split_name(str(each))[0] for each in said)
        found = next((name for name in clusters if name in self._members), None)
        if found is None:
            raise InvalidSelection(f"node {node.name}: {unknown_cluster(node.name, self._members)}")
        return found

    # -- looking

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The union of all clusters, each read anew, nodes included, unless it is set aside.

        CycleCloudError, with what is wrong with each, when none is left.
        """
        self._look(nodes)
        return self._united(nodes)

    def as_read(self) -> tuple[ClusterStatus, NodeList]:
        """Status and listing as they were read last, without what was set aside since then. What is
        left is believed, and remembered."""
        for name, answer in self._answers.items():
            if name not in self.away:
                self._seen.keep(name, self._members[name].place, answer)
        return self._united(False), NodeList(nodes=self._records())

    def _united(self, nodes: bool) -> ClusterStatus:
        """The status of all clusters that are read, as one."""
        if len(self.away) == len(self._members):
            raise CycleCloudError(shorten("; ".join(self.away.values())))
        parts = {name: self._part(name) for name in self._members}
        present = [part for name, part in parts.items() if name not in self.away]
        targets = [part.target_state for part in present]
        ending = [name for name, part in parts.items() if part.target_state == "Terminated"]
        said = [f"cluster {name}: its target state is Terminated" for name in ending]
        return SeveralStatus(
            parts,
            [*self.away.values(), *said, *self._seen.problems],
            state=present[0].state,
            target_state=next((t for t in targets if t != "Terminated"), targets[0]),
            max_count=sum(part.max_count or 0 for part in present),
            max_core_count=sum(part.max_core_count or 0 for part in present),
            nodearrays=[array for part in parts.values() for array in part.nodearrays or ()],
            nodes=self._records() if nodes else None,
        )

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records, as they are listed beside the status, or those of one operation.

        An operation or a request that names no cluster is asked for everywhere.
        """
        if operation_id is None and request_id is None:
            if not self._listing_is_new:
                self._look(False)
            self._listing_is_new = False
            return NodeList(nodes=self._records())
        if operation_id is not None and "," in operation_id:
            ids = operation_id.split(",")
            lists = _all_of(side_by_side({i: partial(self.get_nodes, i) for i in ids}))
            return NodeList(nodes=[r for each in lists for r in each.nodes or []])
        cluster, own = split_name(operation_id or request_id or "")
        if cluster in self._members:
            return self._operation(cluster, own, request_id is not None)
        return self._anywhere(operation_id, request_id)

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Nothing: the replies of each cluster were held against each other when they were read,
        and one that contradicts itself is set aside."""

    def _look(self, nodes: bool) -> None:
        """Read all clusters that are not set aside, side by side."""
        present = (each for each in self._members.values() if each.name not in self.away)
        reads = {member.name: partial(_read, member, nodes) for member in present}
        for name, found in self._ask(reads).items():
            if isinstance(found, Exception):
                self.set_aside(name, found)
            else:
                self._answers[name] = found
        self._set_doubles_aside()
        self._listing_is_new = not nodes

    def _set_doubles_aside(self) -> None:
        """Go on without clusters that are others under another address: both list a node of one id
        that was made by one request.

        Ids of nodes alone do not tell: nobody promises that they are unique. What such a cluster
        has is shown once, as the other's.
        """
        known: dict[tuple[Any, Any], str] = {}
        for name in self._members:
            for record in () if name in self.away else self._answers[name].records:
                made = record.get("NodeId"), record.get("RequestId")
                other = known.setdefault(made, name) if all(made) else name
                if other != name:
                    self._doubles.add(name)
                    self.set_aside(name, _same_cluster(other, record))
                    break

    def _ask(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        known = {name: self._members[name].patience for name in calls}
        limits = {name: seconds for name, seconds in known.items() if seconds is not None}
        return side_by_side(calls, limits)

    def set_aside(self, name: str, error: Exception) -> None:
        """Go on without a cluster until the end of the pass."""
        where = self._members[name].where
        said = one_line(error)
        reason = said if said.startswith(where) else f"{where}: {said}"
        self.away[name] = shorten(f"cluster {name} is set aside in this pass: {reason}")
        logging.debug("%s", self.away[name])  # whoever reads the cluster tells people

    def _last(self, name: str) -> Look | None:
        """What a cluster had when it last answered; None for one that is another one."""
        if name in self._doubles:
            return None
        return self._seen.of(name, self._members[name].place)

    def _part(self, name: str) -> ClusterStatus:
        """The status of one cluster, with the names that it goes by here."""
        if name not in self.away:
            status = self._answers[name].status
            ends = status.target_state == "Terminated"
            closed = f"the target state of cluster {name} is Terminated" if ends else ""
        else:
            last = self._last(name)
            status = last.status if last else ClusterStatus(max_count=0, max_core_count=0)
            closed = ClusterAway.__name__
        part = copy.copy(status)
        part.nodes = None
        part.nodearrays = [
            _renamed(name, array, closed)
            for array in status.nodearrays or ()
            if hasattr(array, "buckets")
        ]
        return part

    def _records(self) -> list[dict[str, Any]]:
        """The records of all nodes; those of clusters that are set aside as they were last."""
        records: list[dict[str, Any]] = []
        for name in self._members:
            if name not in self.away:
                records += [_named(name, r) for r in self._answers[name].records]
                continue
            last = self._last(name)
            for record in last.records if last else ():
                known = _named(name, record)
                if known.get("TargetState") == "Started":
                    known["Status"] = AWAY
                records.append(known)
        return records

    def _operation(self, name: str, own: str, is_request: bool) -> NodeList:
        """The nodes of an operation or a request of one cluster."""
        if name in self.away:
            raise ClusterAway(name, self.away[name])
        binding = self._binding(name)
        asked = {"request_id": own} if is_request else {"operation_id": own}
        found = self._ask({name: partial(binding.get_nodes, **asked)})[name]
        if isinstance(found, OperationNotFound):
            raise found
        if isinstance(found, Exception):
            self.set_aside(name, found)
            raise ClusterAway(name, one_line(found))
        listing = NodeList.adopt(found)
        # those that were made since the listing are there, too
        self._seen.note(name, self._members[name].place, listing.nodes or ())
        records = [_named(name, record) for record in listing.nodes or ()]
        return NodeList(nodes=records, operation=listing.operation)

    def _anywhere(self, operation_id: str | None, request_id: str | None) -> NodeList:
        """The nodes of an operation or a request, in whichever clusters know it.

        OperationNotFound when none does; ClusterAway when one that may cannot be asked.
        """
        own = operation_id or request_id or ""
        asked = {n: partial(self._operation, n, own, request_id is not None) for n in self._members}
        answers = side_by_side(asked)
        unknown = next((e for e in answers.values() if isinstance(e, OperationNotFound)), None)
        found = _all_of(
            {
                name: answer
                for name, answer in answers.items()
                if not isinstance(answer, OperationNotFound | ClusterAway)
            }
        )
        if not found:
            if self.away or unknown is None:
                name = next(iter(self.away))
                raise ClusterAway(name, self.away[name])
            raise unknown
        records = [record for each in found for record in each.nodes or ()]
        for record in records:
            cluster, rest = split_name(str(record.get("RequestId")))
            if cluster in self._members and request_id is not None:
                record["RequestId"] = rest
        return NodeList(nodes=records, operation=found[0].operation)

    # -- changing

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        """Ask each cluster for those of the planned nodes that are planned there."""
        groups: dict[str, list[Node]] = {}
        for node in nodes:
            groups.setdefault(self.cluster_of(node), []).append(node)

        def create(name: str, some: list[Node]) -> NodeCreationResult:
            local = [cast("Node", _Local(node)) for node in some]
            wanted = _own_id(name, request_id)
            return self._binding(name).create_nodes(local, request_id=wanted)

        results = self._command({n: partial(create, n, some) for n, some in groups.items()})
        return NodeCreationResult(
            operation_id=_operations(results),
            sets=[each for result in results.values() for each in result.sets or ()],
        )

    def delete_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeManagementResult:
        """Shut nodes down, which deletes them unless their shutdown policy says otherwise."""
        return self._manage("delete", Selection(nodes=nodes), request_id)

    def retry_failed_nodes(self) -> NodeManagementResult:
        """Have every cluster that is not set aside try again on its failed nodes."""
        names = [name for name in self._members if name not in self.away]
        calls = {name: self._binding(name).retry_failed_nodes for name in names}
        return _joined(self._command(calls))

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        """Add nodes to a nodearray, named with its cluster, up to a total of cores or of nodes."""
        name, own = self._split(nodearray)
        totals = (total_core_count, total_node_count)
        results = self._command({name: lambda: self._binding(name).scale(own, *totals)})
        return NodeCreationResult(operation_id=_operations(results), sets=results[name].sets)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        def manage(name: str, chosen: Mapping[str, Any]) -> NodeManagementResult:
            call = getattr(self._binding(name), f"{action}_nodes")
            return cast(NodeManagementResult, call(**chosen, request_id=_own_id(name, request_id)))

        calls = {n: partial(manage, n, chosen) for n, chosen in self._divided(selection).items()}
        return _joined(self._command(calls))

    def _command(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """What each cluster answered to a command. All are sent; then the first error is raised."""
        for name in calls:
            if name in self.away:
                raise ClusterAway(name, self.away[name])
        done: dict[str, T] = {}
        failed: list[Exception] = []
        for name, found in side_by_side(calls).items():
            if isinstance(found, Exception):
                failed.append(found)
                logging.warning("cluster %s: %s", name, one_line(found))
            else:
                done[name] = found
        if failed:
            raise failed[0]
        return done

    def _binding(self, name: str) -> ClusterBindingInterface:
        binding = self._members[name].binding
        if isinstance(binding, Exception):
            raise ClusterAway(name, one_line(binding))
        return binding

    def _split(self, name: str) -> tuple[str, str]:
        """The cluster and the rest of a name. InvalidSelection when it names none."""
        cluster, own = split_name(name)
        if cluster not in self._members:
            raise InvalidSelection(unknown_cluster(name, self._members))
        return cluster, own

    def _divided(self, selection: Selection) -> dict[str, dict[str, Any]]:
        """What is selected in each cluster, as arguments of its management calls."""
        if selection.custom_filter:
            names = [name for name in self._members if name not in self.away]
            return {name: {"custom_filter": selection.custom_filter} for name in names}
        chosen: dict[str, dict[str, list[Any]]] = {}

        def choose(cluster: str, key: str, value: object) -> None:
            chosen.setdefault(cluster, {}).setdefault(key, []).append(value)

        for node in selection.nodes:
            choose(self.cluster_of(node), "nodes", _Local(node))
        for name in selection.names:
            cluster, own = self._split(name)
            choose(cluster, "names", own)
        for key, field in _LOOKED_UP.items():
            for value in getattr(selection, key):
                cluster, own = split_name(value)
                if cluster not in self._members:
                    cluster, own = self._the_one(field, value), value
                choose(cluster, key, own)
        return dict(chosen)

    def _the_one(self, field: str, value: str) -> str:
        """The cluster with the node of which a field has this value. InvalidSelection when there
        is none, or more than one."""
        if not self._answers:
            self._look(False)
        found = {
            split_name(str(record.get("Name")))[0]
            for record in self._records()
            if _same(field, record.get(field), value)
        }
        if len(found) == 1:
            return found.pop()
        said = " and ".join(sorted(found)) or "none of them"
        raise InvalidSelection(
            f"expected one of the clusters {self.cluster_name} to have a node with {field}"
            f" {value!r}, found {said}"
        )


_LOOKED_UP = {"node_ids": "NodeId", "hostnames": "Hostname", "ip_addresses": "PrivateIp"}


def _same_cluster(other: str, record: Record) -> CycleCloudError:
    return CycleCloudError(
        f"expected another cluster than {other}, found the same one under another address: both"
        f" list node {record.get('Name')} ({record.get('NodeId')}), made by request"
        f" {record.get('RequestId')}; take one of them out of clusters"
    )


def _all_of(answers: Mapping[str, T | Exception]) -> list[T]:
    """All answers; the first error among them is raised."""
    found: list[T] = []
    for answer in answers.values():
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


def _same(field: str, found: object, wanted: str) -> bool:
    if field == "NodeId":
        return split_name(str(found))[1] == wanted
    if field == "PrivateIp":
        return found == wanted
    return short_name(found) == short_name(wanted)


def _read(member: Member, nodes: bool) -> Look:
    """The status and all node records of a cluster, which do not contradict each other."""
    binding = member.binding
    if isinstance(binding, Exception):
        raise binding
    status = ClusterStatus.adopt(binding.get_cluster_status(nodes=nodes))
    replies = (status,) if nodes else (status, NodeList.adopt(binding.get_nodes()))
    # a binding of an integration need not have it
    check = getattr(binding, "check_listing", None)
    if check is not None:
        check(*replies)
    return Look(status, list(replies[-1].nodes or ()))


def _renamed(cluster: str, array: Any, closed: str) -> ClusterNodearrayStatus:
    """A nodearray by the name that it has here. `closed`: why nothing is placed there; empty where
    something may be."""
    renamed: ClusterNodearrayStatus = copy.copy(array)
    renamed.name = qualified(cluster, str(array.name))
    renamed.buckets = []
    for bucket in array.buckets or ():
        own: NodearrayBucketStatus = copy.copy(bucket)
        if isinstance(bucket.bucket_id, str):
            own.bucket_id = qualified(cluster, bucket.bucket_id)
        own.active_nodes = [qualified(cluster, str(n)) for n in bucket.active_nodes or ()] or None
        if closed:
            own.valid, own.invalid_reason = False, closed
        renamed.buckets.append(own)
    return renamed


def _named(cluster: str, record: Record) -> dict[str, Any]:
    """A node record by the names and ids that the node and what it belongs to have here."""
    named = dict(record)
    for key in ("Name", "Template", "NodeId", "RequestId"):
        value = named.get(key)
        if value and isinstance(value, str):
            named[key] = qualified(cluster, value)
    return named


def _own_id(cluster: str, request_id: str | None) -> str | None:
    """The id of a request as the cluster itself is told it."""
    if request_id is None:
        return None
    return request_id.removeprefix(qualified(cluster, ""))


def _operations(results: Mapping[str, Any]) -> str:
    """The ids of operations, each with its cluster."""
    found = ((name, result.operation_id) for name, result in results.items())
    return ",".join(qualified(name, each) for name, each in found if each)


def _joined(results: Mapping[str, NodeManagementResult]) -> NodeManagementResult:
    """What came of a management call in several clusters."""
    nodes = []
    for name, result in results.items():
        for node in result.nodes or ():
            own = copy.copy(node)
            own.name, own.id = qualified(name, node.name), qualified(name, node.id)
            nodes.append(own)
    joined = NodeManagementResult(operation_id=_operations(results), nodes=nodes)
    joined.is_worked_out = any(result.is_worked_out for result in results.values())
    return joined


class _Local:
    """A node by the names and the id that it has in its own cluster. What is written to it is
    written to the node."""

    def __init__(self, node: Node) -> None:
        wanted, its_id = node.name_format, node.delayed_node_id
        if its_id.node_id:
            its_id = its_id.clone()
            its_id.node_id = NodeId(split_name(str(its_id.node_id))[1])
        self.__dict__.update(
            _node=node,
            delayed_node_id=its_id,
            name=split_name(node.name)[1],
            nodearray=split_name(node.nodearray)[1],
            name_format=split_name(wanted)[1] if wanted else wanted,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._node, name, value)
