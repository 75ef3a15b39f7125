"""What registered handlers are told of demands."""

from collections import Counter

import pytest

from builders.constraints import Tokens
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale import results
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource
from hpc.autoscale.node.node import UnmanagedNode


@pytest.fixture
def told():
    """All results that are made."""
    seen = []
    results.register_result_handler(seen.append)
    return seen


def calculator(count=2, running=1):
    """A calculator over nodes of four cores."""
    cluster = an_htc_cluster(count, resources={"tokens": 4})
    cluster.add_bucket("htc", "Standard_F8", 0, 0)
    for i in range(1, running + 1):
        cluster.add_node(f"htc-{i}", "htc", "Standard_F4", state="Ready", hostname=f"ip-{i}")
    return DemandCalculator({}, a_manager(cluster))


def kinds(told):
    """How many results of each kind and outcome."""
    return Counter((type(r).__name__, bool(r)) for r in told)


@pytest.mark.parametrize("constraints", [{"ncpus": 1}, [Tokens()], {"node.name": "htc-1"}])
def test_a_job_that_is_placed(told, constraints):
    """One result for the candidates, one for the node used, one for the job; no refusals."""
    calculator().add_job(Job("job", constraints))
    assert kinds(told) == {
        ("CandidatesResult", True): 1,
        ("MatchResult", True): 1,
        ("AllocationResult", True): 1,
    }
    assert [type(r).__name__ for r in told] == [
        "CandidatesResult",
        "MatchResult",
        "AllocationResult",
    ]
    match = told[1]
    assert (match.node.name, match.total_slots) == ("htc-1", 1)
    assert told[2].nodes == [match.node]


def test_a_match_for_each_node(told):
    """With the slots that went there."""
    calculator().add_job(Job("job", {"ncpus": 1}, iterations=6))
    matches = [r for r in told if isinstance(r, results.MatchResult)]
    assert [(m.node.name, m.total_slots) for m in matches] == [("htc-1", 4), ("htc-2", 2)]


@pytest.mark.parametrize("constraints", [{"ncpus": 1}, [Tokens()]])
def test_a_job_that_is_partly_placed(told, constraints):
    """What kept the rest out is told as well."""
    job = Job("job", constraints, iterations=99)
    calculator().add_job(job)
    counted = kinds(told)
    assert counted["CandidatesResult", True] == counted["AllocationResult", True] == 1
    assert counted["SatisfiedResult", False] >= 1
    assert counted["SatisfiedResult", True] == 0
    assert job.iterations_remaining == 91


@pytest.mark.parametrize(
    ("constraints", "status"),
    [
        ({"ncpus": 100}, "InsufficientResource"),
        ({"nope": 1}, "UndefinedResource"),
        ({"node.vm_size": "x"}, "InvalidOption"),
        ([Tokens(), {"ncpus": 100}], "InsufficientResource"),
    ],
)
@pytest.mark.parametrize("how", [{"iterations": 3}, {"node_count": 3}])
def test_a_job_without_candidates(told, constraints, status, how):
    """One failed result for the candidates, and one refusal for each bucket."""
    calculator().add_job(Job("job", constraints, **how))
    assert kinds(told) == {
        ("SatisfiedResult", False): 2,
        ("CandidatesResult", False): 1,
        ("AllocationResult", False): 1,
    }
    refusals = [r for r in told if isinstance(r, results.SatisfiedResult)]
    assert {r.status for r in refusals} == {status}
    candidates = next(r for r in told if isinstance(r, results.CandidatesResult))
    assert (candidates.status, candidates.child_results) == ("CompoundFailure", refusals)
    assert all(status in reason for reason in candidates.reasons)


def test_a_scattered_job_that_is_not_placed(told):
    """One result for the job, which says that it is a compound failure, of its iterations."""
    calculator().add_job(Job("job", {"exclusive": True}, node_count=9))
    (allocation,) = [r for r in told if isinstance(r, results.AllocationResult)]
    assert (allocation.status, allocation.total_slots) == ("CompoundFailure", 1)
    assert allocation.reasons
    assert not [r for r in told if isinstance(r, results.MatchResult)]


@pytest.mark.parametrize(("machine", "buckets"), [(SchedulerNode, 2), (UnmanagedNode, 1)])
def test_machines_that_do_not_serve(told, machine, buckets):
    """Refuse as a bucket does: one of each that they are in, and one more result for each demand
    that asks again."""
    manager = a_manager(MockClusterBinding())
    alike = [machine(f"tux{i}", {"ncpus": 2}) for i in range(3)]
    manager.add_unmanaged_nodes([*alike, machine("big", {"ncpus": 4, "os": "x"})])
    for _ in range(2):
        told.clear()
        result = manager.allocate({"ncpus": 5}, slot_count=1)
        assert kinds(told) == {
            ("SatisfiedResult", False): buckets,
            ("CandidatesResult", False): 1,
            ("AllocationResult", False): 1,
        }
        assert (result.status, len(result.reasons)) == ("NoCandidatesFound", buckets)
    assert manager.allocate({"ncpus": 4}, slot_count=1)
    assert manager.allocate({"ncpus": 4}, slot_count=1).status == "NoAllocationSelected"
    manager.get_nodes()[0].available["ncpus"] = manager.get_nodes()[0]._resources["ncpus"] = 5
    assert manager.allocate({"ncpus": 5}, slot_count=2).status == "success"
    assert manager.allocate({"ncpus": 5}, slot_count=1).status == "NoAllocationSelected"


def test_a_pool_that_is_empty(told):
    """Says so once; no bucket is a candidate."""
    pool = SharedConsumableResource("lic", "q", 2, 0)
    calculator().add_job(Job("job", [{"ncpus": 1}, SharedConsumableConstraint([pool], 1)]))
    assert [(type(r).__name__, r.status) for r in told] == [
        ("SatisfiedResult", "SharedLimitReached"),
        ("CandidatesResult", "CompoundFailure"),
        ("AllocationResult", "Failed"),
    ]


def test_no_buckets_at_all(told):
    """That is a reason of its own."""
    cluster = an_htc_cluster()
    cluster.nodearrays.clear()
    a_manager(cluster).allocate({"ncpus": 1}, slot_count=1)
    assert [(type(r).__name__, r.status) for r in told] == [
        ("CandidatesResult", "NoBucketsDefined"),
        ("AllocationResult", "NoCandidatesFound"),
    ]


def test_contexts_reach_the_nodes():
    """The standard handler notes its context on the nodes of each result."""
    handler = results.register_result_handler(results.DefaultContextHandler("[job 1]"))
    demand = calculator()
    demand.add_job(Job("1", {"ncpus": 1}))
    handler.set_context("[job 2]")
    demand.add_job(Job("2", {"ncpus": 1}))
    (node,) = [n for n in demand.node_mgr.get_nodes() if n.assignments]
    assert node.metadata["contexts"] == {"[job 1]", "[job 2]"}
    assert [len(handler.by_context[c]) for c in ("[job 1]", "[job 2]")] == [3, 3]
