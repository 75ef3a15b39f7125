"""Capacity that failed of late is a reason to ask Azure for no more of it, and none to leave idle
what is there."""

import pytest

from builders.fake_scheduler import idle_cluster, now, run, scheduler
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes.info import configure
from hpc.autoscale.results import SatisfiedResult

__all__ = ["now", "run", "scheduler"]  # fixtures

BACKOFF = {"capacity-failure-backoff": 300}


class Opaque(BaseNodeConstraint):
    """A constraint of somebody else's that every node meets."""

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node)

    def to_dict(self):
        return {"opaque": True}

    def __str__(self):
        return "opaque"


def tired(states=("Ready",), other=None, since=10.0):
    """A cluster of four-core nodes, of which one for each state is there, and whose capacity failed
    just now."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.nodearrays["htc"].buckets[0].last_capacity_failure = since
    for number, state in enumerate(states, 1):
        cluster.add_node(f"htc-{number}", "htc", state=state, hostname=f"host-{number}")
    if other:
        cluster.add_nodearray("other", {})
        cluster.add_bucket("other", other, 10, 10)
    return cluster


def placed(manager, constraints, slots=1, **more):
    """The names of the nodes that slots went on, and how many went there."""
    result = manager.allocate(constraints, slot_count=slots, assignment_id="job", **more)
    return [node.name for node in result.nodes], result.total_slots


WANTED = [
    {"ncpus": 1, **BACKOFF},
    [{"ncpus": 1}, BACKOFF],
    {"and": [{"ncpus": 1}, BACKOFF]},
    {"and": [{"and": [BACKOFF, {"ncpus": 1}]}, {"node.spot": False}]},
    [{"ncpus": 1}, BACKOFF, Opaque()],
    [{"ncpus": 1}, BACKOFF, {"node.name": "*"}],
    [
        {"ncpus": 1},
        BACKOFF,
        SharedConsumableConstraint([SharedConsumableResource("lic", "q", 99, 99)], 1),
    ],
]
AS = ["dict", "list", "and", "nested", "custom", "personal", "pool"]


@pytest.mark.parametrize("wanted", WANTED, ids=AS)
@pytest.mark.parametrize("order", ["existing-first", "declared"])
def test_nodes_that_are_there_are_used_and_no_others_opened(wanted, order):
    """However it is said, and whichever way buckets are asked."""
    manager = a_manager(tired(), packing={"order": order})
    assert placed(manager, wanted, 3) == (["htc-1"], 3)
    assert placed(manager, wanted, 3) == (["htc-1"], 1)
    refused = manager.allocate(wanted, slot_count=1)
    assert not refused
    assert "CapacityFailureBackoff" in refused.message
    assert manager.new_nodes == []


@pytest.mark.parametrize("wanted", WANTED, ids=AS)
def test_what_is_left_over_goes_to_new_nodes_elsewhere(wanted):
    """And with enough time gone by, to new nodes here."""
    manager = a_manager(tired(other="Standard_F8"))
    assert placed(manager, wanted, 8) == (["htc-1", "other-1"], 8)
    assert placed(a_manager(tired(since=301.0)), wanted, 8) == (["htc-1", "htc-2"], 8)


def test_a_declared_bucket_that_rests_is_asked_for_its_node_first():
    """Bucket by bucket, its idle node comes before a new one of the bucket after it."""
    manager = a_manager(tired(other="Standard_F8"), packing={"order": "declared"})
    assert placed(manager, {"ncpus": 1, **BACKOFF}) == (["htc-1"], 1)


def test_nobody_has_to_rest_without_being_told():
    """Other jobs open nodes as ever, and a job that backs off may share them."""
    manager = a_manager(tired(states=()))
    assert placed(manager, {"ncpus": 1, **BACKOFF}) == ([], -1)
    assert placed(manager, {"ncpus": 1}) == (["htc-1"], 1)
    assert placed(manager, {"ncpus": 1, **BACKOFF}, 9) == (["htc-1"], 3)


@pytest.mark.parametrize(
    ("states", "status"), [((), "NoCandidatesFound"), (("Ready",), "NoAllocationSelected")]
)
def test_what_a_refusal_is_called(states, status):
    """A bucket without nodes that rests is no candidate; one with nodes is, even where these are
    full."""
    manager = a_manager(tired(states))
    manager.allocate({"ncpus": 4}, node_count=len(states))
    refused = manager.allocate({"ncpus": 1, **BACKOFF}, slot_count=1)
    assert refused.status == status
    assert sum("10 s ago, and must rest for 300 s" in reason for reason in refused.reasons) == 1


def test_a_deallocated_node_needs_capacity_too():
    """It is started for jobs that do not back off, and not for those that do."""
    cluster = tired(("Deallocated",), other="Standard_F8")
    assert placed(a_manager(cluster), {"ncpus": 1}) == (["htc-1"], 1)
    assert placed(a_manager(cluster), {"ncpus": 1, **BACKOFF}) == (["other-1"], 1)


@pytest.mark.parametrize(("nodes", "found"), [(2, ["htc-1", "htc-2"]), (3, [])])
def test_gangs(nodes, found):
    """All on nodes that are there, or nowhere."""
    manager = a_manager(tired(("Ready", "Ready")))
    job = Job("gang", {"ncpus": 4, **BACKOFF}, node_count=nodes, colocated=True)
    assert [node.name for node in job.do_allocate(manager).nodes] == found


@pytest.mark.parametrize("wanted", [{"not": BACKOFF}, {"xor": [BACKOFF, {"ncpus": 1}]}])
def test_what_denies_it_is_no_way_round(wanted):
    """Neither a negation nor an exception to it opens a node where capacity failed."""
    assert placed(a_manager(tired(states=())), wanted) == ([], -1)


def test_an_alternative_is_one():
    """Where the job says itself on what terms new nodes are worth trying."""
    manager = a_manager(tired(states=()))
    assert placed(manager, {"ncpus": 1, "or": [BACKOFF, {"node.vm_size": "*F4s"}]}) == (
        ["htc-1"],
        1,
    )
    assert placed(manager, {"ncpus": 5, "or": [BACKOFF, {"node.vm_size": "*E*"}]}) == ([], -1)


def test_the_least_cost():
    """Nodes that run cost nothing and take what they can; the cheap size that rests is not
    opened."""
    cluster = tired(other="Standard_F8s")
    prices = {"westus2": {"Standard_F4s": 0.01, "Standard_F8s": 1.0}}
    config = {"packing": {"objective": "cost"}, "vm_sizes": {"prices": prices}}
    try:
        demand = new_demand_calculator(
            {"_mock_bindings": cluster, "lock_file": None, **config}, node_history=NullNodeHistory()
        )
        demand.add_jobs([Job(f"j{i}", {"ncpus": 1, **BACKOFF}) for i in range(10)])
        found = demand.get_demand()
    finally:
        configure({})
    assert [node.vm_size for node in found.new_nodes] == ["Standard_F8s"]
    on = {node.name: len(node.assignments) for node in found.matched_nodes}
    assert on == {"htc-1": 4, "other-1": 6}


@pytest.fixture
def cluster():
    """Ten nodes of four cores."""
    return an_htc_cluster(vm_size="Standard_F4s")


def test_the_loop_gives_the_idle_node_the_job(run, scheduler, cluster, now):
    """Instead of draining it and deleting it while the job waits; nothing new is asked for."""
    idle_cluster(cluster, run, now, count=2)
    cluster.nodearrays["htc"].buckets[0].last_capacity_failure = 10.0
    scheduler.jobs = [Job("waits", {"ncpus": 4, **BACKOFF}, iterations=3)]
    summary = run()
    assert (summary.deleted, summary.created, len(summary.unsatisfied)) == ((), (), 1)
    assert {node.target_state for node in cluster.nodes.values()} == {"Started"}
