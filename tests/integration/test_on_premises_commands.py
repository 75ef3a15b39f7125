"""What commands say of hosts on premises, and do not do with them, beside a cluster that is asked
over HTTP."""

import pytest

from builders.failing_cloud import F4, a_site
from builders.site_commands import site_command as site_command
from hpc.autoscale.job.job import Job

ARRAYS = {"htc": {"machine_types": [F4]}}
QUOTA = "the core quota of southcentralus has 8 of 8 cores in use"


@pytest.fixture
def site(tmp_path, site_command):
    """Room for two nodes of four cores; what makes jobs wait is set by the test."""
    with a_site(tmp_path, ARRAYS, {"quota": 8}) as running:
        running.config["on_premises"] = [{"name": "rack-1", "resources": {"ncpus": 4}}]
        yield running


@pytest.fixture
def azscale(site, site_command):
    """What a command prints, on stdout and stderr."""

    def run(*words):
        site_command.serve(site)
        return site_command(*words) + site_command.errors

    return run


def test_a_quota_is_named_before_hosts_that_are_busy(site, azscale):
    """More nodes could be had; more hosts could not."""
    site.new_jobs = lambda: [Job("a", {"ncpus": 1}, iterations=40)]
    waits = f"1 job (a) waits: {QUOTA}"
    assert waits in " ".join(azscale("plan").replace("!", "").split())
    said = azscale("explain", "a")
    assert said.startswith(f"Job a waits: {QUOTA}"), said
    assert said.index("RegionQuota") < said.index("Busy  on-premises")
    assert waits in azscale("autoscale")
    assert waits in " ".join(azscale("status").split())


def test_a_host_whose_worker_cannot_be_started(site, azscale):
    """What it wrote to stderr is told by whoever tells that it failed, also where it did not end in
    time, and when it is tried again; what is not so is not said."""
    said = "echo no licence server >&2; "
    site.config["on_premises"] = [
        {
            "name": name,
            "resources": {"ncpus": 4},
            "start": ["sh", "-c", f"{said}{end}"],
            "stop": ["true"],
            "command_timeout": 1,
        }
        for name, end in (("slow", "sleep 60"), ("bad", "exit 3"))
    ]
    before = azscale("explain", "slow")
    assert "is Off: its worker is not started, until a job needs it" in before, before
    site.new_jobs = lambda: [Job("a", {"ncpus": 4}, iterations=2)]
    assert "the next pass starts its worker" in azscale("explain", "slow").split("\n")[0]
    found = azscale("autoscale")
    failures = {"slow": "timed out after 1 seconds", "bad": "exit code 3"}
    for name, why in failures.items():
        assert f"host {name}: {why}: no licence server" in found, found
        explained = azscale("explain", name)
        text = f"is Off: its worker could not be started ({why}: no licence server): next try in"
        assert text in explained, explained
        assert "Idle" not in explained and "on its way out" not in explained
    plan = azscale("plan")
    assert "is Off, and the scheduler does not know it yet" in plan
    assert "is ready" not in plan


def test_a_host_whose_worker_was_started_again_in_vain(site, azscale):
    """That its command failed is not said."""
    host = {"name": "rack-1", "resources": {"ncpus": 4}, "start": ["true"], "stop": ["true"]}
    site.config.update(on_premises=[host], boot_timeout=600)
    site.new_jobs = lambda: [Job("a", {"ncpus": 4})]
    for passed in (0, 601, 601):
        site.wait(passed)
        azscale("autoscale")
    explained = azscale("explain", "rack-1")
    text = "is Off: its worker was started again, and the scheduler does not report it: next try in"
    assert text in explained, explained
    assert "could not be" not in explained and "on its way out" not in explained


@pytest.mark.parametrize(
    ("command", "done"),
    [
        (("delete_nodes", "--force"), "Deleting the following nodes:"),
        (("remove_nodes", "--force"), "Removed the following nodes"),
        (("restart_nodes",), "Restarting the following nodes:"),
        (("reimage_nodes",), "Reimaging the following nodes:"),
    ],
)
def test_all_nodes_are_all_but_hosts_on_premises(site, azscale, site_command, command, done):
    """Which is said. One that is named is refused, and nothing is done."""
    site.new_jobs = lambda: [Job("a", {"ncpus": 4}, iterations=3)]
    azscale("autoscale")
    site.wait(60)
    site.new_jobs = list
    refused = azscale(*command, "-N", "rack-1,htc-1")
    assert site_command.code == 1 and "node rack-1 is a host on premises" in refused
    assert {node["TargetState"] for node in site.nodes()} == {"Started"}
    said = azscale(*command, "-N", "*")
    assert site_command.code == 0, said
    assert "hosts on premises are left alone, since the loop starts and stops them: rack-1" in said
    assert f"{done}" in said and "htc-1" in said and "    rack-1" not in said
