"""What the tests of logging start from and put back."""

import logging
from collections.abc import Iterator

import pytest

from hpc.autoscale import hpclogging

FORMAT = logging.Formatter("%(context)s|%(pid)s|%(levelname)s|%(filename)s|%(message)s")


class Lines(logging.Handler):
    """A handler that keeps what it would print."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No owner, and the root logger is put back after the test."""
    monkeypatch.setattr(hpclogging, "_UID", None)
    monkeypatch.setattr(hpclogging, "_GID", None)
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture
def root_lines() -> Iterator[list[str]]:
    """What is logged to the root logger at any level."""
    handler = Lines()
    logging.root.addHandler(handler)
    logging.root.setLevel(1)
    yield handler.lines
    logging.root.removeHandler(handler)
