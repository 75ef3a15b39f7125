"""The nodes of one size and placement group as the server lists them: read at once, made when somebody looks at one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.kind import Kind, stamp
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.util import is_standalone_dns

Record = Mapping[str, Any]

# What reading a record may raise. AutoscaleError, for sizes that are none, is a RuntimeError.
_GARBLED = (AttributeError, TypeError, ValueError, ArithmeticError, RuntimeError)


class Roster:
    """Nodes in order, htc-2 before htc-10. `members`: their records, each list of records that differ in names and
    configurations only. `problems` says which cannot be used."""

    def __init__(
        self,
        definition: NodeDefinition,
        members: Sequence[Sequence[Record]],
        assume_hostnames: bool = False,
    ) -> None:
        self.problems: list[str] = []
        self.kinds: list[Kind] = []
        self._records: list[Record] = []
        self._definition = definition
        self._assume_hostnames = assume_hostnames
        self._known: dict[object, Kind] = {}
        kinds, usable = self.kinds, self._records
        for number, record in _in_order(members):
            try:
                kind = self._kind_of(record, number)
            except _GARBLED as e:
                self.problems.append(
                    f"node {record['Name']}: set aside, its record cannot be used: {e!r}"
                )
                continue
            kinds.append(kind)
            usable.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def _kind_of(self, record: Record, number: int) -> Kind:
        configuration = record.get("Configuration")
        autoscale = configuration.get("autoscale") if configuration else None
        resources = autoscale.get("resources") if autoscale else None
        key: object = number
        if resources:
            key = (number, tuple(resources), freeze(resources))
        elif configuration is None:
            key = (number, None)
        found = self._known.get(key)
        if found is None:
            node = node_from(record, self._definition, self._assume_hostnames)
            found = self._known[key] = Kind(node)
        return found

    def refine(self, refined: Callable[[Kind], Kind | None]) -> bool:
        """Make nodes of other kinds of them; False, and nothing done, where it takes the nodes themselves to tell."""
        finer = {kind: refined(kind) for kind in dict.fromkeys(self.kinds)}
        kinds = [kind for kind in map(finer.__getitem__, self.kinds) if kind is not None]
        if len(kinds) < len(self.kinds):
            return False
        self.kinds = kinds
        return True

    def node(self, index: int) -> Node:
        """A node, made now."""
        record = self._records[index]
        configuration = record.get("Configuration")
        if configuration is None:
            configuration = self._definition.software_configuration
        node, own = stamp(Node, self.kinds[index].attributes)
        own["_name"], own["_node_id"] = record["Name"], record["NodeId"]
        own["_hostname"] = hostname_of(record, configuration, self._assume_hostnames)
        own["_Node__private_ip"] = text(record, "PrivateIp")
        own["instance_id"] = text(record, "InstanceId")
        own["_Node__software_configuration"] = configuration
        return node


def _in_order(members: Sequence[Sequence[Record]]) -> list[tuple[int, Record]]:
    """The records with the number of their list, by prefix and number of their names."""
    found = []
    for number, alike in enumerate(members):
        for record in alike:
            found.append((ht.name_order(record["Name"]), number, record))
    found.sort(key=itemgetter(0))
    return [(number, record) for _, number, record in found]


def node_from(record: Record, d: NodeDefinition, assume_hostnames: bool) -> Node:
    """A node from its record; the definition fills in what the record does not say."""
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
        hostname=hostname_of(record, configuration, assume_hostnames),
        private_ip=text(record, "PrivateIp"),
        instance_id=text(record, "InstanceId"),
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
        resources=d.resources if own is None else ht.with_sizes(resources or {}),
        software_configuration=configuration,
        keep_alive=bool(record.get("KeepAlive")),
        gpu_count=d.gpu_count,
    )


def hostname_of(record: Record, configuration: Any, assume_hostnames: bool) -> Any:
    """The host name in a record; with `assume_hostnames` and standalone DNS the one that follows from its address."""
    hostname = text(record, "Hostname")
    address = text(record, "PrivateIp") if assume_hostnames else None
    if address and is_standalone_dns(_Configured(configuration)):
        from ipaddress import AddressValueError, IPv4Address

        try:
            return f"ip-{int(IPv4Address(address)):08X}"
        except AddressValueError:
            return hostname
    return hostname


class _Configured:
    def __init__(self, software_configuration: Any) -> None:
        self.software_configuration = software_configuration


def text(record: Record, key: str) -> Any:
    """A value that is a text; None for anything else."""
    found = record.get(key)
    return found if isinstance(found, str) else None
