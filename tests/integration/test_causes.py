"""`azscale explain` names the cause, in its first line, for each of the prepared causes.

`causes/causes.json` is the table. A row has a cluster, what waits, and what happened before:
`steps` of passes, time that goes by, failures. docs/troubleshooting.md is written from the same
rows. `causes/lifted.json` has how what it says is done, one way after another, as further steps.
"""

import json
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from builders.failing_cloud import a_site
from builders.site_commands import site_command as site_command
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource

HOME = Path(__file__).parent / "causes"
ROWS = json.loads((HOME / "causes.json").read_text(encoding="utf-8"))
DONE = json.loads((HOME / "lifted.json").read_text(encoding="utf-8"))
LIFTED = [(row, steps) for row in ROWS for steps in DONE.get(row["name"], ())]


def a_job(name, constraints=None, running_on=(), licences=None, bad="", **shape):
    """A job of a row."""
    if bad:
        return UnusableJob(name, bad)
    wanted = [constraints]
    if licences is not None:
        pool = SharedConsumableResource("licences", "queue", 5, licences)
        wanted.append(SharedConsumableConstraint([pool], 1))
    job = Job(name, wanted, executing_hostnames=list(running_on), **shape)
    if running_on:
        job.metadata["job_state"] = "running"
    return job


class Play:
    """Does what a row says, one step after another."""

    def __init__(self, site):
        self.site = site

    def jobs(self, rows):
        """These jobs wait from now on."""
        self.site.new_jobs = lambda: [a_job(**row) for row in rows]

    def run(self, step, *values):
        """One step."""
        cluster = self.site.simulator.cluster("c")
        match step:
            case "pass":
                self.site.run()
            case "wait":
                self.site.wait(*values)
            case "jobs":
                self.jobs(*values)
            case "fail":
                cluster.fail(*self.site.names(), message=values[0])
            case "evict":
                cluster.evict(self.site.names()[0])
            case "fault":
                self.site.simulator.faults.add(**values[0])
            case "hosts-with":
                self.site.new_hosts = lambda: self.site.hosts_with(*values)
            case "cluster":
                self.site.change(*values)
            case "config":
                self.site.config.update(*values)
            case "forget":
                (self.site.home / values[0]).unlink()
            case "mend":
                self.site.simulator.faults.clear()
            case "scheduler-down":
                self.site.new_jobs = lambda: (_ for _ in ()).throw(OSError(*values))
            case _:
                raise AssertionError(step)


def beside_one_that_is_away(site, name):
    """The cluster of a site is `east`, beside one of this name at an address where nobody is."""
    keys = site.simulator.connection("c")
    known = {key: site.config.pop(key) for key in keys}
    away = {**known, "name": name, "url": "http://127.0.0.1:9"}
    site.config["clusters"] = [{**known, "name": "east"}, away]


@pytest.fixture
def played(tmp_path, monkeypatch, site_command):
    """Brings a row about, for azscale to look at, and gives the play."""

    @contextmanager
    def play(row):
        monkeypatch.setattr(
            "builders.failing_cloud.REGION", row.get("region_name", "southcentralus")
        )
        setting = row["nodearrays"], row.get("region"), row.get("limits")
        own = row.get("config", {})
        with a_site(tmp_path, *setting, **row.get("lifecycle", {})) as site:
            site.config.update({k: v for k, v in own.items() if k != "password"})
            if "absent" in row:
                beside_one_that_is_away(site, row["absent"])
            play = Play(site)
            play.jobs(row["jobs"])
            for step in row.get("steps", ()):
                play.run(*step)
            site_command.serve(site, **own)
            yield play

    return play


@pytest.fixture
def explained(played, site_command):
    """What azscale explain prints for a row."""

    def explain(row, *words):
        with played(row):
            return site_command("explain", *(words or ("17",)))

    return explain


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_the_first_line_names_the_cause(explained, row):
    """Through the command line, against the simulator."""
    printed = explained(row)
    first = printed.split("\n", 1)[0]
    assert fnmatchcase(first, row["line"]), printed
    assert row["code"] in CODES


@pytest.mark.parametrize(("row", "steps"), LIFTED, ids=[row["name"] for row, _ in LIFTED])
def test_what_the_page_says_lets_the_job_start(played, site_command, row, steps):
    """Once it is done, the next pass gives the job all its nodes."""
    with played(row) as play:
        for step in steps:
            play.run(*step)
        site_command.serve(play.site)
        site_command("autoscale")
        assert site_command("explain", "17").startswith(("Job 17 waits for node", "Job 17 has its"))


def test_a_node_that_fails_can_be_kept_to_be_looked_at(played, site_command):
    """The loop leaves one alone that somebody has asked for to be kept; others are gone by then."""
    row = next(row for row in ROWS if row["name"] == "nodes do not boot")
    with played(row) as play:
        assert "No job, node or bucket is called 'htc-1'" in site_command("explain", "htc-1")
        play.run("wait", 60)
        site_command("create_nodes", "-k", "-a", "htc")
        play.run("fail", "Software installation failed")
        site_command("autoscale")
        play.run("wait", 60)
        (name,) = play.site.names()
        assert "failed: Software installation failed" in site_command("explain", name)


def test_of_others_nothing_can_be_done_here():
    """They have their nodes, or the scheduler has no such job."""
    assert DONE.keys() <= {row["name"] for row in ROWS}
    others = {row["code"] for row in ROWS if row["name"] not in DONE}
    assert others == {"HasNodes", "Running", "NotInQueue"}


def test_there_are_forty_of_them():
    """Each named once, and each with what to do."""
    assert len(ROWS) >= 40
    assert len({row["name"] for row in ROWS}) == len(ROWS)
    assert all(row["do"].endswith((".", "?")) for row in ROWS)


def test_the_code_is_in_the_json(explained):
    """That of the cause that is lifted first, with what would lift it."""
    row = next(row for row in ROWS if row["name"] == "quota of a VM family")
    found = json.loads(explained(row, "17", "-F", "json"))
    assert (found["code"], found["stand"]) == ("FamilyQuota", "waits")
    (fix,) = (fix for fix in found["fixes"] if fix["kind"] == "raise-limit")
    assert (fix["amount"], fix["unit"], fix["is_least"]) == (4, "cores", True)
    assert fix["nodes"] == {"htc/Standard_F4s_v2": 1}
    assert fix["price_per_hour"] > 0
