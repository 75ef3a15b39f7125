"""The checker of plans: nothing to say about plans that the library makes, and every planted
mistake is found."""

import copy
import json
import subprocess
import sys

import pytest

import check_plan
import clusters
import workloads
from check_constraints import Site, Unjudged, choices
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory

SMALL = {
    "W1": {"n": 60},
    "W2": {"n": 120},
    "W2u": {"n": 60},
    "W3": {"n": 12},
    "W4": {"n": 20, "iters": 30, "nodes": 60},
    "W5": {"n": 150},
    "W6": {"n": 40, "nodes": 20},
    "W6b": {"n": 40, "nodes": 40},
    "big": {"n": 200, "nodes": 60},
    "drain": {"n": 120, "quota": 64},
    "full300": {"n": 60, "arrays": 10},
    "or10": {"n": 60, "nodes": 20},
}


def planned(workload):
    """The plan that the library makes."""
    binding = clusters.mock_cluster(workload)
    calculator = new_demand_calculator({"_mock_bindings": binding}, node_history=NullNodeHistory())
    clusters.write_free_amounts(calculator.node_mgr.get_nodes(), workload)
    jobs = clusters.make_jobs(workload)
    calculator.add_jobs(jobs)
    return clusters.plan_of(calculator, jobs)


def found(workload, plan):
    """What the checker says, in one text."""
    return "\n".join(check_plan.violations(workload, plan))


@pytest.mark.parametrize("name", SMALL)
def test_plans_of_the_library_pass(name):
    """Whatever the workload."""
    workload = workloads.make(name, **SMALL[name])
    assert check_plan.violations(workload, planned(workload)) == []


def test_every_workload_is_checked_here():
    """None of the benchmark's is left out."""
    assert SMALL.keys() == workloads.MAKERS.keys()


# -- a small cluster by hand: two sizes, one node that exists, plans as they should be


def a_bucket(size, vcpus, gib, **more):
    """A bucket."""
    made = {"nodearray": "htc", "vm_size": size, "location": "here", "family": f"family{size}"}
    amounts = {"vcpus": vcpus, "mem_gb": gib, "gpus": 0, "price": 1.0}
    return {**made, **amounts, "max_count": 9, "pgs": [], "pg_size": 9, "spot": False, **more}


def a_node(name, size, cpus, assigned, group=None, exists=False, gib=None):
    """A node of a plan with so many cores left."""
    left = {"ncpus": cpus, "memgb": {"S": 8, "L": 16}[size] if gib is None else gib, "ngpus": 0}
    return {
        "name": name,
        "nodearray": "htc",
        "vm_size": size,
        "placement_group": group,
        "exists": exists,
        "available": left,
        "assignments": assigned,
    }


def a_workload(*jobs, nodes=(), **more):
    """Size S has 4 cores, L has 8 and two placement groups of three nodes at most."""
    buckets = [a_bucket("S", 4, 8), a_bucket("L", 8, 16, pgs=["a", "b"], pg_size=3)]
    return {"buckets": buckets, "nodes": list(nodes), "jobs": list(jobs), **more}


def a_plan(*nodes, **remaining):
    """A plan of these nodes; those that do not exist are new."""
    new = [node["name"] for node in nodes if not node["exists"]]
    return {"nodes": list(nodes), "new": new, "remaining": remaining}


def a_job(name, cores, *also, **more):
    """A job."""
    return workloads.job(name, cores, also=also, **more)


PAIR = a_workload(a_job("x", 2), a_job("y", 2))
RIGHT = a_plan(a_node("n1", "S", 0, ["x", "y"]), x=0, y=0)

THERE = {"name": "n1", "bucket": 0, "free": {"ncpus": 3, "memgb": 8.0, "ngpus": 0}}
ARRAYS = a_workload(a_job("x", 1, iterations=5), a_job("y", 1, iterations=4), nodes=[THERE])
ARRAYS_RIGHT = a_plan(
    a_node("n1", "S", 0, ["x", "y"], exists=True),
    a_node("n2", "S", 0, ["x", "y"]),
    a_node("n3", "S", 2, ["y"]),
    x=0,
    y=0,
)

GANG = a_workload(
    a_job("g", 5, {"exclusive": True}, {"in-a-placement-group": True}, node_count=3, colocated=True)
)
GANG_RIGHT = a_plan(*(a_node(f"n{i}", "L", 3, ["g"], "a") for i in range(3)), g=1)

CHOICE = a_workload(a_job("x", 1, {"or": [{"memgb": 10}, {"memgb": 2, "ncpus": 1}]}))
CHOICE_RIGHT = a_plan(a_node("n1", "S", 2, ["x"], gib=6), x=0)


@pytest.mark.parametrize(
    ("workload", "plan"),
    [(PAIR, RIGHT), (ARRAYS, ARRAYS_RIGHT), (GANG, GANG_RIGHT), (CHOICE, CHOICE_RIGHT)],
    ids=["pair", "arrays", "gang", "choice"],
)
def test_right_plans_pass(workload, plan):
    """Nothing is wrong with them; what follows plants one mistake each."""
    assert check_plan.violations(workload, plan) == []


def spoiled(plan, **more):
    """A copy to plant a mistake in."""
    return copy.deepcopy({**plan, **more})


def test_overfilled_node_is_found():
    """More on a node than it has, whether it says so or hides it."""
    workload = a_workload(a_job("x", 3), a_job("y", 3))
    assert "has -2 ncpus left" in found(
        workload, a_plan(a_node("n1", "S", -2, ["x", "y"]), x=0, y=0)
    )
    hidden = a_plan(a_node("n1", "S", 0, ["x", "y"]), x=0, y=0)
    assert "take 6 of ncpus, and 4 are gone" in found(workload, hidden)


def test_slot_placed_twice_is_found():
    """One slot on two nodes."""
    plan = a_plan(a_node("n1", "S", 0, ["x", "y"]), a_node("n2", "S", 2, ["x"]), x=0, y=0)
    assert "x: 1 of 1 are said to be placed, on 2 nodes" in found(PAIR, plan)


def test_lost_slot_is_found():
    """A job that is done and nowhere, and one that is somewhere and not done."""
    lost = a_plan(a_node("n1", "S", 2, ["x"]), x=0, y=0)
    assert "y: 1 of 1 are said to be placed, on 0 nodes" in found(PAIR, lost)
    undone = a_plan(a_node("n1", "S", 0, ["x", "y"]), x=0, y=1)
    assert "y: 0 of 1 are said to be placed, on 1 nodes" in found(PAIR, undone)


def test_miscounted_array_is_found():
    """There is no way to spread the iterations so that the nodes have left what they say."""
    plan = spoiled(ARRAYS_RIGHT)
    plan["nodes"][2]["available"]["ncpus"] = 1
    assert "no number of iterations" in found(ARRAYS, plan)
    plan = spoiled(ARRAYS_RIGHT, remaining={"x": 1, "y": 0})
    assert "no number of iterations" in found(ARRAYS, plan)


def test_too_many_nodes_are_found():
    """Of a bucket, of a quota of each kind, and of a placement group."""
    jobs = [a_job(f"j{i}", 4, {"node.vm_size": "S"}) for i in range(10)]
    nodes = [a_node(f"n{i}", "S", 0, [f"j{i}"]) for i in range(10)]
    plan = a_plan(*nodes, **{job["name"]: 0 for job in jobs})
    assert found(a_workload(*jobs), plan) == "bucket 0: 10 of 9"
    for section, limit in (
        ({"cluster_cores": 39}, "cluster cores"),
        ({"location_cores": {"here": 39}}, "cores in here"),
        ({"family_cores": {"familyS": 39}}, "cores of familyS"),
    ):
        workload = a_workload(*jobs, quotas=section)
        workload["buckets"][0]["max_count"] = 10
        assert found(workload, plan) == f"{limit}: 40 of 39"
    crowd = a_workload(a_job("g", 8, node_count=4, colocated=True))
    assert "group 1 a: 4 of 3" in found(
        crowd, a_plan(*(a_node(f"n{i}", "L", 0, ["g"], "a") for i in range(4)), g=1)
    )


def test_limit_exceeded_from_the_start_is_nobodys_fault():
    """Nodes that were there are not planned."""
    workload = a_workload(nodes=[{**THERE, "name": f"n{i}"} for i in range(3)])
    workload["buckets"][0]["max_count"] = 2
    plan = a_plan(*(a_node(f"n{i}", "S", 3, [], exists=True) for i in range(3)))
    assert check_plan.violations(workload, plan) == []
    workload["jobs"] = [a_job("x", 4, {"node.vm_size": "S"})]
    plan = a_plan(*plan["nodes"], a_node("n9", "S", 0, ["x"]), x=0)
    assert "bucket 0: 4 of 2" in found(workload, plan)


def test_split_gang_is_found():
    """In two groups, in two sizes, and not whole."""
    plan = spoiled(GANG_RIGHT)
    plan["nodes"][0]["placement_group"] = "b"
    assert "g: is in 2 placement groups" in found(GANG, plan)
    plan = spoiled(GANG_RIGHT)
    plan["nodes"].pop()
    plan["new"].pop()
    assert "g: 2 of 3, and not whole" in found(GANG, plan)


def test_shared_exclusive_node_is_found():
    """Somebody else on a node that a job keeps to itself."""
    workload = copy.deepcopy(GANG)
    workload["jobs"].append(a_job("x", 1))
    plan = spoiled(GANG_RIGHT, remaining={"g": 1, "x": 0})
    plan["nodes"][1]["assignments"] = ["g", "x"]
    plan["nodes"][1]["available"]["ncpus"] = 2
    assert "g: not alone on n1, but with x" in found(workload, plan)


@pytest.mark.parametrize(
    "constraint",
    [
        {"not": {"node.vm_size": "S"}},
        {"node.vm_size": ["L", "M"]},
        {"xor": [{"node.vm_size": "S"}, {"node.nodearray": "h*"}]},
        {"or": [{"node.vm_size": "L"}, {"ncpus": 8}]},
        {"in-a-placement-group": True},
        {"node.exists": True},
        {"licence": "x"},
        {"licence": 1},
        {"never": "ever"},
        {"not": {"ncpus": 1}},
        {"memgb": "memory::9g"},
    ],
    ids=str,
)
def test_broken_constraint_is_found(constraint):
    """Of every kind."""
    workload = a_workload(a_job("x", 2, constraint))
    plan = a_plan(a_node("n1", "S", 2, ["x"]), x=0)
    assert "x: n1 does not meet its constraints" in found(workload, plan)


def test_unknown_condition_is_not_taken_for_one_that_holds():
    """What cannot be judged is a violation."""
    workload = a_workload(a_job("x", 2, {"node.colour": "red"}))
    assert "cannot be judged" in found(workload, a_plan(a_node("n1", "S", 2, ["x"]), x=0))
    site = Site({}, {}, {}, {})
    with pytest.raises(Unjudged, match="no exclusive"):
        choices([{"not": {"exclusive": True}}], site)


def test_wrong_alternative_is_found():
    """What only a later alternative takes is gone, and an earlier one would have fitted."""
    workload = a_workload(a_job("x", 1, {"or": [{"memgb": 5}, {"memgb": 2, "ncpus": 1}]}))
    plan = a_plan(a_node("n1", "S", 2, ["x"], gib=6), x=0)
    assert "came first" in found(workload, plan)
    assert check_plan.violations(workload, a_plan(a_node("n1", "S", 3, ["x"], gib=3), x=0)) == []


def test_work_left_out_is_found():
    """Room on a node that is there, a node that could be opened, and a gang that would fit."""
    workload = a_workload(a_job("x", 2), nodes=[THERE])
    plan = a_plan(a_node("n1", "S", 3, [], exists=True), x=1)
    assert "x: not placed, and n1 has room for it" in found(workload, plan)
    assert "x: not placed, and a S could be opened" in found(a_workload(a_job("x", 2)), a_plan(x=1))
    assert "g: not placed, and 3 of it would fit in a of L" in found(GANG, a_plan(g=1))
    part = a_workload(a_job("x", 4, {"node.vm_size": "S"}, iterations=2))
    assert "could be opened" in found(part, a_plan(a_node("n1", "S", 0, ["x"]), x=1))


def test_work_for_which_there_is_no_room_is_none():
    """Limits that are reached, and nodes that belong to somebody."""
    workload = a_workload(a_job("x", 2), quotas={"cluster_cores": 3})
    assert check_plan.violations(workload, a_plan(x=1)) == []
    four = a_job("g", 5, node_count=4, colocated=True)
    none = copy.deepcopy(
        {**GANG, "jobs": [{**four, "constraints": GANG["jobs"][0]["constraints"]}]}
    )
    assert check_plan.violations(none, a_plan(g=1)) == []


def test_nodes_that_are_not_what_they_seem_are_found():
    """Two of one name, one that is gone, one of no bucket, one that nobody needs, one that is not
    in the demand."""
    twice = a_plan(a_node("n1", "S", 2, ["x"]), a_node("n1", "S", 2, ["y"]), x=0, y=0)
    assert "n1: 2 nodes have this name" in found(PAIR, twice)
    assert "n1: existed and is gone" in found(a_workload(nodes=[THERE]), a_plan())
    strange = a_node("n1", "S", 4, ["x"])
    strange["vm_size"] = "XL"
    assert "no bucket has htc, XL" in found(PAIR, a_plan(strange, x=0, y=0))
    assert "n1: new, and nobody is on it" in found(PAIR, a_plan(a_node("n1", "S", 4, []), x=1, y=1))
    assert "not in the demand" in found(PAIR, spoiled(RIGHT, new=[]))
    assert "z: is on a node, and no job" in found(
        PAIR, a_plan(a_node("n1", "S", 4, ["z"]), x=1, y=1)
    )
    wrong_group = a_plan(a_node("n1", "S", 0, ["x", "y"], "a"), x=0, y=0)
    assert "n1: S has no a" in found(PAIR, wrong_group)


def test_command_line(tmp_path):
    """By itself, without the library: says ok, or what is wrong, and tells by its status."""
    for number, (plan, status, said) in enumerate(
        [(RIGHT, 0, "plan checked: ok"), (spoiled(RIGHT, new=[]), 1, "plan checked: 1 violations")]
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"workload": PAIR, "plan": plan}))
        done = subprocess.run(
            [sys.executable, "-S", check_plan.__file__, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, said in done.stdout) == (status, True), done.stderr
