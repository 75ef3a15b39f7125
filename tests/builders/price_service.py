"""What CycleCloud says of usage, what the price service says, and an azurecost that asks both."""

from typing import Any

from builders.scripted_server import Answer, FakeTime
from hpc.autoscale.cost.azurecost import azurecost

PRICES = "/api/retail/prices"
TIMES = {"start": "2026-01-01", "end": "2026-01-02"}
USAGE = "/clusters/c/usage"
F4 = {
    "vm_size": "Standard_F4",
    "region": "westus2",
    "hours": 8.0,
    "core_count": 4,
    "priority": "Regular",
    "os": "Linux",
}


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


def an_hour(hour: int, *details: dict[str, Any]) -> dict[str, Any]:
    """One interval of usage of the nodearray htc."""
    return {
        "start": f"2026-01-01T{hour:02}:00:00Z",
        "end": f"2026-01-01T{hour + 1:02}:00:00Z",
        "total": {"category": "cluster", "hours": 8.0},
        "breakdown": [
            {"category": "node", "node": "scheduler", "hours": 1.0, "details": [F4]},
            {"category": "nodearray", "node": "htc", "hours": 8.0, "details": list(details)},
        ],
    }


def a_usage(*intervals: dict[str, Any]) -> Answer:
    """What CycleCloud says was used."""
    return Answer(body={"usage": list(intervals)})


def a_page(*items: dict[str, Any], following: Any = None) -> Answer:
    """One page of the price service."""
    body = {"BillingCurrency": "USD", "Items": items, "NextPageLink": following}
    return Answer(body={**body, "Count": len(items)})


def costs(service: str, time: FakeTime | None = None, /, **config: Any) -> azurecost:
    """An azurecost for the cluster c, with the price service at `service` and no patience in real
    time."""
    settings = {"cluster_name": "c", "username": "user", "password": "secret", **config}
    pacing = (time or FakeTime()).pacing(attempts=3)
    return azurecost(settings, prices_url=service + PRICES, pacing=pacing)
