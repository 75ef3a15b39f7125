"""docs/architecture.md: every file and test that a recipe names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Recipes\n", 1)[1].split("\n## ", 1)[0]
RECIPES = dict(re.findall(r"### ([^\n]+)\n\n(.*?)(?=\n### |\Z)", SECTION, re.DOTALL))


def named(text):
    """The files that a text names, with the tests in them."""
    found, last = [], ""
    for name in re.findall(r"`([^`\s]+)`", text):
        path, _, test = name.partition("::")
        if "/" in path or path.endswith(".md"):
            last = path
        elif path or not test:
            continue
        found.append((last, test))
    return found


def steps(recipe):
    """The numbered lines of a recipe."""
    return re.findall(r"^(\d+)\. (.*)$", RECIPES[recipe], re.MULTILINE)


def missing(text):
    """What a text names and is not there."""
    lost = []
    for path, test in named(text):
        file = ROOT / path
        if not file.exists():
            lost.append(path)
        elif test:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            if test not in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}:
                lost.append(f"{path}::{test}")
    return lost


def test_there_is_a_recipe_for_each_usual_change():
    """Eight of them."""
    assert list(RECIPES) == [
        "Change how a job is placed on an existing node",
        "Add a limit kind",
        "Add a constraint keyword",
        "Add a field of the REST protocol",
        "Add a CLI verb",
        "Add an order policy",
        "Add a driver hook",
        "Add a file in which passes remember things",
    ]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_begins_with_a_test_and_names_files_that_exist(recipe):
    """In order."""
    text = RECIPES[recipe]
    first = text.partition("\n\n")[0]
    assert first.startswith("Test first: `tests/")
    assert missing(text) == []
    numbers = [int(number) for number, _ in steps(recipe)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 1
    assert all(named(step) for _, step in steps(recipe))


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_step_names_is_in_its_file(recipe):
    """A class, a function or a table."""
    for _, step in steps(recipe):
        path = ROOT / named(step)[0][0]
        text = path.read_text(encoding="utf-8")
        names = re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)?)`(?!: )", step)
        for name in names if path.suffix == ".py" else ():
            assert name.split(".")[-1] in text, f"{name} in {path}"


def test_a_limit_kind_takes_five_files_at_most():
    """It took ten."""
    assert len(steps("Add a limit kind")) <= 5


@pytest.mark.parametrize(
    "text",
    ["`src/hpc/autoscale/nothing.py`", "`tests/docs/test_recipes.py::test_nothing`", "`docs/a.md`"],
)
def test_what_is_not_there_is_found(text):
    """A file, or a test."""
    assert len(missing(text)) == 1
    assert missing("`tests/docs/test_recipes.py::test_what_is_not_there_is_found`") == []
