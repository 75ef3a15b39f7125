"""An integration of three files, as its authors would publish it: packed and installed without a
registry, it runs each pass as a process of its own, over HTTP, from the submitted job to the
deleted node."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.built_once import built_once
from builders.processes import OFFLINE, needed_beside
from hpc.autoscale.simulator import Simulator, serve

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().with_name("three_files")
CLOUD = {
    "clusters": {
        "c": {
            "region": "westus2",
            "nodearrays": {
                "htc": {"machine_types": ["Standard_F4s_v2"], "max_count": 5, "spot": True}
            },
        }
    }
}
PATIENCE = 120.0
"""Seconds after which something that has not happened will not."""

pytestmark = pytest.mark.slow


def succeeding(*command: object, **options: Any) -> str:
    """What a program prints, which has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(work: Path) -> None:
    """Pack the integration, and install what was packed."""
    succeeding(sys.executable, ROOT / "tools" / "build_scalelib.py", work)
    packed = succeeding(sys.executable, FILES / "package.py", work, "--scalelib", work, env=OFFLINE)
    succeeding("tar", "xzf", packed.strip(), cwd=work)
    succeeding("bash", "acme/install.sh", sys.executable, work / "home", cwd=work, env=OFFLINE)
    needed_beside(work)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the integration is installed, as it does it itself."""
    return built_once(tmp_path_factory, "acme", install) / "home"


class Site:
    """A cluster, the scheduler's file, and the integration's command."""

    def __init__(self, home: Path, work: Path, simulator: Simulator) -> None:
        self.home = home
        self.simulator = simulator
        self.database = work / "acme.json"
        self.config = work / "autoscale.json"
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(home.parent / "needed"),
            "AUTOSCALE_HOME": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.scheduler({}, {})
        there = simulator.connection("c")
        said = self.azacme(
            *("initconfig", "--cluster-name", "c", "--url", there["url"]),
            *("--username", there["username"], "--password", there["password"]),
            *("--idle-timeout", "1", "--database", self.database),
        )
        config = json.loads(said)
        config["backoff"] = {"evicted": 3}
        config["logging"] = {"config_file": str(home / "logging.conf")}
        self.config.write_text(json.dumps(config), encoding="utf-8")
        self.config.chmod(0o600)

    def azacme(self, *words: object) -> str:
        """Run the command."""
        return succeeding(self.home / "azacme", *words, env=self.environment)

    def autoscale(self) -> list[dict[str, Any]]:
        """One pass; the demand that it prints."""
        return json.loads(self.azacme("autoscale", "-c", self.config, "-F", "json"))

    def until(self, holds: Callable[[], bool]) -> None:
        """Pass after pass, until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"{self.jobs_and_hosts()} {self.nodes()}"
            self.autoscale()
            self.simulator.clock.advance(5)

    def scheduler(self, jobs: dict[str, Any], hosts: dict[str, Any]) -> None:
        """Say what Acme has."""
        said = json.dumps({"jobs": jobs, "hosts": hosts})
        self.database.write_text(said, encoding="utf-8")

    def jobs_and_hosts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        said = json.loads(self.database.read_text(encoding="utf-8"))
        return said["jobs"], said["hosts"]

    def submit(self, name: str, slots: int) -> None:
        """Queue a job."""
        jobs, hosts = self.jobs_and_hosts()
        jobs[name] = {"slots": slots, "state": "Q", "host": None}
        self.scheduler(jobs, hosts)

    def run(self, name: str, host: str) -> None:
        """Start a job, which needs a host that is up."""
        jobs, hosts = self.jobs_and_hosts()
        assert hosts[host]["state"] == "up"
        jobs[name].update(state="R", host=host)
        self.scheduler(jobs, hosts)

    def end(self, name: str) -> None:
        """A job is done."""
        jobs, hosts = self.jobs_and_hosts()
        del jobs[name]
        self.scheduler(jobs, hosts)

    def nodes(self) -> dict[str, str]:
        """CycleCloud's nodes, with their states."""
        return {node["Name"]: node["Status"] for node in self.simulator.cluster("c").nodes()}

    def events(self, event: str) -> list[str]:
        """The nodes to which something happened, in order."""
        return [entry["name"] for entry in self.simulator.journal.entries(event=event)]


@pytest.fixture
def site(home: Path, tmp_path: Path) -> Iterator[Site]:
    with serve(CLOUD) as simulator:
        yield Site(home, tmp_path, simulator)


def test_from_the_submitted_job_to_the_deleted_node(site: Site) -> None:
    """Submit, create, join, run, idle, drained, deleted; a running job keeps its node however long
    it runs."""
    site.submit("1", slots=3)
    planned = site.autoscale()
    assert [(row["name"], row["job_ids"]) for row in planned] == [("htc-1", ["1"])]
    assert list(site.nodes()) == ["htc-1"]
    assert site.jobs_and_hosts()[1] == {}
    site.simulator.clock.settle()
    assert site.nodes() == {"htc-1": "Ready"}
    site.autoscale()
    hosts = site.jobs_and_hosts()[1]
    assert [(host["slots"], host["state"]) for host in hosts.values()] == [(4, "up")]
    (host,) = hosts
    site.run("1", host)
    time.sleep(1.1)  # longer than the idle timeout: that a job runs is what keeps the node
    for _ in range(2):
        (row,) = site.autoscale()
        assert (row["name"], row["job_ids"]) == ("htc-1", ["1"])
    (job,) = json.loads(site.azacme("jobs", "-c", site.config))
    assert job["executing-hostnames"] == [host]
    (row,) = json.loads(site.azacme("hosts", "-c", site.config))
    assert (row["job_ids"], row["*slots"]) == (["1"], 1)
    assert site.nodes() == {"htc-1": "Ready"}
    site.end("1")
    site.until(lambda: site.jobs_and_hosts()[1] == {})
    site.simulator.clock.settle()
    assert site.nodes() == {}
    assert site.events("created") == ["htc-1"]


def test_a_job_that_is_submitted_while_another_runs(site: Site) -> None:
    """It gets what is free on the node that is there, and a node of its own where that is not
    enough."""
    site.submit("1", slots=3)
    site.autoscale()
    site.simulator.clock.settle()
    site.autoscale()
    (host,) = site.jobs_and_hosts()[1]
    site.run("1", host)
    site.submit("2", slots=1)
    site.submit("3", slots=4)
    demand = {row["name"]: sorted(row["job_ids"]) for row in site.autoscale()}
    assert demand == {"htc-1": ["1", "2"], "htc-2": ["3"]}


def test_a_job_whose_machine_is_lost_gets_another(site: Site) -> None:
    """Acme still has the host, as `down`, and queues the job again: it is planned on a new node,
    once the offer of the one that was evicted has had its rest."""
    site.submit("1", slots=3)
    site.autoscale()
    site.simulator.clock.settle()
    site.autoscale()
    ((name, lost),) = site.jobs_and_hosts()[1].items()
    site.simulator.cluster("c").evict("htc-1")
    site.simulator.clock.settle()
    assert site.nodes() == {}
    jobs, hosts = site.jobs_and_hosts()
    hosts[name]["state"] = "down"
    site.scheduler(jobs, hosts)
    assert not any(row["job_ids"] for row in site.autoscale())

    def is_replaced() -> bool:
        host = site.jobs_and_hosts()[1].get(name, lost)
        return host["state"] == "up" and host["ccnodeid"] != lost["ccnodeid"]

    site.until(is_replaced)
    assert site.events("created") == ["htc-1", "htc-1"]
