"""The price of an hour of a VM size in US dollars, before any discount.

Prices come from the package or from the user's own list. The packaged list (`vm_prices.json.gz`) is
read when a price is first asked for. Its spot prices are estimates: the on-demand price times the
ratio seen for the series in that region. Called by the cost reports and by least-cost packing;
usage and bills are not looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConfigurationException, is_number
from hpc.autoscale.node.vm_sizes.catalogue import RESOURCE_FILE, VM_SIZES
from hpc.autoscale.node.vm_sizes.overrides import Wrong, load_user_data

PRICE_FILE: str = os.path.join(os.path.dirname(RESOURCE_FILE), "vm_prices.json.gz")
"""Path of the price list that comes with the package."""

ANYWHERE = "*"
_KINDS = ("ondemand", "spot")


class Price(NamedTuple):
    """US dollars per hour; None means unknown."""

    ondemand: float | None = None
    spot: float | None = None


Prices = Mapping[str, Mapping[str, Price]]
"""location (or `*`) -> VM size -> price."""


class PriceList:
    """A list of prices; a user's own list comes before the packaged one.

    `configured` is what `settings` laid over the packaged list last.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.override: Prices = {}
        self.configured: object = None
        self._columns: dict[str, int] | None = None
        self._rows: Mapping[str, Sequence[float | None]] = {}
        self._ratios: dict[str, Mapping[str, float]] = {}
        # what was found, as thousands of nodes are of a few kinds
        self._found: dict[tuple[str, str, bool], float | None] = {}

    def use(self, override: Prices) -> None:
        """Lay the user's prices over the packaged ones, in place of those laid there before."""
        self.override = override
        self._found.clear()

    def _load(self) -> dict[str, int]:
        if self._columns is None:
            import gzip
            import json

            try:
                with gzip.open(self.path, "rt", encoding="utf-8") as stream:
                    data = json.load(stream)
                self._rows = data["usd_per_hour"]
                series = data["spot"].values()
                self._ratios = {size: each["ratio"] for each in series for size in each["sizes"]}
                self._columns = {name: index for index, name in enumerate(data["locations"])}
            except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
                logging.error(
                    "Cannot read the prices in %s, they are unknown: %s", self.path, error
                )
                self._columns = {}
        return self._columns

    def price(self, location: str, vm_size: str, spot: bool) -> float | None:
        """The price of one hour. A user's on-demand price is also what spot prices are estimated
        from.
        """
        kind = (location, vm_size, spot)
        if kind not in self._found:
            self._found[kind] = self._looked_up(location, vm_size, spot)
        return self._found[kind]

    def _looked_up(self, location: str, vm_size: str, spot: bool) -> float | None:
        own = self._own(location, vm_size)
        ondemand = own.ondemand if own.ondemand is not None else self._listed(location, vm_size)
        if not spot:
            return ondemand
        if own.spot is not None:
            return own.spot
        self._load()
        ratio = self._ratios.get(vm_size, {}).get(location)
        return None if ondemand is None or ratio is None else round(ondemand * ratio, 6)

    def _own(self, location: str, vm_size: str) -> Price:
        here = self.override.get(location, {}).get(vm_size, Price())
        anywhere = self.override.get(ANYWHERE, {}).get(vm_size, Price())
        return Price(
            here.ondemand if here.ondemand is not None else anywhere.ondemand,
            here.spot if here.spot is not None else anywhere.spot,
        )

    def _listed(self, location: str, vm_size: str) -> float | None:
        column = self._load().get(location)
        row = self._rows.get(vm_size)
        return None if column is None or row is None else row[column] or None


PRICES = PriceList(PRICE_FILE)


def price_per_hour(
    location: ht.Location, vm_size: ht.VMSize, spot: bool = False, stand_in: bool = False
) -> float | None:
    """US dollars for one hour of one machine; None when unknown, never 0.

    Regions without public prices (government ones) are unknown. With `stand_in` they are answered
    from the region whose sizes stand in for theirs, which is good enough to compare sizes with each
    other but not for a bill.
    """
    size = VM_SIZES.usual_name(vm_size)
    found = PRICES.price(location, size, spot)
    if found is None and stand_in and (other := VM_SIZES.stand_in(location)):
        return PRICES.price(other, size, spot)
    return found


def use_price_override(source: str | PathLike[str] | Mapping[str, Any] | list[Any] | None) -> None:
    """Let the user's prices win over the packaged ones from now on, in this process; None goes back
    to those.

    `source` is a JSON file or its contents: location (or `*` for all) -> VM size -> dollars per
    hour or `{"ondemand": …, "spot": …}`, or the items of Azure's Retail Prices API. Raises
    ConfigurationException.
    """
    PRICES.use({} if source is None else read_prices(source))


def read_prices(source: Any) -> Prices:
    """A user's price list. Raises ConfigurationException, with one line on the first thing that is
    wrong."""
    data, name = load_user_data(source, "VM price override")
    try:
        if isinstance(data, Mapping) and not isinstance(data.get("Items"), list):
            return _from_mapping(data)
        return _from_retail_items(data["Items"] if isinstance(data, Mapping) else data)
    except Wrong as wrong:
        raise ConfigurationException(f"{name}: {wrong}") from None


def _from_mapping(data: Mapping[str, Any]) -> Prices:
    prices: dict[str, dict[str, Price]] = {}
    for location, sizes in data.items():
        if location.startswith("_"):
            continue
        if not isinstance(sizes, Mapping):
            raise Wrong(location, f"expected prices by VM size, found {sizes!r}")
        for vm_size, given in sizes.items():
            size = VM_SIZES.usual_name(vm_size)
            prices.setdefault(location, {})[size] = _price(given, f"{location}.{vm_size}")
    return prices


def _price(given: Any, path: str) -> Price:
    if not isinstance(given, Mapping):
        return Price(_dollars(given, path))
    for kind in given:
        if kind not in _KINDS:
            raise Wrong(f"{path}.{kind}", f"expected {' or '.join(_KINDS)}")
    return Price(**{kind: _dollars(value, f"{path}.{kind}") for kind, value in given.items()})


def _dollars(value: Any, path: str) -> float:
    if not is_number(value) or value <= 0:
        raise Wrong(
            path, f"expected dollars per hour above 0, found {value!r} (leave out what is unknown)"
        )
    return float(value)


def _from_retail_items(items: Any) -> Prices:
    """The prices in items of the Retail Prices API.

    Only hourly Linux prices, on demand or spot, are taken; those in another currency than dollars
    are a mistake.
    """
    if not isinstance(items, list):
        raise Wrong("", f"expected prices by location or a list of retail items, found {items!r}")
    prices: dict[str, dict[str, Price]] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise Wrong(f"[{index}]", f"expected a retail item, found {item!r}")
        kind = _kind_of_meter(item)
        size, location = item.get("armSkuName"), item.get("armRegionName")
        if kind is None or not (isinstance(size, str) and size):
            continue
        if not (isinstance(location, str) and location):
            continue
        currency = item.get("currencyCode") or "USD"
        if currency != "USD":
            raise Wrong(f"[{index}].currencyCode", f"expected prices in USD, found {currency!r}")
        size = VM_SIZES.usual_name(size)
        sizes = prices.setdefault(location, {})
        known = sizes.get(size, Price())
        dollars = _dollars(item.get("retailPrice"), f"[{index}].retailPrice")
        sizes[size] = known._replace(**{kind: dollars})
    return prices


def _kind_of_meter(item: Mapping[str, Any]) -> str | None:
    texts = [str(item.get(key, "")) for key in ("productName", "skuName", "meterName")]
    is_hourly = item.get("unitOfMeasure") in (None, "", "1 Hour")
    if item.get("type") != "Consumption" or "Windows" in texts[0] or not is_hourly:
        return None
    if any(text.endswith("Low Priority") for text in texts):
        return None
    return "spot" if any(text.endswith("Spot") for text in texts) else "ondemand"
