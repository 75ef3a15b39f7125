"""docs/architecture.md: what it names in the code is there."""

import ast
import re
from pathlib import Path

import pytest

from builders.sources import trees

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hpc" / "autoscale"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([^`\s]+)`", PAGE)))
METHODS = [name for name in NAMED if re.fullmatch(r"[A-Z]\w*\.\w+", name) and ".md" not in name]
PATHS = [name.partition("::")[0] for name in NAMED if re.fullmatch(r"[\w/.]+/[\w/.:]*", name)]
FUNCTIONS = [name for name in NAMED if re.fullmatch(r"_?[a-z]+(_[a-z]+)+", name)]


def definitions(modules):
    """What parsed modules define: names of functions, and of attributes of classes as
    `Class.attribute`."""
    found = set()
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                found.update(f"{node.name}.{name}" for name in names_in(node))
    return found


def names_in(parent):
    """The methods and annotated attributes of a class."""
    for node in parent.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)


@pytest.fixture(scope="module")
def defined():
    """What the library and its tests define."""
    builders = (ROOT / "tests" / "builders").glob("*.py")
    parsed = (ast.parse(file.read_text(encoding="utf-8")) for file in builders)
    return definitions([*trees().values(), *parsed])


def test_something_is_named():
    """Or nothing would be looked at."""
    assert len(METHODS) > 5 and len(PATHS) > 50 and len(FUNCTIONS) > 5


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_there(name, defined):
    """In a class of that name."""
    assert name in defined


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_there(name, defined):
    """Somewhere in the library, or it is a key of the configuration."""
    schema = (SOURCE / "config" / "schema.json").read_text(encoding="utf-8")
    assert name in defined or f'"{name}"' in schema


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_there(path):
    """From the root of the project, or below the library, where `.py` may be left out."""
    places = [ROOT / path, SOURCE / path, SOURCE / f"{path}.py"]
    assert any(place.exists() for place in places)
