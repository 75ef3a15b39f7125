"""Every test starts from a process in which nobody has changed anything yet, in a directory of its own."""

import pytest

from hpc.autoscale import clock, hpclogging, hpctypes, results, util
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import parse


@pytest.fixture(autouse=True)
def sandbox(tmp_path, monkeypatch):
    """Put back what integrations change for the whole process, and let default files fall into `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.setattr(hpclogging, "_initialized", True)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    monkeypatch.setattr(util, "_uuid_func", util._uuid_func)
    monkeypatch.setattr(clock, "_clock", clock._clock)
    monkeypatch.setattr(hpctypes, "_BYTES_PER", dict(hpctypes._BYTES_PER))
    monkeypatch.setattr(parse, "_CUSTOM_PARSERS", parse._CUSTOM_PARSERS)
    parsers = dict(parse._CUSTOM_PARSERS)
    hpclogging.set_context("[init]")
    yield tmp_path
    results.unregister_all_result_handlers()
    hpclogging.set_context("[init]")
    parse._CUSTOM_PARSERS.clear()
    parse._CUSTOM_PARSERS.update(parsers)
