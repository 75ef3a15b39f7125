"""Azure's spot placement scores: how likely so many spot machines of a size are to be had now.

At most five sizes and eight regions are asked for in one request, with the managed identity of the
machine, which needs the role "Compute Recommendations Role".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.cost.asking import PatientSession
from hpc.autoscale.errors import AutoscaleError

API_VERSION = "2025-06-05"
MANAGEMENT_URL = "https://management.azure.com"
METADATA_URL = "http://169.254.169.254"

MOST_SIZES = 5
MOST_REGIONS = 8

WEIGHTS: Mapping[str, int] = {"high": 9, "medium": 4, "low": 1}
"""What a score weighs; other words say nothing."""


class ScoresUnavailable(AutoscaleError):
    """Azure gave no scores: nobody answered, the identity may not ask, or the answer was another
    one than expected."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url.partition('?')[0]}: {reason}")


Scores = dict[str, dict[str, int | None]]
"""By region and VM size: 9, 4 or 1, 0 without quota, None where nothing is known."""


class PlacementScores:
    """Asks for the scores of a subscription."""

    def __init__(
        self,
        subscription: str,
        management_url: str = MANAGEMENT_URL,
        metadata_url: str = METADATA_URL,
        pacing: Pacing | None = None,
    ) -> None:
        self._subscription = subscription
        self._management_url = management_url.rstrip("/")
        self._metadata_url = metadata_url.rstrip("/")
        pacing = pacing or Pacing(attempts=3)
        self._session = PatientSession(pacing, ScoresUnavailable)
        # no proxy between a machine and its own metadata
        self._metadata = PatientSession(pacing, ScoresUnavailable, trust_env=False)

    def of(self, regions: Sequence[str], sizes: Sequence[str], count: int) -> Scores:
        """The scores for `count` machines of each size in each region. ScoresUnavailable when one
        of the requests has no usable answer."""
        found: Scores = {region: dict.fromkeys(sizes) for region in regions}
        token = self._token()
        for some_regions in _parts(regions, MOST_REGIONS):
            for some_sizes in _parts(sizes, MOST_SIZES):
                for record in self._ask(token, some_regions, some_sizes, count):
                    _note(found, record)
        return found

    def _token(self) -> str:
        url = (
            f"{self._metadata_url}/metadata/identity/oauth2/token?api-version=2018-02-01"
            f"&resource={quote(MANAGEMENT_URL + '/', safe='')}"
        )
        token = _object(self._metadata.read(url, headers={"Metadata": "true"})).get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ScoresUnavailable(url, "expected a token of this machine's identity, found none")
        return token

    def _ask(
        self, token: str, regions: Sequence[str], sizes: Sequence[str], count: int
    ) -> list[Any]:
        url = (
            f"{self._management_url}/subscriptions/{quote(self._subscription, safe='')}/providers/"
            f"Microsoft.Compute/locations/{quote(regions[0], safe='')}/placementScores/spot/"
            f"generate?api-version={API_VERSION}"
        )
        body = {
            "desiredLocations": list(regions),
            "desiredSizes": [{"sku": size} for size in sizes],
            "desiredCount": count,
            "availabilityZones": False,
        }
        reply = self._session.read(url, body, {"Authorization": f"Bearer {token}"})
        scores = _object(reply).get("placementScores")
        if not isinstance(scores, list):
            raise ScoresUnavailable(url, f"expected placementScores, found {reply.describe()}")
        return scores


def _parts(names: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    return (names[start : start + most] for start in range(0, len(names), most))


def _object(reply: Reply) -> Mapping[str, Any]:
    if reply.status_code != 200:
        raise ScoresUnavailable(reply.url, f"HTTP {reply.status_code}: {reply.message()}")
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise ScoresUnavailable(reply.url, f"expected a JSON object, found {reply.describe()}")
    return found


def _note(found: Scores, record: Any) -> None:
    """Take over one score, if it is one of those asked for; of zones, the best."""
    if not isinstance(record, Mapping):
        return
    sizes = _alike(found, record.get("region"))
    region = sizes and found[sizes]
    size = region and _alike(region, record.get("sku"))
    if not region or not size:
        return
    weight = WEIGHTS.get(str(record.get("score")).lower())
    if record.get("isQuotaAvailable") is False:
        weight = 0
    before = region[size]
    if weight is not None and (before is None or weight > before):
        region[size] = weight


def _alike(names: Iterable[str], name: object) -> str | None:
    wanted = str(name).lower()
    return next((each for each in names if each.lower() == wanted), None)
