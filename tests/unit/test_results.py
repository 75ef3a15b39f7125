"""Results and who is told about them."""

import gc
import weakref

import pytest

from hpc.autoscale import hpclogging, results
from hpc.autoscale.errors import AutoscaleError, InvalidArgument
from hpc.autoscale.results import (
    AllocationResult,
    BootupResult,
    CandidatesResult,
    DefaultContextHandler,
    EarlyBailoutResult,
    MatchResult,
    NodeOperationResult,
    SatisfiedResult,
)


class FakeNode:
    """As much of a node as results look at."""

    def __init__(self, name="htc-1"):
        self.name = name
        self.metadata = {}

    def __str__(self):
        return self.name


def must_not_be_called():
    """A list that nobody may ask for."""
    raise AssertionError("was made although nobody has read it")


NODE = FakeNode()

MAKERS = [
    lambda: AllocationResult("success", [NODE], 1),
    lambda: MatchResult("success", NODE, 1),
    lambda: CandidatesResult("success", []),
    lambda: SatisfiedResult("success", "constraint", NODE),
    lambda: EarlyBailoutResult("success"),
    *[
        lambda cls=cls: cls("success", "op", ["req"], [NODE])
        for cls in [NodeOperationResult, *NodeOperationResult.__subclasses__()]
    ],
]


@pytest.mark.parametrize("make", MAKERS)
def test_every_result_tells_the_handlers_when_it_is_complete(make):
    """Handlers are called from the constructor, once, when all fields are there."""
    seen = []
    results.register_result_handler(lambda result: seen.append((result, str(result))))
    result = make()
    assert seen == [(result, str(result))] and result


def test_operations():
    """All operations have a result of their own."""
    names = {cls.__name__.removesuffix("Result") for cls in NodeOperationResult.__subclasses__()}
    assert names == set(
        "Bootup Deallocate Delete Remove Shutdown Start Terminate Reimage Restart".split()  # noqa: SIM905
    )


def test_handlers_are_called_in_order_and_may_leave_meanwhile():
    """The order is that of registration; a handler may unregister itself while being called."""
    seen = []

    def first(result):
        seen.append("first")
        results.unregister_result_handler(first)

    results.register_result_handler(first)
    results.register_result_handler(lambda result: seen.append("second"))
    EarlyBailoutResult("success")
    EarlyBailoutResult("success")
    assert seen == ["first", "second", "second"]


def test_registration():
    """Registering returns the handler, unregistering it too, or None when it was not there."""
    handler = results.register_result_handler(lambda result: None)
    assert [handler] == results.HANDLERS
    assert results.unregister_result_handler(handler) is handler
    assert results.unregister_result_handler(handler) is None


def test_what_cannot_be_called_is_no_handler():
    """It is refused when it is registered, not when the next result is made."""
    with pytest.raises(InvalidArgument, match=r"expected a handler .* found None"):
        results.register_result_handler(None)
    assert results.HANDLERS == []


def test_the_list_of_handlers_stays_the_same():
    """Unregistering everybody empties the published list in place."""
    handlers = results.HANDLERS
    results.register_result_handler(lambda result: None)
    results.unregister_all_result_handlers()
    assert handlers is results.HANDLERS and handlers == []


def test_what_a_handler_raises_reaches_the_caller():
    """Handlers are part of the program."""
    results.register_result_handler(lambda result: must_not_be_called())
    with pytest.raises(AssertionError, match="nobody has read"):
        EarlyBailoutResult("success")


@pytest.mark.parametrize("status, expected", [("success", True), ("Failed", False), ("", False)])
def test_truth_is_success(status, expected):
    """Only the status "success" is true."""
    assert bool(EarlyBailoutResult(status)) is expected


def test_reasons_are_always_a_list():
    """Given or not, as a list, a tuple or a function."""
    given = ["a", "b"]
    assert EarlyBailoutResult("x").reasons == []
    assert EarlyBailoutResult("x", reasons=given).reasons is given
    assert EarlyBailoutResult("x", reasons=("a", "b")).reasons == given
    assert EarlyBailoutResult("x", reasons=lambda: given).reasons is given


def test_reasons_are_made_once_when_read():
    """A function for reasons is called at the first reading only."""
    made = []

    def reasons():
        made.append(1)
        return ["because"]

    result = SatisfiedResult("Failed", "constraint", NODE, reasons)
    assert made == []
    assert result.reasons is result.reasons and made == [1]


def test_reasons_can_be_replaced():
    """reasons is an attribute like any other."""
    result = EarlyBailoutResult("x", reasons=["old"])
    result.reasons = ["new"]
    assert result.reasons == ["new"]


def test_ids_are_unique_and_stable():
    """Each result has an id of its own."""
    a, b = EarlyBailoutResult("x"), EarlyBailoutResult("x")
    assert a.result_id == a.result_id != b.result_id and len(a.result_id) == 36


@pytest.mark.parametrize("make", MAKERS)
def test_results_are_gone_when_nobody_holds_them(make):
    """A result is in no reference cycle, also after it was read."""
    gc.disable()
    try:
        result = make()
        assert result.reasons == [] and result.result_id and str(result)
        seen = weakref.ref(result)
        del result
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "nodes, slots", [([], 1), (None, 1), ([NODE], 0), ([NODE], None), ([NODE], -1)]
)
def test_a_successful_allocation_has_nodes_and_slots(nodes, slots):
    """Otherwise it is an AssertionError, and one of ours."""
    with pytest.raises(AssertionError) as e:
        AllocationResult("success", nodes, slots)
    assert isinstance(e.value, AutoscaleError)


def test_nodes_made_later():
    """Nodes may be a function, which the constructor does not call."""
    assert AllocationResult("success", must_not_be_called, 3).total_slots == 3
    result = AllocationResult("success", lambda: [NODE], 3)
    assert result.nodes == [NODE] and result.nodes is result.nodes


def test_failed_allocation():
    """nodes is never None, slots are -1 unless known, the message is the reasons."""
    result = AllocationResult("NoCapacity", reasons=["one", "two"])
    assert (result.nodes, result.total_slots, result.message) == ([], -1, "one\ntwo")
    assert AllocationResult("Failed", slots_allocated=5).total_slots == 5


def test_a_failed_allocation_says_where():
    """The cluster and the server are in its sentence and in its text."""
    result = AllocationResult("NoCapacity", reasons=["one", "two"], where="cluster c at http://s")
    assert result.message == "cluster c at http://s: one\ncluster c at http://s: two"
    assert str(result).endswith("reason=['one', 'two'], where=cluster c at http://s)")
    assert result.reasons == ["one", "two"]


@pytest.mark.parametrize(
    "result, expected",
    [
        (
            AllocationResult("success", [NODE], 4),
            "AllocationResult(status=success, num_nodes=1, nodes=['htc-1'])",
        ),
        (
            AllocationResult("NoCapacity", reasons=["full"]),
            "AllocationResult(status=NoCapacity, reason=['full'])",
        ),
        (MatchResult("success", NODE, 4), "MatchResult(status=success, node=htc-1, tasks=4)"),
        (
            MatchResult("NodeClosed", NODE, 4, ["a", "b"]),
            "MatchResult(status=NodeClosed, node=htc-1, reason=a AND b)",
        ),
        (
            SatisfiedResult("success", "ncpus=1", NODE, score=7),
            "SatisfiedResult(status=success, node=htc-1, score=7, constraint=ncpus=1)",
        ),
        (
            SatisfiedResult("Never", "never", NODE, ["no"]),
            "SatisfiedResult(status=Never, node=htc-1, reason=['no'], constraint=never)",
        ),
        (
            CandidatesResult("success", ["b1"]),
            "CandidatesResult(status=success, candidates=['b1'])",
        ),
        (BootupResult("success", "op", [], None), "BootupResult(status=success, nodes=[])"),
        (
            BootupResult("Failed", "op", [], None, ["down"]),
            "BootupResult(status=Failed, reason=['down'])",
        ),
        (EarlyBailoutResult("success"), "EarlyBailoutResult(status=success)"),
        (
            EarlyBailoutResult("full", NODE, ["no slots"]),
            "EarlyBailoutResult(status=full, node=htc-1, reason=['no slots'])",
        ),
    ],
)
def test_texts(result, expected):
    """The text of a result, which is its repr as well."""
    assert (str(result), repr(result)) == (expected, expected)


def test_messages():
    """The message of a successful allocation counts; others have their text."""
    allocated = AllocationResult("success", [NODE], 4)
    match = MatchResult("success", NODE, 4)
    assert allocated.message == "Allocated 4 slots on nodes=['htc-1']"
    assert match.message == str(match)


def test_reasons_of_a_match_are_texts():
    """Nested lists are a mistake of the caller."""
    with pytest.raises(AssertionError, match="list of texts"):
        MatchResult("NodeRejected", NODE, 1, [["nested"]])


def test_candidates_explain_themselves_by_their_children():
    """Reasons are the texts of the children; the text shows five different ones, in order."""
    children = [EarlyBailoutResult(f"s{i % 7}") for i in range(20)]
    result = CandidatesResult("CompoundFailure", None, lambda: children)
    assert result.candidates == [] and result.child_results is children
    assert result.reasons == [str(c) for c in children]
    shown = [f"EarlyBailoutResult(status=s{i}, node=None, reason=[])" for i in range(5)]
    assert str(result) == f"CandidatesResult(status=CompoundFailure, reason={shown})"


@pytest.mark.parametrize(
    "status, score, expected",
    [
        ("success", 1, 1),
        ("success", 100, 100),
        ("Failed", 1, 1),
        ("success", None, 1),
        ("x", None, 0),
    ],
)
def test_score(status, score, expected):
    """int gives the score, whatever the status; without one, whether it is a success."""
    assert int(SatisfiedResult(status, "c", NODE, score=score)) == expected


def test_nodes_of_an_operation_may_be_none():
    """None says that there was nothing to do."""
    assert BootupResult("success", "", None).nodes is None
    assert BootupResult("success", "", None, lambda: [NODE]).nodes == [NODE]


def test_context_handler_files_by_context():
    """Results are found under what was being worked on, in order."""
    handler = results.register_result_handler(DefaultContextHandler("[initialization]"))
    first = EarlyBailoutResult("a")
    handler.set_context("[Job 1]")
    rest = [EarlyBailoutResult("b"), EarlyBailoutResult("success")]
    assert handler.ctx == "[Job 1]"
    assert handler.by_context == {"[initialization]": [first], "[Job 1]": rest}


def test_context_handler_sets_the_logging_context(caplog):
    """What is logged meanwhile shows the context, or the text given for it."""
    handler = DefaultContextHandler(("job", 1))
    with caplog.at_level(hpclogging.INFO):
        hpclogging.info("one")
        handler.set_context(("job", 2), "[Job 2]")
        hpclogging.info("two")
    assert [r.context for r in caplog.records] == ["('job', 1)", "[Job 2]"]


def test_context_handler_logs_results(caplog):
    """Each result is a line at DEBUG."""
    results.register_result_handler(DefaultContextHandler("[x]"))
    with caplog.at_level(hpclogging.DEBUG):
        EarlyBailoutResult("success")
    assert caplog.messages == ["[x]: EarlyBailoutResult(status=success)"]


def test_context_handler_marks_nodes():
    """Nodes of a result know the contexts that they were used in."""
    handler = results.register_result_handler(DefaultContextHandler("[Job 1]"))
    node = FakeNode()
    AllocationResult("success", lambda: [node], 1)
    handler.set_context("[Job 2]")
    BootupResult("success", "op", [], [node])
    BootupResult("success", "op", [], None)
    assert node.metadata == {"contexts": {"[Job 1]", "[Job 2]"}}


def test_context_handler_keeps_failures_rather_than_successes():
    """A context that grows too long keeps its failures, then its newest successes, in order."""
    handler = results.register_result_handler(DefaultContextHandler("[x]", max_results=3))
    made = [
        EarlyBailoutResult(s)
        for s in ("success", "a", "success", "b", "success", "success", "success")
    ]
    assert handler.by_context["[x]"] == [made[1], made[3], made[6]]


def test_context_handler_forgets_old_failures():
    """Failures are bounded, too: the newest stay."""
    handler = results.register_result_handler(DefaultContextHandler("[x]", max_results=2))
    made = [EarlyBailoutResult(str(i)) for i in range(100)]
    kept = handler.by_context["[x]"]
    assert len(kept) <= 4 and kept == made[-len(kept) :]


def test_context_handler_forgets_old_contexts():
    """The number of contexts is bounded."""
    handler = results.register_result_handler(DefaultContextHandler(0, max_contexts=3))
    for job in range(10):
        handler.set_context(job)
        EarlyBailoutResult("x")
    assert list(handler.by_context) == [7, 8, 9]
