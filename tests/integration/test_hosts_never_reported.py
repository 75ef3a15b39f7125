"""Nodes that come up and whose hosts the scheduler never reports, as where its daemon does not
start: work does not wait there for ever, and the loop does not make such nodes again and again."""

import sqlite3
from contextlib import closing

import pytest

from builders.failing_cloud import F2, a_site
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.backoff.file import BackoffFile
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.explaining import look
from hpc.autoscale.explaining.of_nodes import explain_node, find_node
from hpc.autoscale.journal import Journal
from hpc.autoscale.node.nodehistory import dbfile
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.replaying import Replay

ARRAYS = {"htc": {"machine_types": [F2]}}
TIMEOUTS = {"idle_timeout": 300, "boot_timeout": 1800}


@pytest.fixture
def site(tmp_path):
    """Two jobs wait. The hosts in `silent` are not reported."""
    with a_site(tmp_path, ARRAYS) as made:
        made.silent = {"htc-1"}
        made.want(2)

        def hosts():
            names = {node.get("Hostname"): node["Name"] for node in made.nodes()}
            return [each for each in made.hosts_with(2, 2) if names[each.name] not in made.silent]

        made.new_hosts = hosts
        yield made


def passes(site, count, every=300):
    """The summaries of so many passes, `every` so many seconds."""
    found = []
    for _ in range(count):
        found.append(site.run(**TIMEOUTS))
        site.wait(every)
    return found


def test_work_goes_to_another_node_once_the_boot_timeout_is_over(site):
    """The node that the scheduler does not know goes like any other that is idle."""
    passes(site, 8)
    assert site.names() == ["htc-1", "htc-2"]
    *_, last = passes(site, 1)
    assert last.notes == (
        "htc-1: ready, and not reported by the scheduler within the boot timeout, and gets no work",
    )
    passes(site, 3)
    assert site.names() == ["htc-2", "htc-3"]


@pytest.mark.parametrize("before", [1, 5])
def test_a_node_has_had_time_to_be_let_in(site, before):
    """Passes further apart than the timeout: a node is ready when it is seen first, or was still
    booting in a pass by hand just after it was made, and the scheduler knows it one pass later."""
    site.silent = {f"htc-{number}" for number in range(1, 9)}

    def run_and_wait(seconds):
        done = passes(site, 1, every=0)[0]
        ready = {node["Name"] for node in site.nodes() if node["Status"] == "Ready"}
        site.silent -= ready & set(done.joined)
        site.wait(seconds)
        return done.notes

    for _ in range(before):
        run_and_wait(3600)
    site.want(3)
    run_and_wait(10)
    site.want(4)
    assert [run_and_wait(3600) for _ in range(4)] == [()] * 4
    assert site.names() == ["htc-1", "htc-2", "htc-3", "htc-4"]


def test_a_node_that_is_started_again_has_had_time_to_be_let_in(site):
    """Also where the pass that starts it is the first to see it at rest: when it was ready in its
    life before says nothing."""
    passes(site, 2)
    new_cluster_bindings(site.config).deallocate_nodes(names=["htc-1"])
    site.wait(2000)
    found = passes(site, 3)
    assert [each.started for each in found] == [("htc-1",), (), ()]
    assert [each.notes for each in found] == [()] * 3
    assert site.names() == ["htc-1", "htc-2"]


def test_a_node_that_is_let_in_late_is_used(site):
    """Nothing is left of what was thought of it."""
    passes(site, 9)
    site.silent.clear()
    site.want(3)
    passes(site, 8)
    assert len(site.names()) == 3
    assert not BackoffFile(str(site.home / "backoff.db")).read().backoffs


def test_such_nodes_are_tried_one_at_a_time_at_longer_and_longer_intervals(site):
    """Other hosts of the bucket were heard before, so the scheduler would report these as well."""
    site.silent = {f"htc-{number}" for number in range(3, 99)} | {"htc-1"}
    passes(site, 12)
    site.made()
    passes(site, 36, every=1200)
    assert len(site.names()) <= 3
    assert site.made().total() <= 8
    (known,) = BackoffFile(str(site.home / "backoff.db")).read().backoffs.values()
    assert (known.cause, known.message) == ("host", "the scheduler has never reported them")


@pytest.mark.parametrize("hosts", [True, False])
def test_work_is_left_where_nobody_knows_what_silence_says(site, hosts):
    """No host of any node is reported, or hosts without work are not."""
    if hosts:
        site.new_hosts = list
    else:
        site.config["autoscale"] = {"scheduler_reports_hosts": False}
    passes(site, 16)
    assert site.names() == ["htc-1", "htc-2"]


def test_nodes_are_not_late_while_nobody_can_tell_since_when_they_are_there(site, monkeypatch):
    """Another program holds the node history: all nodes seem to have been seen in 1970."""
    monkeypatch.setattr(dbfile, "BUSY_SECONDS", 0.05)
    passes(site, 1)
    with closing(sqlite3.connect(site.home / "nodehistory.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        (locked,) = passes(site, 1)
        other.rollback()
    assert "locked" in str(locked.errors)
    assert (locked.created, locked.notes) == ((), ())


def test_nodes_of_request_sets_need_not_be_known(site):
    """The scheduler may have nothing to do with them."""
    site.wanted = [{"Name": "htc", "TargetCount": 2}]
    site.want(0)
    passes(site, 16)
    assert site.names() == ["htc-1", "htc-2"]


def test_a_node_that_is_kept_does_not_keep_others_from_being_tried(site):
    """Somebody keeps one alive, to look at it: what is wrong with its host is known."""
    site.silent = {f"htc-{number}" for number in range(2, 6)}
    site.want(3)
    passes(site, 8)
    site.simulator.cluster("c").edit("htc-2", KeepAlive=True)
    passes(site, 2)
    assert site.names() == ["htc-1", "htc-2"]
    site.silent = {"htc-2"}
    passes(site, 9)
    assert site.names() == ["htc-1", "htc-2", "htc-3", "htc-4"]


def test_a_node_that_is_kept_alive_is_no_note_of_every_pass(site):
    """As a login node, which is none of the scheduler's."""
    passes(site, 3)
    site.simulator.cluster("c").edit("htc-1", KeepAlive=True)
    passes(site, 6)
    assert [each.notes for each in passes(site, 3)] == [()] * 3
    assert site.names() == ["htc-1", "htc-2", "htc-3"]


def test_hosts_of_nodes_that_are_gone_say_nothing_of_those_that_are_there(site):
    """In a loop that goes on as in one that is started anew: the scheduler reports no other node
    now."""
    site.want(1)
    site.silent = set()
    loop = Autoscaler({**site.config, **TIMEOUTS}, site.new_driver)
    for _ in range(3):
        loop.run_once()
        site.wait(300)
    node_mgr = new_node_manager(site.config)
    node_mgr.delete(node_mgr.get_nodes())
    site.silent = {"htc-1", "htc-2", "htc-3"}
    made = []
    for _ in range(12):
        made += loop.run_once().created
        site.wait(300)
    assert len(made) == 1


def test_what_request_sets_wanted_is_no_failure_when_they_want_it_no_more(tmp_path):
    """Nor does it keep them from having it again at once; no host of it was ever to be reported."""
    arrays = {"htc": {"machine_types": [F2]}, "viz": {"machine_types": [F2]}}
    with a_site(tmp_path, arrays) as site:

        def hosts():
            arrays_of = {node.get("Hostname"): node["Template"] for node in site.nodes()}
            return [each for each in site.hosts_with(2, 2) if arrays_of[each.name] == "htc"]

        site.new_hosts = hosts
        site.want(1, **{"node.nodearray": "htc"})
        site.wanted = [{"Name": "viz", "TargetCount": 3}]
        passes(site, 9)
        site.wanted = []
        passes(site, 3)
        assert site.names() == ["htc-1"]
        site.wanted = [{"Name": "viz", "TargetCount": 3}]
        passes(site, 1)
        assert len(site.names("viz")) == 3


def test_a_node_that_the_scheduler_let_go_and_that_was_not_deleted_is_taken_back(site):
    """The scheduler is down in the middle of a pass. That it does not report the host then is what
    it was asked for."""
    site.silent = set()
    passes(site, 9)
    site.want(1)
    passes(site, 1)
    hosts, answers = site.new_hosts, [site.new_hosts]
    site.new_hosts = lambda: answers.pop()()  # which fails when it is asked again
    (halted,) = passes(site, 1)
    assert (halted.drained, halted.deleted) == (("htc-2",), ())
    site.new_hosts, site.silent = hosts, {"htc-2"}
    site.want(2)
    (last,) = passes(site, 1)
    assert (last.undrained, last.created, last.notes) == (("htc-2",), (), ())


def test_explain_says_that_the_scheduler_does_not_report_it(site):
    """While work is counted on it, and when it gets none any more."""

    def codes():
        scene = look({**site.config, **TIMEOUTS}, site.new_driver)
        return {
            cause.code: cause.text
            for cause in explain_node(find_node("htc-1", scene), scene).causes
        }

    passes(site, 4)
    assert {"HasJobs", "NotReported"} <= codes().keys()
    passes(site, 5)
    said = codes()
    assert said["NotReported"].startswith("the scheduler does not report its host, or nothing")
    assert said["Closed"].endswith("it is on its way out, or its boot timeout is over")
    site.silent.clear()
    assert "NotReported" not in codes()


def test_passes_with_such_nodes_replay_the_same(site):
    """What was known of hosts then is in the journal."""
    site.config["journal"] = {}
    passes(site, 12)
    with Replay() as replay:
        found = list(replay.passes(Journal(site.home / "journal")))
    assert [(each.differences, each.skipped) for each in found] == [([], "")] * 12
