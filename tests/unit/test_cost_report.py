"""From usage to rows: machine-hours, prices, and what is not known."""

import pytest

from hpc.autoscale.ccbindings.models import ClusterUsageInterval
from hpc.autoscale.cost.formats import az_job_retail_t
from hpc.autoscale.cost.report import PriceKey, hourly_rows, interval_rows

F4 = {"vm_size": "Standard_F4", "region": "westus2", "hours": 8.0, "core_count": 4}


def a_usage(*breakdown):
    """One hour of usage."""
    return ClusterUsageInterval.from_dict(
        {
            "start": "2026-01-01T00:00:00Z",
            "end": "2026-01-01T01:00:00Z",
            "total": {"category": "cluster", "hours": 99.0},
            "breakdown": list(breakdown),
        }
    )


def an_array(*details, **changes):
    """The usage of a nodearray."""
    return {"category": "nodearray", "node": "htc", "hours": 8.0, "details": details, **changes}


def half_a_dollar(machine):
    """Every machine at the same price."""
    return az_job_retail_t(
        machine.sku_name, machine.region, machine.spot, "m", "id", "vm", 0.5, "USD"
    )


def rows(*details, price=half_a_dollar):
    """The rows of a nodearray."""
    return list(interval_rows(a_usage(an_array(*details)), price))


def test_core_hours_are_divided_by_the_cores_of_a_machine():
    """8 core-hours on machines with 4 cores are 2 hours, at 0.5 each."""
    (row,) = rows(F4)
    assert row == ("htc", 8.0, 1.0, "Standard_F4", "westus2", False, "m", "id", "vm", 0.5, "USD")


def test_hourly_rows_begin_with_their_hour():
    """And are the same otherwise."""
    (row,) = hourly_rows(a_usage(an_array(F4)), half_a_dollar)
    assert row[:5] == ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "htc", 8.0, 1.0)


def test_every_size_has_a_row_and_only_nodearrays_count():
    """In the server's order; nodes and the cluster as a whole are left out."""
    usage = a_usage(
        {"category": "node", "node": "scheduler", "hours": 4.0, "details": [F4]},
        an_array({**F4, "vm_size": "Standard_F8"}, F4),
        an_array(F4, node="hpc"),
    )
    found = [(row.nodearray, row.sku_name) for row in interval_rows(usage, half_a_dollar)]
    assert found == [("htc", "Standard_F8"), ("htc", "Standard_F4"), ("hpc", "Standard_F4")]


@pytest.mark.parametrize(
    ("given", "spot", "windows"),
    [
        ({}, False, False),
        ({"priority": "Regular", "os": "Linux"}, False, False),
        ({"priority": "Spot"}, True, False),
        ({"os": "Windows"}, False, True),
    ],
)
def test_the_price_is_asked_for_the_machine_that_was_used(given, spot, windows):
    """Spot exactly when the priority is Spot, Windows when that ran on it."""
    asked = []
    rows({**F4, **given}, price=asked.append)
    assert asked == [PriceKey("Standard_F4", "westus2", spot, windows)]


@pytest.mark.parametrize("cores", [{"core_count": None}, {"core_count": 0}])
def test_the_catalogue_knows_the_cores_of_a_machine(cores):
    """Where the server does not say how many it has."""
    (row,) = rows({**F4, **cores})
    assert row.cost == 1.0


@pytest.mark.parametrize(
    "details",
    [
        {**F4, "hours": None},
        {**F4, "core_count": None, "vm_size": "Standard_Unheard_Of"},
        {**F4, "core_count": None, "region": None},
    ],
)
def test_what_is_not_known_is_not_0(details):
    """A cost of which a part is missing is None."""
    (row,) = rows(details)
    assert row.cost is None


def test_a_machine_without_a_price_keeps_its_row():
    """With its hours, and neither rate nor cost."""
    (row,) = rows(F4, price=lambda machine: None)
    assert (row.core_hours, row.cost, row.rate, row.currency) == (8.0, None, None, "")


def test_the_servers_own_cost_is_better_than_none():
    """And is marked as such."""
    (row,) = rows({**F4, "cost": 3.5}, price=lambda machine: None)
    assert (row.cost, row.rate, row.meter) == (3.5, None, "CycleCloud estimate")


@pytest.mark.parametrize("details", [None, []])
def test_a_server_that_gives_no_details(details):
    """The hours of the nodearray are there all the same."""
    usage = a_usage(an_array(details=details, cost=2.0))
    (row,) = interval_rows(usage, half_a_dollar)
    assert row == ("htc", 8.0, 2.0, "", "", False, "CycleCloud estimate", "", "", None, "USD")
