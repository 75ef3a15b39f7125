"""Usage from a real HTTP server, and what it has cost."""

import csv
import io
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
import trustme

from builders.price_service import (
    F4,
    PRICES,
    TIMES,
    USAGE,
    a_page,
    a_usage,
    an_hour,
    an_item,
    costs,
)
from builders.scripted_server import Answer, serving_tls
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.cost.errors import InvalidQuestion
from hpc.autoscale.errors import ConfigurationException

EARLIEST = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of our own, and nothing in the environment that leads elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return tmp_path


def written(write):
    """The rows that are written to an open file."""
    file = io.StringIO(newline="")
    write(file, **TIMES)
    return list(csv.reader(io.StringIO(file.getvalue(), newline="")))


def test_what_nodearrays_have_cost(server):
    """Core-hours by the cores of a machine, times its price, spot prices for spot."""
    server.on("GET", PRICES, a_page(an_item(), an_item(0.1, meterName="F4 Spot", meterId="m-2")))
    server.on("GET", USAGE, a_usage(an_hour(0, F4, {**F4, "priority": "Spot"})))
    rows = written(costs(server.url, url=server.url).get_nodearray)
    vm = "Virtual Machines"
    assert rows == [
        ["htc", "8.0", "1.0", "Standard_F4", "westus2", "False", "F4", "m-1", vm, "0.5", "USD"],
        ["htc", "8.0", "0.2", "Standard_F4", "westus2", "True", "F4 Spot", "m-2", vm, "0.1", "USD"],
    ]


def test_what_they_have_cost_hour_by_hour(server):
    """Each row begins with its hour; a price is asked for once."""
    server.on("GET", PRICES, a_page(an_item()))
    server.on("GET", USAGE, a_usage(an_hour(0, F4), an_hour(1, F4)))
    rows = written(costs(server.url, url=server.url).get_nodearray_hourly)
    assert [row[:5] for row in rows] == [
        ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "htc", "8.0", "1.0"],
        ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "htc", "8.0", "1.0"],
    ]
    assert server.seen("GET", USAGE)[0].query["granularity"] == ["hourly"]
    assert len(server.seen("GET", PRICES)) == 1


def test_totals_are_the_first_interval(server):
    """The server is asked for one, and whatever else it sends is not counted twice."""
    server.on("GET", PRICES, a_page(an_item()))
    server.on("GET", USAGE, a_usage(an_hour(0, F4), an_hour(1, F4)))
    assert len(written(costs(server.url, url=server.url).get_nodearray)) == 1


def test_the_question(server):
    """A period of our own, with details, from our own user."""
    server.on("GET", USAGE, a_usage())
    usage = costs(server.url, url=server.url).get_usage(**TIMES, granularity="total")
    (seen,) = server.requests
    assert usage == {"usage": []}
    assert seen.headers["Authorization"].startswith("Basic ")
    assert seen.query == {
        "timeframe": ["custom"],
        "from": ["2026-01-01T00:00:00Z"],
        "to": ["2026-01-02T00:00:00Z"],
        "granularity": ["total"],
        "expand": ["details"],
    }


def test_usage_is_what_the_server_says(server):
    """As a dict, with the keys of the protocol."""
    server.on("GET", USAGE, a_usage(an_hour(0, F4)))
    usage = costs(server.url, url=server.url).get_usage(**TIMES, granularity="daily")
    assert usage == {"usage": [an_hour(0, F4)]}


@pytest.mark.parametrize(
    "start",
    [
        "2026-01-01T06:00:00",
        "2026-01-01T06:00:00Z",
        "2026-01-01T08:00+02:00",
        datetime(2026, 1, 1, 6),
        datetime(2026, 1, 1, 6, tzinfo=UTC),
        datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_times_are_in_utc(server, start):
    """Unless they say otherwise."""
    server.on("GET", USAGE, a_usage())
    costs(server.url, url=server.url).get_usage(start, date(2026, 1, 2), "total")
    assert server.requests[0].query["from"] == ["2026-01-01T06:00:00Z"]


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (("soon", "2026-01-02", "total"), "start: expected a time in ISO-8601, found 'soon'"),
        (("2026-01-01", None, "total"), "end: expected a time in ISO-8601, found None"),
        (("2026-01-01", "2026-01-01", "total"), "expected a start before the end"),
        (("2026-01-02", "2026-01-01", "total"), "expected a start before the end"),
        (("2026-01-01", "2026-01-02", "hourl"), "did you mean 'hourly'"),
        ((EARLIEST, "2026-01-02", "total"), "start"),
    ],
)  # fmt: skip
def test_periods_that_make_no_sense(server, question, says):
    """Are refused before anybody is asked."""
    with pytest.raises(InvalidQuestion, match=says):
        costs(server.url, url=server.url).get_usage(*question)
    assert server.requests == []


def test_one_size_without_a_price_costs_the_others_nothing(server, caplog):
    """Its row has empty cells, the log says why, once."""
    other = {**F4, "vm_size": "Standard_Unheard_Of"}
    server.on("GET", PRICES, a_page(an_item()))
    server.on("GET", USAGE, a_usage(an_hour(0, other, F4), an_hour(1, other, F4)))
    rows = written(costs(server.url, url=server.url).get_nodearray_hourly)
    assert [(row[4], row[5], row[11]) for row in rows] == 2 * [
        ("", "Standard_Unheard_Of", ""),
        ("1.0", "Standard_F4", "0.5"),
    ]
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "In the cost report without a price: expected the on-demand price of Standard_Unheard_Of"
        " in westus2, found none"
    ]


def test_a_report_without_the_price_service(server):
    """Has the catalogue's prices, and says so in every row."""
    server.on("GET", PRICES, Answer(503, b""))
    server.on("GET", USAGE, a_usage(an_hour(0, F4)))
    (row,) = written(costs(server.url, url=server.url).get_nodearray)
    assert (row[2], row[6], row[9]) == ("0.398", "offline catalogue", "0.199")


def test_a_server_that_cannot_report_usage(server):
    """Old ones have no such page; nothing is written."""
    file = io.StringIO()
    with pytest.raises(errors.NotFound):
        costs(server.url, url=server.url).get_nodearray(file, **TIMES)
    assert file.getvalue() == ""


def test_usage_that_is_garbage(server):
    """Is the REST client's error, with what was expected."""
    server.on("GET", USAGE, Answer(body={"usage": [{"start": 3}]}))
    with pytest.raises(errors.BadReply, match="ClusterUsage"):
        costs(server.url, url=server.url).get_usage(**TIMES, granularity="total")


def test_usage_needs_a_server(monkeypatch):
    """And says which setting is missing."""
    monkeypatch.delenv("CYCLECLOUD_URL", raising=False)
    with pytest.raises(ConfigurationException, match="url of the CycleCloud server is not set"):
        costs("http://127.0.0.1:9").get_usage(**TIMES, granularity="total")


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def tls_server(authority):
    with serving_tls(authority) as script:
        script.on("GET", USAGE, a_usage())
        yield script


def test_the_certificate_of_cyclecloud_is_verified(tls_server):
    """Unless told otherwise."""
    with pytest.raises(errors.CertificateError, match="certificate verify failed"):
        costs("http://127.0.0.1:9", url=tls_server.url).get_usage(**TIMES, granularity="total")
    assert tls_server.requests == []


def test_verify_certificates_is_honoured(tls_server):
    """False turns it off."""
    cost = costs("http://127.0.0.1:9", url=tls_server.url, verify_certificates=False)
    assert cost.get_usage(**TIMES, granularity="total") == {"usage": []}


def test_ca_file_is_honoured(tls_server, authority, home):
    """It names the certificates to trust."""
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    cost = costs("http://127.0.0.1:9", url=tls_server.url, ca_file=str(home / "ca.pem"))
    assert cost.get_usage(**TIMES, granularity="total") == {"usage": []}
