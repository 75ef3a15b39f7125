"""Weights of regions, asked for over HTTP, kept, and shown."""

import json
import re
from collections import Counter
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from builders.scripted_server import Answer
from builders.site_commands import site_command as site_command
from hpc.autoscale import cli, clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.job import Job
from hpc.autoscale.simulator import serve
from hpc.autoscale.weights import WeightQuestion, WeightsError, current_weights
from hpc.autoscale.weights.providers import ask
from hpc.autoscale.weights.scores import PlacementScores, ScoresUnavailable

F2, F4 = "Standard_F2s_v2", "Standard_F4s_v2"
REGIONS = ["eastus", "westus2", "northeurope"]
CLOUD = {
    "clusters": {
        "c": {
            "region": "eastus",
            "nodearrays": {
                region: {"machine_types": [F2, F4], "region": region} for region in REGIONS
            },
        }
    },
    "regions": {
        "eastus": {"capacity": {F4: 15, F2: 0}},
        "westus2": {},
        "northeurope": {"spot_quota": 10},
    },
}


class Site:
    """A simulated Azure, and a configuration that asks it."""

    def __init__(self, simulator, home):
        self.simulator = simulator
        self.home = home
        self.config = {
            **simulator.connection("c"),
            "cost": {
                "prices_url": f"{simulator.url}/api/retail/prices",
                "cache_root": str(home / "prices"),
            },
            "retry": {"attempts": 1},
        }
        self.section = {
            "provider": "spot-score",
            "regions": REGIONS,
            "sizes": [F4],
            "count": 10,
            "subscription": "s-1",
            "management_url": simulator.url,
            "metadata_url": simulator.url,
        }

    def now(self, after=0, **more):
        """The weights after some seconds, with other settings."""
        clock.sleep(after)
        return current_weights({**self.config, "weights": {**self.section, **more}}, str(self.home))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Three regions: capacity for 15 machines, for any number, and a spot quota of 10 cores."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    clock.use_mock_clock()
    with serve(CLOUD) as simulator:
        yield Site(simulator, tmp_path)


def test_scores_become_weights(site):
    """High 9, Medium 4, Low 1; no quota 0."""
    assert site.now().weights == {"eastus": 4, "westus2": 9, "northeurope": 0}
    assert site.now(sizes=[F2], count=3).weights == {"eastus": 1, "westus2": 9, "northeurope": 9}


def test_the_best_size_counts(site):
    """One that can be had is enough."""
    assert site.now(sizes=[F2, F4]).weights["eastus"] == 4


def test_weights_live_for_a_time(site):
    """Then they are asked for anew, by whichever process comes next."""
    assert site.now().weights["eastus"] == 4
    site.simulator.set_capacity("eastus", **{F4: 0})
    assert site.now(after=899).weights["eastus"] == 4
    assert site.now(after=1).weights["eastus"] == 1


def test_a_small_change_changes_nothing(site):
    """Shares have to change by more than a quarter; to nothing and from nothing always counts."""
    answers = iter([[400, 400, 200], [430, 380, 190], [700, 200, 100], [700, 200, 0]])

    def provider(name, question):
        return dict(zip(question.regions, next(answers), strict=True))

    def now():
        clock.sleep(901)
        config = {**site.config, "weights": site.section}
        return list(current_weights(config, str(site.home), provider).weights.values())

    assert [now() for _ in range(4)] == [
        [400, 400, 200],
        [400, 400, 200],
        [700, 200, 100],
        [700, 200, 0],
    ]


FAULTS = [
    {"kind": "status", "status": 500},
    {"kind": "status", "status": 403},
    {"kind": "html"},
    {"kind": "truncated"},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("endpoint", ["get_spot_scores", "get_token"])
def test_the_last_good_weights_hold_while_nobody_answers(site, monkeypatch, endpoint, fault):
    """With the reason; the provider is asked again after a minute."""
    monkeypatch.setattr("hpc.autoscale.weights.scores.Pacing", lambda attempts: _impatient())
    before = site.now()
    site.simulator.faults.add(**fault, endpoint=endpoint)
    kept = site.now(after=901)
    assert (kept.weights, kept.taken_at) == (before.weights, before.taken_at)
    assert kept.problem.startswith("spot-score: http")
    site.simulator.faults.clear()
    assert site.now(after=59).problem
    assert site.now(after=1).problem == ""


def _impatient():
    from hpc.autoscale.ccbindings.pacing import Pacing

    return Pacing(attempts=1)


def test_without_any_good_weights_others_stand_in(site):
    """Those of the configuration, or the same for all; it is said that they do."""
    site.simulator.faults.add("status", endpoint="get_token", status=403)
    found = site.now()
    assert (found.weights, found.taken_at) == (dict.fromkeys(REGIONS, 1), None)
    assert site.now(static={"eastus": 3}).weights == {"eastus": 3, "westus2": 0, "northeurope": 0}


def test_a_region_of_which_nothing_is_known_has_the_usual_weight(site):
    """And not nothing."""
    found = site.now(regions=["eastus", "westus2", "nowhere"])
    assert found.weights == {"eastus": 4, "westus2": 9, "nowhere": 6}
    assert found.unknown == ("nowhere",)


def answering(server, answer):
    """A server with a token, and one answer to whoever asks for scores."""
    server.on("GET", "/metadata/identity/oauth2/token", Answer(body={"access_token": "t0k3n"}))
    where = (
        "/subscriptions/s/providers/Microsoft.Compute/locations/{}/placementScores/spot/generate"
    )
    for region in ("r0", "r1", "r8"):
        server.on("POST", where.format(region), answer)


def test_many_sizes_and_regions_are_asked_for_in_parts(server):
    """At most five sizes and eight regions in a request."""
    answering(server, Answer(body={"placementScores": []}))
    sizes, regions = [f"S{i}" for i in range(7)], [f"r{i}" for i in range(9)]
    PlacementScores("s", server.url, server.url).of(regions, sizes, 1)
    asked = [json.loads(request.body) for request in server.requests[1:]]
    assert [(len(one["desiredLocations"]), len(one["desiredSizes"])) for one in asked] == [
        (8, 5),
        (8, 2),
        (1, 5),
        (1, 2),
    ]


def test_what_azure_says_beyond_that_is_data(server):
    """Unknown words, other regions and garbage say nothing; of zones, the best counts."""
    scores = [
        {"region": "R1", "sku": "s1", "score": "Low", "availabilityZone": "1"},
        {"region": "r1", "sku": "S1", "score": "medium", "availabilityZone": "2"},
        {"region": "r2", "sku": "S1", "score": "DataNotFoundOrStale", "isQuotaAvailable": True},
        {"region": "r9", "sku": "S1", "score": "High"},
        {"region": ["r2"], "sku": None},
        None,
    ]
    answering(server, Answer(body={"placementScores": scores}))
    found = PlacementScores("s", server.url, server.url).of(["r1", "r2"], ["S1"], 1)
    assert found == {"r1": {"S1": 4.0}, "r2": {"S1": None}}


def test_the_token_is_in_no_message(server):
    """Whatever Azure says of it."""
    refusal = {"error": {"code": "AuthorizationFailed", "message": "may not"}}
    answering(server, Answer(403, body=refusal))
    with pytest.raises(ScoresUnavailable, match="HTTP 403") as caught:
        PlacementScores("s", server.url, server.url).of(["r1"], ["S1"], 1)
    assert "t0k3n" not in str(caught.value)


def test_prices_become_weights(site):
    """The cheapest region has most, the exponent makes the others less, and one without a known
    price is like the others."""
    plain = site.now(provider="price").weights
    square = site.now(provider="price", exponent=2)
    assert set(site.now(provider="price", exponent=0).weights.values()) == {1000}
    assert site.now(provider="price", exponent=99_999).weights["westus2"] == 1, "and not never"
    assert (plain["eastus"], square.weights["eastus"]) == (1000, 1000)
    assert 0 < plain["westus2"] < 1000
    assert square.weights["westus2"] == pytest.approx(plain["westus2"] ** 2 / 1000, abs=2)
    assert square.unknown == ("northeurope",)
    assert square.weights["westus2"] < square.weights["northeurope"] < 1000
    asked = {(r["armRegionName"], r["armSkuName"]) for r in prices_of(site, "eastus")}
    assert asked == {("eastus", F4)}


def test_prices_of_the_catalogue_do_for_the_regions_that_it_has(site):
    """While the price service is away; another region is like the others, and not all are alike."""
    site.config["cost"]["prices_url"] = "http://127.0.0.1:1/prices"
    asked = {
        "provider": "price",
        "regions": ["southcentralus", "westus2", "nowhere"],
        "spot": False,
    }
    found = site.now(**asked)
    assert (found.unknown, max(found.weights.values())) == (("nowhere",), 1000)
    found = site.now(after=1000, **{**asked, "regions": ["nowhere"]})
    assert "127.0.0.1:1" in found.problem


def test_prices_in_two_currencies_are_not_compared(site, server):
    """A service in yen that falls silent leaves dollars of the catalogue for the last region, of
    which nothing is known then."""
    item = {"type": "Consumption", "currencyCode": "JPY", "meterName": "F4s v2", "retailPrice": 30}
    server.on("GET", "/prices", Answer(body={"Items": [item]}), Answer(body={"Items": [item]}))
    server.on("GET", "/prices", Answer(status=503, headers={"Retry-After": "9999"}))
    site.config["cost"]["prices_url"] = f"{server.url}/prices"
    regions = ["eastus", "northeurope", "southcentralus"]
    found = site.now(provider="price", regions=regions, spot=False)
    assert (found.problem, found.unknown) == ("", ("southcentralus",))
    assert len(set(found.weights.values())) == 1


def test_a_region_that_the_price_service_refuses_is_one_of_which_nothing_is_known(site, server):
    """As a mirror that has files of some regions and 404 for others."""
    item = {"type": "Consumption", "currencyCode": "USD", "meterName": "F4s v2", "retailPrice": 0.2}
    refused = Answer(status=404, body={"error": "no such file"})
    server.on("GET", "/prices", refused, Answer(body={"Items": [item]}), refused)
    site.config["cost"]["prices_url"] = f"{server.url}/prices"
    asked = {"provider": "price", "spot": False}
    found = site.now(**asked, regions=["nowhere", "eastus"])
    assert (found.problem, found.unknown) == ("", ("nowhere",))
    assert "HTTP 404" in site.now(after=1000, **asked, regions=["nowhere"]).problem


def test_a_price_that_is_not_known_any_more_leaves_the_last_weight(site, server):
    """In the same measure as that of the region that is left, which has most."""

    def priced(amount):
        item = {"type": "Consumption", "currencyCode": "USD", "meterName": "F4s v2"}
        return Answer(body={"Items": [{**item, "retailPrice": amount}]})

    server.on("GET", "/prices", priced(0.2), priced(0.25), priced(0.2), Answer(body={"Items": []}))
    site.config["cost"] = {"prices_url": f"{server.url}/prices", "cache_root": str(site.home / "p")}
    asked = {"provider": "price", "regions": ["eastus", "westus2"], "spot": False}
    assert site.now(**asked).weights == {"eastus": 1000, "westus2": 800}
    later = site.now(after=10_000_000, **asked)  # prices are kept for some days
    assert (later.unknown, later.weights) == (("westus2",), {"eastus": 1000, "westus2": 800})


def test_the_cheapest_region_keeps_its_share_while_its_price_is_not_known(site, server):
    """Although the weights of the others are in the measure of the next one then."""

    def priced(amount):
        item = {"type": "Consumption", "currencyCode": "USD", "meterName": "F4s v2"}
        return Answer(body={"Items": [{**item, "retailPrice": amount}]})

    nothing = Answer(body={"Items": []})
    server.on("GET", "/prices", priced(0.1), priced(0.4), priced(0.8))
    server.on("GET", "/prices", nothing, priced(0.4), priced(0.8))
    server.on("GET", "/prices", nothing, priced(0.2), priced(0.8))
    site.config["cost"] = {"prices_url": f"{server.url}/prices", "cache_root": str(site.home / "p")}
    asked = {"provider": "price", "regions": REGIONS, "spot": False}
    assert list(site.now(**asked).weights.values()) == [1000, 250, 125]
    later = site.now(after=10_000_000, **asked)  # prices are kept for some days
    assert (list(later.weights.values()), later.unknown) == ([1000, 250, 125], ("eastus",))
    # together the others weigh as much as before
    changed = site.now(after=10_000_000, **asked).weights
    assert list(changed.values()) == [1000, 300, 75]


def prices_of(site, region):
    """What the simulator says something costs."""
    query = f"$filter=armRegionName eq '{region}' and armSkuName eq '{F4}'"
    with urlopen(f"{site.simulator.url}/api/retail/prices?{quote(query, safe='=$')}") as reply:
        return json.load(reply)["Items"]


def test_a_blend(site):
    """Each provider by its share, each weight by its part of all; one that says never wins."""
    question = WeightQuestion(
        ("eastus", "westus2", "northeurope"),
        (F4,),
        10,
        settings={
            **site.section,
            "static": {"eastus": 1, "westus2": 1, "northeurope": 2},
            "blend": {"static": 1, "spot-score": 3},
        },
        config=site.config,
    )
    found = ask("blend", question)
    # eastus: 1/4 + 3 * 4/13, westus2: 1/4 + 3 * 9/13
    assert found["northeurope"] == 0
    assert found["eastus"] / found["westus2"] == pytest.approx(1.1731 / 2.3269, rel=0.01)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"provider": "spot_score"}, "expected a provider .*did you mean 'spot-score'"),
        ({"sizes": []}, "weights.sizes: expected one VM size or more for spot-score"),
        ({"subscription": ""}, "weights.subscription: expected the id of a subscription"),
        ({"regions": [], "static": {}}, "weights.regions: expected one region or more"),
        ({"provider": "blend"}, "weights.blend: expected providers with a share above 0"),
    ],
)
def test_sections_that_make_no_sense(site, more, said):
    """Are errors, which no last good weights hide."""
    with pytest.raises(ConfigurationException, match=said):
        site.now(**more)


def broken(answer):
    return lambda name, question: ask_as(answer, question)


def ask_as(answer, question):
    from hpc.autoscale.weights import providers

    return providers._checked("mine", answer, question)


@pytest.mark.parametrize(
    "answer", [None, {"eastus": -1}, {"eastus": "3"}, {"eastus": float("nan")}, {}, {"eastus": 0}]
)
def test_a_provider_that_answers_nonsense(site, answer):
    """Is one that gave no answer."""
    config = {**site.config, "weights": site.section}
    found = current_weights(config, str(site.home), broken(answer))
    assert found.problem
    assert found.weights == dict.fromkeys(REGIONS, 1)


def test_azscale_weights(site, tmp_path, capsys):
    """Prints them, with their share and where they come from."""
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({**site.config, "weights": site.section}))
    path.chmod(0o600)
    cli.main(["weights", "-c", str(path), "-F", "json"])
    out = capsys.readouterr()
    rows = {row["region"]: row for row in json.loads(out.out)}
    assert (rows["westus2"]["weight"], rows["westus2"]["share"]) == (9, "0.692")
    assert "the provider gave them 0 seconds ago" in out.err


def test_azscale_weights_asks_once_and_says_why_there_was_no_answer(site, capsys):
    """Also where the regions of nodes follow these weights."""
    site.simulator.faults.add("status", status=500, endpoint="get_spot_scores")
    path = site.home / "autoscale.json"
    path.write_text(json.dumps(auto(site, weights=site.section)))
    path.chmod(0o600)
    cli.main(["weights", "-c", str(path)])
    said = capsys.readouterr().err
    assert "spot-score: " in said and "HTTP 500" in said
    assert "still has not answered" not in said
    assert site.simulator.faults.report()[0]["seen"] == len(REGIONS)


def test_azscale_weights_guesses_a_region_of_which_nothing_is_known(site, tmp_path, capsys):
    """Where it is none that there is, as it has the weight of the others."""
    asked = {
        "provider": "price",
        "regions": ["southcentralus", "wetsus2", "westus2"],
        "sizes": [F4],
    }
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({**site.config, "weights": asked}))
    path.chmod(0o600)
    cli.main(["weights", "-c", str(path)])
    said = capsys.readouterr().err
    assert (
        "weights.regions: the provider knows nothing of 'wetsus2'; did you mean 'westus2'?" in said
    )
    assert said.count("did you mean") == 1


def test_a_loop_says_why_weights_are_not_those_of_the_provider(site):
    """In a note of the pass, for as long as that is so; nobody else reads the log."""

    def notes(after, **more):
        clock.sleep(after)
        return Autoscaler({**auto(site, weights=site.section), **more}, Tasks(1)).run_once().notes

    site.simulator.faults.add("status", status=403, endpoint="get_token")
    refused = r"weights of regions: spot-score: .*: HTTP 403: .*; {}"
    for more in ({"read_only": True}, {}):
        (said,) = notes(0, **more)
        assert re.fullmatch(refused.format("others stand in"), said)
    site.simulator.faults.clear()
    assert notes(61) == ()
    site.simulator.faults.add("status", status=403, endpoint="get_token")
    (said,) = notes(901)
    assert re.fullmatch(refused.format("the last ones hold"), said)


def test_prices_do_for_several_clusters(site, capsys):
    """In which the configuration as a whole has no cluster_name."""
    config = auto(site, weights={**site.section, "provider": "price"})
    own = {key: config.pop(key) for key in ("url", "username", "password", "cluster_name")}
    path = site.home / "autoscale.json"
    path.write_text(json.dumps({**config, "clusters": [{"name": "one", **own}]}))
    path.chmod(0o600)
    cli.main(["weights", "-c", str(path), "-F", "json"])
    rows = {row["region"]: row["weight"] for row in json.loads(capsys.readouterr().out)}
    assert rows["eastus"] == 1000 > rows["westus2"] > 0
    cli.main(["autoscale", "-c", str(path)])
    assert "cluster_name" not in capsys.readouterr().err


def test_azscale_buckets_has_the_weight_of_each_region(site, tmp_path, capsys):
    path = tmp_path / "autoscale.json"

    def buckets(**config):
        path.write_text(json.dumps({**site.config, **config}))
        path.chmod(0o600)
        cli.main(["buckets", "-c", str(path), "-F", "json"])
        return {row["nodearray"]: row for row in json.loads(capsys.readouterr().out)}

    auto = {"packing": {"policy": {"regions": "auto"}}, "weights": site.section}
    found = {name: row["region_weight"] for name, row in buckets(**auto).items()}
    assert found == {"eastus": 4, "westus2": 9, "northeurope": 0}
    part = buckets(packing={"policy": {"regions": {"eastus": 0.5}}})
    assert (part["eastus"]["region_weight"], part["westus2"]["region_weight"]) == (0.5, 0)
    assert "region_weight" not in buckets()["eastus"]


def test_azscale_retries_failed_nodes_where_regions_follow_current_weights(site, capsys):
    """As any other command: it reads the configuration as they do."""
    path = site.home / "autoscale.json"
    path.write_text(json.dumps(auto(site, weights=site.section)))
    path.chmod(0o600)
    assert not cli.main(["retry_failed_nodes", "-c", str(path)])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command",
    ["journal show", "replay", "metrics", "requests", "report --out page.html", "cost"],
)
def test_who_looks_at_files_asks_for_no_weights(site, tmp_path, monkeypatch, capsys, command):
    """Nor does a file of weights that is damaged stand in the way of a journal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.db").write_bytes(b"no database" * 100)
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({**site.config, "journal": {}}))
    path.chmod(0o600)
    cli.main(["autoscale", "-c", str(path)])
    path.write_text(json.dumps(auto(site, weights=site.section, journal={})))
    site.simulator.faults.add("status", status=403, endpoint="get_token")
    assert not cli.main([*command.split(), "-c", str(path)])
    assert site.simulator.faults.report()[0]["seen"] == 0


def test_a_damaged_file(site, tmp_path):
    """Is an error that says what to do."""
    (tmp_path / "weights.db").write_bytes(b"no database" * 100)
    with pytest.raises(WeightsError, match=r"damaged.*move it away"):
        site.now()


class Tasks(cli.GenericDriver):
    """A scheduler with so many whole nodes to fill."""

    def __init__(self, wanted):
        super().__init__("tasks")
        self._wanted = wanted

    def _read_jobs_and_nodes(self, config):
        return [Job("tasks", {"ncpus": 4}, iterations=self._wanted)] if self._wanted else [], []


def auto(site, **more):
    """The configuration of a loop whose regions follow current weights."""
    files = {
        "lock_file": str(site.home / "lock"),
        "nodehistorydb": str(site.home / "nodehistory.db"),
        "packing": {"policy": {"regions": "auto"}},
        "default_resources": [{"select": {}, "name": "ncpus", "value": "node.vcpu_count"}],
    }
    return {**site.config, **files, **more}


def test_the_loop_follows_current_weights(site):
    """New nodes come by the weights of the hour; those that are there stay where they are."""

    def split(wanted):
        Autoscaler(auto(site, weights=site.section), Tasks(wanted)).run_once()
        nodes = site.simulator.cluster("c").nodes()
        return {region: sum(n["Template"] == region for n in nodes) for region in REGIONS}

    assert split(13) == {"eastus": 4, "westus2": 9, "northeurope": 0}
    site.simulator.set_capacity("eastus", **{F4: 0})
    clock.sleep(901)
    assert split(20) == {"eastus": 4, "westus2": 16, "northeurope": 0}


def test_the_command_line_follows_them_too(site, capsys):
    """With a clear line where nothing says how to come by them."""
    path = site.home / "autoscale.json"
    path.write_text(json.dumps(auto(site, weights=site.section)))
    cli.main(["create_nodes", "-c", str(path), "-n", "13", "-d", "-F", "json"])
    planned = json.loads(capsys.readouterr().out)
    found = Counter(node["name"].rpartition("-")[0] for node in planned)
    assert found == {"eastus": 4, "westus2": 9}
    path.write_text(json.dumps(auto(site)))
    with pytest.raises(SystemExit):
        cli.main(["buckets", "-c", str(path)])
    said = capsys.readouterr().err
    assert "packing.policy.regions: expected the section weights beside 'auto', found none" in said


def test_a_plan_of_which_the_weights_are_others_now(site, site_command):
    """Is not carried out, and weights are among what may have changed."""
    site.config = auto(site, weights=site.section)
    site.new_jobs, site.new_hosts = lambda: [Job("tasks", {"ncpus": 4}, iterations=13)], list
    site_command.serve(site)
    plan = str(site.home / "plan.json")
    assert "4 of eastus/" in site_command("plan", "--out", plan)
    site.simulator.set_capacity("eastus", **{F4: 0})
    clock.sleep(901)
    site_command("apply", plan)
    assert site_command.code == 1
    assert "prices, weights of regions or what is remembered are others" in site_command.errors
