"""What is said of thousands of nodes, to be held against what was said of them before.

Read from what nodes keep, so that nothing is made for a question; for the journal, which asks it of
every node in every pass.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from hpc.autoscale.node.node import Node

_PLAIN = (
    *("_hostname", "state", "_Node__keep_alive"),
    *("_vm_size", "_location", "_Node__nodearray", "managed", "exists"),
)
_plain = itemgetter(*_PLAIN)
_at_once = itemgetter(*_PLAIN, "_resources", "_Node__assignments", "metadata")


def as_reported(node: Node) -> tuple[Any, ...]:
    """What a scheduler has said of a node, as values that are the same when it has said the same.

    Host name, totals, what is left, jobs, metadata and NodeId; whether the scheduler wants rid of
    it, and whether it is closed or required; its bucket id, if it was given one; then, together,
    host name, state, whether it is kept alive, VM size, region, nodearray, whether it is managed
    and exists, and once more totals, jobs and metadata. There are thousands, which is why none of
    this is asked through the node.
    """
    own = node.__dict__
    totals, jobs = dict.copy(own["_resources"]), set(own["_Node__assignments"])
    metadata = own["metadata"].copy()
    return (
        own["_hostname"],
        totals,
        dict.copy(own["_Node__available"]),
        jobs,
        metadata,
        own["delayed_node_id"].node_id,
        own.get("marked_for_deletion", False),
        own.get("_closed", False),
        own.get("_used", False),
        own["_bucket_id"] if own.get("_has_bucket_id", True) else None,
        (*_plain(own), totals, jobs, metadata),
    )


def is_as_reported(node: Node, before: tuple[Any, ...]) -> bool:
    """Whether `as_reported` of a node would be the same as before; nothing is made for that."""
    own = node.__dict__
    return (
        _at_once(own) == before[10]
        and dict.__eq__(own["_Node__available"], before[2]) is True
        and own["delayed_node_id"].node_id == before[5]
        and own.get("marked_for_deletion", False) == before[6]
        and own.get("_closed", False) == before[7]
        and own.get("_used", False) == before[8]
        and (own["_bucket_id"] if own.get("_has_bucket_id", True) else None) == before[9]
    )
