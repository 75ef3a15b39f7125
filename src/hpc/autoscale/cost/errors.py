"""What can go wrong when costs are worked out, as one tree below `CostError`.

Failures of the CycleCloud server are not in it: they are `CycleCloudError`s, here as everywhere.
"""

from urllib.parse import urlsplit

from hpc.autoscale.ccbindings.errors import shorten
from hpc.autoscale.errors import AutoscaleError, ConfigurationException

__all__ = [
    "ClusterNameMissing",
    "CostError",
    "InvalidQuestion",
    "PriceServiceError",
    "PriceServiceRefused",
    "PriceServiceUnavailable",
    "PriceUnknown",
]


class CostError(AutoscaleError):
    """Base of everything that can go wrong with prices and usage."""


class ClusterNameMissing(ConfigurationException, ValueError):
    """The configuration does not say whose usage is meant."""


class InvalidQuestion(CostError):
    """A question that has no answer.

    For example it names no VM size or no region, a time that is none, or a period that ends before
    it begins.
    """


class PriceUnknown(CostError):
    """The price service has no price for this machine."""

    def __init__(self, sku_name: str, region: str, spot: bool) -> None:
        self.sku_name = sku_name
        self.region = region
        self.spot = spot
        kind = "spot" if spot else "on-demand"
        super().__init__(f"expected the {kind} price of {sku_name} in {region}, found none")


class PriceServiceError(CostError):
    """The price service did not say what something costs. `reason` is what happened instead."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = shorten(reason, 500)
        super().__init__(f"{shorten(url, 500)}: {self.reason}")

    @property
    def short(self) -> str:
        """The host and the reason, without the question, which is in the URL."""
        try:
            host = urlsplit(self.url).hostname
        except ValueError:  # a text that is no URL
            host = None
        return f"price service at {host or shorten(self.url, 80)}: {self.reason}"


class PriceServiceUnavailable(PriceServiceError):
    """The price service gave no answer that could be used.

    Nobody answered, the certificate is not trusted, the service is broken, or the page was
    another's. `first`: where the service was not asked at all, because it gave no answer shortly
    before, the error of that time.
    """

    def __init__(
        self, url: str, reason: str, first: "PriceServiceUnavailable | None" = None
    ) -> None:
        self.first = first
        super().__init__(url, reason)

    @property
    def short(self) -> str:
        """The host and the reason; of one that was not asked, those of the error before."""
        return super().short if self.first is None else self.first.short


class PriceServiceRefused(PriceServiceError):
    """The service answered with a status 4xx, which `status_code` has; the text has its words."""

    def __init__(self, url: str, status_code: int, message: str) -> None:
        self.status_code = status_code
        super().__init__(url, f"HTTP {status_code}: {message}")
