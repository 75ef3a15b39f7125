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

_kept = itemgetter(
    *("_hostname", "state", "_Node__keep_alive"),
    *("_vm_size", "_location", "_Node__nodearray", "managed", "exists"),
    *("_resources", "_Node__assignments", "metadata"),
)
_marks = attrgetter("marked_for_deletion", "_closed", "_used", "_has_bucket_id")

Reported = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any], object, object]


def as_reported(node: Node) -> Reported:
    """What a scheduler has said of a node.

    Together: host name, state, whether it is kept alive, VM size, region, nodearray, whether it is
    managed and exists, totals, jobs and metadata. Together: whether the scheduler wants rid of it,
    whether it is closed and required, and whether it was given a bucket id. Then what is left, its
    NodeId, and that bucket id. Totals, jobs, metadata and what is left are those of the node
    itself, which may be written to: copies of them are the same.
    """
    for name in MADE_LATE:
        getattr(node, name)
    own, marks = node.__dict__, _marks(node)
    bucket = own["_bucket_id"] if marks[-1] else None
    return (_kept(own), marks, own["_Node__available"], own["delayed_node_id"].node_id, bucket)


def reported_alike(nodes: Sequence[Node], known: Sequence[Reported]) -> int:
    """Of how many nodes at the start is said what was known of them. There are thousands, so
    nothing is asked through a node, and nothing made that need not be."""
    is_same = dict.__eq__  # amounts of a node would ask the engine
    count = 0
    with suppress(KeyError):  # of a node of the manager, something was not made yet
        for node, (kept, marks, free, node_id, bucket) in zip(nodes, known, strict=True):
            own = node.__dict__
            if _kept(own) != kept or _marks(node) != marks:
                break
            if own["delayed_node_id"].node_id != node_id:
                break
            if not is_same(own["_Node__available"], free):
                break
            if marks[-1] and own["_bucket_id"] != bucket:
                break
            count += 1
    return count


def name_as_reported(node: Node) -> str:
    """The host name of a node as its scheduler has said it."""
    return str(as_reported(node)[0][0])
