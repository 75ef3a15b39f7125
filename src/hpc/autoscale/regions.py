"""Region weights: which part of all nodes each region is to have.

`packing.policy.regions` of the configuration gives a weight to each region. Here weights become
shares (`packing.shares`), which are limits of the buckets of a region and count its nodes; the
engine opens new nodes by them. `share_out` takes any weights by region, wherever they come from;
those of the configuration are one source. Called by whoever makes a node manager, once in a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.limits import BucketLimits
from hpc.autoscale.packing.shares import NodeShare

Weights = Mapping[str, float]
"""The weight of each region, 0 or more."""

AUTO = "auto"
"""In the place of weights in a configuration: those that its section `weights` leads to."""

_WHERE = "packing.policy.regions"


def with_weights(
    config: dict[str, Any], current: Callable[[dict[str, Any]], Weights]
) -> dict[str, Any]:
    """The configuration with `current` weights in the place of `auto`. ConfigurationException where
    no section says how to come by them."""
    packing = config.get("packing") or {}
    policy = packing.get("policy")
    if not isinstance(policy, Mapping) or policy.get("regions") != AUTO:
        return config
    if not config.get("weights"):
        raise ConfigurationException(
            f"{_WHERE}: expected the section weights beside {AUTO!r}, found none"
        )
    return {**config, "packing": {**packing, "policy": {**policy, "regions": current(config)}}}


def without_current_weights(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without weights where it says `auto`: with the policy within a region
    alone. For whoever cannot ask what holds now."""
    packing = config.get("packing") or {}
    policy = packing.get("policy")
    if not isinstance(policy, Mapping) or policy.get("regions") != AUTO:
        return config
    others = {key: value for key, value in packing.items() if key != "policy"}
    within = {"policy": policy["within"]} if policy.get("within") else {}
    return {**config, "packing": {**others, **within}}


def has_weights(config: Mapping[str, Any]) -> bool:
    """Whether regions have weights in a configuration, `auto` included."""
    policy = (config.get("packing") or {}).get("policy")
    return isinstance(policy, Mapping) and policy.get("regions") is not None


def configured_weights(config: Mapping[str, Any]) -> Weights | None:
    """The weights in a configuration; None where there are none. ConfigurationException for weights
    that cannot be, or cannot be heeded beside other settings of `packing`."""
    if not has_weights(config):
        return None
    packing = config["packing"]
    policy = packing["policy"]
    if policy["regions"] == AUTO:
        raise ConfigurationException(
            f"{_WHERE}: expected weights by region, found {AUTO!r}, in the place of which the loop"
            " and azscale put current weights (hpc.autoscale.weights)"
        )
    weights: Weights = policy["regions"]
    for region, weight in weights.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < math.inf:
            raise ConfigurationException(
                f"{_WHERE}.{region}: expected a number, 0 or more, found {weight!r}"
            )
    if not any(weights.values()):
        raise ConfigurationException(f"{_WHERE}: expected a region with a weight above 0")
    for key, unusable in (("objective", "cost"), ("order", "declared")):
        if packing.get(key) == unusable:
            raise ConfigurationException(
                f"{_WHERE}: expected no weights of regions with packing.{key} {unusable!r},"
                " which does not heed them"
            )
    return weights


def share_out(
    weights: Weights,
    buckets: Sequence[NodeBucket],
    are_all: bool = True,
    without: Iterable[str] = (),
) -> Sequence[str]:
    """Give the buckets of each region the share that its weight makes of all nodes; a sentence on
    each region that has no weight, and so gets no nodes.

    `buckets` have the nodes that there are. Where they may not be all that there are (`are_all`),
    as when a cluster does not answer, a weight may be of a region that nobody knows;
    ConfigurationException otherwise. `without`: further regions, in which nodearrays have no
    buckets, as while they are disabled.
    """
    regions = list(dict.fromkeys(str(bucket.location) for bucket in buckets))
    known = list(dict.fromkeys((*regions, *without)))
    for region in weights:
        if are_all and region not in known:
            raise ConfigurationException(
                f"{_WHERE}: expected regions of the buckets ({', '.join(known)}), found"
                f" {region!r}{did_you_mean(region, known)}"
            )
    whole = _whole_numbers(weights)
    order = dict.fromkeys([*(r for r in whole if r in regions), *regions])
    shares = {region: NodeShare(f"Region {region}", whole.get(region, 0)) for region in order}
    for bucket in buckets:
        share = shares[str(bucket.location)]
        share.used_nodes += bucket.live_count
        if isinstance(bucket.limits, BucketLimits) and share not in bucket.limits.parts:
            bucket.limits.hold(share)
    for share in shares.values():
        share.opened()
    return [
        f"{_WHERE}: says nothing of {region}, where no new node is made"
        for region in regions
        if region not in weights
    ]


def shares_by_region(buckets: Sequence[NodeBucket]) -> dict[str, NodeShare]:
    """The share of new nodes that each region has; nothing where regions have no weights."""
    return {
        str(bucket.location): part
        for bucket in buckets
        if isinstance(bucket.limits, BucketLimits)
        for part in bucket.limits.parts
        if isinstance(part, NodeShare)
    }


@contextmanager
def going_first(share: NodeShare) -> Iterator[None]:
    """Meanwhile the region of a share is asked for the nodes of a gang before others are, however
    many it has."""
    share.is_first = True
    try:
        yield
    finally:
        share.is_first = False


def _whole_numbers(weights: Weights) -> dict[str, int]:
    """The same weights as whole numbers in the same proportions."""
    from fractions import Fraction

    exact = {region: Fraction(str(weight)) for region, weight in weights.items()}
    factor = math.lcm(*(each.denominator for each in exact.values()))
    return {region: int(each * factor) for region, each in exact.items()}
