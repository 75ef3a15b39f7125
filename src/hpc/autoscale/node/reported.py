"""What is said of thousands of nodes, to be held against what was said of them before.

Read from what nodes keep, so that nothing is made for a question; for the journal, which asks it of
every node in every pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

from hpc.autoscale.node.node import Node

_kept = itemgetter(
    *("_hostname", "state", "_Node__keep_alive"),
    *("_vm_size", "_location", "_Node__nodearray", "managed", "exists"),
    *("_resources", "_Node__assignments", "metadata"),
)
_marks = attrgetter("marked_for_deletion", "_closed", "_used", "delayed_node_id.node_id")


def as_reported(node: Node) -> tuple[Any, ...]:
    """What a scheduler has said of a node.

    Together: host name, state, whether it is kept alive, VM size, region, nodearray, whether it is
    managed and exists, totals, jobs and metadata. Together: whether the scheduler wants rid of it,
    whether it is closed and required, and its NodeId. Then what is left, and the bucket id, if it
    was given one. Totals, jobs, metadata and what is left are those of the node itself, which may
    be written to: copies of them are the same.
    """
    (kept,), (marks,), (free,), (bucket,) = reported_columns([node])
    return (kept, marks, free, bucket)


def name_as_reported(node: Node) -> str:
    """The host name of a node as its scheduler has said it."""
    return str(node.__dict__["_hostname"])


def reported_columns(nodes: Sequence[Node]) -> tuple[tuple[Any, ...], ...]:
    """`as_reported` of each of the nodes, as a column for each of its parts. There are thousands,
    so nothing is asked through a node, and nothing made that need not be."""
    each = [node.__dict__ for node in nodes]
    return (
        tuple(map(_kept, each)),
        tuple(map(_marks, nodes)),
        tuple([own["_Node__available"] for own in each]),
        tuple([own["_bucket_id"] if own.get("_has_bucket_id", True) else None for own in each]),
    )
