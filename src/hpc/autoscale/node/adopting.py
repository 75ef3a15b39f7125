"""Which planned node is which of the nodes that a create has made, by the server's records.

Nothing is asked or sent here, and no node is changed. Called by `operations` after a create.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.creation_sets import plain_name
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node

Record = Mapping[str, Any]


def adopt(
    nodes: Sequence[Node], records: Sequence[Record]
) -> tuple[list[tuple[Node, Record]], list[Record], list[Node]]:
    """Match planned nodes to the records of the operation that created them, set by set.

    A set is nodearray, VM size and placement group. Within one, nodes that were asked for with
    attributes or a format of names of their own take records that carry those. A node that was
    asked for by a name is the record of that name or none; of the others, where records are fewer,
    the nodes that were planned first get them; which node gets which is by name where the server
    gave the planned one, else by order. Returns the matches in the order of `nodes`, the records
    nobody planned, and the nodes that nothing was made for. Cost: linear, but for sorting names.
    """
    waiting: dict[tuple[Any, Any, Any], list[Record]] = defaultdict(list)
    for record in sorted(records, key=_by_name):
        waiting[set_of_record(record)].append(record)
    planned: dict[tuple[Any, Any, Any], list[Node]] = defaultdict(list)
    for node in nodes:
        planned[set_of(node)].append(node)
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
    alike: dict[tuple[Any, ...], list[Node]] = defaultdict(list)
    for node in group:
        alike[repr(_attributes(node)), node.name_format or "", node.name_offset or 0].append(node)
    rest = records
    # the pickiest first: what they leave is for those that take anything
    for nodes in sorted(alike.values(), key=lambda nodes: _pickiness(nodes[0]), reverse=True):
        wanted = _attributes(nodes[0])
        fitting = [r for r in rest if _is_named_for(r, nodes[0]) and _carries(r, wanted)]
        rest = _pair(nodes, fitting[: len(nodes)], rest, matches)
    left_over = [node for node in group if id(node) not in matches]
    return _pair(left_over, rest[: len(left_over)], rest, matches)


def _match_names(
    group: Sequence[Node], records: list[Record], matches: dict[int, Record]
) -> tuple[Sequence[Node], list[Record]]:
    """Match the nodes that were asked for by name into `matches`.

    The result is the nodes and the records that are left.
    """
    asked = {
        split_name(name)[1].lower(): node
        for node in group
        if (name := plain_name(node.name_format))
    }
    if not asked:
        return group, records
    rest: list[Record] = []
    for record in records:
        node = asked.pop(split_name(str(record.get("Name")))[1].lower(), None)
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
    by_their_name = {id(record) for record in named.values()}
    others = iter([record for record in fitting if id(record) not in by_their_name])
    for node in chosen:
        matches[id(node)] = named[id(node)] if id(node) in named else next(others)
    taken = {id(record) for record in fitting}
    return [record for record in rest if id(record) not in taken]


def _attributes(node: Node) -> dict[str, Any]:
    """The attributes of a node in the creation request, besides those that make its set."""
    asked = dict(node.node_attribute_overrides)
    return {**asked, "KeepAlive": True} if node.keep_alive else asked


def _pickiness(node: Node) -> tuple[int, int]:
    return len(_attributes(node)) + bool(node.name_format), node.name_offset or 0


def _is_named_for(record: Record, node: Node) -> bool:
    """Whether a record has a name of the format that a node was asked for in, with a number from
    its offset on."""
    if not node.name_format:
        return True
    before, _, after = split_name(node.name_format)[1].lower().partition("%d")
    name = split_name(str(record.get("Name")))[1].lower()
    number = name[len(before) : len(name) - len(after)]
    is_of_it = name == f"{before}{number}{after}" and number.isdecimal()
    return is_of_it and int(number) >= (node.name_offset or 0)


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


def set_of(there: Node | NodeBucket) -> tuple[Any, Any, Any]:
    """The nodearray, the VM size and the placement group of a planned node, or of new nodes of a
    bucket, to compare with those of records."""
    return (there.nodearray, there.vm_size.lower(), there.placement_group or None)


def set_of_record(record: Record) -> tuple[Any, Any, Any]:
    """The nodearray, the VM size and the placement group of a node record."""
    return (
        record.get("Template"),
        str(record.get("MachineType") or "").lower(),
        record.get("PlacementGroupId") or None,
    )
