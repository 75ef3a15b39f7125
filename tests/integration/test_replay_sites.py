"""Journals of sites of every kind decide the same again: several clusters, hosts on premises, and
drivers that tell users why their jobs wait."""

import json
import sys
from dataclasses import asdict

import pytest

from builders.failing_cloud import F4, a_site
from builders.fake_scheduler import cluster, now, raising
from builders.several_clusters import several_clusters
from builders.site_commands import site_command as site_command
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal import Journal
from hpc.autoscale.journal.scrubbing import Aliases
from hpc.autoscale.replaying import Replay

__all__ = ["cluster", "now"]  # fixtures


def is_same(home, count):
    """Whether the journal has so many passes, all of which decide the same again."""
    with Replay() as replay:
        found = list(replay.passes(Journal(home / "journal")))
    assert [(each.differences, each.skipped) for each in found] == [([], "")] * count


@pytest.fixture
def run(cluster):
    """A pass of a driver, as a process of its own makes it."""

    def run_pass(driver, **config):
        own = {"cluster_name": "clusty", "_mock_bindings": cluster, "journal": {}, **config}
        return Autoscaler(own, driver).run_once()

    return run_pass


@pytest.fixture
def clusters(tmp_path):
    """Three of them; the quota of two is soon reached."""
    with several_clusters(tmp_path, {"east": 3, "west": 4, "north": None}) as running:
        running.settings["journal"] = {}
        yield running


def test_passes_over_several_clusters_decide_the_same_again(clusters, tmp_path):
    """Over clusters that are set aside and come back, nodes that join, and nodes that go."""
    clusters.run(10)
    clusters.after(600)
    hosts = [SchedulerNode("ip-0A000004")]
    clusters.run(10, hosts)
    for name in ("west", "north"):
        clusters[name].faults.add("status", status=500)
    clusters.run(14)
    clusters["west"].faults.clear()
    clusters["north"].faults.clear()
    clusters.after(60)
    clusters.run(0)
    for _ in range(3):
        clusters.after(301)
        clusters.run(0)
    records = list(Journal(tmp_path / "journal"))
    assert {d["action"] for r in records for d in r.decided} >= {"create", "delete"}
    assert sum(len(r.did["errors"]) for r in records) == 2
    is_same(tmp_path, 7)


def test_a_cluster_whose_command_fails_and_one_that_lags(clusters, tmp_path):
    """A create is refused, and a listing that is older than a create sets its cluster aside."""
    clusters["east"].faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    clusters["west"].faults.add("status", endpoint="create_nodes", status=500, times=1)
    clusters.run(8)
    clusters.after(5)
    clusters["west"].faults.add("empty_nodes", endpoint="get_nodes", times=1)
    clusters.run(8)
    clusters["east"].faults.add("status", endpoint="get_cluster_status", status=503, calls=[2])
    clusters.run(8)
    is_same(tmp_path, 3)


def test_a_removal_whose_answer_was_lost(tmp_path):
    """What is not known of its nodes, which are gone, is not known again, and asked about later."""
    with several_clusters(tmp_path, {"east": 3, "west": 4}, lifecycle={"terminating": 0}) as two:
        two.settings["journal"] = {}
        two.run(4)
        for name in ("east", "west"):
            two[name].faults.add("lost_reply", endpoint="shutdown_nodes")
        two.after(600)
        errors = []
        for _ in range(5):
            errors += two.run(0).errors
            two.after(301)
    assert "nobody knows what becomes of it" in str(errors)
    is_same(tmp_path, 6)


def test_resources_that_a_driver_defines_for_several_clusters(clusters, tmp_path):
    """They are those of then, whichever cluster a bucket is of."""

    class Slots(GenericDriver):
        def preprocess_node_mgr(self, config, node_mgr):
            node_mgr.add_default_resource({}, "slots", 2)

        def _read_jobs_and_nodes(self, config):
            return [Job("a", {"slots": 1}, iterations=4)], []

    summary = Autoscaler(clusters.config, Slots("slots")).run_once()
    assert len(summary.created) == 2
    is_same(tmp_path, 1)


def test_passes_in_which_no_cluster_answers(clusters, tmp_path):
    """Each ends with the error that it ended with then."""
    for name in ("east", "west", "north"):
        clusters[name].faults.add("status", status=500)
    with pytest.raises(Exception, match="is set aside"):
        clusters.run(3)
    is_same(tmp_path, 1)


class Site(GenericDriver):
    """Jobs that take four cores each, hosts that have work, and hosts that have none."""

    def __init__(self):
        super().__init__("site")
        self.wanted, self.busy, self.idle = 0, [], []

    def _read_jobs_and_nodes(self, config):
        hosts = [SchedulerNode(name, {"ncpus": 4}) for name in self.busy]
        for host in hosts:
            host.assign(f"job of {host.hostname}")
        hosts += [SchedulerNode(name, {"ncpus": 4}) for name in self.idle]
        return [Job(f"j{i}", {"ncpus": 4}) for i in range(self.wanted)], hosts


def on_premises(home, **more):
    """A host whose commands write down that they ran, and one whose worker cannot be started."""
    log = ["sh", "-c", 'echo "$1" >> "$2"', "sh"]
    commands = {n: [*log, n, str(home / "log")] for n in ("start", "stop")}
    fails = [sys.executable, "-c", "import sys; sys.exit('no such rack, said hunter2-password')"]
    return [
        {"name": "rack-1", "resources": {"ncpus": 4}, **commands},
        {"name": "rack-2", "resources": {"ncpus": 4}, "start": fails, "stop": fails},
    ]


def test_commands_of_hosts_on_premises_are_not_run_again(tmp_path, run, cluster, now):
    """They come to what they came to then, also the one that fails and rests."""
    site = Site()
    config = {
        "on_premises": on_premises(tmp_path),
        "password": "hunter2-password",
        "scheduler": {"password": "hunter2-password"},
    }

    def one(wanted, *busy):
        site.wanted, site.busy = wanted, list(busy)
        return run(site, **config)

    assert one(2).hosts_started == ("rack-1",)
    now.sleep(60)
    assert one(2, "rack-1").hosts_started == ()
    site.idle = ["rack-1"]
    for _ in range(3):
        now.sleep(301)
        one(0)
    assert (tmp_path / "log").read_text().split() == ["start", "stop"]
    first = next(iter(Journal(tmp_path / "journal")))
    started = [(d["action"], d["node"]) for d in first.decided if "worker" in d["action"]]
    assert started == [("start_worker", "rack-1"), ("start_worker", "rack-2")]
    assert any("host rack-2: exit code 1: no such rack, said ***" in e for e in first.did["errors"])
    is_same(tmp_path, 5)
    names = Aliases()
    for record in Journal(tmp_path / "journal"):
        names.learn(record)
    names.settle()
    with Replay() as replay:
        others = [names.record(record) for record in Journal(tmp_path / "journal")]
        found = [replay.one(record) for record in others]
    assert [(each.differences, each.skipped) for each in found] == [([], "")] * 5
    assert "rack-" not in json.dumps([asdict(record) for record in others])
    assert (tmp_path / "log").read_text().split() == ["start", "stop"]


def test_hosts_that_are_served_while_the_cluster_does_not_answer(
    tmp_path, run, cluster, now, monkeypatch
):
    """Alone; and the pass ends with the same error."""
    monkeypatch.setattr(cluster, "get_cluster_status", raising(Throttled("u", 429, "slow", 7, "w")))
    site = Site()
    site.wanted = 1
    with pytest.raises(Throttled):
        run(site, on_premises=on_premises(tmp_path))
    assert (tmp_path / "log").read_text().split() == ["start"]
    is_same(tmp_path, 1)


class TellingSite(Site):
    """One that is told why jobs wait, which fails."""

    def explain_job(self, job, verdict):
        raise OSError(5, "no queue server")


def test_what_users_are_told_decides_nothing(tmp_path, run, cluster, now):
    """Neither that a driver is told why jobs wait, nor that this fails, nor the time it takes."""
    site = TellingSite()
    site.wanted = 300
    for _ in range(2):
        assert any("telling why job" in note for note in run(site).notes)
        now.sleep(60)
    is_same(tmp_path, 2)


def test_weights_that_are_worked_out_are_those_of_then(tmp_path, run, cluster, now):
    """They are in the configuration of the record."""
    site = Site()
    site.wanted = 2
    auto = {"regions": "auto", "within": "declared"}
    weights = {"provider": "static", "static": {"westus2": 1}}
    assert run(site, packing={"policy": auto}, weights=weights).created
    is_same(tmp_path, 1)


def test_a_driver_that_asks_for_the_time_in_validate_nodes(site_command, tmp_path, monkeypatch):
    """As those of hpcq and Celery do: each replay said that the pass had asked more often."""
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as simulated:
        site_command.serve(simulated, journal={"directory": str(tmp_path / "journal")})
        driver = sys.modules["driver_of_a_site"].Driver
        monkeypatch.setattr(driver, "validate_nodes", lambda *_: clock.time())
        simulated.new_jobs = lambda: [Job("a", [{"ncpus": 1}])]
        site_command("autoscale")
        assert "1 pass: 1 the same, 0 different" in site_command("replay") + site_command.errors
