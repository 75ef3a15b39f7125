"""The groups of commands that make up CommonCLI, each by itself."""

import ast
import inspect

import pytest

from hpc.autoscale.cli.base import CommandLine
from hpc.autoscale.cli.common import CommonCLI

GROUPS = CommonCLI.__bases__


def attributes(cls, context):
    """The names of all attributes of self that a class reads (ast.Load) or writes (ast.Store)."""
    return {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(cls)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and isinstance(node.ctx, context)
    }


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_a_group_uses_nothing_of_another_group(group):
    """Neither methods nor fields: what several need is CommandLine's."""
    of_others = {name for other in GROUPS if other is not group for name in vars(other)}
    shared = {*dir(CommandLine), *dir(object)}
    assert group.__bases__ == (CommandLine,)
    assert not (attributes(group, ast.Load) & of_others) - shared - set(vars(group))


def test_a_field_has_one_owner():
    """No two classes set the same field."""
    written = [attributes(cls, ast.Store) for cls in (CommandLine, *GROUPS)]
    assert sum(map(len, written)) == len(set().union(*written))
