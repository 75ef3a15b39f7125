"""What the least-cost mode says of the price of everything that a queue opens, planned or not."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override
from hpc.autoscale.results import SatisfiedResult

EACH = 0.36
GANG = [{"ncpus": 8}, {"exclusive": True}]


@pytest.fixture(autouse=True)
def prices():
    """The user's own price for one size."""
    use_price_override({"*": {"Standard_F8s": EACH}})


def calculator(size="Standard_F8s", deallocated=0, **array):
    """A calculator in least-cost mode for one bucket with a placement group."""
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {}, **array)
    binding.add_bucket("htc", size, 50, 50, placement_groups=["pg0"])
    for index in range(1, deallocated + 1):
        binding.add_node(f"htc-{index}", "htc", size, state="Deallocated")
    packing = {"objective": "cost", "optimize_rounds": 0}
    config = {"_mock_bindings": binding, "packing": packing}
    return new_demand_calculator(config, node_history=NullNodeHistory())


def gang(nodes=2):
    """A job that no plan takes in."""
    return Job("gang", GANG, node_count=nodes, colocated=True)


class Whim(BaseNodeConstraint):
    """A constraint that the engine does not understand."""

    def satisfied_by_node(self, node):
        """Any node will do."""
        return SatisfiedResult("success", self, node)

    def __str__(self):
        return "whim"

    def to_dict(self):
        """Nothing to tell."""
        return {"whim": True}


def check(calc, new, planned):
    """The price is that of all new nodes, and the plans have their part of it."""
    cost = calc.get_demand().cost
    assert cost.price_per_hour == pytest.approx(new * EACH)
    assert cost.total_per_hour == cost.price_per_hour
    assert cost.planned_per_hour == pytest.approx(planned * EACH)
    assert cost.others_per_hour == pytest.approx((new - planned) * EACH)
    assert cost.lower_bound <= cost.planned_per_hour * (1 + 1e-9)
    return cost


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_price_is_that_of_all_new_nodes(first):
    """A gang is in it, wherever it stands in the queue; bound and gap are those of the plan."""
    jobs = [Job("a", {"ncpus": 8}), Job("b", {"ncpus": 8})]
    jobs.insert(first, gang())
    calc = calculator()
    calc.add_jobs(jobs)
    cost = check(calc, 4, 2)
    assert cost.gap == pytest.approx(0, abs=1e-6)
    assert str(cost).startswith("$1.4400 per hour, the planned part at most 0.000% above")
    assert str(cost).endswith("; $0.7200 of it are for jobs that are in no plan")


def test_constraints_of_somebody_elses_are_in_the_price():
    """A node that is opened for an opaque constraint costs as much as any other."""
    calc = calculator()
    calc.add_jobs([Job("own", [{"ncpus": 8}, Whim()]), Job("a", {"ncpus": 8})])
    check(calc, 2, 1)


def test_a_queue_of_gangs_has_a_price_and_no_gap_to_speak_of():
    """What is in no plan is not said to be near the least."""
    calc = calculator()
    calc.add_jobs([gang()])
    cost = check(calc, 2, 0)
    assert cost.method == "first fit"
    assert str(cost) == "$0.7200 per hour for jobs that are in no plan"


def test_prices_of_several_calls_add_up():
    """Each call adds what it opened, planned or not, and nothing twice."""
    calc = calculator()
    for job in (gang(), Job("a", {"ncpus": 8}), gang(), Job("b", {"ncpus": 8})):
        calc.add_job(job)
    assert check(calc, 6, 2).method == "greedy"


def test_work_on_what_is_there_already_costs_nothing():
    """A second opaque job finds room on the node of the first."""
    calc = calculator()
    calc.add_jobs([Job("one", [{"ncpus": 4}, Whim()]), Job("other", [{"ncpus": 4}, Whim()])])
    check(calc, 1, 0)


def test_nodes_that_are_started_again_cost_what_new_ones_do():
    """Deallocated nodes do not run, so starting one is a part of the price, planned or not."""
    calc = calculator(deallocated=3)
    calc.add_jobs([Job("own", [{"ncpus": 8}, Whim()]), Job("a", {"ncpus": 8})])
    cost = calc.get_demand().cost
    assert cost.price_per_hour == pytest.approx(2 * EACH)
    assert cost.others_per_hour == pytest.approx(EACH)


def test_a_gang_of_unknown_price_leaves_the_total_unknown():
    """It is counted and never free."""
    calc = calculator("Standard_F16s_v2", location="usgovvirginia")
    calc.add_jobs([gang()])
    cost = calc.get_demand().cost
    assert cost.total_per_hour is None
    assert sum(cost.unpriced.values()) == 2
    assert "of unknown price: 2 of" in str(cost)
