"""From the server's node records to `Node` objects, and back onto nodes that are known already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.kind import Kind, stamp
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.util import is_standalone_dns

Record = Mapping[str, Any]
_ByGroup = dict[str | None, list[Record]]

_NEEDED = ("Name", "NodeId", "Template", "MachineType", "Status", "TargetState")
_IS_TEXT = str.__instancecheck__
# What a node's record says beside those and its names.
_DESCRIBING = (
    "Status",
    "TargetState",
    "PlacementGroupId",
    "CoreCount",
    "Interruptible",
    "KeepAlive",
    "Memory",
)


class NodeRecords:
    """All usable records of a cluster, indexed once. `problems` says which were set aside and why; `leaving` has the ids and
    the short host names, in lower case, of nodes that are going, or are gone and still listed."""

    def __init__(self, config: Mapping[str, Any], records: Iterable[Record]) -> None:
        self._assume_hostnames = bool(config.get("assume_standalone_hostnames"))
        self.problems: list[str] = []
        self.names: list[str] = []
        self.leaving: set[str] = set()
        self._by_array: dict[str, list[Record]] = defaultdict(list)
        self._members: dict[tuple[str, str], _ByGroup] = defaultdict(lambda: defaultdict(list))
        self._placed: set[tuple[str, str]] = set()
        self._sort(records)

    def _sort(self, records: Iterable[Record]) -> None:
        ids: set[str] = set()
        for record in records:
            needed: tuple[Any, ...] = tuple(map(record.get, _NEEDED))
            name, node_id, array, size, status, target = needed
            if name and isinstance(name, str):
                self.names.append(name)
            if not (all(needed) and all(map(_IS_TEXT, needed))):
                self._set_aside(record)
                continue
            if node_id in ids:
                continue
            ids.add(node_id)
            self._by_array[array].append(record)
            if target == "Started" or target == status == "Deallocated":
                # a node to work with: it runs or boots, or it is kept deallocated and can be started
                group = record.get("PlacementGroupId") or None
                self._members[array, size][str(group) if group else None].append(record)
            else:
                hostname = _text(record, "Hostname") or ""
                self.leaving |= {node_id, hostname.partition(".")[0].lower()} - {""}

    def _set_aside(self, record: Record) -> None:
        wrong = [key for key in _NEEDED if not (record.get(key) and isinstance(record[key], str))]
        name = record.get("Name")
        if wrong == ["TargetState"] and not record.get("TargetState"):
            # a node that was never given a target is ordinary
            logging.debug("node %s has no TargetState: left alone", name)
            return
        self.problems.append(
            f"node {name or '?'}: set aside, expected a text in its {', '.join(wrong)}"
        )

    def of_nodearray(self, nodearray: str) -> Sequence[Record]:
        """All records of a nodearray."""
        return self._by_array.get(nodearray, ())

    def placement_groups(self, nodearray: str, machine_type: str) -> list[str]:
        """Placement groups in which the nodearray has nodes of this size."""
        return sorted(group for group in self._members.get((nodearray, machine_type), ()) if group)

    def leftovers(self, nodearray: str) -> list[tuple[str, str | None, list[Record]]]:
        """VM size, placement group and records of those nodes of a nodearray that no bucket has."""
        return [
            (size, group, members)
            for (array, size), groups in self._members.items()
            for group, members in groups.items()
            if array == nodearray and (array, size) not in self._placed
        ]

    def placed(self, nodearray: str, machine_type: str) -> None:
        """A bucket has the nodes of this size now; nobody else gets them."""
        self._placed.add((nodearray, machine_type))

    def nodes(self, definition: NodeDefinition, group: str | None) -> list[Node]:
        """The nodes of one size and placement group, htc-2 before htc-10."""
        array, size = definition.nodearray, definition.vm_size
        nodes: list[Node] = []
        if (array, size) in self._placed:
            return nodes
        kinds: dict[object, Kind] = {}
        for record in sorted(self._members.get((array, size), {}).get(group, ()), key=_natural):
            try:
                nodes.append(self._node(record, definition, kinds))
            except (AttributeError, TypeError, ValueError, ArithmeticError, RuntimeError) as e:
                self.problems.append(
                    f"node {record['Name']}: set aside, its record cannot be used: {e!r}"
                )
        return nodes

    def _node(self, record: Record, d: NodeDefinition, kinds: dict[object, Kind]) -> Node:
        """As `node`. Records that differ in names only are read once."""
        configuration = record.get("Configuration")
        key = _description(record, configuration)
        try:
            kind = kinds.get(key)
        except TypeError:  # a value that cannot be compared
            return self.node(record, d)
        if kind is None:
            kind = kinds[key] = Kind(self.node(record, d))
        if configuration is None:
            configuration = d.software_configuration
        node, own = stamp(Node, kind.attributes)
        own["_name"], own["_node_id"] = record["Name"], record["NodeId"]
        own["_hostname"] = hostname_of(record, configuration, self._assume_hostnames)
        own["_Node__private_ip"] = _text(record, "PrivateIp")
        own["instance_id"] = _text(record, "InstanceId")
        own["_Node__software_configuration"] = configuration
        return node

    def node(self, record: Record, d: NodeDefinition) -> Node:
        """One node from its record; the definition fills in what the record does not say."""
        own = record.get("Configuration")
        configuration = d.software_configuration if own is None else own
        resources = ((own or {}).get("autoscale") or {}).get("resources")
        memory, cores = record.get("Memory"), record.get("CoreCount")
        group = record.get("PlacementGroupId") or None
        target = record["TargetState"]
        return Node(
            node_id=DelayedNodeId(record["Name"], record["NodeId"]),
            name=record["Name"],
            nodearray=d.nodearray,
            bucket_id=d.bucket_id,
            hostname=hostname_of(record, configuration, self._assume_hostnames),
            private_ip=_text(record, "PrivateIp"),
            instance_id=_text(record, "InstanceId"),
            vm_size=d.vm_size,
            location=d.location,
            spot=d.spot if record.get("Interruptible") is None else bool(record["Interruptible"]),
            vcpu_count=int(cores) if cores else d.vcpu_count,
            memory=ht.Memory(memory, "g") if memory else d.memory,
            infiniband=bool(group),
            state=record["Status"],
            target_state=target,
            power_state=record["Status"],
            exists=target == "Started",
            placement_group=group,
            managed=True,
            resources=d.resources if own is None else with_sizes(resources or {}),
            software_configuration=configuration,
            keep_alive=bool(record.get("KeepAlive")),
            gpu_count=d.gpu_count,
        )


def hostname_of(record: Record, configuration: Any, assume_hostnames: bool) -> Any:
    """The host name in a record; with `assume_hostnames` and standalone DNS the one that follows from its address."""
    hostname = _text(record, "Hostname")
    address = _text(record, "PrivateIp") if assume_hostnames else None
    if address and is_standalone_dns(_Configured(configuration)):
        try:
            return f"ip-{int(IPv4Address(address)):08X}"
        except AddressValueError:
            return hostname
    return hostname


class _Configured:
    def __init__(self, software_configuration: Any) -> None:
        self.software_configuration = software_configuration


def refresh(node: Node, record: Record, assume_hostnames: bool = False) -> None:
    """Take over what a newer record says of a node: identity, state and address. A real host name that the record does
    not have any more stays, for whoever must still forget the node by it."""
    node.delayed_node_id.node_id = record.get("NodeId") or node.delayed_node_id.node_id
    if record.get("Name") and record["Name"] != node.name:
        node._rename(record["Name"])
    node.state = record.get("Status") or node.state
    node.target_state = record.get("TargetState") or node.target_state
    node.exists = node.target_state == "Started"
    node.instance_id = record.get("InstanceId") or node.instance_id
    hostname = hostname_of(record, node.software_configuration, assume_hostnames)
    address = _text(record, "PrivateIp")
    if not node._is_planned:
        hostname = hostname or node.fqdn
        address = address or (None if node.exists else node.private_ip)
    node._is_planned = False
    node._settle(hostname, address)


def with_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Resources from a configuration, with `size::` and `memory::` texts as sizes."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str) and value.startswith("memory::"):
            value = ht.Memory.value_of(value)
        elif isinstance(value, str) and value.startswith("size::"):
            value = ht.Size.value_of(value)
        found[name] = value
    return found


def _text(record: Record, key: str) -> Any:
    """A value that is a text; None for anything else."""
    found = record.get(key)
    return found if isinstance(found, str) else None


def _natural(record: Record) -> tuple[str, int]:
    name: str = record["Name"]
    prefix, _, index = name.rpartition("-")
    return (prefix, int(index)) if index.isdecimal() else (name, 0)


def _description(record: Record, configuration: Any) -> object:
    """All that decides what the node is, its names aside."""
    autoscale = configuration.get("autoscale") if configuration else None
    resources = autoscale.get("resources") if autoscale else None
    values = tuple(map(record.get, _DESCRIBING))
    offered = (tuple(resources), freeze(resources)) if resources else None
    return values, values[-1].__class__, configuration is None, offered
