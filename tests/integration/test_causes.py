"""`azscale explain` names the cause, in its first line, for each of the prepared causes.

`causes/causes.json` is the table. A row has a cluster, what waits, and what happened before:
`steps` of passes, time that goes by, failures. docs/troubleshooting.md is written from the same
rows.
"""

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from builders.failing_cloud import a_site
from builders.site_commands import site_command as site_command
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource

ROWS = json.loads((Path(__file__).parent / "causes" / "causes.json").read_text(encoding="utf-8"))


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
            case "hosts-without-work":
                self.site.new_hosts = lambda: self.site.hosts_with(ncpus=0)
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
def explained(tmp_path, monkeypatch, site_command):
    """What azscale explain prints for a row."""

    def explain(row, *words):
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
            return site_command("explain", *(words or ("17",)))

    return explain


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_the_first_line_names_the_cause(explained, row):
    """Through the command line, against the simulator."""
    printed = explained(row)
    first = printed.split("\n", 1)[0]
    assert fnmatchcase(first, row["line"]), printed
    assert row["code"] in CODES


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
