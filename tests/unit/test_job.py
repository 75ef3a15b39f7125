"""The published `Job`."""

import gc
import io
import json
import pickle
import re
from array import array

import pytest

from builders.constraints import Tokens
from builders.nodes import a_bucket, a_manager, an_htc_cluster, names
from hpc.autoscale import util
from hpc.autoscale.errors import AutoscaleError, ConstraintError
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.node.constraints import (
    And,
    ExclusiveNode,
    MinResourcePerNode,
    get_constraint,
    get_constraints,
    register_parser,
)
from hpc.autoscale.testing import a_cluster, a_config

# -- what it is


def test_what_it_is_without_further_words():
    """One slot, packed, for whoever wants it."""
    job = Job("a")
    assert (job.name, job.iterations, job.iterations_remaining, job.node_count) == ("a", 1, 1, 0)
    assert (job.colocated, job.packing_strategy, job.executing_hostnames) == (False, "pack", [])
    assert (job.metadata, job._constraints) == ({}, [])


@pytest.mark.parametrize("name", [None, ""])
def test_a_job_without_a_name_gets_the_next_number(name):
    """Of this process."""
    first, second = Job(name), Job(name)
    assert int(second.name) == int(first.name) + 1


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({}, PackingStrategy.PACK),
        ({"node_count": 2}, PackingStrategy.SCATTER),
        ({"node_count": 2, "packing_strategy": "pack"}, PackingStrategy.PACK),
        ({"packing_strategy": "scatter"}, PackingStrategy.SCATTER),
    ],
)
def test_strategies(given, strategy):
    """Nodes are scattered, slots are packed, unless told otherwise."""
    assert Job("a", {}, **given).packing_strategy == strategy
    assert PackingStrategy.is_valid(strategy)


@pytest.mark.parametrize(
    "given",
    [
        {"name": 7},
        {"iterations": "2"},
        {"iterations": 1.5},
        {"node_count": None},
        {"colocated": "yes"},
        {"packing_strategy": "spread"},
        {"executing_hostnames": "ip-1"},
    ],
)
def test_arguments_of_a_wrong_kind(given):
    """An assertion that says which, and what was found."""
    (value,) = given.values()
    with pytest.raises(AssertionError, match=str(value)):
        Job(**{"name": "a", **given})


def test_the_strategy_can_be_changed():
    """To one that there is."""
    job = Job("a")
    job.packing_strategy = "scatter"
    with pytest.raises(AssertionError):
        job.packing_strategy = "x"
    assert job.packing_strategy == "scatter"
    assert not PackingStrategy.is_valid("x")


def test_settable_and_not():
    """What is left and where it runs can be written; what it is cannot."""
    job = Job("a")
    job.iterations_remaining = 3
    job.executing_hostnames = ["ip-1"]
    job.metadata["job_state"] = "running"
    assert (job.iterations_remaining, job.executing_hostnames) == (3, ["ip-1"])
    for name in ("name", "iterations", "node_count", "colocated"):
        with pytest.raises(AttributeError):
            setattr(job, name, 1)


def test_hosts_are_added_to_the_job_that_runs_there():
    """Whatever the list was made from, and without touching those of other jobs or of a dict made
    before."""
    first, second, told = Job("a"), Job("b"), Job("c", executing_hostnames=("ip-9",))
    before = first.to_dict()
    first.executing_hostnames.append("ip-1")
    told.executing_hostnames.append("ip-1")
    assert (first.executing_hostnames, second.executing_hostnames) == (["ip-1"], [])
    assert told.executing_hostnames == ["ip-9", "ip-1"]
    assert (before["executing-hostnames"], first.to_dict()["executing-hostnames"]) == ([], ["ip-1"])
    first.executing_hostnames = None
    assert first.executing_hostnames == []


# -- constraints


@pytest.mark.parametrize(
    "given",
    [
        {"ncpus": 2, "exclusive": True},
        [{"ncpus": 2, "exclusive": True}],
        ({"ncpus": 2, "exclusive": True},),
        And({"ncpus": 2}, {"exclusive": True}),
    ],
)
def test_constraints_come_in_many_forms(given):
    """All mean the same."""
    assert Job("a", given)._constraints == [get_constraint({"ncpus": 2, "exclusive": True})]


def test_a_constraint_that_cannot_be_understood():
    """Is refused when the job is made, with its path."""
    with pytest.raises(ConstraintError, match=r"or\[1\]\.a"):
        Job("a", {"or": [{"ncpus": 1}, {"a": {}}]})


def test_every_constraint_knows_whose_it_is():
    """At any depth, and those that are added later."""
    job = Job("a", {"or": [{"exclusive": True}, {"ncpus": 1, "exclusive-task": True}]})
    job.add_constraint({"not": {"exclusive": True}})
    found = []

    def collect(constraints):
        for constraint in constraints:
            if isinstance(constraint, ExclusiveNode):
                found.append(constraint.assignment_id)
            collect(constraint.get_children())

    collect(job._constraints)
    assert found == ["a"] * 3


def test_added_constraints_count():
    """Whether they were added as JSON or as objects, or written into the list."""
    manager = a_manager()
    job = Job("a", {"ncpus": 1}, iterations=4)
    job.add_constraint({"exclusive": True})
    job.add_constraint(MinResourcePerNode("ncpus", 1))
    job._constraints.extend(get_constraints([{"node.nodearray": "htc"}]))
    assert len(job.do_allocate(manager).nodes) == 2
    assert len(job._constraints) == 4


def test_jobs_that_say_the_same_share_what_was_understood():
    """But not their constraint objects."""
    one, other = (Job(n, {"ncpus": 1, "exclusive": True}) for n in "ab")
    assert one.compiled_constraints() is not None
    third = Job("c", {"ncpus": 1, "exclusive": True})
    assert other.compiled_constraints() is third.compiled_constraints()
    assert one._constraints[0] is not other._constraints[0]


def test_numbers_of_different_kinds_are_not_the_same():
    """`true` is not 1."""
    manager = a_manager(an_htc_cluster(resources={"flag": True}))
    assert Job("a", {"flag": True}).do_allocate(manager)
    assert not Job("b", {"flag": 2}).do_allocate(manager)
    assert Job("c", {"flag": True}).do_allocate(manager)


def test_objects_inside_json_are_not_confused():
    """What one job understood by an object is not used for another one at the same address."""
    manager = a_manager(an_htc_cluster(100))
    for cores in range(1, 5):
        job = Job(str(cores), {"and": [MinResourcePerNode("ncpus", cores)]})
        (node,) = job.do_allocate(manager, allow_existing=True).nodes
        assert node.available["ncpus"] == 4 - cores
        node.closed = True
        del job, node
        gc.collect()


def test_a_parser_that_is_registered_later_counts():
    """For jobs that say what others said before."""
    manager = a_manager()
    assert not Job("a", {"mine": 1}).do_allocate(manager)
    register_parser("mine", lambda d: get_constraint({"ncpus": d["mine"]}))
    assert Job("b", {"mine": 1}).do_allocate(manager)


# -- placing


def test_slots():
    """What is placed goes off what remains."""
    manager = a_manager(an_htc_cluster(2))
    job = Job("a", {"ncpus": 1}, iterations=10)
    result = job.do_allocate(manager)
    assert (names(result.nodes), result.total_slots, job.iterations_remaining) == (
        ["htc-1", "htc-2"],
        8,
        2,
    )
    assert all(node.assignments == {"a"} for node in result.nodes)
    assert not job.do_allocate(manager)
    assert (job.iterations, job.iterations_remaining) == (10, 2)


def test_nodes():
    """One iteration on each; what remains of the iterations is not touched."""
    manager = a_manager()
    job = Job("a", {"ncpus": 1}, node_count=3)
    assert (len(job.do_allocate(manager).nodes), job.iterations_remaining) == (3, 1)


def test_nothing_left():
    """Is a failure that says so."""
    job = Job("a", {"ncpus": 1}, iterations=0)
    result = job.do_allocate(a_manager())
    assert (result.status, "nothing left" in result.reasons[0]) == ("NothingRequested", True)


def test_scattered_slots():
    """One on each node (W80)."""
    job = Job("a", {"ncpus": 1}, iterations=3, packing_strategy="scatter")
    result = job.do_allocate(a_manager())
    assert (len(result.nodes), result.total_slots, job.iterations_remaining) == (3, 3, 0)


def test_colocated_means_all_or_nothing_in_one_bucket():
    """Which is not said again."""
    cluster = an_htc_cluster(3)
    cluster.add_bucket("htc", "Standard_F8", 3, 3)
    job = Job("a", {"exclusive": True}, node_count=4, colocated=True)
    assert not job.do_allocate(a_manager(cluster))
    assert (
        len(Job("b", {"exclusive": True}, node_count=4).do_allocate(a_manager(cluster)).nodes) == 4
    )


@pytest.mark.parametrize("constraints", [{"ncpus": 1}, [Tokens()], {"node.name": "*"}])
def test_new_nodes_only(constraints):
    """Nodes that exist are passed over."""
    cluster = an_htc_cluster(resources={"tokens": 1})
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    manager = a_manager(cluster)
    result = Job("a", constraints).do_allocate(manager, allow_existing=False)
    assert names(result.nodes) == ["htc-2"]


def test_all_or_nothing_can_be_asked_for():
    """Then a part is not enough."""
    job = Job("a", {"ncpus": 1}, iterations=9)
    assert not job.do_allocate(a_manager(an_htc_cluster(2)), all_or_nothing=True)
    assert job.iterations_remaining == 9


def test_candidates():
    """Which buckets may serve, best first."""
    buckets = [a_bucket(nodearray=n) for n in "ab"]
    job = Job("a", {"node.nodearray": ["b", "a"]})
    assert job.bucket_candidates(buckets).candidates == buckets[::-1]


# -- the JSON form


def test_to_dict():
    """The published keys; equal jobs have equal dicts."""
    job = Job("a", {"ncpus": 1, "mem": "memory::4g"}, iterations=3, executing_hostnames=["x"])
    job.iterations_remaining = 2
    d = job.to_dict()
    assert sorted(d) == sorted(
        [
            "name",
            "constraints",
            "iterations",
            "iterations-remaining",
            "node-count",
            "colocated",
            "packing-strategy",
            "executing-hostnames",
            "metadata",
        ]
    )
    assert d["constraints"] == [{"ncpus": 1, "mem": Memory(4, "g")}]
    assert Job("a", {"ncpus": 1}).to_dict() == Job("a", [{"ncpus": 1}]).to_dict()


def test_nothing_is_shared_with_the_job():
    """Writing into the dict changes no job."""
    job = Job("a")
    job.metadata["x"] = {"y": 1}
    d = job.to_dict()
    d["metadata"]["x"]["y"] = 2
    again = Job.from_dict(d)
    d["metadata"]["x"]["y"] = 3
    assert (job.metadata, again.metadata) == ({"x": {"y": 1}}, {"x": {"y": 2}})


def test_round_trip():
    """Through JSON and back, everything is there."""
    job = Job(
        "a",
        {"or": [{"mem": "memory::4g"}, {"node.vm_size": ["x", "y"]}], "exclusive": True},
        iterations=5,
        node_count=2,
        colocated=True,
        packing_strategy="pack",
        executing_hostnames=["ip-1"],
    )
    job.iterations_remaining = 3
    job.metadata["job_state"] = "running"
    text = io.StringIO()
    util.json_dump(job.to_dict(), text)
    d = json.loads(text.getvalue())
    again = Job.from_dict(d)
    assert again.to_dict() == job.to_dict()
    assert (again.iterations_remaining, again.colocated, again.node_count) == (3, True, 2)


def test_from_dict_defaults():
    """A missing node count is 1, as published; name and constraints must be there."""
    job = Job.from_dict({"name": "a", "constraints": []})
    assert (job.node_count, job.iterations, job.iterations_remaining) == (1, 1, 1)
    assert (job.colocated, job.metadata, job.packing_strategy) == (False, {}, "scatter")
    with pytest.raises(AutoscaleError, match="metadata to be Mapping or None, found"):
        Job.from_dict({"name": "a", "constraints": [], "metadata": "m"})
    for missing in ({"name": "a"}, {"constraints": []}):
        with pytest.raises(KeyError):
            Job.from_dict(missing)


def test_text():
    """A line for the log: its name and how much it wants, and nothing of what it wants it to be."""
    job = Job("a", [{f"resource{i}": i} for i in range(50)], iterations=3)
    assert str(job) == repr(job)
    assert str(job) == (
        "Job(name=a, iterations=3, node_count=0, colocated=False, packing_strategy=pack)"
    )
    assert "node_count=2, colocated=True" in str(Job("b", node_count=2, colocated=True))


def test_a_job_of_another_process_is_spread_as_it_was():
    """Texts are other objects there."""
    job = Job("a", {"ncpus": 1}, iterations=3, packing_strategy="scatter")
    assert pickle.loads(pickle.dumps(job)).remaining == job.remaining


@pytest.mark.parametrize("left", [float("nan"), 2.5, "2", None])
def test_iterations_that_remain_are_a_whole_number(left):
    """Anything else would be placed without end, or in part."""
    job = Job("a", {"ncpus": 1}, iterations=3)
    job.iterations_remaining = left
    with pytest.raises(AssertionError, match="job a: expected iterations_remaining to be int"):
        new_demand_calculator(a_config(a_cluster(htc={"Standard_F4s_v2": 2}))).add_job(job)


def test_numbers_of_numpy_are_what_they_are():
    """Its floats are Python's, and what is none of those is named as it was given, not by its
    bytes."""
    numpy = pytest.importorskip("numpy")
    job = Job("7", {"ncpus": numpy.float64(2.0)})
    assert job.to_dict()["constraints"] == Job("7", {"ncpus": 2.0}).to_dict()["constraints"]
    for given in (numpy.int64(2), numpy.array([2]), array("d", [2.0]), bytearray(b"2")):
        with pytest.raises(ConstraintError, match=re.escape(f"found {given!r}")):
            Job("7", {"ncpus": given})
