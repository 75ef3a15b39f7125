"""The life of a cluster under an integration in the style of Grid Engine's, over several passes."""

import io
import json

import pytest

from builders.gridengine_like import (
    HOSTGROUPS,
    Driver,
    HostgroupConstraint,
    PreferLarge,
    QMaster,
    QuotaConstraint,
    autoscale,
    show_buckets,
)
from hpc.autoscale import clock
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import EarlyBailoutResult, MatchResult


class Site:
    """A cluster, its scheduler and a clock that moves when it is told to."""

    def __init__(self, order="existing-first"):
        self.now = clock.use_mock_clock()
        self.cluster = MockClusterBinding("clusty")
        self.cluster.add_nodearray("exec", {}, max_placement_group_size=3)
        self.cluster.add_bucket("exec", "Standard_F4", 10, 10)
        self.cluster.add_bucket("exec", "Standard_F8s", 10, 10)
        self.qmaster = QMaster()
        self.driver = Driver(self.qmaster)
        groups = {"exec": {"placement_groups": ["unused"]}}
        self.config = {
            "cluster_name": "clusty",
            "_mock_bindings": self.cluster,
            "lock_file": None,
            "nodearrays": groups,
            "packing": {"order": order},
        }

    def run(self):
        """One pass by the integration's own loop."""
        return autoscale(self.config, self.driver)

    def boot(self):
        """Every node that was asked for comes up, under a host name."""
        for name, node in self.cluster.nodes.items():
            if not node.hostname:
                self.cluster.assign_ip([name])
                node._hostname = f"ip-{name}"
        self.cluster.update_state("Ready")

    @property
    def running(self):
        """Names of the nodes that CycleCloud lists, with their placement groups."""
        return {r["Name"]: r["PlacementGroupId"] for r in self.cluster.get_nodes().nodes}


@pytest.fixture
def site():
    """An empty cluster."""
    return Site()


def test_serial_jobs_come_and_go(site):
    """Nodes are created for slots, joined into their hostgroup, worked on and deleted when idle."""
    site.qmaster.qsub("1", slots=6)
    demand, nodes, *_ = site.run()
    assert [n.name for n in demand.new_nodes] == ["exec-1", "exec-2"]
    assert nodes["exec-1"].resources[HOSTGROUPS] == ["@allhosts"]
    assert nodes["exec-2"].available["slots"] == 2

    site.boot()
    demand, *_ = site.run()
    assert (demand.new_nodes, sorted(site.qmaster.hosts)) == ([], ["ip-exec-1", "ip-exec-2"])

    site.qmaster.jobs.clear()
    for host, used in (("ip-exec-1", 4), ("ip-exec-2", 2)):
        site.qmaster.hosts[host].update(used=used, jobs={"1"})
    site.now.sleep(1000)
    demand, nodes, *_ = site.run()
    assert {n.name for n in demand.matched_nodes} == {"exec-1", "exec-2"}
    assert nodes["exec-2"].available["slots"] == 2

    site.qmaster.hosts["ip-exec-2"].update(used=0, jobs=set())
    site.run()
    site.now.sleep(301)
    site.run()
    assert (list(site.running), list(site.qmaster.hosts)) == (["exec-1"], ["ip-exec-1"])


def test_a_hook_script_may_change_jobs(site):
    """It gets a job as JSON and adds a constraint; what comes back is the same job otherwise."""
    seen = []

    def hook(text):
        job = json.loads(text)
        seen.append(job)
        job["constraints"].append({"node.vm_size": "Standard_F8s"})
        return json.dumps(job)

    site.qmaster.hook = hook
    site.qmaster.qsub("1", slots=4, mem="1g")
    demand, *_ = site.run()
    assert [n.vm_size for n in demand.new_nodes] == ["Standard_F8s"]
    assert {"m_mem_free": "memory::1.00g"} in seen[0]["constraints"]
    assert {"hostgroup": "@allhosts"}.items() <= seen[0]["constraints"][2][
        "hostgroup-and-pg"
    ].items()


def test_a_parallel_job_takes_the_first_group_that_holds_it(site):
    """Its nodes are put into the placement group while they are placed, and are created there."""
    site.qmaster.qsub("1", slots=12, pe="mpi")
    site.qmaster.qsub("2", slots=8, pe="mpi")
    demand, nodes, placed, _ = site.run()
    by_job = {
        name: {n.placement_group for n in demand.new_nodes if name in n.assignments}
        for name in ("1", "2")
    }
    assert by_job == {"1": {"pg0"}, "2": {"pg0"}}
    assert all(n.resources[HOSTGROUPS] == ["@mpi0"] for n in nodes.values())
    assert set(site.running.values()) == {"pg0"}
    site.boot()
    site.qmaster.jobs.clear()
    demand, nodes, *_ = site.run()
    assert {said["groups"][0] for said in site.qmaster.hosts.values()} == {"@mpi0"}
    assert {n.placement_group for n in nodes.values()} == {"pg0"}
    assert demand.new_nodes == []
    assert placed["1"][1] == []


def test_a_parallel_job_that_fits_nowhere_leaves_no_trace(site):
    """Neither on the nodes that it was tried on nor in names, limits or hostgroups."""
    site.qmaster.qsub("1", slots=2)
    site.run()
    site.boot()
    site.qmaster.qsub("2", slots=999, pe="mpi")
    before = [(b.vm_size, b.available_count) for b in new_node_manager(site.config).get_buckets()]
    demand, nodes, placed, _ = site.run()
    result, refused = placed["2"]
    after = [(b.vm_size, b.available_count) for b in new_node_manager(site.config).get_buckets()]
    assert (result, len(refused)) == (None, 2)
    assert demand.new_nodes == []
    assert nodes["exec-1"].assignments == {"1"}
    assert (nodes["exec-1"].placement_group, nodes["exec-1"].closed) == (None, False)
    assert nodes["exec-1"].available["slots"] == 2
    assert before == after
    assert list(site.running) == ["exec-1"]


def test_existing_nodes_outside_a_group_are_not_put_into_one(site):
    """A parallel job next to idle serial nodes gets new ones."""
    site.qmaster.qsub("1", slots=4)
    site.run()
    site.boot()
    site.qmaster.jobs.clear()
    site.qmaster.qsub("2", slots=4, pe="mpi")
    demand, nodes, *_ = site.run()
    assert [(n.name, n.placement_group) for n in demand.new_nodes] == [("exec-2", "pg0")]
    assert (nodes["exec-1"].assignments, nodes["exec-1"].placement_group) == (set(), None)


def test_quotas_count_per_host(site):
    """Two slots of a job on each host at most, however many it has; the counter is on the node."""
    site.qmaster.qsub("1", slots=5, quota=2)
    demand, nodes, placed, _ = site.run()
    used = [nodes[n.name].resources["_quota_per_host"] for n in demand.new_nodes]
    assert (used, placed["1"].total_slots) == ([2, 2, 1], 5)
    assert [n.available["slots"] for n in demand.new_nodes] == [2, 2, 3]


@pytest.mark.parametrize("order", ["existing-first", "declared"])
def test_a_constraint_may_weigh_buckets(order):
    """The larger size first, in either order of packing."""
    site = Site(order)
    site.qmaster.qsub("1", slots=8, large=True)
    demand, *_ = site.run()
    assert [n.vm_size for n in demand.new_nodes] == ["Standard_F8s"]


def test_declared_order_places_bucket_by_bucket():
    """As upstream does: the first bucket is filled, new nodes included, before the second is looked
    at."""
    sizes = {}
    for order in ("existing-first", "declared"):
        site = Site(order)
        site.cluster.add_node("exec-1", "exec", "Standard_F8s", state="Ready", hostname="ip-exec-1")
        site.qmaster.qsub("1", slots=6)
        demand, nodes, *_ = site.run()
        used = [n for n in nodes.values() if n.assignments]
        sizes[order] = sorted(n.vm_size for n in used)
        assert len(demand.new_nodes) == (0 if order == "existing-first" else 2)
    assert sizes == {
        "existing-first": ["Standard_F8s"],
        "declared": ["Standard_F4", "Standard_F4"],
    }


def test_a_stopped_job_says_why(site):
    """analyze shows the reasons, and leaves matches and bailouts that succeeded out."""
    site.qmaster.qsub("1", stopped="the queue is disabled")
    site.qmaster.qsub("2")
    _, _, placed, ctx = site.run()

    def interesting(result):
        return not (result and isinstance(result, (MatchResult, EarlyBailoutResult)))

    shown = [r for r in ctx.by_context["[Job 1]"] if interesting(r)]
    assert not placed["1"]
    assert "the queue is disabled" in " ".join(reason for r in shown for reason in r.reasons)
    assert placed["2"]


def test_custom_constraints_read_back_from_json():
    """Through the registered parser, also inside others."""
    made = HostgroupConstraint("@mpi0", "pg0", [{"node.spot": False}])
    again = get_constraint({"or": [made.to_dict(), {"never": "x"}]})
    assert get_constraint(made.to_dict()) == made
    assert next(iter(again.get_children())) == made
    assert PreferLarge() == PreferLarge()
    assert QuotaConstraint("a", 1) != QuotaConstraint("a", 2)


def test_buckets_show_what_was_written_into_example_nodes(site):
    """Limits as resources, and hostgroups."""
    node_mgr = new_node_manager(site.config)
    site.driver.preprocess_node_mgr(site.config, node_mgr)
    stream, table = io.StringIO(), io.StringIO()
    nodes = show_buckets(node_mgr, stream)
    print_demand(
        ["vm_size", "max_count", HOSTGROUPS], DemandResult([], nodes, [], []), table, "json"
    )
    assert stream.getvalue().split()[:3] == ["NODEARRAY", "VM_SIZE", "LEFT"]
    assert {d["max_count"] for d in json.loads(table.getvalue())} <= {3, 10}
    assert json.loads(table.getvalue())[0][HOSTGROUPS] == ["@any"]
