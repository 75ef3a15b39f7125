"""Queues that the workloads of the benchmarks do not have: their work grows no faster than they do
either."""

import pytest

from builders.growth import Work, is_near_linear
from builders.nodes import an_htc_cluster
from hpc.autoscale.job import job as jobs_module
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import NullNodeHistory

# counting costs enough by itself; other tests run the same lines
pytestmark = pytest.mark.no_cover

PER_NODE = 4


def jobs(count, constraints, **more):
    """So many jobs; `constraints` may be a function of the number of the job."""
    asked = constraints if callable(constraints) else lambda number: constraints
    return [Job(f"job-{i}", asked(i), **more) for i in range(count)]


def pinned(count):
    """Each to one of the nodes that run, by name, the last node first."""
    last = count // PER_NODE
    return jobs(count, lambda i: {"node.name": f"htc-{last - i // PER_NODE}", "ncpus": 1})


def pinned_to_nobody(count):
    """Each to a host that is not there."""
    return jobs(count, lambda i: {"node.hostname": f"gone-{i}", "ncpus": 1})


def pinned_by_resource(count):
    """Each to one of the machines on premises, by a resource that names it, the last machine
    first."""
    last = count // PER_NODE - 1
    return jobs(count, lambda i: {"host": f"prem-{last - i // PER_NODE}", "ncpus": 1})


def scattered(count):
    """One slot on each of three nodes."""
    return jobs(count, {"ncpus": 1}, iterations=3, packing_strategy="scatter")


def of_nodes(count):
    """Two nodes each, wherever they are."""
    return jobs(count, {"ncpus": 1}, node_count=2)


def exclusive(count):
    """A node each."""
    return jobs(count, {"ncpus": 1, "exclusive": True})


def arrays(count):
    """Of more tasks than one node takes."""
    return jobs(count, lambda i: {"ncpus": 1 + i % 3}, iterations=11)


def gangs_without_room(count):
    """More nodes than any group may have."""
    return jobs(count, {"ncpus": 1}, node_count=10**6, colocated=True)


def one_of_two(count):
    """A refusal is not final: what is too little for one of them may be what makes it exactly
    one."""
    small = {"node.vm_size": "Standard_F4"}
    return jobs(count, lambda i: {"xor": [{"ncpus": 1 + i % 3}, small]})


def alternatives_beside(count):
    """Alternatives that use up what stands beside them."""
    return jobs(count, lambda i: [{"or": [{"ncpus": 3}, {"memgb": 2 + i % 3}]}, {"ncpus": 1}])


QUEUES = [
    pinned,
    pinned_to_nobody,
    pinned_by_resource,
    scattered,
    of_nodes,
    exclusive,
    arrays,
    gangs_without_room,
    one_of_two,
    alternatives_beside,
]


def one_pass(queue, size):
    """What a pass over so many jobs takes, with a node running for every four of them, or as many
    machines on premises."""
    cluster = an_htc_cluster(10 * size)
    cluster.add_bucket("htc", "Standard_F8", 10, 10, placement_groups=["a", "b", "c"])
    for i in range(size // PER_NODE):
        cluster.add_node(f"htc-{i + 1}", "htc", "Standard_F4", state="Ready", hostname=f"ip-{i}")
    on_premises = size // PER_NODE if queue is pinned_by_resource else 0
    hosts = [
        SchedulerNode(f"prem-{i}", {"ncpus": 4, "host": f"prem-{i}"}) for i in range(on_premises)
    ]
    jobs_module._of_text.cache_clear()
    work = Work()
    config = {"_mock_bindings": cluster}
    calculator = new_demand_calculator(config, hosts, node_history=NullNodeHistory())
    with work.counted():
        calculator.add_jobs(queue(size))
        calculator.get_demand()
    return work.total


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.__name__)
def test_work_grows_no_faster_than_the_queue(queue):
    """With the nodes growing beside it."""
    one_pass(queue, 20)  # what is done once in a process is not in the figures
    assert is_near_linear([one_pass(queue, size) for size in (80, 160, 320)])
