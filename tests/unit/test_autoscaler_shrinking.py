"""How the autoscaler lets nodes go, and which it never does."""

import pytest
from autoscaler_kit import a_host, a_job, cluster, idle_cluster, now, raising, run, scheduler

from hpc.autoscale.ccbindings.errors import CycleCloudUnreachable
from hpc.autoscale.job.job import Job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


# -- going


def test_idle_nodes_go(run, scheduler, cluster, now):
    """Drained, deleted, and gone from the scheduler."""
    idle_cluster(cluster, run, now)
    summary = run()
    assert summary.idle == summary.drained == summary.deleted == ("htc-1", "htc-2", "htc-3")
    assert scheduler.given["handle_post_delete"] == ["htc-1", "htc-2", "htc-3"]
    assert {node.target_state for node in cluster.nodes.values()} == {"Terminated"}


def test_idle_nodes_wait_for_their_timeout(run, scheduler, cluster, now):
    """The timeout is that of the nodearray."""
    idle_cluster(cluster, run, now)
    assert run(idle_timeout={"htc": 1000, "default": 10}).deleted == ()
    now.sleep(1000)
    assert len(run(idle_timeout={"htc": 1000, "default": 10}).deleted) == 3


def test_nodes_that_do_not_drain_stay(run, scheduler, cluster, now):
    """Only what the driver gives back is deleted."""
    idle_cluster(cluster, run, now)
    scheduler.answers["handle_draining"] = []
    summary = run()
    assert (len(summary.idle), summary.deleted) == (3, ())


def test_keep_alive_nodes_stay(run, scheduler, cluster, now):
    """However long they are idle, or take to boot."""
    cluster.add_node("htc-1", "htc", state="Preparing", keep_alive=True)
    run()
    now.sleep(3000)
    summary = run()
    assert (summary.idle, summary.overdue, summary.deleted) == ((), (), ())


def test_keep_alive_nodes_stay_when_they_fail(run, scheduler, cluster):
    """Even when the driver gives them back."""
    cluster.add_node("htc-1", "htc", state="Failed", keep_alive=True)
    summary = run()
    assert (summary.failed, summary.spared, summary.deleted) == (("htc-1",), ("htc-1",), ())


def test_nodes_that_take_too_long_to_boot_go(run, scheduler, cluster, now):
    """Those that the driver gives back."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    run()
    now.sleep(1801)
    summary = run()
    assert summary.overdue == summary.deleted == ("htc-1",)


def test_work_does_not_wait_for_a_node_that_takes_too_long_to_boot(run, scheduler, cluster, now):
    """Another one is created for it in the same pass; while the driver keeps the old one, no third."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    scheduler.jobs = [a_job()]
    run()
    now.sleep(1801)
    scheduler.jobs = [a_job()]
    scheduler.answers["handle_boot_timeout"] = []
    assert run().created == ("htc-2",)
    scheduler.jobs = [a_job()]
    del scheduler.answers["handle_boot_timeout"]
    summary = run()
    assert (summary.created, summary.deleted) == ((), ("htc-1",))


def test_a_node_that_works_while_it_boots_stays(run, scheduler, cluster, now):
    """The driver is asked about it, the scheduler's word counts, and more work may be placed there."""
    cluster.add_node("htc-1", "htc", state="Preparing", hostname="host-1")
    scheduler.hosts = [a_host("host-1", "running", ncpus=4)]
    scheduler.jobs = [a_job()]
    run()
    now.sleep(1801)
    summary = run()
    assert (summary.created, summary.spared, summary.deleted) == ((), ("htc-1",), ())
    assert scheduler.given["handle_boot_timeout"] == ["htc-1"]


def test_failed_nodes_go(run, scheduler, cluster):
    """Those that the driver gives back, at once."""
    cluster.add_node("htc-1", "htc", state="Failed")
    summary = run()
    assert summary.failed == summary.deleted == ("htc-1",)


def test_a_node_marked_for_deletion_gets_no_work(run, scheduler, cluster):
    """The scheduler wants rid of a host: its node takes no new job and is deleted, found by host name."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    host = a_host("host-1")
    host.marked_for_deletion = True
    scheduler.hosts = [host]
    scheduler.jobs = [a_job(slots=4)]
    scheduler.later = ([], [])
    summary = run()
    assert summary.deleted == ("htc-1",)
    assert summary.requested == ("htc-2",)


# -- what is never deleted


def test_a_node_with_work_is_never_deleted(run, scheduler, cluster, now):
    """Not even when the driver gives it back."""
    idle_cluster(cluster, run, now, count=1)
    cluster.add_node("htc-7", "htc", state="Failed", hostname="host-7")
    scheduler.hosts = [a_host("host-7", "running job")]
    summary = run()
    assert summary.spared == ("htc-7",)
    assert summary.deleted == ("htc-1",)


def test_jobs_are_read_again_before_deleting(run, scheduler, cluster, now):
    """Work that started between the first look and the drain keeps its node."""
    idle_cluster(cluster, run, now)
    scheduler.later = ([], [a_host("host-2", "just started")])
    summary = run()
    assert summary.spared == ("htc-2",)
    assert summary.deleted == ("htc-1", "htc-3")


def test_hosts_that_jobs_run_on_are_spared(run, scheduler, cluster, now):
    """Also when only the job says where it runs, by a full host name in other letters."""
    idle_cluster(cluster, run, now)
    running = Job("running", executing_hostnames=["HOST-1.example"])
    running.metadata["job_state"] = "running"
    scheduler.later = ([running], [])
    assert run().spared == ("htc-1",)


def test_unknown_is_not_idle(run, scheduler, cluster, now):
    """When the scheduler does not answer the second time, nothing is deleted, and the pass has failed in part."""
    idle_cluster(cluster, run, now)
    read = scheduler._read_jobs_and_nodes
    answers = iter([read])

    def once(config):
        return next(answers, raising(OSError("qstat: connection refused")))(config)

    scheduler._read_jobs_and_nodes = once
    summary = run()
    assert summary.deleted == ()
    assert not summary.ok
    assert "connection refused" in str(summary)


def test_without_any_usable_job_nothing_is_idle(run, scheduler, cluster, now):
    """When every job is bad nobody knows what is wanted; one good one is enough."""
    idle_cluster(cluster, run, now)
    scheduler.jobs = ["bad", "bad"]
    summary = run()
    assert (summary.idle, summary.ok) == ((), False)
    assert "not one of 2 could be used" in str(summary)
    scheduler.jobs = ["bad", a_job(slots=4)]
    summary = run()
    assert (len(summary.idle), summary.ok) == (2, True)


def test_without_history_nothing_is_idle(run, scheduler, cluster, now, monkeypatch):
    """When the history cannot be written nobody knows how long a node has been idle."""
    idle_cluster(cluster, run, now)
    history = scheduler.new_node_history({})
    monkeypatch.setattr(history, "update", raising(OSError("disk full")))
    summary = run()
    assert (summary.deleted, summary.ok) == ((), False)
    assert "handle_draining" not in scheduler.calls[-3:]


def test_a_listing_that_is_no_evidence_ends_the_pass(run, scheduler, cluster, now, monkeypatch):
    """Nothing is created and nothing deleted."""
    idle_cluster(cluster, run, now)
    scheduler.jobs = [a_job(slots=40)]
    monkeypatch.setattr(cluster, "get_nodes", raising(CycleCloudUnreachable("https://cc", "reset")))
    before = dict(cluster.nodes)
    with pytest.raises(CycleCloudUnreachable):
        run()
    assert cluster.nodes == before
    assert {node.target_state for node in cluster.nodes.values()} == {"Started"}
