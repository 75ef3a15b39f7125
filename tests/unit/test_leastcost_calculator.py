"""The least-cost mode through the published interface, on a mock cluster."""

import subprocess
import sys
from pkgutil import resolve_name

import pytest

from builders.least_cost import MANY, a_least_cost_calculator, a_market_cluster, sizes_of
from hpc.autoscale import results
from hpc.autoscale.config.check import config_schema
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import STRATEGIES
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override

PRICES = {"Standard_F4s": 0.2, "Standard_F8s": 0.36, "Standard_F16s": 0.8}


@pytest.fixture(autouse=True)
def prices():
    """The user's own prices, and spot for one size."""
    use_price_override({"*": {**PRICES, "Standard_F8s": {"ondemand": 0.36, "spot": 0.1}}})


def job(name, ncpus=4, iterations=1, **more):
    """A job that takes cores."""
    return Job(name, {"ncpus": ncpus}, iterations=iterations, **more)


def test_every_objective_has_its_strategy():
    """First fit is what there is without one. What makes the others is found by a path."""
    packing = config_schema()["properties"]["packing"]["properties"]
    assert {"first-fit", *STRATEGIES} == set(packing["objective"]["enum"])
    assert all(callable(resolve_name(path)) for path in STRATEGIES.values())


def test_the_cheapest_nodes_are_planned():
    """Ten slots of four cores go on five nodes of eight, which cost less than ten of four."""
    calc = a_least_cost_calculator(a_market_cluster())
    jobs = [job(f"j{i}") for i in range(10)]
    calc.add_jobs(jobs)
    demand = calc.get_demand()
    assert sizes_of(demand.new_nodes) == {"Standard_F8s": 5}
    assert demand.cost.price_per_hour == pytest.approx(5 * 0.36)
    assert demand.cost.gap == pytest.approx(0, abs=1e-3)
    assert all(j.iterations_remaining == 0 for j in jobs)


def test_nodes_know_who_was_placed_on_them():
    """Each job is assigned to as many nodes as it has slots on, and what is left is right."""
    calc = a_least_cost_calculator(a_market_cluster())
    calc.add_jobs([job("single"), job("array", 2, iterations=9)])
    nodes = calc.get_demand().new_nodes
    held = [name for node in nodes for name in node.assignments]
    assert held.count("single") == 1
    for node in nodes:
        used = node.resources["ncpus"] - node.available["ncpus"]
        assert used > 0
        assert node.available["ncpus"] >= 0
    total = sum(node.resources["ncpus"] - node.available["ncpus"] for node in nodes)
    assert total == 4 + 18


def test_handles_of_existing_nodes_show_all_that_was_placed():
    """Whatever the order of jobs, what a node has left is what it had less all that lies on it."""
    binding = a_market_cluster()
    for index in range(1, 9):
        binding.add_node(f"htc-{index}", "htc", "Standard_F8s", state="Ready")
    calc = a_least_cost_calculator(binding)
    calc.add_jobs([job("a", 3, 4), job("b", 2, 3), job("c", 1, 9), job("d", 3, 2), job("e", 2, 4)])
    nodes = calc.node_mgr.get_nodes()
    used = sum(8 - node.available["ncpus"] for node in nodes)
    assert used == 12 + 6 + 9 + 6 + 8
    assert {name for node in nodes for name in node.assignments} == set("abcde")


def test_names_are_unique_and_hooks_are_asked():
    """New nodes are named as in the other mode."""
    calc = a_least_cost_calculator(a_market_cluster())
    calc.node_mgr.set_node_name_hook(lambda bucket, index: f"n-{index}")
    calc.add_jobs([job(f"j{i}", 8) for i in range(4)])
    names = {str(node.name) for node in calc.get_demand().new_nodes}
    assert names == {"n-1", "n-2", "n-3", "n-4"}


def test_a_hook_that_fails_leaves_nothing_behind():
    """Nothing is placed, opened or charged when a node cannot be named."""

    def refuse(bucket, index):
        raise RuntimeError("no name")

    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 1),)))
    calc.node_mgr.set_node_name_hook(refuse)
    waiting = job("a", 8)
    with pytest.raises(RuntimeError, match="no name"):
        calc.add_jobs([waiting])
    assert waiting.iterations_remaining == 1
    assert not calc.get_demand().new_nodes
    calc.node_mgr.set_node_name_hook(lambda bucket, index: f"n-{index}")
    calc.add_jobs([waiting])
    assert len(calc.get_demand().new_nodes) == 1


class Tolerant:
    """A listener for whom one bad job does not stop the others."""

    def begins(self, job):
        """Nothing to note."""

    def failed(self, job, error):
        """Go on."""
        return True


def test_a_job_that_fails_does_not_mislead_the_plans_after_it():
    """What was tried on a copy counted on its nodes; the others are then placed one by one."""
    calls = []

    def refuse_once(bucket, index):
        calls.append(index)
        if len(calls) == 1:
            raise RuntimeError("no name")
        return f"n-{index}"

    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 9),)))
    calc.node_mgr.set_node_name_hook(refuse_once)
    scattered = job("scattered", 2, iterations=2, packing_strategy="scatter")
    plain = [job(f"j{i}", 3) for i in range(5)]
    outcomes = calc.place([scattered, *plain], Tolerant())
    assert [outcome.units for outcome in outcomes] == [0, 1, 1, 1, 1, 1]
    assert str(outcomes[0].error) == "no name"
    nodes = calc.get_demand().new_nodes
    assert sum(8 - node.available["ncpus"] for node in nodes) == 15


def test_existing_nodes_are_used_first():
    """They run already, so they cost nothing."""
    binding = a_market_cluster()
    binding.add_node("htc-1", "htc", "Standard_F4s", state="Ready")
    calc = a_least_cost_calculator(binding)
    calc.add_jobs([job("a")])
    demand = calc.get_demand()
    assert not demand.new_nodes
    assert [str(n.name) for n in demand.matched_nodes] == ["htc-1"]
    assert demand.cost.price_per_hour == 0


def test_a_single_job_is_planned_too():
    """add_job is add_jobs of one, and costs add up."""
    calc = a_least_cost_calculator(a_market_cluster())
    calc.add_job(job("a", 8))
    calc.add_job(job("b", 8))
    demand = calc.get_demand()
    assert sizes_of(demand.new_nodes) == {"Standard_F8s": 2}
    assert demand.cost.price_per_hour == pytest.approx(0.72)


def test_spot_has_its_own_price():
    """A spot bucket is held against the spot price of its size."""
    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 10),), spot=True))
    calc.add_jobs([job("a", 8)])
    assert calc.get_demand().cost.price_per_hour == pytest.approx(0.1)


def test_spot_is_chosen_where_it_is_cheaper():
    """Of a spot and a regular nodearray with the same size, the cheaper gets the nodes."""
    binding = a_market_cluster(sizes=(("Standard_F8s", 10),))
    binding.add_nodearray("spot", {}, spot=True, max_core_count=MANY, max_count=MANY)
    binding.add_bucket("spot", "Standard_F8s", 3, 3)
    calc = a_least_cost_calculator(binding)
    calc.add_jobs([job(f"j{i}", 8) for i in range(5)])
    used = [node.nodearray for node in calc.get_demand().new_nodes]
    assert (used.count("spot"), used.count("htc")) == (3, 2)


def test_a_size_without_a_price_is_the_last_resort():
    """It is used when nothing priced has room, and counted by itself."""
    use_price_override({"*": PRICES})
    sizes = (("Standard_F16s_v2", 10), ("Standard_F8s", 1))
    # there are no public prices for this region
    calc = a_least_cost_calculator(a_market_cluster(sizes, location="usgovvirginia"))
    calc.add_jobs([job(f"j{i}", 8) for i in range(3)])
    demand = calc.get_demand()
    assert sizes_of(demand.new_nodes) == {"Standard_F8s": 1, "Standard_F16s_v2": 1}
    assert demand.cost.price_per_hour == pytest.approx(0.36)
    assert list(demand.cost.unpriced.values()) == [1]
    assert demand.cost.total_per_hour is None
    assert "of unknown price: 1 of" in str(demand.cost)


def test_the_first_in_the_queue_win_when_limits_are_short():
    """What is left over is at the end of the queue, an array in part."""
    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 2),)))
    jobs = [job("first", 4), job("array", 4, iterations=10), job("last", 4)]
    calc.add_jobs(jobs)
    assert [j.iterations_remaining for j in jobs] == [0, 7, 1]


def test_a_job_without_room_does_not_stop_others():
    """Jobs that fit nowhere, or find no room, are passed over, with reasons for whoever listens."""
    heard = []
    results.register_result_handler(heard.append)
    calc = a_least_cost_calculator(
        a_market_cluster(sizes=(("Standard_F4s", 1), ("Standard_F8s", 5)))
    )
    jobs = [
        job("huge", 500),
        Job("a", [{"ncpus": 4}, {"node.vm_size": "Standard_F4s"}], iterations=2),
        job("b", 8),
    ]
    calc.add_jobs(jobs)
    assert [j.iterations_remaining for j in jobs] == [1, 1, 0]
    said = [r for r in heard if isinstance(r, results.AllocationResult)]
    assert [r.status for r in said].count("Failed") == 2
    assert all(r.reasons for r in said if r.status == "Failed")


def test_gangs_keep_their_place_in_the_queue():
    """A job that is not planned is placed by itself, after those before it and before those after
    it."""
    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 3),)))
    gang = Job("gang", {"ncpus": 8}, node_count=2, colocated=True)
    jobs = [job("before", 8), gang, job("after", 8)]
    calc.add_jobs(jobs)
    held = {name for node in calc.get_demand().new_nodes for name in node.assignments}
    assert held == {"before", "gang"}
    assert jobs[2].iterations_remaining == 1


def test_where_there_is_room_for_all_gangs_do_not_part_the_plan():
    """The jobs before and after a gang fill nodes together."""
    calc = a_least_cost_calculator(a_market_cluster())
    gang = Job("gang", [{"ncpus": 8}, {"exclusive": True}], node_count=2, colocated=True)
    calc.add_jobs([job("before", 4), gang, job("after", 4)])
    assert sizes_of(calc.get_demand().new_nodes) == {"Standard_F8s": 3}


def test_all_plans_of_a_queue_share_the_time():
    """The clock is set once for each call."""
    calc = a_least_cost_calculator(a_market_cluster(sizes=(("Standard_F8s", 3),)))
    ticks = []

    def clock():
        ticks.append(1)
        return float(len(ticks))

    calc._strategy._least_cost.clock = clock
    calc._strategy._least_cost.seconds = 5.0
    calc.add_jobs([job(f"j{i}", 3) for i in range(9)])
    assert len(ticks) < 30


def test_exclusive_jobs_have_their_nodes_to_themselves():
    """Two of them never share a node, and an exclusive array shares with nobody else."""
    calc = a_least_cost_calculator(a_market_cluster())
    alone = [Job(f"x{i}", [{"ncpus": 2}, {"exclusive": True}]) for i in range(3)]
    array = Job("xs", [{"ncpus": 2}, {"exclusive": True}], iterations=6)
    calc.add_jobs([*alone, array, job("other", 2)])
    for node in calc.get_demand().new_nodes:
        assert len(node.assignments) == 1
    assert array.iterations_remaining == 0


def test_the_choice_of_an_alternative_is_the_engines():
    """What a job with an `or` takes on a node is what the engine says it takes there."""
    calc = a_least_cost_calculator(a_market_cluster())
    either = {"or": [{"ncpus": 8}, {"ncpus": 3}]}
    jobs = [Job(f"o{i}", either) for i in range(7)]
    calc.add_jobs(jobs)
    assert all(j.iterations_remaining == 0 for j in jobs)
    for node in calc.get_demand().new_nodes:
        assert node.available["ncpus"] >= 0


def test_handlers_hear_of_every_job():
    """One allocation result for each job that was planned, and a match for each node it is on."""
    heard = []
    results.register_result_handler(heard.append)
    a_least_cost_calculator(a_market_cluster()).add_jobs([job(f"j{i}") for i in range(3)])
    said = [r for r in heard if isinstance(r, results.AllocationResult)]
    assert [r.status for r in said] == ["success"] * 3
    assert all(r.total_slots == 1 and len(r.nodes) == 1 for r in said)
    assert sum(isinstance(r, results.MatchResult) for r in heard) == 3


def test_the_other_mode_has_no_cost():
    """Without the mode nothing is priced."""
    config = {"_mock_bindings": a_market_cluster()}
    calc = new_demand_calculator(config, node_history=NullNodeHistory())
    calc.add_jobs([job("a")])
    assert calc.get_demand().cost is None


def test_the_cost_reads_as_a_sentence():
    """For logs."""
    calc = a_least_cost_calculator(a_market_cluster())
    calc.add_jobs([job("a", 8)])
    assert str(calc.get_demand().cost).startswith("$0.3600 per hour, at most ")


def test_no_rounds_means_the_greedy_plan():
    """`optimize_rounds` 0 leaves column generation out."""
    calc = a_least_cost_calculator(a_market_cluster(), optimize_rounds=0)
    calc.add_jobs([job(f"j{i}") for i in range(5)])
    assert calc.get_demand().cost.method == "greedy"


@pytest.mark.parametrize(
    ("packing", "said"),
    [
        ({"optimize_seconds": 2}, 1),
        ({"optimize_rounds": 30}, 1),
        ({"optimize_seconds": 2, "optimize_rounds": 0}, 0),
        ({}, 0),
    ],
)
def test_effort_without_the_extra_says_what_to_install(packing, said):
    """Once, and only where the configuration asks for more than the greedy plan."""
    program = (
        "import sys; sys.modules['highspy'] = None\n"
        "from hpc.autoscale.job.demandcalculator import new_demand_calculator\n"
        "from hpc.autoscale.testing import a_cluster, a_config\n"
        f"packing = {{'objective': 'cost', **{packing!r}}}\n"
        "config = a_config(a_cluster(), packing=packing, lock_file=None,\n"
        "    nodehistorydb=sys.argv[1])\n"
        "for _ in range(2): new_demand_calculator(config)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ":memory:"], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("pip install 'hpc-autoscale[optimize]'") == said, done.stderr
