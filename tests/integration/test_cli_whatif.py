"""The command whatif: what would be different under other quotas, prices, nodearrays, timeouts and
policies."""

import json
from types import SimpleNamespace

import pytest

from builders.grid_cli import grid as grid
from builders.opaque_constraints import Apart
from builders.plan_worlds import F8
from builders.several_clusters import SIZE, several_clusters
from builders.simulated_cloud import F4, World, a_description
from builders.site_commands import site_command as site_command
from hpc.autoscale import clock
from hpc.autoscale.job.job import Job
from hpc.autoscale.traces.binding import SimulatedBinding


@pytest.fixture
def site(grid):
    """Two sizes of one family with a quota of 16 cores, and jobs that want 40."""
    arrays = {"htc": {"machine_types": [F4, F8]}, "spot": {"machine_types": [F4], "spot": True}}
    quotas = {"quota": 1000, "spot_quota": 0, "family_quotas": {"standardFSv2Family": 16}}
    grid.cluster = SimulatedBinding(World(a_description(arrays, quotas)).cluster)
    for number in range(10):
        grid.scheduler.queue(f"j{number}", slots=4)
    return grid


def rows(text):
    """The table, by label."""
    found = {}
    for line in text.split("\n\n")[1].splitlines():
        found[line[:36].strip()] = line[36:].split()
    return found


def asked(site, *settings, code=0):
    """What the command says of settings, as data."""
    words = [word for setting in settings for word in ("--set", setting)]
    return json.loads(site("whatif", *words, "-F", "json", code=code) or "null")


def test_another_quota(site):
    """Of a family: more jobs are placed, on more nodes, for more money."""
    text = site("whatif", "--set", "quota.standardFSv2Family=32")
    table = rows(text)
    assert table["jobs placed"] == ["4", "of", "10", "8", "of", "10"]
    assert table["nodes after the pass"] == ["4", "8"]
    assert table["+ create htc/Standard_F4s_v2"] == ["4", "8"]
    assert table["nodes cost per hour"] == ["$0.68", "$1.35"]
    assert "What waits now:\n  6 jobs (j4, j5, j6, …) wait: " in text
    assert "What waits then:\n  2 jobs (j8, j9) wait: " in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert site.cluster.get_nodes().nodes == []


def test_less_than_there_is(site):
    """Fewer nodes."""
    found = asked(site, "quota.standardFSv2Family=8")
    assert (found["now"]["placed"], found["then"]["placed"]) == (4, 2)


def test_limits_of_a_nodearray_and_of_the_cluster(site):
    """In nodes and in cores."""
    more = "quota.standardFSv2Family=1000"
    assert asked(site, more, "nodearray.htc.max_count=3")["then"]["nodes_after"] == 3
    assert asked(site, more, "nodearray.htc.max_core_count=8")["then"]["nodes_after"] == 2
    assert asked(site, more, "cluster.max_core_count=4")["then"]["nodes_after"] == 1
    assert asked(site, more, "quota.westus2=12")["then"]["nodes_after"] == 3


def test_what_the_server_says_less_stands(site):
    """Where its limits would allow more, it may know something else."""
    look = site.cluster.get_cluster_status

    def status(nodes=False):
        found = look(nodes)
        for bucket in found.nodearrays[0].buckets:
            bucket.available_count = 1
        return found

    site.cluster.get_cluster_status = status
    assert asked(site, "quota.standardFSv2Family=10000")["then"]["nodes_after"] == 2


@pytest.mark.parametrize(("size", "placed"), [(3, 0), (4, 4)])
def test_groups_are_no_larger_than_scale_sets(grid, size, placed):
    """However many nodes a nodearray may have then."""
    array = {"machine_types": [F4], "max_count": 2, "max_placement_group_size": size}
    grid.cluster = SimulatedBinding(World(a_description({"hpc": array})).cluster)
    wish = {"in-a-placement-group": True}
    gang = Job("gang", wish, node_count=4, colocated=True)
    grid.scheduler.jobs.append(gang.to_dict())
    found = asked(grid, "nodearray.hpc.max_count=9")
    assert (found["now"]["nodes_after"], found["then"]["nodes_after"]) == (0, placed)


def test_a_quota_of_spot_nodes(site):
    """Has a name of its own."""
    found = asked(site, "quota.spot.westus2=8")["then"]
    assert {"action": "create", "bucket": f"spot/{F4}", "count": 2} in found["changes"]


def test_a_nodearray_that_is_left_out(site):
    """Nothing can be placed then."""
    for setting in ("nodearray.htc.enabled=false", "nodearray.HTC.Enabled=false"):
        found = asked(site, setting)["then"]
        assert (found["placed"], found["changes"]) == (0, [])


def test_another_price_and_another_policy(site):
    """The size that is cheap then is taken."""
    found = asked(site, f"price.{F8}=0.0001", "packing.policy=least-waste")
    assert {row["bucket"] for row in found["now"]["changes"]} == {f"htc/{F4}"}
    assert {row["bucket"] for row in found["then"]["changes"]} == {f"htc/{F8}"}
    assert found["then"]["cost_per_hour"]["after"]["per_hour"] < 0.01


def test_another_cap_of_a_pass(site):
    """A key of autoscale.json."""
    found = asked(site, "autoscale.max_new_nodes_per_pass=1")
    assert (found["now"]["nodes_after"], found["then"]["nodes_after"]) == (4, 1)
    assert found["set"] == {"autoscale.max_new_nodes_per_pass": 1}


def test_jobs_that_can_never_run(site):
    """Are told apart."""
    site.scheduler.queue("big", slots=1, ncpus=1000)
    text = site("whatif", "--set", "quota.standardFSv2Family=1000")
    assert "  1 job (big) can never run: " in text


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("quota.standardFsv2Famly=5", "did you mean 'standardFSv2Family'?"),
        ("nodearray.hct.max_count=5", "expected one of htc, spot, found 'hct'"),
        ("nodearray.htc.max_cores=5", "did you mean 'max_core_count'?"),
        ("cluster.max_nodes=5", "expected one of max_count, max_core_count"),
        ("quota.westus2=-1", "expected a whole number, 0 or more, found -1"),
        ("quota.westus2=many", "expected a whole number, 0 or more, found 'many'"),
        ("nodearray.htc.enabled=1", "expected false, found 1"),
        ("nodearray.htc.enabled=true", "expected false, found true: the cluster does not say"),
        (
            "nodearray.htc.enabeld=false",
            "one of max_count, max_core_count, enabled, found 'enabeld'; did you mean 'enabled'?",
        ),
        (
            "nodearray.htc=false",
            "where KEY is one of max_count, max_core_count, enabled, found 'nod",
        ),
        ("cluster=3", "expected cluster.KEY, where KEY is one of max_count, max_core_count, found"),
        ("price=3", "--set price: expected price.SIZE, found 'price'"),
        ("quota.=3", "--set quota.: expected quota.FAMILY or quota.REGION, found 'quota.'"),
        ("pricee=3", "did you mean 'price'?"),
        (
            "price.Standard_F4s_v2=Infinity",
            "--set price.Standard_F4s_v2: expected dollars per hour",
        ),
        (f"price.Standard_F4s_v2=1{'0' * 400}", "above 0, 1,000,000,000 at most, found 1000"),
        ("price.Standard_F4s_v2=1e308", "above 0, 1,000,000,000 at most, found 1e+308"),
        ("quota.westus2=Infinity", "expected a whole number, 0 or more, found Infinity"),
        (f"price.Standard_F4s_v2={'[' * 99_999}", "expected dollars per hour above 0, found '[["),
        ("cluster.enabled=false", "expected one of max_count, max_core_count, found 'enabled'"),
        ("quota=5", "--set quota: expected quota.FAMILY or quota.REGION, found 'quota'"),
        ("price.Standard_F4_v2=0.1", "found 'Standard_F4_v2'; did you mean 'Standard_F"),
        ("price.Standard_F4s_v2=free", "expected dollars per hour above 0, found 'free'"),
        ("packing.objektive=cost", "did you mean 'objective'?"),
        ("packing.objective=cots", "did you mean 'cost'?"),
        ("idel_timeout=5", "did you mean 'idle_timeout'?"),
        ("quoat.westus2=5", "did you mean 'quota'?"),
        ("autoscale.max_new_nodes=5", "did you mean 'max_new_nodes_per_pass'?"),
        ("idle_timeout=-5", "idle_timeout"),
        ("idle_timeout.htc.x=5", "x: idle_timeout.htc is 300, and has no keys"),
        ("idle_timeout", "expected KEY=VALUE, found 'idle_timeout'"),
    ],
)
def test_what_makes_no_sense(site, setting, said):
    """Is said in one line, with a guess."""
    site.config["idle_timeout"] = {"htc": 300, "default": 300}
    asked(site, setting, code=2)
    assert said in site.errors
    assert len(site.errors.splitlines()) == 1


def test_nothing_different(site):
    """Is no question."""
    site("whatif", code=2)
    assert "expected what would be different" in site.errors


# -- of a journal


@pytest.fixture
def recorded(site):
    """The same site after a pass that is in its journal; its queue is empty since then."""
    site.config["journal"] = {}
    site("autoscale")
    site.scheduler.jobs.clear()
    return str(site.home / "journal")


def test_a_queue_of_before(site, recorded):
    """With the jobs and the limits of then, whatever there is now."""
    found = asked(site, "quota.standardFSv2Family=32")
    assert found["now"]["jobs"] == 0
    words = ("whatif", "--journal", recorded, "--set", "quota.standardFSv2Family=32", "-F", "json")
    found = json.loads(site(*words))
    assert (found["now"]["placed"], found["then"]["placed"]) == (4, 8)
    assert found["now"]["nodes_after"] == 4
    assert json.loads(site(*words[:3], "--pass", "1", *words[3:])) == found


def test_a_queue_before_several_clusters(tmp_path, site_command):
    """With each cluster as it was at that pass, one that did not answer then included; none is
    asked now."""
    with several_clusters(tmp_path, {"east": 3, "west": 4, "north": None}) as clusters:
        clusters.settings["journal"] = {}
        clusters["north"].faults.add("status", status=500)
        clusters.run(10)
        clusters["north"].faults.clear()
        clusters.after(60)
        clusters.run(10)
        site_command.serve(SimpleNamespace(config=clusters.config, new_jobs=list))
        before = {name: clusters.changes(name) for name in clusters.servers}

        def then(*words):
            journal = str(tmp_path / "journal")
            return json.loads(site_command("whatif", "--journal", journal, "-F", "json", *words))

        found = then("--pass", "1", "--set", "quota.eastus=20")
        placed = [found[when]["placed"] for when in ("now", "then")]
        assert placed == [7, 9]
        assert [len(found[when]["errors"]) for when in ("now", "then")] == [1, 1]
        assert found["now"]["nodes_after"] == 7
        assert "cluster north is set aside" in site_command.errors
        (wanted,) = then("--set", "cluster.max_count=5")["now"]["changes"]
        assert wanted == {"action": "create", "bucket": f"north/htc/{SIZE}", "count": 3}
        assert {name: clusters.changes(name) for name in clusters.servers} == before


def test_what_is_no_pass_of_a_journal(site, recorded):
    """Is said in one line."""
    for words, said, code in (
        (("--journal", recorded, "--pass", "9"), "it has no pass 9", 1),
        (("--journal", str(site.home / "none")), "journal ", 1),
        (("--pass", "1"), "expected --journal with it", 2),
        (("--pass", "0"), "--pass: expected a whole number above 0, found '0'", 2),
    ):
        site("whatif", *words, "--set", "idle_timeout=9", code=code)
        assert said in site.errors
        assert len(site.errors.splitlines()) == 1


def test_a_pass_in_which_the_scheduler_was_down(site, recorded, monkeypatch):
    """Nobody knows its queue, nor its cluster: of several clusters it was one without nodes."""

    def down(*_):
        raise RuntimeError("qstat: cannot connect")

    monkeypatch.setattr(site.scheduler, "_read_jobs_and_nodes", down)
    site("autoscale", code=1)
    site("whatif", "--journal", recorded, "--set", "idle_timeout=9", code=1)
    assert "pass 2 could not read" in site.errors and "qstat: cannot connect" in site.errors
    site("whatif", "--journal", recorded, "--pass", "1", "--set", "idle_timeout=9")


@pytest.fixture(params=["history.db", None])
def idle_since(request, grid):
    """A node that has had no work for ten minutes, in three passes of a journal; its history is
    where the configuration says, or where it is without that."""
    grid.config |= {"journal": {}, "idle_timeout": 1000}
    if request.param is None:
        del grid.config["nodehistorydb"]
    grid.config["autoscale"] = {"scheduler_reports_hosts": False}
    before = clock.use_clock(clock.Clock())
    now = clock.use_mock_clock()
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    for _ in range(3):
        grid("autoscale")
        now.sleep(300)
    grid.cluster.nodes.clear()
    yield grid, str(grid.home / "journal")
    clock.use_clock(before)


def test_what_was_remembered_then(idle_since):
    """For how long nodes had been idle: the passes before are decided again for it."""
    grid, journal = idle_since
    words = ("whatif", "--journal", journal, "--set", "idle_timeout=500", "-F", "json")
    found = json.loads(grid(*words))
    delete = {"action": "delete", "bucket": "htc/Standard_F4s", "count": 1}
    assert (found["now"]["changes"], found["then"]["changes"]) == ([], [delete])
    assert found["notes"] == []
    earlier = json.loads(grid(*words[:3], "--pass", "2", *words[3:]))
    assert earlier["then"]["changes"] == []


def test_a_journal_without_what_was_remembered(idle_since, monkeypatch):
    """It is said."""
    grid, journal = idle_since
    monkeypatch.setattr("hpc.autoscale.cli.whatif.remembered_before", lambda *_, **__: None)
    text = grid("whatif", "--journal", journal, "--set", "idle_timeout=500")
    assert "What the autoscaler remembered then is not in the journal" in text
    assert "delete" not in text


def test_a_journal_with_jobs_that_only_an_integration_understands(site, monkeypatch):
    """It is said, since what such a job asks for is no resource."""

    def read(config):
        return [Job("17", [{"ncpus": 1}, Apart()])], []

    monkeypatch.setattr(site.scheduler, "_read_jobs_and_nodes", read)
    site.config["journal"] = {}
    site("autoscale")
    said = "Apart, so jobs that ask for that are not placed here."
    words = ("whatif", "--journal", str(site.home / "journal"), "--set", "idle_timeout=9")
    assert said in " ".join(site(*words).split())
    (note,) = json.loads(site(*words, "-F", "json"))["notes"]
    assert note.endswith(said)


# -- several questions at once


def several(site, *cases):
    words = [word for case in cases for word in ("--case", *case)]
    found = json.loads(site("whatif", *words, "-F", "json"))
    return found["now"], [case["then"] for case in found["cases"]]


def test_several_cases(site):
    """Each has settings of its own, beside those of --set, and none changes another."""
    price = f"price.{F8}=0.0001"
    now, (one, two, three) = several(
        site,
        ["quota.standardFSv2Family=8"],
        [price, "packing.policy=least-waste"],
        ["quota.standardFSv2Family=32"],
    )
    assert [case["placed"] for case in (now, one, three)] == [4, 2, 8]
    assert {row["bucket"] for row in two["changes"]} == {f"htc/{F8}"}
    assert {row["bucket"] for row in three["changes"]} == {f"htc/{F4}"}
    each = three["cost_per_hour"]["after"]["per_hour"] / 8
    assert each == pytest.approx(now["cost_per_hour"]["after"]["per_hour"] / 4)


def test_cases_side_by_side(site):
    """In a table, and in the next one below where there is no room in 80 columns."""
    quota = "quota.standardFSv2Family"
    text = site(
        "whatif",
        *("--set", "idle_timeout=60"),
        *("--case", f"{quota}=8"),
        *("--case", f"{quota}=32", "autoscale.max_new_nodes_per_pass=3"),
        *("--case", f"{quota}=4"),
    )
    assert f"What if (case 1): idle_timeout=60, {quota}=8" in text
    parts = text.split("\n\n")
    assert parts[1].splitlines()[0].split() == ["now", "case", "1", "case", "2"]
    assert parts[2].splitlines()[0].split() == ["now", "case", "3"]
    assert [line.split()[-3:] for line in (parts[1].splitlines()[2], parts[2].splitlines()[2])] == [
        ["4", "2", "3"],
        ["pass", "4", "1"],
    ]
    assert "What waits in case 3:\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_case_with_another_value_for_what_is_set_for_all(site):
    """Goes before it, also where it is told what is asked: both values stood there, one of which
    was not asked, and a single case had no name."""
    text = site("whatif", "--set", "idle_timeout=5", "--case", "idle_timeout=9")
    assert text.splitlines()[0] == "What if (case 1): idle_timeout=9"
    assert site("whatif", "--set", "idle_timeout=5").startswith("What if: idle_timeout=5\n")
    most = "nodearray.htc.max_count"
    site("whatif", "--set", f"{most}=few", "--case", f"{most}=9", code=2)
    assert f"{most}: expected" in site.errors


def test_a_case_that_makes_no_sense(site):
    """None of them is tried."""
    site("whatif", "--case", "idle_timeout=5", "--case", "idel_timeout=5", code=2)
    assert "did you mean 'idle_timeout'?" in site.errors


def test_a_long_name_of_a_bucket(site):
    """Its figures are below it."""
    site.cluster = SimulatedBinding(
        World(a_description({"a-nodearray-of-a-long-name": {"machine_types": [F4]}})).cluster
    )
    lines = site("whatif", "--set", "idle_timeout=5").splitlines()
    at = lines.index(f"  + create a-nodearray-of-a-long-name/{F4}")
    assert lines[at + 1].split() == ["10", "10"]
