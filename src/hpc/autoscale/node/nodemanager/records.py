"""The server's node records, sorted by the buckets that their nodes belong to; and newer records put onto known nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.roster import Record, Roster, hostname_of, text

_ByGroup = dict[str | None, list["_Alike"]]

_NEEDED = ("Name", "NodeId", "Template", "MachineType", "Status", "TargetState")
_IS_TEXT = str.__instancecheck__
# What a record says of its node beside names and configuration. Figures that are equal say the same.
_DESCRIBING = (
    "Template",
    "MachineType",
    "Status",
    "TargetState",
    "PlacementGroupId",
    "Region",
    "CoreCount",
    "Memory",
    "Interruptible",
    "KeepAlive",
)


class _Alike(list[Record]):
    """Records that differ in names and configurations only. `usable`: whether they say what every record must;
    `leaving`: whether the nodes are going, or are gone and still listed."""

    def __init__(self, first: Record) -> None:
        needed = [first.get(key) for key in _NEEDED[2:]]
        self.usable = all(needed) and all(map(_IS_TEXT, needed))
        status, target = first.get("Status"), first.get("TargetState")
        # what is there to work with runs or boots, or is kept deallocated and can be started
        self.leaving = not (target == "Started" or target == status == "Deallocated")


def values_of(keys: Sequence[str], records: Sequence[Record]) -> Iterable[tuple[Any, ...]]:
    """What each record has under these keys, None where it has nothing."""
    try:
        # most have all of them, and this way takes half as long
        return list(map(itemgetter(*keys), records))
    except KeyError:
        return [tuple(map(record.get, keys)) for record in records]


class NodeRecords:
    """All usable records of a cluster, indexed once. `problems` says which were set aside and why; `leaving` has the ids and
    the short host names, in lower case, of nodes that are going, or are gone and still listed."""

    def __init__(self, config: Mapping[str, Any], records: Sequence[Record]) -> None:
        self._assume_hostnames = bool(config.get("assume_standalone_hostnames"))
        self.problems: list[str] = []
        self.names: list[str] = []
        self.leaving: set[str] = set()
        self._by_array: dict[Any, list[_Alike]] = defaultdict(list)
        self._members: dict[tuple[Any, Any], _ByGroup] = defaultdict(lambda: defaultdict(list))
        self._placed: set[tuple[str, str]] = set()
        self._sort(records)

    def _sort(self, records: Sequence[Record]) -> None:
        ids: set[str] = set()
        names: list[Any] = self.names
        known: dict[object, _Alike] = {}
        description: object
        for record, description in zip(records, values_of(_DESCRIBING, records), strict=True):
            try:
                alike = known.get(description)
            except TypeError:  # a value that cannot be compared
                description, alike = id(record), None
            if alike is None:
                alike = known[description] = self._new_sort(record)
            name, node_id = record.get("Name"), record.get("NodeId")
            is_named = name and isinstance(name, str)
            if is_named:
                names.append(name)
            if not (alike.usable and is_named and node_id and isinstance(node_id, str)):
                self._set_aside(record)
            elif node_id not in ids:
                ids.add(node_id)
                alike.append(record)
                if alike.leaving:
                    hostname = text(record, "Hostname") or ""
                    self.leaving |= {node_id, short_name(hostname)} - {""}

    def _new_sort(self, record: Record) -> _Alike:
        alike = _Alike(record)
        if alike.usable:
            array, size = record["Template"], record["MachineType"]
            self._by_array[array].append(alike)
            if not alike.leaving:
                group = record.get("PlacementGroupId") or None
                self._members[array, size][str(group) if group else None].append(alike)
        return alike

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

    def of_nodearray(self, nodearray: str) -> list[tuple[Record, int]]:
        """The records of a nodearray: one of each sort, and how many there are."""
        return [(alike[0], len(alike)) for alike in self._by_array.get(nodearray, ()) if alike]

    def placement_groups(self, nodearray: str, machine_type: str) -> list[str]:
        """Placement groups in which the nodearray has nodes of this size."""
        groups = self._members.get((nodearray, machine_type), {})
        return sorted(group for group, members in groups.items() if group and any(members))

    def leftovers(self, nodearray: str) -> list[tuple[str, str | None, Record]]:
        """VM size, placement group and one record of those nodes of a nodearray that no bucket has."""
        return [
            (size, group, next(filter(None, members))[0])
            for (array, size), groups in self._members.items()
            for group, members in groups.items()
            if array == nodearray and (array, size) not in self._placed and any(members)
        ]

    def placed(self, nodearray: str, machine_type: str) -> None:
        """A bucket has the nodes of this size now; nobody else gets them."""
        self._placed.add((nodearray, machine_type))

    def roster(self, definition: NodeDefinition, group: str | None) -> Roster:
        """The nodes of one size and placement group, if nobody has them."""
        key = (definition.nodearray, definition.vm_size)
        members = () if key in self._placed else self._members.get(key, {}).get(group, ())
        roster = Roster(definition, members, self._assume_hostnames)
        self.problems.extend(roster.problems)
        return roster


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
    address = text(record, "PrivateIp")
    if not node._is_planned:
        hostname = hostname or node.fqdn
        address = address or (None if node.exists else node.private_ip)
    node._is_planned = False
    node._settle(hostname, address)
