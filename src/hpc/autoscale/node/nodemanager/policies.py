"""Order policies by name, and what they are told of a bucket.

Names are those of the library, those registered with `register_policy`, and those of the entry
point group `hpc.autoscale.packing`, which installed distributions offer; these are looked at only
when a name is none of the others. What a policy is, and what comes of it, is `packing.order`'s.
Called by `placing` and by who makes a manager."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Any

from hpc.autoscale.entrypoints import offered
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import ByNeed, Cursor
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.order import (
    Offering,
    OrderPolicy,
    arranged,
    checked,
    declared,
    known_policies,
    least_waste,
    waste,
)
from hpc.autoscale.packing.planner import Arrangement, Planner

ENTRY_POINTS = "hpc.autoscale.packing"
"""The entry point group in which distributions offer policies."""

DEFAULT = "declared"


def configured_policy(config: Mapping[str, Any]) -> str:
    """The name in `packing.policy`, or in its `within` where it has weights of regions; `declared`
    when there is none. ConfigurationException for one that nobody knows, or whose policy cannot be
    had."""
    name, where = (config.get("packing") or {}).get("policy", DEFAULT), "packing.policy"
    if isinstance(name, Mapping):
        name, where = name.get("within", DEFAULT), f"{where}.within"
    policy_named(name, f"{where}: ")
    return str(name)


def policy_named(name: object, where: str = "") -> OrderPolicy:
    """The policy of a name. ConfigurationException, with `where` before its text, when there is
    none or it cannot be had."""
    known = known_policies()
    if isinstance(name, str) and name in known:
        return known[name]
    return offered(ENTRY_POINTS, name, "an order policy", known, checked, where)


def offering_of(bucket: NodeBucket) -> Offering:
    """What a policy is told of a bucket. A region without public prices has those of the one that
    stands in for it: good enough to compare sizes with."""
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


_Resource = tuple[str, bool]
"""A resource, and whether amounts of it are in bytes."""


class _ByWaste:
    """`least_waste` for all candidates of a cursor at once, with what `arrangement` would find.
    `otherwise`: for demands that are none of those.

    Most demands are for one slot and ask for amounts alone. Their order depends on how the amounts
    are to each other: one candidate takes over from another only where two resources cost the same,
    one on each. So it is worked out once for all demands between two such points."""

    def __init__(self, offerings: Mapping[Candidate, Offering], otherwise: ByNeed) -> None:
        self._prices = {
            candidate: math.inf if offering.price_per_hour is None else offering.price_per_hour
            for candidate, offering in offerings.items()
        }
        self._otherwise = otherwise
        self._turns: dict[tuple[_Resource, _Resource], Sequence[float]] = {}
        self._orders: dict[object, Sequence[int]] = {}

    def __call__(self, cursor: Cursor, units: int, per_node: int) -> Sequence[int]:
        """See `ByNeed`."""
        amounts = cursor.expr.whole_amounts() if units == 1 and per_node == UNBOUNDED else None
        if amounts is None:
            return self._otherwise(cursor, units, per_node)
        key = (cursor.candidates, self._class_of(amounts))
        found = self._orders.get(key)
        if found is None:
            keys = [
                (0.0,) if each.artificial else waste(self._prices[each], _share(each, amounts), 1)
                for each in cursor.candidates
            ]
            found = self._orders[key] = sorted(range(len(keys)), key=keys.__getitem__)
        return found

    def _class_of(self, amounts: Sequence[tuple[str, int, bool]]) -> object:
        """What all demands for one slot share that have the same order: which resources they ask
        for, and where the ratio of each two of them lies among the points where the order turns."""
        asked = [((name, sized), amount) for name, amount, sized in amounts]
        found: list[object] = [resource for resource, _ in asked]
        for (one, much), (other, more) in combinations(asked, 2):
            turns = self._turns.get((one, other))
            if turns is None:
                turns = self._turns[one, other] = self._turns_of(one, other)
            ratio = much / more
            found += bisect_left(turns, ratio * (1 - 1e-9)), bisect_right(turns, ratio * (1 + 1e-9))
        return tuple(found)

    def _turns_of(self, one: _Resource, other: _Resource) -> Sequence[float]:
        """The ratios of amounts of two resources at which one costs in some candidate what the
        other costs in some."""
        ones, others = (
            {price * _part(candidate, *each) for candidate, price in self._prices.items()}
            for each in (one, other)
        )
        found = {b / a for a in ones if 0 < a < math.inf for b in others if b < math.inf}
        return sorted(found)


def _share(candidate: Candidate, amounts: Sequence[tuple[str, int, bool]]) -> float:
    """The dominant share of a new node that amounts take, each of them above 0."""
    return max(amount * _part(candidate, name, sized) for name, amount, sized in amounts)


def _part(candidate: Candidate, name: str, sized: bool) -> float:
    """The part of what a new node has of a resource that one of it is, or one byte (`sized`)."""
    shape = candidate.new_shape
    free, unit = shape.free.get(name), shape.units.get(name)
    if not isinstance(free, (int, float)) or free <= 0:
        return math.inf
    return (1.0 if sized or unit is None else unit.factor) / free


def arrangement(policy: OrderPolicy, known: Mapping[Candidate, Offering]) -> Arrangement:
    """The order that a policy gives to candidates, also by what a demand needs. PolicyError."""
    candidates = list(known)
    asked: set[str] = set()

    def without_demand(offering: Offering) -> Offering:
        """One that notes what a policy reads of a demand."""
        return offering._replace(
            ask_nodes_needed=lambda: asked.add("nodes"),
            ask_share_of_node=lambda: asked.add("share"),
        )

    order = arranged(policy, [without_demand(offering) for offering in known.values()])
    as_declared = {candidate: number for number, candidate in enumerate(known)}

    def by_need(cursor: Cursor, units: int, per_node: int) -> list[int]:
        found = [cursor.needed(i, units, per_node) for i in range(len(cursor.candidates))]
        # a candidate that can have no new nodes costs nothing to ask
        first = [i for i, new in enumerate(found) if new is None]
        others = [i for i, new in enumerate(found) if new is not None]
        others.sort(key=lambda i: as_declared[cursor.candidates[i]])
        needs = [
            known[cursor.candidates[i]]._replace(
                ask_nodes_needed=partial(getattr, found[i], "nodes"),
                ask_share_of_node=partial(getattr, found[i], "share"),
            )
            for i in others
        ]
        return [*first, *(others[place] for place in arranged(policy, needs))]

    in_order = [candidates[index] for index in order]
    if policy is least_waste:
        return Arrangement(in_order, _ByWaste(known, by_need))
    return Arrangement(in_order, by_need if asked else None)


def arrange_by(
    policy: OrderPolicy, planner: Planner, bucket_of: Callable[[Candidate], NodeBucket]
) -> None:
    """Let a planner ask candidates in the order of a policy. What it knows of orders stays."""

    def arrange(candidates: Sequence[Candidate]) -> Arrangement:
        return arrangement(policy, {each: offering_of(bucket_of(each)) for each in candidates})

    planner.arrange = None if policy is declared else arrange
