"""Spot nodes that are evicted: what is asked for instead, and for how long."""

import contextlib
import sqlite3

from builders.failing_cloud import F4, a_site
from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.file import BackoffFile, Boot
from hpc.autoscale.backoff.law import EVICTED_AT_MOST, Policy, failed
from hpc.autoscale.ccbindings import new_cluster_bindings

SPOT_FIRST = {
    "spot": {"machine_types": [F4], "spot": True},
    "regular": {"machine_types": [F4]},
}
SPOT_ALONE = {"spot": SPOT_FIRST["spot"]}


@contextlib.contextmanager
def two_spot_nodes(home, arrays=SPOT_FIRST, **lifecycle):
    """A site with two spot nodes that are ready, as the loop has seen."""
    with a_site(home, arrays, **lifecycle) as site:
        site.want(2)
        site.run()
        site.wait(60)
        site.run()
        assert site.made() == {f"spot/{F4}": 2}
        yield site


def test_the_work_of_a_node_that_is_being_evicted_is_planned_on_regular_nodes(tmp_path):
    """In the next pass: the offer of spot nodes rests, that of regular ones does not."""
    with two_spot_nodes(tmp_path, eviction_notice=600) as site:
        site.simulator.cluster("c").evict(site.names("spot")[0])
        summary = site.run()
        assert site.made() == {f"regular/{F4}": 1}
        assert summary.errors == ()
        assert summary.deleted == ()


def test_a_node_that_is_being_evicted_is_not_let_into_the_scheduler(tmp_path):
    """It was joined in each pass, as if it were to get work, until it was gone."""
    with two_spot_nodes(tmp_path, SPOT_ALONE, eviction_notice=600) as site:
        assert site.run().joined == ("spot-1", "spot-2")
        site.simulator.cluster("c").evict("spot-1")
        assert site.run().joined == ("spot-2",)


def test_an_eviction_of_which_no_pass_saw_the_notice_counts_as_well(tmp_path):
    """The node has vanished, and nobody told it to go."""
    with two_spot_nodes(tmp_path) as site:
        site.simulator.cluster("c").evict(site.names("spot")[0])
        site.wait(60)
        site.run()
        assert site.made() == {f"regular/{F4}": 1}


def test_each_eviction_counts_once_and_the_rest_is_short(tmp_path):
    """A minute, and a node that is being evicted for long makes it no longer."""
    with two_spot_nodes(tmp_path, SPOT_ALONE, eviction_notice=600) as site:
        site.simulator.cluster("c").evict(site.names()[0])
        made = []
        for _ in range(6):
            site.run()
            made.append(site.made().total())
            site.wait(30)
        assert made[:2] == [0, 0]
        assert sum(made) == 1


def test_what_waits_says_that_spot_nodes_were_evicted(tmp_path):
    """As the reason of the back-off."""
    with two_spot_nodes(tmp_path, SPOT_ALONE) as site:
        site.simulator.cluster("c").evict(site.names()[0])
        site.wait(60)
        (job,) = site.run().unsatisfied
        assert f"Spot {F4.lower()} in southcentralus is in back-off (evicted)" in job.reason
        assert "a spot node was evicted" in job.reason


def test_an_eviction_while_booting_is_no_failed_boot(tmp_path):
    """The circuit breaker of the bucket hears nothing of it."""
    with a_site(tmp_path, SPOT_ALONE, preparing=600, eviction_notice=600) as site:
        site.want(4)
        site.run()
        site.wait(60)
        site.run()
        site.simulator.cluster("c").evict(*site.names())
        site.run()
        known = BackoffFile(str(tmp_path / "backoff.db")).read().backoffs
        assert {row.cause for row in known.values()} == {FailureKind.EVICTED}


def test_nodes_that_the_loop_deletes_are_not_evicted(tmp_path):
    """Spot nodes that go because nobody needs them are no failure of their offer."""
    with two_spot_nodes(tmp_path, SPOT_ALONE) as site:
        site.want(0)
        site.config["idle_timeout"] = 60
        deleted = []
        for _ in range(6):
            site.wait(60)
            deleted += site.run().deleted
        assert len(deleted) == 2
        assert site.nodes() == []
        assert BackoffFile(str(tmp_path / "backoff.db")).read() == ({}, {}, {})


def test_a_node_that_is_gone_after_it_was_seen_to_go_was_not_evicted(tmp_path):
    """Somebody else has told it to go."""
    with two_spot_nodes(tmp_path, SPOT_ALONE, terminating=90) as site:
        new_cluster_bindings(site.config).shutdown_nodes(names=site.names())
        for _ in range(3):
            site.run()
            site.wait(60)
        assert BackoffFile(str(tmp_path / "backoff.db")).read().backoffs == {}


def test_many_evictions_in_a_row_rest_for_ten_times_as_long_at_most():
    policy, known, now = Policy(jitter=0.0), None, 0.0
    for _ in range(12):
        known = failed(known, FailureKind.EVICTED, "", now, now, policy, lambda: 0.0)
        now = known.until
    assert known.delay == EVICTED_AT_MOST * policy.first[FailureKind.EVICTED]


def test_a_file_of_before_is_brought_up_to_date(tmp_path):
    """It is read as it is, and gets the new column when it is written."""
    path = tmp_path / "backoff.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE backoffs (subject, cause, message, failed_at, level, streak,"
            " delay, until, passed)"
        )
        db.execute(
            "CREATE TABLE boots (node_id TEXT PRIMARY KEY, since REAL, was_started BOOL,"
            " has_vm BOOL, has_failed BOOL)"
        )
        db.execute("INSERT INTO boots VALUES ('n1', 5.0, 0, 1, 0)")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    file = BackoffFile(str(path))
    before = path.read_bytes()
    assert file.read().boots == {"n1": Boot(5.0, has_vm=True)}
    assert path.read_bytes() == before
    file.write({}, {"n2": Boot(6.0, up_at="spot")}, {"r": 7.0})
    assert file.read().boots == {"n1": Boot(5.0, has_vm=True), "n2": Boot(6.0, up_at="spot")}
    assert file.read().sent == {"r": 7.0}
