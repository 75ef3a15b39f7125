"""Tests that are marked `no_cover` run as fast as without coverage."""

import sys

import pytest


@pytest.mark.no_cover
def test_nothing_is_traced_without_coverage() -> None:
    """In one process of several, too (conftest.py, `pytest_configure`)."""
    assert sys.gettrace() is None


def test_what_others_repeat_is_there(pytestconfig: pytest.Config) -> None:
    """A file of tests that was renamed would be measured, and take twice as long."""
    root = pytestconfig.rootpath
    shared = pytestconfig.pluginmanager.getplugin(str(root / "conftest.py"))
    assert shared is not None
    there = {path.stem for path in (root / "tests").rglob("test_*.py")}
    assert not shared.REPEATED - there
