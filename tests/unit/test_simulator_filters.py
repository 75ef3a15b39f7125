"""The expressions with which nodes are selected."""

import pytest

from hpc.autoscale.simulator.errors import Conflict
from hpc.autoscale.simulator.filters import compile_filter

NODE = {
    "Name": "htc-1",
    "State": "Started",
    "KeepAlive": True,
    "RetryCount": 3,
    "Azure": {"MaxScalesetSize": 40},
}

HOLDS = [
    'State === "Started"',
    'state === "Started"',
    'State == "started"',
    '"Started" === State',
    'State =!= "started"',
    "KeepAlive",
    "KeepAlive === true",
    "!(KeepAlive === false)",
    "!!KeepAlive",
    "!Missing",
    "Missing === undefined",
    "Missing =!= true",
    "RetryCount > 2 && RetryCount <= 3.0",
    "RetryCount === 3.0",
    "RetryCount != 4",
    "azure.maxscalesetsize >= 40",
    'Name < "htc-2"',
    'State === "Off" || KeepAlive',
    'State === "Off" || State === "Started" && KeepAlive',
    '(State === "Off" || State === "Started") && KeepAlive',
    'Name === "htc\\-1"',
]

FAILS = [
    'State === "started"',
    "Missing",
    "Missing == undefined",
    'Missing != "x"',
    "Missing < 3",
    "!KeepAlive",
    "RetryCount == true",
    "State",
    "Azure.MaxScalesetSize.More === 1",
    'State === "Started" && State === "Off"',
    '!KeepAlive || State === "Off"',
    'RetryCount < "4"',
]


@pytest.mark.parametrize("text", HOLDS)
def test_what_holds_of_the_node(text):
    """Attribute names in any case, === exact, == without regard to case, && before ||."""
    assert compile_filter(text)(NODE)


@pytest.mark.parametrize("text", FAILS)
def test_what_does_not_hold_of_the_node(text):
    """Only true is true: neither a text nor undefined is."""
    assert not compile_filter(text)(NODE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("State ===", "expected a value at character 9, found the end"),
        ('State === "Started', "cannot read '\"Started' at character 9"),
        ("State = 3", "cannot read '= 3'"),
        ('(State === "x"', "expected ')' at character 14, found 'the end'"),
        ("State State", "expected an operator at character 6, found 'State'"),
        ("&& State", "expected a value at character 0, found '&&'"),
        ("", "expected a value at character 0, found the end"),
        ("(" * 60 + "a" + ")" * 60, "at most 50 deep"),
        ("a" * 20_000, "at most 10000 characters"),
    ],
)
def test_what_cannot_be_read_is_refused(text, said):
    """With what was expected, what was found and where."""
    with pytest.raises(Conflict) as caught:
        compile_filter(text)
    assert said in str(caught.value)


def test_long_expressions_need_no_deep_stack():
    """Negations and operators are loops."""
    assert compile_filter("!" * 4000 + "KeepAlive")(NODE)
    assert compile_filter("||".join(["KeepAlive"] * 800))(NODE)
    assert not compile_filter(f"RetryCount === {'9' * 5000}")(NODE)
