"""The gate before every command: each guard, what it refuses and for whom, and what it counts."""

import ast
import inspect

import pytest

from builders.nodes import a_planned_node, an_htc_cluster
from builders.sources import ROOT, trees
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node import operations
from hpc.autoscale.node.guards import AWAY, GUARDS, Asker, Facts, Gate, in_words, key_of
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.onpremises.hosts import ON_PREMISES
from hpc.autoscale.testing import without_guard

LOOP = {
    "asker": Asker.LOOP,
    "busy": set(),
    "listed": {},
    "existing": 100,
    "is_complete": True,
}
PERSON = {"asker": Asker.PERSON}


def a_node(number=1, **changed):
    """A node of CycleCloud that is ready and has nothing to do."""
    return a_planned_node(
        name=f"htc-{number}",
        id=f"id-{number}",
        exists=True,
        **{"state": "Ready", "keep_alive": False, **changed},
    )


def a_gate(**facts):
    """A gate that knows this."""
    gate = Gate()
    for name, value in facts.items():
        assert hasattr(gate.facts, name), name
        setattr(gate.facts, name, value)
    return gate


def busy_there():
    """A node of which the second look at the scheduler says that it has work."""
    node = a_node()
    return node, {**LOOP, "busy": {key_of(node)}}


def assigned():
    """A node on which work was placed."""
    node = a_node()
    node.assign("7")
    return node


def required():
    """A node that an integration says is needed."""
    node = a_node()
    node.required = True
    return node


def came(at):
    """A node that was first seen then."""
    node = a_node()
    node.create_time_unix = at
    return node


def idle(node, **facts):
    """The facts of the loop about a node that it finds idle."""
    return node, {**LOOP, "why": {key_of(node): "idle"}, **facts}


CASES = {
    "managed": [
        ("restart", a_node(managed=False), {}),
        ("restart", a_node(managed=False, location=ON_PREMISES), LOOP),
        ("drain", a_node(managed=False, location=ON_PREMISES), PERSON),
    ],
    "cluster-answers": [
        ("restart", a_node(state=AWAY), {}),
        ("delete", a_node(), {**LOOP, "listed": {"id-1": {"Status": AWAY}}}),
    ],
    "created": [("delete", a_planned_node(name="htc-1"), {})],
    "cluster-wanted": [
        ("create", a_planned_node(name="htc-1"), {"cluster_target": "Terminated"}),
        ("start", a_node(), {"cluster_target": "Terminated"}),
    ],
    "scheduler-asked": [("delete", a_node(), {**LOOP, "busy": None})],
    "cluster-asked": [("delete", a_node(), {**LOOP, "listed": None})],
    "answer-complete": [
        ("drain", *idle(a_node(), is_complete=False)),
        ("delete", *idle(a_node(), is_complete=None)),
        ("delete", *idle(a_node(), missing={"id-1"})),
    ],
    "host-reported": [
        ("drain", *idle(a_node(), unwitnessed={"id-1"})),
        ("delete", *idle(a_node(), unwitnessed={"id-1"})),
    ],
    "still-so": [
        (
            "delete",
            a_node(),
            {**LOOP, "why": {"id-1": why}, "listed": {"id-1": {"Status": "Ready"}}},
        )
        for why in ("failed", "overdue")
    ],
    "idle-passes": [
        ("drain", *idle(a_node(), min_idle_passes=2, idle_passes={"id-1": 1})),
        ("drain", *idle(a_node(), min_idle_passes=1)),
    ],
    "min-lifetime": [
        ("drain", *idle(came(1000.0), now=1059.0, min_lifetime=60.0)),
        ("drain", *idle(a_node(), now=1e9, min_lifetime=60.0)),
    ],
    "no-jobs": [
        ("delete", *busy_there()),
        ("drain", assigned(), LOOP),
        ("restart", a_node(), {**PERSON, "work": lambda node: "has jobs: 7"}),
    ],
    "not-required": [("reimage", required(), PERSON), ("delete", required(), PERSON)],
    "not-kept": [
        ("delete", a_node(keep_alive=True), LOOP),
        ("drain", a_node(keep_alive=True), PERSON),
        ("delete", a_node(), {**LOOP, "listed": {"id-1": {"KeepAlive": True}}}),
    ],
}


@pytest.mark.parametrize(
    ("name", "command", "node", "facts"),
    [(name, *case) for name, cases in CASES.items() for case in cases],
)
def test_a_guard_refuses_with_its_code(name, command, node, facts):
    """And without it nothing else does."""
    allowed, (refusal,) = a_gate(**facts).ask(command, [node])
    assert (allowed, refusal.guard, refusal.code) == ([], name, GUARDS[name].code)
    assert refusal.code in str(refusal)
    with without_guard(name):
        assert a_gate(**facts).ask(command, [node]).allowed == [node]


def test_hosts_of_others_may_be_drained():
    """Those that only the scheduler knows; hosts on premises by the loop alone."""
    host, on_premises = a_node(managed=False), a_node(managed=False, location=ON_PREMISES)
    assert a_gate(**PERSON).ask("drain", [host]).allowed == [host]
    assert a_gate(**LOOP).ask("drain", [host, on_premises]).allowed == [host, on_premises]
    (refusal,) = a_gate(**LOOP).ask("restart", [host]).refused
    assert str(refusal) == "htc-1: is not managed by CycleCloud [NotManaged]"


@pytest.mark.parametrize("why", ["failed", "marked"])
def test_what_is_given_up_does_not_wait_for_the_scheduler(why):
    """A node that has failed may be missing from its answer for that very reason."""
    node = a_node()
    facts = {**LOOP, "why": {key_of(node): why}, "is_complete": False, "missing": {key_of(node)}}
    assert a_gate(**facts).ask("delete", [node]).allowed == [node]


@pytest.mark.parametrize(
    ("why", "state", "code"),
    [
        ("surplus", "Starting", "Recovered"),
        ("gang", "Starting", "Recovered"),
        ("gang", "Ready", None),
        ("idle", "Ready", None),
        ("marked", "Failed", None),
    ],
)
def test_who_may_stay_for_having_become_ready(why, state, code):
    """Whoever was to go for not being so; a node that was ready before goes for another reason."""
    node = a_node(state=state)
    listed = {"id-1": {"Status": "Ready"}}
    gate = a_gate(**{**LOOP, "why": {key_of(node): why}, "listed": listed})
    assert next((r.code for r in gate.ask("delete", [node]).refused), None) == code


def test_a_node_that_is_old_and_idle_enough_goes():
    """And one that is not idle needs neither."""
    node, facts = idle(came(1000.0), now=1060.0, min_lifetime=60.0, min_idle_passes=2)
    facts["idle_passes"] = {key_of(node): 2}
    assert a_gate(**facts).ask("drain", [node]).allowed == [node]
    young = a_gate(**{**LOOP, "min_lifetime": 60.0, "why": {key_of(node): "overdue"}})
    assert young.ask("delete", [node]).allowed == [node]


def test_a_node_goes_that_is_too_small_for_the_work_of_new_ones():
    """The smallest of that work counts, and any amount that a node has too little of."""
    node, facts = idle(a_node(resources={"ncpus": 4, "memgb": 2}))
    gate = a_gate(**facts)
    for name, cores, memory in (("htc-2", 4, 8), ("htc-3", 2, 4)):
        new = a_planned_node(name=name, resources={"ncpus": 4, "memgb": 8})
        new.available["ncpus"] -= cores
        new.available["memgb"] -= memory
        gate.ask("create", [new])
        assert gate.ask("drain", [node]).allowed == [node]
    small = a_planned_node(name="htc-4", resources={"ncpus": 4, "memgb": 8})
    small.available["memgb"] -= 2
    gate.ask("create", [small])
    assert [r.code for r in gate.ask("drain", [node]).refused] == ["OfferingWanted"]


def test_no_create_and_delete_of_an_offering_in_one_pass():
    """An idle node stays where nodes like it come; one that has failed is no substitute."""
    node, facts = idle(a_node())
    gate = a_gate(**facts)
    gate.ask("create", [a_planned_node(name="htc-2")])
    assert [r.code for r in gate.ask("drain", [node]).refused] == ["OfferingWanted"]
    gate.facts.why[key_of(node)] = "failed"
    assert gate.ask("delete", [node]).allowed == [node]
    gate.facts.why[key_of(node)] = "idle"
    with without_guard("not-both"):
        assert gate.ask("drain", [node]).allowed == [node]
    for other in ({"nodearray": "hpc"}, {"placement_group": "pg0"}):
        gate = a_gate(**facts)
        gate.ask("create", [a_planned_node(name="new-1", **other)])
        assert gate.ask("drain", [node]).allowed == [node]


@pytest.mark.parametrize(
    ("name", "command", "facts"),
    [
        ("max-new", "create", {"max_new": 2}),
        ("max-new", "start", {"max_new": 2}),
        ("max-deletes", "drain", {"max_deletes": 2}),
        ("max-share", "delete", {"existing": 30, "max_share": 0.07}),
    ],
)
def test_rations_count_once_for_the_whole_pass(name, command, facts):
    """In however many parts it is asked; a node that was allowed is allowed again."""
    gate = a_gate(**{**LOOP, **facts})
    planned = command == "create"
    nodes = [a_planned_node(name=f"n-{i}") if planned else a_node(i) for i in range(4)]
    assert gate.ask(command, nodes[:1]).allowed == nodes[:1]
    allowed, refused = gate.ask(command, nodes)
    assert allowed == nodes[:2]
    assert {(r.guard, r.code, r.is_ration) for r in refused} == {(name, GUARDS[name].code, True)}
    assert gate.ask(command, nodes[2:]).allowed == []
    with without_guard(name):
        assert gate.ask(command, nodes[2:]).allowed == nodes[2:]


def test_draining_and_deleting_are_one_ration():
    """A node that was drained may be deleted; one that was given back makes room for another."""
    gate = a_gate(**LOOP, max_deletes=1)
    first, second = a_node(1), a_node(2)
    assert gate.ask("drain", [first, second]).allowed == [first]
    assert gate.ask("delete", [second, first]).allowed == [first]
    gate.give_back([first])
    assert gate.ask("delete", [second]).allowed == [second]


def test_a_decision_without_rations_counts_nothing():
    """Who is idle is asked before it is known how many may go."""
    gate = a_gate(**LOOP, max_deletes=0)
    nodes = [a_node(1), a_node(2, keep_alive=True)]
    assert gate.ask("drain", nodes, rationed=False).allowed == nodes[:1]
    assert gate.ration("delete", nodes).allowed == []


def test_how_many_may_come_is_no_limit_of_what_goes():
    """Also where what goes is only counted, and all else is asked later."""
    gate = a_gate(**LOOP, max_new=0)
    assert gate.ration("delete", [a_node()]).allowed != []


def test_what_neither_comes_nor_goes_takes_no_place():
    """A node that is tried again stays, and another may go."""
    gate = a_gate(**LOOP, max_deletes=1)
    assert gate.ask("retry", [a_node(1)]).allowed != []
    assert gate.ration("delete", [a_node(2)]).allowed != []


def test_a_share_counts_from_so_many_nodes_on():
    """A small cluster may go as a whole; of a large one whose size is not known nothing goes."""
    nodes = [a_node(i) for i in range(20)]
    small = a_gate(**{**LOOP, "existing": 20, "max_share": 0.5})
    assert small.ask("delete", nodes).allowed == nodes
    unknown = a_gate(**{**LOOP, "existing": None, "max_share": 0.5})
    assert unknown.ask("delete", nodes).allowed == []


def test_nothing_is_known_of_facts_that_nobody_brought():
    """A gate that is asked for the loop, and was told nothing else, lets no node go."""
    allowed, refused = a_gate(asker=Asker.LOOP).ask("delete", [a_node()])
    assert (allowed, [r.code for r in refused]) == ([], ["SchedulerUnknown"])


def test_a_caller_needs_no_more_than_the_word_of_cyclecloud():
    """A program that names nodes with work or to be kept alive means them."""
    nodes = [assigned(), a_node(2, keep_alive=True)]
    for command in ("delete", "shutdown", "restart", "reimage", "drain"):
        assert Gate().ask(command, nodes).allowed == nodes


def test_a_node_to_be_kept_alive_may_be_started_afresh():
    """It is to stay, and that it does."""
    kept = a_node(keep_alive=True)
    assert a_gate(**PERSON).ask("restart", [kept]).allowed == [kept]


def test_refusals_are_kept_once_each():
    """However often the gate is asked."""
    gate = a_gate(**LOOP)
    for _ in range(3):
        gate.ask("drain", [a_node(keep_alive=True)])
    assert [str(r) for r in gate.refused.values()] == ["htc-1: is to be kept alive [KeepAlive]"]


def test_what_is_refused_for_one_reason_is_one_sentence():
    """Three nodes are named."""
    nodes = [a_node(number, keep_alive=True) for number in range(1, 6)]
    refused = a_gate(**LOOP).ask("drain", [assigned(), *nodes[1:]]).refused
    assert in_words(refused) == [
        "htc-1: has jobs: 7 [HasJobs]",
        "htc-2, htc-3, htc-4 and 1 more: is to be kept alive [KeepAlive]",
    ]
    assert in_words(refused[:4]) == [
        "htc-1: has jobs: 7 [HasJobs]",
        "htc-2, htc-3, htc-4: is to be kept alive [KeepAlive]",
    ]


def test_a_guard_that_there_is_not():
    """Is named, with a guess."""
    with (
        pytest.raises(AutoscaleError, match=r"no guard 'max_new'.*max-new"),
        without_guard("max_new"),
    ):
        pass


def test_guards_are_put_back_in_their_place():
    """The order is that in which they are asked."""
    before = list(GUARDS)
    with without_guard("managed"):
        assert "managed" not in GUARDS
    assert list(GUARDS) == before


def test_rations_are_asked_last():
    """What a node itself is refused for takes no place of those that may go."""
    rations = [guard.is_ration for guard in GUARDS.values()]
    assert rations == sorted(rations)


def test_codes_are_told_apart():
    """One code for each guard."""
    assert len({guard.code for guard in GUARDS.values()}) == len(GUARDS)


# -- nothing goes past it


VERBS = sorted(operations.COMMANDS)


def test_every_command_of_a_binding_has_its_name_for_the_gate():
    """All that a binding can do to nodes that are named, `create_nodes` apart, which is its own."""
    from hpc.autoscale.ccbindings.interface import ClusterBindingInterface

    taking_nodes = {
        name
        for name, function in inspect.getmembers(ClusterBindingInterface, inspect.isfunction)
        if name.endswith("_nodes") and "nodes" in inspect.signature(function).parameters
    }
    assert taking_nodes - {"create_nodes"} == set(VERBS)


CHANGING = {*operations.COMMANDS, "create_nodes", "retry_failed_nodes", "scale"}
"""What a binding can be asked to change. Nothing here calls `scale`, which integrations have."""


def test_whatever_a_binding_can_change_is_known_here():
    """A method that is none of the ones that only look is a command."""
    from hpc.autoscale.ccbindings.interface import ClusterBindingInterface

    methods = dict(inspect.getmembers(ClusterBindingInterface, inspect.isfunction))
    looking = {name for name in methods if name.startswith(("get_", "_", "check_"))}
    assert set(methods) - looking == CHANGING


def _changes_a_cluster(call):
    """Whether a binding is called to change something, by a method or by a name in a variable."""
    function, receiver = call.func, ""
    if isinstance(function, ast.Attribute) and function.attr in CHANGING:
        receiver = ast.unparse(function.value)
    elif isinstance(function, ast.Call) and ast.unparse(function.func) == "getattr":
        receiver = ast.unparse(function.args[0])
    return "binding" in receiver


def test_commands_are_sent_from_one_module():
    """Which asks the gate: nobody else in the library calls a method of a binding that changes
    something; `dynamic` and `several` are bindings themselves, and pass on what they were told."""
    found = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _changes_a_cluster(node):
                found.add(path.relative_to(ROOT).as_posix())
    bindings = {"requestsets/dynamic.py", "ccbindings/several.py"}
    assert found == {"node/operations.py", *bindings}


@pytest.fixture
def cluster():
    """A cluster with a node that is ready."""
    made = an_htc_cluster()
    made.add_node("htc-1", "htc", state="Ready")
    return made


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "start_nodes"])
def test_no_command_of_the_manager_goes_past_the_gate(cluster, verb):
    """A command that is refused is not sent, and the result says why."""
    manager = new_node_manager({"cluster_name": "c", "_mock_bindings": cluster})
    manager.gate.facts = Facts(asker=Asker.LOOP)
    (node,) = manager.get_nodes()
    node.assign("7")
    before = dict(cluster.operations)
    method = {"delete_nodes": "delete"}.get(verb, verb)
    result = getattr(manager, method)([node])
    assert (result.status, result.nodes) == ("Failed", [])
    assert any(code in result.reasons[0] for code in ("[HasJobs]", "[SchedulerUnknown]"))
    assert result.reasons[0].startswith("cluster clusty: htc-1: ")
    assert cluster.operations == before


def test_a_terminated_cluster_gets_no_new_node(cluster):
    """Not by a program either, and no request id is used up."""
    cluster.target_state = "Terminated"
    manager = new_node_manager({"cluster_name": "c", "_mock_bindings": cluster})
    manager.allocate({"ncpus": 1}, node_count=3, allow_existing=False)
    result = manager.bootup()
    assert not result
    (reason,) = result.reasons
    assert "htc-2, htc-3, htc-4: the target state of the cluster is Terminated" in reason
    assert manager.requests.unsettled == []
    assert set(cluster.nodes) == {"htc-1"}


def test_managers_made_of_nothing_have_a_gate(cluster):
    """As integrations make them."""
    assert NodeManager(cluster, []).gate.facts.asker is Asker.CALLER
