"""Which of several prices is the price of a machine. Pure; nothing is asked or read here.

An item is an object of Azure's Retail Prices API, as decoded. For one VM size in one region the API
lists reservations, Windows, spot, old low-priority and developers' prices side by side. `azurecost`
calls this.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale.errors import is_number

Item = dict[str, Any]

CATALOGUE_METER = "offline catalogue"
"""In the place of a meter's name: the price comes with the library, because the service could not
be asked."""

CATALOGUE_SPOT_METER = "offline catalogue (spot estimate)"


def choose(
    items: Iterable[Item], sku_name: str, region: str, spot: bool, windows: bool = False
) -> Item | None:
    """The first item that is an hourly pay-as-you-go price of exactly this kind of machine.

    None when there is none. A spot price is never answered with an on-demand price, nor the other
    way round. Letter case does not matter in names. Where an item lacks the name of its size or
    region, it is taken to be the one asked for.
    """
    for item in items:
        is_for = _says(item, "armSkuName", sku_name) and _says(item, "armRegionName", region)
        if (
            is_for
            and _is_hourly_price(item)
            and (_is_spot(item), _is_windows(item)) == (spot, windows)
        ):
            return item
    return None


def rate_of(item: Mapping[str, Any]) -> float | None:
    """The price of one hour in an item; None when it is not a number above 0."""
    price = item.get("retailPrice")
    return float(price) if is_number(price) and price > 0 else None


def catalogue_item(sku_name: str, region: str, spot: bool, dollars: float) -> Item:
    """A price of the catalogue in the form of an item; its meter is named after the catalogue."""
    return {
        "armRegionName": region,
        "armSkuName": sku_name,
        "currencyCode": "USD",
        "meterId": "",
        "meterName": CATALOGUE_SPOT_METER if spot else CATALOGUE_METER,
        "retailPrice": dollars,
        "serviceName": "Virtual Machines",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        "unitPrice": dollars,
    }


def text_of(item: Mapping[str, Any], key: str) -> str:
    """A text of an item under a key; empty when it has none."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _says(item: Item, key: str, wanted: str) -> bool:
    return text_of(item, key).lower() in ("", wanted.lower())


def _is_hourly_price(item: Item) -> bool:
    per_hour = text_of(item, "unitOfMeasure") in ("", "1 Hour")
    consumed = item.get("type") == "Consumption"
    return per_hour and consumed and not _is_called(item, "Low Priority") and bool(rate_of(item))


def _is_spot(item: Item) -> bool:
    return _is_called(item, "Spot")


def _is_called(item: Item, words: str) -> bool:
    """Whether the name of the meter or of the SKU contains these words."""
    names = f"{text_of(item, 'meterName')}\n{text_of(item, 'skuName')}"
    return re.search(rf"\b{words}\b", names, re.IGNORECASE) is not None


def _is_windows(item: Item) -> bool:
    return "windows" in text_of(item, "productName").lower()
