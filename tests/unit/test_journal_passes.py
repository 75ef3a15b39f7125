"""What a pass leaves in its journal, and what azscale prints of it."""

import base64
import errno
import gzip
import json
import marshal
import os
import sqlite3
import stat
import zlib

import pytest

from builders.fake_scheduler import IDLE, cluster, idle_cluster, now, run, scheduler
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.journaling import check_written
from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.law import Backoff
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import Journal
from hpc.autoscale.journal.digests import digest
from hpc.autoscale.onpremises.workers import HostState, HostStates
from hpc.autoscale.replaying import Replay
from hpc.autoscale.report.history import of_records
from hpc.autoscale.requestsets.recording import record
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, path_of
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

ON = {"journal": {}}


def records(tmp_path):
    """The passes in the journal."""
    return list(Journal(tmp_path / "journal"))


def shown(capsys, tmp_path, *args):
    """What azscale prints about the journal."""
    config = tmp_path / "autoscale.json"
    known = {"cluster_name": "c", "url": "http://none.invalid", **ON}
    config.write_text(json.dumps(known))
    main(["journal", *args, "-c", str(config)])
    return capsys.readouterr()


def test_a_pass_leaves_what_it_read_decided_and_did(run, cluster, scheduler, tmp_path):
    """Beside the node history, without being asked."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.jobs = [a_job("7", tasks=8)]
    scheduler.hosts = [a_host("host-1")]
    run(**ON)
    (found,) = records(tmp_path)
    assert [n["Name"] for n in found.nodes] == ["htc-1"]
    assert [(j["name"], j["iterations"]) for j in found.jobs] == [("7", 8)]
    assert [h["hostname"] for h in found.hosts] == ["host-1"]
    (array,) = found.status["nodearrays"]
    assert (array["name"], len(array["buckets"])) == ("htc", 1)
    (created,) = found.decided
    assert (created["action"], created["count"], created["jobs"]) == ("create", 1, ["7"])
    assert created["bucket"] == "htc/Standard_F4s"
    assert created["price_per_hour"] > 0
    assert found.names("created") == ["htc-2"]
    assert found.config["cluster_name"] == "clusty"
    assert found.by["driver"] == "builders.fake_scheduler:FakeScheduler"


def test_who_goes_and_why(run, cluster, scheduler, now, tmp_path):
    """Drained, and then deleted."""
    idle_cluster(cluster, run, now, count=1)
    run(**ON)
    (found,) = records(tmp_path)
    assert [(d["action"], d["node"], d["reason"]) for d in found.decided] == [
        ("drain", "htc-1", "idle"),
        ("delete", "htc-1", "idle"),
    ]
    assert [d["price_per_hour"] for d in found.decided] == [0.0, -0.199]  # Standard_F4s


def test_a_node_that_is_off_saves_nothing_when_it_goes(run, cluster, scheduler, tmp_path):
    """Nothing was paid for it."""
    off = "Deallocated"
    cluster.add_node("htc-1", "htc", state=off, target_state=off, hostname="host-1")
    scheduler.hosts = [a_host("host-1")]
    scheduler.hosts[0].marked_for_deletion = True
    run(**ON)
    (found,) = records(tmp_path)
    (deleted,) = [each for each in found.decided if each["action"] == "delete"]
    assert (deleted["node"], deleted["price_per_hour"]) == ("htc-1", 0.0)


def test_the_jobs_are_those_that_were_read(run, scheduler, tmp_path):
    """Before anything was placed, and why they wait with each."""
    scheduler.jobs = [a_job("7", tasks=400), a_job("8", nodes=2)]
    run(**ON)
    (found,) = records(tmp_path)
    assert [j.get("iterations-remaining") for j in found.jobs] == [None, None]
    waiting, other = found.did["unsatisfied"]
    assert (waiting["job"], waiting["missing"] > 300, other["missing"]) == ("7", True, 2)
    assert waiting["reason"]


def test_keys_that_json_has_not(run, scheduler, tmp_path):
    """Are left out of what is kept of metadata, and of resources; the rest is there."""
    scheduler.jobs = [a_job("7")]
    scheduler.hosts = [a_host("host-1")]
    for each in (scheduler.jobs[0].metadata, scheduler.hosts[0].metadata):
        each.update({("chunk", 1): 2, "queue": "long"})
    scheduler.hosts[0].available["gres", "gpu"] = 1
    run(**ON)
    (found,) = records(tmp_path)
    assert [each["metadata"] for each in (*found.jobs, *found.hosts)] == [{"queue": "long"}] * 2


def test_a_pass_that_could_not_look_is_there_too(run, cluster, scheduler, tmp_path, monkeypatch):
    """With the error that ended it."""
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")
    monkeypatch.setattr(cluster, "get_nodes", lambda **kwargs: (_ for _ in ()).throw(error))
    with pytest.raises(Throttled):
        run(**ON)
    (found,) = records(tmp_path)
    assert "slow down" in found.did["ended_by"]


@pytest.mark.parametrize("is_loop", [True, False])
def test_what_could_not_be_read_is_not_known(
    run, cluster, scheduler, tmp_path, now, monkeypatch, capsys, is_loop
):
    """It stays as it was, in the journal and in what is made of it; not that there is none."""
    many_nodes(cluster, scheduler)
    config = {"cluster_name": "c", "_mock_bindings": cluster, "idle_timeout": 9999, **ON}
    loop = Autoscaler(config, scheduler)

    def one_pass():
        loop.run_once() if is_loop else run(idle_timeout=9999, **ON)
        now.sleep(60)

    def raising(*args, **kwargs):
        raise Throttled("http://x", 429, "slow down", 7.0, "wait")

    one_pass()
    for door, where in (("get_nodes", cluster), ("_read_jobs_and_nodes", scheduler)):
        with monkeypatch.context() as patched:
            patched.setattr(where, door, raising)
            with pytest.raises(Throttled):
                one_pass()
    one_pass()
    read = [(len(r.nodes), len(r.jobs), len(r.hosts), r.unread) for r in records(tmp_path)]
    no_cluster, no_reading = ["nodes"], ["status", "nodes", "jobs", "hosts"]
    assert read == [(8, 1, 8, []), (8, 1, 8, no_cluster), (8, 1, 8, no_reading), (8, 1, 8, [])]
    assert [line["read"] for line in lines(tmp_path)][1:] == [{}, {}, {}]
    said = [line.split()[2:4] for line in shown(capsys, tmp_path, "show").out.splitlines()[1:]]
    assert said == [["8", "1"], ["?", "1"], ["?", "?"], ["8", "1"]]
    rows = shown(capsys, tmp_path, "show").out.splitlines()[1:]
    assert [row.split()[4] == "?" for row in rows] == [False, False, True, False]
    printed = shown(capsys, tmp_path, "show", "--pass", "3").out
    assert "read: nodes unknown, jobs unknown, hosts unknown\n" in printed
    for one, other in (("1", "3"), ("3", "4")):
        said = shown(capsys, tmp_path, "diff", "--of", one, other).out.split("decided")[0]
        assert said.splitlines()[1:] == []
    history = of_records(records(tmp_path))
    assert [sum(sample.nodes.values()) for sample in history.samples] == [8] * 4
    assert not any(life.gone for life in history.longest_lives())
    with Replay() as replay:
        assert all(each.is_same for each in replay.passes(Journal(tmp_path / "journal")))


def test_a_journal_with_a_short_password_can_be_read(run, cluster, scheduler, tmp_path, now):
    """And decided again; the password is out of it where it is a text of its own."""
    many_nodes(cluster, scheduler)
    for _ in range(2):
        run(password="t", site={"queue": {"shared_key": "ht"}}, **ON)
        now.sleep(60)
    first, second = records(tmp_path)
    assert (first.config["password"], first.config["site"]["queue"]) == (
        "***",
        {"shared_key": "***"},
    )
    assert [node["Hostname"] for node in second.nodes][:2] == ["host-1", "host-2"]
    with Replay() as replay:
        assert all(each.is_same for each in replay.passes(Journal(tmp_path / "journal")))


def test_one_key_turns_it_off(run, tmp_path):
    """And a dry run has none."""
    run(journal=False)
    run(dry_run=True, **ON)
    assert not (tmp_path / "journal").exists()


def test_where_else_it_may_be(run, tmp_path):
    """Nobody else can read it."""
    run(journal={"directory": str(tmp_path / "elsewhere")})
    assert len(list(Journal(tmp_path / "elsewhere"))) == 1
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) & 0o007 == 0


def test_a_loop_writes_only_what_has_changed(cluster, scheduler, tmp_path, now):
    """From pass to pass of one process."""
    for number in range(1, 9):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")

    def read(config):
        return [a_job("1", {"ncpus": 64})], [a_host(f"host-{n}") for n in range(1, 9)]

    scheduler._read_jobs_and_nodes = read
    config = {"cluster_name": "c", "_mock_bindings": cluster, "idle_timeout": 9999, **ON}
    loop = Autoscaler(config, scheduler)
    for _ in range(3):
        loop.run_once()
        now.sleep(60)
    (file,) = (tmp_path / "journal").iterdir()
    _, second, third = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    assert second["read"] == third["read"] == {}
    assert [len(r.hosts) for r in records(tmp_path)] == [8, 8, 8]


def lines(tmp_path):
    """What is written of the passes, in their order."""
    files = sorted((tmp_path / "journal").glob("*.gz"))
    return [
        json.loads(line) for f in files for line in gzip.decompress(f.read_bytes()).splitlines()
    ]


def many_nodes(cluster, scheduler, count=8):
    """Nodes with idle hosts, and a job that waits."""
    for number in range(1, count + 1):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")

    def read(config):
        hosts = [a_host(f"host-{n}", f"job-{n}") for n in range(1, count + 1)]
        return [a_job("1", {"ncpus": 64})], hosts

    scheduler._read_jobs_and_nodes = read


@pytest.mark.parametrize("known", [{}, {"autoscale": {"interval": 60}}])
def test_passes_of_processes_of_their_own_write_only_what_has_changed(
    run, cluster, scheduler, tmp_path, now, known
):
    """As cron makes them: nothing twice, neither lists nor what is remembered in files; also where
    the configuration says how often they come."""
    many_nodes(cluster, scheduler)
    for _ in range(3):
        run(**ON, **known)
        now.sleep(60)
    cluster.add_node("htc-9", "htc", state="Ready", hostname="host-9")
    run(**ON, **known)
    first, second, third, fourth = lines(tmp_path)
    assert (first["whole"], "state" in first["doors"]) == (True, True)
    assert second["read"] == third["read"] == {}
    assert not {"whole", "config", "state"} & {*second, *third, *second["doors"], *third["doors"]}
    (added,) = fourth["read"]["nodes"]["set"]
    assert added[1]["Name"] == "htc-9"
    assert [len(r.hosts) for r in records(tmp_path)] == [8] * 4
    assert [len(r.nodes) for r in records(tmp_path)] == [8, 8, 8, 9]
    (left,) = (tmp_path / "journal").glob("last-record*")
    assert stat.S_IMODE(left.stat().st_mode) & 0o007 == 0


def test_jobs_that_came_to_an_empty_queue_are_handed_over_like_others(run, scheduler, tmp_path):
    """And the next record, to which no job is new, has none."""
    for jobs in ([], [a_job("1")], [a_job("1")]):
        scheduler.jobs = jobs
        run(**ON)
    _, _, body = (tmp_path / "journal" / "last-record").read_bytes().partition(b"\n")
    assert {"jobs", "unsatisfied"} & marshal.loads(body)[0].keys() == {"jobs"}
    assert ["jobs" in line["read"] for line in lines(tmp_path)] == [False, True, False]
    assert [[job["name"] for job in each.jobs] for each in records(tmp_path)] == [[], ["1"], ["1"]]


def spoil(what):
    """Something that makes doubtful what the last process has left."""

    def word(home):
        return home / "journal" / "last-record"

    def end(home):
        (file,) = (home / "journal").glob("*.gz")
        return file

    def changed(home, **values):
        head, _, body = word(home).read_bytes().partition(b"\n")
        word(home).write_bytes(json.dumps({**json.loads(head), **values}).encode() + b"\n" + body)

    def with_body(home, body):
        head, _, _ = word(home).read_bytes().partition(b"\n")
        about = {**json.loads(head), "body": digest(body).hex()}
        word(home).write_bytes(json.dumps(about).encode() + b"\n" + body)

    def of_lists(home, **values):
        _, _, body = word(home).read_bytes().partition(b"\n")
        packed, names, digests = marshal.loads(body)
        known = {"packed": packed, "names": names, "digests": digests, **values}
        with_body(home, marshal.dumps(tuple(known.values())))

    def row_without(home, which):
        _, _, body = word(home).read_bytes().partition(b"\n")
        packed = marshal.loads(body)[0]
        parts = list(marshal.loads(packed["jobs"]))
        parts[which] = parts[which][:-1]
        of_lists(home, packed={**packed, "jobs": marshal.dumps(tuple(parts))})

    return {
        "gone": lambda home: word(home).unlink(),
        "empty": lambda home: word(home).write_text(""),
        "zeros": lambda home: word(home).write_bytes(bytes(400)),
        "not ours": lambda home: word(home).write_text("[7]"),
        "newer": lambda home: changed(home, version=99),
        "of another file": lambda home: changed(home, file="journal-000007.jsonl.gz"),
        "of an earlier record": lambda home: changed(home, end=17),
        "begins nowhere": lambda home: changed(home, begin=-4),
        "of another record": lambda home: changed(home, record="00" * 8),
        "of another Python": lambda home: changed(home, python="cpython-27"),
        "garbled": lambda home: word(home).write_bytes(word(home).read_bytes()[:-9] + b"123456789"),
        "cut off": lambda home: with_body(home, word(home).read_bytes()[-300:-9]),
        "others may write": lambda home: word(home).chmod(0o666),
        "lists without rows": lambda home: of_lists(home, digests={"nodes": (0, b"AAA", None)}),
        "lists without names": lambda home: of_lists(home, names=[]),
        "jobs without names": lambda home: row_without(home, 0),
        "jobs without values": lambda home: row_without(home, 1),
        "jobs without needs": lambda home: row_without(home, 2),
        "jobs of another length": lambda home: row_without(home, 3),
        "a list that is unknown": lambda home: of_lists(home, packed={"x": marshal.dumps(())}),
        "a record cut off": lambda home: end(home).write_bytes(end(home).read_bytes()[:-3]),
        "more at the end": lambda home: end(home).write_bytes(end(home).read_bytes() + b"x"),
        "a directory": lambda home: (word(home).unlink(), word(home).mkdir()),
    }[what]


@pytest.mark.parametrize(
    "what",
    [
        *("gone", "empty", "zeros", "not ours", "newer", "of another file", "begins nowhere"),
        *("of an earlier record", "of another record", "lists without rows", "a directory"),
        *("lists without names", "a record cut off", "more at the end", "of another Python"),
        *("garbled", "cut off", "others may write", "jobs without names", "jobs without values"),
        *("jobs without needs", "jobs of another length", "a list that is unknown"),
    ],
)
def test_where_anything_is_doubtful_a_record_stands_by_itself(run, scheduler, tmp_path, now, what):
    """Whatever became of what the process before has left, and of the journal's end."""
    scheduler.jobs = [a_job("1")]
    run(**ON)
    now.sleep(60)
    run(**ON)
    spoil(what)(tmp_path)
    now.sleep(60)
    run(**ON)
    last = lines(tmp_path)[-1]
    assert (last.get("whole"), "state" in last["doors"]) == (True, True)
    with Replay() as replay:
        assert all(each.is_same for each in replay.passes(Journal(tmp_path / "journal")))


def test_what_is_left_is_of_no_use_once_a_loop_has_gone_on(run, cluster, scheduler, tmp_path, now):
    """It goes on from it itself, and takes it away."""
    run(**ON)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster, **ON}
    config["autoscale"] = {"scheduler_reports_hosts": False}
    loop = Autoscaler(config, lambda: scheduler)
    loop.run_forever(60, should_stop=lambda: len(lines(tmp_path)) == 3)
    assert [each.get("whole") for each in lines(tmp_path)] == [True, None, None]
    assert not list((tmp_path / "journal").glob("last-record*"))
    run(**ON)
    assert [each.get("whole") for each in lines(tmp_path)] == [True, None, None, True]


def test_a_full_disk_leaves_no_half_word(run, tmp_path, now, monkeypatch):
    """The record is there; the next one stands by itself, and the pass is fine."""
    run(**ON)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("hpc.autoscale.journal.handover.os.replace", full)
        assert run(**ON).ok
    assert not list((tmp_path / "journal").glob("last-record*"))
    run(**ON)
    assert [each.get("whole") for each in lines(tmp_path)] == [True, None, True]


def test_each_file_can_be_read_alone_under_cron(run, tmp_path, now):
    """A new one begins with a record that stands by itself, and what is remembered is with it."""
    for _ in range(4):
        run(**ON)
        now.sleep(13 * 3600)
    files = sorted((tmp_path / "journal").glob("*.gz"))
    assert [len(list(Journal(file))) for file in files] == [2, 2]
    for file in files:
        with Replay() as replay:
            assert [each.is_same for each in replay.passes(Journal(file))] == [True, True]


def test_a_journal_that_cannot_be_written_fails_no_pass(cluster, scheduler, tmp_path, now, caplog):
    """It is a note of the pass; the log has it once, and once more when it is written again."""
    (tmp_path / "journal").write_text("in the way")
    config = {"cluster_name": "c", "_mock_bindings": cluster, **ON}
    loop = Autoscaler(config, lambda: scheduler)
    said = f"this pass is not in the journal: journal {tmp_path / 'journal'}: "
    for _ in range(3):
        found = loop.run_once()
        assert found.ok and [note[: len(said)] for note in found.notes] == [said]
    warned = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert sum(said in message for message in warned) == 1
    (tmp_path / "journal").unlink()
    with caplog.at_level("INFO"):
        assert not loop.run_once().notes
        loop.run_once()
    assert caplog.text.count("the journal is written again") == 1
    assert len(records(tmp_path)) == 2


@pytest.mark.parametrize("under_cron", [False, True])
@pytest.mark.parametrize("what", ["its file is moved away", "its file gets too old"])
def test_a_new_file_that_is_begun_during_a_pass(
    cluster, scheduler, tmp_path, now, monkeypatch, under_cron, what
):
    """What its first pass remembered is not known; the next record has it, and the passes from
    there on are decided again."""
    config = {"cluster_name": "c", "_mock_bindings": cluster, **ON}
    loop = Autoscaler(config, lambda: scheduler)

    def one_pass():
        (Autoscaler(config, lambda: scheduler) if under_cron else loop).run_once()

    def read(self, config):
        if what == "its file is moved away":
            os.rename(tmp_path / "journal" / "journal-000001.jsonl.gz", tmp_path / "moved")
        else:
            now.sleep(25 * 3600)
        return [], []

    one_pass()
    one_pass()
    with monkeypatch.context() as patched:
        patched.setattr(type(scheduler), "_read_jobs_and_nodes", read)
        one_pass()
    for _ in range(3):
        one_pass()
    newest = max((tmp_path / "journal").glob("*.gz"))
    with Replay() as replay:
        found = [each.is_same for each in replay.passes(Journal(newest))]
    assert found == [False, True, True, True]


SECRETS = ("hunter2-password", "tok3n-of-the-queue", "key/with+signs=")


@pytest.mark.parametrize("refused", ["listing", "name"])
def test_a_journal_that_cannot_be_looked_into_fails_no_pass(
    run, scheduler, tmp_path, monkeypatch, refused
):
    """As one that another user made, or whose name is too long for a file."""
    run(**ON)
    scheduler.jobs = [a_job("1", tasks=1)]
    if refused == "listing":
        monkeypatch.setattr(os, "listdir", denied)
    found = run(journal={"directory": str(tmp_path / (300 * "x"))} if refused == "name" else {})
    assert (found.errors, len(found.created)) == ((), 1)


def test_a_journal_into_which_this_user_may_not_look(tmp_path, monkeypatch):
    """Is not said to have no pass yet; whoever reads it says what is wrong."""
    monkeypatch.setattr(os, "listdir", denied)
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    check_written(str(tmp_path / "closed" / "journal"))


def denied(path):
    """The answer to who may not read a directory."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_no_secret_is_in_it(cluster, scheduler, tmp_path, run):
    """Whatever the configuration has, at whichever depth, in whatever a server says."""
    password, token, key = SECRETS
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    queue = {"queue": {"token": token, "port": 7}}
    cluster.add_nodearray("hpc", {}, software_configuration=queue)
    cluster.add_bucket("hpc", "Standard_F4s", max_count=5, available_count=5)
    listing = cluster.get_nodes

    def listed(*args, **kwargs):
        found = listing(*args, **kwargs)
        for each in found.nodes:
            each["Configuration"] = queue
        return found

    cluster.get_nodes = listed
    scheduler.jobs = [a_job("1")]
    scheduler.jobs[0].metadata.update(access_key=key, note=f"login with {password}")
    run(
        password=password,
        url=f"https://me:{password}@server.invalid",
        site={"queue": {"token": token, "shared_key": key}},
        **ON,
    )
    content = b"".join(
        gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes()
        for f in (tmp_path / "journal").iterdir()
    )
    assert b'"port":7' in content and b'"record":' in content
    for secret in SECRETS:
        assert json.dumps(secret)[1:-1].encode() not in content


def test_no_secret_is_in_what_is_remembered(run, cluster, tmp_path, now):
    """Neither in what reporters want of nodes, nor in what others have said, nor between the rows
    of a file from which something was deleted."""
    store = RequestStore(path_of(REQUEST_SETS, {}, str(tmp_path)))
    wish = [{"Name": "htc", "TargetCount": 1, "Configuration": {"queue": {"token": SECRETS[1]}}}]
    record({"_mock_bindings": cluster, "cluster_name": "c"}, store, wish)
    states = HostStates(str(tmp_path / "on-premises.db"))
    failed = Backoff(FailureKind.REFUSED, f"login with {SECRETS[0]}", 1.0, 1, 1, 60.0, 61.0)
    states.write({"rack-1": HostState("down", 1.0, failed)})
    with sqlite3.connect(tmp_path / "gangs.db") as db:
        db.executescript(
            "PRAGMA secure_delete = OFF; CREATE TABLE t (x);"
            f" INSERT INTO t VALUES ('{SECRETS[0]}'); DELETE FROM t"
        )
    assert SECRETS[0].encode() in (tmp_path / "gangs.db").read_bytes()
    (tmp_path / "backoff.db").write_text(SECRETS[0])
    run(password=SECRETS[0], on_premises=[{"name": "rack-1", "resources": {"ncpus": 4}}], **ON)
    (found,) = records(tmp_path)
    files = {
        name: zlib.decompress(base64.b64decode(packed))
        for name, packed in found.doors["state"].items()
    }
    assert {"request-sets.db", "on-premises.db", "gangs.db", "backoff.db"} <= set(files)
    assert b"rack-1" in files["on-premises.db"] and b"htc" in files["request-sets.db"]
    for name, content in files.items():
        for secret in SECRETS:
            assert secret.encode() not in content, (name, secret)


# -- azscale


def test_azscale_prints_the_passes(run, scheduler, tmp_path, capsys):
    """A row each, within 80 columns; or as JSON."""
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**ON)
    run(**ON)
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal")).out.splitlines()
    assert printed[0].split() == [
        *("PASS", "AT", "NODES", "JOBS", "WAITING", "CREATE", "JOIN", "DRAIN", "DELETE", "SAID")
    ]
    assert [line.split()[0] for line in printed[1:]] == ["1", "2"]
    assert printed[1].split()[2:6] == ["0", "1", "1", "10"]
    assert max(map(len, printed)) <= 80
    args = ("show", str(tmp_path / "journal"), "--last", "1", "-F", "json")
    (found,) = json.loads(shown(capsys, tmp_path, *args).out)
    assert (found["number"], len(found["jobs"]), "doors" in found) == (2, 1, False)


def test_azscale_prints_one_pass_in_words(run, scheduler, tmp_path, capsys):
    """What it read, decided and did."""
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**ON)
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal"), "--pass", "1").out
    assert "read: 0 nodes, 1 job, 0 hosts" in printed
    assert "  + create 10 nodes of htc/Standard_F4s, $" in printed
    assert "  1 job (7) waits: CycleCloud has room for no more nodes of htc/" in printed
    with pytest.raises(SystemExit):
        shown(capsys, tmp_path, "show", str(tmp_path / "journal"), "--pass", "9")
    assert "it has no pass 9" in capsys.readouterr().err


def test_azscale_says_what_is_wrong_with_a_journal(run, tmp_path, capsys):
    """And prints what can be read."""
    run(**ON)
    (file,) = (tmp_path / "journal").glob("*.gz")
    file.write_bytes(file.read_bytes() + b"\x1f\x8b\x08")
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal"))
    assert len(printed.out.splitlines()) == 2
    assert "record 2 at byte" in printed.err and "its end is missing" in printed.err


@pytest.mark.parametrize("words", ["journal show", "journal diff", "report", "metrics"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_journal_that_no_pass_was_written_to_yet(tmp_path, capsys, words, is_there):
    """That is said, and where one would be."""
    journal, config = tmp_path / "none", tmp_path / "site.json"
    if is_there:
        journal.mkdir()
    own = {"cluster_name": "c", "url": "http://none.invalid", "lock_file": None}
    config.write_text(json.dumps({**own, "journal": {"directory": str(journal)}}))
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "-c", str(config)])
    said = f"no pass was written yet: the first one begins the journal {journal}"
    assert ended.value.code == 1 and said in capsys.readouterr().err


def test_the_journal_of_the_configuration(run, tmp_path, capsys, now):
    """Where no other is named."""
    now.sleep(IDLE)
    run(**ON)
    assert len(shown(capsys, tmp_path, "show").out.splitlines()) == 2
