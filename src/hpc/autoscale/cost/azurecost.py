"""The published `azurecost`: prices per hour of VM sizes, and the costs of a cluster's nodearrays.

Prices are Azure's retail prices, or the catalogue's while the price service cannot be reached.
Usage is what CycleCloud reports. Cost reports of integrations call this; importing it and making an
object of it read nothing.
"""

import csv
import functools
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, TextIO

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import clusters
from hpc.autoscale.ccbindings.auth import resolve_credentials
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.models import ClusterUsage
from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.cost.cache import ResponseCache, default_directory
from hpc.autoscale.cost.errors import (
    ClusterNameMissing,
    CostError,
    InvalidQuestion,
    PriceServiceError,
    PriceServiceUnavailable,
    PriceUnknown,
)
from hpc.autoscale.cost.formats import (
    az_array_hourly_retail_t,
    az_array_hourly_t,
    az_array_retail_t,
    az_array_t,
    az_job_retail_t,
    az_job_t,
)
from hpc.autoscale.cost.rates import Item, catalogue_item, choose, rate_of, text_of
from hpc.autoscale.cost.report import PriceKey, hourly_rows, interval_rows
from hpc.autoscale.cost.retail import API, RetailPrices
from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.hpctypes import Location, VMSize
from hpc.autoscale.node import vm_sizes

Moment = datetime | date | str
"""A time: UTC where it does not say otherwise; a text is ISO-8601."""

_GRANULARITIES = ("total", "daily", "hourly")


class azurecost:
    """Costs of the cluster `cluster_name` of the configuration; ClusterNameMissing (a ValueError)
    without one.

    `cost.cache_root` says where answers of the price service are kept, instead of the user's cache
    directory. `prices_url`, or `cost.prices_url` of the configuration, is another price service
    than Azure's, for a mirror or a test; `pacing` is how patiently servers are asked. `prices`: the
    price service of another one, in the place of one of its own, so that one that does not answer
    is waited for once.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        prices_url: str | None = None,
        pacing: Pacing | None = None,
        prices: RetailPrices | None = None,
    ) -> None:
        self.config = config
        self.cluster_name = _cluster_name(config)
        self._pacing = pacing
        directory = default_directory(_setting(config, "cache_root", "a directory"))
        url = prices_url or _setting(config, "prices_url", "an address") or API
        self.prices = prices or RetailPrices(ResponseCache(directory), url, pacing=pacing)
        self._client: Client | None = None
        self._reported_outage: PriceServiceUnavailable | None = None
        self.problem = ""
        """Why the price service did not say what something costs, the last time that it did not."""

    # -- what rows look like

    def get_job_format(self) -> type[az_job_retail_t] | type[az_job_t]:
        """The class of `get_job`'s results."""
        return az_job_t if self.check_cost_avail() else az_job_retail_t

    def get_nodearray_format(self) -> type[az_array_retail_t] | type[az_array_t]:
        """The class of the rows of `get_nodearray`."""
        return az_array_t if self.check_cost_avail() else az_array_retail_t

    def get_nodearray_hourly_format(
        self,
    ) -> type[az_array_hourly_retail_t] | type[az_array_hourly_t]:
        """The class of the rows of `get_nodearray_hourly`."""
        return az_array_hourly_t if self.check_cost_avail() else az_array_hourly_retail_t

    def check_cost_avail(self, start: Moment | None = None, end: Moment | None = None) -> bool:
        """False: a subscription's own prices cannot be had, so every row is of the retail kind."""
        return False

    def do_meter_lookup(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing. Published for callers of upstream: meters are those of the retail prices."""

    # -- prices

    def get_job(self, sku_name: str, region: str, spot: bool) -> az_job_retail_t:
        """What an hour of a machine costs. `rate` is a number above 0.

        Its `meter` begins with "offline catalogue" when the price is not the service's. Raises
        PriceUnknown when the service has no such price, and other CostErrors when it cannot be
        asked and the catalogue has none either.
        """
        return self._priced(PriceKey(sku_name, region, bool(spot), windows=False))

    def get_retail_rate(
        self, armskuname: str, armregionname: str, spot: bool, windows: bool = False
    ) -> Item | None:
        """The item of the Retail Prices API for a machine with or without Windows.

        None when the service has none. A spot price is never answered with another price. While the
        service cannot be reached the item is made from the catalogue; PriceServiceUnavailable when
        that has no price. PriceServiceRefused when the service says that the question is wrong.
        """
        size, region = _name(armskuname, "a VM size"), _name(armregionname, "a region")
        size, region = vm_sizes.VM_SIZES.usual_name(size), region.lower()
        try:
            items = self.prices.of_size(size, region)
        except PriceServiceUnavailable as outage:
            self._report(outage)
            found = None if windows else self._catalogued(size, region, bool(spot))
            if found is None:
                raise
            return found
        chosen = choose(items, size, region, bool(spot), windows)
        return None if chosen is None else {**chosen}  # the caller's own

    def get_info_from_retail(self, meterId: str) -> list[tuple[str, str]]:
        """The (VM size, region) pairs that a meter is for.

        The catalogue has no meters, so CostError when the service cannot be asked.
        """
        items = self.prices.of_meter(_name(meterId, "the id of a meter"))
        return [(text_of(item, "armSkuName"), text_of(item, "armRegionName")) for item in items]

    # -- usage

    def get_nodearray(self, fout: TextIO, start: Moment, end: Moment) -> None:
        """Write what each VM size of each nodearray has cost between two times, as CSV without a
        header.

        A cell of which the value is not known is empty. Raises as `get_usage` does, before anything
        is written.
        """
        csv.writer(fout).writerows(self.nodearray_rows(start, end))

    def get_nodearray_hourly(self, fout: TextIO, start: Moment, end: Moment) -> None:
        """Write, for each hour, what each VM size of each nodearray has cost, as CSV without a
        header.

        Otherwise it is like `get_nodearray`.
        """
        csv.writer(fout).writerows(self.nodearray_hourly_rows(start, end))

    def nodearray_rows(self, start: Moment, end: Moment) -> list[az_array_retail_t]:
        """The rows of `get_nodearray`. A value that is not known is None."""
        usage = self._usage(start, end, "total")
        price = functools.cache(self._rate)
        return [row for interval in usage.usage[:1] for row in interval_rows(interval, price)]

    def nodearray_hourly_rows(self, start: Moment, end: Moment) -> list[az_array_hourly_retail_t]:
        """The rows of `get_nodearray_hourly`."""
        usage = self._usage(start, end, "hourly")
        price = functools.cache(self._rate)
        return [row for interval in usage.usage for row in hourly_rows(interval, price)]

    def get_usage(self, start: Moment, end: Moment, granularity: str) -> dict[str, Any]:
        """CycleCloud's usage report: `{"usage": [{"start", "end", "total", "breakdown"}, …]}`, with
        details.

        `granularity` is total, daily or hourly. Raises InvalidQuestion, ConfigurationException when
        the server or our credentials are not configured, and CycleCloudError.
        """
        return self._usage(start, end, granularity).to_dict()

    def _usage(self, start: Moment, end: Moment, granularity: str) -> ClusterUsage:
        if granularity not in _GRANULARITIES:
            guess = did_you_mean(str(granularity), _GRANULARITIES)
            raise InvalidQuestion(
                f"granularity: expected one of {', '.join(_GRANULARITIES)}, found"
                f" {granularity!r}{guess}"
            )
        begin, finish = _utc(start, "start"), _utc(end, "end")
        if begin >= finish:
            raise InvalidQuestion(
                f"expected a start before the end, found {_iso(begin)} and {_iso(finish)}"
            )
        if self._client is None:
            credentials = resolve_credentials(self.config)
            self._client = Client(self.config, self._pacing, **vars(credentials))
        return clusters.get_usage(
            self._client.session,
            self.cluster_name,
            timeframe="custom",
            start=_iso(begin),
            end=_iso(finish),
            granularity=granularity,
            details=True,
        )[1]

    # -- from machines to rates

    def _priced(self, key: PriceKey) -> az_job_retail_t:
        size, region, spot, windows = key
        item = self.get_retail_rate(size, region, spot, windows)
        if item is None:
            raise PriceUnknown(size, region, spot)
        return az_job_retail_t(
            size,
            region,
            spot,
            text_of(item, "meterName"),
            text_of(item, "meterId"),
            text_of(item, "serviceName"),
            rate_of(item),
            text_of(item, "currencyCode"),
        )

    def _rate(self, key: PriceKey) -> az_job_retail_t | None:
        """The price for a row of a report; None, with a warning, when it cannot be had.

        So a machine without a price does not keep the other rows from theirs.
        """
        try:
            return self._priced(key)
        except PriceServiceError as error:
            logging.debug("%s", error)
            self.problem = error.short
            missing = f"{key.sku_name} in {key.region}: {error.short}"
        except CostError as error:
            missing = str(error)
        logging.warning("In the cost report without a price: %s", missing)
        return None

    def _catalogued(self, size: str, region: str, spot: bool) -> Item | None:
        vm_sizes.configure(self.config)  # a user's own prices come before the packaged ones
        dollars = vm_sizes.price_per_hour(Location(region), VMSize(size), spot)
        return None if dollars is None else catalogue_item(size, region, spot, dollars)

    def _report(self, outage: PriceServiceUnavailable) -> None:
        first = outage.first or outage
        self.problem = first.short
        if first is not self._reported_outage:
            self._reported_outage = first
            logging.debug("%s", first)
            logging.warning("Prices come from the offline catalogue: %s", first.short)


def _cluster_name(config: Mapping[str, Any]) -> str:
    name = config.get("cluster_name")
    if not isinstance(name, str) or not name:
        raise ClusterNameMissing(f"cluster_name: expected the name of a cluster, found {name!r}")
    return name


def _setting(config: Mapping[str, Any], key: str, expected: str) -> str | None:
    """A text in the section `cost` of the configuration; None when it is not there."""
    section = config.get("cost") or {}
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"cost: expected an object, found {section!r}")
    found = section.get(key)
    if found is not None and not isinstance(found, str):
        raise ConfigurationException(f"cost.{key}: expected {expected}, found {found!r}")
    return found


def _name(value: object, expected: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidQuestion(f"expected {expected}, found {value!r}")
    return value.strip()


def _utc(value: Moment, name: str) -> datetime:
    """A time converted to UTC; `name` is for the text of InvalidQuestion, when it is no time."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, AttributeError, OverflowError):
        raise InvalidQuestion(f"{name}: expected a time in ISO-8601, found {value!r}") from None


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
