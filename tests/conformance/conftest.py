"""Every test starts from a process in which nobody has changed anything yet, in a directory of its
own."""

import pytest

from hpc.autoscale import hpclogging
from hpc.autoscale.job.schedulernode import SchedulerNode


@pytest.fixture(autouse=True)
def sandbox(tmp_path, monkeypatch):
    """Let default files fall into `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.setattr(hpclogging, "_initialized", True)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    hpclogging.set_context("[init]")
    return tmp_path
