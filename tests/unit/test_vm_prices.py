"""Prices of VM sizes: what the package knows, what the user says, and that unknown is never 0."""

import json

import pytest

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.vm_sizes.prices import PriceList, price_per_hour, use_price_override


@pytest.mark.parametrize(
    ("size", "dollars"),
    [
        ("Standard_F2s_v2", 0.0846),
        ("Standard_HB120rs_v3", 3.60),
        ("Standard_HB176rs_v4", 7.20),
        ("Standard_ND96isr_H100_v5", 98.32),
        ("Standard_NC24ads_A100_v4", 3.673),
        ("Standard_D4s_v5", 0.192),
        ("Standard_E64_v3", 3.629),
        ("Standard_HC44rs", 3.168),
        ("standard_hc44RS", 3.168),
    ],
)
def test_listed_prices(size, dollars):
    """Sizes with a public price in eastus cost that."""
    assert price_per_hour("eastus", size) == dollars


@pytest.mark.parametrize(
    ("size", "regions"),
    [("Standard_F2s_v2", 57), ("Standard_HB120rs_v3", 9), ("Standard_ND96isr_H100_v5", 23), ("Standard_NC6", 0)],  # noqa: E501
)  # fmt: skip
def test_priced_regions(size, regions):
    """A size has a price in as many regions as the public list has one."""
    priced = [r for r in vm_sizes.all_possible_locations() if price_per_hour(r, size) is not None]
    assert len(priced) == regions


@pytest.mark.parametrize(
    ("location", "size"),
    [("eastus", "Standard_NC6"), ("eastus", "nothing"), ("nowhere", "Standard_F2s_v2"), ("usgoviowa", "Standard_F2s_v2"),  # noqa: E501
     ("australiacentral", "Standard_HB120rs_v3")],
)  # fmt: skip
@pytest.mark.parametrize("spot", [False, True])
def test_missing_prices_are_unknown(location, size, spot):
    """No price is None, on demand and spot."""
    assert price_per_hour(location, size, spot) is None


def test_spot_is_an_estimate_from_the_series():
    """A spot price is the on-demand price times the ratio of its series; without a ratio it is
    unknown."""
    assert price_per_hour("eastus", "Standard_F2s_v2", spot=True) == pytest.approx(0.0846 * 0.11)
    assert price_per_hour("westeurope", "Standard_F2s_v2", spot=True) is None


def test_a_region_may_stand_in_for_comparisons():
    """Prices of government regions are given only when asked for so, from the region that stands
    in."""
    own = price_per_hour("southcentralus", "Standard_F2s_v2")
    assert price_per_hour("usgovvirginia", "Standard_F2s_v2") is None
    assert price_per_hour("usgovvirginia", "Standard_F2s_v2", stand_in=True) == own


def test_own_prices_win(tmp_path):
    """A number is an on-demand price, an object gives both, and * is every location without one of
    its own."""
    path = tmp_path / "prices.json"
    path.write_text(
        json.dumps(
            {
                "_comment_": "ours",
                "eastus": {"Standard_F2s_v2": 1, "Standard_NC6": {"ondemand": 2.5, "spot": 0.5}},
                "*": {"standard_hc44rs": {"spot": 0.25}, "Lab_1": 9.0, "Standard_NC6": 3},
                "lab": {"Lab_1": 8.0},
            }
        )
    )
    use_price_override(path)
    assert price_per_hour("eastus", "Standard_F2s_v2") == 1.0
    assert price_per_hour("eastus", "Standard_F2s_v2", spot=True) == pytest.approx(0.11)
    assert price_per_hour("eastus", "Standard_NC6") == 2.5
    assert price_per_hour("westus", "Standard_NC6") == 3.0
    assert price_per_hour("eastus", "Standard_NC6", spot=True) == 0.5
    assert price_per_hour("eastus", "Standard_HC44rs", spot=True) == 0.25
    assert price_per_hour("eastus", "Standard_HC44rs") == 3.168
    assert price_per_hour("lab", "Lab_1") == 8.0
    assert price_per_hour("elsewhere", "Lab_1") == 9.0


def item(dollars=0.5, **changes):
    return {
        "armSkuName": "Standard_NC6",
        "armRegionName": "eastus",
        "type": "Consumption",
        "productName": "Virtual Machines NC Series",
        "skuName": "NC6",
        "meterName": "NC6",
        "retailPrice": dollars,
        **changes,
    }


@pytest.mark.parametrize("wrap", [lambda items: items, lambda items: {"Items": items, "Count": 1}])
def test_retail_items(wrap):
    """Items of the Retail Prices API give Linux prices on demand and spot; the others are passed
    over."""
    items = [
        item(0.9, armSkuName="standard_nc6", currencyCode="USD", unitOfMeasure="1 Hour"),
        item(0.2, skuName="NC6 Spot"),
        item(0.3, meterName="NC6 Low Priority"),
        item(1.9, productName="Virtual Machines NC Series Windows"),
        item(500, type="Reservation"),
        item(armSkuName=""),
        item(armSkuName={"name": "Standard_NC6"}),
        item(armRegionName=["eastus"]),
        item(300, unitOfMeasure="1/Month"),
    ]
    use_price_override(wrap(items))
    assert price_per_hour("eastus", "Standard_NC6") == 0.9
    assert price_per_hour("eastus", "Standard_NC6", spot=True) == 0.2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (3, "expected prices by location or a list of retail items, found 3"),
        ({"eastus": 3}, "eastus: expected prices by VM size, found 3"),
        ({"eastus": {"A": 0}}, "eastus.A: expected dollars per hour above 0, found 0 (leave out what is unknown)"),  # noqa: E501
        ({"eastus": {"A": "1"}}, "eastus.A: expected dollars per hour above 0, found '1'"),
        ({"eastus": {"A": True}}, "found True"),
        ({"eastus": {"A": float("nan")}}, "found nan"),
        ({"eastus": {"A": 10**400}}, "eastus.A: expected dollars per hour above 0, found 1000"),
        ({"eastus": {"A": {"sport": 1}}}, "eastus.A.sport: expected ondemand or spot"),
        ({"eastus": {"A": {"spot": -1}}}, "eastus.A.spot: expected dollars per hour above 0, found -1"),  # noqa: E501
        ([3], "[0]: expected a retail item, found 3"),
        ([item(0.1, currencyCode="EUR")], "[0].currencyCode: expected prices in USD, found 'EUR'"),
        ([item(0)], "[0].retailPrice: expected dollars per hour above 0, found 0"),
    ],
)  # fmt: skip
def test_mistakes_in_own_prices(data, says):
    """One line says what is wrong and where; the prices stay as they were."""
    with pytest.raises(ConfigurationException) as caught:
        use_price_override(data)
    assert str(caught.value).startswith("VM price override: ")
    assert says in str(caught.value)
    assert price_per_hour("eastus", "Standard_HC44rs") == 3.168


@pytest.mark.parametrize("contents", [None, b"", b"no gzip"])
def test_a_list_that_cannot_be_read_knows_nothing(tmp_path, contents):
    """A missing or broken price file makes prices unknown and does not fail."""
    path = tmp_path / "prices.json.gz"
    if contents is not None:
        path.write_bytes(contents)
    assert PriceList(str(path)).price("eastus", "Standard_F2s_v2", spot=False) is None
