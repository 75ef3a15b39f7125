"""Least cost on random queues with limits, gangs and licences: never dearer than any other way to
place the same queue.

The normal run tries 60 queues (about ten seconds); `COST_QUEUES=1000` in the environment of pytest
tries a thousand."""

import os
import random
import sys
from collections import Counter

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override
from hpc.autoscale.packing.order import BUILT_IN

QUEUES = int(os.environ.get("COST_QUEUES", "60"))
SIZES = ("F2s_v2", "F8s_v2", "D4s_v3", "E4s_v3", "D16s_v3", "E16s_v3", "F32s_v2", "M128")
MANY = 100_000
PACKINGS = {
    "search": {"objective": "cost", "optimize_seconds": 60, "optimize_rounds": 8},
    "greedy": {"objective": "cost", "optimize_rounds": 0},
    **{name: {"policy": name} for name in BUILT_IN},
}


@pytest.fixture(autouse=True)
def prices_of_the_test():
    """Prices are the user's own while a test runs."""
    yield
    use_price_override(None)


def cluster_of(draw):
    """Some sizes, of which any limit may be short; and nodes that are there already. The sizes that
    have a price."""
    binding = MockClusterBinding("dear")
    sizes = draw.sample(SIZES, draw.randint(1, 5))
    cores = draw.choice((MANY, 200, 60))
    binding.add_nodearray("htc", {}, max_core_count=cores, max_count=MANY, spot=draw.random() < 0.2)
    for size in sizes:
        count = draw.choice((100, 100, 6, 2))
        binding.add_bucket(
            "htc",
            f"Standard_{size}",
            count,
            count,
            family_quota_core_count=draw.choice((MANY, MANY, 64)),
            family_quota_count=MANY,
            regional_quota_core_count=MANY,
            regional_quota_count=MANY,
            placement_groups=["pg0", "pg1"] if draw.random() < 0.5 else None,
        )
    for number in range(1, draw.choice((1, 1, 4))):
        binding.add_node(f"htc-{number}", "htc", f"Standard_{draw.choice(sizes)}", state="Ready")
    prices = {f"Standard_{size}": round(draw.uniform(0.05, 3.0), 3) for size in sizes}
    return binding, prices


def jobs_of(draw):
    """Slots, arrays, gangs, scattered and exclusive jobs in any order; in some queues there are
    licences, of which some jobs take one or more for each slot, or once."""
    licensed = random.Random(draw.random())
    free = licensed.choice((0, 1, 3, 10, 30))
    pool = SharedConsumableResource("licences", "server", free, free)
    are_there = licensed.random() < 0.5
    jobs = []
    for number in range(draw.randint(1, 12)):
        cores = draw.choice((1, 1, 2, 3, 4, 6, 8))
        asked = {"ncpus": cores}
        if draw.random() < 0.4:
            asked["memgb"] = f"memory::{draw.choice((1, 6, 20, 50))}g"
        if draw.random() < 0.15:
            asked["exclusive"] = True
        if draw.random() < 0.1:
            asked = [asked, {"or": [{"node.vm_family": "standardFSv2Family"}, {"ncpus": 2}]}]
        if are_there and licensed.random() < 0.5:
            taken = SharedConsumableConstraint(
                pool, licensed.choice((1, 1, 2)), licensed.random() < 0.2
            )
            asked = [*(asked if isinstance(asked, list) else [asked]), taken]
        how = draw.randrange(8)
        name = f"job{number}"
        if how == 0:
            jobs.append(Job(name, asked, node_count=draw.randint(1, 4), colocated=True))
        elif how == 1:
            jobs.append(Job(name, asked, iterations=draw.randint(1, 5), colocated=True))
        elif how == 2:
            jobs.append(Job(name, asked, iterations=draw.randint(1, 3), packing_strategy="scatter"))
        else:
            jobs.append(Job(name, asked, iterations=draw.choice((1, 1, 1, 2, 5, 20))))
    return jobs


def placed_by(packing, seed):
    """Units placed, and the price per hour of the new nodes."""
    draw = random.Random(seed)
    binding, prices = cluster_of(draw)
    jobs = jobs_of(draw)
    use_price_override({"*": {s: {"ondemand": p, "spot": p} for s, p in prices.items()}})
    calc = new_demand_calculator(
        {"_mock_bindings": binding, "packing": packing}, node_history=NullNodeHistory()
    )
    units = sum(outcome.units for outcome in calc.place(jobs))
    demand = calc.get_demand()
    price = sum(prices[str(node.vm_size)] for node in demand.new_nodes)
    if demand.cost is not None:
        assert demand.cost.price_per_hour == pytest.approx(price)
        assert demand.cost.lower_bound <= demand.cost.planned_per_hour * (1 + 1e-9)
    return units, price


def check_none_is_cheaper(came, ours):
    """Nobody places more than our way, and who places as much pays no less."""
    units, price = came[ours]
    for name in BUILT_IN:
        assert units >= came[name][0], (ours, name, came)
        assert units > came[name][0] or price <= came[name][1] * (1 + 1e-9), (ours, name, came)


@pytest.mark.parametrize("seed", range(QUEUES))
def test_no_other_way_is_cheaper(seed):
    """Whoever places as much pays no less; and nobody places more."""
    came = {name: placed_by(packing, seed) for name, packing in PACKINGS.items()}
    check_none_is_cheaper(came, "search")
    check_none_is_cheaper(came, "greedy")
    assert came["search"][0] >= came["greedy"][0]


@pytest.mark.parametrize("missing", ["highspy", "numpy"])
@pytest.mark.parametrize("seed", range(QUEUES, QUEUES + QUEUES // 3))
def test_without_the_optimize_extra_no_other_way_is_cheaper(seed, missing, monkeypatch):
    """A search that is asked for and cannot be made leaves the best of greedy and first fit."""
    monkeypatch.setitem(sys.modules, missing, None)
    for module in ("filling", "knapsack"):
        monkeypatch.delitem(sys.modules, f"hpc.autoscale.leastcost.{module}", raising=False)
    ways = {name: packing for name, packing in PACKINGS.items() if name != "greedy"}
    came = {name: placed_by(packing, seed) for name, packing in ways.items()}
    check_none_is_cheaper(came, "search")
    monkeypatch.undo()
    assert came["search"] == placed_by(PACKINGS["greedy"], seed)


def test_limits_and_gangs_occur():
    """Among the queues: some that are not placed wholly, and some in which first fit costs more."""
    seen = Counter()
    for seed in range(20):
        jobs = jobs_of(random.Random(seed))
        seen["gangs"] += any(job.colocated for job in jobs)
        seen["scattered"] += any(job.packing_strategy == "scatter" for job in jobs)
        seen["licensed"] += any(
            isinstance(each, SharedConsumableConstraint)
            for job in jobs
            for each in job._constraints
        )
    assert min(seen.values()) > 3
