"""What the tests of machines that a scheduler reports begin with."""

import pytest

from hpc.autoscale.job.schedulernode import SchedulerNode


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host name is looked up."""
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
