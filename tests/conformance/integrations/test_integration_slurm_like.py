"""The life of a cluster under an integration in the style of Slurm's, over several commands."""

import json
from argparse import Namespace

import pytest

from builders.slurm_like import Driver, SlurmCLI, Slurmctld, allocate, fetch_partitions
from hpc.autoscale import clilib, clock
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.models import NodeCreationResult
from hpc.autoscale.node.nodemanager import new_node_manager

HTC = {"slurm": {"partition": "htc", "autoscale": True}, "autoscale": {"is_hpc": False}}
HPC = {
    "slurm": {"partition": "hpc", "hpc": True, "node_prefix": "c1-"},
    "autoscale": {"is_hpc": True},
}


def a_cluster():
    """Two partitions, and a nodearray that is none."""
    cluster = MockClusterBinding("clusty")
    cluster.add_nodearray(name="htc", resources={}, software_configuration=HTC)
    cluster.add_nodearray(
        name="hpc", resources={}, software_configuration=HPC, max_placement_group_size=3
    )
    cluster.add_nodearray("login", {}, software_configuration={"slurm": {"autoscale": False}})
    cluster.add_bucket("htc", "Standard_F4", 10, 10)
    cluster.add_bucket("hpc", "Standard_F8s", 10, 10)
    cluster.add_bucket("login", "Standard_F2", 1, 1)
    return cluster


class Progress(clock.MockClock):
    """Time in which the cluster gets on with its work, one step for each wait."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster
        self.waits = []

    def sleep(self, n):
        super().sleep(n)
        self.waits.append(n)
        records = self.cluster.get_nodes().nodes
        waiting = sorted(r["Name"] for r in records if not r["PrivateIp"])
        if len(self.waits) % 2 == 0:
            self.cluster.assign_ip([n for n in waiting if n not in self.cluster.stuck])


class Site:
    """A cluster, Slurm, and azslurm."""

    def __init__(self, home, capsys, monkeypatch):
        self.home, self.capsys = home, capsys
        self.cluster = a_cluster()
        self.cluster.stuck = set()
        self.now = Progress(self.cluster)
        monkeypatch.setattr(clock, "_clock", self.now)
        self.ctld = Slurmctld()
        self.config = {"cluster_name": "clusty", "lock_file": None}

    def manager(self):
        """A prepared manager, as a command of its own would make it."""
        config = {**self.config, "_mock_bindings": self.cluster}
        node_mgr = new_node_manager(config)
        Driver().preprocess_node_mgr(config, node_mgr)
        return node_mgr

    def __call__(self, *argv, code=0):
        """Run a command of azslurm; what it printed."""
        site = self

        class OnSite(SlurmCLI):
            def _initialize(self, command, config):
                config["_mock_bindings"] = site.cluster

        (self.home / "autoscale.json").write_text(json.dumps(self.config))
        ended = 0
        try:
            clilib.main(list(argv), "slurm", OnSite(self.ctld))
        except SystemExit as end:
            ended = end.code
        captured = self.capsys.readouterr()
        self.errors = captured.err
        assert ended == code, captured.err
        return captured.out

    @property
    def running(self):
        """Names of the nodes that CycleCloud lists, with their placement groups."""
        return {r["Name"]: r["PlacementGroupId"] for r in self.cluster.get_nodes().nodes}


@pytest.fixture
def site(tmp_path, capsys, monkeypatch):
    """An empty cluster."""
    return Site(tmp_path, capsys, monkeypatch)


def test_partitions_describe_what_can_be_started(site):
    """Cores without threads, memory less what Slurm may not use, as many nodes as the group or the
    bucket holds."""
    lines = site("partitions").splitlines()
    found = fetch_partitions(site.manager())
    assert [line.split()[0] for line in lines] == ["PartitionName=htc", "PartitionName=hpc"]
    assert "CPUs=4 ThreadsPerCore=1 RealMemory=7168" in lines[0]
    assert "RealMemory=15360" in lines[1]
    assert {name: p.bucket.placement_group for name, p in found.items()} == {
        "htc": None,
        "hpc": "Standard_F8s_pg0",
    }
    assert (found["htc"].names[-1], found["hpc"].names) == (
        "htc-10",
        ["c1-hpc-1", "c1-hpc-2", "c1-hpc-3"],
    )


def test_resume_starts_the_nodes_that_slurm_names(site):
    """By exactly these names, MPI ones in their group; Slurm learns the addresses that the mock has
    handed out."""
    out = site("resume", "--node-list", "htc-7,c1-hpc-2,htc-3")
    assert json.loads(out) == ["htc-7", "c1-hpc-2", "htc-3"]
    assert site.running == {"htc-7": None, "c1-hpc-2": "Standard_F8s_pg0", "htc-3": None}
    assert site.ctld.addresses == {
        "c1-hpc-2": "10.1.0.2",
        "htc-3": "10.1.0.3",
        "htc-7": "10.1.0.4",
    }
    assert site.now.waits == [15, 15]


def test_resume_again_leaves_what_runs_alone(site):
    """A second list with a node that is there already creates only the others."""
    site("resume", "--node-list", "htc-1,htc-2")
    before = {n: node.delayed_node_id.node_id for n, node in site.cluster.nodes.items()}
    site("resume", "--node-list", "htc-2,htc-3")
    after = {n: node.delayed_node_id.node_id for n, node in site.cluster.nodes.items()}
    assert sorted(after) == ["htc-1", "htc-2", "htc-3"]
    assert {n: after[n] for n in before} == before


def test_nodes_that_get_no_address_are_down_in_the_end(site):
    """The wait ends by the clock, without waiting."""
    site.cluster.stuck = {"htc-2"}
    site("resume", "--node-list", "htc-1,htc-2")
    assert (list(site.ctld.addresses), site.ctld.down) == (["htc-1"], {"htc-2"})
    assert sum(site.now.waits) == 600


def test_a_name_beyond_the_limits_is_an_error(site):
    """The placement group holds three; the fourth is refused in one line, and nothing is
    created."""
    node_mgr = site.manager()
    assert len(allocate(node_mgr, ["c1-hpc-1", "c1-hpc-2", "c1-hpc-3"])) == 3
    bucket = fetch_partitions(node_mgr)["hpc"].bucket
    assert bucket.available_count == 0
    more = node_mgr.allocate(
        {"node.bucket_id": bucket.bucket_id, "node.placement_group": bucket.placement_group},
        node_count=1,
        allow_existing=False,
    )
    assert (bool(more), site.running) == (False, {})
    assert "Standard_F8s_pg0" in more.message


def test_a_hook_that_raises_leaves_nothing_behind(site):
    """The name is in use: the RuntimeError of the hook comes out, and the capacity is still
    there."""
    site("resume", "--node-list", "htc-1")
    node_mgr = site.manager()
    bucket = fetch_partitions(node_mgr)["htc"].bucket

    def hook(bucket, index):
        if index != 1:
            raise RuntimeError("Could not create node with name htc-1: it exists")
        return "htc-1"

    node_mgr.set_node_name_hook(hook)
    with pytest.raises(RuntimeError, match="it exists"):
        node_mgr.allocate({"node.bucket_id": bucket.bucket_id}, node_count=1, allow_existing=False)
    assert bucket.available_count == 9
    assert node_mgr.new_nodes == []


def test_suspend_and_resume_the_same_name(site):
    """The name is free again after it was shut down, and stands for a new machine."""
    site("resume", "--node-list", "htc-1,htc-2")
    first = site.cluster.nodes["htc-1"].delayed_node_id.node_id
    site("suspend", "--node-list", "htc-1")
    assert (list(site.running), list(site.ctld.addresses)) == (["htc-2"], ["htc-2"])
    assert site.cluster.nodes["htc-1"].state == "Terminating"
    site("resume", "--node-list", "htc-1")
    assert sorted(site.running) == ["htc-1", "htc-2"]
    assert site.cluster.nodes["htc-1"].delayed_node_id.node_id != first


def test_keep_alive_nodes_are_not_suspended(site):
    """Slurm's tests set it on the mock's own node."""
    site("resume", "--node-list", "htc-1,htc-2")
    site.cluster.nodes["htc-1"].keep_alive = True
    site("suspend", "--node-list", "htc-1,htc-2")
    assert list(site.running) == ["htc-1"]


def test_restart_and_reimage_by_their_names(site):
    """Through super() calls with keyword arguments."""
    site("resume", "--node-list", "htc-1,htc-2")
    site("restart_nodes", "-N", "htc-1")
    site("reimage_nodes", "-N", "htc-2")
    assert {n: node.state for n, node in site.cluster.nodes.items()} == {
        "htc-1": "Restarting",
        "htc-2": "Reimaging",
    }
    assert list(site.ctld.addresses) == ["htc-2"]


def test_commands_of_a_scheduler_that_decides_itself_are_hidden(site):
    """autoscale and the like are no sub-commands, and can still be called."""
    for command in ("autoscale", "demand", "jobs", "join_nodes", "limits_of"):
        site(command, code=2)
    cli = SlurmCLI(site.ctld)
    demand = cli.demand({**site.config, "_mock_bindings": site.cluster}, ["name"], "table")
    assert demand.new_nodes == []


def test_completion_knows_the_nodes(site):
    """From what the last refresh wrote, without asking the cluster."""
    site("resume", "--node-list", "htc-1,htc-2")
    site("refresh_autocomplete")
    cli = SlurmCLI(site.ctld)
    parsed = Namespace(config=str(site.home / "autoscale.json"))
    assert cli._complete("htc-", parsed) == ["htc-1", "htc-2"]
    assert [n.nodearray for n in cli.example_nodes] == ["htc", "hpc", "login", "hpc"]


class Sent:
    """A clusters module that keeps the creation request and creates nothing."""

    def create_nodes(self, session, name, request):
        self.request = request.to_dict()
        return None, NodeCreationResult(operation_id="op", sets=[])


def test_names_reach_the_server_as_name_formats(site):
    """Each node is a set of its own, because each has a format of its own; groups go along."""
    nodes = allocate(site.manager(), ["htc-7", "htc-3", "c1-hpc-2"])
    sent = Sent()
    ClusterBinding({"cluster_name": "clusty"}, None, None, sent).create_nodes(nodes)
    assert sorted(
        (s["nameFormat"], s["count"], s.get("placementGroupId")) for s in sent.request["sets"]
    ) == [("c1-hpc-2", 1, "Standard_F8s_pg0"), ("htc-3", 1, None), ("htc-7", 1, None)]


def test_the_configuration_of_nodes_can_be_changed_in_a_test(site):
    """A nested dict of the mock's node is that of every later record and node."""
    site("resume", "--node-list", "htc-1")
    site.cluster.nodes["htc-1"].software_configuration["slurm"]["partition"] = "debug"
    (node,) = (n for n in site.manager().get_nodes() if n.name == "htc-1")
    assert node.software_configuration["slurm"]["partition"] == "debug"
    assert site.cluster.get_nodes().nodes[0]["Configuration"]["slurm"]["partition"] == "debug"
    assert HTC["slurm"]["partition"] == "htc"
