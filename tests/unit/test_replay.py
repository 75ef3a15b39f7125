"""Deciding again from a journal: the same decisions, or where they differ."""

import base64
import contextlib
import gzip
import json
import random
import socket
import sys
import zlib
from dataclasses import replace
from types import MethodType

import pytest

from builders.fake_scheduler import cluster, idle_cluster, now, run, scheduler
from builders.opaque_constraints import Apart
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, one_line
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal import Journal, JournalWriter
from hpc.autoscale.journal.raised import again, as_json
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.requests import Assumed, RequestLog, Sender, assuming
from hpc.autoscale.replaying import Replay, remembered_before
from hpc.autoscale.requestsets.store import RequestSet, RequestStore
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

ON = {"journal": {}}


def replayed(path):
    """What came of the passes of a journal."""
    with Replay() as replay:
        return list(replay.passes(Journal(path)))


def is_same(path, count):
    """So many passes, all of which decide the same again."""
    found = replayed(path)
    assert [(each.differences, each.skipped) for each in found] == [([], "")] * count


def azscale(tmp_path, capsys, *args):
    """The exit code of azscale, and what it prints."""
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"cluster_name": "c", "url": "http://none.invalid"}))
    code = 0
    try:
        main([*args, "-c", str(config)])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().out


@pytest.fixture
def journal(run, cluster, scheduler, now, tmp_path):
    """A loop that creates, joins, drains and deletes."""
    for number in (1, 2, 3):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    run(**ON)
    scheduler.jobs = [a_job("7", tasks=20), a_job("8", nodes=50)]
    now.sleep(60)
    run(**ON)
    scheduler.jobs = []
    scheduler.hosts = [a_host("host-1", "running")]
    for _ in range(3):
        now.sleep(301)
        scheduler.answers["handle_draining"] = []
        run(**ON)
    del scheduler.answers["handle_draining"]
    now.sleep(301)
    assert run(**ON).deleted
    return tmp_path / "journal"


def test_it_decides_the_same_again(journal, tmp_path):
    """At another time, in another order of ids, without a cluster or a scheduler."""
    clock.use_clock(clock.Clock())
    is_same(journal, 6)


def test_jobs_that_want_as_much_as_there_is(run, scheduler, now, tmp_path):
    """However a driver says that: as the greatest number that it knows, or none below 0."""
    scheduler.jobs = [
        Job("all", {"ncpus": 1}, iterations=sys.maxsize),
        Job("every", {"ncpus": 1}, node_count=sys.maxsize, packing_strategy="scatter"),
        Job("none", {"ncpus": 1}, iterations=-1),
    ]
    for _ in range(2):
        run(**ON)
        now.sleep(60)
    is_same(tmp_path / "journal", 2)


def test_what_came_of_telling_why_jobs_wait_is_the_drivers_business(run, scheduler, now, tmp_path):
    """The hook asks for the time, and fails: a replay has no driver, and decides the same."""

    def explain(job, verdict):
        now.sleep(clock.time() % 2 + 1)
        raise OSError(f"no connection for {job.name}")

    scheduler.explain_job = explain
    scheduler.jobs = [a_job("big", nodes=50)]
    assert [note for note in run(**ON).notes if "no connection for big" in note]
    is_same(tmp_path / "journal", 1)


def test_hooks_that_are_one_function(run, cluster, scheduler, now, tmp_path):
    """Whatever it is called: which of them was called is known, and in the journal."""

    def all_of_them(nodes, *more):
        return nodes

    scheduler.handle_draining = scheduler.handle_post_delete = all_of_them
    scheduler.handle_failed_nodes = scheduler.handle_post_join_cluster = all_of_them
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
        scheduler.hosts = [a_host(f"host-{number}") for number in (1, 2)]
    summaries = []
    for _ in range(3):
        summaries.append(run(**ON))
        now.sleep(301)
    assert any(each.deleted for each in summaries)
    is_same(tmp_path / "journal", 3)


class ByNumber(NodeQueue):
    """The last of the nodes first."""

    def node_priority(self, node):
        return int(node.name.rpartition("-")[2])


def test_nodes_in_an_order_that_only_the_driver_knows(run, cluster, scheduler, now, tmp_path):
    """They are handed over in it, and so they are when the pass is decided again."""
    given = []

    def join(nodes):
        given.append([node.name for node in nodes])
        return nodes

    scheduler.new_node_queue = lambda config: ByNumber()
    scheduler.add_nodes_to_cluster = join
    for number in (1, 2, 3):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    for jobs in ([a_job("7", tasks=20)], [], [], []):
        scheduler.jobs = jobs
        scheduler.hosts = [a_host(f"host-{number}") for number in (1, 2, 3)]
        run(**ON)
        now.sleep(301)
    assert given[0] == ["htc-3", "htc-2", "htc-1"]
    is_same(tmp_path / "journal", 4)


@pytest.mark.parametrize(
    "hook",
    [
        "preprocess_node_mgr",
        "validate_nodes",
        "new_node_queue",
        "new_node_history",
        "wanted_arrays",
    ],
)
@pytest.mark.parametrize("error", [KeyError, SystemExit, None])
def test_a_hook_that_ends_the_pass(run, scheduler, cluster, now, tmp_path, hook, error):
    """Ends it again, by the same error; None stands for an answer that is none."""
    scheduler.jobs = [a_job("7", tasks=2)]
    run(**ON)
    usual = getattr(scheduler, hook)

    def broken(self, *args):
        if error is not None:
            raise error("slots")
        return usual(*args) if hook in ("preprocess_node_mgr", "validate_nodes") else None

    broken.__name__ = hook
    setattr(scheduler, hook, MethodType(broken, scheduler))
    now.sleep(60)
    scheduler.jobs = [a_job("7", tasks=2)]
    with contextlib.suppress(Exception):
        run(**ON)
    ended_by = list(Journal(tmp_path / "journal"))[-1].did.get("ended_by", hook)
    assert hook in ended_by, "whoever reads it has to know where the error came from"
    setattr(scheduler, hook, usual)
    now.sleep(60)
    scheduler.jobs = [a_job("7", tasks=2)]
    run(**ON)
    is_same(tmp_path / "journal", 3)


def test_a_pass_whose_driver_cannot_say_what_it_wants(run, scheduler, tmp_path):
    """Is in the journal as one that failed."""

    def wanted_arrays(config):
        raise OSError("no disk")

    scheduler.wanted_arrays = wanted_arrays
    with pytest.raises(AutoscaleError, match="no disk"):
        run(**ON)
    (record,) = Journal(tmp_path / "journal")
    assert "no disk" in record.did["ended_by"]


def test_jobs_that_only_an_integration_understands(run, scheduler, tmp_path):
    """What they ask for is code of its own: nobody says that such a pass decides otherwise."""
    scheduler.jobs = [Job("17", [{"ncpus": 1}, {"not": {"not": Apart()}}])]
    run(**ON)
    ((_, said),) = [(each.differences, each.skipped) for each in replayed(tmp_path / "journal")]
    assert said.startswith("only an integration knows what its jobs ask for: ")
    assert said.endswith("Apart")


def test_nothing_of_the_site_is_touched(journal, tmp_path):
    """Neither the history nor the journal itself."""
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    before = [f.read_bytes() for f in files]
    is_same(journal, 6)
    assert [f.read_bytes() for f in files] == before
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == files


def test_azscale_says_that_it_is_the_same(journal, tmp_path, capsys):
    """With exit code 0."""
    found = azscale(tmp_path, capsys, "replay", str(journal))
    assert found == (0, "6 passes: 6 the same, 0 different, 0 left out\n")


def test_azscale_replays_the_journal_of_the_configuration(journal, tmp_path, capsys):
    """Where no other is named; where there is none, that is said."""
    config = tmp_path / "site.json"
    known = {"cluster_name": "c", "url": "http://none.invalid", "lock_file": None}
    away = (
        f"site.json has its journal beside the node history, and there is no directory {tmp_path}"
    )
    for place, section, code, said in (
        ("", {}, 0, "6 passes: 6 the same, 0 different, 0 left out\n"),
        ("", {"directory": str(tmp_path / "none")}, 1, "no pass was written yet: the first one"),
        ("", False, 1, "site.json has no journal: name one"),
        ("away", {}, 1, f"{away}/away: name one"),
    ):
        history = {"nodehistorydb": str(tmp_path / place / "nodehistory.db")}
        config.write_text(json.dumps({**known, **history, "journal": section}))
        found = 0
        try:
            main(["replay", "-c", str(config)])
        except SystemExit as end:
            found = end.code
        printed = capsys.readouterr()
        assert found == code and said in printed.out + printed.err


def test_what_a_pass_remembered_of_those_before(journal):
    """From its record, or by deciding those before it again: the same as its files had then."""
    first = remembered_before(Journal(journal), 1)
    later = remembered_before(Journal(journal), 5)
    assert set(first) == set(later) == {"state", "reported"}
    with Replay() as replay:
        for record in list(Journal(journal))[4:]:
            record.doors = {**later, **record.doors} if record.number == 5 else record.doors
            assert replay.one(record).is_same
    assert remembered_before([], 1) is None


def test_what_is_not_known_to_have_been_remembered(journal, tmp_path):
    """Where a pass before does not come to the same, unless it need not be exact."""

    def longer(record):
        return replace(record, config={**record.config, "idle_timeout": 9999})

    other = Journal(changed(journal, tmp_path / "other", longer))
    assert remembered_before(other, 6) is None
    assert set(remembered_before(other, 6, exactly=False)) == {"state", "reported"}


@pytest.mark.parametrize(("then", "later"), [(1e-9, 60), (60, 1e-9)])
def test_searches_at_the_least_cost_go_as_far_as_they_did(
    run, cluster, scheduler, tmp_path, then, later
):
    """Whatever time there is when a journal is replayed, the same nodes are found."""
    prices = {"Standard_F4s": 0.25, "Standard_F8s": 0.36, "Standard_F16s": 0.8}
    for size in ("Standard_F8s", "Standard_F16s"):
        cluster.add_bucket("htc", size, 300, 300)
    draw = random.Random(0)
    scheduler.jobs = [
        Job(f"j{n}", {"ncpus": draw.randint(1, 7)}, iterations=draw.randint(1, 5))
        for n in range(40)
    ]
    packing = {"objective": "cost", "optimize_seconds": then}
    assert run(**ON, packing=packing, vm_sizes={"prices": {"*": prices}}).created
    (record,) = Journal(tmp_path / "journal")
    assert [went is not None for went in record.doors["searches"]] == [then < 1]
    packing["optimize_seconds"] = later
    record.config = {**record.config, "packing": packing}
    without = replace(record, doors={k: v for k, v in record.doors.items() if k != "searches"})
    with Replay() as replay:
        assert replay.one(record).is_same
    with Replay() as replay:
        assert replay.one(without).differences


def changed(journal, path, change):
    """The same journal with its records changed."""
    writer = JournalWriter(path)
    for record in Journal(journal):
        writer.write(change(record))
    return path


def as_it_was(record):
    """The record with the lists that only a replay needs where they were."""
    return record


def test_a_journal_that_is_written_again_still_replays(journal, tmp_path):
    """As whoever sends it to others writes it."""
    is_same(changed(journal, tmp_path / "again", as_it_was), 6)


def test_where_it_comes_to_something_else(journal, tmp_path, capsys):
    """Here because it is told of another idle timeout: with the pass, the place and both values."""

    def longer(record):
        return replace(record, config={**record.config, "idle_timeout": 9999})

    path = changed(journal, tmp_path / "other", longer)
    code, printed = azscale(tmp_path, capsys, "replay", str(path))
    assert code == 2
    assert "it does not ask for hook handle_draining, which the recorded pass did" in printed
    assert 'did.idle: expected ["htc-' in printed
    code, printed = azscale(tmp_path, capsys, "replay", str(path), "-F", "json")
    assert (code, [p["number"] for p in json.loads(printed)]) == (2, [1, 2, 3, 4, 5, 6])


def test_a_decision_that_was_another_one_is_found(journal, tmp_path):
    """Byte for byte."""

    def other(record):
        return replace(record, decided=[{**d, "count": 9} for d in record.decided])

    found = replayed(changed(journal, tmp_path / "other", other))
    assert next(each.differences for each in found if each.differences) == [
        "decided[0].count: expected 9, found 2"
    ]


def test_what_it_remembered_must_be_known(journal, tmp_path, capsys):
    """A pass of which that is missing is left out, and said."""

    def forgetful(record):
        return replace(record, doors={k: v for k, v in record.doors.items() if k != "state"})

    path = changed(journal, tmp_path / "other", forgetful)
    code, printed = azscale(tmp_path, capsys, "replay", str(path))
    assert code == 3
    assert "left out: what it remembered is not known" in printed
    assert "6 passes: 0 the same, 0 different, 6 left out" in printed


def test_a_simulation_has_nothing_to_decide_again(journal, tmp_path):
    """A record without doors is left out."""
    path = changed(journal, tmp_path / "other", lambda record: replace(record, doors={}))
    assert {each.skipped for each in replayed(path)} == {
        "it has not what is needed to decide again"
    }


# -- what comes in through the doors


def test_a_pass_that_could_not_look_ends_the_same(run, cluster, tmp_path, monkeypatch):
    """By the same error, whether the cluster raised it or the scheduler."""
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get_nodes", fail)
        with pytest.raises(Throttled):
            run(**ON)
    run(**ON)
    is_same(tmp_path / "journal", 2)


def test_a_cluster_that_there_was_no_way_to_ask(scheduler, now, tmp_path, monkeypatch):
    """As without a password: the pass ends then as it did, and the next one decides the same."""
    monkeypatch.delenv("CYCLECLOUD_PASSWORD", raising=False)
    config = {"cluster_name": "c", "url": "http://127.0.0.1:9", "username": "u", **ON}
    for _ in range(2):
        with pytest.raises(ConfigurationException, match="password"):
            Autoscaler(config, scheduler).run_once()
    is_same(tmp_path / "journal", 2)


def test_a_scheduler_that_could_not_be_read(run, scheduler, tmp_path):
    """Nor one whose hook fails, or returns nonsense."""
    scheduler.failing["read"] = OSError(5, "no queue server")
    with pytest.raises(OSError, match="no queue server"):
        run(**ON)
    scheduler.failing = {"add_nodes_to_cluster": ValueError("what?")}
    run(**ON)
    scheduler.failing = {}
    for answer in (7, None, ["host-1"]):
        scheduler.answers["add_nodes_to_cluster"] = answer
        run(**ON)
    is_same(tmp_path / "journal", 5)


def test_hosts_that_the_driver_takes_out(run, cluster, scheduler, now, tmp_path, monkeypatch):
    """And nodes that it calls failed; for both it looks at the clock, which goes on meanwhile."""
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    scheduler.hosts = [a_host("host-1"), a_host("gone")]
    scheduler.jobs = [a_job("7", tasks=12)]

    def validate(hosts, nodes):
        now.sleep(1)
        now.sleep(clock.time() % 2 + 1)
        hosts[:] = [host for host in hosts if host.hostname != "gone"]
        for node in nodes:
            if node.hostname == "host-2":
                node.state = "Failed"

    monkeypatch.setattr(scheduler, "validate_nodes", validate)
    run(**ON)
    is_same(tmp_path / "journal", 1)


def test_a_driver_that_prepares_the_manager_itself(run, scheduler, tmp_path, monkeypatch):
    """With resources of its own, and placement groups; its class is not needed."""

    def prepare(config, node_mgr):
        node_mgr.add_default_resource({}, "slots", "node.vcpu_count")
        node_mgr.add_default_resource({}, "rack", lambda node: f"rack of {node.vm_size}")
        node_mgr.add_placement_group("group", node_mgr.get_buckets()[0])

    monkeypatch.setattr(scheduler, "preprocess_node_mgr", prepare)
    scheduler.jobs = [
        a_job("7", {"slots": 1}, tasks=5),
        a_job("8", {"rack": "rack of Standard_F4s", "node.placement_group": "group"}, nodes=2),
    ]
    run(**ON)
    (record,) = Journal(tmp_path / "journal")
    assert {d["bucket"] for d in record.decided} == {
        "htc/Standard_F4s",
        "htc/Standard_F4s/group",
    }
    is_same(tmp_path / "journal", 1)


def test_work_that_starts_while_nodes_are_drained(run, cluster, scheduler, now, tmp_path):
    """The second look is another one."""
    idle_cluster(cluster, run, now)
    scheduler.later = ([], [a_host("host-2", "job")])
    assert run(**ON).spared
    is_same(tmp_path / "journal", 1)


def test_files_that_could_not_be_used(run, tmp_path, now):
    """Such a pass is left out; the next one is known again."""
    run(**ON)
    (tmp_path / "gangs.db").write_text("no database at all")
    run(**ON)
    (tmp_path / "gangs.db").unlink()
    run(**ON)
    said = [each.skipped[:40] for each in replayed(tmp_path / "journal")]
    assert said == ["", "its files could not be used then: gangs ", ""]


def test_what_others_wrote_between_passes(cluster, scheduler, tmp_path, now):
    """As a command does that somebody gives by hand: the state is written again, else not."""
    config = {"cluster_name": "c", "_mock_bindings": cluster, **ON}
    loop = Autoscaler(config, lambda: scheduler)
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    for _ in range(3):
        loop.run_once()
        now.sleep(60)
    history = scheduler.new_node_history({})
    history.mark_ignored([])
    history.conn.execute("UPDATE nodes SET last_match_time = 5")
    history.conn.commit()
    loop.run_once()
    (file,) = (tmp_path / "journal").iterdir()
    lines = gzip.decompress(file.read_bytes()).splitlines()
    assert ["state" in json.loads(line)["doors"] for line in lines] == [True, False, False, True]
    is_same(tmp_path / "journal", 4)


def test_request_sets_that_are_written_while_a_pass_runs(cluster, scheduler, tmp_path, now):
    """That pass is left out, as nobody knows which of them it saw; those after it are known."""
    store = RequestStore(tmp_path / "requestsets.db")

    def report(one):
        if len(seen) == 1:
            wish = [{"Name": "htc", "TargetCount": 2}]
            store.replace(RequestSet("late", now.time(), now.time() + 3600, wish), ["htc"])
        seen.append(one)

    seen = []
    config = {"cluster_name": "c", "_mock_bindings": cluster, **ON}
    config["requestsetsdb"] = str(tmp_path / "requestsets.db")
    loop = Autoscaler(config, lambda: scheduler, demand_known=report)
    for _ in range(4):
        summary = loop.run_once()
        now.sleep(60)
    assert summary.jobs == 1
    found = replayed(tmp_path / "journal")
    assert [each.is_same for each in found] == [True, False, True, True]
    assert found[1].skipped.endswith("was written by somebody else while the pass ran")


@pytest.mark.parametrize("state", ["unknown", "ended"])
def test_requests_of_other_processes(cluster, scheduler, tmp_path, now, state):
    """Whether these still ran is known again: a create of one that has ended is asked about, that
    of another is left to it."""
    here = Sender.here()
    other = Sender("elsewhere", 7, "") if state == "unknown" else Sender(here.host, 7, "b/n/1")
    log = RequestLog(tmp_path / "requests.db")
    with assuming(Assumed(sender=other)):
        log.begin()
    config = {"cluster_name": "c", "_mock_bindings": cluster, "requests_file": log.path, **ON}
    loop = Autoscaler(config, lambda: scheduler)
    for _ in range(2):
        loop.run_once()
        now.sleep(60)
    calls = [[c["door"] for c in r.doors["calls"]] for r in Journal(tmp_path / "journal")]
    assert ["listing" in each for each in calls] == [state == "ended"] * 2
    is_same(tmp_path / "journal", 2)


@pytest.mark.parametrize("as_object", [False, True])
def test_one_and_true_are_not_the_same(cluster, scheduler, tmp_path, capsys, as_object):
    """To a job, of which the one is used up and the other is not; to a host they are, and 1.0 is,
    since no decision tells them apart."""
    loop = Autoscaler({"cluster_name": "c", "_mock_bindings": cluster, **ON}, lambda: scheduler)
    wanted = []
    for wish, has in ((1, 2), (True, 2), (1, 2), (1, 1), (1, True), (1, 1.0), (True, True), (0, 0)):
        constraint = get_constraint({"x": wish}) if as_object else {"x": wish}
        scheduler.jobs = [Job("j", [constraint, {"ncpus": 1}], iterations=2)]
        scheduler.hosts = [SchedulerNode("host-1", {"ncpus": 4, "x": has})]
        summary = loop.run_once()
        wanted.append([(each.name, each.missing) for each in summary.unsatisfied])
    less = [("j", 1)]
    assert wanted == [[], [("j", 2)], [], less, less, less, [], []]
    found = azscale(tmp_path, capsys, "replay", str(tmp_path / "journal"))
    assert found == (0, "8 passes: 8 the same, 0 different, 0 left out\n")


@pytest.mark.parametrize(
    "error",
    [
        Throttled("http://x", 429, "slow down", 7.0, "wait"),
        OSError(28, "No space left on device"),
        FileNotFoundError(2, "No such file or directory", "qstat"),
        OSError(18, "Invalid cross-device link", "a", None, "b"),
        socket.gaierror(-2, "Name or service not known"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ExceptionGroup("both", [ValueError("one"), ValueError("two")]),
        KeyError("x"),
        type("TheirError", (Exception,), {})("theirs"),
    ],
)
def test_errors_are_made_again(error):
    """With their text, and what is asked of them; nothing is imported for it."""
    found = again(json.loads(json.dumps(as_json(error))))
    assert (type(found).__name__, str(found)) == (type(error).__name__, str(error))
    assert one_line(found) == one_line(error)
    assert getattr(found, "retry_after", None) == getattr(error, "retry_after", None)


# -- for others


def test_a_scrubbed_journal_still_replays(run, cluster, scheduler, now, tmp_path, capsys):
    """And has no name of a host, a job or a person in it; the same name is the same again."""
    for number in (1, 2, 3):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"alices-box{number}")
    run(**ON)
    for user, jobs in (("alice", 3), ("bob", 1)):
        job = a_job(f"{user}-thesis7", tasks=jobs * 4)
        job.metadata.update(user=user, workdir=f"/home/{user}/secret plans")
        job.metadata["note"] = f"tell {user}@clusty.example, it runs on alices-box1.clusty.example."
        scheduler.jobs.append(job)
    now.sleep(60)
    run(idle_timeout=9999, **ON)
    scheduler.jobs = []
    others = [a_host(name) for name in ("zeus-1.clusty.example", "hermes7", "10.9.8.7")]
    scheduler.hosts = [a_host("alices-box1", "alice-thesis7"), *others]
    for _ in range(2):
        now.sleep(301)
        assert run(**ON)
    to = tmp_path / "others"
    args = ("journal", "scrub", str(tmp_path / "journal"), "--to", str(to))
    code, printed = azscale(tmp_path, capsys, *args)
    assert (code, "4 records, without names" in printed) == (0, True)
    records = list(Journal(to))
    content = b"".join(gzip.decompress(file.read_bytes()) for file in to.iterdir()).decode()
    states = [replay_state(record) for record in records]
    for name in ("alice", "bob", "thesis", "clusty", "secret plans", "zeus", "hermes", "10.9.8"):
        assert name not in content and not any(name in text for text in states), name
    hosts = {record.nodes[0]["Hostname"] for record in records}
    assert len(hosts) == 1 and hosts.pop() == "host-aaaa1"
    host, zeus, hermes, _ = (each["hostname"] for each in records[-1].hosts)
    assert host == records[-1].nodes[0]["Hostname"]
    assert zeus.startswith("z-") and hermes.startswith("he-")
    assert any(record.decided for record in records)
    is_same(to, 4)


def replay_state(record):
    """What is in the files of a record, as text."""
    files = record.doors.get("state", {}).values()
    return "".join(repr(zlib.decompress(base64.b64decode(each))) for each in files)


def test_the_last_passes_for_others(journal, tmp_path, capsys):
    """From one on whose state is known."""
    to = tmp_path / "others"
    azscale(tmp_path, capsys, "journal", "scrub", str(journal), "--to", str(to), "--last", "2")
    assert len(list(Journal(to))) == 2
    assert {each.is_same for each in replayed(to)} == {True}
    code, _ = azscale(tmp_path, capsys, "journal", "scrub", str(journal), "--to", str(to))
    assert code == 1


def test_what_changed_between_two_passes(journal, tmp_path, capsys):
    """Nodes, jobs, and what was decided."""
    args = ("journal", "diff", str(journal), "--of", "1", "2")
    _, printed = azscale(tmp_path, capsys, *args)
    lines = printed.splitlines()
    assert "+ jobs 7" in lines and "+ jobs 8" in lines
    assert any(line.startswith("  + create 2 nodes of htc/Standard_F4s") for line in lines)
    _, printed = azscale(tmp_path, capsys, "journal", "diff", str(journal))
    assert printed.startswith("pass 5 of ")
    assert azscale(tmp_path, capsys, "journal", "diff", str(journal), "--of", "1", "99")[0] == 1
