"""What is said of work for a cluster that does not answer, beside one that does: it waits, and is
no mistake. Through the commands and a pass, over HTTP."""

import json

import pytest

from builders.several_clusters import several_clusters
from builders.site_commands import site_command as site_command
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

WAITS = "cluster west does not answer"
NAMES = ("west/htc", "west/*", "w*/htc")


class Told(GenericDriver):
    """Jobs, and what is said of them."""

    def __init__(self, new_jobs):
        super().__init__("told")
        self.new_jobs = new_jobs
        self.verdicts = []

    def _read_jobs_and_nodes(self, config):
        return self.new_jobs(), []

    def explain_job(self, job, verdict):
        self.verdicts.append(verdict)


class TwoClusters:
    """Clusters east and west, azscale, and jobs that want something."""

    def __init__(self, clusters, command):
        self.clusters = clusters
        self.command = command
        self.wanted = {}
        self.new_hosts = list

    @property
    def config(self):
        return self.clusters.config

    def new_jobs(self):
        return [Job(name, dict(wanted)) for name, wanted in self.wanted.items()]

    def azscale(self, *words):
        """What a command prints, on stdout and stderr."""
        self.command.serve(self)
        return self.command(*words) + self.command.errors

    def break_west(self, was_read):
        """It answers nothing but errors from now on."""
        self.clusters["west"].faults.add("status", status=500)
        if not was_read:
            (self.clusters.home / "clusters.db").unlink()


@pytest.fixture
def site(tmp_path, site_command):
    """Both have been read; west has a node."""
    with several_clusters(tmp_path, {"east": None, "west": None}) as clusters:
        clusters.settings["journal"] = {"directory": str(tmp_path / "journal")}
        two = TwoClusters(clusters, site_command)
        two.azscale("create_nodes", "-a", "west/htc")
        clusters.after(600)
        clusters.run(0)
        yield two


@pytest.mark.parametrize("was_read", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_job_for_it_waits(site, name, was_read):
    """In explain, plan, status, a pass and the hook of the driver, also where it was never read."""
    site.wanted = {"a": {"node.nodearray": name, "ncpus": 1, "exclusive": True}}
    site.break_west(was_read)
    said = site.azscale("explain", "a")
    assert said.startswith(f"Job a waits: {WAITS}\n"), said
    assert "mean" not in said and "instead" not in said
    assert f"1 job (a) waits: {WAITS}" in site.azscale("plan")
    assert site.command.code == 1  # a cluster that cannot be read is an error
    assert f"1 job (a) waits: {WAITS}" in site.azscale("status")
    site.azscale("autoscale")
    assert f"1 job (a) waits: {WAITS}" in site.azscale("journal", "show", "--pass", "2")
    driver = Told(site.new_jobs)
    summary = Autoscaler(site.config, driver).run_once()
    assert [job.verdict.line for job in summary.unsatisfied] == [f"Job a waits: {WAITS}"]
    assert [verdict.stand.value for verdict in driver.verdicts] == ["waits"]


def test_a_job_that_may_run_in_any_waits_for_one_of_which_nothing_is_known(site):
    """What no node has may be there. Of one that was read it is known that it is not, and a job
    that names the other's nodearrays waits for none."""
    site.wanted = {
        "any": {"ncpus": 500},
        "east": {"ncpus": 500, "node.nodearray": "east/htc"},
        "typo": {"node.nodearray": "wst/htc"},
    }
    site.break_west(was_read=True)
    assert "can never run: the job needs 500 ncpus" in site.azscale("explain", "any")
    assert "can never run" in site.azscale("explain", "east")
    site.break_west(was_read=False)
    assert site.azscale("explain", "any").startswith(f"Job any waits: {WAITS}\n")
    assert "can never run: the job needs 500 ncpus" in site.azscale("explain", "east")
    assert "no node has the nodearray 'wst/htc'" in site.azscale("explain", "typo")


def test_status_has_its_address_and_says_apart_that_it_is_away(site):
    """On the screen, and in JSON."""
    site.break_west(was_read=True)
    urls = {name: entry["url"] for name, entry in site.clusters.entries.items()}
    screen = site.azscale("status").split("\n", 1)
    assert f"east at {urls['east']}, west at http" in screen[0]
    assert "cluster west is set aside in this pass" in screen[1]
    found = json.loads(site.command("status", "-F", "json"))
    assert found["clusters"] == urls
    assert list(found["away"]) == ["west"] and "HTTP 500" in found["away"]["west"]


@pytest.mark.parametrize("command", ["delete_nodes", "remove_nodes", "restart_nodes"])
def test_force_is_not_offered_where_it_does_not_help(site, command):
    """Nothing is done with its nodes, by whoever insists."""
    site.break_west(was_read=True)
    for insisting in ((), ("--force",)):
        said = site.azscale(command, "-N", "west/htc-1", *insisting)
        assert "its cluster does not answer in this pass" in said and "ClusterAway" in said, said
        assert (site.command.code, "--force" in said) == (1, False)


@pytest.mark.parametrize("was_read", [True, False])
def test_commands_that_name_it_say_that_it_is_away(site, was_read):
    """It is no mistake of the user's, and there is no other guess."""
    site.break_west(was_read)
    for words in (
        ("create_nodes", "-C", "node.nodearray=west/htc"),
        ("create_nodes", "-a", "west/htc"),
        ("buckets", "-C", "node.nodearray=west/htc"),
        ("nodes", "-C", "node.nodearray=west/hpc"),
        ("explain", "west/hpc"),
    ):
        said = site.azscale(*words)
        assert (site.command.code, "mean" in said) == (1, False), said
        assert f"/{words[-1][-3:]}': {WAITS}" in said
    listed = site.azscale("nodes", "-C", "node.nodearray=east/htc")
    assert site.command.code == 0, listed


def test_a_node_of_it_that_nobody_knows_is_none_of_another_cluster(site):
    """There is no guess by which somebody would delete a node that he did not mean."""
    site.clusters.run(1)
    site.break_west(was_read=False)
    for command in ("delete_nodes", "restart_nodes"):
        for insisting in ((), ("--force",)):
            said = site.azscale(command, "-N", "west/htc-1", *insisting)
            assert (site.command.code, "mean" in said) == (1, False), said
            assert f"'west/htc-1': {WAITS}" in said


def test_what_the_configuration_says_of_its_nodearrays_is_no_mistake(site):
    """While nobody knows which ones it has; those of the others are looked at."""
    site.clusters.settings["idle_timeout"] = {"west/htc": 100, "east/hct": 100}
    site.break_west(was_read=False)
    said = site.azscale("nodes")
    assert "idle_timeout.east/hct: the cluster has no nodearray 'east/hct'" in said
    assert "idle_timeout.west" not in said


def test_its_nodes_are_still_those_of_their_dynamic_arrays(site):
    """Also in a process that has not seen the cluster."""
    arrays = site.clusters.home / "arrays.json"
    wanted = {"Name": "render", "Dynamic": True, "Extends": "west/htc", "TargetCount": 1}
    arrays.write_text(json.dumps([wanted]))
    site.azscale("request", "--file", str(arrays))
    site.clusters.after(600)
    site.azscale("autoscale")
    site.break_west(was_read=True)
    shown = json.loads(site.command("status", "-F", "json"))
    assert {each["bucket"] for each in shown["buckets"]} == {
        "render/Standard_F4s_v2",
        "west/htc/Standard_F4s_v2",
    }


@pytest.mark.parametrize("was_read", [True, False])
def test_a_wish_for_a_dynamic_array_of_it_waits(site, was_read):
    """Its name does not say of which cluster it is. Groups wait as well."""
    arrays = site.clusters.home / "arrays.json"
    wanted = {"Name": "render", "Dynamic": True, "Extends": "west/htc", "TargetCount": 1}
    group = {"TargetGroupCount": 1, "GroupInstanceCount": 2}
    arrays.write_text(json.dumps([{**wanted, **group}]))
    site.azscale("request", "--file", str(arrays), "--expiration", "9000")
    site.clusters.after(600)
    site.azscale("autoscale")
    site.break_west(was_read)
    said = site.azscale("autoscale")
    assert f"2 jobs (request:standard/render:2i#1, request:standard/render) wait: {WAITS}" in said
    for name in ("render", "render:2i#1"):
        said = site.azscale("explain", f"request:standard/{name}")
        assert said.startswith(f"Job request:standard/{name} waits: {WAITS}\n"), said
    assert WAITS in site.azscale("buckets", "-C", "node.nodearray=render")
    site.clusters["west"].faults.clear()
    assert "not satisfied" not in site.azscale("autoscale")
    assert site.clusters.counts() == {"east": 0, "west": 4}


@pytest.mark.parametrize("was_read", [True, False])
def test_a_wish_for_it_is_recorded_and_the_others_are_served(site, was_read):
    """A reporter that says again what it wants of both is not refused, and a typo is."""
    wish = ["--request-set", "w", "--instancecount", "2"]
    site.break_west(was_read)
    assert "Name: expected a nodearray" in site.azscale("request", "--name", "east/hct", *wish)
    said = site.azscale("request", "--name", "west/htc", *wish)
    assert "cluster west is set aside" in said and "expected" not in said
    assert site.clusters.counts() == {"east": 0, "west": 1}
    site.azscale("request", "--name", "east/htc", "--request-set", "e", "--instancecount", "1")
    assert site.clusters.counts() == {"east": 1, "west": 1}
    site.clusters["west"].faults.clear()
    site.azscale("autoscale")
    assert site.clusters.counts() == {"east": 1, "west": 2}
