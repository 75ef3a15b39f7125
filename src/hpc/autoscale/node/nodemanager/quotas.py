"""The limits that buckets share, made from what the server says of each bucket.

Regional quota is one account for all on-demand buckets of a region and another for all spot ones; a VM family's is one
account for a region; what spot nodes have in its place reads through to their region. The first bucket that says
something defines an account: older servers leave figures out, and what nobody says is no limit here.
"""

from __future__ import annotations

from typing import Any

from hpc.autoscale.ccbindings.models import NodearrayBucketStatus
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.limits import _SharedLimit, _SpotLimit

UNLIMITED = 2**31 - 1


def number(value: Any, default: int) -> int:
    """A figure of the server as a whole number; the default where it says nothing. ValueError, TypeError or OverflowError
    for what is none."""
    return default if value is None else int(value)


class Quotas:
    """Regional and family accounts of one cluster."""

    def __init__(self) -> None:
        self._regional: dict[tuple[str, bool], _SharedLimit] = {}
        self._families: dict[str, _SharedLimit] = {}

    def regional(self, d: NodeDefinition, bucket: NodearrayBucketStatus) -> _SharedLimit:
        """The quota of the bucket's region, spot or on-demand."""
        return _account(
            self._regional,
            (d.location, d.spot),
            f"{'Spot' if d.spot else 'Region'}({d.location})",
            bucket.regional_consumed_core_count,
            bucket.regional_quota_core_count,
        )

    def family(self, d: NodeDefinition, bucket: NodearrayBucketStatus) -> _SharedLimit:
        """The quota of the bucket's VM family in its region; that of the size where the family is not known."""
        if d.spot:
            return _SpotLimit(self.regional(d, bucket))
        name = f"{vm_sizes.quota_family(d.location, d.vm_size)}, {d.location}"
        # older servers report the family's figures under the plain names
        used, quota = bucket.family_consumed_core_count, bucket.family_quota_core_count
        if quota is None:
            used, quota = bucket.consumed_core_count, bucket.quota_core_count
        return _account(self._families, name, f"VM Family({name})", used, quota)


def _account(
    known: dict[Any, _SharedLimit], key: object, name: str, used: Any, quota: Any
) -> _SharedLimit:
    found = known.get(key)
    if found is None:
        found = known[key] = _SharedLimit(name, number(used, 0), number(quota, UNLIMITED))
    elif found.max_cores == UNLIMITED and quota is not None:
        # nobody has said how much there is so far
        said = _SharedLimit(name, number(used, 0), number(quota, UNLIMITED))
        found.max_cores, found.used_cores = said.max_cores, said.used_cores
        found.beyond_cores = said.beyond_cores
        found.opened()
    return found
