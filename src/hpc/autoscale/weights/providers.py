"""What weights of regions are made from: providers by name.

A provider answers a `WeightQuestion` with a weight for each region: 0 for never, None where it
knows nothing of a region. It may raise anything; whoever asks keeps the last good weights then.
Floats only mean something beside each other; whole numbers are compared with those that it gave
before. Providers of installed distributions are entry points of the group `hpc.autoscale.weights`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.entrypoints import offered
from hpc.autoscale.errors import AutoscaleError, ConfigurationException
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.weights.scores import MANAGEMENT_URL, METADATA_URL, PlacementScores

ENTRY_POINTS = "hpc.autoscale.weights"


class WeightsError(AutoscaleError):
    """Weights cannot be worked out. The text says of what, and why."""


@dataclass(frozen=True)
class WeightQuestion:
    """What weights are asked for: of which `regions`, for how many machines (`count`) of which VM
    `sizes`, spot or not. `settings`: the section `weights`; `config`: all of the configuration."""

    regions: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    count: int = 1
    spot: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


Answer = Mapping[str, float | None]


class WeightProvider(Protocol):
    """What a provider is: a function of a question."""

    def __call__(self, question: WeightQuestion, /) -> Answer:
        """A weight for each region; None, or nothing, where it knows none."""


def static(question: WeightQuestion) -> Answer:
    """The weights that the configuration has under `static`; 0 for other regions."""
    given: Mapping[str, int] = question.settings.get("static") or {}
    return {region: given.get(region, 0) for region in question.regions}


def spot_score(question: WeightQuestion) -> Answer:
    """By Azure's spot placement score, of the size for which it is best: 9 for High, 4 for Medium,
    1 for Low, 0 where no size has quota. A size of which nothing is known may have some."""
    _require_sizes(question, "spot-score")
    subscription = question.settings.get("subscription")
    if not subscription:
        raise ConfigurationException(
            "weights.subscription: expected the id of a subscription for spot-score, found none"
        )
    service = PlacementScores(
        str(subscription),
        str(question.settings.get("management_url") or MANAGEMENT_URL),
        str(question.settings.get("metadata_url") or METADATA_URL),
    )
    scores = service.of(question.regions, question.sizes, question.count)
    return {region: _best(scores[region].values()) for region in question.regions}


def _best(weights: Iterable[float | None]) -> float | None:
    every = list(weights)
    known = [weight for weight in every if weight is not None]
    if any(known) or len(known) == len(every):
        return max(known)
    return None


def price(question: WeightQuestion) -> Answer:
    """(1 / price) to the power of `exponent`: the price of a vCPU for an hour, in the size where
    that is least; the cheapest region has 1. Prices in another currency than that of most are not
    heeded, as those of the catalogue beside a service that has others. PriceServiceError where the
    service says none of any region, and the catalogue has none either."""
    _require_sizes(question, "price")
    # takes long to import
    from hpc.autoscale.cost.azurecost import azurecost
    from hpc.autoscale.cost.errors import PriceServiceError, PriceUnknown

    # what a machine costs is of no cluster, and of several none is named here
    cluster = question.config.get("cluster_name") or "-"
    costs = azurecost({**question.config, "cluster_name": cluster})
    missing: list[PriceServiceError] = []
    currencies: Counter[str] = Counter()
    quotes: list[tuple[str, str, float]] = []
    for region, size in product(question.regions, question.sizes):
        cores = vm_sizes.get_aux_vm_size_info(ht.Location(region), ht.VMSize(size)).vcpu_count
        try:
            quoted = costs.get_job(size, region, question.spot)
        except PriceUnknown:
            continue
        except (
            PriceServiceError
        ) as error:  # of one that is away, the catalogue has this one neither
            logging.warning("weights: no price of %s in %s: %s", size, region, error.short)
            missing.append(error)
            continue
        if quoted.rate and cores > 0:
            currency = quoted.currency.upper()
            currencies[currency] += 1
            quotes.append((region, currency, quoted.rate / cores))
    if missing and not quotes:
        raise missing[0]
    usual = currencies.most_common(1)
    prices: dict[str, float] = {}
    for region, currency, each in quotes:
        if currency == usual[0][0]:
            prices[region] = min(each, prices.get(region, each))
    given = question.settings.get("exponent")
    exponent = 1.0 if given is None else float(given)  # with 0 all regions are alike
    least = min(prices.values(), default=0.0)
    # however dear, it is not never: with a large exponent it would be
    return {r: max(sys.float_info.min, (least / p) ** exponent) for r, p in prices.items()}


def _require_sizes(question: WeightQuestion, name: str) -> None:
    if not question.sizes:
        raise ConfigurationException(
            f"weights.sizes: expected one VM size or more for {name}, found none"
        )


BUILT_IN: Mapping[str, WeightProvider] = {
    "static": static,
    "spot-score": spot_score,
    "price": price,
}
"""The providers that come with the library, by name."""

BLEND = "blend"


def provider_named(name: object) -> WeightProvider:
    """The provider of a name. ConfigurationException when there is none, or it cannot be had."""
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]
    known = [*BUILT_IN, BLEND] if name != BLEND else BUILT_IN
    return offered(ENTRY_POINTS, name, "a provider", known, _checked_function, "weights: ")


def _checked_function(found: Any, name: str) -> WeightProvider:
    if not callable(found):
        raise WeightsError(f"expected a function, found {found!r}")
    provider: WeightProvider = found
    return provider


def ask(name: str, question: WeightQuestion) -> dict[str, float | None]:
    """The answer of a provider, or of a blend of some, with every region of the question.

    Each provider of a blend counts by its share under `blend`, and each of its weights by its
    share of them all. A region that one of them says never to has 0. WeightsError for an answer
    that cannot be used.
    """
    if name != BLEND:
        return _checked(name, provider_named(name)(question), question)
    shares: Mapping[str, float] = question.settings.get("blend") or {}
    if not any(shares.values()):
        raise ConfigurationException(
            "weights.blend: expected providers with a share above 0 for some, found none"
        )
    answers = {
        each: _checked(each, provider_named(each)(question), question)
        for each, share in shares.items()
        if share
    }
    wholes = {each: sum(w or 0.0 for w in answer.values()) for each, answer in answers.items()}
    blended: dict[str, float | None] = {}
    for region in question.regions:
        weights = {each: answer[region] for each, answer in answers.items()}
        known = {each: weight for each, weight in weights.items() if weight is not None}
        if 0 in known.values():
            blended[region] = 0.0
        elif len(known) < len(weights):
            blended[region] = None
        else:
            blended[region] = sum(shares[each] * w / wholes[each] for each, w in known.items())
    return blended


def _checked(name: str, answer: object, question: WeightQuestion) -> dict[str, float | None]:
    """The answer, with every region of the question. WeightsError unless weights are numbers of 0
    or more."""
    if not isinstance(answer, Mapping):
        raise WeightsError(f"weights: {name}: expected weights by region, found {answer!r}")
    found: dict[str, float | None] = {}
    for region in question.regions:
        weight = answer.get(region)
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if weight is not None and not (is_number and math.isfinite(weight) and weight >= 0):
            raise WeightsError(
                f"weights: {name}: {region}: expected a number of 0 or more, found {weight!r}"
            )
        found[region] = weight
    return found
