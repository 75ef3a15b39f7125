"""No quadratic path in the node layer: twice the nodes or jobs take about twice the calls. Calls
are counted, not time."""

import sys

import pytest

from builders.hosts import no_name_service as no_name_service
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.autoscaler.learning import add_jobs
from hpc.autoscale.gangs.gathering import Gangs
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.regions import share_out

N = 150


def calls(action):
    """How many functions are called."""
    counted = 0

    def count(frame, event, argument):
        nonlocal counted
        if event in ("call", "c_call"):
            counted += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counted


def running(count):
    """A calculator over running nodes, with room for as many more."""
    cluster = an_htc_cluster(3 * count, max_count=10 * count)
    cluster.max_core_count = 10**6
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    return DemandCalculator({}, a_manager(cluster), NullNodeHistory())


def empty(count):
    """A calculator without nodes, with room for many."""
    cluster = an_htc_cluster(3 * count, max_count=10 * count)
    cluster.max_core_count = 10**6
    return DemandCalculator({}, a_manager(cluster), NullNodeHistory())


def jobs(count, **constraints):
    """Equal jobs."""
    return [Job(str(i), {"ncpus": 1, **constraints}) for i in range(count)]


def reading(count):
    """A manager of a cluster with nodes."""
    cluster = running(count).node_mgr.cluster_bindings
    return lambda: a_manager(cluster).get_nodes()


def joining(count):
    """The scheduler's report of all nodes."""
    calculator = running(count)
    hosts = [SchedulerNode(f"ip-{i}", {"ncpus": 4}) for i in range(1, count + 1)]
    return lambda: (calculator.update_scheduler_nodes(hosts), calculator.get_demand())


def machines(count):
    """Machines on premises that differ in their names, and work for them."""
    calculator = empty(count)
    hosts = [SchedulerNode(f"tux{i}", {"ncpus": 4, "host": f"tux{i}"}) for i in range(count)]
    work = jobs(4 * count)
    return lambda: (calculator.update_scheduler_nodes(hosts), calculator.add_jobs(work))


def small_jobs(count):
    """Jobs that fill nodes one after another."""
    calculator, work = running(count), jobs(6 * count)
    return lambda: (calculator.add_jobs(work), calculator.get_demand())


def jobs_with_nowhere_to_go(count):
    """Jobs for which every node is too full, and the quota used up."""
    cluster = an_htc_cluster(count)
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    calculator = DemandCalculator({}, a_manager(cluster), NullNodeHistory())
    calculator.add_jobs(jobs(4 * count))
    work = jobs(2 * count)
    return lambda: calculator.add_jobs(work)


def exclusive_jobs(count):
    """A node for each, existing ones first."""
    calculator, work = running(count), jobs(2 * count, exclusive=True)
    return lambda: calculator.add_jobs(work)


def one_large_request(count):
    """Many new nodes at once, named by the pattern."""
    manager = empty(count).node_mgr
    return lambda: manager.allocate({"exclusive": True}, node_count=2 * count).nodes


def named_by_a_hook(count):
    """Many new nodes, one after another, named by an integration."""
    calculator, work = empty(count), jobs(count, exclusive=True)
    calculator.node_mgr.set_node_name_hook(lambda bucket, index: f"n{index}")
    return lambda: calculator.add_jobs(work)


def booting_and_deleting(count):
    """All of them, by one command each."""
    calculator = empty(count)
    calculator.add_jobs(jobs(count, exclusive=True))

    def act():
        nodes = calculator.bootup().nodes
        calculator.delete(nodes)
        return calculator.get_demand()

    return act


def defaults_after_nodes(count):
    """A definition more for nodes that are there, planned ones too."""
    calculator = running(count)
    calculator.add_jobs(jobs(8 * count))
    calculator.node_mgr.add_unmanaged_nodes([UnmanagedNode(f"tux{i}") for i in range(count)])
    return lambda: calculator.node_mgr.add_default_resource({}, "gold", lambda node: 1)


def gangs_that_gather(count):
    """Where the nodes of gangs are, which all boot in one group, as regions have weights."""
    cluster, gangs = an_htc_cluster(3 * count, max_placement_group_size=3 * count), Gangs(None, 600)

    def new_manager():
        manager = a_manager(cluster)
        (bucket,) = manager.get_buckets()
        manager.add_placement_group("a", bucket)
        share_out({str(bucket.location): 1}, manager.get_buckets())
        return manager

    work = [Job(str(i), {"exclusive": True}, node_count=2, colocated=True) for i in range(count)]
    calculator = DemandCalculator({}, new_manager(), NullNodeHistory())
    add_jobs(calculator, work, len, gangs)
    assert len(calculator.bootup().nodes) == 2 * count
    manager = new_manager()
    assert len(gangs.at_home(work, manager)) == count
    return lambda: gangs.at_home(work, manager)


def gangs_that_lack_nodes(count):
    """Gangs of which no node has come, in a place where as many nodes have other work."""
    gangs = Gangs(None, 600)
    work = [Job(str(i), {"exclusive": True}, node_count=2, colocated=True) for i in range(count)]
    calculator = DemandCalculator({}, a_manager(an_htc_cluster(2 * count)), NullNodeHistory())
    add_jobs(calculator, work, len, gangs)
    cluster = an_htc_cluster(0)
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    calculator = DemandCalculator({}, a_manager(cluster), NullNodeHistory())
    for node in calculator.node_mgr.get_nodes():
        node.assign("other")

    def act():
        add_jobs(calculator, work, len, gangs)
        assert len(gangs.reasons) == count

    return act


@pytest.mark.parametrize(
    "scenario",
    [
        reading,
        joining,
        machines,
        small_jobs,
        jobs_with_nowhere_to_go,
        exclusive_jobs,
        one_large_request,
        named_by_a_hook,
        booting_and_deleting,
        defaults_after_nodes,
        gangs_that_gather,
        gangs_that_lack_nodes,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_twice_as_much_takes_about_twice_the_calls(scenario):
    """A quadratic path would take four times as many."""
    once, twice = calls(scenario(N)), calls(scenario(2 * N))
    assert twice < 2.6 * once, (once, twice)
