"""What JSON becomes which constraint, and what the errors say."""

import pytest

from builders.constraints import a_node_with
from hpc.autoscale.errors import AutoscaleError, ConstraintError
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    And,
    CapacityFailureBackoffConstraint,
    ExclusiveNode,
    InAPlacementGroup,
    MinResourcePerNode,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    Not,
    NotAllocated,
    Or,
    ReadOnlyAlias,
    SharedConsumableConstraint,
    SharedNonConsumableConstraint,
    XOr,
    compile_constraints,
    get_constraint,
    get_constraints,
    new_job_constraint,
    parse,
    register_parser,
)
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node

POOL = {"resource-name": "lic", "sources": ["q"], "initial-values": [9], "requested": 1}
KINDS = [
    ({"exclusive": True}, ExclusiveNode),
    ({"exclusive-task": 1}, ExclusiveNode),
    ({"exclusive_task": "TRUE"}, ExclusiveNode),
    ({"not": {"ngpus": 1}}, Not),
    ({"never": "closed today"}, Never),
    ({"in-a-placement-group": True}, InAPlacementGroup),
    ({"capacity-failure-backoff": 300}, CapacityFailureBackoffConstraint),
    ({"shared-consumable-constraint": POOL}, SharedConsumableConstraint),
    (
        {
            "shared-non-consumable-constraint": {
                "resource-name": "v",
                "source": "s",
                "current-value": 1,
                "target": 2,
            }
        },
        SharedNonConsumableConstraint,
    ),
    ({"not-allocated": True}, NotAllocated),
    ({"class": "ReadOnlyAlias", "alias": "a", "resource-name": "b"}, ReadOnlyAlias),
    ({"node.vm_size": "Standard_F4"}, NodePropertyConstraint),
    ({"node.placement_group": None}, NodePropertyConstraint),
    ({"mem": "memory::4g"}, MinResourcePerNode),
    ({"disk": "size::4g"}, MinResourcePerNode),
    ({"mem": Memory(4, "g")}, MinResourcePerNode),
    ({"ncpus": 1}, MinResourcePerNode),
    ({"ncpus": 0.5}, MinResourcePerNode),
    ({"mem": "memory::.5g"}, NodeResourceConstraint),
    ({"owner": "me"}, NodeResourceConstraint),
    ({"fast": True}, NodeResourceConstraint),
    ({"owner": None}, NodeResourceConstraint),
    ({"ncpus": [4]}, NodeResourceConstraint),
    ({"or": [{"a": 1}, {"b": 1}]}, Or),
    ({"xor": [{"a": 1}, {"b": 1}]}, XOr),
    ({"and": [{"a": 1}, {"a": 2}]}, And),
    ({"a": 1, "b": 2}, And),
]


@pytest.mark.parametrize(("expr", "kind"), KINDS, ids=[str(expr) for expr, _ in KINDS])
def test_each_form_has_its_class(expr, kind):
    """Every form of the language becomes its constraint."""
    assert type(get_constraint(expr)) is kind


@pytest.mark.parametrize("expr", [expr for expr, _ in KINDS], ids=str)
def test_every_form_survives_a_round_trip(expr):
    """The dict of a constraint reads back as the same constraint."""
    constraint = get_constraint(expr)
    again = get_constraint(constraint.to_dict())
    assert again == constraint
    assert type(again) is type(constraint)


def test_sizes_are_read_as_what_they_say():
    """`memory::` gives a Memory and `size::` a Size."""
    assert type(get_constraint({"mem": "memory::4g"}).value) is Memory
    assert get_constraint({"disk": "size::1.5k"}).value == Size(1536, "b")


def test_list_of_expressions():
    """Each element becomes one constraint, several keys one And, an empty dict nothing."""
    parsed = get_constraints([{"a": 1}, {}, {"b": 1, "c": 1}, Never("x")])
    assert [type(c) for c in parsed] == [MinResourcePerNode, And, Never]
    assert get_constraints([{}]) == []
    assert get_constraints({"a": 1}) == get_constraints(({"a": 1},)) == [MinResourcePerNode("a", 1)]


def test_constraint_as_value_stands_for_itself():
    """The key above a constraint object does not matter."""
    never = Never("x")
    assert get_constraint({"whatever": never}) is never
    assert new_job_constraint("whatever", never) is never


def test_constraints_as_children():
    """And takes dicts and constraints, by JSON and by constructor."""
    expected = {"a": 1, "never": "x"}
    assert get_constraint({"and": [{"a": 1}, Never("x")]}).to_dict() == expected
    assert And({"a": 1}, Never("x")).to_dict() == expected
    assert Or({"a": 1, "b": 2}, Never("x")).to_dict() == {"or": [{"a": 1, "b": 2}, {"never": "x"}]}


@pytest.mark.parametrize("read", [get_constraint, lambda e, **kw: get_constraints(e, **kw)[0]])
def test_case_insensitive_reaches_every_level(read):
    """Texts anywhere in the expression match in any case."""
    expr = {"or": [{"owner": "ALICE"}, {"not": {"owner": ["Bob"]}, "ncpus": 9}]}
    node = a_node_with(owner="Alice")
    assert not read(expr).satisfied_by_node(node)
    assert read(expr, case_insensitive=True).satisfied_by_node(node)


def test_false_is_honoured():
    """`in-a-placement-group` false wants no group, and `exclusive` false wants nothing."""
    inside = a_node_with(bucket=None, placement_group="pg")
    assert not get_constraint({"in-a-placement-group": False}).satisfied_by_node(inside)
    assert get_constraint({"in-a-placement-group": "false"}).satisfied_by_node(a_node_with())
    assert get_constraint({"exclusive": "0"}).satisfied_by_node(a_node_with(assignments=["x"]))


ERRORS = [
    ({"or": [{"a": 1}, {"ncpus": {"x": 1}}]}, RuntimeError, "or[1].ncpus"),
    (
        {"xor": [{"not": {"and": [{"a": float("nan")}]}}, {"b": 1}]},
        ValueError,
        "xor[0].not.and[0].a",
    ),
    ({"ncpus": -1}, ValueError, "ncpus"),
    ({"ncpus": float("inf")}, ValueError, "ncpus"),
    ({"ncpus": 10**400}, ValueError, "ncpus"),
    ({"ncpus": 1e300}, ValueError, "ncpus"),
    ({"mem": "memory::4q"}, RuntimeError, "mem"),
    ({"or": [{"a": 1}]}, AssertionError, "or"),
    ({"or": {"a": 1}}, AssertionError, "or"),
    ({"not": [{"a": 1}]}, RuntimeError, "not"),
    ({"not": {}}, AssertionError, "not"),
    ({"exclusive": None}, RuntimeError, "exclusive"),
    ({"exclusive": 1.5}, RuntimeError, "exclusive"),
    ({"exclusive": "yes"}, RuntimeError, "exclusive"),
    ({"in-a-placement-group": None}, RuntimeError, "in-a-placement-group"),
    ({"never": ["x"]}, RuntimeError, "never"),
    ({"not-allocated": False}, RuntimeError, "not-allocated"),
    ({"capacity-failure-backoff": "soon"}, RuntimeError, "capacity-failure-backoff"),
    ({"capacity-failure-backoff": -1}, ValueError, "capacity-failure-backoff"),
    ({"node.vmsize": "x"}, ValueError, "node.vmsize"),
    ({"node.vm_size": {"x": 1}}, AssertionError, "node.vm_size"),
    ({"node.vm_size": ["x", {}]}, RuntimeError, "node.vm_size[1]"),
    ({"owner": ["x", ["y"]]}, RuntimeError, "owner[1]"),
    ({1: 2}, RuntimeError, "1"),
    ({"shared-consumable-constraint": 3}, RuntimeError, "shared-consumable-constraint"),
    (
        {"or": [{"a": 1}, {"shared-consumable-constraint": {**POOL, "sorces": 1}}]},
        RuntimeError,
        "or[1].shared-consumable-constraint",
    ),
]


@pytest.mark.parametrize(
    ("expr", "published", "path"), ERRORS, ids=[str(e[0])[:60] for e in ERRORS]
)
def test_errors_name_the_path(expr, published, path):
    """An error says where, and has the published type besides our own."""
    with pytest.raises(ConstraintError) as caught:
        get_constraint(expr)
    assert isinstance(caught.value, published)
    assert isinstance(caught.value, AutoscaleError)
    assert caught.value.path == path
    assert f"{path}: expected" in str(caught.value)


@pytest.mark.parametrize("exprs", ["ncpus=1", None, 5, Never("x")])
def test_only_lists_and_dicts_are_expressions(exprs):
    """Anything but a list, a tuple or a dict is an AssertionError."""
    with pytest.raises(AssertionError):
        get_constraints(exprs)


@pytest.mark.parametrize("empty", [{"and": []}, {"ncpus": 1, "and": []}])
def test_an_empty_and_is_no_condition(empty):
    """A job that has one asks for what the others say."""
    asked = Job("j", [{"ncpus": 1}, empty]).compiled_constraints()
    assert asked.expr == compile_constraints(get_constraints([{"ncpus": 1}, empty])).expr
    assert "()" not in str(asked.expr)


@pytest.mark.parametrize("element", [None, 5, "ncpus", 1.5])
def test_elements_must_be_dicts_or_constraints(element):
    """The index of a bad element is named."""
    with pytest.raises(ConstraintError, match=r"^\[1\]: expected a dict or a constraint"):
        get_constraints([{"a": 1}, element])


def test_nested_list_is_unexpected():
    """A list in a list is a RuntimeError that says so."""
    with pytest.raises(RuntimeError, match="A list was unexpected"):
        get_constraints([[{"a": 1}]])


def test_nothing_is_not_one_constraint():
    """`get_constraint` wants exactly one."""
    with pytest.raises(AssertionError):
        get_constraint({})


def test_typos_are_guessed():
    """A wrong property or key comes with the likely right one."""
    with pytest.raises(ValueError, match=r"UndefinedNodeProperty: .*did you mean 'vm_size'"):
        get_constraint({"node.vmsize": "x"})
    with pytest.raises(ConstraintError, match="did you mean 'sources'"):
        get_constraint({"shared-consumable-constraint": {**POOL, "sorces": 1}})
    with pytest.raises(ConstraintError, match="did you mean 'exclusive'"):
        get_constraint({"exclusve": {}})


def test_only_queryable_properties():
    """Every other name of Node is refused, every queryable one accepted."""
    for name in QUERYABLE_PROPERTIES:
        get_constraint({f"node.{name}": "x"})
    for name in set(dir(Node)) - set(QUERYABLE_PROPERTIES):
        with pytest.raises(ValueError, match="UndefinedNodeProperty"):
            get_constraint({f"node.{name}": "x"})


def _nested(depth, wrap):
    expr = {"a": 1}
    for _ in range(depth):
        expr = wrap(expr)
    return expr


@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: {"not": e},
        lambda e: {"or": [e, {"b": 1}]},
        lambda e: {"and": [e]},
        lambda e: {"a": e},
        lambda e: {"a": [e]},
        lambda e: {"never": [e]},
        lambda e: [e],
    ],
)
def test_depth_bomb(wrap):
    """Thousands of levels are an error that can be read, not a RecursionError."""
    with pytest.raises(ConstraintError) as caught:
        get_constraint(_nested(20_000, wrap))
    assert len(str(caught.value)) < 2000


def test_circular_expression():
    """An expression that contains itself is an error too."""
    expr = {"or": [{"a": 1}]}
    expr["or"].append(expr)
    with pytest.raises(ConstraintError, match="at most"):
        get_constraint(expr)


def test_reasonable_depth_is_fine():
    """Forty levels are read."""
    assert get_constraint(_nested(40, lambda e: {"not": e})).satisfied_by_node(a_node_with(a=1))


@pytest.fixture
def custom_parsers(monkeypatch):
    """No parsers but those that the test registers."""
    monkeypatch.setattr(parse, "CUSTOM_PARSERS", {})


@pytest.mark.usefixtures("custom_parsers")
def test_custom_parser_wins():
    """A registered parser gets `{name: value}`, before every other meaning of the name."""
    asked = []

    def parser(d):
        asked.append(d)
        return Never("custom")

    register_parser("exclusive", parser)
    assert get_constraint({"not": {"exclusive": [1, {"any": "thing"}]}}) == Not(Never("custom"))
    assert asked == [{"exclusive": [1, {"any": "thing"}]}]


@pytest.mark.usefixtures("custom_parsers")
def test_custom_parser_must_return_a_constraint():
    """Anything else is an error that names the key."""
    register_parser("pe", lambda d: d)
    with pytest.raises(ConstraintError, match="pe: expected a constraint from the custom parser"):
        get_constraint({"pe": 1})
