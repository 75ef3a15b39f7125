"""The side of a `NodeManager` that says which buckets there are, and how much the cluster and its regions may have and
have.

The numbers are those of the buckets' limits, shared by reference, so that nodes that were planned count at once.
"""

from __future__ import annotations

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.bucket import NodeBucket


class Capacity:
    """Buckets, and cores in all by cluster and by region."""

    _buckets: list[NodeBucket]

    def get_buckets(self) -> list[NodeBucket]:
        """The valid buckets, in order."""
        return [bucket for bucket in self._buckets if bucket.valid]

    @property
    def cluster_max_core_count(self) -> int:
        """Most cores the cluster can have; AssertionError when there is no bucket to tell."""
        return self._any_bucket().limits.cluster_max_core_count

    @property
    def cluster_consumed_core_count(self) -> int:
        """Cores the cluster uses; AssertionError when there is no bucket to tell."""
        return self._any_bucket().limits.cluster_consumed_core_count

    def _any_bucket(self) -> NodeBucket:
        for bucket in self._buckets:
            if not bucket._artificial:
                return bucket
        raise AssertionError("expected at least one bucket in the cluster, found none")

    def get_locations(self) -> list[ht.Location]:
        """Regions of all buckets, each once, in order."""
        return list(dict.fromkeys(bucket.location for bucket in self.get_buckets()))

    def get_regional_max_core_count(self, location: ht.Location) -> int:
        """Regional quota in cores; RuntimeError when no bucket is there."""
        return self._bucket_in(location).limits.regional_quota_core_count

    def get_regional_consumed_core_count(self, location: ht.Location) -> int:
        """Cores in use in a region; RuntimeError when no bucket is there."""
        return self._bucket_in(location).limits.regional_consumed_core_count

    def _bucket_in(self, location: ht.Location) -> NodeBucket:
        inside = [bucket for bucket in self.get_buckets() if bucket.location == location]
        if not inside:
            raise AutoscaleError(
                f"expected a region with buckets ({', '.join(self.get_locations())}), found {location!r}"
            )
        return next((bucket for bucket in inside if not bucket.spot), inside[0])
