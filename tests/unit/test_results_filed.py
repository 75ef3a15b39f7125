"""What a handler files under its contexts is made when somebody reads it, and then is what another
handler hears at once."""

import copy

import pytest

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale import results
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.results import AllocationResult, DefaultContextHandler, Report, Result

CONTEXT = "[jobs]"
READINGS = {
    "item": lambda filed: [filed[CONTEXT]],
    "get": lambda filed: [filed.get(CONTEXT)],
    "setdefault": lambda filed: [filed.setdefault(CONTEXT, [])],
    "pop": lambda filed: [filed.pop(CONTEXT)],
    "popitem": lambda filed: [filed.popitem()[1]],
    "values": lambda filed: list(filed.values()),
    "items": lambda filed: [made for _, made in filed.items()],
    "copy": lambda filed: list(filed.copy().values()),
    "dict": lambda filed: list(dict(filed).values()),
    "unpacking": lambda filed: list({**filed}.values()),
    "or": lambda filed: list((filed | {}).values()),
    "or of a dict": lambda filed: list(({} | filed).values()),
    "update": lambda filed: list(_updated({}, filed).values()),
    "copying": lambda filed: list(copy.copy(filed).values()),
}


def _updated(known, filed):
    known.update(filed)
    return known


@pytest.fixture
def handler():
    """Registered for one test."""
    made = results.register_result_handler(DefaultContextHandler(CONTEXT))
    yield made
    results.unregister_all_result_handlers()


def a_calculator():
    """Over an empty cluster."""
    return DemandCalculator({}, a_manager(an_htc_cluster()))


def a_queue():
    """Jobs of all kinds: that fit, in part, on no bucket, on nothing that is left; gangs;
    scattered."""
    return [
        *(Job(f"one{number}", {"ncpus": number % 3 + 1}) for number in range(9)),
        Job("array", {"ncpus": 2}, iterations=7),
        Job("gang", {"ncpus": 1}, node_count=2, colocated=True),
        Job("scattered", {"ncpus": 1}, iterations=2, packing_strategy="scatter"),
        *(Job(f"nowhere{number}", {"ncpus": 10_000}) for number in range(3)),
        Job("all", {"ncpus": 1}, iterations=1_000_000),
        *(Job(f"late{number}", {"ncpus": number % 2 + 1}, iterations=2) for number in range(4)),
        Job("late gang", {"ncpus": 1}, node_count=3, colocated=True),
    ]


def told_of(job, listen):
    """Place the jobs before one and then that one; what a handler that hears each result at once
    hears of it."""
    calculator = a_calculator()
    for each in a_queue():
        if each.name == job:
            heard = listen()
            calculator.add_job(each)
            return heard()
        calculator.add_job(each)
    raise AssertionError(job)


def in_words(told):
    """Classes, statuses and texts."""
    return [(type(r).__name__, r.status, bool(r), list(r.reasons), r.message) for r in told]


def at_once():
    """A function as a handler."""
    heard = []
    results.register_result_handler(heard.append)

    def told():
        results.unregister_all_result_handlers()
        return in_words(heard)

    return told


def when_read():
    """The usual handler."""
    filing = results.register_result_handler(DefaultContextHandler(CONTEXT))

    def told():
        results.unregister_all_result_handlers()
        return in_words(filing.by_context[CONTEXT])

    return told


@pytest.mark.parametrize("job", [job.name for job in a_queue()])
def test_what_is_read_is_what_is_heard_at_once(job):
    """The same results, in the same order, in the same words."""
    assert told_of(job, when_read) == told_of(job, at_once) != []


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_every_way_of_reading_gives_results(handler, read):
    """And never what they are made from."""
    calculator = a_calculator()
    for job in a_queue():
        calculator.add_job(job)
    (found,) = read(handler.by_context)
    assert len(found) > 20
    assert all(isinstance(result, Result) for result in found)


def test_a_list_that_was_read_grows_with_what_is_heard_later(handler):
    """Whoever holds it sees it."""
    calculator = a_calculator()
    calculator.add_job(Job("a", {"ncpus": 1}))
    held = handler.by_context[CONTEXT]
    before = len(held)
    calculator.add_job(Job("b", {"ncpus": 1}))
    calculator.add_job(Job("c", {"ncpus": 10_000}))
    assert len(held) > before + 2
    assert all(isinstance(result, Result) for result in held)


def test_nodes_know_what_they_were_used_for_when_jobs_are_placed(handler):
    """Without anybody reading results."""
    calculator = a_calculator()
    handler.set_context("[Job a]")
    calculator.add_job(Job("a", {"ncpus": 1}))
    (node,) = calculator.node_mgr.new_nodes
    assert node.metadata["contexts"] == {"[Job a]"}


def test_each_job_has_its_own_result_whatever_others_asked_for(handler):
    """How many slots, in the number and in the words."""
    calculator = a_calculator()
    for slots in (3, 5, 3):
        calculator.add_job(Job(f"j{slots}", {"ncpus": 10_000}, iterations=slots))
    said = [r for r in handler.by_context[CONTEXT] if isinstance(r, AllocationResult)]
    assert [result.total_slots for result in said] == [3, 5, 3]
    assert len({id(result) for result in said}) == 3


def test_what_nobody_has_read_is_dropped(handler):
    """Reports, and results as well; what somebody has read stays."""
    calculator = a_calculator()
    handler.set_context("[Job a]")
    calculator.add_job(Job("a", {"ncpus": 10_000}))
    AllocationResult("Failed", reasons=["x"])
    handler.set_context("[read]")
    calculator.add_job(Job("b", {"ncpus": 10_000}))
    kept = list(handler.by_context["[read]"])
    handler.set_context("[made]")
    AllocationResult("Failed", reasons=["x"])
    handler.forget_unread()
    assert dict(handler.by_context) == {"[read]": kept}


def test_a_report_is_made_once():
    """Whoever reads it."""

    class Counted(Report):
        made = 0

        def _make(self):
            Counted.made += 1
            return [AllocationResult("Failed", reasons=["x"])]

    first, second, heard = DefaultContextHandler(1), DefaultContextHandler(2), []
    for each in (first, heard.append, second):
        results.register_result_handler(each)
    try:
        results.tell(Counted())
    finally:
        results.unregister_all_result_handlers()
    assert first.by_context[1] == second.by_context[2] == heard
    assert Counted.made == 1


def test_refused_jobs_cost_the_same_with_many_buckets_as_with_few():
    """Nothing is made for each bucket before somebody reads it."""
    made = []
    for arrays in (2, 200):
        binding = MockClusterBinding()
        for number in range(arrays):
            binding.add_nodearray(f"array{number}", {})
            binding.add_bucket(f"array{number}", "Standard_F4s_v2", 1, 1)
        calculator = new_demand_calculator(
            {"_mock_bindings": binding}, node_history=NullNodeHistory()
        )
        calculator.add_job(Job("all", {"ncpus": 1}, iterations=4 * arrays))
        handler = results.register_result_handler(DefaultContextHandler("[x]"))
        try:
            calculator.add_jobs([Job(f"j{n}", {"ncpus": n % 4 + 1}) for n in range(100)])
        finally:
            results.unregister_all_result_handlers()
        made.append(len(dict.get(handler.by_context, "[x]")))
    assert made == [100, 100]
