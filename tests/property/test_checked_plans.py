"""Plans of random workloads, in both modes, checked from first principles by the checker of the
benchmarks."""

import inspect
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import check_plan
import clusters
import workloads
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory

SIZES = {"n": (1, 80), "nodes": (0, 40), "iters": (1, 30), "pgs": (1, 5)}
MODES = {
    "first fit": {},
    "declared order": {"order": "declared"},
    "least cost": {"objective": "cost", "optimize_rounds": 5, "optimize_seconds": 1000.0},
    "greedy": {"objective": "cost", "optimize_rounds": 0},
}


def workload_of(seed):
    """One of the benchmarks' workloads, small, often with few nodes left to open, and mixed with
    another's jobs."""
    random = Random(seed)
    name = random.choice(sorted(workloads.MAKERS))
    known = inspect.signature(workloads.MAKERS[name]).parameters
    scale = {each: random.randint(*SIZES[each]) for each in sorted(known) if each in SIZES}
    made = workloads.make(name, **scale, **({"seed": seed} if "seed" in known else {}))
    if random.random() < 0.6:
        for index, bucket in enumerate(made["buckets"]):
            there = sum(node["bucket"] == index for node in made["nodes"])
            bucket["max_count"] = there + random.randint(0, 6)
    if random.random() < 0.5:
        other = workloads.make(random.choice(["W2", "W4", "W5"]), n=random.randint(1, 20))
        made["jobs"] += [{**job, "name": f"other-{job['name']}"} for job in other["jobs"]]
        random.shuffle(made["jobs"])
    return made


def planned(workload, packing):
    """The plan that the library makes, as plain values."""
    binding = clusters.mock_cluster(workload)
    calculator = new_demand_calculator(
        {"_mock_bindings": binding, "packing": packing}, node_history=NullNodeHistory()
    )
    clusters.write_free_amounts(calculator.node_mgr.get_nodes(), workload)
    jobs = clusters.make_jobs(workload)
    half = len(jobs) // 2
    calculator.add_jobs(jobs[:half])
    calculator.add_jobs(jobs[half:])
    return clusters.plan_of(calculator, jobs)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_wrong_with_a_plan(mode):
    """No slot placed twice or lost, no node overfilled, no limit exceeded, no gang split, nothing
    left out."""

    @settings(max_examples=max(10, settings.default.max_examples // 2))
    @given(st.integers(0, 2**32))
    def check(seed):
        workload = workload_of(seed)
        found = check_plan.violations(workload, planned(workload, MODES[mode]))
        note(f"{workload['name']} {workload['scale']}")
        assert found == []

    check()


@pytest.mark.parametrize("mode", MODES)
def test_same_workload_same_plan(mode):
    """In the least-cost mode too, when work limits it and not time."""
    for seed in range(6):
        workload = workload_of(seed)
        assert planned(workload, MODES[mode]) == planned(workload, MODES[mode])
