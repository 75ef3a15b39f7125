"""Section 8: `hpc.autoscale.node.constraints`."""

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from builders.published import row
from hpc.autoscale.job.job import Job
from hpc.autoscale.node import constraints as cons
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    Constraint,
    ExclusiveNode,
    InAPlacementGroup,
    MinResourcePerNode,
    Never,
    NodeConstraint,
    NodePropertyConstraint,
    NodeResourceConstraint,
    Or,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableConstraint,
    SharedNonConsumableResource,
    SharedResource,
    XOr,
    get_constraint,
    get_constraints,
    register_parser,
)
from hpc.autoscale.node.node import minimum_space
from hpc.autoscale.results import SatisfiedResult

EXPRESSIONS = [
    ({"ncpus": 1}, MinResourcePerNode),
    ({"mem": "memory::4g"}, MinResourcePerNode),
    ({"owner": "alice"}, NodeResourceConstraint),
    ({"owner": ["alice", "bob"]}, NodeResourceConstraint),
    ({"gpu": True}, NodeResourceConstraint),
    ({"owner": None}, NodeResourceConstraint),
    ({"node.vm_size": "Standard_F4"}, NodePropertyConstraint),
    ({"exclusive": True}, ExclusiveNode),
    ({"exclusive_task": "true"}, ExclusiveNode),
    ({"exclusive-task": 1}, ExclusiveNode),
    ({"not": {"ncpus": 1}}, cons.Not),
    ({"or": [{"ncpus": 1}, {"ncpus": 2}]}, Or),
    ({"xor": [{"ncpus": 1}, {"ncpus": 2}]}, XOr),
    ({"and": [{"ncpus": 1}, {"mem": 2}]}, And),
    ({"never": "stopped"}, Never),
    ({"in-a-placement-group": True}, InAPlacementGroup),
    ({"ncpus": 1, "owner": "alice"}, And),
]


@row("constraints.get_constraint")
@pytest.mark.parametrize(("expr", "kind"), EXPRESSIONS, ids=str)
def test_each_key_has_its_constraint(expr, kind):
    """One key: that constraint; several: one And. The JSON form reads back as an equal
    constraint."""
    made = get_constraint(expr)
    assert type(made) is kind
    assert get_constraint(made.to_dict()) == made
    assert get_constraints(expr) == get_constraints([expr]) == get_constraints((expr,)) == [made]


@row("constraints.get_constraint")
def test_lists_and_constraints_pass_through():
    """A constraint stays the same object; each dict of a list is one; a list within is a
    RuntimeError."""
    own = Never("x")
    made = get_constraints([own, {"ncpus": 1}, {}])
    assert made[0] is own
    assert len(made) == 2
    assert get_constraint(own) is own
    with pytest.raises(RuntimeError, match="A list was unexpected"):
        get_constraints([[{"ncpus": 1}]])
    with pytest.raises(AssertionError):
        get_constraints("ncpus")
    with pytest.raises(AssertionError):
        get_constraint({})


@row("constraints.register_parser")
def test_registered_names_are_looked_up_before_everything_else():
    """The parser gets `{name: value}`; also a name that means something already is taken over."""
    heard = []

    def parse(d):
        heard.append(d)
        return Never("from the parser")

    register_parser("hostgroup-and-pg", parse)
    register_parser("exclusive", parse)
    made = get_constraint({"hostgroup-and-pg": {"hostgroups": ["@a"], "seq": [1]}, "exclusive": 1})
    assert heard == [{"hostgroup-and-pg": {"hostgroups": ["@a"], "seq": [1]}}, {"exclusive": 1}]
    assert [str(child) for child in made.get_children()] == ["Never(from the parser)"] * 2
    assert get_constraint({"or": [{"hostgroup-and-pg": 1}, {"ncpus": 1}]}).get_children()
    assert Job("1", {"hostgroup-and-pg": 2})._constraints[0].message == "from the parser"


class InQueue(BaseNodeConstraint):
    """A constraint as integrations write them."""

    def __init__(self, name):
        self.name = name

    def satisfied_by_node(self, node):
        if node.available.get("queue") == self.name:
            return SatisfiedResult("success", self, node)
        return SatisfiedResult("WrongQueue", self, node, reasons=[f"{node} is not in {self.name}"])

    def to_dict(self):
        return {"queue-name": self.name}

    def __str__(self):
        return f"InQueue({self.name})"


@row("constraints.bases")
def test_what_a_subclass_gets_for_free():
    """Buckets by their example node, nothing taken, no opinion on space, no children, equality by
    dict."""
    node_mgr = a_manager(an_htc_cluster())
    bucket = node_mgr.get_buckets()[0]
    mine: Constraint = InQueue("all.q")
    assert isinstance(mine, NodeConstraint)
    assert not mine.satisfied_by_bucket(bucket)
    bucket.resources["queue"] = bucket.example_node.available["queue"] = "all.q"
    assert mine.satisfied_by_bucket(bucket)
    assert (mine.do_decrement(bucket.example_node), mine.minimum_space(bucket.example_node)) == (
        True,
        -1,
    )
    assert list(mine.get_children()) == []
    assert mine == InQueue("all.q") == NodeResourceConstraint("queue-name", "all.q")
    assert mine != InQueue("other")
    assert mine.weight_buckets([(bucket, 1.0)]) == [(bucket, 1.0)]


@row("constraints.bases")
def test_a_subclass_takes_part_in_allocation():
    """Alone, and among constraints of the library."""
    node_mgr = a_manager()
    node_mgr.add_default_resource({}, "queue", "all.q")
    result = node_mgr.allocate([InQueue("all.q"), {"ncpus": 2}], slot_count=3)
    refused = node_mgr.allocate([InQueue("other"), {"ncpus": 2}], slot_count=1)
    assert (len(result.nodes), result.total_slots) == (2, 3)
    assert not refused
    assert "is not in other" in " ".join(refused.reasons)


@row("constraints.protocol")
@pytest.mark.parametrize(
    "expr", [e for e, _ in EXPRESSIONS if "never" not in e and "exclusive" not in e], ids=str
)
def test_every_constraint_answers_the_whole_protocol(expr):
    """Asked from outside, as Grid Engine does with the children of its own constraints."""
    made = get_constraint(expr)
    node_mgr = a_manager()
    bucket = node_mgr.get_buckets()[0]
    node = a_planned_node(resources={"ncpus": 4, "mem": 8, "owner": "alice", "gpu": True})
    space = made.minimum_space(node)
    satisfied = made.satisfied_by_node(node)
    assert isinstance(satisfied, SatisfiedResult)
    assert isinstance(made.satisfied_by_bucket(bucket), SatisfiedResult)
    assert (space == 0) <= (not satisfied)
    if satisfied:
        assert made.do_decrement(node) is True
    assert [b for b, _ in made.weight_buckets([(bucket, 1.0)])] == [bucket]
    assert isinstance(made.to_dict(), dict) and str(made)
    assert all(isinstance(child, NodeConstraint) for child in made.get_children())


@row("constraints.protocol")
def test_do_decrement_takes_one_iteration():
    """It returns a bool and may change the node."""
    node = a_planned_node(resources={"ncpus": 4})
    made = get_constraint({"ncpus": 2})
    assert [made.minimum_space(node), made.do_decrement(node), made.minimum_space(node)] == [
        2,
        True,
        1,
    ]
    assert node.available == {"ncpus": 2}
    with pytest.raises(RuntimeError):
        get_constraint({"ncpus": 3}).do_decrement(node)


@row("constraints.protocol")
def test_weights_order_the_buckets():
    """Earlier values are worth a hundred more; no match is worth nothing."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    cluster.add_bucket("htc", "Standard_F2", 10, 10)
    weights = [(b, 1.0) for b in a_manager(cluster).get_buckets()]
    weighed = get_constraint({"node.vm_size": ["Standard_F2", "Standard_F4"]}).weight_buckets(
        weights
    )
    assert [weight for _, weight in weighed] == [101.0, 0.0, 201.0]
    assert [b for b, _ in weighed] == [b for b, _ in weights]


@row("constraints.composites")
def test_composites_take_constraints_and_dicts():
    """Or: the first that holds; XOr: exactly one; And: all. Or and XOr need two."""
    node = a_planned_node(resources={"ncpus": 4, "owner": "alice"})
    one, two, no = {"ncpus": 1}, NodeResourceConstraint("owner", "alice"), {"ncpus": 9}
    assert And(one, two).satisfied_by_node(node) and not And(one, no).satisfied_by_node(node)
    assert Or(no, two).satisfied_by_node(node) and not Or(no, no).satisfied_by_node(node)
    assert XOr(one, no).satisfied_by_node(node)
    assert XOr(one, two).satisfied_by_node(node).status == "XORFailed"
    assert XOr(no, no).satisfied_by_node(node).status == "CompoundFailure"
    assert isinstance(get_constraint({"ncpus": 1, "owner": "alice"}), And)
    for kind in (Or, XOr):
        with pytest.raises(AssertionError):
            kind(one)


@row("constraints.Never")
def test_never_is_never_satisfied_for_its_reason():
    """Grid Engine looks for it by isinstance and prints its message."""
    never = Never("the queue is stopped")
    answer = never.satisfied_by_node(a_planned_node())
    job = Job("1", [never, {"ncpus": 1}])
    assert (never.message, answer.status, answer.reasons) == (
        "the queue is stopped",
        "Never",
        ["the queue is stopped"],
    )
    assert [c.message for c in job._constraints if isinstance(c, Never)] == ["the queue is stopped"]
    assert never.do_decrement(a_planned_node()) is False


@row("constraints.ExclusiveNode")
def test_exclusive_nodes_know_whose_they_are():
    """The id may be given, set, or come from the job; a vacant node is closed by it."""
    own = ExclusiveNode(assignment_id="1")
    task = ExclusiveNode(True, job_exclusive=False)
    task.assignment_id = "2"
    job = Job("job-9", [{"or": [{"exclusive": True}, {"exclusive-task": True}]}])
    inner = [c.assignment_id for c in job._constraints[0].get_children()]
    node = a_planned_node()
    assert (own.assignment_id, own.job_exclusive) == ("1", True)
    assert (task.assignment_id, task.job_exclusive) == ("2", False)
    assert inner == ["job-9", "job-9"]
    assert own.satisfied_by_node(node) and own.do_decrement(node) and node.closed
    node.assign("someone else")
    assert own.satisfied_by_node(node).status == "ExclusiveRequirementFailed"
    assert ExclusiveNode(False).satisfied_by_node(node)


@row("constraints.ExclusiveNode")
def test_a_task_shares_with_its_own_job_only():
    """Asked by itself, `exclusive-task` lets a node pass that works for the same id."""
    node = a_planned_node()
    node.assign("2")
    mine, other = ExclusiveNode(True, False, "2"), ExclusiveNode(True, False, "3")
    whole = ExclusiveNode(True, True, "2")
    assert mine.satisfied_by_node(node)
    assert not other.satisfied_by_node(node)
    assert not whole.satisfied_by_node(node)
    assert (other.minimum_space(node), whole.minimum_space(node)) == (0, 0)


@row("constraints.classes")
def test_classes_are_compared_by_kind_and_dict():
    """What upstream's tests look at: the class, and the dict."""
    made = [
        InAPlacementGroup(),
        MinResourcePerNode("ncpus", 2),
        NodePropertyConstraint("vm_size", "a", "b"),
        NodeResourceConstraint("owner", "alice"),
        NodeResourceConstraint("owner", "alice", "bob"),
    ]
    dicts = [
        {"in-a-placement-group": True},
        {"ncpus": 2},
        {"node.vm_size": ["a", "b"]},
        {"owner": "alice"},
        {"owner": ["alice", "bob"]},
    ]
    assert [c.to_dict() for c in made] == dicts
    assert [get_constraint(d) for d in dicts] == made
    assert [type(get_constraint(d)) for d in dicts] == [type(c) for c in made]
    assert NodePropertyConstraint("vm_size", "a").to_dict() == {"node.vm_size": ["a"]}


@row("constraints.SharedConsumableResource")
def test_a_pool_by_name_and_by_position():
    """PBS reads these numbers and compares with them."""
    pool = SharedConsumableResource(
        resource_name="lic", source="server", initial_value=10, current_value=8
    )
    same = SharedConsumableResource("lic", "queue", 5, 8)
    assert isinstance(pool, SharedResource)
    assert (pool.resource_name, pool.source, pool.is_consumable) == ("lic", "server", True)
    assert (pool.initial_value, pool.current_value) == (10, 8)
    assert pool == same and pool < 9 and pool <= 8 and not pool < 8


@row("constraints.SharedConsumableResource")
def test_a_pool_goes_down_for_everybody_who_holds_it():
    """As jobs are placed, and not when a job fails."""
    node_mgr = a_manager()
    pool = SharedConsumableResource("lic", "server", 5, 5)
    jobs = [
        Job(str(i), [SharedConsumableConstraint([pool], 2), {"ncpus": 1}], iterations=1)
        for i in range(3)
    ]
    placed = [bool(job.do_allocate(node_mgr)) for job in jobs]
    assert placed == [True, True, False]
    assert pool.current_value == 1
    too_big = Job("big", [SharedConsumableConstraint([pool], 1), {"ncpus": 99}])
    assert not too_big.do_allocate(node_mgr)
    assert pool.current_value == 1


@row("constraints.SharedNonConsumableResource")
@row("constraints.SharedNonConsumableConstraint")
def test_a_shared_value_must_be_the_target():
    """Equality with the value as it is now, which nobody uses up."""
    value = SharedNonConsumableResource("mode", "server", "day")
    by_night = SharedNonConsumableConstraint(value, "night")
    node = a_planned_node()
    assert (value.is_consumable, value.resource_name, value.current_value) == (False, "mode", "day")
    assert by_night.satisfied_by_node(node).status == "InvalidSharedValue"
    assert by_night.do_decrement(node) is False
    value.current_value = "night"
    assert by_night.satisfied_by_node(node)
    assert by_night.do_decrement(node) is True
    assert value.current_value == "night"


@row("constraints.SharedConsumableConstraint")
def test_every_pool_must_have_the_amount():
    """One that has not keeps all from being used; all pay when it fits."""
    server = SharedConsumableResource("lic", "server", 10, 10)
    queue = SharedConsumableResource("lic", "queue", 3, 3)
    ask = SharedConsumableConstraint([server, queue], 2)
    node = a_planned_node()
    assert ask.shared_resources == [server, queue]
    assert ask.do_decrement(node) is True
    assert ask.satisfied_by_node(node).status == "SharedLimitReached"
    assert ask.do_decrement(node) is False
    assert (server.current_value, queue.current_value) == (8, 1)
    assert minimum_space([ask], node) == 0


@row("constraints.SharedConsumableConstraint")
def test_decrement_once_pays_once_for_each_instance():
    """However often it is asked afterwards."""
    pool = SharedConsumableResource("lic", "server", 10, 3)
    once = SharedConsumableConstraint([pool], 2, decrement_once=True)
    node = a_planned_node()
    assert [once.do_decrement(node) for _ in range(3)] == [True] * 3
    assert once.satisfied_by_node(node)
    assert pool.current_value == 1
    assert not SharedConsumableConstraint([pool], 2, True).do_decrement(node)
