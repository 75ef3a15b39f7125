"""Asking Azure's Retail Prices API, which needs no account. Which of its items is the price is not
decided here (`rates`).

Answers come from `cache` where it has them. Called by `azurecost`.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard
from urllib.parse import quote, urlencode, urljoin, urlsplit

from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.ccbindings.transport import Timeouts
from hpc.autoscale.cost.asking import TIMEOUTS, TRANSIENT, PatientSession
from hpc.autoscale.cost.cache import ResponseCache
from hpc.autoscale.cost.errors import PriceServiceRefused, PriceServiceUnavailable
from hpc.autoscale.cost.rates import Item

API = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2021-10-01-preview"

# for so many seconds after it could not be reached, the service is not asked again: a report has
# many VM sizes
PAUSE = 300.0

_LONGEST_LISTING = 100

# a proxy that wants to know who we are has not let us through to the service
_NOT_THE_SERVICE = TRANSIENT | {407}


class RetailPrices:
    """The price service at `url`. Nothing is opened until it is asked.

    Every question raises PriceServiceUnavailable when no usable answer comes after a few attempts,
    and PriceServiceRefused when the service says that the question is wrong.
    """

    def __init__(
        self,
        cache: ResponseCache,
        url: str = API,
        timeouts: Timeouts = TIMEOUTS,
        pacing: Pacing | None = None,
    ) -> None:
        self.url = url
        self._cache = cache
        self._pacing = pacing or Pacing(attempts=3)
        self._session = PatientSession(self._pacing, PriceServiceUnavailable, timeouts)
        self._outage: PriceServiceUnavailable | None = None
        self._ask_again = 0.0

    def of_size(self, sku_name: str, region: str) -> list[Item]:
        """All items for one VM size in one region, in the service's order."""
        return self._items(
            f"armRegionName eq {_literal(region)} and armSkuName eq {_literal(sku_name)}"
            " and serviceName eq 'Virtual Machines'"
        )

    def of_meter(self, meter_id: str) -> list[Item]:
        """All items of one meter."""
        return self._items(f"meterId eq {_literal(meter_id)}")

    def _items(self, condition: str) -> list[Item]:
        query = {
            "api-version": API_VERSION,
            "meterRegion": "'primary'",
            "$filter": condition,
        }
        url = f"{self.url}?" + urlencode(query, safe="$'", quote_via=quote)
        cached = self._cache.get(url)
        if _are_items(cached):
            return cached
        if self._outage is not None and self._pacing.now() < self._ask_again:
            why = f"not asked: the service did not answer a moment ago ({self._outage.reason})"
            raise PriceServiceUnavailable(url, why, self._outage)
        try:
            items = self._listing(url)
        except PriceServiceUnavailable as error:
            self._outage, self._ask_again = error, self._pacing.now() + PAUSE
            raise
        self._cache.put(url, items)
        return items

    def _listing(self, url: str) -> list[Item]:
        """The items of all pages from a URL on.

        No page is read twice, and at most `_LONGEST_LISTING` are read.
        """
        items: list[Item] = []
        pages: set[str] = set()
        page: str | None = url
        while page is not None:
            if page in pages or len(pages) >= _LONGEST_LISTING:
                raise PriceServiceUnavailable(url, f"its list does not end: page {len(pages) + 1}")
            pages.add(page)
            found, page = self._page(page)
            items.extend(found)
        return items

    def _page(self, url: str) -> tuple[list[Item], str | None]:
        """The items of one page, and the URL of the next page."""
        reply = self._read(url)
        try:
            data = json.loads(reply.body)
        except (ValueError, RecursionError):
            data = None
        items = data.get("Items") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not _are_items(items):
            found = reply.describe() if data is None else "JSON of another kind"
            raise PriceServiceUnavailable(url, f"expected a list of prices, found {found}")
        link = data.get("NextPageLink")
        if not link:
            return items, None
        return items, _following(url, link)

    def _read(self, url: str) -> Reply:
        """A reply with status 200; trouble that may pass is tried again."""
        reply = self._session.read(url)
        if reply.status_code != 200:
            raise _refusal(reply)
        return reply


def _literal(text: str) -> str:
    """A text as a literal of an OData filter."""
    return "'" + text.replace("'", "''") + "'"


def _are_items(value: Any) -> TypeGuard[list[Item]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _following(url: str, link: object) -> str:
    """The URL of the next page. Raises PriceServiceUnavailable when it would lead to another
    server."""
    try:
        following = urljoin(url, link) if isinstance(link, str) else ""
        if _server(following) == _server(url):
            return following
    except ValueError:  # a text that is no URL
        pass
    raise PriceServiceUnavailable(url, f"expected the next page on the same server, found {link!r}")


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _refusal(reply: Reply) -> PriceServiceRefused | PriceServiceUnavailable:
    """The error for a reply that is not a list of prices."""
    code = reply.status_code
    if 400 <= code < 500 and code not in _NOT_THE_SERVICE:
        return PriceServiceRefused(reply.url, code, reply.message())
    return PriceServiceUnavailable(reply.url, f"HTTP {code}: {reply.message()}")
