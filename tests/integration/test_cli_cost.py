"""`azscale cost`, with usage and prices from real HTTP servers."""

import json
import socket

import pytest

from builders.price_service import F4, PRICES, USAGE, a_page, a_usage, an_hour, an_item
from builders.scripted_server import Answer, serving
from hpc.autoscale import cli

PERIOD = ["--start", "2026-01-01", "--end", "2026-01-02T00:00Z"]


@pytest.fixture
def azscale(tmp_path, monkeypatch, capsys):
    """Run azscale with a configuration for the cluster c at a server; what it printed, and its exit
    code."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))

    def run(url, prices, *argv, clusters=()):
        config = {
            "cluster_name": "c",
            "url": url,
            "username": "u",
            "password": "p",
            "cost": {"prices_url": prices},
            "retry": {"attempts": 1},
        }
        if clusters:
            del config["cluster_name"]
            config["clusters"] = [{"name": f"at-{c}", "cluster_name": c} for c in clusters]
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        code = 0
        try:
            cli.main(["cost", "-c", str(path), *argv])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def server():
    """Usage of two hours, and one price."""
    with serving() as script:
        script.on("GET", PRICES, a_page(an_item()))
        unpriced = {**F4, "vm_size": "Standard_Odd", "core_count": None}
        script.on("GET", USAGE, a_usage(an_hour(0, F4, unpriced), an_hour(1, F4)))
        yield script


def test_what_nodes_have_cost(azscale, server):
    """A table of the period, and the sum on stderr, with what is not in it."""
    code, out, err = azscale(server.url, server.url + PRICES, *PERIOD)
    head, row, odd = (line.split() for line in out.splitlines())
    assert head == [
        "NODEARRAY",
        "SKU_NAME",
        "REGION",
        "SPOT",
        "CORE_HOURS",
        "RATE",
        "COST",
        "CURRENCY",
    ]
    assert row == ["htc", "Standard_F4", "westus2", "False", "8.0", "0.5000", "1.00", "USD"]
    assert odd[:2] == ["htc", "Standard_Odd"]
    assert err == (
        "1.00 USD from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z; 1 of 2 rows have no known "
        "cost\n"
    )
    assert code == 0
    (asked,) = server.seen("GET", USAGE)
    assert asked.query["granularity"] == ["total"]


def test_a_small_cost_is_not_said_to_be_nothing(azscale):
    """Neither in the table, whose columns have no space in them, nor in the sum."""
    with serving() as script:
        script.on("GET", PRICES, a_page(an_item()))
        script.on("GET", USAGE, a_usage(an_hour(0, {**F4, "hours": 0.01})))
        code, out, err = azscale(script.url, script.url + PRICES, *PERIOD)
    assert (code, out.split()[-2:]) == (0, ["<0.01", "USD"])
    assert err.startswith("< 0.01 USD from ")


def test_what_nodes_have_cost_hour_by_hour(azscale, server):
    """As JSON, with everything that is known."""
    _, out, _ = azscale(server.url, server.url + PRICES, "--hourly", "-F", "json", *PERIOD)
    rows = json.loads(out)
    assert [(row["start"][11:13], row["sku_name"]) for row in rows] == [
        ("00", "Standard_F4"),
        ("00", "Standard_Odd"),
        ("01", "Standard_F4"),
    ]
    assert (rows[0]["cost"], rows[0]["meterid"], rows[1]["cost"]) == (1.0, "m-1", None)


def test_without_the_price_service(azscale, server):
    """Prices are the catalogue's, which is said."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        code, out, err = azscale(server.url, nobody, *PERIOD)
    assert code == 0
    assert float(out.splitlines()[1].split()[6]) > 0
    assert "prices are those of the offline catalogue: the price service did not answer" in err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(400, {"Message": "no such filter"}), "HTTP 400: no such filter"),
        (Answer(302, headers={"Location": "/there"}), "HTTP 302"),
        (Answer(body={"Items": "none"}), "expected a list of prices, found JSON of another kind"),
    ],
)
def test_why_prices_could_not_be_had(azscale, answer, said):
    """Is said with the sum: a price service that is named wrong is found out."""
    with serving() as script:
        script.on("GET", PRICES, answer)
        script.on("GET", USAGE, a_usage(an_hour(0, F4), an_hour(1, F4)))
        _, _, err = azscale(script.url, script.url + PRICES, *PERIOD)
    assert f"price service at 127.0.0.1: {said}" in " ".join(err.split())


def test_several_clusters_wait_once_for_a_price_service_that_is_away(azscale):
    """However many there are."""
    with serving() as script:
        script.on("GET", PRICES, Answer(body="a page for people"))
        for name in "cd":
            script.on("GET", USAGE.replace("/c/", f"/{name}/"), a_usage(an_hour(0, F4)))
        code, out, err = azscale(script.url, script.url + PRICES, *PERIOD, clusters="cd")
        assert (code, len(script.seen("GET", PRICES))) == (0, 1)
    assert [line.split("/")[0] for line in out.splitlines()[1:]] == ["at-c", "at-d"]
    assert "offline catalogue" in err


def test_the_last_day_unless_asked_otherwise(azscale, server):
    """Until now, by the clock of this machine."""
    azscale(server.url, server.url + PRICES)
    (asked,) = server.seen("GET", USAGE)
    start, end = (asked.query[key][0] for key in ("from", "to"))
    assert start[:10] < end[:10]
    assert start[10:] == end[10:]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--start", "soon"], "--start: expected a time in ISO-8601, found 'soon'"),
        (["--end", "9999-12-31T23:00-02:00"], "--end: expected a time in ISO-8601, found '9999"),
        (["--start", "2026-02-01", "--end", "2026-01-01"], "expected a start before the end"),
    ],
)
def test_periods_that_make_no_sense(azscale, server, argv, said):
    """Are one line, before anybody is asked."""
    code, _, err = azscale(server.url, server.url + PRICES, *argv)
    assert code == 2
    assert said in err
    assert not server.seen("GET", USAGE)


def test_a_server_that_reports_no_usage(azscale):
    """Is one line that says what it answered."""
    with serving() as script:
        code, out, err = azscale(script.url, script.url + PRICES, *PERIOD)
    assert (code, out) == (1, "")
    assert "HTTP 404" in err
    assert err.count("\n") == 1
