"""Asking Azure's Retail Prices API, which needs no account. Which of its items is the price is not
decided here (`rates`).

Answers come from `cache` where it has them. Certificates are always verified: `verify_certificates`
and `ca_file` of the configuration are for the CycleCloud server, while the proxies and certificate
bundles of the environment are how one gets to the internet and hold here. Called by `azurecost`.
"""

import http.client
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import quote, urlencode, urljoin, urlsplit

from hpc.autoscale import hpclogging as logging
from hpc.autoscale._version import __version__
from hpc.autoscale.ccbindings.pacing import Pacing, retry_after
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.ccbindings.transport import Timeouts, innermost, read_body
from hpc.autoscale.cost.cache import ResponseCache
from hpc.autoscale.cost.errors import PriceServiceRefused, PriceServiceUnavailable
from hpc.autoscale.cost.rates import Item

if TYPE_CHECKING:
    import requests

API = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2021-10-01-preview"

TIMEOUTS = Timeouts(connect=5.0, read=30.0)

# for so many seconds after it could not be reached, the service is not asked again: a report has
# many VM sizes
PAUSE = 300.0

_LONGEST_LISTING = 100

# "not now": of the service itself, and of what stands between it and us
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
# a proxy that wants to know who we are has not let us through to the service
_NOT_THE_SERVICE = _TRANSIENT | {407}


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
        self._timeouts = timeouts
        self._pacing = pacing or Pacing(attempts=3)
        self._http: requests.Session | None = None
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
            raise self._outage.with_traceback(None)
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
        last = self._pacing.attempts - 1
        for attempt in range(self._pacing.attempts):
            reply = self._exchange(url, attempt == last)
            if reply is None:
                self._pacing.back_off(attempt)
                continue
            if reply.status_code == 200:
                return reply
            wait = retry_after(reply.headers, self._pacing.wall_clock)
            is_final = attempt == last or (wait or 0) > self._pacing.longest_wait
            if reply.status_code not in _TRANSIENT or is_final:
                raise _refusal(reply)
            if wait is None:
                self._pacing.back_off(attempt)
            else:
                self._pacing.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _exchange(self, url: str, is_last: bool) -> Reply | None:
        """Send one request. None stands for a reply that did not come and may be asked for again.

        PriceServiceUnavailable when it may not, as after the last attempt.
        """
        import requests
        import urllib3

        failures = (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            http.client.HTTPException,
            OSError,
            ValueError,
        )
        logging.debug("GET %s", url)
        # real time, because sockets wait by no other clock
        deadline = time.monotonic() + 5 * self._timeouts.read
        try:
            with self._connection().get(
                url,
                timeout=(self._timeouts.connect, self._timeouts.read),
                allow_redirects=False,
                stream=True,
            ) as response:
                body = read_body(response, deadline)
                return Reply(url, response.status_code, response.headers, body, str)
        except failures as error:
            if is_last or isinstance(error, requests.exceptions.SSLError):
                raise PriceServiceUnavailable(url, f"no answer: {innermost(error)}") from None
            logging.debug("GET %s: %s, trying again", url, innermost(error))
            return None

    def _connection(self) -> "requests.Session":
        if self._http is None:
            from hpc.autoscale.ccbindings.deadlines import punctual_session

            self._http = punctual_session()
            self._http.auth = _as_nobody  # or else `.netrc` would be looked up
            self._http.headers["User-Agent"] = f"hpc-autoscale/{__version__}"
        return self._http


def _as_nobody(request: "requests.PreparedRequest") -> "requests.PreparedRequest":
    return request


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
