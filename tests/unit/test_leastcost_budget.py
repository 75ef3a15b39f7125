"""The greedy plan of the least-cost mode keeps to the time it is given, and is finished all the same."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override
from hpc.autoscale.packing.leastcost import Effort

PRICES = {"Standard_F4s": 0.25, "Standard_F8s": 0.36, "Standard_F16s": 0.8}


@pytest.fixture(autouse=True)
def prices():
    """The user's own prices."""
    use_price_override({"*": PRICES})


def few():
    """Jobs of some sizes."""
    return [Job(f"j{n}", {"ncpus": 1 + n % 7}, iterations=3) for n in range(14)]


def many():
    """Jobs of more sizes than are planned each by itself."""
    return [Job(f"j{n}", {"ncpus": 1 + n % 7, "memgb": 1 + n / 100}) for n in range(300)]


def price(jobs, **packing):
    """What the nodes cost that are opened for all the jobs."""
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {"memgb": 64}, max_core_count=10_000, max_count=1_000)
    for size in PRICES:
        binding.add_bucket("htc", size, 300, 300)
    config = {"_mock_bindings": binding, "packing": packing}
    calc = new_demand_calculator(config, node_history=NullNodeHistory())
    calc.add_jobs(jobs)
    assert not any(job.iterations_remaining for job in jobs)
    return sum(PRICES[str(node.vm_size)] for node in calc.get_demand().new_nodes)


@pytest.mark.parametrize("queue", [few, many])
def test_without_any_time_a_plan_is_whole_and_no_dearer_than_first_fit(queue):
    """Everything is placed, whatever the time."""
    hurried = price(queue(), objective="cost", optimize_seconds=1e-9)
    assert hurried <= price(queue())


@pytest.mark.parametrize("queue", [few, many])
def test_without_any_time_the_same_queue_gets_the_same_plan(queue):
    """What is left out then does not depend on the clock."""
    first, second = (price(queue(), objective="cost", optimize_seconds=1e-9) for _ in range(2))
    assert first == second


def test_a_part_of_endless_time_is_endless():
    """Where rounds alone limit the work, the greedy plan is never cut short."""
    assert not Effort().part(0.5)()


def test_a_part_of_the_time_is_of_what_is_left():
    """Half of four seconds is over when two are left."""
    left = [4.0]
    half = Effort(lambda: left[0]).part(0.5)
    assert not half()
    left[0] = 2.0
    assert half()
