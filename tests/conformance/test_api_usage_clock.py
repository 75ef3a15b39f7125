"""Section 4: `hpc.autoscale.clock` and `hpc.autoscale.codeanalysis`."""

import time

import pytest

from builders.nodes import an_htc_cluster
from builders.published import row
from hpc.autoscale import clock, codeanalysis
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.testing import a_config


@row("clock.module")
def test_the_clock_is_the_real_one_at_first():
    """Unix seconds, and a sleep of no time returns."""
    before = time.time()
    clock.sleep(0)
    assert before <= clock.time() <= time.time()


@row("clock.module")
def test_a_mock_clock_moves_only_by_sleeping():
    """From 1000.0 on, without waiting; so a loop that waits with clock.sleep ends at once."""
    mock = clock.use_mock_clock()
    assert clock.time() == 1000.0
    deadline = clock.time() + 3600
    while clock.time() < deadline:
        clock.sleep(15)
    assert clock.time() == mock.time() == 4600.0
    mock.now = 5.0
    assert clock.time() == 5.0


@row("clock.module")
def test_idle_times_follow_the_clock():
    """The library reads the same clock, so an integration's test needs no waiting."""
    now = clock.use_mock_clock()
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-1")
    found = []
    for wait in (0, 300, 2):
        now.sleep(wait)
        dcalc = new_demand_calculator(a_config(cluster))
        dcalc.update_history()
        found.append(len(dcalc.find_unmatched_for(at_least=300)))
    assert found == [0, 0, 1]


@row("codeanalysis.switch")
@pytest.mark.skipif(not __debug__, reason="typeguard checks nothing under python -O")
def test_the_switch_is_looked_up_at_each_call(monkeypatch):
    """Upstream's tests turn it off around slow ones and on again; functions that were checked
    follow."""

    def double(x: int) -> int:
        return 2 * x

    monkeypatch.setattr(codeanalysis, "RUNTIME_TYPE_CHECKING", True)
    checked = codeanalysis.hpcwrap(double)
    with pytest.raises(Exception, match="int"):
        checked("a")
    codeanalysis.RUNTIME_TYPE_CHECKING = False
    assert checked("a") == "aa"
    codeanalysis.RUNTIME_TYPE_CHECKING = True
    with pytest.raises(Exception, match="int"):
        checked("a")
    assert (checked(2), checked.__name__) == (4, "double")


@row("codeanalysis.switch")
def test_nothing_is_wrapped_while_the_switch_is_off(monkeypatch):
    """The decorators cost nothing then."""

    def double(x: int) -> int:
        return 2 * x

    monkeypatch.setattr(codeanalysis, "RUNTIME_TYPE_CHECKING", False)
    assert codeanalysis.hpcwrap(double) is double
