"""Whether a listing of nodes may be believed.

A server or a proxy in trouble can answer with an empty or shortened listing, and taking it for the
truth deletes a cluster or creates it twice. So the listing is held against the counts of the
buckets before anything is decided, and the listing of one operation against the request that it is
to be about. Pure functions over the protocol's models; the node manager calls them through its
binding.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from hpc.autoscale.ccbindings.errors import InconsistentStatus
from hpc.autoscale.ccbindings.models import ClusterNodearrayStatus, ClusterStatus, NodeList

M = TypeVar("M", bound=Mapping[str, Any])


def check_listing(
    cluster_name: str, status: ClusterStatus, node_list: NodeList | None = None
) -> None:
    """Raise InconsistentStatus, naming what disagrees, unless the listings account for the nodes in
    use.

    `node_list` is all nodes of the cluster, fetched after `status`. Without it, `status` must be
    one asked for with its nodes. Neither may list fewer nodes of a nodearray than its buckets
    count, and `status`, where it has a list, must list every node that a bucket names.
    """
    disagreements: list[str] = []
    if status.nodes is not None or node_list is None:
        disagreements.extend(_disagreements("status", status, status.nodes))
        disagreements.extend(_unlisted_names(status))
    if node_list is not None:
        disagreements.extend(_disagreements("nodes", status, node_list.nodes))
    if disagreements:
        raise InconsistentStatus(cluster_name, disagreements)


def answers(listing: NodeList, request_id: str) -> bool:
    """Whether a listing is about the request id that was asked for; else it lists all nodes."""
    if listing.operation is not None:
        return True
    return bool(listing.nodes) and all(
        record.get("RequestId") == request_id for record in listing.nodes
    )


def check_answers(cluster_name: str, listing: NodeList, request_id: str) -> None:
    """Raise InconsistentStatus unless a listing is about the creation that was asked for.

    Nodes carry the request id of their creation, so that the reply to another question is found
    out.
    """
    found = {record.get("RequestId") for record in listing.nodes or ()}
    others = [str(other) for other in found - {None, request_id}]
    if not answers(listing, request_id):
        count = len(listing.nodes or ())
        problem = f"{count} nodes and does not say for which operation it is"
    elif others:
        problem = f"those of request id {_some(sorted(others))}"
    elif not all(isinstance(each.get("Name"), str) for each in listing.nodes or ()):
        problem = "a node without a Name"
    else:
        return
    sentence = f"the reply to a question for the nodes of request id {request_id} lists {problem}"
    raise InconsistentStatus(cluster_name, [sentence])


def _disagreements(
    reply: str, status: ClusterStatus, records: Sequence[Mapping[str, Any]] | None
) -> Iterator[str]:
    """One sentence for each nodearray of which fewer nodes are listed than are in use."""
    in_use = {array.name: _active(array) for array in status.nodearrays or []}
    if records is None:
        if any(in_use.values()):
            yield f"the {reply} reply has no `nodes` while {_counts(in_use)}"
        return
    listed = Counter(record.get("Template") for record in distinct(records))
    short = {name: count for name, count in in_use.items() if listed[name] < count}
    if short and not records:
        yield f"the {reply} reply lists no nodes at all while {_counts(short)}"
        return
    for name, count in short.items():
        yield (
            f"the {reply} reply lists {listed[name]} nodes of nodearray {name} while its buckets"
            f" report activeCount {count}"
        )


def distinct(records: Iterable[M]) -> list[M]:
    """Each node once: the page of a listing that came twice is no second page."""
    return list({r.get("NodeId") or r.get("Name") or id(r): r for r in records}.values())


def _unlisted_names(status: ClusterStatus) -> Iterator[str]:
    """One sentence for each nodearray with nodes that a bucket names and the same reply does not
    list."""
    if status.nodes is None:
        return
    listed = {record.get("Name") for record in status.nodes}
    for array in status.nodearrays or []:
        named = {name for bucket in array.buckets or [] for name in bucket.active_nodes or []}
        missing = sorted(named - listed)
        if missing:
            yield (
                f"the status reply does not list {_some(missing)}, which nodearray {array.name}"
                " reports as active"
            )


def _active(array: ClusterNodearrayStatus) -> int:
    return sum(bucket.active_count or 0 for bucket in array.buckets or [])


def _counts(in_use: Mapping[str, int]) -> str:
    counted = [f"{name} reports {count} active" for name, count in in_use.items() if count]
    return f"the buckets of {_some(counted)}"


def _some(items: Iterable[str], most: int = 3) -> str:
    shown = list(items)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
