"""The published `DemandCalculator`: jobs, joining the scheduler's nodes, the demand, idle and boot
policy, acting."""

import warnings

import pytest

from builders.calculators import a_calculator, running, shown
from builders.constraints import Tokens
from builders.nodes import a_manager, an_htc_cluster, names
from hpc.autoscale.errors import MultipleInstancesError
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.nodehistory import NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.testing import a_config


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Default files fall into a directory of the test's own, and no name is looked up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)


class Clock(SQLiteNodeHistory):
    """A history whose time the test sets."""

    time = 10_000.0

    def now(self):
        return self.time


# -- jobs and demand


def test_demand():
    """New nodes are among the matched; failed ones are apart."""
    cluster = running(3)
    cluster.update_state("Failed", ["htc-3"])
    calculator = a_calculator(cluster)
    assert shown(calculator.get_demand()) == ([], [], ["htc-1", "htc-2"], ["htc-3"])
    calculator.add_job(Job("a", {"ncpus": 4}))
    calculator.add_jobs([Job(n, {"ncpus": 4}) for n in "bc"])
    demand = calculator.finish()
    assert shown(demand) == (["htc-4"], ["htc-1", "htc-2", "htc-4"], [], ["htc-3"])
    assert demand.buckets == calculator.node_mgr.get_buckets()
    assert len(calculator.get_compute_nodes()) == 4


def test_reasons_that_are_read_once_there_is_room_say_so():
    """They are worked out when somebody reads them."""
    calculator = a_calculator(an_htc_cluster(0))
    calculator.node_mgr.add_unmanaged_nodes([tux := UnmanagedNode("tux", {"ncpus": 4})])
    _, late = calculator.place([Job("first", {"ncpus": 4}), Job("late", {"ncpus": 4})])
    tux.available["ncpus"] = 4
    assert late.reasons == ["there is room for it by now"]


@pytest.mark.parametrize("name", [True, None, 5, ("gres", "gpu")])
def test_a_host_with_a_name_of_a_resource_that_is_no_text(name):
    """As YAML makes one of `on`: jobs say what they lack as ever."""
    calculator = a_calculator(an_htc_cluster(0))
    calculator.update_scheduler_nodes([SchedulerNode("tux", {name: 1, "licence": 1})])
    (outcome,) = calculator.place([Job("1", {"licences": 1})])
    assert "has no resource 'licences'; did you mean 'licence'?" in " ".join(outcome.reasons)


def test_jobs_go_in_order():
    """Many at once are placed as one after another would be."""

    def mixed():
        return [Job(str(i), {"ncpus": 1 + i % 4}) for i in range(20)]

    one, many = a_calculator(running(0)), a_calculator(running(0))
    for job in mixed():
        one.add_job(job)
    many.add_jobs(mixed())
    assert [n.assignments for n in one.node_mgr.get_nodes()] == [
        n.assignments for n in many.node_mgr.get_nodes()
    ]


def test_what_adding_returns():
    """Nothing; the result is for tests."""
    calculator = a_calculator()
    assert calculator.add_job(Job("a", {"ncpus": 1})) is None
    assert calculator.add_jobs([]) is None
    assert calculator._add_job(Job("b", {"ncpus": 1})).status == "success"


def test_scattered_jobs_are_all_or_nothing():
    """By nodes and by slots (W80)."""
    calculator = a_calculator(running(0, available=3))
    result = calculator._add_job(Job("a", {"exclusive": True}, node_count=4))
    assert (result.status, bool(result.reasons)) == ("CompoundFailure", True)
    assert len(calculator._add_job(Job("b", {"exclusive": True}, node_count=3)).nodes) == 3
    scattered = Job("c", {"ncpus": 1}, iterations=2, packing_strategy="scatter")
    refused = calculator._add_job(scattered)
    assert (refused.status, scattered.iterations_remaining) == ("CompoundFailure", 2)


@pytest.mark.parametrize(("iterations", "node_count"), [(1, 50), (7, 50), (7, 0)])
def test_a_scattered_job_that_failed_names_its_iterations(iterations, node_count):
    """Whether it asks for nodes or for slots, as published."""
    job = Job("s", {"ncpus": 1}, iterations, node_count, packing_strategy="scatter")
    result = a_calculator(running(0, available=3))._add_job(job)
    assert (result.status, result.total_slots) == ("CompoundFailure", iterations)


def test_packed_jobs_take_what_there_is():
    """A part is a success; the job knows what remains. None is a failure."""
    calculator = a_calculator(running(0, available=2))
    job = Job("a", {"ncpus": 1}, iterations=10)
    assert calculator._add_job(job)
    assert job.iterations_remaining == 2
    assert calculator._add_job(job).status == "Failed"
    whole = Job("b", {"ncpus": 1}, iterations=10, colocated=True)
    assert calculator._add_job(whole).status == "Failed"


def test_the_queue_orders_the_demand():
    """By an integration's own priority, as it is when asked."""

    class FewestFirst(NodeQueue):
        def node_priority(self, node):
            return -node.available["ncpus"]

    cluster = running(3)
    calculator = DemandCalculator({}, a_manager(cluster), node_queue=FewestFirst())
    assert names(calculator.get_demand().unmatched_nodes) == ["htc-1", "htc-2", "htc-3"]
    calculator.node_mgr.get_nodes()[2].available["ncpus"] = 1
    assert names(calculator.get_demand().unmatched_nodes) == ["htc-3", "htc-1", "htc-2"]


# -- history and policy


def test_idle_nodes():
    """Without work for longer than that; a function may say how long for each node."""
    history = Clock("history.db")
    calculator = a_calculator(running(3), history)
    calculator.node_mgr.get_nodes()[2].assign("job")
    calculator.update_history()
    history.time += 400
    assert names(calculator.find_unmatched_for(at_least=300)) == ["htc-1", "htc-2"]
    assert calculator.find_unmatched_for(at_least=500) == []
    assert calculator.find_unmatched_for(at_least=400) == []
    each = calculator.find_unmatched_for(at_least=lambda n: 500 if n.name == "htc-1" else 300)
    assert names(each) == ["htc-2"]
    history.time += 200
    assert len(calculator.find_unmatched_for()) == 2


def test_minus_one_means_whoever():
    """However short it was."""
    calculator = a_calculator(running(2), Clock("history.db"))
    calculator.update_history()
    assert names(calculator.find_unmatched_for(at_least=-1)) == ["htc-1", "htc-2"]


def test_an_empty_list_is_not_nothing_given():
    """W45."""
    calculator = a_calculator(running(2), NullNodeHistory())
    calculator.update_history()
    assert calculator.find_unmatched_for(at_least=-1, unmatched_nodes=[]) == []
    assert calculator.find_booting(at_least=-1, booting_nodes=[]) == []
    only = calculator.node_mgr.get_nodes()[1:]
    assert calculator.find_unmatched_for(at_least=-1, unmatched_nodes=only) == only


def test_a_node_that_nobody_has_seen_is_not_idle():
    """Unknown is not long ago."""
    calculator = a_calculator(running(2), Clock("history.db"))
    assert calculator.find_unmatched_for(at_least=-1) == []
    assert calculator.find_booting(at_least=-1) == []


def test_booting_nodes():
    """That should run and never were ready, for longer than that; failed ones too."""
    history = Clock("history.db")
    cluster = running(4, state="Preparing")
    cluster.update_state("Ready", ["htc-1"])
    cluster.update_state("Failed", ["htc-2"])
    cluster.update_state("Started", ["htc-3"])
    calculator = a_calculator(cluster, history)
    calculator.update_history()
    history.time += 2000
    assert names(calculator.find_booting(at_least=1800)) == ["htc-2", "htc-4"]
    assert names(calculator.find_booting()) == ["htc-2", "htc-4"]
    assert calculator.find_booting(at_least=3000) == []
    picky = calculator.find_booting(at_least=lambda n: 3000 if n.state == "Failed" else 100)
    assert names(picky) == ["htc-4"]


def test_a_node_that_was_ready_once_does_not_boot():
    """However it looks now."""
    history = Clock("history.db")
    cluster = running(1)
    a_calculator(cluster, history).update_history()
    cluster.update_state("Preparing")
    calculator = a_calculator(cluster, history)
    history.time += 9999
    calculator.update_history()
    assert calculator.find_booting(at_least=0) == []


def test_remaining_times_are_those_of_the_configuration():
    """Known as soon as there is a calculator (W41)."""
    history = Clock("history.db")
    config = {"idle_timeout": 1000, "boot_timeout": 5000}
    cluster = running(1)
    cluster.add_node("htc-2", "htc", state="Preparing", hostname="ip-2")
    a_calculator(cluster, history).update_history()
    history.time += 100
    calculator = DemandCalculator(config, a_manager(cluster), history)
    ready, booting = calculator.node_mgr.get_nodes()
    assert (ready.idle_time_remaining, booting.create_time_remaining) == (900, 4900)


# -- acting


def test_bootup():
    """All new nodes, or those given; none is a success without an operation."""
    calculator = a_calculator(running(0))
    for nodes in (None, []):
        result = calculator.bootup(nodes)
        assert (bool(result), result.operation_id, result.nodes) == (True, "", None)
    calculator.add_job(Job("a", {"ncpus": 4}, iterations=3))
    assert names(calculator.bootup(calculator.get_demand().new_nodes[:1]).nodes) == ["htc-1"]
    assert names(calculator.bootup().nodes) == ["htc-2", "htc-3"]
    assert calculator.get_demand().new_nodes == []


def test_delete():
    """All unmatched nodes, or those given. What is gone is in no demand any more."""
    calculator = a_calculator(running(3), Clock("history.db"))
    result = calculator.delete([])
    assert (bool(result), result.operation_id, result.nodes) == (True, "", None)
    calculator.add_job(Job("a", {"ncpus": 4}))
    calculator.update_history()
    assert names(calculator.delete().nodes) == ["htc-2", "htc-3"]
    assert shown(calculator.get_demand()) == ([], ["htc-1"], [], [])
    assert calculator.find_unmatched_for(at_least=-1) == []
    assert calculator.delete().nodes is None


@pytest.mark.parametrize("order", ["existing-first", "declared"])
def test_a_node_that_fails_later_is_in_one_list(order):
    """That of failed nodes."""
    calculator = a_calculator(running(2), packing={"order": order})
    calculator.get_demand()
    calculator.node_mgr.get_nodes()[0].state = "Failed"
    assert shown(calculator.get_demand()) == ([], [], ["htc-2"], ["htc-1"])


def test_two_calculators_over_one_manager():
    """What was planned before a calculator was made is in its demand."""
    first = a_calculator(running(0))
    first.node_mgr.allocate({"exclusive": True}, node_count=1)
    second = DemandCalculator({}, first.node_mgr)
    assert shown(first.get_demand()) == (["htc-1"], [], [], [])
    assert shown(second.get_demand()) == (["htc-1"], ["htc-1"], [], [])


def test_nobody_looks_at_nodes_that_are_only_noted():
    """Nodes that the manager was asked for are made when somebody looks at them."""
    manager = a_calculator(running(0)).node_mgr
    manager.allocate({"ncpus": 4}, slot_count=10)
    assert manager.get_buckets()[0]._nodes.made() == []


def test_adding_jobs_one_by_one_asks_priorities_once():
    """Also where packing goes bucket by bucket, and priorities are those of the last job."""

    class Counting(NodeQueue):
        asked = 0

        def node_priority(self, node):
            self.asked += 1
            return super().node_priority(node)

    queue = Counting()
    manager = a_manager(running(5), packing={"order": "declared"})
    calculator = DemandCalculator({}, manager, node_queue=queue)
    for number in range(20):
        calculator.add_job(Job(str(number), {"ncpus": 1}))
    calculator.get_demand()
    calculator.get_demand()
    assert queue.asked == 10


def test_planned_nodes_that_were_not_made_are_in_no_demand():
    """Their jobs must be placed again."""
    cluster = running(0, available=5)
    calculator = a_calculator(cluster)
    calculator.add_job(Job("a", {"ncpus": 4}, iterations=4))
    calculator.get_demand()
    (slot,) = cluster._capacity.slots.values()
    slot.bucket.available_count = 1
    assert names(calculator.bootup().nodes) == ["htc-1"]
    assert shown(calculator.get_demand()) == ([], ["htc-1"], [], [])


# -- the factory


def test_a_calculator_of_a_configuration(tmp_path):
    """Defaults are defined, nodes joined, the history kept in the working directory."""
    config = a_config(running(1))
    calculator = new_demand_calculator(config, existing_nodes=[SchedulerNode("tux", {"ncpus": 3})])
    assert names(calculator.node_mgr.get_nodes()) == ["htc-1", "tux"]
    assert calculator.config["cluster_name"] == "clusty"
    assert isinstance(calculator.node_history, SQLiteNodeHistory)
    assert (tmp_path / "nodehistory.db").exists()
    assert not (tmp_path / "scalelib.lock").exists()
    assert calculator.node_mgr.get_nodes()[0].resources["memgb"] == Memory(8, "g")


@pytest.mark.parametrize("own_manager", [True, False])
@pytest.mark.parametrize(
    ("argument", "flag", "defined"),
    [(False, False, True), (True, False, False), (False, True, True), (True, True, False)],
)
def test_system_defaults_can_be_disabled(own_manager, argument, flag, defined):
    """By the argument; what the configuration says is for the manager alone."""
    cluster = running(1)
    config = a_config(cluster, disable_default_resources=flag)
    manager = a_manager(cluster, disable_default_resources=True) if own_manager else None
    calculator = new_demand_calculator(
        config, node_mgr=manager, node_history=NullNodeHistory(), disable_default_resources=argument
    )
    assert ("ncpus" in calculator.node_mgr.get_nodes()[0].resources) is defined


@pytest.mark.parametrize("own_manager", [True, False])
def test_definitions_of_the_configuration_come_first_where_it_asks_for_that(own_manager):
    """What they leave out is the system's, once there is a calculator."""
    cores = {"select": {}, "name": "ncpus", "value": 1}
    config = a_config(running(1), disable_default_resources=True, default_resources=[cores])
    manager = new_node_manager(config) if own_manager else None
    calculator = new_demand_calculator(config, node_mgr=manager, node_history=NullNodeHistory())
    (node,) = calculator.node_mgr.get_nodes()
    assert (node.resources["ncpus"], node.resources["pcpus"]) == (1, 4)


def test_a_lock_of_none_takes_the_one_of_the_configuration(tmp_path):
    """Which another process, or calculator, may hold."""
    config = {**a_config(running(1)), "lock_file": str(tmp_path / "lock")}
    history = NullNodeHistory()
    first = new_demand_calculator(config, node_history=history, singleton_lock=None)
    with pytest.raises(MultipleInstancesError):
        new_demand_calculator(config, node_history=history, singleton_lock=None)
    assert first.node_mgr is not None


def test_taking_the_lock_of_the_configuration_warns_nobody(tmp_path):
    """What is deprecated is for others to call."""
    config = {**a_config(running(1)), "lock_file": str(tmp_path / "lock")}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        new_demand_calculator(config, node_history=NullNodeHistory(), singleton_lock=None)
    assert (tmp_path / "lock").exists()


def test_constructing_one_locks_nothing(tmp_path):
    """W51: also without a lock."""
    DemandCalculator({}, a_manager(), NullNodeHistory(), singleton_lock=None)
    assert list(tmp_path.iterdir()) == []


def test_custom_constraints_and_machines_together():
    """The whole way: a constraint of somebody else's, on a machine, a running and a new node."""
    calculator = a_calculator(running(1, resources={"tokens": 2}))
    calculator.node_mgr.add_unmanaged_nodes([UnmanagedNode("tux", {"tokens": 1, "ncpus": 4})])
    calculator.add_job(Job("a", [Tokens(), {"ncpus": 1}], iterations=4))
    assert [(n.name, n.available["tokens"]) for n in calculator.get_demand().matched_nodes] != []
    left = {n.name: n.available["tokens"] for n in calculator.node_mgr.get_nodes()}
    assert left == {"htc-1": 0, "htc-2": 1, "tux": 0}
