"""The simulated CycleCloud as a pure model: clusters, operations and the request ids it has seen.

Every endpoint of the protocol is a method here that takes and returns protocol models, or raises a
`RequestRefused`. Clock, randomness and ids are injected and nothing does I/O: the same calls at the
same times give the same answers and the same journal. `runtime` calls this under its lock.
"""

import math
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.ccbindings import models
from hpc.autoscale.ccbindings.errors import InvalidModel
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.simulator import actions, creation_requests
from hpc.autoscale.simulator.attributes import MANAGED, merged, node_record, timestamp
from hpc.autoscale.simulator.autostop import PostedSets
from hpc.autoscale.simulator.description import (
    ClusterDescription,
    Description,
    MachineType,
    Nodearray,
    Region,
)
from hpc.autoscale.simulator.errors import BadRequest, Conflict, NotFound
from hpc.autoscale.simulator.filters import compile_filter
from hpc.autoscale.simulator.lifecycle import Event, Phase
from hpc.autoscale.simulator.limits import Tally
from hpc.autoscale.simulator.nodes import EventCause, SimNode, flag
from hpc.autoscale.simulator.orchestrator import Entry, Orchestrator
from hpc.autoscale.simulator.status import cluster_status
from hpc.autoscale.simulator.usage import UsageQuery

_LONGEST_ID = 256


@dataclass
class Operation:
    """Everything that one request has done; `node_ids` are the nodes that it touched."""

    operation_id: str
    action: str
    start_time: float
    cluster: str
    request_id: str | None
    node_ids: list[str] = field(default_factory=list)

    def cause(self, action: str = "") -> EventCause:
        """This operation as the cause of what happens to a node."""
        return EventCause("rest", action or self.action, self.operation_id, self.request_id or "")

    def status(self) -> models.OperationStatus:
        """The operation as the protocol shows it."""
        return models.OperationStatus(action=self.action, start_time=timestamp(self.start_time))


class Cloud:
    """All clusters of one simulated server; quotas and request ids are shared between them."""

    def __init__(
        self,
        description: Description,
        now: float,
        rng: random.Random,
        new_id: Callable[[], str],
        note: Callable[[Entry], None],
    ) -> None:
        self.regions: Mapping[str, Region] = description.regions
        capacity = {
            (region.name, size.lower()): count
            for region in description.regions.values()
            for size, count in region.capacity.items()
        }
        self.orchestrator = Orchestrator(now, rng, new_id, note, capacity)
        self.clusters = {
            name: SimCluster(cluster, self) for name, cluster in description.clusters.items()
        }
        self._operations: dict[str, Operation] = {}
        self._by_request: dict[str, Operation] = {}

    def cluster(self, name: str) -> "SimCluster":
        """The cluster of that name. Raises NotFound."""
        if name not in self.clusters:
            raise NotFound(f"There is no cluster {name!r}{did_you_mean(name, self.clusters)}")
        return self.clusters[name]

    def tally(self, with_parked: bool = False) -> Tally:
        """What the nodes of all clusters take from every limit."""
        return Tally(self.orchestrator.nodes.values(), with_parked)

    def check_unused(self, request_id: str | None) -> None:
        """Raise Conflict when the request id was used before, for any request."""
        if request_id is None:
            return
        if not request_id.strip() or len(request_id) > _LONGEST_ID:
            raise Conflict(f"requestId: expected 1 to {_LONGEST_ID} characters")
        if request_id in self._by_request:
            raise Conflict(f"The request id {request_id} was used before; the request is ignored")

    def begin(self, cluster: str, action: str, request_id: str | None) -> Operation:
        """A new operation. Its request id counts as used from then on."""
        orchestrator = self.orchestrator
        operation = Operation(orchestrator.new_id(), action, orchestrator.now, cluster, request_id)
        self._operations[operation.operation_id] = operation
        if request_id is not None:
            self._by_request[request_id] = operation
        return operation

    def operation(self, operation_id: str) -> Operation:
        """The operation of that id. Raises NotFound."""
        if operation_id not in self._operations:
            raise NotFound(f"No operation found for id {operation_id}")
        return self._operations[operation_id]

    def operation_of_request(self, request_id: str) -> Operation:
        """The operation that a request id was used for.

        Raises NotFound with the text that clients look for.
        """
        if request_id not in self._by_request:
            raise NotFound(f"No operation found for request id {request_id}")
        return self._by_request[request_id]

    def operations(self, request_id: str | None) -> list[models.OperationStatus]:
        """All operations, or the one of a request id."""
        if request_id is not None:
            return [self.operation_of_request(request_id).status()]
        return [operation.status() for operation in self._operations.values()]

    def set_capacity(self, region: str, counts: Mapping[str, int]) -> None:
        """Change how many VMs of some sizes a region can run. Raises NotFound for a region that is
        not in use."""
        if region not in self.regions:
            raise NotFound(f"There is no region {region!r}{did_you_mean(region, self.regions)}")
        for size, count in counts.items():
            self.orchestrator.capacity[region, size.lower()] = count


class SimCluster:
    """One cluster; its methods are the endpoints below `/clusters/{cluster}`."""

    def __init__(self, description: ClusterDescription, cloud: Cloud) -> None:
        self.name = description.name
        self.description = description
        self.cloud = cloud
        self.bucket_ids = {
            (array.name, key): cloud.orchestrator.new_id()
            for array in description.nodearrays.values()
            for key in array.machine_types
        }
        self._health_reports: dict[str, dict[str, Any]] = {}
        self.demand = PostedSets(self)
        for array in description.nodes.values():
            self._set_up(array)

    def _set_up(self, alone: Nodearray) -> None:
        """Add a node outside of nodearrays, which exists from the start."""
        orchestrator = self.cloud.orchestrator
        (size,) = alone.machine_types.values()
        node = SimNode(
            node_id=orchestrator.new_id(),
            name=alone.name,
            cluster=self.name,
            nodearray=alone,
            machine_type=size,
            placement_group=None,
            attributes=alone.attributes,
            request_id=None,
            cause=EventCause("description"),
        )
        orchestrator.add(node)
        if flag(node.attributes, "StartAutomatically", default=True):
            orchestrator.fire(node, Event.START)

    def nodes(self) -> list[SimNode]:
        """All nodes that have a record, oldest first."""
        every = self.cloud.orchestrator.nodes.values()
        return [node for node in every if node.cluster == self.name]

    def nodearray(self, name: str) -> Nodearray:
        """The nodearray of that name. Raises Conflict when there is none."""
        known = self.description.nodearrays
        if name not in known:
            raise Conflict(
                f"nodearray: cluster {self.name} has no nodearray {name!r}"
                f" (it has {', '.join(known)}){did_you_mean(name, known)}"
            )
        return known[name]

    def seconds_since_capacity_failure(self, array: Nodearray, size: MachineType) -> float:
        """How long ago a node of this machine type last got no VM, in seconds; -1 for never."""
        orchestrator = self.cloud.orchestrator
        when = orchestrator.capacity_failures.get((self.name, array.name, size.name.lower()))
        return -1.0 if when is None else orchestrator.now - when

    def note_shortfall(
        self, array: Nodearray, size: MachineType, message: str, cause: EventCause
    ) -> None:
        """Write into the journal that fewer nodes than wanted could be added."""
        self.cloud.orchestrator.note(
            "limited",
            cluster=self.name,
            nodearray=array.name,
            vm_size=size.name,
            message=message,
            **cause.facts(),
        )

    # ---------------------------------------------------------------- reading

    def status(self, with_nodes: bool) -> models.ClusterStatus:
        """GET status: limits, buckets and, when asked for, the nodes that are not off."""
        return cluster_status(self, with_nodes)

    def node_list(self, operation_id: str | None, request_id: str | None) -> models.NodeList:
        """GET nodes: every record there is, or those that one operation touched."""
        found = [self.cloud.operation(operation_id)] if operation_id is not None else []
        if request_id is not None:
            found.append(self.cloud.operation_of_request(request_id))
        if not found:
            return models.NodeList(nodes=[node_record(node) for node in self.nodes()])
        operation = found[0]
        if any(other is not operation for other in found):
            raise BadRequest("operation and request_id are of different operations; give one")
        if operation.cluster != self.name:
            wanted = f"request id {request_id}" if operation_id is None else f"id {operation_id}"
            raise NotFound(f"No operation found for {wanted} in cluster {self.name}")
        known = self.cloud.orchestrator.nodes
        touched = [known[node_id] for node_id in operation.node_ids if node_id in known]
        return models.NodeList(
            nodes=[node_record(node) for node in touched], operation=operation.status()
        )

    def usage(self, query: UsageQuery) -> models.ClusterUsage:
        """GET usage: core-hours. Raises BadRequest for a time that cannot be understood."""
        orchestrator = self.cloud.orchestrator
        return orchestrator.usage.report(self.name, query, orchestrator.now)

    def health_report(self, name: str) -> dict[str, Any]:
        """GET ghr: the report on a node. Raises NotFound when there is none."""
        node = self._named_or_id(name)
        if node.node_id not in self._health_reports:
            raise NotFound(f"There is no health report on node {node.name}")
        return self._health_reports[node.node_id]

    # ---------------------------------------------------------------- changing

    def report_health(self, name: str, category: str | None, description: str | None) -> None:
        """POST ghr: report that the host of a node is not well.

        Raises BadRequest, NotFound, and Conflict for a second report. A report has no other effect
        in the simulation.
        """
        node = self._named_or_id(name)
        if not category:
            raise BadRequest("category: expected a value, found nothing")
        if node.node_id in self._health_reports:
            raise Conflict(f"There is a health report on node {node.name} already")
        now = timestamp(self.cloud.orchestrator.now)
        report = {"category": category, "description": description or "", "startTime": now}
        self._health_reports[node.node_id] = report
        self.cloud.orchestrator.record("health_reported", node, category)

    def create(self, request: models.NodeCreationRequest) -> models.NodeCreationResult:
        """POST nodes/create: add nodes, as many of each set as the limits allow.

        Raises Conflict, and then nothing was done and the request id is not used up, when the id
        was used before or any of the sets is invalid.
        """
        _check_form(request)
        self.cloud.check_unused(request.request_id)
        plans = creation_requests.plan(self, request)
        operation = self.cloud.begin(self.name, "create", request.request_id)
        return creation_requests.carry_out(self, plans, operation, operation.cause())

    def scale(
        self, nodearray: str, total_cores: int | None, total_nodes: int | None
    ) -> models.NodeCreationResult:
        """POST scale: add nodes to a nodearray until it has a total of nodes or cores; removes
        none.
        """
        if (total_cores is None) == (total_nodes is None):
            raise Conflict("expected exactly one of totalCoreCount and totalNodeCount")
        if (total_cores or 0) < 0 or (total_nodes or 0) < 0:
            raise Conflict("expected a total of 0 or more")
        array = self.nodearray(nodearray)
        size = creation_requests.preferred(array)
        active = [node for node in self.nodes() if node.counts and node.nodearray is array]
        if total_nodes is not None:
            missing = total_nodes - len(active)
        else:
            cores = sum(node.machine_type.vcpus for node in active)
            missing = math.ceil(((total_cores or 0) - cores) / size.vcpus)
        wanted = creation_requests.SetPlan(
            array, size, max(0, missing), array.attributes, None, f"{array.name}-%d", 1
        )
        operation = self.cloud.begin(self.name, "create", None)
        return creation_requests.carry_out(self, [wanted], operation, operation.cause("scale"))

    def manage(
        self, action: str, request: models.NodeManagementRequest
    ) -> models.NodeManagementResult:
        """POST nodes/{action}: carry out an action on every node that any of the selectors selects.

        Raises Conflict, and then nothing was done and the request id is not used up, when the id
        was used before or no selector is given.
        """
        _check_form(request)
        self.cloud.check_unused(request.request_id)
        nodes = self._selected(request)
        operation = self.cloud.begin(self.name, action, request.request_id)
        tally = self.cloud.tally() if action == "start" else Tally()
        results = []
        for node in nodes:
            error = actions.act(self, action, node, operation.cause(), tally)
            if not error:
                operation.node_ids.append(node.node_id)
            results.append(
                models.NodeManagementResultNode(
                    id=node.node_id,
                    name=node.name,
                    status="Error" if error else "OK",
                    error=error or None,
                )
            )
        return models.NodeManagementResult(operation_id=operation.operation_id, nodes=results)

    def retry_failed(self) -> list[str]:
        """POST retry: let every failed node try again; returns their names."""
        failed = [node for node in self.nodes() if node.phase is Phase.FAILED]
        if failed:
            operation = self.cloud.begin(self.name, "retry", None)
            for node in failed:
                operation.node_ids.append(node.node_id)
                actions.act(self, "start", node, operation.cause(), Tally())
        return [node.name for node in failed]

    # ---------------------------------------------------------------- control

    def evict(self, names: Collection[str]) -> list[str]:
        """Give spot nodes notice of their eviction.

        Raises NotFound, and Conflict unless all of them can be evicted.
        """
        nodes = self._named(names)
        for node in nodes:
            if not node.nodearray.spot or not node.vm_running:
                raise Conflict(f"{node.name} cannot be evicted: it is no running spot node")
        return [node.name for node in nodes if self.cloud.orchestrator.evict(node)]

    def fail(self, names: Collection[str], why: str) -> list[str]:
        """Let nodes fail now, in whatever phase of booting or working they are.

        The result is the names of those that could. Raises NotFound.
        """
        return self.cloud.orchestrator.fail(self._named(names), why)

    def edit(self, names: Collection[str], attributes: Mapping[str, Any]) -> list[str]:
        """Change attributes of nodes, as a person does on CycleCloud's pages.

        Raises NotFound and Conflict.
        """
        for key in attributes:
            if key.lower() in MANAGED:
                raise Conflict(f"{key}: this attribute is set by the simulator itself")
        nodes = self._named(names)
        for node in nodes:
            node.attributes = merged(node.attributes, attributes)
        return [node.name for node in nodes]

    def _named(self, names: Collection[str]) -> list[SimNode]:
        by_name = {node.name: node for node in self.nodes()}
        for name in names:
            if name not in by_name:
                raise NotFound(f"Cluster {self.name} has no node {name!r}")
        return [by_name[name] for name in dict.fromkeys(names)]

    def _named_or_id(self, name: str) -> SimNode:
        by_id = self.cloud.orchestrator.nodes.get(name)
        if by_id is not None and by_id.cluster == self.name:
            return by_id
        return self._named([name])[0]

    def _selected(self, request: models.NodeManagementRequest) -> list[SimNode]:
        """The nodes that any selector selects, oldest first."""
        names, ids = set(request.names or ()), set(request.ids or ())
        hostnames = {name.lower() for name in request.hostnames or ()}
        addresses = set(request.ip_addresses or ())
        chosen = compile_filter(request.filter) if request.filter else None
        if not (names or ids or hostnames or addresses or chosen):
            raise Conflict(
                "expected a selector that is not empty: names, ids, hostnames, ip_addresses or"
                " filter"
            )
        return [
            node
            for node in self.nodes()
            if node.name in names
            or node.node_id in ids
            or (node.registered and (node.hostname or "").lower() in hostnames)
            or node.private_ip in addresses
            or (chosen is not None and chosen(node_record(node)))
        ]


def _check_form(request: models.Model) -> None:
    try:
        request.validate()
    except InvalidModel as error:
        raise Conflict(str(error)) from None
