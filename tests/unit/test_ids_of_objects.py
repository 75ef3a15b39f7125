"""Objects are told apart by their address only while somebody keeps them."""

import ast

import pytest

from builders.sources import trees

pytestmark = pytest.mark.no_cover  # what is read is run elsewhere


def ids_of_passing_objects(tree: ast.Module) -> list[str]:
    """Where `id` is taken of what a call returned, which may be gone with the expression."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "id"
        and isinstance(node.args[0], ast.Call)
    ]


def test_no_id_is_taken_of_what_nobody_keeps():
    """Another object may have the same address next: jobs were told each other's reasons."""
    found = {path: ids_of_passing_objects(tree) for path, tree in trees().items()}
    assert {path: ids for path, ids in found.items() if ids} == {}


def test_such_an_id_is_found():
    """And that of something with a name is not."""
    assert ids_of_passing_objects(ast.parse("known[id(job.compiled_constraints())] = id(job)")) == [
        "id(job.compiled_constraints())"
    ]
