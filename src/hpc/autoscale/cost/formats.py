"""The rows that cost reports consist of: named tuples whose field order is published, as are their
names.

The `retail` ones are made of prices that everybody pays. The others have two more columns, for a
subscription's own prices. Pure declarations; `azurecost` fills them.
"""

from typing import NamedTuple


class az_job_retail_t(NamedTuple):
    """What one hour of a machine costs. `rate` is per hour, in `currency`; None means unknown."""

    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    rate: float | None
    currency: str


class az_job_t(NamedTuple):
    """As `az_job_retail_t`, for prices of a subscription."""

    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    metersubcat: str
    resourcegroup: str
    rate: float | None
    currency: str


class az_array_retail_t(NamedTuple):
    """What one VM size in a nodearray has cost.

    `core_hours` and `cost` are sums over the whole period; None means unknown.
    """

    nodearray: str
    core_hours: float | None
    cost: float | None
    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    rate: float | None
    currency: str


class az_array_t(NamedTuple):
    """As `az_array_retail_t`, for prices of a subscription."""

    nodearray: str
    core_hours: float | None
    cost: float | None
    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    metersubcat: str
    resourcegroup: str
    rate: float | None
    currency: str


class az_array_hourly_retail_t(NamedTuple):
    """As `az_array_retail_t`, for the hour from `start` to `end` (UTC, ISO-8601)."""

    start: str
    end: str
    nodearray: str
    core_hours: float | None
    cost: float | None
    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    rate: float | None
    currency: str


class az_array_hourly_t(NamedTuple):
    """As `az_array_hourly_retail_t`, for prices of a subscription."""

    start: str
    end: str
    nodearray: str
    core_hours: float | None
    cost: float | None
    sku_name: str
    region: str
    spot: bool
    meter: str
    meterid: str
    metercat: str
    metersubcat: str
    resourcegroup: str
    rate: float | None
    currency: str
