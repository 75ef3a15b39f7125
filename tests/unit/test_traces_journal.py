"""A journal as a workload: jobs as the passes of the loop have seen them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import JournalError, JournalWriter, PassRecord
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.workload import Trace, TraceError

Hosts = Mapping[str, Sequence[str]]


def waiting(name: str, ncpus: int | None = 2, **more: Any) -> dict[str, Any]:
    """A job in the queue."""
    asked = [] if ncpus is None else [{"ncpus": ncpus}]
    return {"name": name, "constraints": asked, "iterations": 1, "node-count": 0, **more}


def host(name: str, jobs: Sequence[str], free: int | None = None) -> dict[str, Any]:
    """A host of 8 cores on which jobs run."""
    found: dict[str, Any] = {"hostname": name, "resources": {"ncpus": 8}, "job-ids": list(jobs)}
    return found if free is None else {**found, "available": {"ncpus": free}}


def a_pass(
    number: int, jobs: Sequence[Mapping[str, Any]] = (), hosts: Sequence[Mapping[str, Any]] = ()
) -> PassRecord:
    """What a pass reads, one a minute."""
    return PassRecord(at=1000.0 + 60 * number, jobs=jobs, hosts=hosts)


def read(path: Path, *passes: PassRecord) -> Trace:
    writer = JournalWriter(path)
    for each in passes:
        writer.write(each)
    return read_trace(str(path))


def test_a_job_has_the_times_at_which_passes_saw_a_change(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "j",
        a_pass(0),
        a_pass(1, [waiting("7")]),
        a_pass(2, [waiting("7")]),
        a_pass(3, [], [host("h", ["7"], 6)]),
        a_pass(4, [], [host("h", ["7"], 6)]),
        a_pass(5, [], [host("h", [])]),
    )
    (job,) = trace.jobs
    assert (job.name, job.submitted, job.waited, job.seconds) == ("7", 1060.0, 120.0, 120.0)
    assert (job.cores, job.nodes, trace.form, trace.machine_cores) == (2, 0, "journal", 8)


def test_a_job_that_lost_its_host_has_the_times_of_its_last_run(tmp_path: Path) -> None:
    """As `azscale simulate` counts them: it waited until then, and took the hosts of then."""
    old = [waiting("old")]
    trace = read(
        tmp_path / "j",
        a_pass(0, [], [host("g", ["old"])]),
        a_pass(1, [waiting("7"), *old]),
        a_pass(2, [], [host("h", ["7"], 6), host("g", ["old"])]),
        a_pass(5, [waiting("7")], [host("g", ["old"])]),
        a_pass(6, [], [host("i", ["7"], 6)]),
        a_pass(7, [], [host("i", [])]),
    )
    (job,) = trace.jobs
    assert (job.name, job.submitted, job.waited, job.seconds) == ("7", 1060.0, 300.0, 60.0)
    assert (job.cores, job.nodes) == (2, 0)
    (said,) = trace.set_aside.sentences()
    assert "it began before the journal did: job old" in said


@pytest.mark.parametrize("back", [(0, 1, 4, 2), (0, 4, 2, 5)], ids=["while it ran", "waited"])
def test_a_job_whose_times_go_back_is_set_aside(tmp_path: Path, back: Sequence[int]) -> None:
    """It would have run, or have waited, for less than no time. Others are played."""
    first, come, begun, ended = map(float, back)
    seven, eight = [waiting("7")], [waiting("8")]
    trace = read(
        tmp_path / "j",
        PassRecord(at=first),
        PassRecord(at=come, jobs=seven),
        PassRecord(at=begun, hosts=[host("h", ["7"], 6)]),
        PassRecord(at=ended, hosts=[host("h", [])]),
        a_pass(1, eight),
        a_pass(2, [], [host("h", ["8"], 6)]),
        a_pass(3, [], [host("h", [])]),
    )
    assert [job.name for job in trace.jobs] == ["8"]
    (said,) = trace.set_aside.sentences()
    assert "the clock was put back while it waited or ran: job 7" in said


def test_what_a_job_asks_for_is_kept(tmp_path: Path) -> None:
    asked = [{"ncpus": 4}, {"memgb": 2.0, "ngpus": 1, "nodearray": "gpu"}]
    job = waiting("7", constraints=asked, **{"node-count": 2})
    on = [host("h", ["7"], 4), host("i", ["7"], 4)]
    (found,) = read(tmp_path / "j", a_pass(0), a_pass(1, [job]), a_pass(2, [], on), a_pass(3)).jobs
    assert (found.cores, found.nodes, found.gpus, found.queue) == (8, 2, 2, "gpu")
    assert found.memory == 2 * 2 * 2**30


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({"walltime": "01:30:00"}, 5400.0),
        ({"Time_Limit": "1-00:00:00"}, 86400.0),
        ({"h_rt": 600}, 600.0),
        ({"walltime": "UNLIMITED"}, None),
        ({"walltime": True}, None),
        ({"project": "x"}, None),
        ({}, None),
    ],
)
def test_the_users_estimate_is_what_the_driver_put_into_the_metadata(
    tmp_path: Path, said: dict[str, object], seconds: float | None
) -> None:
    passes = a_pass(0), a_pass(1, [waiting("7", metadata=said)]), a_pass(2, [], [host("h", ["7"])])
    (job,) = read(tmp_path / "j", *passes, a_pass(3)).jobs
    assert job.requested_seconds == seconds


def test_a_job_asks_for_what_all_its_parts_do(tmp_path: Path) -> None:
    """They are jobs of its name; a part that waits on alone is no other part."""
    head = waiting("7", 1)
    ranks = waiting("7", constraints=[{"ncpus": 4, "memgb": 2, "ngpus": 1}], **{"node-count": 3})
    trace = read(
        tmp_path / "j",
        a_pass(0),
        a_pass(1, [head, ranks]),
        a_pass(2, [head, ranks]),
        a_pass(3, [], [host(name, ["7"]) for name in ("h", "i", "j", "k")]),
        a_pass(4),
    )
    (job,) = trace.jobs
    assert (job.cores, job.nodes, job.memory, job.gpus) == (13, 4, 6 * 2**30, 3)


def test_a_size_in_words_is_one(tmp_path: Path) -> None:
    job = waiting("7", constraints=[{"ncpus": 1, "memgb": "memory::3.00g"}])
    passes = a_pass(0), a_pass(1, [job]), a_pass(2, [], [host("h", ["7"])]), a_pass(3)
    assert read(tmp_path / "j", *passes).jobs[0].memory == 3 * 2**30


def test_cores_of_jobs_that_were_never_seen_to_wait_follow_from_what_hosts_have_left(
    tmp_path: Path,
) -> None:
    trace = read(
        tmp_path / "j",
        a_pass(0),
        a_pass(1, [], [host("h", ["a", "b"], 3)]),
        a_pass(2, [], [host("h", ["a", "b", "c"], 2)]),
        a_pass(3, [], [host("h", ["b"], 6)]),
        a_pass(4, [], [host("h", ["d", "e"], 1)]),
        a_pass(5),
    )
    assert {job.name: job.cores for job in trace.jobs} == {"a": 3, "b": 2, "c": 1}
    assert trace.set_aside.sentences() == [
        "2 jobs set aside: the number of cores is unknown: jobs d, e"
    ]


def test_tasks_of_an_array_ask_for_what_the_array_does(tmp_path: Path) -> None:
    array = waiting("12[]", 2, iterations=3)
    trace = read(
        tmp_path / "j",
        a_pass(0),
        a_pass(1, [array]),
        a_pass(2, [array], [host("h", ["12[1]", "12[2]"], 4)]),
        a_pass(3, [], [host("h", ["12[3]"], 6)]),
        a_pass(4),
    )
    assert {job.name: (job.cores, job.waited) for job in trace.jobs} == {
        "12[1]": (2, 60.0),
        "12[2]": (2, 60.0),
        "12[3]": (2, 120.0),
    }
    assert trace.set_aside.count == 0


def test_tasks_of_an_array_that_is_not_handed_over_while_its_limit_is_reached(
    tmp_path: Path,
) -> None:
    """They ask for what it did: the cores of two that began together were unknown."""
    array = waiting("12", 2, iterations=2)
    trace = read(
        tmp_path,
        a_pass(0),
        a_pass(1, [array]),
        a_pass(2, [], [host("h", ["12_1", "12_2"], 4)]),
        a_pass(3),
        a_pass(4, [], [host("h", ["12_3", "12_4"], 4)]),
        a_pass(5),
    )
    assert [(job.name, job.cores) for job in trace.jobs] == [(f"12_{n}", 2) for n in range(1, 5)]
    assert trace.set_aside.count == 0


def test_what_was_not_seen_from_beginning_to_end_is_set_aside_by_name(tmp_path: Path) -> None:
    running = {"executing-hostnames": ["h"]}
    trace = read(
        tmp_path / "j",
        a_pass(0, [], [host("h", ["early"], 0)]),
        a_pass(1, [waiting("gone"), waiting("odd", None, **running)]),
        a_pass(2, [waiting("good", **running), {"kind": "none", "type": "int"}]),
        a_pass(3, [waiting("late")], [host("h", ["late"], 7)]),
    )
    assert [job.name for job in trace.jobs] == ["good"]
    assert trace.set_aside.sentences() == [
        "1 job set aside: it began before the journal did: job early",
        "1 job set aside: it was not seen to run: too short, or cancelled: job gone",
        "1 job set aside: the number of cores is unknown: job odd",
        "1 job set aside: it had not ended when the journal did: job late",
    ]


def test_a_pass_that_read_nothing_ends_no_job(tmp_path: Path) -> None:
    failed = PassRecord(at=1100.0, did={"ended_by": "the scheduler does not answer"})
    there = [host("h", ["7"], 6)]
    (job,) = read(
        tmp_path / "j",
        a_pass(0),
        a_pass(1, [waiting("7")], there),
        failed,
        a_pass(3, [], there),
        a_pass(4),
    ).jobs
    assert job.seconds == 180.0


def test_one_file_of_a_journal_is_one_too_and_the_rest_of_a_garbled_one(tmp_path: Path) -> None:
    passes = a_pass(0), a_pass(1, [waiting("7")]), a_pass(2, [], [host("h", ["7"])]), a_pass(3)
    whole = read(tmp_path / "j", *passes)
    (file,) = (tmp_path / "j").glob("*.gz")
    assert read_trace(str(file)).jobs == whole.jobs
    file.write_bytes(file.read_bytes() + file.read_bytes()[:60])
    trace = read_trace(str(tmp_path / "j"), "journal")
    assert trace.jobs == whole.jobs and "its end is missing" in trace.problems[0]


def test_what_is_no_journal_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JournalError, match="there is no file journal-"):
        read_trace(str(tmp_path))
    with pytest.raises(TraceError, match="expected jobs that ran, found none: it is empty"):
        read(tmp_path / "j", a_pass(0))
    with pytest.raises(SystemExit):
        main(["simulate", str(tmp_path)])
    assert capsys.readouterr().err.count("\n") == 1
