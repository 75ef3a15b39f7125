"""Kinds of jobs: what a driver makes of them, and what a pass makes of that."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hpc.autoscale.autoscaler import PassSummary
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.node import Node
from hpc.autoscale.results import SatisfiedResult

RunPass = Callable[..., PassSummary]


def test_an_array_is_one_job(run_pass: RunPass) -> None:
    """Ten tasks of a core each fill three nodes of four."""
    summary = run_pass(Job("array", {"node.nodearray": "htc", "ncpus": 1}, iterations=10))
    assert summary.created == ("htc-1", "htc-2", "htc-3")


def test_an_array_of_which_few_may_run(run_pass: RunPass) -> None:
    """Of a hundred tasks that wait, five may run at once, and three do."""
    waiting, at_once, running = 100, 5, 3
    tasks = max(0, min(waiting, at_once - running))  # a limit may be lowered below what runs
    summary = run_pass(Job("array", {"node.nodearray": "htc", "ncpus": 4}, iterations=tasks))
    assert summary.created == ("htc-1", "htc-2")


def test_a_gang_gets_all_its_nodes_or_none(run_pass: RunPass) -> None:
    """One task on each node, all at the same time."""
    needs = {"node.nodearray": "htc", "ncpus": 1}
    summary = run_pass(Job("eleven", needs, node_count=11), Job("three", needs, node_count=3))
    assert summary.created == ("htc-1", "htc-2", "htc-3")
    (short,) = summary.unsatisfied
    assert (short.name, short.missing, short.unit) == ("eleven", 11, "nodes")


def test_tasks_that_start_together_get_all_their_nodes_or_none(run_pass: RunPass) -> None:
    """Thirty cores on as many nodes as that takes; fifty do not fit, and nothing is made for
    them."""
    needs = {"node.nodearray": "htc", "ncpus": 1}
    jobs = (Job(f"mpi-{tasks}", needs, tasks, colocated=True) for tasks in (50, 30))
    summary = run_pass(*jobs)
    assert len(summary.created) == 8
    (short,) = summary.unsatisfied
    assert (short.name, short.missing, short.unit) == ("mpi-50", 50, "slots")


def test_a_colocated_gang_is_in_one_placement_group(
    run_pass: RunPass, cluster: MockClusterBinding
) -> None:
    """It has room for all of it; another gang gets another group, and five nodes fit in none."""
    needs = {"ncpus": 120, "in-a-placement-group": True}
    summary = run_pass(
        Job("mpi-1", needs, node_count=3, colocated=True),
        Job("mpi-2", needs, node_count=3, colocated=True),
        Job("mpi-3", needs, node_count=5, colocated=True),
    )
    groups = [cluster.nodes[name].placement_group for name in summary.created]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [3, 3]
    assert None not in groups
    (short,) = summary.unsatisfied
    assert short.name == "mpi-3"


def test_a_job_whose_parts_differ(run_pass: RunPass) -> None:
    """The parts have one name; each is placed by itself, and one waits without the other."""

    def parts(name: str) -> list[Job]:
        head = Job(name, {"node.nodearray": "htc", "ncpus": 4})
        return [head, Job(name, {"node.nodearray": "hpc", "ncpus": 120}, node_count=9)]

    summary = run_pass(*build_jobs(["17"], parts))
    assert summary.created == ("htc-1",)
    (short,) = summary.unsatisfied
    assert (short.name, short.missing, short.unit) == ("17", 9, "nodes")


class Apart(BaseNodeConstraint):
    """On no node that another part of a job has."""

    def __init__(self, job: str) -> None:
        self.job = job

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        if self.job in node.assignments:
            return SatisfiedResult("SameJob", self, node, [f"{node.name} has a part of {self.job}"])
        return SatisfiedResult("success", self, node)

    def to_dict(self) -> dict[str, Any]:
        return {"apart": self.job}

    def __str__(self) -> str:
        return f"Apart({self.job})"


@pytest.mark.parametrize(
    ("apart", "nodes"), [((), ("htc-1",)), ((Apart("17"),), ("htc-1", "htc-2"))]
)
def test_parts_that_share_no_node(
    run_pass: RunPass, apart: tuple[Apart, ...], nodes: tuple[str, ...]
) -> None:
    """One node has room for both, but they may be told to stay apart."""
    needs = [{"node.nodearray": "htc", "ncpus": 1}, *apart]
    assert run_pass(*(Job("17", needs, node_count=1) for _ in range(2))).created == nodes


def test_jobs_that_share_licences(run_pass: RunPass) -> None:
    """Of eight licences running jobs hold five: of two jobs that need two, one gets a node."""
    licences = SharedConsumableResource("licences", "licence server", 8, 8 - 5)

    def job(name: str) -> Job:
        needs = {"node.nodearray": "htc", "ncpus": 4}
        return Job(name, [needs, SharedConsumableConstraint(licences, 2)])

    summary = run_pass(job("solve-1"), job("solve-2"))
    assert summary.created == ("htc-1",)
    (short,) = summary.unsatisfied
    assert short.name == "solve-2"
    assert "licences" in short.reason


def test_an_array_that_takes_its_licences_once(run_pass: RunPass) -> None:
    """Two of three licences, for all of its tasks."""
    licences = SharedConsumableResource("licences", "licence server", 3, 3)
    needs = {"node.nodearray": "htc", "ncpus": 1}
    summary = run_pass(
        Job("array", [needs, SharedConsumableConstraint(licences, 2, decrement_once=True)], 8)
    )
    assert summary.created == ("htc-1", "htc-2")
    assert licences.current_value == 1


def test_a_queue_that_has_a_limit(run_pass: RunPass) -> None:
    """Its jobs may use eight cores, and two run: six more get nodes, and other queues go on."""
    limit = SharedConsumableResource("cores", "queue night", 8, 8 - 2)
    needs = {"node.nodearray": "htc", "ncpus": 1}
    night = Job("night", [needs, SharedConsumableConstraint(limit, 1)], iterations=20)
    day = Job("day", needs, iterations=6)
    summary = run_pass(night, day)
    assert summary.created == ("htc-1", "htc-2", "htc-3")
    (short,) = summary.unsatisfied
    assert (short.name, short.missing) == ("night", 14)


def test_a_held_job_waits_and_says_why(run_pass: RunPass) -> None:
    """It gets no node, and the reason is there for all who ask."""
    summary = run_pass(Job("held", [{"ncpus": 1}, {"never": "held by its owner"}]))
    assert not summary.created
    (short,) = summary.unsatisfied
    assert "held by its owner" in short.reason


def as_job(entry: Mapping[str, Any]) -> Job:
    """A job as the queue of this test has it."""
    return Job(entry["name"], entry["needs"], iterations=entry["tasks"])


def test_a_bad_job_stops_no_other(run_pass: RunPass) -> None:
    """The others get their nodes, and the summary says what is wrong with it."""
    needs = {"node.nodearray": "htc", "ncpus": 4}
    queue: list[Any] = [
        {"name": "bad", "needs": {"ncpus": {"a": 1}}, "tasks": 1},
        {"name": "worse", "needs": needs, "tasks": "many"},
        {"name": "negative", "needs": needs, "tasks": -4},
        "no job at all",
        {"name": "good", "needs": needs, "tasks": 1},
    ]
    summary = run_pass(*build_jobs(queue, as_job, name=lambda entry: str(entry["name"])))
    assert summary.created == ("htc-1",)
    reasons = {job.name: job.reason for job in summary.set_aside}
    assert "ncpus: expected a number" in reasons["bad"]
    assert reasons["worse"] == "expected iterations to be int, found 'many'"
    assert reasons["negative"] == "iterations: expected 0 or more, found -4"
    assert list(reasons) == ["bad", "worse", "negative", "entry 4"]


class NeedsTheMoon(BaseNodeConstraint):
    """A constraint that cannot be asked."""

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        raise OSError("the moon does not answer")

    def to_dict(self) -> dict[str, Any]:
        return {"needs-the-moon": True}

    def __str__(self) -> str:
        return "NeedsTheMoon"


def test_a_constraint_that_fails_stops_no_other_job(run_pass: RunPass) -> None:
    """Its job is set aside."""
    good = Job("good", {"node.nodearray": "htc", "ncpus": 4})
    summary = run_pass(Job("odd", [{"ncpus": 1}, NeedsTheMoon()]), good)
    assert summary.created == ("htc-1",)
    (aside,) = summary.set_aside
    assert (aside.name, aside.reason) == ("odd", "the moon does not answer")
