"""What has gone wrong with autoscalers in the field, each as a test through the door.

| incident | what happened there | test |
| --- | --- | --- |
| kubernetes/autoscaler#3240 | throttled, a size was read as -1: 197 of 200 nodes deleted | here |
| gardener/autoscaler#340 | the next group was tried for new pods only | here |
| zoom/karpenter-oci#64 | what was noted of a failure was never found again | here |
| skypilot#6248 | spot capacity that ran out blocked regular nodes, too | here |
| nomad-autoscaler#845 | a dry run scaled, outside of the limits | here |
| gardener#10569 | timeouts of 0 s and 0 s: nodes came and went for ever | here |
| karpenter#2938 | a gauge of cost went below zero | here |
| az-hop#841 | one job's text made the whole autoscaler stop | here, and \
test_examples.py::test_job_files_that_are_none, unit/test_jobs.py, the conformance checks |
| cyclecloud-lsf#36 | two VM sizes went over their common quota | here, and \
test_scaling_over_http.py::test_a_quota_is_filled_exactly_named_and_never_exceeded |
| aws-parallelcluster#4172 | one listing without a node cost it its life | here, and \
unit/test_autoscaler_witness.py::test_a_listing_in_part_deletes_nothing |
| a switch to winter time | two minutes were taken for an hour | here, and \
unit/test_nodehistory_file.py::test_a_daylight_saving_switch_ages_nothing |
| a lost reply to a create | nodes were made twice | here, and four kinds of garbled replies in \
test_scaling_over_http.py |
"""

import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.errors import ConfigurationException, CycleCloudError
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.simulator import serve

F4, F8 = "Standard_F4s_v2", "Standard_F8s_v2"
EVERY_READ = ["get_nodes", "get_cluster_status"]


class Queue(GenericDriver):
    """A scheduler with these jobs, and with a task on each of these hosts."""

    def __init__(self):
        super().__init__("queue")
        self.entries = []
        self.busy = []

    def _read_jobs_and_nodes(self, config):
        hosts = []
        for name in self.busy:
            host = SchedulerNode(name, {"ncpus": 4})
            host.assign("at work")
            hosts.append(host)
        return build_jobs(self.entries, lambda entry: Job(**entry), lambda e: e["name"]), hosts


class Site:
    """A simulated cluster, its queue, and a clock for both."""

    def __init__(self, simulator, directory):
        self.simulator = simulator
        self.cluster = simulator.cluster("c")
        self.queue = Queue()
        self.now = clock.use_mock_clock()
        self.config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(directory / "nodehistory.db"),
            "retry": {"attempts": 1},
            "idle_timeout": 300,
        }

    def run(self, dry_run=False, **more):
        """One pass, as a new process would make it."""
        return Autoscaler({**self.config, **more}, self.queue, dry_run=dry_run).run_once()

    def wait(self, seconds=30):
        """Time passes, here and there."""
        self.now.sleep(seconds)
        self.simulator.clock.advance(seconds)

    def wants(self, nodes, name="j", **more):
        """So many jobs wait, each for a node of its own."""
        needs = [{"ncpus": 1, "exclusive": True}, *more.pop("needs", [])]
        self.queue.entries = [
            {"name": f"{name}{i}", "constraints": needs, **more} for i in range(nodes)
        ]

    def grow(self, nodes):
        """So many nodes that are ready and busy."""
        self.wants(nodes)
        self.run()
        self.simulator.clock.settle()
        self.queue.entries = []
        self.queue.busy = [node["Hostname"] for node in self.nodes()]
        self.run()

    def nodes(self):
        """Those that run or will run."""
        return [node for node in self.cluster.nodes() if node["TargetState"] == "Started"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Make a site of nodearrays and a region."""
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    open_ones = []

    def make(region=None, **nodearrays):
        described = {
            "clusters": {"c": {"region": "southcentralus", "nodearrays": nodearrays}},
            "regions": {"southcentralus": region or {}},
        }
        server = serve(described)
        open_ones.append(server)
        return Site(server.__enter__(), tmp_path)

    yield make
    for server in open_ones:
        server.__exit__(None, None, None)


HTC = {"machine_types": [F4]}


@pytest.mark.parametrize("endpoint", [*EVERY_READ, "*"])
def test_throttled_listings_delete_nothing_3240(site, endpoint):
    """200 nodes, 4 needed more: while the server throttles nothing goes, and then 4 come."""
    one = site(htc=HTC)
    one.grow(200)
    one.wants(4, "more")
    one.simulator.faults.add("status", endpoint=endpoint, status=429, retry_after="1")
    for _ in range(3):
        one.wait(600)
        with pytest.raises(CycleCloudError, match="429"):
            one.run()
    assert len(one.nodes()) == 200
    one.simulator.faults.clear()
    one.wait(600)
    assert len(one.run().created) == 4
    assert len(one.nodes()) == 204


def tried(one):
    """How many nodes of each nodearray and VM size the server was ever asked for."""
    return Counter((entry["nodearray"], entry["vm_size"]) for entry in created(one))


def test_a_job_that_waits_gets_the_next_size_340(site):
    """The first has no capacity: the same job, and not only a new one, is planned elsewhere in the
    pass after the failure."""
    one = site({"capacity": {F4: 0}}, first={"machine_types": [F4]}, second={"machine_types": [F8]})
    one.wants(1)
    one.run()
    one.simulator.clock.settle()
    one.run()
    one.simulator.clock.settle()
    assert [(n["MachineType"], n["Status"]) for n in one.nodes()] == [(F8, "Ready")]


def test_a_failure_is_found_again_by_what_was_asked_for_64(site):
    """Of two sizes of one nodearray the one that failed is left alone, and no other: it is asked
    for once, and work goes to the other."""
    one = site({"capacity": {F4: 0}}, htc={"machine_types": [F4, F8]})
    one.wants(2)
    for _ in range(6):
        one.run()
        one.wait(60)
    assert tried(one) == {("htc", F4): 2, ("htc", F8): 2}


def test_spot_without_capacity_does_not_block_regular_nodes_6248(site):
    """The same size, spot first: in the pass after the failure the job gets a regular node."""
    spot = {"machine_types": [F4], "spot": True}
    one = site({"capacity": {F4: 0}}, spot=spot, regular={"machine_types": [F4]})
    one.wants(1)
    one.run()
    one.simulator.clock.settle()
    one.simulator.set_capacity("southcentralus", **{F4: 10})
    one.run()
    one.simulator.clock.settle()
    assert tried(one) == {("spot", F4): 1, ("regular", F4): 1}
    assert [node["Status"] for node in one.nodes()] == ["Ready"]


def created(one):
    """What the server has ever made."""
    return [e for e in one.simulator.journal.entries() if e["event"] == "created"]


def test_a_dry_run_changes_nothing_also_beyond_the_limits_845(site):
    """Whatever is wanted, and however many nodes are idle."""
    one = site({"quota": 12}, htc=HTC)
    one.grow(3)
    one.queue.busy = []
    one.wants(50)
    before = (one.nodes(), len(one.simulator.journal.entries()))
    for _ in range(3):
        one.wait(600)
        summary = one.run(dry_run=True)
        assert (summary.created, summary.deleted) == ((), ())
    one.wants(0)
    one.run(dry_run=True)
    assert one.nodes() == before[0]
    assert len(created(one)) == 3


def test_timeouts_by_which_nodes_come_and_go_for_ever_10569(site):
    """Are refused before anything is done."""
    one = site(htc=HTC)
    one.wants(1)
    with pytest.raises(ConfigurationException, match="timeout"):
        one.run(idle_timeout=0, boot_timeout=0)
    assert one.nodes() == []


def test_costs_are_never_below_zero_2938(site):
    """Nodes come and go, and some VM sizes have no price: each pass works it out anew."""
    one = site(htc=HTC)
    packing = {"objective": "cost"}
    prices = {"southcentralus": {F4: 0.2}}
    costs = []
    for wanted in (3, 0, 5, 0):
        one.wants(wanted)
        costs.append(
            one.run(packing=packing, vm_sizes={"prices": prices}).fields()["price_per_hour"]
        )
        one.simulator.clock.settle()
        one.wait(600)
    assert all(cost is None or cost >= 0 for cost in costs)
    assert any(costs)


def test_one_bad_job_stops_no_other_841(site):
    """It is named, and the others get their nodes."""
    one = site(htc=HTC)
    one.wants(3)
    one.queue.entries[1] = {"name": "bad", "constraints": {"env": {"PATH": "{"}}}
    summary = one.run()
    assert len(summary.created) == 2
    assert [job.name for job in summary.set_aside] == ["bad"]


@pytest.mark.parametrize("limit", ["quota", "family_quotas"])
def test_two_sizes_keep_to_their_common_quota_lsf_36(site, limit):
    """40 cores for nodes of four and of eight, in two nodearrays: never more."""
    cores = {"standardFSv2Family": 40} if limit == "family_quotas" else 40
    one = site({limit: cores}, small={"machine_types": [F4]}, large={"machine_types": [F8]})
    small = [{"node.nodearray": "small"}]
    large = [{"node.nodearray": "large"}]
    one.wants(7, needs=small)
    one.queue.entries += [{"name": f"large{i}", "constraints": large[0]} for i in range(7)]
    for _ in range(3):
        one.run()
        one.wait(60)
        used = sum(4 if node["MachineType"] == F4 else 8 for node in one.nodes())
        assert used <= 40
    assert used == 36  # seven small ones leave 12 cores: one large one


def test_a_listing_without_the_nodes_costs_none_its_life_4172(site):
    """One reply without them, after six hours and while they work: no one goes, none comes."""
    one = site(htc=HTC)
    one.grow(5)
    for endpoint in EVERY_READ:
        one.wait(6 * 3600)
        one.simulator.faults.add("empty_nodes", endpoint=endpoint, times=1)
        with suppress(CycleCloudError):
            one.run()
        one.simulator.faults.clear()
        one.run()
    assert len(one.nodes()) == 5 == len(created(one))


def test_a_switch_to_winter_time_ages_nothing(site, monkeypatch):
    """Two minutes across it, in New York: no node has been idle for 62, nor booting."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        one = site(htc=HTC)
        switch = datetime(2026, 11, 1, 1, 59, tzinfo=ZoneInfo("America/New_York"))
        one.now.now = switch.timestamp()
        one.grow(2)
        one.queue.busy = []
        one.wants(3)
        one.run()  # one more, which boots
        one.wants(0)
        for _ in range(4):
            one.now.sleep(30)
            summary = one.run(boot_timeout=600)
            assert (summary.idle, summary.overdue, summary.deleted) == ((), (), ())
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lost_replies_to_creates_make_nothing_twice(site):
    """Two in a row, and nobody to ask meanwhile: seven nodes are wanted, seven are ever made."""
    one = site(htc=HTC)
    one.wants(7)
    one.simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1, 2])
    one.simulator.faults.add("status", endpoint="get_nodes", calls=[2, 3], status=500)
    for _ in range(4):
        with suppress(CycleCloudError):
            one.run()
        one.wait()
    assert len(created(one)) == 7 == len(one.nodes())
