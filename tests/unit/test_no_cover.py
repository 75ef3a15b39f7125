"""Tests that are marked `no_cover` run as fast as without coverage."""

import sys

import pytest


@pytest.mark.no_cover
def test_nothing_is_traced_without_coverage() -> None:
    """In one process of several, too (conftest.py, `pytest_configure`)."""
    assert sys.gettrace() is None
