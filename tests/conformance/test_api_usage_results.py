"""Section 5: `hpc.autoscale.results`."""

import io
import logging as stdlib

import pytest

from builders.nodes import a_manager, a_planned_node
from builders.published import row
from hpc.autoscale import hpclogging, results
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import MinResourcePerNode
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.results import (
    AllocationResult,
    BootupResult,
    CandidatesResult,
    DefaultContextHandler,
    DeleteResult,
    EarlyBailoutResult,
    MatchResult,
    Result,
    SatisfiedResult,
    ShutdownResult,
    register_result_handler,
    unregister_all_result_handlers,
)
from hpc.autoscale.util import NullSingletonLock


def _one_of_each(status):
    node, constraint = a_planned_node(), MinResourcePerNode("ncpus", 1)
    reasons = None if status == "success" else ["too small", "too far"]
    nodes, slots = ([node], 1) if status == "success" else (None, None)
    return [
        AllocationResult(status, nodes, slots, reasons=reasons),
        MatchResult(status, node, 1, reasons),
        CandidatesResult(status, child_results=[]),
        SatisfiedResult(status, constraint, node, reasons),
        BootupResult(status, "op", ["r"], nodes, reasons),
        EarlyBailoutResult(status, node, reasons),
    ]


@row("results.Result")
@pytest.mark.parametrize("index", range(6))
def test_only_success_is_true(index):
    """Reasons are always a list, and the message and both texts say something."""
    good, bad = _one_of_each("success")[index], _one_of_each("Failed")[index]
    assert isinstance(good, Result)
    assert (bool(good), bool(bad)) == (True, False)
    assert (good.status, bad.status) == ("success", "Failed")
    assert good.reasons == []
    assert isinstance(bad.reasons, list)
    for result in (good, bad):
        assert result.status in str(result)
        assert type(result).__name__ in repr(result)
        assert isinstance(result.message, str)


@row("results.Result")
def test_the_message_of_a_failure_is_its_reasons():
    """Slurm prints `.message`, and reads `.reasons` by getattr."""
    result = AllocationResult("NoCapacity", reasons=["too small", "too far"])
    assert result.message == "too small\ntoo far"
    assert getattr(result, "reasons", []) == ["too small", "too far"]


@row("results.SatisfiedResult")
def test_constraints_of_others_make_satisfied_results():
    """With or without reasons and a score; registered handlers hear of each."""
    heard = []
    register_result_handler(heard.append)
    node, constraint = a_planned_node(), MinResourcePerNode("ncpus", 1)
    plain = SatisfiedResult("success", constraint, node)
    scored = SatisfiedResult("success", constraint, node, score=3)
    refused = SatisfiedResult("WrongQueue", constraint, node, reasons=["not in all.q"])
    assert (int(plain), int(scored)) == (1, 3)
    assert (refused.constraint, refused.node, refused.reasons) == (
        constraint,
        node,
        ["not in all.q"],
    )
    assert not refused
    assert heard == [plain, scored, refused]


@row("results.EarlyBailoutResult")
def test_early_bailout_with_and_without_a_node():
    """`("success")` and `(status, node, reasons)`."""
    node = a_planned_node()
    go_on, stop = EarlyBailoutResult("success"), EarlyBailoutResult("full", node, ["no room"])
    assert (bool(go_on), go_on.node, bool(stop), stop.node) == (True, None, False, node)
    assert stop.reasons == ["no room"]


@row("results.isinstance")
def test_analyze_skips_what_succeeded():
    """Grid Engine leaves out matches and bailouts that succeeded, by their classes."""

    def interesting(result):
        return not (isinstance(result, (MatchResult, EarlyBailoutResult)) and result)

    node = a_planned_node()
    heard = [
        EarlyBailoutResult("success"),
        MatchResult("success", node, 1),
        MatchResult("NodeRejected", node, 1, ["full"]),
        SatisfiedResult("success", MinResourcePerNode("ncpus", 1), node),
    ]
    assert [type(r) for r in heard if interesting(r)] == [MatchResult, SatisfiedResult]


@row("results.AllocationResult")
def test_nodes_are_a_list_and_slots_a_number():
    """Also of a failure; HPC Pack adds the slots up."""
    node_mgr = a_manager()
    results_ = [
        node_mgr.allocate({"ncpus": 1}, slot_count=6),
        node_mgr.allocate({"ncpus": 1}, slot_count=1),
        node_mgr.allocate({"ncpus": 99}, slot_count=1),
    ]
    assert [len(r.nodes) for r in results_] == [2, 1, 0]
    assert sum(r.total_slots for r in results_ if r) == 7
    assert results_[2].nodes == []
    assert isinstance(results_[2].total_slots, int)


@row("results.operations")
def test_operations_say_which_nodes_and_under_which_id():
    """Nodes may be None where there was nothing to do; PBS and Grid Engine hand them on as they
    are."""
    node_mgr = a_manager()
    dcalc = DemandCalculator({}, node_mgr, NullNodeHistory(), singleton_lock=NullSingletonLock())
    nothing_up, nothing_down = dcalc.bootup([]), dcalc.delete([])
    dcalc.add_job(Job("1", {"ncpus": 4}, iterations=2))
    booted = dcalc.bootup()
    gone = node_mgr.shutdown_nodes(booted.nodes)
    assert [type(r) for r in (nothing_up, nothing_down, gone)] == [
        BootupResult,
        DeleteResult,
        ShutdownResult,
    ]
    assert [bool(r) for r in (nothing_up, nothing_down, booted, gone)] == [True] * 4
    assert nothing_up.nodes is None and nothing_down.nodes is None
    assert (nothing_up.operation_id, nothing_down.operation_id) == ("", "")
    assert [n.name for n in booted.nodes] == [n.name for n in gone.nodes] == ["htc-1", "htc-2"]
    assert booted.operation_id in node_mgr.cluster_bindings.operations
    assert gone.operation_id in node_mgr.cluster_bindings.operations


@row("results.register")
def test_registering_returns_the_handler_and_calls_it_at_construction():
    """As in `ctx = register_result_handler(DefaultContextHandler("[initialization]"))`."""
    handler = DefaultContextHandler("[initialization]")
    seen = []
    assert register_result_handler(handler) is handler
    register_result_handler(lambda result: seen.append(result.reasons))
    made = MatchResult("NodeClosed", a_planned_node(), 1, ["closed"])
    assert handler.by_context["[initialization]"] == [made]
    assert seen == [["closed"]]


@row("results.unregister_all")
def test_the_list_of_handlers_stays_the_same_object():
    """Emptied in place, so that who holds it sees it."""
    held = results.HANDLERS
    register_result_handler(handler := DefaultContextHandler("x"))
    assert results.HANDLERS[0] is handler
    unregister_all_result_handlers()
    assert held == []
    assert results.HANDLERS is held


@row("results.DefaultContextHandler")
def test_results_are_filed_by_context():
    """In order, under the context that was set, which the log shows too."""
    ctx = register_result_handler(DefaultContextHandler("[initialization]"))
    node = a_planned_node()
    first = MatchResult("success", node, 1)
    ctx.set_context("[Job 1]")
    stream = io.StringIO()
    handler = stdlib.StreamHandler(stream)
    handler.setFormatter(stdlib.Formatter("%(context)s"))
    hpclogging.getLogger().addHandler(handler)
    hpclogging.warning("x")
    hpclogging.getLogger().removeHandler(handler)
    second, third = MatchResult("NodeClosed", node, 1), MatchResult("success", node, 1)
    assert ctx.by_context == {"[initialization]": [first], "[Job 1]": [second, third]}
    assert stream.getvalue() == "[Job 1]\n"


@row("results.DefaultContextHandler")
def test_nodes_learn_in_which_contexts_they_were_used():
    """The context is added to a set in `metadata["contexts"]` of the nodes of a result."""
    ctx = register_result_handler(DefaultContextHandler("[initialization]"))
    node_mgr = a_manager()
    for job in ("[Job 1]", "[Job 2]"):
        ctx.set_context(job)
        node_mgr.allocate({"ncpus": 1}, slot_count=1)
    (node,) = node_mgr.get_nodes()
    assert node.metadata["contexts"] == {"[Job 1]", "[Job 2]"}
    assert [r.status for r in ctx.by_context["[Job 1]"] if isinstance(r, AllocationResult)] == [
        "success"
    ]
