"""Hosts on premises on the command line."""

import json

import pytest

from builders.grid_cli import grid as grid
from hpc.autoscale import cli
from hpc.autoscale.onpremises.workers import HostState, HostStates
from hpc.autoscale.testing import a_host

HOSTS = [
    {"name": "rack-1", "resources": {"ncpus": 8}, "systemd_unit": "worker"},
    {"name": "rack-2", "hostname": "rack-2.site", "nodearray": "htc", "resources": {"ncpus": 16}},
]


@pytest.fixture
def site(grid):
    """A command line over a cluster with ten nodes to start, and two hosts."""
    grid.config["on_premises"] = HOSTS
    return grid


VERBS = {
    "delete_nodes": ["-N", "rack-1", "--force"],
    "remove_nodes": ["-H", "rack-2.site", "--force"],
    "restart_nodes": ["-N", "rack-1", "--force"],
    "reimage_nodes": ["-N", "rack-2", "--force"],
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("insists", [True, False])
def test_commands_for_nodes_of_the_cloud_refuse_them(site, verb, insists):
    """In one line, also where the user insists, and nothing was done."""
    options = VERBS[verb] if insists else VERBS[verb][:2]
    assert site(verb, *options, code=1) == ""
    name = "rack-1" if "rack-1" in options else "rack-2"
    assert f"node {name} is a host on premises, whose worker the loop alone starts" in site.errors
    assert "[NotManaged]" in site.errors


def test_what_a_host_lacks_is_told_in_words(site):
    """It was `InsufficientResource: Node[name=rack-1 attr=ncpus] has ...`."""
    site.scheduler.queue("big", slots=1, ncpus=1000)
    said = " ".join(site("explain", "big").split())
    assert "rack-1 has 8 of 'ncpus', and 1000 is needed" in said
    assert "Node[" not in said and "InsufficientResource" not in said


def test_the_largest_may_be_a_host(site):
    """Where no machine is large enough, those of the site count as well."""
    site.scheduler.queue("big", slots=1, ncpus=1000)
    said = " ".join(site("explain", "big").split())
    assert "the job needs 1000 ncpus on one node, and the largest has 16" in said


def test_a_host_that_nothing_stops_has_no_time_to_go(site):
    """It stays, however long nobody needs it; one with a command to stop its worker does not."""
    said = " ".join(site("explain", "rack-2").split())
    assert "no command stops its worker, so it stays" in said
    assert "it goes" not in said and "may be idle" not in said
    HostStates(str(site.home / "on-premises.db")).write({"rack-1": HostState("up")})
    said = " ".join(site("explain", "rack-1").split())
    assert "nobody has needed it for 0 s, of 5 min until it goes" in said


def test_a_host_that_is_off_and_has_nothing_available_is_not_started(site):
    """A job does not need it then: most schedulers list a host whose daemon does not run, as
    down."""
    site.scheduler.queue("small", slots=1, **{"node.nodearray": "on-premises"})
    assert "Off: the next pass starts its worker" in site("explain", "rack-1")
    site.scheduler.hosts = [a_host("rack-1", ncpus=8, free={"ncpus": 0})]
    said = " ".join(site("explain", "rack-1").split())
    assert "the scheduler reports its host, with no ncpus available" in said
    site.scheduler.hosts = [a_host("rack-1", "running", ncpus=8, free={"ncpus": 0})]
    assert "reports its host" not in " ".join(site("explain", "rack-1").split())


def test_they_are_listed(site):
    """By nodes, with their state, and by buckets, without room for more."""
    columns = ["-o", "name,nodearray,state,ncpus", "-F", "json"]
    nodes = {node["name"]: node for node in site.json("nodes", *columns)}
    assert nodes["rack-1"]["nodearray"] == "on-premises"
    assert (nodes["rack-1"]["state"], nodes["rack-2"]["state"]) == ("Off", "Ready")
    HostStates(str(site.home / "on-premises.db")).write({"rack-1": HostState("up")})
    assert [n["state"] for n in site.json("nodes", *columns) if n["name"] == "rack-1"] == ["Ready"]
    buckets = site.json("buckets", "-o", "nodearray,available_count", "-F", "json")
    assert {"nodearray": "on-premises", "available_count": 0} in [
        {key: bucket[key] for key in ("nodearray", "available_count")} for bucket in buckets
    ]


@pytest.mark.parametrize("verb", ["buckets", "limits"])
def test_hosts_have_no_spare_placement_groups(site, verb):
    """Which are for nodes that can be ordered; there was a group `unknown_pg0`."""
    found = site.json(verb, "-F", "json")
    groups = {row["nodearray"]: row["placement_group"] for row in found}
    assert not groups["on-premises"]
    assert not any(str(row["placement_group"]).startswith("unknown") for row in found)


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([{"name": "a"}], "on_premises[0]: expected the key 'resources', found name"),
        ([{"name": "a b", "resources": {"ncpus": 1}}], "on_premises[0].name: expected a name of"),
        ([{"name": "a", "resources": {"ncpu": 1}}], "found ncpu; did you mean 'ncpus'?"),
        ([{"name": "a", "resources": {"memgb": 1}}], "resources: expected ncpus, found memgb"),
        (
            [{"name": "a", "resources": {"ncpus": 1, "memgb": "much"}}],
            "on_premises[0].resources.memgb: expected a number or a size, found 'much'",
        ),
        (
            [{"name": "a", "resources": {"ncpus": 1, "memgb": float("inf")}}],
            "on_premises[0].resources.memgb: expected a text, a number, true or false, "
            "found Infinity, which is no finite number",
        ),
        (
            [{"name": "a", "resources": {"ncpus": 1, "memgb": 1e300}}],
            "on_premises[0].resources.memgb: expected a number or a size, found 1e+300",
        ),
        (
            [{"name": "a", "resources": {"ncpus": 1, "memgb": -4}}],
            "on_premises[0].resources.memgb: expected a number or a size, found -4",
        ),
        (
            [{"name": "a", "resources": {"ncpus": 1, "ngpus": float("nan")}}],
            "on_premises[0].resources.ngpus: expected a text, a number, true or false, found NaN, "
            "which is no finite number",
        ),
        ([{"name": "a", "resources": {"ncpus": 0}}], "ncpus: expected a whole number, 1 or more"),
        ([{**HOSTS[0], "systemdunit": "x"}], "did you mean 'systemd_unit'?"),
        ([{**HOSTS[0], "systemd_unit": "a; rm -rf /"}], "expected the name of a unit"),
        ([{**HOSTS[1], "start": "a b"}], "start: expected a command as a list of words"),
        ([{**HOSTS[1], "start": ["a"]}], "on_premises[0].stop: expected a command beside start"),
        ([{**HOSTS[0], "stop": ["a"]}], "systemd_unit: expected it or start and stop, found both"),
        ([{**HOSTS[1], "ssh": "rack"}], "on_premises[0].ssh: expected systemd_unit beside it"),
        ([HOSTS[0], HOSTS[0]], "on_premises[1].name: expected another one than on_premises[0]"),
        ([HOSTS[1], {**HOSTS[0], "hostname": "RACK-2"}], "on_premises[1].hostname: expected"),
    ],
)
def test_mistakes(tmp_path, capsys, hosts, said):
    """Each in a line, by `azscale config --check`."""
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({"cluster_name": "c", "on_premises": hosts}))
    with pytest.raises(SystemExit):
        cli.main(["config", "--check", "-c", str(path)])
    out = capsys.readouterr()
    assert said in out.out + out.err


def test_a_name_that_a_node_of_the_cloud_has(site):
    """The host is left out, and the others are not."""
    site.cluster.add_node("rack-1", "htc", state="Ready")
    columns = ["-o", "name,nodearray", "-F", "json"]
    nodes = [(node["name"], node["nodearray"]) for node in site.json("nodes", *columns)]
    assert sorted(nodes) == [("rack-1", "htc"), ("rack-2", "htc")]
