"""What the simulator says in the place of Azure itself: tokens, spot placement scores and prices.

Scores follow from what the regions of the description can run and from their spot quotas, so they
change with them; prices are those of the catalogue. Called by `app`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from werkzeug.wrappers import Request, Response

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.errors import BadRequest
from hpc.autoscale.simulator.exchange import json_body, reply, text
from hpc.autoscale.simulator.reading import shown
from hpc.autoscale.simulator.runtime import Runtime

TOKEN = "simulated-token"

NAMES = ("get_token", "get_spot_scores", "get_prices")
"""The endpoints, of `faults.ENDPOINTS`, which take no credentials of CycleCloud's."""

_MOST_REGIONS = 8
_MOST_SIZES = 5
_FILTER = re.compile(r"(\w+) eq '([^']*)'")


def answer(
    runtime: Runtime, request: Request, endpoint: str, arguments: Mapping[str, str]
) -> Response:
    """Carry out a request for one of `NAMES`."""
    return _HANDLERS[endpoint](runtime, request)


def _token(runtime: Runtime, request: Request) -> Response:
    if request.headers.get("Metadata") != "true":
        raise BadRequest("expected the header Metadata: true")
    return reply({"access_token": TOKEN, "expires_in": "3600", "token_type": "Bearer"})


def _spot_scores(runtime: Runtime, request: Request) -> Response:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        error = {"code": "AuthenticationFailed", "message": "the token is missing or another"}
        return reply({"error": error}, 401)
    asked = json_body(request)
    regions = _texts(asked.get("desiredLocations"), "desiredLocations", _MOST_REGIONS)
    listed = asked.get("desiredSizes")
    each = [one.get("sku") if isinstance(one, Mapping) else one for one in _list(listed)]
    sizes = _texts(each, "desiredSizes", _MOST_SIZES)
    count = asked.get("desiredCount", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadRequest(f"desiredCount: expected a whole number, 1 or more, found {shown(count)}")
    scores = runtime.call(
        lambda cloud: [_score(cloud, region, size, count) for region in regions for size in sizes]
    )
    return reply({**asked, "placementScores": scores})


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object, key: str, most: int) -> list[str]:
    found = _list(value)
    if not 0 < len(found) <= most or not all(isinstance(each, str) for each in found):
        raise BadRequest(f"{key}: expected 1 to {most} names, found {shown(value)}")
    return found


def _score(cloud: Cloud, region: str, size: str, count: int) -> dict[str, Any]:
    """High where there is room for twice as many, Medium for as many, else Low."""
    said = {"sku": size, "region": region, "isQuotaAvailable": True}
    known = cloud.regions.get(region)
    if known is None:
        return {**said, "score": "DataNotFoundOrStale"}
    vcpus = vm_sizes.get_aux_vm_size_info(ht.Location(region), ht.VMSize(size)).vcpu_count
    taken = cloud.tally().taken(("spot quota", region)).cores
    said["isQuotaAvailable"] = taken + vcpus * count <= known.spot_quota
    room = cloud.orchestrator.capacity_left(region, size)
    is_high = room is None or room >= 2 * count
    return {**said, "score": "High" if is_high else "Medium" if room and room >= count else "Low"}


def _prices(runtime: Runtime, request: Request) -> Response:
    asked = dict(_FILTER.findall(text(request, "$filter") or ""))
    region, size = asked.get("armRegionName", ""), asked.get("armSkuName", "")
    items = list(_items(region, size)) if region and size else []
    return reply({"BillingCurrency": "USD", "Items": items, "NextPageLink": None})


def _items(region: str, size: str) -> Iterable[dict[str, Any]]:
    for spot in (False, True):
        price = vm_sizes.price_per_hour(ht.Location(region), ht.VMSize(size), spot)
        if price is not None:
            yield {
                "armRegionName": region,
                "armSkuName": size,
                "currencyCode": "USD",
                "meterName": f"{size} Spot" if spot else size,
                "retailPrice": price,
                "serviceName": "Virtual Machines",
                "skuName": f"{size} Spot" if spot else size,
                "type": "Consumption",
                "unitOfMeasure": "1 Hour",
                "unitPrice": price,
            }


_HANDLERS: Mapping[str, Callable[[Runtime, Request], Response]] = {
    "get_token": _token,
    "get_spot_scores": _spot_scores,
    "get_prices": _prices,
}
