"""Prices from a real HTTP server: what is asked, what is made of the answers, and what when there
are none."""

import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trustme

from builders.price_service import PRICES, a_page, an_item, costs
from builders.scripted_server import Answer, FakeTime, serving
from hpc.autoscale.cost import cache
from hpc.autoscale.cost.azurecost import azurecost
from hpc.autoscale.cost.errors import (
    CostError,
    InvalidQuestion,
    PriceServiceRefused,
    PriceServiceUnavailable,
    PriceUnknown,
)
from hpc.autoscale.cost.report import PriceKey
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node import vm_sizes

SIZE = ("Standard_F4", "westus2")
UNHEARD_OF = ("Standard_Unheard_Of", "westus2")
SPOT = an_item(0.1, meterName="F4 Spot", skuName="F4 Spot", meterId="m-2")
CATALOGUE_PRICE = 0.199


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of our own, and nothing in the environment that leads elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    yield tmp_path
    vm_sizes.configure({})


def test_a_job_knows_its_rate(server):
    """The published row, from the item that fits."""
    server.on("GET", PRICES, a_page(SPOT, an_item()))
    job = costs(server.url).get_job(*SIZE, False)
    expected = (*SIZE, False, "F4", "m-1", "Virtual Machines", 0.5, "USD")
    assert (job, job.rate) == (expected, 0.5)
    assert isinstance(job, costs(server.url).get_job_format())


def test_the_rate_of_spot_is_the_spot_price(server):
    """Although the on-demand price comes first."""
    server.on("GET", PRICES, a_page(an_item(), SPOT))
    job = costs(server.url).get_job(*SIZE, spot=True)
    assert (job.rate, job.meter, job.spot) == (0.1, "F4 Spot", True)


def test_without_a_spot_price_there_is_none(server):
    """The rate is None, and a job's is an error that says what is missing."""
    server.on("GET", PRICES, a_page(an_item()))
    cost = costs(server.url)
    assert cost.get_retail_rate(*SIZE, True) is None
    with pytest.raises(PriceUnknown, match="spot price of Standard_F4 in westus2, found none"):
        cost.get_job(*SIZE, True)


def test_the_question(server):
    """Version, primary meters and filter, and nothing about who we are."""
    server.on("GET", PRICES, a_page(an_item()))
    costs(server.url).get_retail_rate("standard_f4", "WestUS2", False)
    (seen,) = server.requests
    assert seen.query == {
        "api-version": ["2021-10-01-preview"],
        "meterRegion": ["'primary'"],
        "$filter": [
            "armRegionName eq 'westus2' and armSkuName eq 'Standard_F4' and serviceName eq "
            "'Virtual Machines'"
        ],
    }
    assert "Authorization" not in seen.headers


def test_a_quote_in_a_name_stays_in_the_name(server):
    """The filter cannot be added to."""
    server.on("GET", PRICES, a_page())
    costs(server.url).get_retail_rate("x' or 'a' eq 'a", "westus2", False)
    assert "armSkuName eq 'x'' or ''a'' eq ''a' and" in server.requests[0].query["$filter"][0]


def test_netrc_is_not_looked_at(server, home, monkeypatch):
    """A password for the host of the service stays here."""
    (home / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(home / "netrc"))
    server.on("GET", PRICES, a_page(an_item()))
    costs(server.url).get_job(*SIZE, False)
    assert "Authorization" not in server.requests[0].headers


def test_all_pages_are_read(server):
    """The price may be on the last of them."""
    pages = [
        a_page(SPOT, following=f"{server.url}{PRICES}?page=2"),
        a_page(following=f"{PRICES}?page=3"),
        a_page(an_item(0.7)),
    ]
    server.on("GET", PRICES, *pages)
    assert costs(server.url).get_job(*SIZE, False).rate == 0.7
    assert [seen.query.get("page") for seen in server.requests] == [None, ["2"], ["3"]]


@pytest.mark.parametrize(
    ("following", "says"),
    [
        (PRICES, "does not end"),
        ("https://elsewhere.invalid/prices", "expected the next page on the same server"),
        ("http://[", "expected the next page on the same server"),
        (3, "expected the next page on the same server, found 3"),
    ],
)
def test_a_list_that_leads_nowhere(server, following, says):
    """Half a list is no list: a price that is not in it may be in the rest."""
    server.on("GET", PRICES, a_page(an_item(), following=following))
    with pytest.raises(PriceServiceUnavailable, match=says):
        costs(server.url).get_retail_rate(*UNHEARD_OF, False)


def test_the_sizes_of_a_meter(server):
    """As pairs of size and region."""
    server.on("GET", PRICES, a_page(an_item(), an_item(armRegionName="eastus"), {}))
    found = costs(server.url).get_info_from_retail("m-1")
    assert found == [SIZE, ("Standard_F4", "eastus"), ("", "")]
    assert server.requests[0].query["$filter"] == ["meterId eq 'm-1'"]


def test_an_answer_is_asked_for_once(server, home):
    """In this process and in the next, for two days, in files below the user's cache."""
    server.on("GET", PRICES, a_page(an_item(), SPOT))
    for cost in (costs(server.url), costs(server.url)):
        for spot in (False, True):
            cost.get_job(*SIZE, spot)
    assert len(server.requests) == 1
    assert len(list((home / "caches" / "hpc-autoscale" / "retail").iterdir())) == 1


def test_the_configured_directory_is_used(server, home):
    """`cost.cache_root`."""
    server.on("GET", PRICES, a_page(an_item()))
    costs(server.url, cost={"cache_root": str(home / "mine")}).get_job(*SIZE, False)
    assert len(list((home / "mine" / "retail").iterdir())) == 1


def test_a_cached_value_that_is_no_list_of_prices(server, monkeypatch):
    """The service is asked instead."""
    server.on("GET", PRICES, a_page(an_item()))
    monkeypatch.setattr(cache.ResponseCache, "get", lambda self, key: {"not": "a list"})
    assert costs(server.url).get_job(*SIZE, False).rate == 0.5


def test_two_at_once(server):
    """Both have the price, and what they have stored is whole."""
    server.on("GET", PRICES, a_page(an_item()))
    rates = []
    threads = [
        threading.Thread(target=lambda: rates.append(costs(server.url).get_job(*SIZE, False).rate))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = len(server.requests)
    assert rates == [0.5] * 8
    assert costs(server.url).get_job(*SIZE, False).rate == 0.5
    assert len(server.requests) == asked


NO_ANSWERS = [
    pytest.param(Answer(fault="reset"), "no answer", id="reset"),
    pytest.param(Answer(body={}, fault="cut"), "no answer", id="cut"),
    pytest.param(Answer(500, b"oops"), "HTTP 500", id="500"),
    pytest.param(Answer(503, b""), "HTTP 503", id="503"),
    pytest.param(Answer(429, b"", {"Retry-After": "9999"}), "HTTP 429", id="429"),
    pytest.param(Answer(407, b"<title>Proxy</title>"), "HTTP 407", id="407"),
    pytest.param(Answer(302, b"", {"Location": "/login"}), "HTTP 302", id="302"),
    pytest.param(
        Answer(200, b"<html><title>Hotel</title>"), "an HTML page titled 'Hotel'", id="html"
    ),
    pytest.param(Answer(200, b""), "found an empty body", id="empty"),
    pytest.param(Answer(200, b'{"Items": ['), "JSON that is cut off", id="half"),
    pytest.param(Answer(body=[1]), "JSON of another kind", id="other json"),
    pytest.param(Answer(body={"Items": [3]}), "JSON of another kind", id="other items"),
    pytest.param(Answer(body={"Count": 0}), "JSON of another kind", id="no items"),
]


@pytest.mark.parametrize(("answer", "says"), NO_ANSWERS)
def test_the_catalogue_answers_for_a_service_that_does_not(server, answer, says, caplog):
    """The row says so, and the log says why."""
    server.on("GET", PRICES, answer)
    job = costs(server.url).get_job(*SIZE, False)
    assert job == (
        *SIZE,
        False,
        "offline catalogue",
        "",
        "Virtual Machines",
        CATALOGUE_PRICE,
        "USD",
    )
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert record.getMessage().startswith("Prices come from the offline catalogue: ")
    assert says in record.getMessage()


@pytest.mark.parametrize(("answer", "says"), NO_ANSWERS)
def test_what_the_catalogue_does_not_know_either(server, answer, says):
    """Is an error of ours."""
    server.on("GET", PRICES, answer)
    with pytest.raises(PriceServiceUnavailable, match=says):
        costs(server.url).get_job(*UNHEARD_OF, False)


def test_an_outage_is_a_short_line(server, caplog):
    """It names the host, and each size without a price; the URLs are in the debug log."""
    caplog.set_level("DEBUG")
    server.on("GET", PRICES, Answer(503, b""))
    cost = costs(server.url)
    cost.get_job(*SIZE, False)
    assert cost._rate(PriceKey(*UNHEARD_OF, False, False)) is None
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    why = "price service at 127.0.0.1: HTTP 503: an empty body"
    assert said == [
        f"Prices come from the offline catalogue: {why}",
        f"In the cost report without a price: Standard_Unheard_Of in westus2: {why}",
    ]
    debug = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG"]
    assert any(UNHEARD_OF[0] in text and server.url in text for text in debug)


@pytest.mark.parametrize("url", ["http://[::1", "nowhere", "http://u:secret@127.0.0.1:9/"])
def test_the_host_of_an_outage(url):
    """Is told of what is no URL, too, and without the password."""
    text = PriceServiceUnavailable(url, "why").short
    assert text.startswith("price service at ") and text.endswith(": why")
    assert "secret" not in text


def test_spot_prices_of_the_catalogue_are_estimates():
    """And marked as that; nothing listens there."""
    job = costs("http://127.0.0.1:9").get_job("Standard_F2s_v2", "eastus", True)
    assert job.meter == "offline catalogue (spot estimate)"
    assert job.rate == pytest.approx(0.0846 * 0.11)


def test_windows_is_not_in_the_catalogue():
    """A price without Windows would be too low."""
    with pytest.raises(PriceServiceUnavailable):
        costs("http://127.0.0.1:9").get_retail_rate(*SIZE, False, windows=True)


def test_own_prices_are_part_of_the_catalogue():
    """`vm_sizes.prices` of the configuration."""
    own = {"prices": {"westus2": {"Standard_F4": 3.0}}}
    assert costs("http://127.0.0.1:9", vm_sizes=own).get_job(*SIZE, False).rate == 3.0


def test_an_answer_of_the_catalogue_is_not_kept(server):
    """As soon as the service is back, the price is the service's."""
    time = FakeTime()
    server.on("GET", PRICES, *[Answer(503, b"")] * 3, a_page(an_item()))
    cost = costs(server.url, time)
    assert cost.get_job(*SIZE, False).meter == "offline catalogue"
    time.time += 301
    assert cost.get_job(*SIZE, False).meter == "F4"


def test_a_service_that_is_down_is_not_asked_for_every_size(server, caplog):
    """One outage costs three requests and one warning, however many sizes there are."""
    server.on("GET", PRICES, Answer(503, b""))
    cost = costs(server.url)
    for size in ("Standard_F2", "Standard_F4", "Standard_F8"):
        assert cost.get_job(size, "westus2", False).meter == "offline catalogue"
    assert len(server.requests) == 3
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


def test_while_a_service_is_down_errors_name_their_own_question(server):
    """And that it was not asked, and why not: what the first question came to."""
    server.on("GET", PRICES, Answer(503, b""))
    cost = costs(server.url)
    cost.get_job(*SIZE, False)
    for size in ("Standard_Unheard_Of", "Standard_Never_Heard"):
        with pytest.raises(PriceServiceUnavailable) as caught:
            cost.get_job(size, "eastus", False)
        assert size in caught.value.url
        assert size in str(caught.value)
        assert "not asked: the service did not answer a moment ago (HTTP 503" in str(caught.value)
        assert SIZE[0] not in str(caught.value)
    assert len(server.requests) == 3


def test_trouble_that_passes(server):
    """Is waited for: as long as the service asks for, or a moment."""
    time = FakeTime()
    answers = [Answer(429, b"", {"Retry-After": "7"}), Answer(fault="reset"), a_page(an_item())]
    server.on("GET", PRICES, *answers)
    assert costs(server.url, time).get_job(*SIZE, False).rate == 0.5
    assert time.slept == [7.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_is_an_error(server, status):
    """The catalogue does not hide that our question is wrong; there is no second attempt."""
    refusal = {"Error": {"Code": "BadRequest", "Message": "Invalid OData parameters supplied"}}
    server.on("GET", PRICES, Answer(status, refusal))
    with pytest.raises(PriceServiceRefused, match=f"HTTP {status}: .*Invalid OData") as caught:
        costs(server.url).get_job(*SIZE, False)
    assert (caught.value.status_code, len(server.requests)) == (status, 1)


def test_an_untrusted_certificate_is_no_price_service(caplog):
    """Whatever the configuration says of CycleCloud's certificate; and one attempt is enough."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(context) as server:
        cost = costs(server.url, verify_certificates=False)
        assert cost.get_job(*SIZE, False).meter == "offline catalogue"
        assert server.requests == []
    assert "certificate verify failed" in caplog.text


def test_a_bundle_of_the_environment_is_trusted(home, monkeypatch):
    """As sites have it whose proxy looks into TLS."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(home / "ca.pem"))
    with serving(context) as server:
        server.on("GET", PRICES, a_page(an_item()))
        assert costs(server.url).get_job(*SIZE, False).rate == 0.5


def test_the_proxy_of_the_environment_is_used(server, monkeypatch):
    """Clusters get to the internet through one."""
    server.on("GET", PRICES, a_page(an_item()))
    monkeypatch.setenv("http_proxy", server.url)
    assert costs("http://prices.invalid").get_job(*SIZE, False).rate == 0.5


@pytest.mark.parametrize("bad", [None, "", "  ", 3])
@pytest.mark.parametrize("place", [0, 1])
def test_questions_about_nothing(server, bad, place):
    """Are answered with what was expected, and nobody is asked."""
    question = list(SIZE)
    question[place] = bad
    with pytest.raises(InvalidQuestion, match=r"expected a (VM size|region), found"):
        costs(server.url).get_job(*question, False)
    assert server.requests == []


@pytest.mark.parametrize("config", [{}, {"cluster_name": ""}, {"cluster_name": 3}])
def test_a_cluster_must_be_named(config):
    """ValueError, as published, and one of ours."""
    with pytest.raises(ValueError, match="cluster_name: expected the name of a cluster") as caught:
        azurecost(config)
    assert isinstance(caught.value, ConfigurationException)


@pytest.mark.parametrize("section", ["/tmp", {"cache_root": 3}])
def test_a_cost_section_that_makes_no_sense(section):
    """Is named with its place."""
    with pytest.raises(ConfigurationException, match=r"^cost"):
        azurecost({"cluster_name": "c", "cost": section})


def test_published_questions_without_an_answer():
    """There are no prices of a subscription, and no meters to look up."""
    cost = azurecost({"cluster_name": "c"})
    assert cost.check_cost_avail() is False
    assert cost.check_cost_avail(start="2026-01-01", end="2026-01-02") is False
    assert cost.do_meter_lookup("Standard_F4", "westus2", False) is None


def test_field_orders_are_published():
    """Callers write them as the header of their files."""
    job = "sku_name,region,spot,meter,meterid,metercat,rate,currency"
    cost = azurecost({"cluster_name": "c"})
    formats = (
        cost.get_job_format(),
        cost.get_nodearray_format(),
        cost.get_nodearray_hourly_format(),
    )
    assert [",".join(each._fields) for each in formats] == [
        job,
        f"nodearray,core_hours,cost,{job}",
        f"start,end,nodearray,core_hours,cost,{job}",
    ]
    names = [each.__name__ for each in formats]
    assert names == ["az_job_retail_t", "az_array_retail_t", "az_array_hourly_retail_t"]


def test_formats_of_a_subscription_have_two_columns_more():
    """metersubcat and resourcegroup."""
    from hpc.autoscale.cost import formats

    for name in ("az_job", "az_array", "az_array_hourly"):
        full, retail = getattr(formats, f"{name}_t"), getattr(formats, f"{name}_retail_t")
        assert full.__name__ == f"{name}_t"
        more = ("metersubcat", "resourcegroup")
        assert tuple(field for field in full._fields if field not in more) == retail._fields
        assert set(full._fields) - set(retail._fields) == set(more)


def test_importing_and_making_one_does_nothing(home):
    """No request library is loaded, and no file appears."""
    code = (
        "import sys\n"
        "from hpc.autoscale.cost.azurecost import azurecost\n"
        "azurecost({'cluster_name': 'c'})\n"
        "print([m for m in ('requests', 'urllib3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=home)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert not Path(home, "caches").exists()


def test_all_errors_of_prices_are_one_tree():
    """Whoever catches CostError has all of them."""
    for kind in (InvalidQuestion, PriceUnknown, PriceServiceRefused, PriceServiceUnavailable):
        assert issubclass(kind, CostError)
