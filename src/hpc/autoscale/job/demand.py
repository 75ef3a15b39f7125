"""What a demand calculation came to: the nodes to create, those in use, those that are not, and
those that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc.autoscale.hpctypes import BucketId
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.util import partition

if TYPE_CHECKING:
    from hpc.autoscale.results.costs import PlanCost


class DemandResult:
    """Nodes by what the demand says of them. `matched_nodes` includes the new ones; the lists
    belong to the caller.

    `cost`: what the plans of the least-cost mode come to; None without that mode, and before
    anything was planned.
    """

    def __init__(
        self,
        new_nodes: Sequence[Node],
        matched_nodes: Sequence[Node],
        unmatched_nodes: Sequence[Node],
        failed_nodes: Sequence[Node],
        buckets: Sequence[NodeBucket] = (),
        cost: PlanCost | None = None,
    ) -> None:
        self.new_nodes = list(new_nodes)
        self.matched_nodes = list(matched_nodes)
        self.unmatched_nodes = list(unmatched_nodes)
        self.failed_nodes = list(failed_nodes)
        self.buckets = list(buckets)
        self.cost = cost

    @property
    def compute_nodes(self) -> list[Node]:
        """Every node once: matched, then unmatched, then failed."""
        every = (*self.matched_nodes, *self.unmatched_nodes, *self.failed_nodes)
        return list({id(node): node for node in every}.values())

    @property
    def buckets_by_id(self) -> dict[BucketId, list[NodeBucket]]:
        """The buckets of each bucket id: the same machines, with and without placement groups."""
        return partition(self.buckets, lambda bucket: bucket.bucket_id)

    def __str__(self) -> str:
        return (
            f"DemandResult(new={len(self.new_nodes)}, matched={len(self.matched_nodes)}, "
            f"unmatched={len(self.unmatched_nodes)}, failed={len(self.failed_nodes)})"
        )

    __repr__ = __str__
