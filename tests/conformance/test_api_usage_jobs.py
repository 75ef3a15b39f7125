"""Section 11, first half: jobs, the scheduler's nodes, the queue of nodes, and drivers."""

import importlib
import io
import json
import socket
import sys

import pytest

import hpc.autoscale.job.driver
from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.processes import python
from builders.published import row
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.node.constraints import MinResourcePerNode, get_constraint
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.results import EarlyBailoutResult
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import NullSingletonLock, SingletonFileLock, json_dump


@row("job.Job")
@pytest.mark.parametrize(
    "constraints",
    [
        {"ncpus": 2},
        [{"ncpus": 2}],
        [MinResourcePerNode("ncpus", 2)],
        MinResourcePerNode("ncpus", 2),
    ],
    ids=["dict", "list", "objects", "object"],
)
def test_a_job_with_constraints_in_any_form(constraints):
    """All of them place the same."""
    job = Job("1", constraints, iterations=3)
    result = job.do_allocate(a_manager())
    assert job._constraints == [MinResourcePerNode("ncpus", 2)]
    assert (names(result.nodes), result.total_slots) == (["htc-1", "htc-2"], 3)


@row("job.Job")
@row("job.name")
@row("job.iterations")
@row("job.node_count")
@row("job.packing_strategy")
@row("job.executing_hostnames")
def test_what_a_job_was_given_is_what_it_says():
    """All by keyword; the strategy follows from the node count when it is None."""
    job = Job(
        name="7",
        constraints=[],
        iterations=5,
        node_count=0,
        colocated=True,
        packing_strategy="scatter",
        executing_hostnames=["ip-1"],
    )
    assert (job.name, job.iterations, job.node_count, job.colocated) == ("7", 5, 0, True)
    assert (job.packing_strategy, job.executing_hostnames) == ("scatter", ["ip-1"])
    assert (Job("8").packing_strategy, Job("9", node_count=2).packing_strategy) == (
        "pack",
        "scatter",
    )
    running = Job("8", packing_strategy=None)
    running.executing_hostnames.append("ip-1")
    assert running.to_dict()["executing-hostnames"] == ["ip-1"]
    assert Job("9").to_dict()["executing-hostnames"] == []


@row("job.Job")
@pytest.mark.parametrize(
    "wrong", [{"name": 1}, {"iterations": "2"}, {"node_count": 1.5}, {"packing_strategy": "spread"}]
)
def test_arguments_of_the_wrong_kind(wrong):
    """AssertionError, so that a mistake of a parser does not get far."""
    with pytest.raises(AssertionError):
        Job(**{"name": "1", **wrong})


@row("job.name")
def test_jobs_without_a_name_are_numbered():
    """Each gets the next number of the process, as a text."""
    first, second = Job(), Job()
    assert int(second.name) == int(first.name) + 1


@row("job.metadata")
def test_metadata_is_free_and_running_jobs_can_be_told_by_it():
    """PBS and Grid Engine pass over jobs whose `job_state` is running."""
    running, queued = Job("1", {"ncpus": 1}), Job("2", {"ncpus": 1})
    running.metadata["job_state"] = "running"
    queued.metadata = {"job_state": "queued", "gridengine": {"pe": "mpi"}}
    waiting = [j for j in (running, queued) if j.metadata.get("job_state") != "running"]
    assert [j.name for j in waiting] == ["2"]
    assert queued.metadata["gridengine"]["pe"] == "mpi"


@row("job.iterations_remaining")
def test_iterations_remaining_go_down_and_may_be_set():
    """PBS sets them for job arrays that have begun."""
    job = Job("1", {"ncpus": 1}, iterations=100)
    job.iterations_remaining = 6
    node_mgr = a_manager(an_htc_cluster(count=1))
    result = job.do_allocate(node_mgr)
    assert (result.total_slots, job.iterations_remaining, job.iterations) == (4, 2, 100)


@row("job.add_constraint")
@row("job._constraints")
def test_constraints_may_be_added():
    """As Grid Engine's hooks do: they count, know the job, and are in the private list."""
    job = Job("1", {"ncpus": 1})
    job.add_constraint({"exclusive": True})
    job.add_constraint(get_constraint({"node.vm_size": "Standard_F4"}))
    assert [c.to_dict() for c in job._constraints] == [
        {"ncpus": 1},
        {"exclusive": True},
        {"node.vm_size": ["Standard_F4"]},
    ]
    assert job._constraints[1].assignment_id == "1"
    assert job.do_allocate(a_manager()).nodes[0].closed


@row("job.to_dict")
@row("job.from_dict")
def test_a_job_survives_the_pipe_to_a_hook():
    """Dashed keys; equal for equal jobs; from_dict gives the same dict again, also through JSON."""
    given = [{"ncpus": 1, "mem": Memory(1, "g")}, {"or": [{"node.spot": True}, {"queue": "q"}]}]
    job, same = (Job("1", given, iterations=4, colocated=True) for _ in range(2))
    job.iterations_remaining = same.iterations_remaining = 3
    job.metadata["k"] = same.metadata["k"] = "v"
    stream = io.StringIO()
    json_dump(job.to_dict(), stream)
    sent = json.loads(stream.getvalue())
    back = Job.from_dict(sent)
    assert job.to_dict() == same.to_dict()
    assert set(sent) == {
        *("name", "constraints", "iterations", "iterations-remaining", "node-count", "colocated"),
        *("packing-strategy", "executing-hostnames", "metadata"),
    }
    assert back.to_dict() == job.to_dict()
    assert (back.iterations_remaining, back.metadata, back.colocated) == (3, {"k": "v"}, True)


@row("job.from_dict")
def test_what_from_dict_takes_for_granted():
    """Only name and constraints are needed; a missing node count is 1."""
    job = Job.from_dict({"name": "1", "constraints": [{"ncpus": 1}]})
    assert (job.iterations, job.node_count, job.colocated) == (1, 1, False)


@row("job.PackingStrategy")
def test_strategies_are_texts():
    """Constants that PBS compares and hands on."""
    assert (PackingStrategy.PACK, PackingStrategy.SCATTER) == ("pack", "scatter")
    job = Job("1", {"ncpus": 1}, iterations=3, packing_strategy=PackingStrategy.SCATTER)
    assert len(job.do_allocate(a_manager(), all_or_nothing=True).nodes) == 3


@row("schedulernode.SchedulerNode")
def test_a_node_as_the_scheduler_reports_it():
    """By position and by keyword; it runs, exists, and is nobody's to delete."""
    node = SchedulerNode("ip-1.example.com", {"ncpus": 4})
    keyword = SchedulerNode(hostname="ip-2", resources={"ncpus": 2}, bucket_id="b")
    assert (node.hostname, node.name, node.resources["ncpus"]) == (
        "ip-1",
        "ip-1.example.com",
        4,
    )
    assert (node.state, node.exists, node.managed, node.required) == ("running", True, False, False)
    assert (keyword.bucket_id, keyword.available) == ("b", {"ncpus": 2})
    assert node.bucket_id != SchedulerNode("ip-3").bucket_id
    assert (node.vcpu_count, node.vm_size, node.nodearray) == (1, "unknown", "unknown")


@row("schedulernode.ignore_hostnames")
def test_addresses_are_looked_up_unless_the_class_says_no(monkeypatch):
    """The flag is of the class; without it the private address is the host's, None when it has
    none."""
    monkeypatch.setattr(socket, "gethostbyname", {"ip-1": "10.0.0.1"}.__getitem__)
    SchedulerNode.ignore_hostnames = False
    assert SchedulerNode("ip-1").private_ip == "10.0.0.1"

    def unknown(name):
        raise socket.gaierror(name)

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert SchedulerNode("ip-9").private_ip is None
    SchedulerNode.ignore_hostnames = True
    monkeypatch.setattr(socket, "gethostbyname", lambda name: pytest.fail("looked up"))
    assert SchedulerNode("ip-1").private_ip is None


@row("schedulernode.TempNode")
def test_a_node_made_up_for_a_question():
    """Any argument of Node can be given over the usual ones."""
    node = TempNode("tmp", {"ncpus": 4}, vm_size="Standard_F8s", location="westus2", state="Ready")
    plain = TempNode(hostname="tmp", resources={}, bucket_id="b1")
    assert (node.vm_family, node.state, node.resources["ncpus"]) == (
        "standardFSFamily",
        "Ready",
        4,
    )
    assert (plain.bucket_id, plain.state, plain.exists) == ("b1", "running", True)


@row("computenode.module")
def test_the_old_name_of_the_module_warns():
    """And has the same class."""
    sys.modules.pop("hpc.autoscale.job.computenode", None)
    with pytest.warns(DeprecationWarning):
        old = importlib.import_module("hpc.autoscale.job.computenode")
    assert old.SchedulerNode is SchedulerNode
    assert old.SchedulerNode("ip-1").hostname == "ip-1"


class SlotQueue(NodeQueue):
    """As Grid Engine and PBS derive it."""

    def node_priority(self, node):
        return node.available.get("slots", node.available.get("ncpus", 0))

    def early_bailout(self, node):
        if node.available.get("slots", 0) > 0:
            return EarlyBailoutResult("success")
        return super().early_bailout(node) if node.closed else EarlyBailoutResult("full", node)


@row("nodequeue.NodeQueue")
def test_a_queue_with_an_order_of_its_own():
    """Highest priority first, equals by host name; once for each node; priorities anew only by
    update."""
    queue = SlotQueue()
    nodes = [
        a_planned_node(name=f"n{i}", hostname=f"ip-{i}", resources={"slots": slots})
        for i, slots in ((1, 2), (3, 8), (2, 8), (4, 0))
    ]
    for node in [*nodes, nodes[0]]:
        queue.push(node)
    before = names(queue)
    nodes[0].available["slots"] = 100
    unchanged = names(queue)
    queue.update()
    assert before == unchanged == ["n2", "n3", "n1", "n4"]
    assert names(queue) == ["n1", "n2", "n3", "n4"]
    assert names(queue.reversed()) == ["n4", "n3", "n2", "n1"]
    assert (len(queue), queue.empty(), NodeQueue().empty()) == (4, False, True)
    assert [queue.early_bailout(n).status for n in nodes] == ["success"] * 3 + ["full"]
    assert NodeQueue().early_bailout(nodes[0])


class PBSLikeDriver(SchedulerDriver):
    """A driver with a cache of its own under the name that the base class might use."""

    def __init__(self):
        super().__init__("pbspro")
        self.__jobs_cache = "mine"
        self.reads = 0

    def initialize(self): ...

    def preprocess_config(self, config):
        return {**config, "seen": True}

    def _read_jobs_and_nodes(self, config):
        self.reads += 1
        return [Job(str(self.reads), {"ncpus": 1})], [SchedulerNode("ip-1", {})]

    def handle_failed_nodes(self, nodes):
        return nodes

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        return nodes

    def handle_post_join_cluster(self, nodes):
        return nodes

    def handle_boot_timeout(self, nodes):
        return nodes

    def handle_draining(self, nodes):
        return nodes

    def handle_post_delete(self, nodes):
        return nodes

    @property
    def cache(self):
        return self.__jobs_cache


@row("driver.SchedulerDriver")
def test_what_a_driver_inherits(tmp_path):
    """A home, a cache of what was read, a queue, a history and a lock; its own names stay its
    own."""
    driver = PBSLikeDriver()
    once, twice = driver.read_jobs_and_nodes({}), driver.read_jobs_and_nodes({})
    forced = driver.read_jobs_and_nodes({}, force=True)
    history = driver.new_node_history({})
    lock = driver.new_singleton_lock({})
    lock.unlock()
    assert (driver.cache, driver.name, driver.autoscale_home) == ("mine", "pbspro", str(tmp_path))
    assert once is twice
    assert ([j.name for j in once[0]], [j.name for j in forced[0]]) == (["1"], ["2"])
    assert isinstance(history, SQLiteNodeHistory) and history.path.startswith(str(tmp_path))
    assert isinstance(lock, SingletonFileLock) and lock.lockpath.startswith(str(tmp_path))
    assert isinstance(driver.new_singleton_lock({"lock_file": None}), NullSingletonLock)
    assert isinstance(driver.new_node_queue({}), NodeQueue)
    assert driver.validate_nodes([], []) is None
    history.close()


@row("driver.SchedulerDriver")
def test_the_base_class_cannot_be_used_by_itself():
    """Its methods are for the integration to write."""
    with pytest.raises(TypeError):
        SchedulerDriver("x")


@row("driver.SchedulerDriver")
@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({}, ["Standard_F4_pg0", "Standard_F4_pg1"]),
        ({"generated_placement_group_buffer": 1}, ["Standard_F4_pg0"]),
        ({"generated_placement_group_buffer": 3, "max_placement_groups": 2}, 2),
        ({"generated_placement_group_buffer": 0}, []),
        ({"placement_groups": ["own"]}, ["own"]),
    ],
    ids=str,
)
def test_a_prepared_manager_has_spare_placement_groups(settings, groups):
    """Named `<vm size>_pg<n>`, as many as the nodearray's section says, and `ccnodeid` on every
    node."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    config = a_config(cluster, nodearrays={"htc": settings})
    node_mgr = a_manager(cluster, nodearrays={"htc": settings}, disable_default_resources=True)
    PBSLikeDriver().preprocess_node_mgr(config, node_mgr)
    found = node_mgr.get_placement_groups(node_mgr.get_buckets()[-1])
    assert (found if isinstance(groups, list) else len(found)) == groups
    (node,) = node_mgr.get_nodes()
    assert node.resources["ccnodeid"] == node.delayed_node_id.node_id


@row("driver.add_ccnodeid_default_resource")
def test_ccnodeid_reached_by_its_full_path():
    """As PBS does after `import hpc.autoscale.job.driver`; a new node gets its id with its
    creation."""
    node_mgr = a_manager(disable_default_resources=True)
    hpc.autoscale.job.driver.add_ccnodeid_default_resource(node_mgr)
    (node,) = node_mgr.allocate({"node.nodearray": "htc"}, node_count=1).nodes
    assert node.resources.get("ccnodeid") is None
    done = python(
        "import hpc.autoscale.job.driver as d; print(d.add_ccnodeid_default_resource.__name__)"
    )
    assert done.stdout.strip() == "add_ccnodeid_default_resource"
