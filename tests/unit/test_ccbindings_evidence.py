"""Whether a listing may be believed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.ccbindings.errors import InconsistentStatus
from hpc.autoscale.ccbindings.evidence import check_answers, check_listing
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodeList,
    OperationStatus,
    Record,
)


def status(
    nodes: list[dict[str, Any]] | None, named: list[str] | None = None, **active: int
) -> ClusterStatus:
    arrays = [
        ClusterNodearrayStatus(
            name=name, buckets=[NodearrayBucketStatus(active_count=count, active_nodes=named)]
        )
        for name, count in active.items()
    ]
    return ClusterStatus(nodearrays=arrays, nodes=nodes)


def records(template: str, count: int) -> list[dict[str, Any]]:
    return [{"Name": f"{template}-{i}", "Template": template} for i in range(1, count + 1)]


def test_no_nodes_at_all_while_some_are_active() -> None:
    """A reply without `nodes` says what the buckets say instead."""
    with pytest.raises(InconsistentStatus, match=r"cluster c: .*no `nodes`.*htc reports 3 active"):
        check_listing("c", status(None, htc=3))


def test_an_empty_listing_while_some_are_active() -> None:
    """In either of the two replies."""
    with pytest.raises(InconsistentStatus, match="the status reply lists no nodes at all"):
        check_listing("c", status([], htc=3))
    with pytest.raises(InconsistentStatus, match="the nodes reply lists no nodes at all"):
        check_listing("c", status(records("htc", 3), htc=3), NodeList(nodes=[]))


def test_a_listing_that_was_cut_short() -> None:
    """Fewer records of a nodearray than active nodes, though others are there."""
    nodes = [*records("scheduler", 5), *records("htc", 2)]
    with pytest.raises(InconsistentStatus, match=r"2 nodes of nodearray htc .* activeCount 3"):
        check_listing("c", status(nodes, htc=3))


def test_a_named_node_that_is_not_listed() -> None:
    """The counts may agree and the names not."""
    with pytest.raises(InconsistentStatus, match="does not list htc-9"):
        check_listing("c", status(records("htc", 2), named=["htc-1", "htc-9"], htc=2))


def test_an_empty_cluster_is_believed() -> None:
    """Nothing active and nothing listed agree, with or without `nodes`."""
    check_listing("c", status([], htc=0), NodeList(nodes=[]))
    check_listing("c", status(None, htc=0))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_a_listing_is_believed_unless_it_has_too_few(active: int, first: int, second: int) -> None:
    """More records than active nodes (terminating, off, deallocated) are fine; fewer never."""
    replies = status(records("htc", first), htc=active), NodeList(nodes=records("htc", second))
    if min(first, second) >= active:
        check_listing("c", *replies)
    else:
        with pytest.raises(InconsistentStatus):
            check_listing("c", *replies)


def test_the_reply_to_another_question() -> None:
    """A create is settled by its own nodes alone, and by none at all where it made none."""
    operation = OperationStatus(action="create", start_time="2026-01-01T00:00:00Z")
    own = NodeList(nodes=[Record(Name="htc-1", RequestId="mine")], operation=operation)
    check_answers("c", own, "mine")
    check_answers("c", NodeList(nodes=[], operation=operation), "mine")
    with pytest.raises(InconsistentStatus, match=r"request id other .* those of request id mine"):
        check_answers("c", own, "other")
