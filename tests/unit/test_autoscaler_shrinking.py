"""How the autoscaler lets nodes go, and which it never does."""

import copy
from types import SimpleNamespace

import pytest

from builders.fake_scheduler import IDLE, cluster, idle_cluster, now, raising, run, scheduler
from builders.nodes import an_htc_cluster
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.commanding import facts_of_the_loop
from hpc.autoscale.ccbindings.errors import CycleCloudUnreachable
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.job import Job
from hpc.autoscale.testing import a_host, a_job

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


def test_a_failed_node_that_stays_is_handed_to_the_driver_as_others(run, scheduler, cluster):
    """Every pass hands over all nodes that exist and stay: the driver looks at their states."""
    cluster.add_node("htc-1", "htc", state="Failed", keep_alive=True)
    for _ in range(2):
        run()
        assert scheduler.given["add_nodes_to_cluster"] == ["htc-1"]


def test_nodes_that_take_too_long_to_boot_go(run, scheduler, cluster, now):
    """Those that the driver gives back."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    run()
    now.sleep(1801)
    summary = run()
    assert summary.overdue == summary.deleted == ("htc-1",)


def test_the_boot_timeout_is_that_of_the_nodearray(run, cluster, now):
    """As it is configured."""
    config = {"boot_timeout": {"htc": 60, "default": 1800}}
    cluster.add_node("htc-1", "htc", state="Preparing")
    run(**config)
    now.sleep(59)
    assert run(**config).deleted == ()
    now.sleep(2)
    assert run(**config).deleted == ("htc-1",)


def test_a_node_that_was_deallocated_for_long_has_time_to_boot(run, scheduler, cluster, now):
    """It is started for work, and given up when it does not come up from then on."""
    cluster.add_node("htc-1", "htc", state="Deallocated")
    for _ in range(40):
        run()
        now.sleep(60)
    scheduler.jobs = [a_job()]
    assert run().started == ("htc-1",)
    overdue = []
    for _ in range(32):
        now.sleep(60)
        scheduler.jobs = [a_job()]
        overdue.append(run().overdue)
    assert overdue == [()] * 30 + [("htc-1",), ()]


def test_work_does_not_wait_for_a_node_that_takes_too_long_to_boot(run, scheduler, cluster, now):
    """Another one is created for it in the same pass; while the driver keeps the old one, no
    third."""
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
    """The driver is asked about it, the scheduler's word counts, and more work may be placed
    there."""
    cluster.add_node("htc-1", "htc", state="Preparing", hostname="host-1")
    for passed in (0, 1801):
        now.sleep(passed)
        scheduler.hosts = [a_host("host-1", "running", ncpus=4)]
        scheduler.jobs = [a_job()]
        summary = run()
    assert (summary.created, summary.spared, summary.deleted) == ((), ("htc-1",), ())
    assert scheduler.given["handle_boot_timeout"] == ["htc-1"]


@pytest.mark.parametrize(
    ("state", "after", "hook"),
    [("Failed", 60, "handle_failed_nodes"), ("Preparing", 1801, "handle_boot_timeout")],
)
def test_a_node_that_becomes_ready_while_it_is_given_up_stays(
    run, scheduler, cluster, now, monkeypatch, state, after, hook
):
    """CycleCloud has repaired it, or it was only slow."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    run()
    now.sleep(after)
    node = cluster.nodes["htc-1"]
    node.state = state

    def come_up(nodes):
        node.state = "Ready" if nodes else node.state
        return nodes

    monkeypatch.setattr(scheduler, hook, come_up)
    summary = run()
    assert [refusal.code for refusal in summary.refused] == ["Recovered"]
    assert (summary.spared, summary.deleted) == (("htc-1",), ())


def test_failed_nodes_go(run, scheduler, cluster):
    """Those that the driver gives back, at once."""
    cluster.add_node("htc-1", "htc", state="Failed")
    summary = run()
    assert summary.failed == summary.deleted == ("htc-1",)


@pytest.mark.parametrize(("kept", "gone"), [(True, ("htc-1",)), (False, ("slow",))])
def test_a_node_that_the_driver_keeps_takes_the_place_of_no_other(
    run, scheduler, cluster, now, kept, gone
):
    """One may go in each pass: the late one, and the idle one where the driver keeps that. No
    other is drained."""
    cluster.add_node("slow", "htc", state="Preparing")
    idle_cluster(cluster, run, now, 1)
    now.sleep(1801)
    if kept:
        scheduler.answers["handle_boot_timeout"] = []
    summary = run(autoscale={"max_deletes_per_pass": 1})
    assert (summary.overdue, summary.deleted) == (("slow",), gone)
    assert summary.drained == (gone if kept else ())


def test_a_node_that_is_never_let_go_does_not_hold_up_others_for_ever(run, scheduler, cluster, now):
    """One may go in each pass: the others are drained before it once the scheduler has kept it for
    half an hour."""
    idle_cluster(cluster, run, now, 3)
    scheduler.handle_draining = lambda nodes: [node for node in nodes if node.name != "htc-1"]
    section = {"max_deletes_per_pass": 1}
    assert run(autoscale=section).deleted == ()
    now.sleep(1800)
    assert run(autoscale=section).deleted == ()
    now.sleep(60)
    gone = [name for _ in range(3) for name in run(autoscale=section).deleted]
    assert gone == ["htc-2", "htc-3"]
    scheduler.handle_draining = list
    assert run(autoscale=section).deleted == ("htc-1",)


@pytest.mark.parametrize("why", ["failed", "marked", "late"])
@pytest.mark.parametrize("kept", ["alive", "busy"])
def test_a_node_that_has_to_stay_takes_the_place_of_no_other(
    run, scheduler, cluster, now, why, kept
):
    """One may go in each pass: it is not that which failed, is marked or late, and is to be kept
    alive or has work."""
    state = {"failed": "Failed", "marked": "Ready", "late": "Preparing"}[why]
    more = {"state": state, "hostname": "host-9", "keep_alive": kept == "alive"}
    cluster.add_node("htc-9", "htc", **more)
    idle_cluster(cluster, run, now, 2)
    now.sleep(1800)
    gone: list[str] = []
    for _ in range(3):
        now.sleep(60)
        host = a_host("host-9", *(["running"] if kept == "busy" else []), ncpus=4)
        host.marked_for_deletion = why == "marked"
        scheduler.hosts = [host, *(a_host(f"host-{n}", ncpus=4) for n in (1, 2))]
        gone += run(autoscale={"max_deletes_per_pass": 1}).deleted
    assert gone == ["htc-1", "htc-2"]


@pytest.mark.parametrize("state", ["Ready", "Failed"])
def test_a_node_that_cyclecloud_does_not_delete_does_not_hold_up_others_for_ever(
    run, scheduler, cluster, now, monkeypatch, state
):
    """One may go in each pass: the others do before it is tried once more."""
    cluster.add_node("htc-0", "htc", state="Ready", hostname="host-0")
    idle_cluster(cluster, run, now, 2)
    cluster.update_state(state, ["htc-0"])
    delete, tried = cluster.delete_nodes, []

    def refuse(*, nodes, **more):
        tried.append(nodes[0].name)
        if tried[-1] == "htc-0":
            raise CycleCloudUnreachable("no")
        return delete(nodes=nodes, **more)

    monkeypatch.setattr(cluster, "delete_nodes", refuse)
    for _ in range(4):
        run(autoscale={"max_deletes_per_pass": 1})
        now.sleep(60)
    assert tried == ["htc-0", "htc-1", "htc-2", "htc-0"]


@pytest.mark.parametrize("give_back", [list, copy.deepcopy])
def test_a_node_marked_for_deletion_gets_no_work(run, scheduler, cluster, give_back):
    """The scheduler wants rid of a host: its node takes no new job and is deleted, found by host
    name, also where the driver gives back a copy of the host."""
    scheduler.handle_failed_nodes = give_back
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    host = a_host("host-1")
    host.marked_for_deletion = True
    scheduler.hosts = [host]
    scheduler.jobs = [a_job(tasks=4)]
    scheduler.later = ([], [])
    summary = run()
    assert summary.deleted == ("htc-1",)
    assert summary.requested == ("htc-2",)


def node_id(cluster, name):
    """CycleCloud's id of a node."""
    return cluster.nodes[name].delayed_node_id.node_id


def marked(hostname, **resources):
    """A host that the scheduler wants rid of."""
    host = a_host(hostname, **resources)
    host.marked_for_deletion = True
    return host


def test_a_marked_host_known_by_its_node_id_alone_goes(run, scheduler, cluster):
    """The scheduler calls it otherwise than CycleCloud does."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0a010002")
    scheduler.hosts = [marked("compute-1", ccnodeid=node_id(cluster, "htc-1"))]
    assert run().deleted == ("htc-1",)


@pytest.mark.parametrize("names", ["a node that is gone", "another node"])
def test_a_marked_host_that_names_another_node_is_not_found_by_its_name(
    run, scheduler, cluster, names
):
    """Its host name was given to a node that is well: that one stays, and takes work."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    cluster.add_node("htc-2", "htc", state="Ready", hostname="host-2")
    other = node_id(cluster, "htc-2") if names == "another node" else "gone"
    scheduler.hosts = [marked("host-1", ccnodeid=other)]
    scheduler.jobs = [a_job(tasks=4)]
    summary = run()
    assert summary.deleted == (("htc-2",) if names == "another node" else ())
    assert summary.created == ()
    assert cluster.nodes["htc-1"].target_state == "Started"


def test_two_nodes_with_one_address_end_no_pass(scheduler, now):
    """One of them is deallocated; work and deletions are those of the one that exists."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    for name, state in (("htc-1", "Deallocated"), ("htc-2", "Ready")):
        cluster.add_node(name, "htc", state=state)._settle(None, "10.1.0.4")
    config = {"cluster_name": "c", "_mock_bindings": cluster, "assume_standalone_hostnames": True}
    scheduler.hosts = [a_host("ip-0A010004", "job")]
    assert Autoscaler(config, scheduler).run_once().ok
    now.sleep(IDLE)
    assert Autoscaler(config, scheduler).run_once().idle == ()
    scheduler.hosts = [a_host("ip-0A010004")]
    assert Autoscaler(config, scheduler).run_once().ok
    now.sleep(IDLE)
    assert Autoscaler(config, scheduler).run_once().deleted == ("htc-2",)


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


@pytest.mark.parametrize("known_by", ["assignment", "running job"])
def test_a_host_known_by_its_node_id_keeps_its_node(run, scheduler, cluster, now, known_by):
    """Work has begun on a host that the scheduler calls otherwise than CycleCloud does."""
    idle_cluster(cluster, run, now)
    host = a_host("compute-2", ccnodeid=node_id(cluster, "htc-2"))
    jobs = []
    if known_by == "assignment":
        host.assign("just started")
    else:
        jobs = [Job("just started", executing_hostnames=["compute-2.example"])]
    scheduler.later = (jobs, [host])
    summary = run()
    assert summary.spared == ("htc-2",)
    assert summary.deleted == ("htc-1", "htc-3")


def test_a_busy_host_that_names_another_node_is_not_found_by_its_name(run, scheduler, cluster, now):
    """Its work is that of the node whose id it has, and keeps no other."""
    idle_cluster(cluster, run, now)
    other = node_id(cluster, "htc-3")
    scheduler.later = ([], [a_host("host-1", "just started", ccnodeid=other)])
    assert run().spared == ("htc-3",)


def test_what_may_be_busy_is(run, scheduler, cluster, now):
    """A busy host has the host name of a node and the id of none: it may be the one or the
    other."""
    idle_cluster(cluster, run, now)
    scheduler.later = ([], [a_host("host-1", "just started", ccnodeid="gone")])
    assert run().spared == ("htc-1",)


def test_a_host_of_a_node_that_is_gone_keeps_no_other_node(run, scheduler, cluster, now):
    """Its job never ended there, for the scheduler; its host name and address were given to another
    node meanwhile, which has nothing to do."""
    old = cluster.add_node("htc-9", "htc", state="Ready", hostname="host-1")
    run()
    gone = old.delayed_node_id.node_id
    del cluster.nodes["htc-9"]
    idle_cluster(cluster, run, now, count=1)
    scheduler.hosts = [a_host("host-1", "for ever", ccnodeid=gone)]
    assert run().deleted == ("htc-1",)


def test_a_name_that_stands_for_two_nodes_keeps_both(run, scheduler, cluster, now):
    """A job runs on one of them, and nobody knows on which."""
    idle_cluster(cluster, run, now)
    cluster.nodes["htc-3"]._settle("host-2", None)
    for _ in range(2):  # with another name it is idle from then on
        run(idle_timeout=1e6)
        now.sleep(IDLE)
    scheduler.later = ([Job("running", executing_hostnames=["host-2"])], [])
    summary = run()
    assert (summary.spared, summary.deleted) == (("htc-2", "htc-3"), ("htc-1",))


def test_what_may_be_busy_is_not_drained(run, scheduler, cluster, now):
    """A host with an id that nobody knows has work, under the host name of a node: that node is not
    idle."""
    idle_cluster(cluster, run, now)
    scheduler.hosts = [a_host("host-1", "running", ccnodeid="gone")]
    summary = run()
    assert summary.idle == summary.deleted == ("htc-2", "htc-3")
    assert scheduler.given["handle_draining"] == ["htc-2", "htc-3"]


def test_garbage_in_what_the_driver_says_of_running_jobs(run, scheduler, cluster, now):
    """Nobody knows then what is idle; the pass goes on and says so."""
    idle_cluster(cluster, run, now)
    scheduler.jobs = [SimpleNamespace(name="odd", executing_hostnames=7), a_job()]
    summary = run()
    assert (summary.idle, summary.deleted, summary.ok) == ((), (), False)


def test_unknown_is_not_idle(run, scheduler, cluster, now):
    """When the scheduler does not answer the second time, nothing is deleted, and the pass has
    failed in part."""
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


@pytest.mark.parametrize("known", ["a job", "what the driver wants"])
def test_without_any_usable_job_nothing_is_idle(run, scheduler, cluster, now, known):
    """When every job is bad nobody knows what is wanted; one good one is enough, or a driver that
    wants nodearrays."""
    idle_cluster(cluster, run, now)
    scheduler.jobs = ["bad", "bad"]
    summary = run()
    assert (summary.idle, summary.ok) == ((), False)
    assert "not one of 2 could be used" in str(summary)
    if known == "a job":
        scheduler.jobs = ["bad", a_job(tasks=4)]
    else:
        scheduler.wanted_arrays = lambda config: [{"Name": "htc", "TargetCount": 1}]
    summary = run()
    assert (len(summary.idle), summary.ok) == (2, True)


def test_without_history_nothing_is_idle(run, scheduler, cluster, now, monkeypatch):
    """When the history cannot be written nobody knows how long a node has been idle: not even those
    that were idle for long enough by the pass before are drained."""
    idle_cluster(cluster, run, now)
    scheduler.answers["handle_draining"] = []
    assert len(run().idle) == 3
    scheduler.calls.clear()
    scheduler.answers.clear()
    history = scheduler.new_node_history({})
    monkeypatch.setattr(history, "update", raising(OSError("disk full")))
    summary = run()
    assert (summary.idle, summary.deleted, summary.ok) == ((), (), False)
    assert "handle_draining" not in scheduler.calls


def test_a_listing_that_is_no_evidence_ends_the_pass(run, scheduler, cluster, now, monkeypatch):
    """Nothing is created and nothing deleted."""
    idle_cluster(cluster, run, now)
    scheduler.jobs = [a_job(tasks=40)]
    monkeypatch.setattr(cluster, "get_nodes", raising(CycleCloudUnreachable("https://cc", "reset")))
    before = dict(cluster.nodes)
    with pytest.raises(CycleCloudUnreachable):
        run()
    assert cluster.nodes == before
    assert {node.target_state for node in cluster.nodes.values()} == {"Started"}


# -- time that nobody watched


def watched(run, now, passes=3, every=60, **config):
    """Passes at a steady rhythm; the summary of the last."""
    for _ in range(passes):
        now.sleep(every)
        summary = run(**config)
    return summary


@pytest.mark.parametrize("interval", [60, None])
@pytest.mark.parametrize("passes", [1, 4])
def test_a_loop_that_slept_deletes_nothing(run, scheduler, cluster, now, interval, passes):
    """An hour in which nobody looked is no idle time, whether it is known how often there is a pass
    or not; after that the node goes in its time."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    config = {"autoscale": {"interval": interval}} if interval else {}
    watched(run, now, passes, **config)
    now.sleep(3600)
    assert run(**config).idle == ()
    watched(run, now, 7, **config)
    assert cluster.nodes["htc-1"].target_state == "Terminated"


def test_boot_time_that_nobody_watched_does_not_count(run, scheduler, cluster, now):
    """A node that booted while the loop slept gets the time that it was promised."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    config = {"autoscale": {"interval": 60}}
    watched(run, now, 3, **config)
    now.sleep(2000)
    assert run(**config).overdue == ()
    assert watched(run, now, 27, **config).overdue == ()
    watched(run, now, 5, **config)
    assert cluster.nodes["htc-1"].target_state == "Terminated"


@pytest.mark.parametrize("jump", [-7200, 7200, 400 * 24 * 3600])
def test_a_clock_that_jumps_deletes_nothing(run, scheduler, cluster, now, jump):
    """Forward or back; and the node does not stay for ever."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    config = {"autoscale": {"interval": 60}}
    watched(run, now, 4, **config)
    now.now += jump
    assert run(**config).idle == ()
    now.now -= jump
    assert run(**config).idle == ()
    now.now += jump
    watched(run, now, 8, **config)
    assert cluster.nodes["htc-1"].target_state == "Terminated"


def test_a_history_that_was_away_deletes_nothing(run, scheduler, cluster, now, tmp_path):
    """It comes back as it was a week ago: what it says of idle times is of then."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    path = tmp_path / "nodehistory.db"
    watched(run, now, 4)
    before = path.read_bytes()
    scheduler.hosts = [a_host("host-1", "job")]
    for _ in range(5):
        now.sleep(60)
        scheduler.hosts = [a_host("host-1", "job")]
        run()
    scheduler.close_histories()
    path.write_bytes(before)
    now.sleep(7 * 24 * 3600)
    scheduler.hosts = [a_host("host-1")]
    assert run().idle == ()


def test_a_history_of_cyclecloud_scalelib_begins_to_count_anew(run, scheduler, cluster, now):
    """It does not say when it was last written."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    run()
    scheduler.new_node_history({}).conn.executescript("DROP TABLE updates; DROP TABLE sightings")
    scheduler.close_histories()
    now.sleep(IDLE)
    assert run().idle == ()
    now.sleep(IDLE)
    assert run().deleted == ("htc-1",)


# -- hysteresis


def test_one_idle_pass_is_not_enough(run, scheduler, cluster, now):
    """However short the timeout: what is idle for a moment may be needed again."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.hosts = [a_host("host-1", "job")]
    run(idle_timeout=1)
    now.sleep(60)
    scheduler.hosts = [a_host("host-1")]
    summary = run(idle_timeout=1)
    assert summary.deleted == ()
    assert [r.code for r in summary.refused] == ["IdleTooBriefly"]
    now.sleep(60)
    scheduler.hosts = [a_host("host-1")]
    assert run(idle_timeout=1).deleted == ("htc-1",)


def test_the_number_of_idle_passes_is_configured(run, scheduler, cluster, now):
    """From one on."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    section = {"min_idle_passes": 4}
    run(autoscale=section)
    for deleted in ((), (), ("htc-1",)):
        now.sleep(IDLE)
        assert run(autoscale=section).deleted == deleted


def test_a_young_node_stays(run, scheduler, cluster, now):
    """A machine that was paid for a minute ago is not thrown away."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    section = {"min_lifetime": 3600}
    run(autoscale=section)
    for deleted in (*[()] * 5, ("htc-1",)):
        now.sleep(600)
        assert run(autoscale=section).deleted == deleted


def test_a_node_that_came_while_the_clock_was_ahead_is_young_once(run, scheduler, cluster, now):
    """Once the clock is right again its life begins anew; nobody waits for hours that were none."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    section = {"min_lifetime": 3600}
    now.now += 5 * 3600
    run(autoscale=section)
    now.now -= 5 * 3600
    for deleted in (*[()] * 6, ("htc-1",)):
        now.sleep(600)
        assert run(autoscale=section).deleted == deleted


# -- how much one pass may do


def test_no_pass_deletes_more_than_half_of_a_large_cluster(run, scheduler, cluster, now):
    """However idle it looks; the share is of all nodes that exist, and the summary has the code."""
    idle_cluster(cluster, run, now, count=30)
    summary = run()
    assert (len(summary.idle), len(summary.drained), len(summary.deleted)) == (30, 15, 15)
    assert {refusal.code for refusal in summary.refused} == {"MaxDeleteShare"}
    assert "15 refused (MaxDeleteShare)" in str(summary)
    assert len(run().deleted) == 15


@pytest.mark.parametrize(("share", "gone"), [(0.1, 3), (0.03, 1), (0, 0), (None, 30)])
def test_the_share_is_configured(run, scheduler, cluster, now, share, gone):
    """Null is no limit; a share that comes to less than one node is one, or none would ever go."""
    idle_cluster(cluster, run, now, count=30)
    assert len(run(autoscale={"max_delete_share": share}).deleted) == gone


@pytest.mark.parametrize(("above", "gone"), [(4, 4), (3, 2), (0, 2)])
def test_how_many_nodes_make_a_cluster_large_is_configured(
    run, scheduler, cluster, now, above, gone
):
    """The share counts where there are more than so many."""
    idle_cluster(cluster, run, now, count=4)
    assert len(run(autoscale={"max_delete_share_above": above}).deleted) == gone


COUNTS = ("max_new_nodes_per_pass", "max_deletes_per_pass", "max_delete_share_above")
NO_LIMITS = [
    *((key, value, "a whole number, 0 or more") for key in COUNTS for value in (-1, True, "3")),
    *(("min_idle_passes", value, "a whole number from 0 to 20") for value in (-1, True, None)),
    *(("max_delete_share", value, "a number from 0 to 1") for value in (50, -0.1, True, "0.5")),
    *(("min_lifetime", value, "a number of seconds, 0 or more") for value in (-4, "long")),
]


@pytest.mark.parametrize(("key", "value", "expected"), NO_LIMITS)
@pytest.mark.parametrize("by", ["configuration", "driver"])
def test_a_limit_that_is_none_is_refused(run, scheduler, by, key, value, expected):
    """With what was expected, also where a driver has written it."""
    section = {"autoscale": {key: value}}
    with pytest.raises(ConfigurationException, match=rf"autoscale\.{key}: expected {expected}"):
        if by == "configuration":
            Autoscaler(section, scheduler)
        else:
            scheduler.preprocess_config = lambda config: {**config, **section}
            run()


@pytest.mark.parametrize("limit", [0, 1, 1.0])
def test_the_least_limits_are_limits(limit):
    """What is not said is another one, or none."""
    keys = (*COUNTS, "max_delete_share", "min_idle_passes", "min_lifetime")

    def limits(section):
        facts = facts_of_the_loop({"autoscale": section})
        counts = (facts.max_new, facts.max_deletes, facts.share_above)
        return (*counts, facts.max_share, facts.min_idle_passes, facts.min_lifetime)

    assert limits(dict.fromkeys(keys, limit)) == (limit,) * 6
    assert limits({}) == (None, None, 20, 0.5, 2, 0)


def test_limits_are_numbers_however_they_are_written():
    """Counts are whole numbers, also written as 3.0; seconds may be a text."""
    written = {**dict.fromkeys(COUNTS, 3.0), "min_idle_passes": 3.0, "min_lifetime": "60"}
    facts = facts_of_the_loop({"autoscale": written})
    counts = (facts.max_new, facts.max_deletes, facts.share_above, facts.min_idle_passes)
    assert [str(count) for count in counts] == ["3"] * 4
    assert facts.min_lifetime == 60


def test_an_idle_node_stays_where_nodes_like_it_are_created(run, scheduler, cluster, now):
    """A job that cannot use it, and needs one like it, would else come and go with it."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.jobs = [a_job("new", {"node.exists": False, "ncpus": 1})]
    summary = run()
    assert (summary.created, summary.deleted) == (("htc-2",), ())
    assert [(r.node.name, r.code) for r in summary.refused] == [("htc-1", "OfferingWanted")]


def test_a_cluster_that_is_to_be_terminated_gets_no_node(run, scheduler, cluster):
    """Neither a new one nor one that rests; the summary and its fields say why."""
    cluster.add_node("htc-1", "htc", state="Deallocated", target_state="Deallocated")
    cluster.target_state = "Terminated"
    scheduler.jobs = [a_job(tasks=8)]
    summary = run()
    assert (summary.created, summary.started, summary.deferred) == ((), (), ())
    assert "2 refused (ClusterTerminated)" in str(summary)
    assert [(r["node"], r["command"]) for r in summary.fields()["refused"]] == [
        ("htc-1", "start"),
        ("htc-2", "create"),
    ]


@pytest.mark.parametrize(("running", "gone"), [((), ("htc-1",)), (("at work",), ())])
def test_a_node_that_the_driver_calls_failed_goes(run, scheduler, cluster, running, gone):
    """Although CycleCloud lists it as ready, before and after; not one where something runs."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")

    def validate_nodes(hosts, nodes):
        for node in nodes:
            node.state = "Failed"

    scheduler.validate_nodes = validate_nodes
    scheduler.hosts = [a_host("host-1", *running)]
    assert run().deleted == gone
