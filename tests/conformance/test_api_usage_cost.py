"""Section 13, second half: costs and the example modules."""

import csv
import io
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from builders.nodes import an_htc_cluster, names
from builders.published import row
from hpc.autoscale import clock
from hpc.autoscale.cost.azurecost import azurecost
from hpc.autoscale.example.basic import BasicDriver, autoscale_driver
from hpc.autoscale.example.readmeutil import clone_dcalc, example, withcontext
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.results import AllocationResult, DefaultContextHandler
from hpc.autoscale.testing import a_config

RETAIL = ("sku_name", "region", "spot", "meter", "meterid", "metercat", "rate", "currency")


def an_item(rate, **more):
    """A price as the service gives it."""
    item = {
        "armSkuName": "Standard_F4",
        "armRegionName": "westus2",
        "currencyCode": "USD",
        "meterId": "m-1",
        "meterName": "F4",
        "productName": "Virtual Machines F Series",
        "retailPrice": rate,
        "serviceName": "Virtual Machines",
        "skuName": "F4",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
    }
    return {**item, **more}


ITEMS = [
    an_item(9.0, productName="Virtual Machines F Series Windows"),
    an_item(0.5),
    an_item(0.1, meterName="F4 Spot", skuName="F4 Spot"),
]
DETAILS = {
    "vm_size": "Standard_F4",
    "region": "westus2",
    "hours": 8.0,
    "core_count": 4,
    "priority": "Regular",
    "os": "Linux",
}
INTERVAL = {
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T01:00:00Z",
    "total": {"category": "cluster", "hours": 8.0},
    "breakdown": [
        {"category": "node", "node": "scheduler", "hours": 1.0, "details": [DETAILS]},
        {"category": "nodearray", "node": "htc", "hours": 8.0, "details": [DETAILS]},
    ],
}


class Service(BaseHTTPRequestHandler):
    """The price service and a CycleCloud that knows its usage."""

    asked: list

    def do_GET(self):
        url = urlsplit(self.path)
        self.asked.append((url.path, parse_qs(url.query)))
        body = {"usage": [INTERVAL]} if url.path.endswith("/usage") else {"Items": ITEMS}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        """Says nothing."""


@pytest.fixture
def costs(tmp_path, monkeypatch):
    """An azurecost whose servers are on loopback; what they were asked is in `asked`."""
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    handler = type("Here", (Service,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        config = {
            "cluster_name": "clusty",
            "url": url,
            "username": "u",
            "password": "p",
            "cost": {"cache_root": str(tmp_path / "cache"), "prices_url": url},
        }
        made = azurecost(config)
        made.asked = handler.asked
        yield made
        server.shutdown()
        thread.join()


@row("cost.azurecost")
def test_costs_need_the_name_of_a_cluster(tmp_path, monkeypatch):
    """ValueError without it; the cache is where `cost.cache_root` says, else at the user's, and
    nothing is made yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    with pytest.raises(ValueError, match="cluster_name"):
        azurecost({})
    azurecost({"cluster_name": "c"})
    azurecost({"cluster_name": "c", "cost": {"cache_root": str(tmp_path / "own")}})
    assert list(tmp_path.iterdir()) == []


@row("cost.azurecost")
def test_prices_are_kept_below_the_cache_root(costs, tmp_path):
    """Asked once, they come from there afterwards."""
    first = costs.get_job("Standard_F4", "westus2", False)
    again = azurecost(costs.config, prices_url=costs.config["url"])
    assert again.get_job("Standard_F4", "westus2", False) == first
    assert len(costs.asked) == 1
    assert any(path.is_file() for path in (tmp_path / "cache").rglob("*"))


@row("cost.questions")
def test_a_jobs_price_is_a_named_tuple(costs):
    """`.rate` per hour, of Linux; spot prices are spot prices; Slurm reads the `_fields` of its
    class."""
    form = costs.get_job_format()
    regular = costs.get_job("Standard_F4", "westus2", False)
    spot = costs.get_job(sku_name="Standard_F4", region="westus2", spot=True)
    assert form._fields == RETAIL
    assert isinstance(regular, form)
    assert (regular.rate, spot.rate, regular.currency) == (0.5, 0.1, "USD")
    assert regular._asdict()["sku_name"] == "Standard_F4"


@row("cost.questions")
@pytest.mark.parametrize(
    "times",
    [
        {"start": "2026-01-01", "end": "2026-01-02"},
        {
            "start": datetime(2026, 1, 1, tzinfo=UTC),
            "end": datetime(2026, 1, 2, tzinfo=UTC),
        },
    ],
    ids=["texts", "datetimes"],
)
def test_nodearrays_write_rows_of_their_format(costs, times):
    """CSV without a header; cost is hours by cores by rate; the hourly kind has its times in
    front."""
    total, hourly = io.StringIO(), io.StringIO()
    costs.get_nodearray(total, **times)
    costs.get_nodearray_hourly(hourly, **times)
    prefix = ("nodearray", "core_hours", "cost")
    (of_total,), (of_hour,) = (list(csv.reader(io.StringIO(f.getvalue()))) for f in (total, hourly))
    assert costs.get_nodearray_format()._fields == (*prefix, *RETAIL)
    assert costs.get_nodearray_hourly_format()._fields == ("start", "end", *prefix, *RETAIL)
    by_name = costs.get_nodearray_format()._make(of_total)
    assert (by_name.nodearray, float(by_name.core_hours), float(by_name.cost)) == ("htc", 8.0, 1.0)
    assert of_hour == ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", *of_total]
    asked = [query for path, query in costs.asked if path == "/clusters/clusty/usage"]
    assert [query["granularity"] for query in asked] == [["total"], ["hourly"]]
    assert asked[0]["from"][0].startswith("2026-01-01")


@row("example.basic")
def test_jobs_use_what_is_there_before_new_nodes(capsys):
    """An on-premises machine of four slots: the first exclusive job takes it, the second starts a
    node."""
    cluster = an_htc_cluster()
    jobs = [Job(str(i), {"ncpus": 1, "exclusive": True}) for i in (1, 2)]
    driver = BasicDriver(jobs, [SchedulerNode("tux", {"ncpus": 4})])
    demand = autoscale_driver(a_config(cluster), driver)
    assert [(n.name, n.assignments) for n in demand.new_nodes] == [("htc-1", {"2"})]
    assert {n.hostname for n in demand.matched_nodes if "1" in n.assignments} == {"tux"}
    assert len(cluster.get_nodes().nodes) == 1
    assert "htc-1" in capsys.readouterr().out


@row("example.basic")
def test_a_job_that_matches_nothing_leaves_the_machine_idle():
    """And nothing is started for it."""
    cluster = an_htc_cluster()
    driver = BasicDriver([Job("1", {"ncpus": 999})], [SchedulerNode("tux", {"ncpus": 4})])
    demand = autoscale_driver(a_config(cluster), driver)
    assert (demand.new_nodes, [n.hostname for n in demand.unmatched_nodes]) == ([], ["tux"])
    assert cluster.get_nodes().nodes == []


class Draining(BasicDriver):
    """Upstream's test derives a driver that notes what it is told."""

    def __init__(self, jobs, scheduler_nodes):
        super().__init__(jobs, scheduler_nodes)
        self.told = []

    def handle_join_cluster(self, nodes):
        self.told.append(("join", names(nodes)))
        super().handle_join_cluster(nodes)

    def handle_post_delete(self, nodes):
        self.told.append(("delete", names(nodes)))
        super().handle_post_delete(nodes)


@row("example.basic")
def test_idle_nodes_go_after_three_seconds():
    """The driver is told of nodes that join and of those deleted."""
    now = clock.use_mock_clock()
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    driver = Draining([], [])
    for _ in range(2):
        autoscale_driver(a_config(cluster), driver)
        now.sleep(4)
    assert driver.told[0] == ("join", ["htc-1"])
    assert driver.told[-1] == ("delete", ["htc-1"])
    assert cluster.get_nodes().nodes == []


def _calculator():
    return new_demand_calculator(a_config(an_htc_cluster()), node_history=NullNodeHistory())


@row("example.readmeutil")
def test_a_cloned_calculator_starts_anew():
    """Each example of a demo works on a clone, and the original learns nothing of it."""
    original = _calculator()
    clone = clone_dcalc(original)
    clone.add_job(Job("1", {"ncpus": 4}, iterations=3))
    assert len(clone.finish().new_nodes) == 3
    assert original.finish().new_nodes == []


@row("example.readmeutil")
def test_examples_are_announced_and_their_results_filed(capsys):
    """Both are decorators that call the function; withcontext also files results under a handler's
    context."""

    @example
    def packing(dcalc, count):
        """Packs slots."""
        return dcalc._add_job(Job("1", {"ncpus": 1}, iterations=count))

    @withcontext
    def filed(dcalc):
        return dcalc._add_job(Job("2", {"ncpus": 1})).total_slots

    assert packing(_calculator(), count=5).total_slots == 5
    assert "Packs slots." in capsys.readouterr().out
    assert filed(_calculator()) == 1
    handler = DefaultContextHandler("[example]")
    with withcontext(handler):
        _calculator()._add_job(Job("3", {"ncpus": 1}))
    assert any(isinstance(result, AllocationResult) for result in handler.by_context["[example]"])
