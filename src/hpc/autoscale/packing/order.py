"""In which order buckets are asked before any job has a wish of its own: as declared, or by a
policy.

A policy looks at the facts of one bucket and answers with a key; buckets are asked by ascending
key, equal ones as declared. Where it reads how many nodes a demand needs, buckets are put in order
for each distinct demand before new nodes are opened for it; else once for all. It decides about
order alone: which buckets may serve a job, and how much, is the same under every policy. What a job
prefers (earlier values of a list, earlier branches of `or`) is added to the order that the policy
gives, and so goes before it: a job knows more about itself than the site does. Policies under names
of an installed distribution are looked up in `node.nodemanager.policies`, which is also where the
facts come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hpc.autoscale.errors import AutoscaleError, one_line

RECENT_SECONDS = 3600.0
"""A capacity failure counts for an hour: autoscalers for Azure that retried after minutes met the
same failure again, and settled on about that long."""

HALF_LIFE_SECONDS = 1200.0
"""What a capacity failure weighs halves in this time. Three of them make `RECENT_SECONDS`, after
which an eighth is left, and is dropped."""

SHORTAGE_BY_SCORE = {"high": 0.0, "medium": 0.25, "low": 0.5}
"""What a spot placement score weighs: a low one as much as a capacity failure one half-life ago, a
medium one as much as one two half-lives ago. A score that is not given, or is another word, weighs
nothing: it tells of no shortage."""

Key = float | tuple[float, ...]
"""What buckets are sorted by: a number, or a tuple of as many numbers for every bucket."""


class PolicyError(AutoscaleError):
    """A policy gave an answer that buckets cannot be sorted by."""


def _unknown_price() -> float | None:
    return None


def _no_demand() -> None:
    return None


class Offering(NamedTuple):
    """What a policy knows of a bucket.

    `last_capacity_failure`: seconds since Azure had no capacity there; None for never, or not
    known. `spot_placement_score`: High, Medium or Low; None when the server does not say.
    `ask_price` and `ask_nodes_needed` are called when the price and the nodes are read."""

    nodearray: str
    vm_size: str
    location: str = ""
    spot: bool = False
    placement_group: str | None = None
    vcpu_count: int = 1
    gpu_count: int = 0
    last_capacity_failure: float | None = None
    spot_placement_score: str | None = None
    ask_price: Callable[[], float | None] = _unknown_price
    ask_nodes_needed: Callable[[], int | None] = _no_demand
    ask_share_of_node: Callable[[], float | None] = _no_demand

    @property
    def price_per_hour(self) -> float | None:
        """US dollars an hour of one node, spot where this is; None when unknown, never 0."""
        return self.ask_price()

    @property
    def nodes_needed(self) -> int | None:
        """How many new nodes of this bucket would take what is left of the demand, were there no
        limits. None where it is about no demand, but about which bucket's nodes to look at
        first."""
        return self.ask_nodes_needed()

    @property
    def share_of_node(self) -> float | None:
        """The dominant share of a new node of this bucket that one slot of the demand takes: the
        largest of its shares of the node's resources, 0 to 1; all of a node that takes nothing
        else. None where it is about no demand."""
        return self.ask_share_of_node()

    def __str__(self) -> str:
        group = f", pg={self.placement_group}" if self.placement_group else ""
        return f"{self.nodearray}, {self.vm_size}{group}"


class OrderPolicy(Protocol):
    """What an order policy is: a function from an `Offering` to the key that it is sorted by."""

    def __call__(self, offering: Offering, /) -> Key:
        """The key of a bucket; lower is asked earlier. It must be a number or a tuple of numbers,
        none of them NaN, and the same for the same offering: a plan must not depend on how often or
        in which order buckets are looked at."""


def declared(offering: Offering) -> float:
    """Buckets in the order in which the cluster declares them."""
    return 0


def cheapest(offering: Offering) -> tuple[float, float]:
    """By the price per hour of the new nodes that the demand needs there; where it is about no
    demand, by that of a node for each of its vCPUs. Buckets of unknown price last."""
    nodes, price = offering.nodes_needed, offering.price_per_hour
    if price is None:
        return (1, 0)
    return (0, price / max(1, offering.vcpu_count) if nodes is None else price * nodes)


def least_waste(offering: Offering) -> tuple[float, float, float]:
    """By the price of what one slot of the demand takes of a node: the price per hour times the
    dominant share. Of equal ones that where all that is left of the demand costs least, as less is
    left over when nobody else comes, and of these the fewest nodes; unknown prices last. Where it
    is about no demand, by the price of a node."""
    share, nodes, price = offering.share_of_node, offering.nodes_needed, offering.price_per_hour
    if price is None:
        price = math.inf
    return waste(price, 0.0 if share is None else share, 1 if nodes is None else nodes)


def waste(price: float, share: float, nodes: int) -> tuple[float, float, float]:
    """The key of `least_waste` for `nodes` nodes of a price, of which a slot takes a share. The
    price is infinite where it is unknown."""
    if price == math.inf:
        return (price, price, nodes)
    return (_rounded(price * share), _rounded(price * nodes), nodes)


def _rounded(cost: float) -> float:
    """A cost in nine digits, so that equal ones are equal numbers."""
    return float(f"{cost:.9g}")


def spot_first(offering: Offering) -> float:
    """Spot before regular; a spot bucket that had no capacity recently after regular ones, so that
    work does not wait for what cannot be had."""
    if not offering.spot:
        return 1
    return 2 if _failed_recently(offering) else 0


def capacity_aware(offering: Offering) -> float:
    """The less capacity seems to be short, the earlier: what recent capacity failures and the spot
    placement score weigh, added up. No bucket is left out."""
    score = str(offering.spot_placement_score or "").lower()
    shortage = SHORTAGE_BY_SCORE.get(score, 0.0) if offering.spot else 0.0
    if _failed_recently(offering):
        shortage += 0.5 ** (_since_failure(offering) / HALF_LIFE_SECONDS)
    return shortage


def _since_failure(offering: Offering) -> float:
    elapsed = offering.last_capacity_failure
    return math.inf if elapsed is None or elapsed < 0 else elapsed


def _failed_recently(offering: Offering) -> bool:
    return _since_failure(offering) < RECENT_SECONDS


BUILT_IN: dict[str, OrderPolicy] = {
    "declared": declared,
    "cheapest": cheapest,
    "least-waste": least_waste,
    "spot-first": spot_first,
    "capacity-aware": capacity_aware,
}
"""The policies that come with the library, by the names that the configuration knows them by."""

_registered: dict[str, OrderPolicy] = {}


def register_policy(name: str, policy: OrderPolicy) -> None:
    """Let a policy be known by a name in this process, also instead of one registered before.

    PolicyError for a name that is not a text or belongs to the library, and for a policy that
    cannot be called."""
    if not isinstance(name, str) or not name or name in BUILT_IN:
        raise PolicyError(
            f"expected a name for an order policy other than {', '.join(BUILT_IN)}, found {name!r}"
        )
    _registered[name] = checked(policy, name)


def unregister_policy(name: str) -> None:
    """Forget a registered policy; nothing happens when there is none of the name."""
    _registered.pop(name, None)


def known_policies() -> dict[str, OrderPolicy]:
    """The policies of the library and those registered in this process, by name."""
    return {**BUILT_IN, **_registered}


def checked(policy: object, name: str) -> OrderPolicy:
    """What is given as a policy, if it can be one: a function, or a class of such, which is
    instantiated. PolicyError."""
    found = policy() if isinstance(policy, type) else policy
    if not callable(found):
        raise PolicyError(
            f"order policy {name}: expected a function of an offering, found {found!r}"
        )
    policy_found: OrderPolicy = found
    return policy_found


def arranged(policy: OrderPolicy, offerings: Sequence[Offering]) -> list[int]:
    """The positions of offerings in the order in which they are to be asked; equals stay in order.
    PolicyError when keys are not numbers, or not alike, and when the policy raises anything."""
    name = f"order policy {getattr(policy, '__name__', type(policy).__name__)}"
    keys: list[tuple[float, ...]] = []
    for offering in offerings:
        try:
            key = policy(offering)
        except Exception as error:
            raise PolicyError(f"{name}: {one_line(error)}") from error
        keys.append(key if isinstance(key, tuple) else (key,))
        if not all(isinstance(part, (int, float)) and part == part for part in keys[-1]):
            expected = f"a number or a tuple of numbers for {offering}, found {key!r}"
            raise PolicyError(f"{name}: expected {expected}")
        if len(keys[-1]) != len(keys[0]):
            found = f"{keys[0]} for {offerings[0]} and {keys[-1]} for {offering}"
            raise PolicyError(f"{name}: expected keys of one length, found {found}")
    return sorted(range(len(keys)), key=keys.__getitem__)
