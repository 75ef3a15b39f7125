"""What a loop says while it runs: a line for each pass, more only when there is something new."""

import json

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import PassError, PassSummary, UnsatisfiedJob
from hpc.autoscale.autoscaler.summary import SKIPPED
from hpc.autoscale.cli.servicelog import LONGEST, ServiceLog
from hpc.autoscale.explaining.words import at_time


@pytest.fixture
def said():
    """The lines so far."""
    clock.use_clock(clock.MockClock(1_700_000_000))
    return []


def waiting(*names, reason="quota has 8 of 8 cores in use"):
    """Jobs that wait for the same."""
    return tuple(UnsatisfiedJob(name, 1, reason, reason) for name in names)


def test_a_line_with_the_time_for_each_pass(said):
    """Also for one that does nothing."""
    log = ServiceLog(say=said.append)
    log.pass_finished(PassSummary(jobs=2, booting=("a", "b"), duration=0.31))
    clock.sleep(60)
    log.pass_finished(PassSummary(jobs=1, duration=0.1))
    assert said == [
        "2023-11-14T22:13:20Z 2 jobs, 2 booting (a, b), in 0.3 s",
        "2023-11-14T22:14:20Z 1 job, in 0.1 s",
    ]


def test_a_line_within_a_pass_is_no_part_of_its_record(said):
    """Whoever records which times a pass was told does not hear of the line's own: no replay, which
    tells nothing, asks for it."""
    heard = []
    with clock.heard_by(heard.append):
        ServiceLog(say=said.append).tell("cluster west is set aside")
    assert (said, heard) == (["2023-11-14T22:13:20Z cluster west is set aside"], [])


def test_a_reason_is_told_once(said):
    """Until it is gone and comes back; other jobs and other figures are no news."""
    log = ServiceLog(say=said.append)
    for passes, jobs in enumerate((waiting("1", "2"), waiting("3"), (), waiting("3"))):
        log.pass_finished(PassSummary(jobs=len(jobs), unsatisfied=jobs))
        assert len(said) == (2, 3, 4, 6)[passes]
    log.pass_finished(PassSummary(unsatisfied=waiting("3", reason="quota has 9 of 9 cores in use")))
    assert len(said) == 7
    log.pass_finished(PassSummary(unsatisfied=waiting("3", reason="held back")))
    assert said[-1].endswith("  1 job (3) waits: held back")


@pytest.mark.parametrize("when", ["next try {}", "tried again with 1 node first, with all {}"])
def test_that_the_time_goes_by_is_no_news(said, when):
    """In how long something is tried again is another time in each pass, and in another unit
    once."""
    log = ServiceLog(say=said.append)
    at = clock.time() + 200
    for _ in range(4):
        jobs = waiting("1", reason=f"F2 rests: {when.format(at_time(at))}")
        log.pass_finished(PassSummary(jobs=1, unsatisfied=jobs))
        clock.sleep(60)
    assert sum("F2 rests" in line for line in said) == 1


def test_notes_and_errors_are_told_once(said):
    """Each as a line with the time."""
    log = ServiceLog(say=said.append)
    summary = PassSummary(notes=("nodearray x is off",), errors=(PassError("joining", "no"),))
    log.pass_finished(summary)
    log.pass_finished(summary)
    assert [line.split(None, 1)[1] for line in said[1:3]] == ["nodearray x is off", "joining: no"]
    assert len(said) == 4
    assert all(line.startswith("2023-11-14T22:13:20Z ") for line in said)


def test_lines_are_short_and_harmless(said):
    """Whatever a server or a scheduler says."""
    log = ServiceLog(say=said.append)
    log.tell("\033[31mred\nsecond")
    log.pass_finished(PassSummary(notes=("x" * 1000,)))
    assert not any("\033" in line or "\n" in line for line in said)
    assert max(map(len, said)) <= LONGEST + len("2023-11-14T22:13:20Z ")


def test_a_pass_that_failed(said):
    """Says why, and when the next one is."""
    log = ServiceLog(say=said.append)
    log.pass_failed(PassError("pass", "no answer"), 3, 240.0)
    assert said == ["2023-11-14T22:13:20Z pass: no answer (3 in a row); next pass in 240 s"]


def test_a_pass_that_was_skipped(said):
    """Is no failure in a row."""
    log = ServiceLog(say=said.append)
    log.pass_failed(PassError(SKIPPED, "held by process 7"), 3, 15.0)
    assert said == ["2023-11-14T22:13:20Z skipped: held by process 7; next pass in 15 s"]


def test_a_long_reason_of_a_failure(said):
    """Is cut, and not what is said behind it."""
    ServiceLog(say=said.append).pass_failed(PassError("pass", "x" * 1000), 2, 60.0)
    assert said[0].endswith("x… (2 in a row); next pass in 60 s")
    assert len(said[0]) == LONGEST + len("2023-11-14T22:13:20Z ")


def test_nodes_that_joined_are_named_once(said):
    """Until they were gone for a pass: a loop hands them over in each."""
    log = ServiceLog(say=said.append)
    for joined in (("a", "b"), ("a", "b"), ("a", "b", "c"), ("a",), ("a", "b")):
        log.pass_finished(PassSummary(joined=joined))
    assert [line.split(None, 1)[1] for line in said] == [
        "0 jobs, 2 joined (a, b), in 0.0 s",
        "0 jobs, in 0.0 s",
        "0 jobs, 1 joined (c), in 0.0 s",
        "0 jobs, in 0.0 s",
        "0 jobs, 1 joined (b), in 0.0 s",
    ]


def test_nodes_that_the_scheduler_knows_have_not_joined(said):
    """In the first pass of a process, which knows of no other."""
    log = ServiceLog(say=said.append)
    for _ in range(2):
        log.pass_finished(PassSummary(joined=("a", "b"), newly_joined=("b",)))
    assert [line.split(None, 1)[1] for line in said] == [
        "0 jobs, 1 joined (b), in 0.0 s",
        "0 jobs, in 0.0 s",
    ]


def test_json_lines(said):
    """An object for each pass: counts of all, names of what happened, and few jobs."""
    log = ServiceLog("json", said.append)
    jobs = waiting(*map(str, range(10_000)))
    nodes = tuple(f"n{number}" for number in range(5_000))
    log.pass_finished(
        PassSummary(jobs=10_000, unsatisfied=jobs, booting=nodes, created=("new",), duration=1.5)
    )
    log.pass_failed(PassError("pass", "no answer"), 1, 60.0)
    log.tell("a doubt")
    done, failed, note = map(json.loads, said)
    assert (done["at"], done["event"], done["level"]) == ("2023-11-14T22:13:20Z", "pass", "info")
    assert (done["jobs_unsatisfied"], done["nodes_booting"], done["created"]) == (
        10_000,
        5_000,
        ["new"],
    )
    assert len(said[0]) < 4_000
    assert (failed["event"], failed["error"], failed["next_pass_in"]) == (
        "failed",
        "pass: no answer",
        60.0,
    )
    assert (note["event"], note["message"]) == ("note", "a doubt")


def test_what_is_news():
    """What a pass did; not what nodes are."""
    log = ServiceLog(say=print)
    assert log.is_news(PassSummary(deleted=("a",)))
    assert not log.is_news(PassSummary(joined=("a",), booting=("b",), idle=("c",)))
