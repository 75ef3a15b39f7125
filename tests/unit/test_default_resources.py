"""Default resources: values, selections, steps, order, and who gets them when."""

import logging

import pytest

from builders.nodes import a_manager, a_planned_node, a_running_node, an_htc_cluster
from hpc.autoscale import results
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.default_resources import (
    DefaultResourceError,
    Defaults,
    GetFromBaseNode,
    MemoryDefault,
    definition_from,
    definitions_from_config,
)
from hpc.autoscale.node.nodemanager import new_node_manager


def given(node, *definitions):
    """What the node has once these definitions were applied."""
    defaults = Defaults()
    for definition in definitions:
        defaults.add(definition_from(*definition))
    defaults.apply(node)
    return node.resources


# -- values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("node.vcpu_count", 4),
        ("node.memory", Memory(8, "g")),
        ("node.name", "htc-1"),
        ("node.instance_id", "vm-1"),
        ("node.resources.own", 7),
        ("node.resources.disk.value", 1.5),
        ("node.software_configuration.role", "batch"),
        ("size::20g", Size(20, "g")),
        ("memory::4g", Memory(4, "g")),
        ("plain", "plain"),
        (3, 3),
        (1.5, 1.5),
        (True, True),
        (lambda node: node.vcpu_count * 2, 8),
        (GetFromBaseNode("nodearray"), "htc"),
        (MemoryDefault("m"), Memory(8192, "m")),
    ],
)
def test_values(value, expected):
    """Every form, written to what is there and to what is left."""
    node = a_running_node(
        resources={"own": 7, "disk": Size(1.5, "t")},
        software_configuration={"role": "batch"},
        instance_id="vm-1",
    )
    assert given(node, ({}, "x", value))["x"] == expected
    assert node.available["x"] == expected
    assert type(node.available["x"]) is type(expected)


@pytest.mark.parametrize("name", [None, 1, b"ncpus", ("a",)])
def test_a_name_that_is_no_text(name):
    """Is refused, as in a configuration, and not a resource that nobody can ask for."""
    manager = a_manager(an_htc_cluster(1))
    with pytest.raises(DefaultResourceError, match="expected a name, which is a text, found"):
        manager.add_default_resource({}, name, 1)
    assert name not in manager.get_buckets()[0].resources


def test_helpers_say_what_they_are():
    """As one would write them."""
    assert repr(GetFromBaseNode("vcpu_count")) == "node.vcpu_count"
    assert repr(MemoryDefault("g")) == "node.memory[g]"


@pytest.mark.parametrize("value", ["node.nope", "node.clone", "node._allocated", "node."])
def test_attributes_that_nodes_do_not_have(value):
    """Also methods and private ones are none."""
    with pytest.raises(RuntimeError, match=r"Invalid node\.attribute"):
        definition_from({}, "x", value)


def test_a_typo_is_guessed():
    """The nearest property."""
    with pytest.raises(RuntimeError, match="did you mean 'vcpu_count'"):
        definition_from({}, "x", "node.vcpu_cuont")


@pytest.mark.parametrize("value", ["`1 + 1`", "`__import__('os')`"])
def test_text_is_never_run(value):
    """Backticks are refused, with what to do instead."""
    with pytest.raises(RuntimeError, match="not run as code"):
        definition_from({}, "x", value)


@pytest.mark.parametrize("value", ["size::4q", "memory::g"])
def test_sizes_that_are_none(value):
    """They are refused when they are defined."""
    with pytest.raises(RuntimeError, match="default resource 'x'"):
        definition_from({}, "x", value)


@pytest.mark.parametrize(
    "value",
    ["node.resources.nope", "node.resources.nope.value", "node.software_configuration.nope"],
)
def test_what_is_missing_defines_nothing(value, caplog):
    """So that a later definition can; one warning however many nodes there are."""
    defaults = Defaults()
    defaults.add(definition_from({}, "x", value))
    nodes = [a_planned_node(name=f"htc-{i}") for i in (1, 2, 3)]
    for node in nodes:
        defaults.apply(node)
        assert "x" not in node.resources
    assert len(caplog.records) == 1
    assert given(nodes[0], ({}, "x", value), ({}, "x", 5))["x"] == 5


# -- order


def test_the_first_definition_wins():
    """And what the node has beats every definition."""
    assert given(a_planned_node(), ({}, "x", 1), ({}, "x", 2))["x"] == 1
    assert given(a_planned_node(resources={"x": 0}), ({}, "x", 1))["x"] == 0


def test_none_can_be_replaced():
    """A value that is not known yet does not block the next definition."""
    node = a_planned_node(resources={"x": None})
    assert given(node, ({}, "x", lambda node: None), ({}, "x", 2))["x"] == 2
    assert given(a_planned_node(), ({}, "x", lambda node: None)) == {"ncpus": 4, "x": None}


def test_none_need_not_be_allowed():
    """Then nothing is defined."""
    defaults = Defaults()
    defaults.add(definition_from({}, "x", lambda node: None, allow_none=False))
    node = a_planned_node()
    defaults.apply(node)
    assert "x" not in node.resources


def test_definitions_may_build_on_each_other():
    """Also on one that comes later."""
    chain = [
        ({}, "c", "node.resources.b"),
        ({"b": "yes"}, "d", 4),
        ({}, "b", "node.resources.a"),
        ({}, "a", "yes"),
    ]
    found = given(a_planned_node(), *chain)
    assert {name: found[name] for name in "abcd"} == {"a": "yes", "b": "yes", "c": "yes", "d": 4}


# -- selection


@pytest.mark.parametrize(
    ("select", "selected"),
    [
        ({}, True),
        ([], True),
        ({"node.vm_size": "Standard_F4"}, True),
        ({"node.vm_size": "Standard_F2"}, False),
        ({"or": [{"node.nodearray": "hpc"}, {"ncpus": 4}]}, True),
        ({"not": {"node.nodearray": "htc"}}, False),
        ({"node.nodearray": "htc", "ncpus": 5}, False),
        ([{"node.nodearray": "htc"}, {"ncpus": 4}], True),
        ({"node.name": "htc-1"}, True),
    ],
)
def test_selection(select, selected):
    """Any constraint, held against what the node has left."""
    assert ("x" in given(a_planned_node(), (select, "x", 1))) is selected


def test_selection_looks_at_what_is_left():
    """Not at the totals."""
    node = a_planned_node()
    node.available["ncpus"] = 1
    assert "x" not in given(node, ({"ncpus": 2}, "x", 1))


def test_selecting_tells_nobody():
    """A definition is no demand: no result of it reaches the handlers."""
    told = []
    results.register_result_handler(told.append)
    given(a_planned_node(), ({"node.nodearray": "hpc"}, "x", 1), ({"not-allocated": True}, "y", 1))
    assert told == []


# -- steps


@pytest.mark.parametrize(
    ("value", "step", "by", "expected"),
    [
        ("node.vcpu_count", "add", 1, 5),
        ("node.vcpu_count", "subtract", 1, 3),
        ("node.vcpu_count", "multiply", 2, 8),
        ("node.vcpu_count", "divide", 8, 0.5),
        ("node.vcpu_count", "divide_floor", 3, 1),
        ("node.vcpu_count", "subtract", "1", 3),
        ("node.memory", "subtract", "memory::1g", Memory(7, "g")),
        ("node.memory", "subtract", "1g", Memory(7, "g")),
        ("node.memory", "add", "512m", Memory(8.5, "g")),
        ("node.memory", "multiply", 0.5, Memory(4, "g")),
        ("node.memory", "multiply", "0.5", Memory(4, "g")),
        ("node.memory", "divide", 2, Memory(4, "g")),
        ("node.memory", "divide_floor", 3, Memory(2, "g")),
        ("size::20g", "subtract", "1g", Size(19, "g")),
        (10, "divide_floor", 4, 2),
    ],
)
def test_steps(value, step, by, expected):
    """One step of arithmetic, sizes included."""
    found = given(a_planned_node(), ({}, "x", value, step, by))["x"]
    assert (found, type(found)) == (expected, type(expected))


def test_whole_numbers_stay_whole():
    """A magnitude that was written as a text does not make cores of it that are fractions."""
    assert repr(given(a_planned_node(), ({}, "x", "node.vcpu_count", "subtract", "1"))["x"]) == "3"


@pytest.mark.parametrize(
    ("value", "step", "by"),
    [
        ("text", "add", 1),
        ("node.vcpu_count", "subtract", "1g"),
        (lambda node: None, "add", 1),
        (lambda node: [1], "multiply", 2),
    ],
)
def test_arithmetic_that_fails_defines_nothing(value, step, by, caplog):
    """It is logged, once, and the next definition may."""
    caplog.set_level(logging.WARNING)
    node = a_planned_node()
    assert "x" not in given(node, ({}, "x", value, step, by))
    assert given(node, ({}, "x", value, step, by), ({}, "x", 1))["x"] == 1


def test_a_step_needs_a_magnitude_and_the_other_way_round():
    """Neither stands alone."""
    for step, by in (("add", None), ("add", 0), (None, 1)):
        with pytest.raises(AssertionError, match="go together"):
            definition_from({}, "x", 1, step, by)


@pytest.mark.parametrize(
    ("step", "by", "said"),
    [
        ("substract", 1, "did you mean 'subtract'"),
        ("subtract", "1q", "a size such as '1g'"),
        ("multiply", "1g", "a number to multiply"),
        ("add", True, "a number"),
        ("add", [1], "a number"),
    ],
)
def test_a_step_that_makes_no_sense(step, by, said):
    """It is refused when it is defined."""
    with pytest.raises(DefaultResourceError, match=said):
        definition_from({}, "x", "node.memory", step, by)


# -- the configuration


def test_a_configuration():
    """One definition for each entry, in order."""
    made = definitions_from_config(
        [
            {"select": {}, "name": "a", "value": "node.vcpu_count"},
            {"select": {"a": 4}, "name": "mem", "value": "node.memory", "subtract": "1g"},
        ]
    )
    node = a_planned_node()
    for definition in made:
        definition.apply(node)
    assert (node.resources["a"], node.resources["mem"]) == (4, Memory(7, "g"))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("x", r"\[1\]: Expected select, name and value"),
        ({"name": "x", "value": 1}, r"Expected a mapping at default_resources\[1\]\.select"),
        ({"select": [], "name": "x", "value": 1}, "Expected a mapping"),
        ({"select": {}, "value": 1}, r"Expected a text at default_resources\[1\]\.name"),
        ({"select": {}, "name": 3, "value": 1}, "Expected a text"),
        ({"select": {}, "name": "x"}, r"Expected a text, number or boolean .*value"),
        ({"select": {}, "name": "x", "value": None}, "Expected a text, number or boolean"),
        ({"select": {}, "name": "x", "value": [1]}, "Expected a text, number or boolean"),
        ({"select": {}, "name": "x", "value": 1, "add": 1, "divide": 2}, "at most one of"),
        ({"select": {}, "name": "x", "value": 1, "add": 0}, "other than 0"),
        ({"select": {}, "name": "x", "value": 1, "substract": 1}, "did you mean 'subtract'"),
        ({"select": {}, "name": "x", "value": "node.nope"}, r"\[1\].*Invalid node\.attribute"),
        ({"select": {"node.nope": 1}, "name": "x", "value": 1}, r"\[1\]\.select.*node\.nope"),
        ({"select": {"a": {}}, "name": "x", "value": 1}, r"\[1\]\.select: a"),
        ({"select": {}, "name": "x", "value": 1, "subtract": "1q"}, r"\[1\].*'1q'"),
    ],
)
def test_a_wrong_configuration(entry, said):
    """The error names the entry and the key, and is a RuntimeError of ours."""
    good = {"select": {}, "name": "a", "value": 1}
    with pytest.raises(DefaultResourceError, match=said) as caught:
        definitions_from_config([good, entry])
    assert isinstance(caught.value, RuntimeError)
    assert "\n" not in str(caught.value)


def test_something_else_than_a_list():
    """Is refused before the cluster is asked."""
    with pytest.raises(RuntimeError, match="default_resources: Expected a list"):
        new_node_manager({"_mock_bindings": None, "default_resources": {"a": 1}})
