"""Usage and health reports of a simulated cluster, over HTTP."""

import io

import pytest

from builders.price_service import PRICES, TIMES, a_page, an_item, costs
from builders.scripted_server import serving
from builders.simulator_client import F2, Client, message
from hpc.autoscale.ccbindings import clusters
from hpc.autoscale.ccbindings.client import Client as OurClient
from hpc.autoscale.simulator import serve

NO_WAITING = dict.fromkeys(["allocation", "acquiring", "preparing", "terminating"], 0)
SPOT = {"machine_types": [F2], "spot": True}
CLOUD = {
    "clusters": {
        "c1": {
            "region": "westus2",
            "nodearrays": {"htc": {"machine_types": [F2]}, "spot": SPOT},
            "nodes": {"scheduler": {"machine_type": "Standard_F4s_v2"}},
        },
        "c2": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [F2]}}},
    },
    "lifecycle": NO_WAITING,
}
HOUR, DAY = 3600, 86400
USAGE = "/clusters/c1/usage"


@pytest.fixture
def simulator():
    """A simulator whose nodes boot at once; its time begins on Thursday, January 1st 2026, at
    00:00."""
    with serve(CLOUD) as running:
        yield running


@pytest.fixture
def http(simulator):
    """Calls to it."""
    return Client(simulator)


def intervals(http, **query):
    """What each interval of a report says, and whose it is."""
    response = http("GET", USAGE, params=query)
    assert response.status_code == 200, response.text
    return [
        (
            usage["start"],
            usage["total"]["hours"],
            {(item["category"], item["node"]): item["hours"] for item in usage["breakdown"]},
        )
        for usage in response.json()["usage"]
    ]


def test_core_hours_are_those_of_running_vms(simulator, http):
    """Of nodearrays and of single nodes, from when a VM is up to when it is gone; other clusters
    are not in it."""
    http.create(3)
    http("POST", "/clusters/c2/nodes/create", {"sets": [{"nodearray": "htc", "count": 1}]})
    simulator.clock.advance(HOUR)
    http("POST", "/clusters/c1/nodes/terminate", {"names": ["htc-1"]})
    simulator.clock.advance(HOUR)
    (report,) = intervals(http, granularity="total")
    assert report == (
        "2026-01-01T00:00:00Z",
        18.0,
        {("node", "scheduler"): 8.0, ("nodearray", "htc"): 10.0},
    )


def test_hours_and_days(simulator, http):
    """By days unless asked otherwise; an interval that has none is there with nothing."""
    http.create(1)
    http("POST", "/clusters/c1/nodes/terminate", {"names": ["scheduler"]})
    simulator.clock.advance(1.5 * HOUR)
    http("POST", "/clusters/c1/nodes/terminate", {"names": ["htc-1"]})
    simulator.clock.advance(1.5 * HOUR)
    htc = ("nodearray", "htc")
    assert intervals(http) == [("2026-01-01T00:00:00Z", 3.0, {htc: 3.0})]
    assert intervals(http, granularity="hourly") == [
        ("2026-01-01T00:00:00Z", 2.0, {htc: 2.0}),
        ("2026-01-01T01:00:00Z", 1.0, {htc: 1.0}),
        ("2026-01-01T02:00:00Z", 0, {}),
    ]


def test_timeframes_go_by_the_calendar(simulator, http):
    """The month, the one before, the week from Sunday on, or from and to, rounded outward."""
    simulator.clock.advance(35 * DAY + HOUR)  # the 5th of February, a Thursday
    days = {frame: intervals(http, timeframe=frame) for frame in ("lastMonth", "weekToDate")}
    assert [len(found) for found in (*days.values(), intervals(http))] == [31, 5, 5]
    assert days["weekToDate"][0][:2] == ("2026-02-01T00:00:00Z", 4.0 * 24)
    asked = {"timeframe": "custom", "from": "2026-01-01T10:20:00Z", "to": "2026-01-01T14:40+02:00"}
    found = intervals(http, granularity="hourly", **asked)
    assert [start[11:16] for start, _, _ in found] == ["10:00", "11:00", "12:00"]
    ((start, hours, _),) = intervals(http, **asked)
    assert (start, hours) == ("2026-01-01T00:00:00Z", 96.0)


def test_details_say_of_which_machines(simulator, http):
    """Size, cores, region, spot or not; only when they are asked for, and without prices."""
    http.create(2, "spot")
    simulator.clock.advance(HOUR)
    (plain,) = http("GET", USAGE).json()["usage"]
    assert "details" not in plain["total"]
    (usage,) = http("GET", USAGE, params={"expand": "details"}).json()["usage"]
    spot = {"hours": 4.0, "core_count": 2, "vm_size": F2, "priority": "Spot"}
    alone = {"hours": 4.0, "core_count": 4, "vm_size": "Standard_F4s_v2", "priority": "Regular"}
    where = {"region": "westus2", "os": "Linux"}
    assert [item["details"] for item in usage["breakdown"]] == [
        [{**alone, **where}],
        [{**spot, **where}],
    ]
    assert usage["total"]["details"] == [{**spot, **where}, {**alone, **where}]


WRONG = [
    ({"timeframe": "yesterday"}, "timeframe: expected one of"),
    ({"granularity": "weekly"}, "granularity: expected one of"),
    ({"timeframe": "custom"}, "from: expected a time"),
    ({"timeframe": "custom", "from": "x", "to": "y"}, "from: expected a time as in ISO-8601"),
    ({"timeframe": "custom", "from": "2026-01-02", "to": "2026-01-01"}, "to: expected a time"),
    (
        {"timeframe": "custom", "from": "0001-01-01T00:00+14:00"},
        "from: expected a time of the years",
    ),
    (
        {"timeframe": "custom", "from": "2026-01-02", "to": "9999-12-31T23:30Z"},
        "to: expected a time",
    ),
    (
        {"timeframe": "custom", "from": "1001-01-01", "to": "9998-01-01", "granularity": "hourly"},
        "at most",
    ),
]


@pytest.mark.parametrize(("query", "said"), WRONG)
def test_a_question_that_cannot_be_understood(http, query, said):
    """Is a bad request that says what was expected."""
    assert said in message(http("GET", USAGE, params=query), 400)


def test_our_client_and_the_cost_report_read_it(simulator, tmp_path, monkeypatch):
    """Both over HTTP; the report multiplies by prices of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    simulator.clock.advance(HOUR)
    connection = simulator.connection("c1")
    _, usage = clusters.get_usage(OurClient(connection).session, "c1", details=True)
    assert usage.usage[0].total.hours == 4.0
    Client(simulator).create(1)
    simulator.clock.advance(2 * HOUR)
    with serving() as prices:
        prices.on("GET", PRICES, a_page(an_item(armSkuName=F2)))
        report = io.StringIO(newline="")
        costs(prices.url, **connection).get_nodearray(report, **TIMES)
    assert report.getvalue().startswith(f"htc,4.0,1.0,{F2},westus2,False,")


GHR = "/clusters/c1/nodes/{}/ghr"


def test_one_health_report_for_a_node(simulator, http):
    """Accepted without a body, once, by name or by id; then it can be read."""
    asked = {"category": "IBPerformance", "description": "slow"}
    assert message(http("GET", GHR.format("scheduler")), 404).startswith(
        "There is no health report"
    )
    accepted = http("POST", GHR.format("scheduler"), params=asked)
    assert (accepted.status_code, accepted.content) == (202, b"")
    (node_id,) = [node["NodeId"] for node in simulator.cluster("c1").nodes()]
    again = http("POST", GHR.format(node_id), params=asked)
    assert "a health report on node scheduler already" in message(again, 409)
    assert asked.items() <= http("GET", GHR.format(node_id)).json().items()


def test_a_health_report_that_cannot_be_taken(http):
    """Of a node that is not there, or without a category."""
    asked = {"category": "Generic"}
    assert "no node 'htc-9'" in message(http("POST", GHR.format("htc-9"), params=asked), 404)
    assert message(http("POST", GHR.format("scheduler")), 400).startswith("category: ")
