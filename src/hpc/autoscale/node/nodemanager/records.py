"""The server's node records: sorted by the buckets that their nodes belong to, read, and put onto
nodes that are known.

Records are read at once, class by class; a node is made of one when somebody looks at it
(`node.state`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.modelbase import hardware_of, resources_of, values_of
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.bucket.definition import node_of
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeClass
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.util import standalone_hostname

Record = Mapping[str, Any]

GARBLED = (
    *(AttributeError, LookupError, TypeError, ValueError, ArithmeticError, AssertionError),
    RuntimeError,
)
"""What reading a garbled reply may raise. AutoscaleError is a RuntimeError."""

_ByGroup = dict[str | None, list["_Alike"]]

_NEEDED = ("Name", "NodeId", "Template", "MachineType", "Status", "TargetState")
# What a record says of its node beside names and configuration; equal figures say the same.
_DESCRIBING = (
    *("Template", "MachineType", "Status", "TargetState", "PlacementGroupId", "Region"),
    *("CoreCount", "Memory", "Interruptible", "KeepAlive"),
)


class _Alike(list[Record]):
    """Usable records that differ in names and configurations only. `seen`: how many there are, with
    those that cannot be used. `usable`: whether they say what every record must; `leaving`: whether
    the nodes are going, or are gone and still listed."""

    def __init__(self, first: Record) -> None:
        self.first = first
        self.seen = 0
        self.usable = all(first.get(key) and isinstance(first[key], str) for key in _NEEDED[2:])
        status, target = first.get("Status"), first.get("TargetState")
        # what is there to work with runs or boots, or is kept deallocated and can be started
        self.leaving = not (target == "Started" or target == status == "Deallocated")


class NodeRecords:
    """All usable records of a cluster, indexed once; VM sizes have no case. `unusable` are those
    that were set aside, each with why, and `problems` says so of all but nodes without a target;
    `leaving` has the ids and the short host names, in lower case, of nodes that are going, or are
    gone and still listed."""

    def __init__(self, config: Mapping[str, Any], records: Sequence[Record]) -> None:
        self._assume_hostnames = bool(config.get("assume_standalone_hostnames"))
        self.problems: list[str] = []
        self.unusable: list[tuple[Record, str]] = []
        self.names: list[str] = []
        self.leaving: set[str] = set()
        self.sorts: list[_Alike] = []
        self._by_array: dict[Any, list[_Alike]] = defaultdict(list)
        self._members: dict[tuple[Any, Any], _ByGroup] = defaultdict(lambda: defaultdict(list))
        self._placed: set[tuple[str, str]] = set()
        self._sort(records)

    def _sort(self, records: Sequence[Record]) -> None:
        ids: set[str] = set()
        names: list[Any] = self.names
        known: dict[object, _Alike] = {}
        description: object
        for record, description in zip(records, values_of(records, _DESCRIBING), strict=True):
            try:
                alike = known.get(description)
            except TypeError:  # a value that cannot be compared
                description, alike = id(record), None
            if alike is None:
                alike = known[description] = self._new_sort(record)
            alike.seen += 1
            name, node_id = record.get("Name"), record.get("NodeId")
            is_named = name and isinstance(name, str)
            if is_named:
                names.append(name)
            if not (alike.usable and is_named and node_id and isinstance(node_id, str)):
                self._set_aside(record)
            elif node_id not in ids:
                ids.add(node_id)
                if not (alike or alike.leaving):
                    group = record.get("PlacementGroupId") or None
                    groups = self._members[record["Template"], record["MachineType"].lower()]
                    groups[str(group) if group else None].append(alike)
                alike.append(record)
                if alike.leaving:
                    hostname = text(record, "Hostname") or ""
                    self.leaving |= {node_id, short_name(hostname)} - {""}

    def _new_sort(self, record: Record) -> _Alike:
        alike = _Alike(record)
        self.sorts.append(alike)
        if alike.usable:
            self._by_array[record["Template"]].append(alike)
        return alike

    def _set_aside(self, record: Record) -> None:
        wrong = [key for key in _NEEDED if not (record.get(key) and isinstance(record[key], str))]
        name = record.get("Name")
        problem = f"node {name or '?'}: set aside, expected a text in its {', '.join(wrong)}"
        self.unusable.append((record, problem))
        if wrong == ["TargetState"] and not record.get("TargetState"):
            # a node that was never given a target is ordinary
            logging.debug("node %s has no TargetState: left alone", name)
            return
        self.problems.append(problem)

    def of_nodearray(self, nodearray: str) -> list[tuple[Record, int]]:
        """The records of a nodearray: one of each sort, and how many there are."""
        return [(alike.first, len(alike)) for alike in self._by_array.get(nodearray, ())]

    def in_state(self, *statuses: str) -> list[Record]:
        """The records of nodes in one of these states."""
        found = (alike for alike in self.sorts if alike.first.get("Status") in statuses)
        return [record for alike in found for record in alike]

    def find(self, node_ids: Collection[str]) -> dict[str, Record]:
        """The records of these nodes, by NodeId."""
        wanted = set(node_ids)
        every = (record for alike in self.sorts for record in alike)
        return {str(r["NodeId"]): r for r in every if r["NodeId"] in wanted}

    def made_by(self, request_ids: Collection[str]) -> list[Record]:
        """The records of the nodes that these requests have made."""
        wanted = set(request_ids)
        every = (record for alike in self.sorts for record in alike)
        return [record for record in every if str(record.get("RequestId")) in wanted]

    def placement_groups(self, nodearray: str, machine_type: str) -> list[str]:
        """Placement groups in which the nodearray has nodes of this size."""
        return sorted(filter(None, self._members.get((nodearray, machine_type.lower()), {})))

    def has(self, nodearray: str, machine_type: str) -> bool:
        """Whether the nodearray has nodes of this size."""
        return (nodearray, machine_type.lower()) in self._members

    def leftovers(self, nodearrays: Collection[str]) -> list[tuple[str, str, str | None, Record]]:
        """Nodearray, VM size, placement group and one record of nodes that no bucket has."""
        return [
            (array, members[0].first["MachineType"], group, members[0].first)
            for (array, size), groups in self._members.items()
            for group, members in groups.items()
            if array in nodearrays and (array, size) not in self._placed
        ]

    def placed(self, nodearray: str, machine_type: str) -> None:
        """A bucket has the nodes of this size now; nobody else gets them."""
        self._placed.add((nodearray, machine_type.lower()))

    def listed(
        self, nodearray: str, definition: NodeDefinition, group: str | None
    ) -> tuple[list[NodeClass], list[Record]]:
        """Nodes of one size and placement group that nobody has: their classes and records."""
        key = (nodearray, definition.vm_size.lower())
        members = () if key in self._placed else self._members.get(key, {}).get(group, ())
        classes, records, unusable = listed(definition, members, self._assume_hostnames)
        self.unusable.extend(unusable)
        self.problems.extend(problem for _, problem in unusable)
        return classes, records


def listed(
    definition: NodeDefinition,
    members: Sequence[Sequence[Record]],
    assume_hostnames: bool = False,
) -> tuple[list[NodeClass], list[Record], list[tuple[Record, str]]]:
    """Nodes in order, htc-2 before htc-10 and those at rest last, as others that boot were ordered
    for work: the class of each, its record, and which records cannot be used, each with why.

    `members`: records, each list of records that differ in names and configurations only. Nobody
    has looked at the nodes yet; what they have in common is worked out once for each class.
    """
    classes: list[NodeClass] = []
    usable: list[Record] = []
    unusable: list[tuple[Record, str]] = []
    known: dict[object, NodeClass] = {}

    def identify(own: dict[str, Any], record: Record) -> None:
        configuration = record.get("Configuration")
        if configuration is None:
            configuration = definition.software_configuration
        own["_name"], own["_node_id"] = record["Name"], record["NodeId"]
        own["_hostname"] = hostname_of(record, configuration, assume_hostnames)
        own["_Node__private_ip"] = text(record, "PrivateIp")
        own["instance_id"] = text(record, "InstanceId")
        own["_Node__software_configuration"] = configuration

    named = [(ht.name_order(r["Name"]), n, r) for n, alike in enumerate(members) for r in alike]
    named.sort(key=lambda each: (each[2]["TargetState"] != "Started", each[0]))
    for _, number, record in named:
        try:
            key = _class_key(record, number)
            found = known.get(key)
            if found is None:
                sample = node_from(record, definition, assume_hostnames)
                found = known[key] = NodeClass(sample, identify=identify, _hostname=None)
        except GARBLED as e:
            problem = f"node {record['Name']}: set aside, its record cannot be used: {why(e)}"
            unusable.append((record, problem))
            continue
        classes.append(found)
        usable.append(record)
    return classes, usable, unusable


def _class_key(record: Record, number: int) -> object:
    """A key that records share which differ in names only; `number`: of their list."""
    configuration = record.get("Configuration")
    resources = resources_of(record) if configuration else None
    if resources:
        return (number, tuple(resources), freeze(resources))
    return (number, None) if configuration is None else number


def node_from(record: Record, d: NodeDefinition, assume_hostnames: bool) -> Node:
    """A node from its record; the definition fills in what the record does not say."""
    own = record.get("Configuration")
    configuration = d.software_configuration if own is None else own
    cores, memory = hardware_of(record)
    spot, target = record.get("Interruptible"), record["TargetState"]
    return node_of(
        d,
        record["Name"],
        hostname_of(record, configuration, assume_hostnames),
        d.resources if own is None else ht.with_sizes(resources_of(record)),
        record.get("PlacementGroupId"),
        node_id=DelayedNodeId(record["Name"], record["NodeId"]),
        private_ip=text(record, "PrivateIp"),
        instance_id=text(record, "InstanceId"),
        spot=d.spot if spot is None else bool(spot),
        vcpu_count=d.vcpu_count if cores is None else cores,
        memory=d.memory if memory is None else memory,
        state=record["Status"],
        target_state=target,
        power_state=record["Status"],
        exists=target == "Started",
        software_configuration=configuration,
        keep_alive=bool(record.get("KeepAlive")),
    )


def hostname_of(record: Record, configuration: Any, assume_hostnames: bool) -> Any:
    """The host name in a record; with `assume_hostnames` and standalone DNS the one that follows
    from its address."""
    hostname = text(record, "Hostname")
    address = text(record, "PrivateIp") if assume_hostnames else None
    return (standalone_hostname(configuration, address) if address else None) or hostname


def why(e: BaseException) -> str:
    """What was wrong with a record that could not be read."""
    return f"{e!r}" if isinstance(e, (AttributeError, LookupError, TypeError)) else str(e)


def text(record: Record, key: str) -> Any:
    """A value that is a text; None for anything else."""
    found = record.get(key)
    return found if isinstance(found, str) else None


def refresh(node: Node, record: Record, assume_hostnames: bool = False) -> None:
    """Take over what a newer record says of a node: identity, state and address. A real host
    name that the record has no more stays, for whoever must still forget the node by it."""
    node.delayed_node_id.node_id = record.get("NodeId") or node.delayed_node_id.node_id
    if record.get("Name") and record["Name"] != node.name:
        node._rename(record["Name"])
    target = record.get("TargetState") or node.target_state
    stands = record.get("Status") or node.state, target, target == "Started"
    if stands != (node.state, node.target_state, node.exists):
        node._stand(*stands)
    node.instance_id = record.get("InstanceId") or node.instance_id
    hostname = hostname_of(record, node.software_configuration, assume_hostnames)
    address = text(record, "PrivateIp")
    if not node._is_planned:
        hostname = hostname or node.fqdn
        address = address or (None if node.exists else node.private_ip)
    node._is_planned = False
    node._settle(hostname, address)
