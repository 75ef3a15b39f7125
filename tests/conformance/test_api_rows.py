"""Every row of the published interface has a test that says so with `@row("…")`, and every `@row`
names a row."""

import ast
import functools
import json
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "api_rows.json").read_text(encoding="utf-8"))


def _marks(path):
    """The row ids that a test file names, with the name of the test function that each belongs to,
    if any."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for call in ast.walk(tree):
        function = call.func if isinstance(call, ast.Call) else None
        if getattr(function, "id", getattr(function, "attr", None)) == "row":
            yield from (ast.literal_eval(argument) for argument in call.args)


@functools.cache
def _named():
    return Counter(mark for path in sorted(HERE.rglob("test_*.py")) for mark in _marks(path))


def test_every_row_has_a_test():
    """No row of the list is without a test."""
    assert [r["row"] for r in ROWS if r["row"] not in _named()] == []


def test_no_test_names_an_unknown_row():
    """A misspelt row would cover nothing."""
    assert sorted(_named().keys() - {r["row"] for r in ROWS}) == []


def test_rows_are_listed_once():
    """Each row stands once, in the order of the sections 0 to 15."""
    counted = Counter(r["row"] for r in ROWS)
    sections = [r["section"] for r in ROWS]
    assert max(counted.values()) == 1
    assert sections == sorted(sections)
    assert set(sections) == set(range(16))
