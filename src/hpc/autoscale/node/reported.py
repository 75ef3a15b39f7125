"""What is said of thousands of nodes, to be held against what was said of them before.

Read from what nodes keep, so that nothing is made for a question; for the journal, which asks it of
every node in every pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter, itemgetter
from typing import Any

from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import MADE_LATE

_said = itemgetter(
    *("state", "_Node__keep_alive", "_Node__nodearray", "managed", "exists", "metadata"),
    "_resources",
)
_hostname = attrgetter("_hostname")
_marks = attrgetter("marked_for_deletion", "_closed", "_used", "_has_bucket_id")

Own = tuple[str, object, object, tuple[str, ...]]
Shared = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], dict[str, Any]]


def as_reported(node: Node) -> tuple[Own, Shared]:
    """What a scheduler has said of a node.

    Of its own: host name, NodeId, bucket id, if it was given one, and jobs in their order. And what
    many have in common, in four parts: state, whether it is kept alive, nodearray, whether it is
    managed and exists, metadata and totals; VM size and region; whether the scheduler wants rid of
    it, whether it is closed and required, and whether it was given a bucket id; and what is left.
    Metadata, totals and what is left may be written to: to `reported_alike`, plain copies of these
    are the same.
    """
    for name in MADE_LATE:
        getattr(node, name)
    own, marks = node.__dict__, _marks(node)
    bucket = own["_bucket_id"] if marks[-1] else None
    apart = (own["_hostname"], own["delayed_node_id"].node_id, bucket, _jobs(own))
    return apart, (_said(own), own["_hardware"][:2], marks, own["_Node__available"])


def _jobs(own: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(own["_Node__assignments"], key=str))


def reported_alike(nodes: Sequence[Node], known: Sequence[Own], shared: Sequence[Shared]) -> int:
    """Of how many nodes at the start is said what was known of them. There are thousands, so
    nothing is asked through a node, and nothing made that need not be."""
    is_same = dict.__eq__  # amounts of a node would ask the engine
    count = 0
    with suppress(KeyError):  # of a node of the manager, something was not made yet
        for node, (hostname, node_id, bucket, jobs), common in zip(
            nodes, known, shared, strict=True
        ):
            own = node.__dict__
            said, (size, region), marks, free = common
            hardware = own["_hardware"]
            if own["_hostname"] != hostname or own["delayed_node_id"].node_id != node_id:
                break
            if _said(own) != said or hardware[0] != size or hardware[1] != region:
                break
            if _marks(node) != marks or not is_same(own["_Node__available"], free):
                break
            if marks[-1] and own["_bucket_id"] != bucket:
                break
            if tuple(own["_Node__assignments"]) != jobs and _jobs(own) != jobs:
                break
            count += 1
    return count


def name_as_reported(node: Node) -> str:
    """The host name of a node as its scheduler has said it."""
    return str(_hostname(node))
