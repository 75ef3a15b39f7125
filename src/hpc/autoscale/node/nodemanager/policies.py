"""Order policies by name, and what they are told of a bucket.

Names are those of the library, those registered with `register_policy`, and those of the entry
point group `hpc.autoscale.packing`, which installed distributions offer; these are looked at only
when a name is none of the others. What a policy is, and what comes of it, is `packing.order`'s.
Called by `placing` and by who makes a manager."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor, NewNodes
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.order import (
    COST_DIGITS,
    Offering,
    OrderPolicy,
    PolicyError,
    arranged,
    checked,
    known_policies,
    least_waste,
    waste,
)
from hpc.autoscale.packing.planner import Arrangement

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "hpc.autoscale.packing"
"""The entry point group in which distributions offer policies."""

DEFAULT = "declared"


def configured_policy(config: Mapping[str, Any]) -> str:
    """The name in `packing.policy`, `declared` when there is none. ConfigurationException for one
    that nobody knows, or whose policy cannot be had."""
    name = (config.get("packing") or {}).get("policy", DEFAULT)
    policy_named(name, "packing.policy: ")
    return str(name)


def policy_named(name: object, where: str = "") -> OrderPolicy:
    """The policy of a name. ConfigurationException, with `where` before its text, when there is
    none or it cannot be had."""
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


def _of(needed: NewNodes | None, what: str) -> Any:
    return getattr(needed, what)


class _ByWaste:
    """`least_waste` for all candidates of a cursor at once, with what `arrangement` would find.
    Most demands ask for amounts and nothing else, and then no node need be asked how much it
    takes."""

    def __init__(self, offerings: Mapping[Candidate, Offering]) -> None:
        self._prices = {
            candidate: math.inf if offering.price_per_hour is None else offering.price_per_hour
            for candidate, offering in offerings.items()
        }
        ordered = arranged(least_waste, list(offerings.values()))
        candidates = list(offerings)
        self._place = {candidates[index]: place for place, index in enumerate(ordered)}
        # by resource and whether amounts of it are in bytes: what the part of a node costs that one
        # is
        self._rates: dict[tuple[str, bool], dict[Candidate, float]] = {}

    def __call__(self, cursor: Cursor, units: int, per_node: int) -> Sequence[int]:
        """See `ByNeed`."""
        candidates = cursor.candidates
        amounts = cursor.expr.whole_amounts() if per_node == UNBOUNDED else None
        if amounts is None:
            needed = [cursor.needed(i, units, per_node) for i in range(len(candidates))]
            keys = [
                waste(self._prices[candidate], 0.0 if new is None else new.share)
                for candidate, new in zip(candidates, needed, strict=True)
            ]
        else:
            costs: Iterable[float] = repeat(0.0, len(candidates))
            for name, amount, sized in amounts:
                rates = self._rates_of(name, sized)
                if amount > 0:
                    costs = map(max, costs, [amount * rates[each] for each in candidates])
            keys = [round(cost, COST_DIGITS) for cost in costs]
        places: Iterable[int] = range(len(keys))
        if cursor.expr.weighs:
            # equals are in the order for no demand, as they are where the job prefers nothing
            places = sorted(places, key=lambda place: self._place[candidates[place]])
        return sorted(places, key=keys.__getitem__)

    def _rates_of(self, name: str, sized: bool) -> Mapping[Candidate, float]:
        found = self._rates.get((name, sized))
        if found is None:
            found = {s: price * _part(s, name, sized) for s, price in self._prices.items()}
            self._rates[name, sized] = found
        return found


def _part(candidate: Candidate, name: str, sized: bool) -> float:
    """The part of what a new node has of a resource that one of it is, or one byte (`sized`)."""
    shape = candidate.new_shape
    free, unit = shape.free.get(name), shape.units.get(name)
    if not isinstance(free, (int, float)) or free <= 0:
        return math.inf
    return (1.0 if sized or unit is None else unit.factor) / free


def arrangement(policy: OrderPolicy, known: Mapping[Candidate, Offering]) -> Arrangement:
    """The order that a policy gives to candidates, and how it depends on what a demand needs.
    PolicyError."""
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
                ask_nodes_needed=partial(_of, found[i], "nodes"),
                ask_share_of_node=partial(_of, found[i], "share"),
            )
            for i in others
        ]
        return [*first, *(others[place] for place in arranged(policy, needs))]

    in_order = [candidates[index] for index in order]
    if policy is least_waste:
        return Arrangement(in_order, _ByWaste(known), True)
    return Arrangement(in_order, by_need if asked else None, "share" in asked)
