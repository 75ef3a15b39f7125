"""Property tests are not measured for coverage: they would take twice as long, and what they run
is run by the tests of single cases as well."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_MEMORY = "/dev/shm"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let pytest-cov look away while a test of this directory runs."""
    item.add_marker(pytest.mark.no_cover)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for the files of a site, in memory where that is possible, as are all files that
    have no place of their own: no law is about what a disk keeps."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        made = Path(directory) / "site"
        made.mkdir()
        yield made
