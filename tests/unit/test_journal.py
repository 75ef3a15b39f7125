"""A journal on the disk: what is written is read again, whatever became of its files meanwhile."""

import errno
import gzip
import json
import os
import random
import time
import tracemalloc
from dataclasses import replace

import pytest

from builders.journals import a_pass_record, a_waiting_job
from hpc.autoscale import clock
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal import Journal, JournalError, JournalWriter, Keeping, PassRecord
from hpc.autoscale.journal import files as journal_files
from hpc.autoscale.journal.changes import change
from hpc.autoscale.journal.errors import GarbledRecord, NewerJournal
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.journal.recording import node_rows
from hpc.autoscale.journal.snapshots import host_rows, job_rows
from hpc.autoscale.testing import a_host, a_job


@pytest.fixture
def now():
    """A clock that stands still."""
    mock = clock.use_mock_clock()
    mock.now = float(int(time.time()))  # files have the times of the real one
    return mock


def a_pass(at=1.0, nodes=("htc-1", "htc-2"), jobs=("1", "2"), **more):
    """A record; nodes and jobs by name."""
    return PassRecord(
        at=at,
        by={"program": "test"},
        config={"cluster_name": "c"},
        status={"maxCount": 5, "nodearrays": [{"name": "htc", "buckets": [{"bucketId": "b"}]}]},
        nodes=[{"NodeId": f"id-{name}", "Name": name} for name in nodes],
        jobs=[{"name": name, "constraints": []} for name in jobs],
        **more,
    )


def seen(records):
    """What was read and done in passes, by the names in it."""
    return [
        (r.at, [n["Name"] for n in r.nodes], [j["name"] for j in r.jobs], r.names("joined"))
        for r in records
    ]


def written(path, *records, **keeping):
    """The writer that has written these passes."""
    writer = JournalWriter(path, Keeping(**keeping))
    for record in records:
        writer.write(record)
    return writer


def the_file(path):
    """The only file of a journal."""
    (found,) = sorted(path.iterdir())
    return found


def documents(path):
    """What is in a file of a journal, as any program for gzip has it."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


# -- what is written is read


def test_passes_are_read_as_they_were_written(tmp_path, now):
    """With nodes that come and go, jobs in another order, and what was done."""
    passes = [
        a_pass(1.0, did={"joined": ["htc-1", "htc-2"], "duration": 0.5}),
        a_pass(2.0, did={"joined": ["htc-2"], "errors": ["x"]}),
        a_pass(3.0, nodes=("htc-2", "htc-3"), jobs=("2", "1", "3"), did={"ended_by": "no answer"}),
        a_pass(4.0, nodes=(), jobs=("3",), decided=[{"action": "create", "nodes": ["htc-4"]}]),
    ]
    written(tmp_path / "j", *passes)
    found = list(Journal(tmp_path / "j"))
    assert seen(found) == seen(passes)
    assert [r.status for r in found] == [p.status for p in passes]
    assert found[1].did["errors"] == ["x"] and found[2].did["ended_by"] == "no answer"
    assert found[3].decided == passes[3].decided
    assert [r.number for r in found] == [1, 2, 3, 4]
    assert {r.by["program"] for r in found} == {"test"}


def test_only_what_has_changed_is_written(tmp_path, now):
    """A pass over the same nodes and jobs takes a few bytes, and one changed node no other."""
    many = tuple(f"htc-{n}" for n in range(1000))
    records = [a_pass(float(n), nodes=many) for n in range(3)]
    changed = [*records[2].nodes[:5], {**records[2].nodes[5], "Status": "Ready"}]
    records[2] = replace(records[2], nodes=[*changed, *records[2].nodes[6:]])
    written(tmp_path / "j", *records)
    first, second, third = documents(the_file(tmp_path / "j"))
    assert len(first["read"]["nodes"]["all"]) == 1000
    assert second["read"] == {} and "config" not in second
    assert third["read"] == {"nodes": {"set": [["id-htc-5", changed[5]]]}}


def test_any_program_for_gzip_can_print_it(tmp_path, now):
    """One object of JSON a line."""
    written(tmp_path / "j", a_pass(1.0), a_pass(2.0))
    assert [each["version"] for each in documents(the_file(tmp_path / "j"))] == [1, 1]


def test_rows_of_one_name_stay_apart(tmp_path, now):
    """As two jobs of one name do, or a node that is listed twice."""
    twice = a_pass(1.0, nodes=("htc-1", "htc-1"), jobs=("7", "7", "7"))
    written(tmp_path / "j", twice, a_pass(2.0, jobs=("7", "7")))
    assert [len(r.jobs) for r in Journal(tmp_path / "j")] == [3, 2]
    assert len(next(iter(Journal(tmp_path / "j"))).nodes) == 2


def test_the_statuses_of_several_clusters_stay_apart(tmp_path, now):
    """Each with its own limits."""
    status = {
        "maxCount": 3,
        "nodearrays": [],
        "problems": ["west is away"],
        "parts": {
            name: {"maxCount": 1, "nodearrays": [{"name": f"{name}/htc", "buckets": []}]}
            for name in ("east", "west")
        },
    }
    written(tmp_path / "j", replace(a_pass(), status=status))
    (found,) = Journal(tmp_path / "j")
    assert found.status == status


# -- what may become of a file


def test_a_record_that_was_cut_off_is_left_out(tmp_path, now):
    """As by kill -9 in the middle of it, at whichever byte that was."""
    writer = written(tmp_path / "j", a_pass(1.0), a_pass(2.0))
    path = the_file(tmp_path / "j")
    whole = path.read_bytes()
    writer.write(a_pass(3.0, nodes=("htc-9",)))
    third = path.read_bytes()[len(whole) :]
    for length in (1, 5, 17, 20, 21, len(third) // 2, len(third) - 1):
        path.write_bytes(whole + third[:length])
        journal = Journal(tmp_path / "j")
        assert [r.at for r in journal] == [1.0, 2.0]
        (problem,) = journal.problems
        assert f"record 3 at byte {len(whole)}: its end is missing" in problem


def test_the_next_process_goes_on_after_a_record_that_was_cut_off(tmp_path, now):
    """What is left of it is taken away, and nothing else is lost."""
    written(tmp_path / "j", a_pass(1.0), a_pass(2.0))
    path = the_file(tmp_path / "j")
    path.write_bytes(path.read_bytes()[:-7])
    written(tmp_path / "j", a_pass(3.0, nodes=("htc-9",)))
    journal = Journal(tmp_path / "j")
    assert [r.at for r in journal] == [1.0, 3.0] and journal.problems == []
    assert [each.get("whole") for each in documents(path)] == [True, True]


def test_a_garbled_record_is_named_with_its_place(tmp_path, now):
    """File and byte; whoever wants to can go on with what does not build on it."""
    path = tmp_path / "j"
    writer = written(path, a_pass(1.0))
    begins = the_file(path).stat().st_size
    writer.write(a_pass(2.0, nodes=("htc-7",)))
    written(path, a_pass(3.0))
    content = bytearray(the_file(path).read_bytes())
    content[begins + 30] ^= 0xFF
    the_file(path).write_bytes(content)
    with pytest.raises(GarbledRecord, match=rf"000001.jsonl.gz: record 2 at byte {begins}: "):
        list(Journal(path))
    journal = Journal(path, skip_garbled=True)
    assert [r.at for r in journal] == [1.0, 3.0]
    assert [f"record 2 at byte {begins}" in p for p in journal.problems] == [True]


def test_what_builds_on_a_garbled_record_is_lost_with_it(tmp_path, now):
    """It is never made of what was before that."""
    path = tmp_path / "j"
    writer = written(path, a_pass(1.0))
    begins = the_file(path).stat().st_size
    writer.write(a_pass(2.0, nodes=("htc-7",)))
    writer.write(a_pass(3.0, nodes=("htc-7", "htc-8")))
    content = bytearray(the_file(path).read_bytes())
    content[begins] ^= 0xFF
    the_file(path).write_bytes(content)
    journal = Journal(path, skip_garbled=True)
    assert [r.at for r in journal] == [1.0]
    assert "it builds on a record that cannot be read" in journal.problems[1]


@pytest.mark.parametrize(("last", "more"), [(4, "one more does"), (8, "5 more do")])
def test_what_is_lost_in_a_row_is_told_in_one_line(tmp_path, now, capsys, last, more):
    """A journal of thousands of passes is one of which one record is garbled."""
    path = tmp_path / "j"
    writer = written(path, a_pass(1.0))
    begins = the_file(path).stat().st_size
    for number in range(2, last + 1):
        writer.write(a_pass(float(number)))
    content = bytearray(the_file(path).read_bytes())
    content[begins] ^= 0xFF
    the_file(path).write_bytes(content)
    main(["journal", "show", str(path)])
    first, second = capsys.readouterr().err.splitlines()
    assert f"record 2 at byte {begins}" in first
    assert "record 3 at byte" in second
    assert second.endswith(f"it builds on a record that cannot be read, as {more} after it")
    journal = Journal(path, skip_garbled=True)
    assert len(list(journal)) == 1 and journal.left_out == last - 1


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("[]", "it is no record of a journal"),
        ("{}", "it has no 'version'"),
        ("nonsense", "it is no record of a journal"),
        ('{"version": 1, "at": "soon"}', "at: expected unix seconds, found 'soon'"),
        ('{"version": 1, "at": 1}', "it builds on a record that cannot be read"),
        ('{"version": 1, "at": 1, "whole": true, "read": {"jobs": {"gone": ["x"]}}}', "read.jobs"),
        ('{"version": 1, "at": 1, "whole": true, "read": {"jobs": {"all": 7}}}', "read.jobs"),
    ],
)
def test_a_record_that_is_none_is_an_error_of_ours(tmp_path, document, said):
    """It names the place."""
    path = tmp_path / "one.jsonl.gz"
    path.write_bytes(packed(document.encode()))
    with pytest.raises(GarbledRecord, match="record 1 at byte 0") as found:
        list(Journal(path))
    assert said in str(found.value)


def test_a_journal_of_a_newer_version_is_refused(tmp_path):
    """It says what to read it with, and no record of it is taken for one of ours."""
    path = tmp_path / "one.jsonl.gz"
    path.write_bytes(packed(b'{"version": 2, "at": 1, "whole": true}'))
    for skip in (False, True):
        with pytest.raises(NewerJournal, match="version 1 or older, found version 2: read it with"):
            list(Journal(path, skip_garbled=skip))


@pytest.mark.parametrize(
    "content",
    [random.Random(7).randbytes(500), b"{}", b"x" * (1 << 21)],
    ids=["bytes", "an object", "a long line"],
)
def test_a_file_that_is_no_journal_is_refused(tmp_path, content):
    """In one line, also where garbled records are passed over."""
    path = tmp_path / "autoscale.json"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"expected a journal, .* no record of a pass.*with -c"):
        list(Journal(path, skip_garbled=True))


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", bytes(4096)])
def test_the_beginning_of_a_journal_has_no_pass(tmp_path, content):
    """Such as is left by a machine that lost power. It ends in words, or in no pass at all."""
    path = tmp_path / "one.jsonl.gz"
    path.write_bytes(content)
    journal = Journal(path, skip_garbled=True)
    assert list(journal) == []
    assert len(journal.problems) == 1


def test_where_there_is_no_journal(tmp_path):
    """Nor a file of one."""
    (tmp_path / "other.txt").write_text("x")
    with pytest.raises(JournalError, match="there is no file journal-"):
        list(Journal(tmp_path))
    with pytest.raises(JournalError, match="no such file or directory"):
        list(Journal(tmp_path / "nothing"))


# -- who writes, and when not


def test_processes_may_write_side_by_side(tmp_path, now):
    """A record never builds on one that somebody else has written."""
    one, other = JournalWriter(tmp_path / "j"), JournalWriter(tmp_path / "j")
    one.write(a_pass(1.0))
    other.write(a_pass(2.0, nodes=("htc-5",)))
    one.write(a_pass(3.0))
    one.write(a_pass(4.0))
    assert seen(Journal(tmp_path / "j")) == [
        (1.0, ["htc-1", "htc-2"], ["1", "2"], []),
        (2.0, ["htc-5"], ["1", "2"], []),
        (3.0, ["htc-1", "htc-2"], ["1", "2"], []),
        (4.0, ["htc-1", "htc-2"], ["1", "2"], []),
    ]


def test_a_full_disk_leaves_the_journal_whole(tmp_path, now, monkeypatch):
    """What was written of the record is taken back; the one after it stands by itself."""
    writer = written(tmp_path / "j", a_pass(1.0))
    before = the_file(tmp_path / "j").read_bytes()
    write = os.write

    def half(handle, data):
        if len(data) < 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, bytes(data[:50]))

    with monkeypatch.context() as patched:
        patched.setattr(journal_files.os, "write", half)
        with pytest.raises(JournalError, match=r"journal .*/j: No space left on device"):
            writer.write(a_pass(2.0, nodes=("htc-7",)))
        assert the_file(tmp_path / "j").read_bytes() == before
    writer.write(a_pass(3.0, nodes=("htc-8",)))
    assert [r.at for r in Journal(tmp_path / "j")] == [1.0, 3.0]


def test_where_nothing_can_be_written(tmp_path, now):
    """The error names the journal, also where its place is a file."""
    (tmp_path / "j").write_text("a file")
    with pytest.raises(JournalError, match=r"journal .*/j: "):
        JournalWriter(tmp_path / "j").write(a_pass())
    with pytest.raises(JournalError, match="No such file or directory"):
        JournalWriter(tmp_path / "none" / "j").write(a_pass())


# -- how much is kept


def test_a_file_is_full_after_a_day_and_old_after_many(tmp_path, now):
    """Each file can be read alone; the newest is kept however old it is."""
    path = tmp_path / "j"
    writer = JournalWriter(path, Keeping(age=2.2 * journal_files.DAY))
    for _ in range(8):
        writer.write(a_pass(now.now))
        newest = max(path.iterdir())
        os.utime(newest, (now.now, now.now))  # as a real clock does
        now.sleep(0.6 * journal_files.DAY)
    files = sorted(path.iterdir())
    assert [len(list(Journal(file))) for file in files] == [2, 2, 2]
    assert [r.at for r in Journal(path)] == sorted(r.at for r in Journal(path))


def test_a_clock_that_jumps_ahead_deletes_no_file(tmp_path, now):
    """What was written before that is what tells of it; once it is right again files go on."""
    path = tmp_path / "j"
    writer = JournalWriter(path)
    for moment in (*range(4), 10_000, *range(4, 8)):
        now.now = 1.7e9 + moment * journal_files.DAY
        writer.write(a_pass(now.now))
        os.utime(max(path.iterdir()), (now.now, now.now))  # as a real clock does
    assert len(list(Journal(path))) == 9


def test_the_oldest_files_go_when_all_are_too_large(tmp_path, now):
    """The newest stays, however large it is."""
    size = len(packed(json.dumps({"x": 1}).encode())) * 12
    writer = JournalWriter(tmp_path / "j", Keeping(size=size))
    for at in range(40):
        writer.write(a_pass(float(at), nodes=(f"htc-{at}",)))
    files = list((tmp_path / "j").iterdir())
    assert 1 <= len(files) < 40
    assert sum(f.stat().st_size for f in files) <= size or len(files) == 1
    assert list(Journal(tmp_path / "j"))[-1].at == 39.0


# -- jobs and hosts


def test_what_has_moved_up_in_a_queue_is_not_made_anew():
    """Jobs and hosts whose first one has gone are known by name; those that changed are not."""

    def read(first):
        jobs = [a_job(str(n)) for n in range(first, 9)]
        for job in jobs:
            job.metadata["owner"] = {"name": "x"}
        return jobs, [a_host(f"host-{n}", f"job-{n}") for n in range(first, 9)]

    jobs, hosts = read(0)
    before = job_rows(jobs), host_rows(hosts)
    jobs[5].metadata["owner"]["name"] = "changed by a pass"
    jobs, hosts = read(1)
    jobs[-1].metadata["owner"]["name"] = "another"
    hosts[-1].available["ncpus"] = 1
    for rows, old in (
        (job_rows(jobs, before[0]), before[0]),
        (host_rows(hosts, before[1]), before[1]),
    ):
        pairs = zip(rows.values.own, old.values.own[1:], strict=True)
        same = [new is was for new, was in pairs]
        assert same == [True] * 7 + [False]
        assert rows.keys == old.keys[1:]


def test_records_are_as_they_were_read():
    """Whatever a pass writes to them; and a reply that came before says the same once more."""
    listing = [{"NodeId": f"n{i}", "Name": f"n-{i}", "State": "Started"} for i in range(600)]
    before = node_rows(listing, source=b"reply")
    assert node_rows([], before, b"reply") is before
    listing[300]["State"] = "Terminated"
    assert before.values[300]["State"] == "Started"
    after = node_rows(listing, before, b"another")
    assert [new is old for new, old in zip(after.values, before.values, strict=True)].count(0) == 1
    assert change(before, after) == {"set": [["n300", listing[300]]]}
    same = node_rows(listing, after, b"with other blanks")
    assert change(after, same) is None
    assert node_rows([], same, b"with other blanks") is same


def test_jobs_of_constraint_objects_are_written_once():
    """Such as integrations make, which are other objects in each reading; and what cannot be
    used, or is no job at all."""

    def read():
        job = a_job("custom")
        job.add_constraint({"node.spot": False})
        return [job, UnusableJob("odd", "no sense", None), object()]

    before = job_rows(read())
    assert change(before, job_rows(read(), before)) is None
    later = read()
    later[0].add_constraint({"ncpus": 3})
    assert [key for key, _ in change(before, job_rows(later, before))["set"]] == ["custom"]


def test_what_is_held_of_many_jobs_that_wait_for_the_same(tmp_path):
    """Not their reason for each of them, nor the text of the record that was read."""
    waiting = [a_waiting_job(str(n), "no room " * 1000) for n in range(500)]
    path = tmp_path / "j"
    JournalWriter(path).write(a_pass_record(1, [], waiting))
    tracemalloc.start()
    try:
        passes = iter(Journal(path))
        first, *others = next(passes).did["unsatisfied"]
        assert tracemalloc.get_traced_memory()[0] < 1_000_000  # the text has four million bytes
    finally:
        tracemalloc.stop()
    assert len(others) == 499
    assert all(each["reason"] is first["reason"] for each in others)
    assert not list(passes)
