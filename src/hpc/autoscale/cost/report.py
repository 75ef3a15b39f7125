"""Rows of costs, made of the usage that CycleCloud reports. Pure: the caller brings the prices.

CycleCloud reports core-hours for each VM size of each nodearray; prices are per hour of a whole
machine. `azurecost` calls this.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpc.autoscale.ccbindings.models import (
    ClusterUsageInterval,
    ClusterUsageItem,
    ClusterUsageItemDetails,
)
from hpc.autoscale.cost.formats import (
    az_array_hourly_retail_t,
    az_array_retail_t,
    az_job_retail_t,
)
from hpc.autoscale.hpctypes import Location, VMSize
from hpc.autoscale.node.vm_sizes import get_aux_vm_size_info

SERVER_METER = "CycleCloud estimate"
"""In the place of a meter's name: no price is known, and the cost is the one that the server itself
has worked out."""


class PriceKey(NamedTuple):
    """What is priced: a VM size in a region, at spot price or not, with Windows or without."""

    sku_name: str
    region: str
    spot: bool
    windows: bool


Pricing = Callable[[PriceKey], az_job_retail_t | None]
"""The price of a machine; None when it is not known."""


def interval_rows(interval: ClusterUsageInterval, price: Pricing) -> Iterator[az_array_retail_t]:
    """A row for each VM size of each nodearray, in the server's order.

    What is not known is None, never 0. A nodearray of which the server gives no details has one row
    without a machine.
    """
    for item in interval.breakdown:
        if item.category != "nodearray":
            continue
        for details in item.details or [_undivided(item)]:
            yield _row(item.node or "", details, price)


def hourly_rows(
    interval: ClusterUsageInterval, price: Pricing
) -> Iterator[az_array_hourly_retail_t]:
    """The rows of `interval_rows` with the times of the interval before them."""
    for row in interval_rows(interval, price):
        yield az_array_hourly_retail_t(interval.start, interval.end, *row)


def price_key_of(details: ClusterUsageItemDetails) -> PriceKey:
    """What is asked of a price list for the machine that was used."""
    return PriceKey(
        details.vm_size or "",
        details.region or "",
        (details.priority or "").lower() == "spot",
        (details.os or "").lower() == "windows",
    )


def _undivided(item: ClusterUsageItem) -> ClusterUsageItemDetails:
    return ClusterUsageItemDetails(hours=item.hours, cost=item.cost)


def _row(nodearray: str, details: ClusterUsageItemDetails, price: Pricing) -> az_array_retail_t:
    key = price_key_of(details)
    priced = price(key) if key.sku_name and key.region else None
    hours = _machine_hours(details)
    if priced is not None and priced.rate is not None and hours is not None:
        return az_array_retail_t(nodearray, details.hours, hours * priced.rate, *priced)
    size, region, spot, _ = key
    meter, currency = ("", "") if details.cost is None else (SERVER_METER, "USD")
    unpriced = az_job_retail_t(size, region, spot, meter, "", "", None, currency)
    return az_array_retail_t(nodearray, details.hours, details.cost, *unpriced)


def _machine_hours(details: ClusterUsageItemDetails) -> float | None:
    """Hours of whole machines; None when they cannot be worked out.

    The catalogue gives the cores of a machine when the server does not.
    """
    cores: float = details.core_count or 0
    if cores <= 0 and details.vm_size and details.region:
        location, size = Location(details.region), VMSize(details.vm_size)
        cores = get_aux_vm_size_info(location, size).vcpu_count
    return None if details.hours is None or cores <= 0 else details.hours / cores
