"""Which item of the Retail Prices API is the price of a machine."""

import pytest

from hpc.autoscale.cost.rates import catalogue_item, choose, rate_of


def item(dollars=0.5, **changes):
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


ONDEMAND = item(0.2)
SPOT = item(0.04, meterName="F4 Spot", skuName="F4 Spot")
LOW_PRIORITY = item(0.03, meterName="F4 Low Priority", skuName="F4 Low Priority")
WINDOWS = item(0.4, productName="Virtual Machines F Series Windows")
WINDOWS_SPOT = {**WINDOWS, "retailPrice": 0.08, "meterName": "F4 Spot", "skuName": "F4 Spot"}
RESERVED = item(900.0, type="Reservation", reservationTerm="1 Year")
DEVELOPER = item(0.1, type="DevTestConsumption")
ALL = [RESERVED, DEVELOPER, WINDOWS, WINDOWS_SPOT, LOW_PRIORITY, SPOT, ONDEMAND]


def chosen(items, spot=False, windows=False):
    """The choice for F4 in westus2."""
    return choose(items, "Standard_F4", "westus2", spot, windows)


@pytest.mark.parametrize("items", [ALL, ALL[::-1]])
@pytest.mark.parametrize(
    ("spot", "windows", "expected"),
    [
        (False, False, ONDEMAND),
        (True, False, SPOT),
        (False, True, WINDOWS),
        (True, True, WINDOWS_SPOT),
    ],
)
def test_the_price_is_of_the_kind_that_was_asked_for(items, spot, windows, expected):
    """Whatever the order of the items."""
    assert chosen(items, spot, windows) == expected


def test_the_first_of_several_is_taken():
    """The service's order decides among equals."""
    assert chosen([item(0.2), item(0.3)])["retailPrice"] == 0.2


@pytest.mark.parametrize("items", [[], [ONDEMAND, WINDOWS, LOW_PRIORITY, RESERVED, WINDOWS_SPOT]])
def test_a_spot_price_is_never_an_on_demand_price(items):
    """Without a spot price there is none."""
    assert chosen(items, spot=True) is None


def test_an_on_demand_price_is_never_a_spot_price():
    """Nor one for low priority, nor one for a term."""
    assert chosen([SPOT, LOW_PRIORITY, RESERVED, DEVELOPER, WINDOWS]) is None


@pytest.mark.parametrize(
    "wrong",
    [{"armSkuName": "Standard_F8"}, {"armRegionName": "eastus"}, {"unitOfMeasure": "1/Month"}],
)
def test_items_for_something_else_are_passed_over(wrong):
    """A service that ignores the filter does not mislead us."""
    assert chosen([item(9.0, **wrong), ONDEMAND]) == ONDEMAND


def test_letter_case_does_not_matter():
    """Neither in names nor in the word spot."""
    assert choose([ONDEMAND], "STANDARD_f4", "WestUS2", False) == ONDEMAND
    assert chosen([item(0.1, meterName="F4 SPOT")], spot=True) is not None


@pytest.mark.parametrize(
    "price",
    [None, "0.2", True, 0, -1, float("nan"), float("inf"), pytest.param(10**400, id="10**400")],
)
def test_a_price_is_a_number_above_0(price):
    """Anything else is no price, and never 0."""
    assert rate_of(item(price)) is None
    assert chosen([item(price), ONDEMAND]) == ONDEMAND


@pytest.mark.parametrize("spot", [False, True])
def test_prices_of_the_catalogue_say_so(spot):
    """In the place of the meter; but for that they are items like others."""
    made = catalogue_item("Standard_F4", "westus2", spot, 0.2)
    assert made["meterName"].startswith("offline catalogue")
    assert ("spot estimate" in made["meterName"]) == spot
    assert rate_of(made) == 0.2


@pytest.mark.parametrize("garbage", [{}, {"type": "Consumption"}, {"type": 3, "meterName": []}])
def test_items_that_make_no_sense_are_passed_over(garbage):
    """They cost nobody else the price."""
    assert chosen([garbage, ONDEMAND]) == ONDEMAND
