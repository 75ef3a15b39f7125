"""Fixtures of the tests that talk to a real HTTP server."""

from collections.abc import Iterator

import pytest

from builders.scripted_server import FakeTime, ScriptedServer, serving


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server on loopback that answers as the test has written down."""
    with serving() as script:
        yield script


@pytest.fixture
def time() -> FakeTime:
    """A clock on which waiting takes no time."""
    return FakeTime()
