"""Where property tests keep their files."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_MEMORY = "/dev/shm"


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
