"""A simulator over HTTP with the smallest cluster there is, for tests of commands that read it."""

from collections.abc import Iterator

import pytest

from hpc.autoscale.simulator import Simulator, serve

SIZE = "Standard_F4s_v2"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """A cluster with one nodearray."""
    clusters = {"demo": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}
    with serve({"clusters": clusters}) as running:
        yield running
