"""Every way to place a queue comes to the same, whatever the configuration says of packing: the
calculator's methods, the loop with and without a handler of results, and the command line's own
calculation (over HTTP: integration/test_cli_simulator).
"""

from collections import Counter

import pytest

from hpc.autoscale import results
from hpc.autoscale.autoscaler import Autoscaler, Reporter
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager.placing import Placer
from hpc.autoscale.results import DefaultContextHandler, SatisfiedResult

SIZES = ("Standard_M128", "Standard_F4s_v2")
# what ends the search is the number of rounds, so that it is the same each time
COST = {"objective": "cost", "optimize_seconds": 60, "optimize_rounds": 3}
OPTIONS = [
    {},
    {"order": "declared"},
    {"policy": "cheapest"},
    {"policy": "least-waste"},
    {"policy": "spot-first"},
    {"policy": "capacity-aware"},
    {"objective": "first-fit"},
    {**COST},
    {**COST, "order": "declared"},
    {**COST, "policy": "cheapest"},
    {**COST, "policy": "least-waste"},
    {**COST, "optimize_rounds": 0},
]


class Driver(GenericDriver):
    """Hands over a queue."""

    def __init__(self, jobs):
        super().__init__("ways")
        self.jobs = jobs

    def new_node_history(self, config):
        return NullNodeHistory()

    def preprocess_node_mgr(self, config, node_mgr):
        """No placement groups, as a program has none."""

    def _read_jobs_and_nodes(self, config):
        return self.jobs, []


def ten_jobs():
    """Of four cores each."""
    return [Job(f"job{number}", {"ncpus": 4}) for number in range(10)]


def mixed_jobs():
    """Single slots, arrays, gangs, scattered jobs, jobs that fit nowhere, and constraints of
    somebody else's."""
    return [
        *(Job(f"one{number}", {"ncpus": number % 3 + 1}) for number in range(9)),
        Job("array", {"ncpus": 2}, iterations=7),
        Job("gang", {"ncpus": 1, "exclusive": True}, node_count=2),
        Job("spread", {"ncpus": 1}, iterations=2, packing_strategy="scatter"),
        Job("colocated", {"ncpus": 4}, iterations=2, colocated=True),
        Job("nowhere", {"ncpus": 1000}),
        Job("nowhere either", {"ncpus": 1000}, iterations=3),
        Job("own", [{"ncpus": 2}, Own()]),
        *(Job(f"two{number}", {"ncpus": 4}) for number in range(30)),
    ]


class Own(BaseNodeConstraint):
    """A constraint that only its own methods understand."""

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node)

    def do_decrement(self, node):
        return True

    def minimum_space(self, node):
        return -1

    def to_dict(self):
        return {}

    def __str__(self):
        return "Own()"


def config_of(packing, count=30):
    """A cluster that has the largest size first."""
    cluster = MockClusterBinding("ways")
    cluster.add_nodearray("htc", {})
    for size in SIZES:
        cluster.add_bucket("htc", size, count, count)
    return {"cluster_name": "ways", "_mock_bindings": cluster, "packing": packing}


def calculator(packing):
    """A calculator over it."""
    return new_demand_calculator(config_of(packing), node_history=NullNodeHistory())


def by_add_jobs(packing, jobs):
    """All at once."""
    calc = calculator(packing)
    calc.add_jobs(jobs)
    return calc.finish()


def by_add_job(packing, jobs):
    """One after another."""
    calc = calculator(packing)
    for job in jobs:
        calc.add_job(job)
    return calc.finish()


def by_private_add_job(packing, jobs):
    """As tests of integrations do."""
    calc = calculator(packing)
    for job in jobs:
        calc._add_job(job)
    return calc.finish()


def by_place(packing, jobs):
    """And say what each got."""
    calc = calculator(packing)
    assert [outcome.job for outcome in calc.place(jobs)] == jobs
    return calc.finish()


def by_the_loop(packing, jobs):
    """A dry pass."""
    return Autoscaler(config_of(packing), Driver(jobs), dry_run=True).run_once().demand


def by_the_loop_with_a_handler(packing, jobs):
    """As the command line has one."""
    handler = DefaultContextHandler("[ways]")
    loop = Autoscaler(config_of(packing), Driver(jobs), dry_run=True, result_handler=handler)
    demand = loop.run_once().demand
    heard = {context for context in handler.by_context if str(context).startswith("[Job ")}
    assert heard == {f"[Job {job.name}]" for job in jobs}
    return demand


WHOLE_QUEUES = [by_add_jobs, by_place, by_the_loop, by_the_loop_with_a_handler]
ONE_BY_ONE = [by_add_job, by_private_add_job]


def told(demand):
    """Who is placed on which new node, and what they cost."""
    nodes = [(node.name, node.vm_size, sorted(node.assignments)) for node in demand.new_nodes]
    return nodes, demand.cost and (demand.cost.price_per_hour, demand.cost.lower_bound)


@pytest.mark.parametrize("way", [*WHOLE_QUEUES, *ONE_BY_ONE])
@pytest.mark.parametrize("packing", OPTIONS, ids=str)
def test_ten_jobs_by_every_way(packing, way):
    """The same nodes, price and bound: ten small nodes where the price counts, one large one where
    it does not."""
    nodes, cost = told(way(packing, ten_jobs()))
    cheap = packing.get("objective") == "cost" or packing.get("policy") in (
        "cheapest",
        "least-waste",
    )
    assert [size for _, size, _ in nodes] == (["Standard_F4s_v2"] * 10 if cheap else [SIZES[0]])
    if packing.get("objective") == "cost":
        assert cost == (pytest.approx(1.69), pytest.approx(1.69))
    else:
        assert cost is None


@pytest.mark.parametrize("way", WHOLE_QUEUES[1:])
@pytest.mark.parametrize("packing", OPTIONS, ids=str)
def test_a_mixed_queue_by_every_way(packing, way):
    """Every job is on the same nodes as by `add_jobs`."""
    assert told(way(packing, mixed_jobs())) == told(by_add_jobs(packing, mixed_jobs()))


@pytest.mark.parametrize("packing", OPTIONS, ids=str)
def test_what_each_job_got(packing):
    """Is what is on nodes; what it lacks has reasons."""
    calc, jobs = calculator(packing), mixed_jobs()
    outcomes = {outcome.job.name: outcome for outcome in calc.place(jobs)}
    assert {name for name, outcome in outcomes.items() if outcome.missing} == {
        "nowhere",
        "nowhere either",
    }
    assert (outcomes["nowhere either"].units, outcomes["nowhere either"].missing) == (0, 3)
    assert (outcomes["gang"].units, outcomes["array"].units) == (2, 7)
    for name in ("nowhere", "nowhere either"):
        assert outcomes[name].result.status == "Failed"
        assert any("ncpus" in reason for reason in outcomes[name].reasons)
    for name in ("one1", "gang", "own"):
        placed = outcomes[name].result
        assert placed.nodes == [n for n in calc.node_mgr.get_nodes() if name in n.assignments]


def test_every_way_places_a_job_by_the_same_method(monkeypatch):
    """One by one or as a queue, with a result or without."""
    calc, placed = calculator({}), []
    allocate = Job._allocate

    def counted(job, *args, **kwargs):
        placed.append(job.name)
        return allocate(job, *args, **kwargs)

    monkeypatch.setattr(Job, "_allocate", counted)
    calc.add_job(Job("a", {"ncpus": 1}))
    calc.add_jobs([Job("b", {"ncpus": 1}), Job("c", {"ncpus": 999})])
    calc.place([Job("d", {"ncpus": 1}, iterations=3)])
    assert calc._add_job(Job("e", {"ncpus": 1}))
    assert Job("f", {"ncpus": 1}).do_allocate(calc.node_mgr)
    assert placed == list("abcdef")


def test_reasons_are_made_when_they_are_read(monkeypatch, caplog):
    """Nothing is worked out about jobs that fit nowhere before somebody asks, and then once for
    those that are alike."""
    asked = []
    why_not = Placer.why_not

    def counted(placer, ask):
        asked.append(ask.assignment_id)
        return why_not(placer, ask)

    monkeypatch.setattr(Placer, "why_not", counted)
    jobs = [Job(f"j{number}", {"ncpus": 500 + number // 10}) for number in range(100)]
    # the logs name some of them, where they are at INFO
    caplog.set_level("WARNING", "hpc.autoscale.results")
    loop = Autoscaler(config_of({}), Driver(jobs), dry_run=True, reporter=Reporter())
    summary = loop.run_once()
    assert asked == []
    assert len(summary.unsatisfied) == 100
    reasons = [job.reason for job in summary.unsatisfied]
    assert len(asked) == 10
    assert len(set(reasons)) == 10


@pytest.mark.parametrize("packing", [{}, COST], ids=str)
def test_a_bad_job_is_set_aside_by_every_strategy(packing):
    """The others are placed as without it."""

    class Broken(Own):
        def satisfied_by_node(self, node):
            raise ValueError("broken")

    jobs = [*ten_jobs(), Job("bad", [{"ncpus": 1}, Broken()])]
    summary = Autoscaler(config_of(packing), Driver(jobs), dry_run=True).run_once()
    assert [job.name for job in summary.set_aside] == ["bad"]
    assert "broken" in summary.set_aside[0].reason
    assert told(summary.demand) == told(by_add_jobs(packing, ten_jobs()))


def test_names_that_cannot_be_given_set_jobs_aside(monkeypatch):
    """In a plan for many jobs as one by one: each is reported, and no node is planned."""

    def hook(bucket, index):
        raise ValueError("no names today")

    class Nameless(Driver):
        def preprocess_node_mgr(self, config, node_mgr):
            node_mgr.set_node_name_hook(hook)

    loop = Autoscaler(config_of(COST), Nameless(ten_jobs()), dry_run=True)
    summary = loop.run_once()
    assert len(summary.set_aside) == 10
    assert not summary.demand.new_nodes


def test_the_summary_says_the_price():
    """In words, and as a number."""
    summary = Autoscaler(config_of(COST), Driver(ten_jobs()), dry_run=True).run_once()
    assert "new nodes: $1.6900 per hour, at most 0.000% above the least" in str(summary)
    assert summary.fields()["price_per_hour"] == pytest.approx(1.69)
    assert Autoscaler(config_of({}), Driver([]), dry_run=True).run_once().cost is None


def test_nobody_is_told_of_what_is_made_for_a_reader():
    """Handlers hear of placing alone."""
    calc = calculator({})
    outcomes = calc.place([Job("a", {"ncpus": 1}), Job("b", {"ncpus": 999})])
    heard = []
    results.register_result_handler(heard.append)
    try:
        assert outcomes[0].result and not outcomes[1].result
        assert outcomes[1].reasons
    finally:
        results.unregister_result_handler(heard.append)
        results.HANDLERS.clear()
    assert not heard


@pytest.mark.parametrize("packing", OPTIONS, ids=str)
def test_nodes_are_not_searched_for_each_job(packing, monkeypatch):
    """However many jobs there are: no strategy looks for a job on all nodes while it places."""
    calc = calculator(packing)
    searches = []
    get_nodes = type(calc.node_mgr).get_nodes

    def counted(manager):
        searches.append(1)
        return get_nodes(manager)

    monkeypatch.setattr(type(calc.node_mgr), "get_nodes", counted)
    calc.add_jobs(mixed_jobs())
    assert len(searches) < 5


def gang_price(way, packing):
    """What two exclusive nodes and three scattered slots cost where the large size is declared
    first."""
    jobs = [
        Job("gang", [{"ncpus": 1}, {"exclusive": True}], node_count=2, colocated=True),
        Job("spread", {"ncpus": 1}, iterations=3, packing_strategy="scatter"),
    ]
    return Counter(node.vm_size for node in way(packing, jobs).new_nodes)


@pytest.mark.parametrize("way", WHOLE_QUEUES)
def test_gangs_and_scattered_jobs_open_the_cheapest_nodes(way):
    """In cost mode, however they are handed over; in declared order they open the first size that
    fits."""
    for packing in (COST, {**COST, "optimize_rounds": 0}, {"policy": "least-waste"}):
        assert set(gang_price(way, packing)) == {"Standard_F4s_v2"}
    assert set(gang_price(way, {})) == {"Standard_M128"}


def test_a_bound_for_single_jobs_says_so():
    """Jobs that are added one by one are planned one by one, and so is the bound; those that come
    together have one."""
    one_by_one = by_add_job(COST, ten_jobs()).cost
    assert (one_by_one.queues, one_by_one.one_by_one) == (10, True)
    assert "at most 0.000% above the least of each of 10 jobs by itself" in str(one_by_one)
    together = by_add_jobs(COST, ten_jobs()).cost
    assert (together.queues, together.one_by_one) == (1, False)
    assert "by itself" not in str(together)
    assert by_add_jobs(COST, ten_jobs()[:1]).cost.queues == 1
