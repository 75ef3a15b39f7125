"""A failing day is made as short as it can be, and a short script tells what it is."""

from dataclasses import replace

import pytest

from simulation import script as names
from simulation.breaks import BREAKS
from simulation.day import Report, run_day
from simulation.script import Script, Shape, Trouble, Work, draw
from simulation.shrink import shrink, written


def _fails_with(kind: str, job: int) -> Report:
    return Report(seed=1, violation=f"{kind} and {job}", invariant="made up")


def _run(script: Script) -> Report:
    """A day that fails when a reply is lost and job 3 is there."""
    is_lost = any(trouble.kind == "lost_reply" for trouble in script.troubles)
    if is_lost and any(work.number == 3 for work in script.works):
        return _fails_with("lost_reply", 3)
    return Report(seed=1)


def test_what_does_not_matter_is_left_out() -> None:
    script = draw(1, ["delay", "page", "lost_reply"])
    short = shrink(script, "made up", _run)
    assert [trouble.kind for trouble in short.troubles] == ["lost_reply"]
    assert [work.number for work in short.works] == [3]


def test_another_failure_is_not_taken_for_it() -> None:
    def run(script: Script) -> Report:
        if len(script.troubles) < 10:
            return replace(_run(script), invariant="another")
        return _run(script)

    script = draw(1, ["lost_reply"])
    assert len(shrink(script, "made up", run).troubles) == 10


def test_a_written_script_is_the_script() -> None:
    script = Script(
        seed=5,
        shape=Shape({"htc": 5}, 100, 100),
        works=(Work(1, 10.0, 300.0, ("htc",), 3, 4),),
        troubles=(Trouble(20.5, "delay", "nodes", seconds=30.0),),
    )
    assert eval(written(script), vars(names)) == script  # noqa: S307


@pytest.mark.no_cover
def test_a_day_without_a_guard_is_made_short() -> None:
    script = Script(
        seed=1,
        shape=Shape({"htc": 5, "spot": 2, "mpi": 2}, 10_000, 10_000),
        works=(Work(1, 100.0, 300.0, ("htc",), 2, 4), Work(2, 9000.0, 300.0, ("htc",), 1, 4)),
        troubles=(Trouble(50.0, "cluster_ends", seconds=900.0), Trouble(5000.0, "page", "nodes")),
    )
    with BREAKS["cluster-wanted"].off():
        found = run_day(script).invariant
        assert found is not None
        short = shrink(script, found)
    assert (short.works, short.troubles) == (script.works[:1], script.troubles[:1])
    assert run_day(short).violation is None
