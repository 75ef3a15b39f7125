"""Reading, including and merging configurations."""

import json

import pytest

from hpc.autoscale.config import load_config, merge
from hpc.autoscale.errors import CircularIncludeError, ConfigurationException


@pytest.fixture
def write(tmp_path):
    """Write a JSON file and return its path."""

    def _write(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return _write


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [2, 3, 3]}, {"a": [1, 2, 3]}),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1}, {"x": 2}]}, {"a": [{"x": 1}, {"x": 2}]}),
        ({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}}, {"a": {"b": 1, "c": [1, 2]}}),
    ],
)
def test_merge(left, right, expected):
    """Lists are joined without duplicates, objects merged, and otherwise right wins."""
    before = json.dumps([left, right])
    assert merge(left, right) == expected and json.dumps([left, right]) == before


def test_dicts_and_files_merge_from_left_to_right(write):
    """Sources are paths or dicts, in any mixture."""
    path = write("a.json", {"x": 1, "y": {"z": [1]}})
    assert load_config({"x": 0}, path, {"y": {"z": [2]}}) == {"x": 1, "y": {"z": [1, 2]}}


def test_the_result_is_a_new_dict():
    """Writing into the result does not change the source; nothing at all is an empty
    configuration."""
    source = {"nested": {}}
    config = load_config(source)
    config["new"] = 1
    assert source == {"nested": {}} and config["nested"] is source["nested"]
    assert load_config() == {}


class Record:
    """A record as clients hand them out: keys and items, and nothing else of a dict."""

    def keys(self):
        return ["a"]

    def __getitem__(self, key):
        return {"a": [1]}[key]


def test_whatever_has_keys_is_a_mapping():
    """An object with keys and items is read like a dict, alone and beside others."""
    assert load_config(Record()) == {"a": [1]}
    assert load_config({"a": [2]}, Record()) == {"a": [2, 1]}


def test_includes_go_over_the_including_file(write):
    """Paths are relative to the including file; what is included wins; the key stays."""
    write("sub/secret.json", {"x": 2, "include": ["more.json"]})
    write("sub/more.json", {"y": 3})
    path = write("main.json", {"x": 1, "y": 1, "z": 1, "include": ["sub/secret.json"]})
    expected = {"x": 2, "y": 3, "z": 1, "include": ["sub/secret.json", "more.json"]}
    assert load_config(path) == expected


def test_one_include_may_be_a_text(write):
    """A bare path is a list of one."""
    write("b.json", {"x": 2})
    assert load_config(write("a.json", {"include": "b.json"}))["x"] == 2


def test_the_same_file_may_be_included_twice(write):
    """A diamond is not a circle."""
    write("d.json", {"x": 1})
    write("b.json", {"include": ["d.json"]})
    write("c.json", {"include": ["d.json"]})
    assert load_config(write("a.json", {"include": ["b.json", "c.json"]}))["x"] == 1


def test_circles_are_shown(write):
    """The error shows the chain of files, in the words that callers look for."""
    b = write("b.json", {"include": ["a.json"]})
    a = write("a.json", {"include": ["b.json"]})
    with pytest.raises(CircularIncludeError) as e:
        load_config(a)
    assert str(e.value) == f"Circular include found: {a} ---> {b} ---> {a}"


@pytest.mark.parametrize(
    "content, expected",
    [
        ("{", "line 1"),
        ("", "line 1"),
        ("[]", "expected a JSON object, found list"),
        ('{"include": 3}', "include: expected a list of paths, found 3"),
        ('{"include": [3]}', "include: expected a list of paths"),
        ('{"include": ["missing.json"]}', "there is no such file"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "expected each key once, found 'b' twice beside 'c'"),
    ],
)
def test_files_that_cannot_be_used(write, content, expected):
    """The error names the file and the reason."""
    path = write("a.json", content)
    with pytest.raises(ConfigurationException, match="Could not parse config") as e:
        load_config(path)
    assert expected in str(e.value) and path in str(e.value)


@pytest.mark.parametrize(
    "name, why",
    [("missing.json", "there is no such file"), (".", "it cannot be read: Is a directory")],
)
def test_files_that_cannot_be_read(tmp_path, name, why):
    """Which, and why."""
    path = str(tmp_path / name) if name != "." else str(tmp_path)
    with pytest.raises(ConfigurationException) as e:
        load_config(path)
    assert str(e.value) == f"Could not parse config {path}: {why}"


def test_files_that_are_no_text(tmp_path):
    """Binary garbage is an error of the configuration as well."""
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationException, match="Could not parse config"):
        load_config(str(tmp_path / "a.json"))
