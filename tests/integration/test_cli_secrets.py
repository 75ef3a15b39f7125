"""What a cluster's own configuration has in secrets is in nothing that commands print, log or
write."""

import json
import logging
from types import SimpleNamespace

import pytest

from builders.grid_cli import grid  # noqa: F401 - a fixture
from hpc.autoscale import hpclogging
from hpc.autoscale.ccbindings.legacy import ClusterBinding

CONFIGURATION = {
    "slurm": {"accounting": {"enabled": True, "password": "hunter2"}},
    "mount": "https://user:hunter2@storage",
}
EVERYTHING = [
    ["nodes", "-o", "all", "-F", "json"],
    ["nodes", "-o", "name,software_configuration", "-l"],
    ["buckets", "-o", "nodearray,software_configuration", "-F", "json"],
    ["limits"],
    ["demand", "-o", "all", "-F", "json"],
    ["autoscale", "-o", "all", "-F", "json"],
    ["analyze", "-j", "1", "-l"],
    ["debug_cluster_status", "--nodes"],
    ["config"],
    ["refresh_autocomplete"],
]


@pytest.fixture
def configured(grid):  # noqa: F811 - the fixture that is imported
    """A command line over a cluster with passwords in its configuration, with a node and a job."""
    grid.cluster.add_nodearray("hpc", {}, software_configuration=CONFIGURATION)
    grid.cluster.add_bucket("hpc", "Standard_F4s", 10, 10)
    grid.cluster.add_node("hpc-1", "hpc", state="Ready", hostname="host-1")
    grid.scheduler.queue("1")
    return grid


@pytest.mark.parametrize("argv", EVERYTHING, ids=" ".join)
def test_no_command_shows_them(configured, argv):
    """Neither on stdout nor on stderr nor in a file below the home of the integration."""
    assert "hunter2" not in configured(*argv) + configured.errors
    for path in configured.home.rglob("*"):
        assert b"hunter2" not in path.read_bytes(), path


def test_what_is_no_secret_is_shown(configured):
    """The rest of the configuration is there, with stars in their place."""
    (node,) = configured.json("nodes", "-o", "name,software_configuration", "-F", "json")
    shown = node["software_configuration"]
    assert shown["slurm"] == {"accounting": {"enabled": True, "password": "***"}}
    assert shown["mount"] == "https://user:***@storage"
    array = configured.json("debug_cluster_status")["nodearrays"][1]["nodearray"]
    assert array["Configuration"]["slurm"] == shown["slurm"]


@pytest.mark.parametrize("level", [hpclogging.FINE, logging.DEBUG])
def test_replies_are_logged_without_them(configured, caplog, level):
    """Whole at FINE, the beginning of them at DEBUG."""

    def functions(name):
        return lambda session, cluster, *more: (None, getattr(configured.cluster, name)(*more))

    module = SimpleNamespace(
        get_cluster_status=functions("get_cluster_status"), get_nodes=functions("get_nodes")
    )
    binding = ClusterBinding({"cluster_name": "c"}, object(), None, module)
    with caplog.at_level(level, logger="cyclecloud.clustersapi"):
        status = binding.get_cluster_status(nodes=True)
        binding.get_nodes()
    assert len(caplog.records) == 2
    assert "hunter2" not in caplog.text
    assert "hunter2" in json.dumps(status.to_dict())
