"""Property tests are not measured for coverage: they would take twice as long, and what they run
is run by the tests of single cases as well."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let pytest-cov look away while a test of this directory runs."""
    item.add_marker(pytest.mark.no_cover)
