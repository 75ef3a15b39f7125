"""Fixtures of the tests that talk to a real HTTP server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.forked import Forks, forks
from builders.reporters import CLOUD, Site
from builders.scripted_server import FakeTime, ScriptedServer, serving
from hpc.autoscale.simulator import serve


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server on loopback that answers as the test has written down."""
    with serving() as script:
        yield script


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Runs azscale in processes that need not import it."""
    with forks(tmp_path_factory.mktemp("printed")) as running:
        yield running


@pytest.fixture
def time() -> FakeTime:
    """A clock on which waiting takes no time."""
    return FakeTime()


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Site]:
    """A simulated cluster, and a directory with its configuration, where a reporter runs."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTOSCALE_CONFIG", raising=False)
    with serve(CLOUD) as simulator:
        yield Site(simulator, tmp_path, capsys)
