"""`azscale simulate` on schedules of the simulator Batsim, which the distribution evalys ships.

docs/simulate.md says how far the results are apart.
"""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import batsim_waits
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.workload import Trace

DATA = Path(__file__).resolve().parents[1] / "data"
SCHEDULE = DATA / "evalys-batsim.swf"
WITHOUT_WAITS = DATA / "evalys-batsim-easy.swf"


def simulated(
    capsys: pytest.CaptureFixture[str], path: Path, nodes: int, *argv: str
) -> list[dict[str, Any]]:
    machine = ["--fixed", "--cores-per-node", "1", "--nodes", str(nodes)]
    main(["simulate", str(path), *machine, *argv, "-F", "json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_the_mean_wait_is_within_about_a_hundredth_of_the_published_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    published, easy, fcfs = simulated(capsys, SCHEDULE, 32, "--compare", "scheduler=fcfs")
    assert published["name"] == "as recorded" and published["jobs"] == easy["jobs"] == 800
    assert published["waits"]["mean"] == pytest.approx(10.550424, abs=1e-6)
    assert easy["waits"]["mean"] == pytest.approx(10.441757, abs=1e-6)
    assert -0.011 < easy["waits"]["mean"] / published["waits"]["mean"] - 1 < -0.010
    assert easy["waits"]["longest"] == pytest.approx(published["waits"]["longest"], abs=1e-3)
    assert easy["waits"]["p95"] == pytest.approx(published["waits"]["p95"], rel=0.06)
    assert easy["waits"]["slowdown"] == pytest.approx(published["waits"]["slowdown"], rel=0.03)
    assert easy["utilisation"] == pytest.approx(published["utilisation"], rel=1e-6)
    assert fcfs["waits"]["mean"] == pytest.approx(13.95, abs=0.005)


@pytest.fixture(scope="module")
def schedule() -> Trace:
    return read_trace(str(SCHEDULE))


def test_most_jobs_begin_when_the_published_ones_did(schedule: Trace) -> None:
    waits = batsim_waits.simulated(schedule)
    assert batsim_waits.begun_at_another_time(schedule.jobs, waits) == 61
    waited = [job for job in schedule.jobs if job.waited]
    assert len(waited) == 132
    assert batsim_waits.begun_at_another_time(waited, waits) == 55
    assert fmean(batsim_waits.apart(schedule.jobs, waits)) == pytest.approx(1.966, abs=1e-3)


@pytest.mark.parametrize(
    ("rule", "mean", "at_another_time"),
    [
        ("EASY, the first job has certain processors", 10.58, 48),
        ("EASY, who goes ahead ends before the first one's time", 11.20, 64),
        ("conservative, certain processors, promised anew", 10.58, 48),
        ("conservative, certain processors, promises are kept", 10.75, 13),
    ],
)
def test_another_rule_comes_nearer_to_the_published_schedule(
    schedule: Trace, rule: str, mean: float, at_another_time: int
) -> None:
    waits = batsim_waits.Machine(batsim_waits.RULES[rule]).play(schedule.jobs)
    assert fmean(waits.values()) == pytest.approx(mean, abs=0.005)
    assert batsim_waits.begun_at_another_time(schedule.jobs, waits) == at_another_time


def test_fractions_of_seconds_are_kept(schedule: Trace) -> None:
    first, later = schedule.jobs[0], schedule.jobs[60]
    assert (first.submitted, first.seconds, first.requested_seconds) == (11.739317, 3.993, 63.993)
    assert (later.name, later.waited) == ("60", 2.234425)


def test_nobody_waits_where_nobody_did(capsys: pytest.CaptureFixture[str]) -> None:
    published, found = simulated(capsys, WITHOUT_WAITS, 54)
    assert published["waits"]["longest"] == found["waits"]["longest"] == 0
    with_one_less = simulated(capsys, WITHOUT_WAITS, 53)[1]
    assert with_one_less["waits"]["longest"] > 0


@pytest.mark.parametrize("path", [SCHEDULE, WITHOUT_WAITS], ids=lambda path: path.stem)
def test_the_files_say_where_they_come_from_and_under_which_licence(path: Path) -> None:
    head = "".join(row for row in path.read_text("utf-8").splitlines(True) if row.startswith(";"))
    for said in ("evalys 4.0.7", "Copyright (c) 2015, Olivier Richard", "DISCLAIMED", "Batsim"):
        assert said in head
