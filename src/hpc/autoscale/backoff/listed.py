"""What a listing says of nodes that boot and of those that have failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.requestsets.dynamic import array_in

Record = Mapping[str, Any]

Place = tuple[str, str, str]
"""Nodearray, VM size and placement group, an empty text for none."""

WITHOUT_A_VM = ("Allocation", "Allocating", "Acquiring")
BOOTING = (*WITHOUT_A_VM, "Starting", "Preparing")


def _none_of(request_ids: Collection[str]) -> Sequence[Record]:
    return ()


class Listed(NamedTuple):
    """The newest listing of the cluster's nodes, as far as it tells of failures.

    find: gives the records of NodeIds, by NodeId.
    unavailable: nodes that cannot be used any more, as spot nodes about to be evicted.
    made_by: gives the records of the nodes that requests have made, by the ids of the requests.
    unusable: records of which no node can be made, each with why. Some are among the others, too.
    """

    booting: Sequence[Record]
    failed: Sequence[Record]
    find: Callable[[Collection[str]], Mapping[str, Record]]
    unavailable: Sequence[Record] = ()
    made_by: Callable[[Collection[str]], Sequence[Record]] = _none_of
    unusable: Sequence[tuple[Record, str]] = ()


def place_in(record: Record) -> Place:
    """Where a record says that its node is."""
    size, group = str(record.get("MachineType")), str(record.get("PlacementGroupId") or "")
    return array_in(record), size, group


def place_of(bucket: NodeBucket) -> Place:
    """Where the nodes of a bucket are."""
    return str(bucket.nodearray), str(bucket.vm_size), str(bucket.placement_group or "")


def failed_lately(bucket: NodeBucket, longest: float) -> bool:
    """Whether the status dates a capacity failure that may still count: for `longest` seconds."""
    elapsed = bucket.last_capacity_failure
    return elapsed is not None and elapsed < longest


def may_be_at(place: Place, record: Record) -> bool:
    """Whether a node may be there but for its placement group, as far as its record says where it
    is."""
    array, size = record.get("Template"), record.get("MachineType")
    if array and isinstance(array, str) and array_in(record) != place[0]:
        return False
    return not (size and isinstance(size, str)) or size.lower() == place[1].lower()
