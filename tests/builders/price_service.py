"""A price service on loopback, and an azurecost that asks it. Not a test itself."""

from typing import Any

from builders.scripted_server import Answer, FakeTime
from hpc.autoscale.cost.azurecost import azurecost

PRICES = "/api/retail/prices"
TIMES = {"start": "2026-01-01", "end": "2026-01-02"}


def an_item(dollars: float = 0.5, **changes: Any) -> dict[str, Any]:
    """An on-demand Linux price of the size F4 in westus2."""
    return {
        "armSkuName": "Standard_F4",
        "armRegionName": "westus2",
        "currencyCode": "USD",
        "meterId": "m-1",
        "meterName": "F4",
        "productName": "Virtual Machines F Series",
        "retailPrice": dollars,
        "serviceName": "Virtual Machines",
        "skuName": "F4",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        **changes,
    }


def a_page(*items: dict[str, Any], following: Any = None) -> Answer:
    """One page of the price service."""
    body = {"BillingCurrency": "USD", "Items": items, "NextPageLink": following}
    return Answer(body={**body, "Count": len(items)})


def costs(service: str, time: FakeTime | None = None, /, **config: Any) -> azurecost:
    """An azurecost for the cluster c, with the price service at `service` and no patience in real time."""
    settings = {"cluster_name": "c", "username": "user", "password": "secret", **config}
    pacing = (time or FakeTime()).pacing(attempts=3)
    return azurecost(settings, prices_url=service + PRICES, pacing=pacing)
