"""Recorded workloads: what is a job, what is set aside, and how a form is seen."""

import gzip
import json
import re
from pathlib import Path

import pytest

from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.workload import Trace, TraceError

HEADER = """; Version: 2.2
; UnixStartTime: 1000000
; MaxProcs: 64
; MaxNodes: 16
;
"""


def swf(*rows: tuple[int, ...]) -> str:
    """Lines of jobs: number, submit, wait, run, processors, requested time."""
    return "".join(
        f"{n} {submit} {wait} {run} {procs} -1 -1 {procs} {asked} -1 1 3 1 -1 1 -1 -1 -1\n"
        for n, submit, wait, run, procs, asked in rows
    )


def read(path: Path, content: str | bytes, form: str | None = None) -> Trace:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_trace(str(path), form)


def test_a_job_of_swf_has_its_fields(tmp_path: Path) -> None:
    trace = read(tmp_path / "log", HEADER + swf((7, 50, 20, 300, 8, 600)))
    (job,) = trace.jobs
    assert (job.name, job.submitted, job.seconds, job.cores) == ("7", 1000050.0, 300.0, 8)
    assert (job.waited, job.requested_seconds, job.estimate, job.user) == (20.0, 600.0, 600.0, "3")
    assert (trace.machine_cores, trace.machine_nodes, trace.form) == (64, 16, "swf")


def test_an_estimate_is_never_shorter_than_the_run(tmp_path: Path) -> None:
    (job,) = read(tmp_path / "log", swf((1, 0, 0, 300, 1, 60))).jobs
    assert job.estimate == 300.0


def test_what_is_unknown_is_not_zero(tmp_path: Path) -> None:
    (job,) = read(tmp_path / "log", swf((1, 0, -1, 300, 1, -1))).jobs
    assert job.waited is None and job.requested_seconds is None


def test_processors_are_those_requested_where_none_were_allocated(tmp_path: Path) -> None:
    line = "1 0 5 60 -1 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
    assert read(tmp_path / "log", line).jobs[0].cores == 4


def test_a_compressed_file_is_the_same(tmp_path: Path) -> None:
    text = HEADER + swf((1, 0, 0, 60, 1, 60), (2, 5, 0, 60, 1, 60))
    plain = read(tmp_path / "plain", text)
    packed = read(tmp_path / "packed", gzip.compress(text.encode()))
    assert packed.jobs == plain.jobs and len(plain.jobs) == 2


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_mark_at_the_start_of_a_file_is_passed_over(tmp_path: Path, is_packed: bool) -> None:
    """Programs for Windows write one."""
    for number, text in enumerate((swf((1, 0, 0, 60, 1, 60)), SACCT, QSTAT)):
        marked = "\ufeff" + text
        file = gzip.compress(marked.encode()) if is_packed else marked
        found = read(tmp_path / f"marked-{number}", file)
        assert found.jobs == read(tmp_path / f"plain-{number}", text).jobs and found.jobs


@pytest.mark.parametrize("odd", ["²", "9" * 5000, "-4", "1e3"])
def test_what_is_no_whole_number_sets_its_job_aside(tmp_path: Path, odd: str) -> None:
    """Whatever looks like one; the others are read."""
    sacct = read(tmp_path / "sacct", SACCT.replace("|2|16|", f"|{odd}|{odd}|"))
    assert [job.name for job in sacct.jobs] == ["14"]
    assert "1 line set aside: the number of cores is unknown: line 2" in " ".join(
        sacct.set_aside.sentences()
    )
    second = QSTAT.replace("1234", "77").replace("ncpus = 8", f"ncpus = {odd}")
    assert [job.name for job in read(tmp_path / "qstat", QSTAT + second).jobs] == ["1234"]


def test_more_fields_than_the_standard_has_are_passed_over(tmp_path: Path) -> None:
    line = swf((1, 0, 0, 60, 1, 60)).strip() + " {1241,1241} q_2w 1:ppn=12\n"
    assert len(read(tmp_path / "log", line).jobs) == 1


def test_jobs_are_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    trace = read(tmp_path / "log", swf((1, 90, 0, 60, 1, 60), (2, 5, 0, 60, 1, 60)))
    assert [job.name for job in trace.jobs] == ["2", "1"]


def test_bad_lines_are_counted_and_named_and_stop_nothing(tmp_path: Path) -> None:
    good = swf((1, 0, 0, 60, 1, 60))
    bad = "2 5 0 60\n" + good.replace(" 60 ", " sixty ", 1) + swf((4, 9, 0, 0, 1, 60)) * 7
    bad += swf((5, 9, 0, 60, 0, 60)) + swf((6, -4, 0, 60, 1, 60)) + "3 4 nan" + " 1" * 15 + "\n"
    trace = read(tmp_path / "log", HEADER + good + bad)
    assert len(trace.jobs) == 1 and trace.set_aside.count == 12
    assert trace.set_aside.sentences() == [
        "1 line set aside: expected 18 fields: line 7 (found 4)",
        "2 lines set aside: expected numbers: lines 8 (found none in field 4), 18 (found none in"
        " field 3)",
        "7 lines set aside: it did not run: lines 9, 10, 11, 12, 13, …",
        "1 line set aside: the number of processors is unknown: line 16",
        "1 line set aside: the submit time is unknown: line 17",
    ]


def test_parts_of_a_job_that_was_interrupted_are_no_jobs(tmp_path: Path) -> None:
    """The standard has a line for the whole of it as well: status 2 to 4 are its parts."""
    whole, first, last = (
        f"7 {submit} 5 {run} 4 -1 -1 4 600 -1 {status} 3 1 -1 1 -1 -1 -1\n"
        for submit, run, status in ((50, 300, 1), (50, 100, 2), (-1, 200, 3))
    )
    trace = read(tmp_path / "log", HEADER + whole + first + last)
    assert [job.seconds for job in trace.jobs] == [300.0]
    (said,) = trace.set_aside.sentences()
    assert said.startswith("2 lines set aside: it is a part of a job that was interrupted")


SACCT = """JobID|User|Submit|Start|End|NNodes|NCPUS|Timelimit|State
12|ann|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|2|16|1-02:00:00|COMPLETED
12.batch||2026-01-01T00:01:00|2026-01-01T00:01:00|2026-01-01T01:01:00|1|8||COMPLETED
13_4|bob|2026-01-01T00:00:10|Unknown|Unknown|1|4|01:00:00|PENDING
14|bob|2026-01-01T00:00:20|2026-01-01T00:00:20|2026-01-01T00:05:20|1|4|UNLIMITED|FAILED
15|bob|2026-01-01T00:00:20
"""


def test_the_output_of_sacct(tmp_path: Path) -> None:
    trace = read(tmp_path / "jobs.txt", SACCT)
    first, second = trace.jobs
    assert (first.name, first.seconds, first.cores, first.nodes) == ("12", 3600.0, 16, 2)
    assert (first.waited, first.requested_seconds, first.user) == (60.0, 93600.0, "ann")
    assert (second.name, second.nodes, second.requested_seconds) == ("14", 0, None)
    assert trace.set_aside.sentences() == [
        "1 line set aside: it did not run, or has not ended: line 4 (job 13_4)",
        "1 line set aside: expected 9 columns: line 6 (found 3)",
    ]


def test_times_of_sacct_may_be_seconds(tmp_path: Path) -> None:
    """With SLURM_TIME_FORMAT=%s it prints them so."""
    times = {"Submit": "1767225600", "Start": "1767225660", "End": "1767229260"}
    assert read(tmp_path / "seconds", sacct(**times)).jobs == read(tmp_path / "iso", sacct()).jobs


def test_sacct_without_a_column_that_is_needed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"expected a column submit .*did you mean 'submitt'.*--fo"
    ):
        read(tmp_path / "jobs.txt", SACCT.replace("Submit", "Submitt"))
    with pytest.raises(TraceError, match="expected a column NCPUS, AllocCPUS or ReqCPUS"):
        read(tmp_path / "jobs.txt", SACCT.replace("NCPUS", "Cpus"))


QSTAT = """Job Id: 1234.pbs-1
    Job_Name = hello
    Job_Owner = ann@login
    resources_used.walltime = 00:10:00
    job_state = F
    qtime = Thu Jan  1 12:00:00 2026
    stime = Thu Jan  1 12:05:00 2026
    Resource_List.ncpus = 8
    Resource_List.nodect = 2
    Resource_List.walltime = 01:00:00
    Resource_List.my-licences = 3
    Variable_List = PBS_O_HOME=/home/ann,
\tPBS_O_LANG=en

Job Id: 1235.pbs-1
    job_state = R
    qtime = Thu Jan  1 12:00:00 2026
    stime = Thu Jan  1 12:05:00 2026
    resources_used.walltime = 00:10:00
    Resource_List.ncpus = 8
"""


def test_the_output_of_qstat(tmp_path: Path) -> None:
    trace = read(tmp_path / "qstat.txt", QSTAT)
    (job,) = trace.jobs
    assert (job.name, job.seconds, job.cores, job.nodes, job.user) == ("1234", 600.0, 8, 2, "ann")
    assert (job.waited, job.requested_seconds) == (300.0, 3600.0)
    (sentence,) = trace.set_aside.sentences()
    assert "line 15 (job 1235)" in sentence


def test_qstat_as_json_is_the_same(tmp_path: Path) -> None:
    said = {
        "Job_Owner": "ann@login",
        "job_state": "F",
        "qtime": "Thu Jan  1 12:00:00 2026",
        "stime": "Thu Jan  1 12:05:00 2026",
        "resources_used": {"walltime": "00:10:00"},
        "Resource_List": {"ncpus": 8, "nodect": 2, "walltime": "01:00:00"},
    }
    content = json.dumps({"timestamp": 1, "Jobs": {"1234.pbs-1": said}}, indent=4)
    assert read(tmp_path / "a", content).jobs == read(tmp_path / "b", QSTAT).jobs


@pytest.mark.parametrize(
    ("content", "form", "said"),
    [
        (b"", None, "found an empty file: name its form"),
        (b"\n" * 60, None, "found empty lines"),
        (b"hello\n", None, "expected jobs in the form of swf, sacct, qstat, journal, found a f"),
        (b'\n[{"jobid": 1}]', None, "found JSON that is no output of qstat"),
        (b"JobID,User,Submit\n", "sacct", "expected a column jobid .* found 1 other column: ask"),
        (b"1 2 3\n", "swf", "expected jobs that ran, found none: 1 line set aside"),
        (b"", "swf", "expected jobs that ran, found none: it is empty"),
        (b"x", "sfw", "did you mean 'swf'"),
        (
            gzip.compress(swf((1, 0, 0, 60, 1, 60)).encode() * 99, mtime=0)[:60],
            None,
            "compressed data",
        ),
        (b"\x1f\x8bnothing at all", None, "is damaged: Unknown compression"),
        (b'{"Jobs": [', "qstat", "expected JSON as qstat"),
        (b'{"jobs": {}}', "qstat", "expected an object with Jobs"),
    ],
)
def test_what_is_no_workload_is_refused_in_one_line(
    tmp_path: Path, content: bytes, form: str | None, said: str
) -> None:
    with pytest.raises(TraceError, match=said) as caught:
        read(tmp_path / "log", content, form)
    assert "\n" not in str(caught.value)


SECRET = "s3cr3t"


@pytest.mark.parametrize("form", [None, "swf", "sacct", "qstat"])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"password": SECRET, "url": "https://here"}),
        json.dumps({"password": SECRET, "values": list(range(30))}, indent=1),
        f'"password":"{SECRET}" {"1 " * 30}\n',
        f"; a file of settings\n{SECRET} {'1 ' * 30}\n",
        f"password|{SECRET}|\n",
        f"{SECRET}\n",
        f"Job Id: 1\n{SECRET}\n    {SECRET}\n",
    ],
)
def test_nothing_of_a_file_that_is_another_one_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, form: str | None
) -> None:
    path = tmp_path / "autoscale.json"
    path.write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(path), *(["--form", form] if form else [])])
    said = capsys.readouterr()
    assert ended.value.code not in (0, None) and SECRET not in said.err + said.out
    assert said.err.startswith(f"azscale simulate: error: {path}: expected ")
    assert said.err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere cannot be read: No such file"):
        read_trace(str(tmp_path / "nowhere"))


def test_a_part_is_chosen_by_time(tmp_path: Path) -> None:
    rows = [(n, n * 100, 0, 60, 1, 60) for n in range(10)]
    trace = read(tmp_path / "log", swf(*rows))
    assert [job.name for job in trace.part(200, 300)] == ["2", "3", "4"]
    assert len(trace.part()) == 10 and trace.part(5000) == []


def test_a_job_of_swf_says_what_it_asks_for_and_after_whom(tmp_path: Path) -> None:
    line = "9 0 5 60 4 -1 -1 4 60 1024 1 1 1 -1 0 3 7 30\n"
    (job,) = read(tmp_path / "log", line).jobs
    assert (job.memory, job.queue, job.partition) == (4 * 2**20, "0", "3")
    assert (job.after, job.think) == (("7",), 30.0)
    (other,) = read(tmp_path / "other", swf((1, 0, 0, 60, 1, 60))).jobs
    assert (other.memory, other.partition, other.after, other.think) == (None, "", (), None)


@pytest.mark.parametrize(
    ("unit", "found"), [("kb", 2**12), ("b", 4), ("mb/job", 2**20), ("gb", 2**32)]
)
def test_memory_of_swf_is_in_the_unit_that_is_said(tmp_path: Path, unit: str, found: float) -> None:
    (tmp_path / "log").write_text("9 0 5 60 4 -1 -1 4 60 1 1 1 1 -1 1 1 -1 -1\n")
    assert read_trace(str(tmp_path / "log"), memory_unit=unit).jobs[0].memory == found


def test_a_unit_of_memory_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="found 'kbb'; did you mean 'kb'"):
        read_trace(str(tmp_path / "log"), memory_unit="kbb")


def test_a_queue_with_a_name_in_a_log_of_metacentrum_is_one(tmp_path: Path) -> None:
    line = "1 5 7 60 12 1 1024 12 120 9 1 101 1 1 -1 1 1 1 {1129,1129} q_2w 1:ppn=12\n"
    assert read(tmp_path / "log", line).jobs[0].queue == "q_2w"


def sacct(**more: str) -> str:
    """One job of 8 cores on two nodes, with more columns."""
    row = {
        "JobID": "12",
        "Submit": "2026-01-01T00:00:00",
        "Start": "2026-01-01T00:01:00",
        "End": "2026-01-01T01:01:00",
        "NNodes": "2",
        "NCPUS": "8",
        **more,
    }
    return f"{'|'.join(row)}\n{'|'.join(row.values())}\n"


@pytest.mark.parametrize(
    ("said", "memory"),
    [
        ({"AllocTRES": "billing=8,cpu=8,mem=64G,node=2", "ReqMem": "1G"}, 64 * 2**30),
        ({"ReqMem": "4000Mc"}, 8 * 4000 * 2**20),
        ({"ReqMem": "1.5Gn"}, 3 * 2**30),
        ({"ReqMem": "16G"}, 16 * 2**30),
        ({"ReqMem": "512"}, 512 * 2**20),
        ({"ReqMem": "1.2.3G"}, None),
        ({"ReqMem": "0n"}, None),
        ({"ReqMem": "lots"}, None),
        ({}, None),
    ],
)
def test_memory_of_sacct(tmp_path: Path, said: dict[str, str], memory: float | None) -> None:
    assert read(tmp_path / "jobs", sacct(**said)).jobs[0].memory == memory


def test_gpus_partition_and_dependencies_of_sacct(tmp_path: Path) -> None:
    text = sacct(
        AllocTRES="cpu=8,gres/gpu=4,gres/gpu:a100=4",
        Partition="gpu",
        Dependency="afterok:10_2:11(fulfilled),singleton,afterany:9+5",
    )
    (job,) = read(tmp_path / "jobs", text).jobs
    assert (job.gpus, job.partition, job.after) == (4, "gpu", ("10_2", "11", "9"))
    assert job.think is None


@pytest.mark.parametrize(
    ("said", "gpus"),
    [
        ("cpu=8,gres/gpu:a100=2", 2),
        ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=1,gres/gpumem=80G", 3),
        ("cpu=8,gres/gpu=0,gres/gpu:a100=0", 0),
        ("cpu=8,gres/gpu:a100=many", None),
        ("cpu=8,mem=4G", None),
    ],
)
def test_gpus_of_sacct_where_only_kinds_are_counted(
    tmp_path: Path, said: str, gpus: int | None
) -> None:
    """AccountingStorageTRES may have gres/gpu:a100 alone."""
    assert read(tmp_path / "jobs", sacct(AllocTRES=said)).jobs[0].gpus == gpus


def test_tasks_of_an_array_of_sacct_are_named_with_it(tmp_path: Path) -> None:
    text = sacct(JobID="12_3", Dependency="afterok:10_*(unfulfilled),aftercorr:11")
    (job,) = read(tmp_path / "jobs", text).jobs
    assert (job.name, job.array, job.after) == ("12_3", "12", ("10", "11_3"))


def test_subjobs_of_an_array_of_pbs_are_named_with_it(tmp_path: Path) -> None:
    name, depends = (
        "Job Id: 1234[7].pbs-1",
        "    depend = afterok:1230[].pbs-1\n    job_state = F\n",
    )
    text = re.sub("Job Id: .*", name, QSTAT, count=1).replace("    job_state = F\n", depends, 1)
    job = read(tmp_path / "jobs", text).jobs[0]
    assert (job.name, job.array, job.after) == ("1234[7]", "1234[]", ("1230[]",))


def test_what_a_job_of_pbs_asks_for(tmp_path: Path) -> None:
    more = """    queue = workq
    Resource_List.mem = 4gb
    Resource_List.ngpus = 2
    depend = afterok:1230.pbs-1@pbs-1:1231.pbs-1,beforeok:1300.pbs-1
"""
    text = QSTAT.replace("    job_state = F\n", f"    job_state = F\n{more}")
    (job,) = read(tmp_path / "qstat.txt", text).jobs
    assert (job.memory, job.gpus, job.queue) == (4 * 2**30, 2, "workq")
    assert job.after == ("1230", "1231")
