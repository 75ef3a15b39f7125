"""Types of command line arguments."""

import json
from argparse import ArgumentTypeError

import pytest

from hpc.autoscale import clilib


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", ["a"]), ("a,b", ["a", "b"]), ("a,b,", ["a", "b"]), ("*", ["*"])],
)
def test_lists(text, expected):
    """Separated by commas; the last comma, as completion leaves it, does not count."""
    assert clilib.str_list(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ncpus=2", {"ncpus": 2}),
        ("load=0.5", {"load": 0.5}),
        ("on=true", {"on": True}),
        ("on=False", {"on": False}),
        ("node.placement_group=null", {"node.placement_group": None}),
        ("node.vm_size=A,B", {"node.vm_size": ["A", "B"]}),
        ('version="2"', {"version": "2"}),
        ("version='true'", {"version": "true"}),
        ('names="a,b",c', {"names": ["a,b", "c"]}),
        ("mem=memory::4g", {"mem": "memory::4g"}),
        ("quoted=it's", {"quoted": "it's"}),
        ("mixed=1,x,null", {"mixed": [1, "x", None]}),
        ("empty=", {"empty": ""}),
        ("a=b=c", {"a": "b=c"}),
        (" spaced = 1 ", {"spaced": 1}),
    ],
)
def test_constraints_in_short(text, expected):
    """name=value becomes JSON, one value a scalar, several a list; quotes make text."""
    assert json.loads(clilib.constraint_type(text)) == expected


@pytest.mark.parametrize("text", ['{"ncpus": 2}', '[{"a": 1}, {"b": 2}]'])
def test_constraints_as_json(text):
    """Are handed on as they are."""
    assert clilib.constraint_type(text) == text


@pytest.mark.parametrize("text", ["ncpus", "=2", '{"a": 1', '{"a"=1}', ""])
def test_constraints_that_are_neither(text):
    """Say what was expected."""
    with pytest.raises(ArgumentTypeError, match="expected"):
        clilib.constraint_type(text)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "NaN", "-Infinity", "1e999", "1,nan"])
def test_numbers_that_json_does_not_have(number):
    """Are refused in short, where quotes make them text, and in JSON."""
    with pytest.raises(ArgumentTypeError, match="expected a finite number"):
        clilib.constraint_type(f"a={number}")
    assert json.loads(clilib.constraint_type(f"a='{number}'")) == {"a": number}


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_json_does_not_have(constant, tmp_path):
    """Are refused in constraints, in what is given as JSON, and in files of it."""
    text = f'{{"a": {constant}}}'
    with pytest.raises(ArgumentTypeError):
        clilib.constraint_type(text)
    with pytest.raises(ArgumentTypeError, match=f"{constant} is no JSON"):
        clilib.json_type(text)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ArgumentTypeError, match=f"{constant} is no JSON"):
        clilib.json_type(str(path))


def test_json(tmp_path):
    """From a file when there is one of that name, else as it stands."""
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    assert clilib.json_type(str(path)) == {"a": 1}
    assert clilib.json_type('{"b": 2}') == {"b": 2}
    with pytest.raises(ArgumentTypeError, match="expected a JSON file or JSON"):
        clilib.json_type(str(tmp_path / "none.json"))
    path.write_text("{")
    with pytest.raises(ArgumentTypeError):
        clilib.json_type(str(path))


def test_formats():
    """Three, in any case of letters; a typo is guessed."""
    assert clilib.parse_format("JSON") == "json"
    assert clilib.parse_format("table_headerless") == "table_headerless"
    with pytest.raises(ArgumentTypeError, match="did you mean 'table'"):
        clilib.parse_format("tabel")


def test_telling_the_user(capsys):
    """On stderr; an error ends with code 1. A percent sign alone is only a percent sign."""
    clilib.warn("100%")
    clilib.warn("%d of %s", 3, "x")
    with pytest.raises(SystemExit) as ended:
        clilib.error("no %s", "way")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "100%\n3 of x\nno way\n"


def test_wildcards_while_completing():
    """What is typed may have them, and is the beginning of what is meant."""
    assert clilib.fnmatch_validator("Standard_F4s", "Standard_F")
    assert clilib.fnmatch_validator("Standard_F4s", "*F4")
    assert not clilib.fnmatch_validator("Standard_F4s", "F4")
    assert clilib.default_completer("", action=None) == []
