"""Order policies by name, and what they are told of a bucket.

Names are those of the library, those registered with `register_policy`, and those of the entry point group
`hpc.autoscale.packing`, which installed distributions offer; these are looked at only when a name is none of the others.
What a policy is, and what comes of it, is `packing.order`'s. Called by `NodeManager` and by who makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.order import (
    Offering,
    OrderPolicy,
    PolicyError,
    arranged,
    checked,
    declared,
    known_policies,
)
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.planner import Arrangement, Planner

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "hpc.autoscale.packing"
"""The entry point group in which distributions offer policies."""

DEFAULT = "declared"


def configured_policy(config: Mapping[str, Any]) -> str:
    """The name in `packing.policy`, `declared` when there is none. ConfigurationException for one that nobody knows, or
    whose policy cannot be had."""
    name = (config.get("packing") or {}).get("policy", DEFAULT)
    policy_named(name, "packing.policy: ")
    return str(name)


def policy_named(name: object, where: str = "") -> OrderPolicy:
    """The policy of a name. ConfigurationException, with `where` before its text, when there is none or it cannot be had."""
    known = known_policies()
    if isinstance(name, str) and name in known:
        return known[name]
    # takes as long to import as the rest of the library
    from importlib.metadata import entry_points

    offered = entry_points(group=ENTRY_POINTS)
    if isinstance(name, str) and name in offered.names:
        return _loaded(offered[name], where)
    names = [*known, *sorted(offered.names - known.keys())]
    hint = did_you_mean(name, names) if isinstance(name, str) else ""
    raise ConfigurationException(
        f"{where}expected an order policy ({', '.join(names)}), found {name!r}{hint}"
    )


def _loaded(offered: EntryPoint, where: str) -> OrderPolicy:
    try:
        return checked(offered.load(), offered.name)
    except (ImportError, AttributeError, TypeError, PolicyError) as error:
        raise ConfigurationException(
            f"{where}the order policy {offered.name!r} ({offered.value}) cannot be had: {error}"
        ) from error


def offering_of(bucket: NodeBucket) -> Offering:
    """What a policy is told of a bucket. A region without public prices has those of the one that stands in for it: good
    enough to compare sizes with."""
    location, vm_size, spot = bucket.location, bucket.vm_size, bucket.spot
    return Offering(
        nodearray=bucket.nodearray,
        vm_size=vm_size,
        location=location,
        spot=spot,
        placement_group=bucket.placement_group,
        vcpu_count=bucket.vcpu_count,
        gpu_count=bucket.gpu_count,
        last_capacity_failure=bucket.last_capacity_failure,
        spot_placement_score=bucket.spot_placement_score,
        # read for each demand, where a policy reads it at all
        ask_price=cache(lambda: price_per_hour(location, vm_size, spot, stand_in=True)),
    )


class Ordered:
    """The side of a `NodeManager` that knows in which order buckets are asked."""

    _planner: Planner
    _by_candidate: dict[Candidate, NodeBucket]
    _order_policy: str | OrderPolicy = DEFAULT

    @property
    def order_policy(self) -> str | OrderPolicy:
        """The policy that decides in which order buckets are asked, as it was given: a name, or a policy."""
        return self._order_policy

    def set_order_policy(self, policy: str | OrderPolicy) -> None:
        """Ask buckets in this order from now on; what is placed stays. A name of `packing.policy`, or any function of an
        `Offering`. ConfigurationException for a name that nobody knows, PolicyError for what is no policy.
        """
        found = policy_named(policy) if isinstance(policy, str) else checked(policy, repr(policy))
        self._order_policy = policy
        self._planner.arrange = None if found is declared else lambda s: self._arranged(found, s)
        self._planner.forget_rankings()

    def _arranged(self, policy: OrderPolicy, candidates: Sequence[Candidate]) -> Arrangement:
        known = {candidate: offering_of(self._by_candidate[candidate]) for candidate in candidates}
        asked: list[None] = []
        offerings = [
            o._replace(ask_nodes_needed=lambda: asked.append(None)) for o in known.values()
        ]
        order = arranged(policy, offerings)

        as_declared = {candidate: number for number, candidate in enumerate(known)}

        def by_need(some: Sequence[Candidate], nodes: Sequence[int]) -> list[int]:
            places = sorted(range(len(some)), key=lambda place: as_declared[some[place]])
            needs = [
                known[some[place]]._replace(ask_nodes_needed=partial(int, nodes[place]))
                for place in places
            ]
            return [places[found] for found in arranged(policy, needs)]

        return Arrangement([candidates[index] for index in order], by_need if asked else None)

    def _ordered_buckets(self, expr: Expr, request: Request) -> list[NodeBucket]:
        """The valid buckets, in the order in which they are asked before what a job prefers that needs so much."""
        buckets = (
            self._by_candidate[candidate] for candidate in self._planner.arranged(expr, request)
        )
        return [bucket for bucket in buckets if bucket.valid]
