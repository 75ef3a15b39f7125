"""The promises of a driver, as a class of checks to inherit from. Needs pytest, the extra
`testing`.

    from hpc.autoscale.testing import SchedulerWorld
    from hpc.autoscale.testing.conformance import DriverConformance

    class TestMyDriver(DriverConformance):
        def new_world(self) -> SchedulerWorld:
            return MyWorld(self.directory)

Every check is a method whose name and docstring say what the loop counts on. It runs the real loop,
on a `Stage`. `growing`, `shrinking` and `trouble` hold the checks; docs/writing-an-integration.md
tells how to read what they say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpc.autoscale.testing.conformance.growing import Growing
from hpc.autoscale.testing.conformance.shrinking import Shrinking
from hpc.autoscale.testing.conformance.trouble import Trouble
from hpc.autoscale.testing.stage import Stage, on_stage
from hpc.autoscale.testing.world import SchedulerWorld

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"hpc.autoscale.testing.conformance: {error.name} is missing: pip install"
        " 'hpc-autoscale[testing]'",
        name=error.name,
    ) from None


class DriverConformance(Growing, Shrinking, Trouble):
    """All checks. A subclass says which driver they are for; it may override a check that its
    scheduler is exempt from.

    `directory` is an empty directory for the world of one check.
    """

    directory: Path

    def new_world(self) -> SchedulerWorld:
        """A scheduler with nothing in it."""
        raise NotImplementedError(f"{type(self).__name__} must define new_world()")

    @pytest.fixture
    def world(self, tmp_path: Path) -> SchedulerWorld:
        """`new_world()`; to be overridden where a world needs fixtures."""
        self.directory = tmp_path / "world"
        self.directory.mkdir()
        return self.new_world()

    @pytest.fixture
    def stage(self, world: SchedulerWorld, tmp_path: Path) -> Iterator[Stage]:
        """The world with a cluster, a clock and the loop."""
        with on_stage(world, tmp_path / "home") as stage:
            yield stage
