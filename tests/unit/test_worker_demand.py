"""Demand for workers: how many a backlog wants, the mean that a queue keeps, and which nodes are
kept."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import an_htc_cluster
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.workers import MeanRunTime, WorkerDemand, WorkerDemandError, prepare
from hpc.autoscale.workers.keeping import keep_the_best

COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, st.integers(1, 1000), st.integers(1, 64), st.integers(0, 100), COUNTS)
def test_workers_are_rounded_up_once_within_their_bounds(
    waiting, running, ratio, slots, least, above
):
    """Enough for the whole backlog, and one less would not be; nodes likewise."""
    demand = WorkerDemand(waiting, running, ratio, slots, least, least + above)
    exact = math.ceil(Fraction(waiting + running, ratio))
    assert demand.workers == max(least, min(exact, least + above))
    assert demand.nodes == math.ceil(Fraction(demand.workers, slots))


@pytest.mark.parametrize(
    ("figures", "workers"),
    [
        ({"run_time": 60, "finish_within": 1800}, 334),  # 30 jobs for each
        ({"run_time": 420.0, "finish_within": 1800}, 2500),  # four of seven minutes
        ({"run_time": 7200, "finish_within": 1800}, 10_000),  # it cannot be done in time
        ({"run_time": None, "finish_within": 1800}, 500),  # nobody knows: jobs_per_worker
        ({"run_time": 60}, 500),
        ({"run_time": 0.0, "finish_within": 1800}, 1),
        ({"elsewhere": 600}, 500),
    ],
)
def test_the_time_form(figures, workers):
    """As many jobs for a worker as it can do in the time."""
    assert WorkerDemand(9_000, 1_000, 20, **figures).workers == workers


def test_very_many_jobs_that_take_no_time_want_one_worker():
    """Their mean comes as near to nothing as a figure can."""
    took = MeanRunTime().after(60.0, *[0.0] * 20_000)
    assert 0 < took.mean < 1e-300
    demand = WorkerDemand(9_000, 1_000, run_time=took.mean, finish_within=1800)
    assert demand.workers == 1


def test_workers_elsewhere_need_no_node():
    """They are taken off the workers for which there are nodes."""
    assert WorkerDemand(100, 0, 1, 4, elsewhere=90).nodes == 3
    assert WorkerDemand(100, 0, 1, 4, elsewhere=200).nodes == 0


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"waiting": None}, "waiting: expected a whole number of 0 or more, found None"),
        ({"waiting": 1, "running": -1}, "running: expected a whole number of 0 or more, found -1"),
        ({"waiting": 1, "jobs_per_worker": 0}, "jobs_per_worker: expected a whole number of 1"),
        ({"waiting": 1, "slots_per_node": True}, "slots_per_node: expected a whole number of 1"),
        ({"waiting": 1, "minimum": 5, "maximum": 4}, "maximum: expected a whole number of 5"),
        ({"waiting": 1, "run_time": math.nan}, "run_time: expected a number of 0 or more"),
        ({"waiting": 1, "finish_within": -1}, "finish_within: expected a number of 0 or more"),
        ({"waiting": 1, "tolerance": None}, "tolerance: expected a number of 0 or more"),
        ({"waiting": 1, "name": "a\nb"}, r"name: expected a printable text, found 'a\\nb'"),
        ({"waiting": 1, "nodearrays": "htc"}, "nodearrays: expected a list of names"),
    ],
)
def test_figures_that_make_no_sense(figures, said):
    """Are an error that names the figure, and never taken for nothing."""
    with pytest.raises(WorkerDemandError, match=said):
        WorkerDemand(**figures)


def test_the_mean_of_few_is_plain_and_of_many_is_weighted():
    """The newest counts a twentieth, once there are twenty."""
    assert MeanRunTime().mean is None
    assert MeanRunTime().after(10, 20, 60).mean == pytest.approx(30)
    assert MeanRunTime(100.0, 500).after(200).mean == pytest.approx(105)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)))
def test_a_mean_is_of_times_that_can_be(seconds):
    """Clocks that were put back leave it alone; it stays between the least and the most."""
    mean = MeanRunTime().after(*seconds)
    good = [each for each in seconds if math.isfinite(each) and each >= 0]
    assert mean.jobs == len(good)
    if good:
        slack = 1e-9 * max(good)
        assert min(good) - slack <= mean.mean <= max(good) + slack
    else:
        assert mean.mean is None


def calculated(demand, *nodes):
    """A calculator of one's own that was given this demand, over these nodes."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    for name, more in nodes:
        cluster.add_node(name, "htc", **more)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    manager = new_node_manager(config)
    jobs = demand.jobs()
    prepare(manager, jobs)
    calculator = new_demand_calculator(config, node_mgr=manager, node_history=NullNodeHistory())
    calculator.add_jobs(jobs)
    return calculator, jobs


def test_jobs_for_any_calculator():
    """Without the loop: nodes that are there come first, and the rest is planned."""
    demand = WorkerDemand(70, 0, 10, 2)
    calculator, _ = calculated(demand, ("htc-1", {"state": "Ready"}))
    assert [node.name for node in calculator.get_demand().new_nodes] == ["htc-2", "htc-3", "htc-4"]


def test_the_best_nodes_are_kept():
    """Those with work, then those that are ready, then those that boot; the last ones go."""
    states = {1: "Preparing", 2: "Ready", 3: "Preparing", 4: "Ready"}
    nodes = [(f"htc-{n}", {"state": state}) for n, state in states.items()]
    calculator, jobs = calculated(WorkerDemand(2), *nodes)
    found = {node.name: node for node in calculator.node_mgr.get_nodes()}
    busy = {found["htc-3"].delayed_node_id.node_id}
    keep_the_best(jobs, found.values(), busy, ())
    wanted = [node.name for node in calculator.get_demand().matched_nodes]
    assert sorted(wanted) == ["htc-2", "htc-3"]
    assert [node.available["worker_nodes"] for node in found.values()] == [1, 0, 0, 1]
