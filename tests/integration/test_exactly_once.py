"""Several processes, lost replies and kills: every node that is wanted is made once, and every node
that was to go goes, over HTTP."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from builders.waiting_queue import WaitingQueue
from hpc.autoscale.autoscaler import Autoscaler, LogReporter
from hpc.autoscale.ccbindings.errors import InconsistentStatus
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.simulator import serve
from hpc.autoscale.util import configured_lock

SIZE = "Standard_F4s_v2"
DRIVER = "hpc.autoscale.cli:GenericDriver"
CLOUD = {"clusters": {"c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}}


@pytest.fixture
def simulator():
    """A cluster without nodes."""
    with serve(CLOUD) as running:
        yield running


@pytest.fixture
def config(simulator, tmp_path):
    """What processes are told; nodes may be idle for an hour."""
    return {
        **simulator.connection("c"),
        "lock_file": None,
        "nodehistorydb": str(tmp_path / "nodehistory.db"),
        "requests_file": str(tmp_path / "requests.db"),
        "retry": {"attempts": 1},
        "idle_timeout": 3600,
    }


@pytest.fixture
def nodes(simulator):
    """How many nodes are there and to stay."""

    def count():
        return len([n for n in simulator.cluster("c").nodes() if n["TargetState"] == "Started"])

    return count


@pytest.fixture
def ready(simulator, config):
    """Three nodes that are ready, and one pass that saw them."""
    Autoscaler(config, WaitingQueue(3)).run_once()
    simulator.clock.settle()
    Autoscaler(config, WaitingQueue(3)).run_once()


@pytest.fixture
def delete_two(simulator, config):
    """Somebody deletes two nodes, and does not hear what became of it; the removals on record."""

    def delete(kind, **more):
        node_mgr = new_node_manager(config)
        simulator.faults.add(kind, endpoint="shutdown_nodes", **more)
        simulator.faults.add("status", endpoint="get_nodes", status=500)
        with pytest.raises(CycleCloudError):
            node_mgr.delete(node_mgr.get_nodes()[1:])
        simulator.faults.clear()
        return [removal.name for removal in RequestLog(config["requests_file"]).removals]

    return delete


# -- a server that is behind


def test_a_status_and_a_listing_of_before_create_nothing_twice(simulator, config, nodes):
    """They agree with each other, and the nodes of the last pass are missing from both."""
    with pytest.MonkeyPatch.context() as patch:
        for call in ("get_cluster_status", "get_nodes"):
            patch.setattr(ClusterBinding, call, _as_before(getattr(ClusterBinding, call)))
        Autoscaler(config, WaitingQueue(3)).run_once()
        with pytest.raises(InconsistentStatus, match=r"cluster c.* lacks 3 nodes of request id"):
            Autoscaler(config, WaitingQueue(3)).run_once()
    Autoscaler(config, WaitingQueue(4)).run_once()
    assert nodes() == 4


def _as_before(real):
    """The same, answering a question about the whole cluster as it did the first time."""
    known = []

    def answer(self, *args, **kwargs):
        if "operation_id" in kwargs or "request_id" in kwargs:
            return real(self, *args, **kwargs)
        if not known:
            known.append(real(self, *args, **kwargs))
        return known[0]

    return answer


# -- removals


@pytest.mark.usefixtures("ready")
def test_a_removal_that_never_arrived_is_made_by_the_next_pass(
    simulator, config, delete_two, nodes
):
    """Long before those nodes have been idle for long enough."""
    assert delete_two("no_reply") == ["htc-2", "htc-3"]
    assert nodes() == 3
    simulator.clock.advance(10)
    assert Autoscaler(config, WaitingQueue(1)).run_once().errors == ()
    assert nodes() == 1
    assert RequestLog(config["requests_file"]).removals == []


@pytest.mark.usefixtures("ready")
def test_a_removal_whose_reply_was_lost_is_settled(config, delete_two, nodes):
    """The nodes went; nothing is removed twice, and nothing else goes."""
    delete_two("lost_reply")
    assert nodes() == 1
    Autoscaler(config, WaitingQueue(1)).run_once()
    assert nodes() == 1
    assert RequestLog(config["requests_file"]).removals == []


class BusyHosts(WaitingQueue):
    """A scheduler of which every host that was ready runs a job."""

    def __init__(self, simulator):
        super().__init__(0)
        self.hostnames = [node["Hostname"] for node in simulator.cluster("c").nodes()]

    def _read_jobs_and_nodes(self, config):
        hosts = [SchedulerNode(name, {"ncpus": 4}) for name in self.hostnames]
        for host in hosts:
            host.assign("job")
        return [], hosts


@pytest.mark.usefixtures("ready")
def test_a_node_that_got_work_meanwhile_is_not_removed(simulator, config, delete_two, nodes):
    """The removal is called off for good, whatever becomes of the work."""
    delete_two("no_reply")
    Autoscaler(config, BusyHosts(simulator)).run_once()
    assert [each.called_off for each in RequestLog(config["requests_file"]).removals] == [True] * 2
    Autoscaler(config, WaitingQueue(0)).run_once()
    assert nodes() == 3


@pytest.mark.usefixtures("ready")
def test_a_node_whose_removal_was_called_off_gets_no_new_work_for_an_hour(
    simulator, config, delete_two, nodes
):
    """For so long the request may still arrive."""
    delete_two("no_reply")
    Autoscaler(config, BusyHosts(simulator)).run_once()
    summary = Autoscaler(config, WaitingQueue(3)).run_once()
    assert (len(summary.created), summary.joined, nodes()) == (2, ("htc-1",), 5)
    with closing(sqlite3.connect(config["requests_file"])) as db, db:
        db.execute("UPDATE removals SET begun = begun - 3601")
    Autoscaler(config, WaitingQueue(5)).run_once()
    assert (nodes(), RequestLog(config["requests_file"]).removals) == (5, [])


@pytest.mark.usefixtures("ready")
def test_no_work_is_planned_on_a_node_that_may_be_on_its_way_out(config, delete_two, nodes):
    """It goes elsewhere, and the nodes go when none like them is made in the same pass."""
    delete_two("no_reply")
    summary = Autoscaler(config, WaitingQueue(3)).run_once()
    assert (len(summary.created), summary.joined, nodes()) == (2, ("htc-1",), 5)
    assert {refusal.code for refusal in summary.refused} == {"OfferingWanted"}
    Autoscaler(config, WaitingQueue(3)).run_once()
    assert (nodes(), RequestLog(config["requests_file"]).removals) == (3, [])


@pytest.mark.usefixtures("ready")
def test_a_removal_of_long_ago_keeps_no_work_away(config, delete_two, nodes):
    """No request is under way for an hour."""
    delete_two("no_reply")
    with closing(sqlite3.connect(config["requests_file"])) as db, db:
        db.execute("UPDATE removals SET begun = begun - 3601")
    Autoscaler(config, WaitingQueue(3)).run_once()
    assert nodes() == 3


@pytest.mark.usefixtures("ready")
def test_nobody_joins_a_node_that_may_be_on_its_way_out(azscale, config, delete_two):
    """By hand neither."""
    delete_two("no_reply")
    more = {"driver": DRIVER, "requests_file": config["requests_file"]}
    _, err = done(azscale("join_nodes", "-N", "htc-2", **more), 1)
    assert "htc-2: nobody knows whether a request to remove it still arrives" in err
    done(azscale("join_nodes", "-N", "htc-1", **more))


@pytest.mark.usefixtures("ready")
def test_a_removal_is_kept_while_the_server_is_away(simulator, config, delete_two, nodes):
    """Pass after pass, once for each node."""
    delete_two("no_reply")
    simulator.faults.add("no_reply", endpoint="shutdown_nodes")
    for _ in range(3):
        assert Autoscaler(config, WaitingQueue(1)).run_once().errors
        removals = RequestLog(config["requests_file"]).removals
        assert [removal.name for removal in removals] == ["htc-2", "htc-3"]
    simulator.faults.clear()
    Autoscaler(config, WaitingQueue(1)).run_once()
    assert nodes() == 1


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_removal_that_was_refused_is_over(config, delete_two, nodes, status):
    """The server has answered: whoever asked decides anew."""
    assert delete_two("status", status=status) == []
    Autoscaler(config, WaitingQueue(1)).run_once()
    assert nodes() == 3


@pytest.mark.usefixtures("ready")
def test_a_dry_run_finishes_nothing(config, delete_two, nodes):
    """And leaves every file as it was."""
    delete_two("no_reply")
    before = RequestLog(config["requests_file"]).removals
    Autoscaler(config, WaitingQueue(1), dry_run=True).run_once()
    assert nodes() == 3
    assert RequestLog(config["requests_file"]).removals == before != []


# -- processes beside each other


@pytest.fixture
def azscale(simulator, tmp_path):
    """Start azscale in a process of its own, with a configuration of its own in a directory."""
    started = []

    def start(*args, home="home", **more):
        directory = tmp_path / home
        directory.mkdir(exist_ok=True)
        path = directory / "autoscale.json"
        given = {**simulator.connection("c"), "retry": {"attempts": 1}, **more}
        path.write_text(json.dumps(given))
        path.chmod(0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "hpc.autoscale.cli", args[0], "-c", str(path), *args[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env={**os.environ, "AUTOSCALE_HOME": str(directory)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def done(process, code=0):
    """What a process prints, once it has ended, on stdout and on stderr."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    return out, err


@contextmanager
def a_loop(config, **more):
    """A loop that is in the middle of a pass as long as this lasts, in another thread."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(WaitingQueue):
        def _read_jobs_and_nodes(self, config):
            inside.set()
            assert go_on.wait(120)
            return super()._read_jobs_and_nodes(config)

    with ThreadPoolExecutor() as pool:
        loop = pool.submit(Autoscaler({**config, **more}, Slow(0)).run_once)
        try:
            assert inside.wait(120)
            yield go_on
        finally:
            go_on.set()
            loop.result()


@pytest.mark.parametrize("home", ["home", "elsewhere"])
def test_two_loops_on_one_cluster(azscale, config, tmp_path, home):
    """The second is refused and told who runs, with the same lock file or with another."""
    (tmp_path / "home").mkdir()
    with a_loop(config, lock_file=str(tmp_path / "home" / "lock.file")):
        _, said = done(azscale("autoscale", home=home), code=3)
    assert f"held by process {os.getpid()}" in said


class Refusals(LogReporter):
    """Hears of the passes that failed."""

    def __init__(self):
        self.said = []

    def pass_failed(self, error, failures, pause):
        self.said.append(str(error))


def test_two_loops_do_not_take_turns(config, tmp_path, nodes):
    """A second one, with its own configuration and its own scheduler, has no pass between those of
    the first, and deletes none of its nodes; commands and single passes find the lock free."""
    config.update(idle_timeout=0)
    other = {**config, "lock_file": str(tmp_path / "b"), "nodehistorydb": str(tmp_path / "b.db")}
    refusals, seen = Refusals(), []

    def second_loop():
        ends = iter((False, True, True))
        Autoscaler(other, WaitingQueue(0), reporter=refusals).run_forever(
            0, should_stop=lambda: next(ends)
        )
        seen.append(len(refusals.said))

    def after_the_first_pass():
        if nodes() and not seen:
            second_loop()
            Autoscaler({**other, "read_only": True}, WaitingQueue(0), dry_run=True).run_once()
            configured_lock(other).unlock()
        return bool(seen)

    first = {**config, "lock_file": str(tmp_path / "a")}
    Autoscaler(first, WaitingQueue(3)).run_forever(0, should_stop=after_the_first_pass)
    assert (nodes(), seen) == (3, [1])
    assert "to be the only instance for the loop of cluster c at 127.0.0.1" in refusals.said[0]
    assert f"held by process {os.getpid()}" in refusals.said[0]
    second_loop()
    assert seen == [1, 1]


@pytest.mark.parametrize(
    "command",
    [
        ["create_nodes", "-n", "1"],
        ["delete_nodes", "-N", "htc-1"],
        ["restart_nodes", "-N", "htc-1"],
        ["retry_failed_nodes"],
        ["requests", "drop", "--old"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_beside_a_loop_says_who_holds_the_lock(azscale, config, tmp_path, command):
    """Nothing is asked of the server, and none of its files is touched."""
    with a_loop(config, lock_file=str(tmp_path / "lock")):
        _, said = done(azscale(*command), code=3)
    assert f"held by process {os.getpid()}" in said


def test_a_command_waits_for_the_loop(azscale, config, tmp_path, nodes):
    """With --wait, and says for whom; then it does what it was told."""
    with a_loop(config, lock_file=str(tmp_path / "lock")) as go_on:
        command = azscale("create_nodes", "-n", "2", "--wait")
        line = command.stderr.readline()
        assert line.startswith("waiting: expected to be the only instance")
        assert f"held by process {os.getpid()}" in line
        assert nodes() == 0
        go_on.set()
    done(command)
    assert nodes() == 2


def test_a_command_that_only_looks_needs_no_lock(azscale, config, tmp_path):
    """Others are refused meanwhile."""
    with a_loop(config, lock_file=str(tmp_path / "lock")):
        done(azscale("nodes"))
        done(azscale("create_nodes", "-n", "1", "--dry-run"))
        done(azscale("requests"))
        done(azscale("create_nodes", "-n", "1"), code=3)


@pytest.mark.parametrize(
    ("kind", "lock"),
    [(None, False), ("lost_reply", False), ("no_reply", False), ("lost_reply", True)],
)
def test_processes_that_create_at_the_same_time(azscale, simulator, tmp_path, config, kind, lock):
    """Each gets its own nodes, and none is made twice; the last request or the reply to it is
    lost, and the next command takes its place."""
    shared = {"requests_file": config["requests_file"], "nodehistorydb": config["nodehistorydb"]}
    if not lock:
        shared["lock_file"] = None
    if kind:
        simulator.faults.add(kind, endpoint="create_nodes", calls=[3])
    wait = ["--wait"] if lock else []
    commands = [azscale("create_nodes", "-n", "3", *wait, **shared) for _ in range(3)]
    results = [command.communicate(timeout=120) for command in commands]
    lost = [command.returncode for command in commands].count(1)
    assert lost == (kind == "no_reply"), results
    created = list(simulator.journal.entries(event="created"))
    assert len(created) == 3 * (3 - lost)
    assert len(RequestLog(config["requests_file"]).unsettled) == lost
    done(azscale("create_nodes", "-n", "3", *wait, **shared))
    assert len(simulator.cluster("c").nodes()) == 3 * (4 - lost)
    assert RequestLog(config["requests_file"]).unsettled == []


# -- looking at them


def test_requests_in_doubt_are_listed_asked_about_and_dropped(azscale, simulator, config):
    """By the command line; a pass goes on without what was dropped."""
    kept = {"requests_file": config["requests_file"]}
    simulator.faults.add("no_reply", endpoint="create_nodes", calls=[1])
    done(azscale("create_nodes", "-n", "1", **kept), code=1)
    (request_id,) = RequestLog(config["requests_file"]).unsettled
    out, _ = done(azscale("requests", "--ask", "-F", "json", **kept))
    (row,) = json.loads(out)
    assert (row["request_id"], row["command"], row["state"], row["server"]) == (
        request_id,
        "create_nodes",
        "in doubt",
        "does not know it",
    )
    assert row["sender"].startswith("process ")
    assert json.loads(done(azscale("requests", "--old", "-F", "json", **kept))[0]) == []
    _, said = done(azscale("requests", "drop", "--ids", request_id[:-1] + "x", **kept), code=1)
    assert f"did you mean '{request_id}'" in said
    _, said = done(azscale("requests", "drop", **kept), code=2)
    assert "expected --ids or --old" in said
    _, said = done(azscale("requests", "drop", "--ids", request_id, **kept))
    assert said == "dropped: 1 request\n"
    assert RequestLog(config["requests_file"]).unsettled == []


def test_a_request_that_is_under_way_is_not_dropped(azscale, config):
    """Its process still runs: this one."""
    kept = {"requests_file": config["requests_file"]}
    request_id = RequestLog(config["requests_file"]).begin()
    _, said = done(azscale("requests", "drop", "--ids", request_id, **kept), code=1)
    assert f"may be under way, from process {os.getpid()} on" in said
    done(azscale("requests", "drop", "--ids", request_id, "--force", **kept))
    assert RequestLog(config["requests_file"]).unsettled == []


@pytest.mark.parametrize("name", ["requests.json", "requests.db"])
def test_a_garbled_file_says_what_to_do(azscale, tmp_path, name):
    """In one line; nothing is asked of the server."""
    path = tmp_path / name
    path.write_text("{ garbled")
    for command in (["create_nodes"], ["requests"], ["autoscale"]):
        _, said = done(azscale(*command, requests_file=str(path), driver=DRIVER), code=1)
        assert str(path) in said.splitlines()[-1]
        assert "move it away when no create is under way" in said.splitlines()[-1]
    assert path.read_text() == "{ garbled"
