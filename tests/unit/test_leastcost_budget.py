"""The time of the least-cost mode: the greedy plan is always finished, and more time is never
dearer."""

from random import Random

import pytest

from builders.engine import cores
from builders.least_cost import Market
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.leastcost.generation import Effort
from hpc.autoscale.leastcost.queue import Wanted, plan_queue
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override

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


def prices_by_time(sizes, seed):
    """What a random queue costs with time for so many looks at the clock, more and more of them."""
    draw = Random(seed)
    market = Market()
    for number, each in enumerate((4, 7, 16, 33)):
        market.offer(f"c{number}", round(draw.uniform(0.03, 0.06) * each, 3), each, limit=5_000)
    queue = [Wanted(cores(n), draw.randint(1, 9)) for n in sizes(draw)]

    def price(looks):
        left = [looks]

        def seconds_left():
            left[0] -= 1
            return left[0]

        cut = plan_queue(queue, market.ranked, market.price_of, Effort(seconds_left))
        assert not any(cut.solution.unplaced)
        return cut.solution.price

    greedy = plan_queue(queue, market.ranked, market.price_of, None).solution.price
    return [greedy, *(price(looks) for looks in (0, 1, 2, 4, 7, 12, 20, 40, 400, 10_000))]


@pytest.mark.parametrize("seed", range(8))
def test_more_time_is_never_dearer(seed):
    """A search tries all that a shorter one has tried, and what is not finished counts for
    nothing."""
    pytest.importorskip("highspy")
    few_sizes = prices_by_time(lambda draw: draw.sample(range(1, 34), 14), seed)
    assert few_sizes == sorted(few_sizes, reverse=True)


def test_many_sizes_get_the_same_plan_whatever_the_time():
    """Nodes are filled one by one to the end, and nothing is tried beside."""
    pytest.importorskip("highspy")
    many_sizes = prices_by_time(lambda draw: [n / 16 for n in range(16, 33 * 16)], 1)
    assert len(set(many_sizes)) == 1
