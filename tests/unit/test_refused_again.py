"""Thousands of jobs that ask for the same and find nothing: it is worked out once, and each handler
hears it for each job."""

import pytest

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale import results
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodemanager import reporting
from hpc.autoscale.results import AllocationResult, CandidatesResult, DefaultContextHandler

FULL, NOWHERE = {"ncpus": 1}, {"ncpus": 10_000}


@pytest.fixture
def handler():
    """Hears everything, filed by context."""
    made = DefaultContextHandler("[before]")
    results.register_result_handler(made)
    yield made
    results.unregister_result_handler(made)


@pytest.fixture
def worked_out(monkeypatch):
    """For what refusals were worked out."""
    calls = []
    original = reporting._refusals

    def counted(manager, compiled, verdict):
        calls.append(compiled)
        return original(manager, compiled, verdict)

    monkeypatch.setattr(reporting, "_refusals", counted)
    return calls


def full_calculator():
    """Over a cluster whose nodes are all taken."""
    calculator = DemandCalculator({}, a_manager(an_htc_cluster()))
    calculator.add_job(Job("all", {"ncpus": 1}, iterations=1_000_000))
    return calculator


def kinds(told):
    """Classes, statuses and texts."""
    return [(type(result).__name__, result.status, list(result.reasons)) for result in told]


@pytest.mark.parametrize("wanted", [FULL, NOWHERE], ids=str)
def test_refusals_are_worked_out_once(handler, worked_out, wanted):
    """And each of the jobs has all of it under its own context, in the same words."""
    calculator = full_calculator()
    worked_out.clear()
    for number in range(50):
        handler.set_context(f"[Job {number}]")
        calculator.add_job(Job(str(number), wanted))
    assert not worked_out
    first, *others = (kinds(handler.by_context[f"[Job {number}]"]) for number in range(50))
    assert len(worked_out) == 1
    assert first[-1][:2] == ("AllocationResult", "Failed")
    assert first[-1][2]
    assert all(other == first for other in others)


def test_each_refused_job_has_a_result_of_its_own(handler):
    """With how much it asked for."""
    calculator = full_calculator()
    handler.by_context.clear()
    for slots in (1, 7, 3):
        calculator.add_job(Job(f"j{slots}", FULL, iterations=slots))
    (heard,) = handler.by_context.values()
    asked = [result.total_slots for result in heard if isinstance(result, AllocationResult)]
    assert asked == [1, 7, 3]


def test_room_is_used_as_soon_as_there_is_some(handler):
    """What was said before does not keep a job out."""
    calculator = full_calculator()
    for name in "abc":
        calculator.add_job(Job(name, FULL))
    node = calculator.node_mgr.get_nodes()[0]
    node.available["ncpus"] = 1
    last = Job("last", FULL)
    calculator.add_job(last)
    assert last.iterations_remaining == 0
    assert "last" in node.assignments
    refused = Job("too late", FULL)
    calculator.add_job(refused)
    assert refused.iterations_remaining == 1


def test_a_request_of_the_manager_is_answered_by_itself(handler, worked_out):
    """`allocate` says what it finds now, however often jobs were refused."""
    calculator = full_calculator()
    for name in "ab":
        calculator.add_job(Job(name, FULL))
    handler.by_context.clear()
    worked_out.clear()
    assert calculator.node_mgr.allocate(FULL, slot_count=1).status == "NoAllocationSelected"
    assert handler.by_context["[before]"]
    assert len(worked_out) == 1


def test_handlers_of_other_kinds_hear_each_result():
    """Functions, and subclasses that hear one at a time."""

    class Counting(DefaultContextHandler):
        heard = 0

        def __call__(self, result):
            self.heard += 1
            super().__call__(result)

    calculator, told, counting = full_calculator(), [], Counting("[c]")
    results.register_result_handler(told.append)
    results.register_result_handler(counting)
    for name in "abc":
        calculator.add_job(Job(name, FULL))
    assert counting.heard == len(told) > 3
    assert len([result for result in told if isinstance(result, AllocationResult)]) == 3
    assert len([result for result in told if isinstance(result, CandidatesResult)]) == 3


def test_what_is_kept_stays_within_bounds():
    """Also when they are not made before they are read."""
    calculator = full_calculator()
    handler = DefaultContextHandler("[c]", max_results=10, max_contexts=2)
    results.register_result_handler(handler)
    try:
        for number in range(5):
            handler.set_context(number)
            calculator.add_jobs([Job(f"{number}.{each}", FULL) for each in range(25)])
    finally:
        results.unregister_result_handler(handler)
    assert list(handler.by_context) == [3, 4]
    assert all(10 <= len(kept) <= 20 for kept in handler.by_context.values())
