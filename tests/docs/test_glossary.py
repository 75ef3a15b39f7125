"""docs/architecture.md: each noun of the glossary has one line, and lives where that says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hpc" / "autoscale"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Glossary\n", 1)[1].split("\n## ", 1)[0]
ROWS = re.findall(r"^\| ([^|`]+) \| ([^|]+) \| `([^`]+)`: `([^`]+)` \|$", SECTION, re.MULTILINE)


def is_there(place, name):
    """Whether a file, or a package by one of its files, defines a name at its top."""
    path = SOURCE / place
    for file in path.glob("*.py") if path.is_dir() else [path] if path.exists() else []:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return True
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return True
    return False


def test_the_nouns_are_all_there():
    """Those that one must know to read the inside, in the order of the alphabet, one line each."""
    nouns = [noun for noun, *_ in ROWS]
    assert nouns == sorted(set(nouns))
    assert len(nouns) == SECTION.count("\n| ") - 2  # every line below the heads could be read
    assert set(nouns) >= {
        *("candidate", "request", "plan", "step", "cursor", "reservation", "limit", "shape"),
        *("template", "segment tree", "expression", "fit", "reject", "feasibility", "offering"),
        *("policy", "demand", "outcome", "strategy"),
    }


@pytest.mark.parametrize(("noun", "meaning", "place", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_a_noun_lives_where_the_glossary_says(noun, meaning, place, name):
    """In a file or package of the library, as a class, a function or a table."""
    assert is_there(place, name), f"{noun}: expected {name} in {place}"
    assert meaning.strip() == meaning


def test_what_is_not_there_is_found():
    """A file that is not there, and a name."""
    assert not is_there("packing/nothing.py", "Plan")
    assert not is_there("packing/plan.py", "Nothing")
