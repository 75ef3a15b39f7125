"""Which jobs are known to wait for the same without judging each of them."""

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale.autoscaler import Autoscaler, learning
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.explaining.waiting import verdict_on_waiting
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    get_constraints,
)
from hpc.autoscale.results import SatisfiedResult
from hpc.autoscale.testing import a_host, a_job

FULL = "CycleCloud has room for no more nodes of htc/Standard_F4 (at most 2)"


class Driver(GenericDriver):
    """Hands over jobs and hosts."""

    def __init__(self, jobs, hosts=()):
        super().__init__("alike")
        self.jobs, self.hosts = list(jobs), list(hosts)

    def _read_jobs_and_nodes(self, config):
        return self.jobs, self.hosts


@pytest.fixture
def judged(monkeypatch):
    """The names of the jobs that a pass judges."""
    found = []

    def judge(job, *rest, **more):
        found.append(job.name)
        return verdict_on_waiting(job, *rest, **more)

    monkeypatch.setattr(learning, "verdict_on_waiting", judge)
    return found


def lines(jobs, hosts=(), **config):
    """What a dry pass says of jobs, on a cluster of two nodes of four cores."""
    config = {"cluster_name": "alike", "_mock_bindings": an_htc_cluster(2), **config}
    summary = Autoscaler(config, Driver(jobs, hosts), dry_run=True).run_once()
    return [text for kind, text in summary.details() if kind == "waits"]


def filling():
    """Two jobs that take both nodes."""
    return [a_job(f"first-{n}", {"ncpus": 4}) for n in range(2)]


def crowd(**more):
    """Thirty jobs that all ask for something else, and none of which a new node would not take."""
    return [
        a_job(f"{n}", {"ncpus": 1 + n % 4, "memgb": 0.25 * (n % 30), **more}) for n in range(30)
    ]


@pytest.mark.parametrize("policy", ["declared", "cheapest", "least-waste"])
def test_jobs_that_a_limit_keeps_out_are_judged_once(judged, policy):
    """Whatever they ask for of a node, and in whichever order buckets are asked."""
    (line,) = lines([*filling(), *crowd()], packing={"policy": policy})
    assert line == f"30 jobs (0, 1, 2, …) wait: {FULL}"
    assert len(judged) == 1


@pytest.mark.parametrize("by_cost", [False, True])
def test_so_are_jobs_made_of_constraint_objects(judged, by_cost):
    """Each has its own, and under least cost nothing is kept from placing them."""
    jobs = [Job(job.name, get_constraints(job.to_dict()["constraints"])) for job in crowd()]
    packing = {"packing": {"objective": "cost"}} if by_cost else {}
    (line,) = lines([*filling(), *jobs], **packing)
    assert line == f"30 jobs (0, 1, 2, …) wait: {FULL}"
    assert len(judged) == 1


def test_jobs_beside_machines_that_cannot_be_ordered(judged):
    """A host on premises that is in use is not what they wait for."""
    busy = a_host("rack-1", "17", ncpus=4, free={"ncpus": 0})
    (line,) = lines([*filling(), *crowd()], [busy])
    assert line == f"30 jobs (0, 1, 2, …) wait: {FULL}"
    assert len(judged) == 1


def test_gangs_of_one_size_are_judged_once(judged):
    """Those of another size need more of the limit."""
    gangs = [a_job(f"gang-{n}", {"ncpus": 1, "memgb": n / 10}, nodes=2 + n % 2) for n in range(20)]
    told = lines([*filling(), *gangs])
    assert [line.partition(" (")[0] for line in told] == ["10 jobs", "10 jobs"]
    assert len(judged) == 2


def test_jobs_that_lack_licences_are_judged_once_for_each_number(judged):
    """What else they ask for does not matter while there are none."""
    pool = SharedConsumableResource("licences", "server", 9, 1)
    jobs = [
        Job(f"{n}", [{"ncpus": 1 + n % 4}, SharedConsumableConstraint(pool, 2 + n % 2)])
        for n in range(20)
    ]
    told = lines(jobs)
    says = "10 jobs ({}, …) wait: the job needs {} of licences, and 1 of them is left"
    assert told == [says.format("0, 2, 4", 2), says.format("1, 3, 5", 3)]
    assert len(judged) == 2


class Anywhere(BaseNodeConstraint):
    """A constraint of an integration, of which the engine knows nothing."""

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node)

    def to_dict(self):
        return {"anywhere": True}

    def __str__(self):
        return "Anywhere()"


def test_so_are_those_with_a_constraint_that_nobody_understands(judged):
    """Pools come before it; what fits nowhere is judged by itself."""
    pool = SharedConsumableResource("licences", "server", 9, 1)
    draws = SharedConsumableConstraint(pool, 2)
    jobs = [Job(f"{n}", [{"ncpus": 1 + n % 4}, Anywhere(), draws]) for n in range(9)]
    large = Job("large", [{"ncpus": 999}, Anywhere(), draws])
    waits, never = lines([*jobs, large])
    assert waits.endswith("wait: the job needs 2 of licences, and 1 of them is left")
    assert never.startswith("1 job (large) can never run: the job needs 999 ncpus on one node")
    assert len(judged) == 2


def test_jobs_that_ask_for_just_the_same_are_judged_once(judged):
    """Also where nobody understands one of their constraints: by their JSON."""
    jobs = [Job(f"{n}", [{"ncpus": 1 + n % 2}, Anywhere()]) for n in range(20)]
    (line,) = lines([*filling(), *jobs])
    assert line == f"20 jobs (0, 2, 4, …) wait: {FULL}"
    assert len(judged) == 2


def test_jobs_that_are_too_large_are_judged_one_by_one(judged):
    """What they lack has figures of their own: eight groups are judged."""
    jobs = [a_job(f"{n}", {"ncpus": 5 + n}) for n in range(20)]
    assert lines(jobs)[-1].startswith("12 jobs (8, 9, 10, …) wait or can never run: 12 other")
    assert len(judged) == 8


def test_a_job_whose_conditions_exclude_each_other_waits_for_no_limit():
    """A new node meets each of its conditions, and never both."""
    jobs = [*filling(), a_job("waits", {"ncpus": 3}), a_job("never", [{"ncpus": 3}, {"ncpus": 2}])]
    assert lines(jobs) == [
        f"1 job (waits) waits: {FULL}",
        "1 job (never) can never run: the job needs 5 ncpus on one node, and the largest has 4",
    ]
