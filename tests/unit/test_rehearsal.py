"""A rehearsal says what the next pass does, and changes nothing."""

import hashlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.fake_scheduler import IDLE, cluster, idle_cluster, now, run, scheduler
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.plan_text import _lines_of_group, folded
from hpc.autoscale.clock import MockClock
from hpc.autoscale.errors import ReadOnlyModeException
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.node import pricing
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.rehearsal import Cost, PlannedChange, changes, rehearse
from hpc.autoscale.rehearsal.passing_on import PassingBinding
from hpc.autoscale.rehearsal.recording import Recorder, RecordingBinding
from hpc.autoscale.testing import a_host, a_job, a_node

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

F4 = 0.199  # dollars per hour of Standard_F4s in westus2


@pytest.fixture
def look(cluster, scheduler):
    """Rehearse a pass; arguments are configuration keys."""

    def rehearsal(**config: Any):
        config = {"cluster_name": "clusty", "_mock_bindings": cluster, **config}
        config["autoscale"] = {"scheduler_reports_hosts": False, **config.get("autoscale", {})}
        scheduler._has_read = False
        return rehearse(config, scheduler)

    return rehearsal


def new_jobs(count: int, name: str = "1") -> list[Job]:
    return [Job(name, {"ncpus": 4, "exclusive": True}, iterations=count)]


def state_of(home: Path, cluster) -> dict[str, str]:
    """What is in the files and in the cluster, as one hash each."""
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file()
    }
    said = repr([sorted(vars(node).items(), key=str) for node in cluster.nodes.values()])
    return {**files, "": hashlib.sha256(said.encode()).hexdigest()}


def rows(found) -> list[tuple[str, str | None, int, str]]:
    return [(row.action, row.node, row.count, row.code) for row in found.changes]


# -- nothing is changed


def test_nothing_is_changed_anywhere(look, run, scheduler, cluster, now, tmp_path):
    """Neither files nor the cluster nor the scheduler, though nodes would come and go."""
    scheduler.jobs = new_jobs(1, "0")
    run()
    scheduler.jobs = []
    idle_cluster(cluster, run, now)
    cluster.add_node("htc-9", "htc", state="Failed", hostname="host-9")
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    scheduler.jobs = [Job("1", {"ncpus": 8, "exclusive": True}, iterations=2)]
    before, scheduler.calls = state_of(tmp_path, cluster), []
    found = look()
    assert {row.action for row in found.changes} == {"create", "drain", "delete"}
    assert state_of(tmp_path, cluster) == before
    assert {"nodehistory.db", "requests.db"} <= before.keys()
    reads = {"initialize", "preprocess_config", "read", "preprocess_node_mgr", "validate_nodes"}
    assert set(scheduler.calls) == reads


def test_no_file_is_made(look, scheduler, tmp_path):
    """Not even where there is none yet."""
    scheduler.jobs = new_jobs(1)
    assert look().changes
    assert list(tmp_path.iterdir()) == []


def test_a_broken_history_stays_where_it_is(look, scheduler, tmp_path):
    """The loop moves it aside; a rehearsal does that to its copy."""
    (tmp_path / "nodehistory.db").write_bytes(b"no database, for all that is known" * 100)
    scheduler.jobs = new_jobs(1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert rows(look()) == [("create", None, 1, "ForJobs")]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_driver_is_told_that_it_must_change_nothing(look, scheduler):
    """By its configuration."""
    look()
    assert scheduler.configs[-1]["read_only"] is True
    assert scheduler.configs[-1]["lock_file"] is None


def test_a_host_without_a_name_does_not_end_it(look, scheduler):
    """It is among what is set aside, and no job that can never run."""
    scheduler.jobs, scheduler.hosts = new_jobs(1), [SchedulerNode(["host"], {})]
    found = look()
    assert (found.summary.jobs, found.never) == (1, ())
    assert [job.name for job in found.summary.set_aside] == ["host 1 of the scheduler"]
    assert found.summary.requested == ("htc-1",)


def test_a_job_that_its_driver_holds_can_run_one_day(look, scheduler):
    """It waits for its owner or another job; one that is too large for any node never can."""
    needs = {"ncpus": 1}
    scheduler.jobs = [
        Job("held", [needs, {"never": "held by its owner"}]),
        Job("large", {"ncpus": 900}),
    ]
    found = look()
    assert [job.name for job in found.never] == ["large"]
    lines = {job.name: job.verdict.line for job in found.summary.unsatisfied}
    assert lines["held"] == "Job held waits: the job says: held by its owner"


def test_errors_name_the_files_of_the_site(look, scheduler, tmp_path):
    """And not their copies."""
    (tmp_path / "gangs.db").write_bytes(b"no database" * 100)
    scheduler.jobs = [Job("1", {"ncpus": 4}, node_count=2, colocated=True)]
    assert any(str(tmp_path / "gangs.db") in note for note in look().summary.notes)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda hook, nodes: None, "expected a list of nodes to be returned, found None"),
        (lambda hook, nodes: {}[hook], "KeyError: 'add_nodes_to_cluster'"),
    ],
)
def test_a_driver_that_foresees_garbage_is_told_so(look, scheduler, cluster, answer, said):
    """By the name of foresee, and not of the hook that is not called at all."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.foresee = answer
    errors = [str(error) for error in look().summary.errors]
    assert f"joining nodes: FakeScheduler(fake).foresee: {said}" in errors


def test_other_commands_do_not_get_through(cluster):
    """Whoever asks for them."""
    recording = RecordingBinding(cluster, Recorder())
    for ask in (
        lambda: recording.retry_failed_nodes(),
        lambda: recording.scale("htc", total_node_count=1),
        lambda: recording.terminate_nodes(names=["htc-1"]),
        lambda: recording.start_nodes(names=["htc-1"]),
    ):
        with pytest.raises(ReadOnlyModeException):
            ask()


# -- what it says


def a_row(action: changes.Action, node: str, node_id: str | None = None) -> PlannedChange:
    return PlannedChange(action, node, node_id, "htc/F4", 1, "Idle", "has no work")


def test_nodes_that_are_all_gone_cost_nothing():
    """Whatever sums of their prices leave: it was `$-0.00/h`."""
    gone = [replace(a_row("delete", name), price_per_hour=-3.96) for name in "abcde"]
    assert str(Cost.of([3.96] * 5).changed_by(gone)) == "$0.00/h"


def test_what_goes_without_saying():
    """That what goes is joined and drained before; of what stays both are told."""
    going = [a_row("join", "a", "1"), a_row("drain", "a", "1"), a_row("delete", "a", "1")]
    host = [a_row("join", "rack"), a_row("drain", "rack"), a_row("stop_worker", "rack")]
    staying = [a_row("join", "b", "2"), a_row("drain", "c", "3"), a_row("join", "a", "4")]
    found = changes.without_moot([*going, *host, *staying])
    assert found == [going[2], host[2], *staying]


def test_creates_are_one_row_for_each_bucket(look, scheduler):
    """With the jobs that they are for, and the price."""
    scheduler.jobs = new_jobs(3)
    (row,) = look().changes
    assert (row.action, row.bucket, row.count, row.jobs) == (
        "create",
        "htc/Standard_F4s",
        3,
        ("1",),
    )
    assert (row.reason, row.price_per_hour) == ("for job 1", round(3 * F4, 6))


def test_a_job_that_runs_can_run(look, scheduler):
    """Also one that cannot be read; of one that waits that is the end of it."""
    runs = UnusableJob("runs", "no walltime", ["host-1"])
    scheduler.jobs = [a_job("one"), runs, UnusableJob("waits", "no walltime")]
    found = look()
    assert [job.name for job in found.never] == ["waits"]
    details = list(found.summary.details())
    assert details == [
        ("waits", "job waits set aside: no walltime"),
        ("note", "job runs set aside: no walltime"),
    ]


def test_creates_are_those_after_limits_and_caps(look, scheduler):
    """The cluster has room for ten nodes, and a pass asks for four."""
    scheduler.jobs = new_jobs(12)
    assert rows(look()) == [("create", None, 10, "ForJobs")]
    scheduler.jobs = new_jobs(12)
    found = look(autoscale={"max_new_nodes_per_pass": 4})
    assert rows(found) == [("create", None, 4, "ForJobs")]
    assert len(found.summary.deferred) == 6


def test_nodes_that_go_are_drained_and_deleted(look, run, cluster, now):
    """It is said how long they were idle, and what would spare them: no timeout that is over."""
    idle_cluster(cluster, run, now, count=1)
    drained, deleted = look().changes
    assert (drained.action, deleted.action) == ("drain", "delete")
    assert (deleted.node, deleted.code, deleted.idle_seconds) == ("htc-1", "Idle", IDLE)
    assert deleted.spared_by.endswith(f"an idle_timeout above {IDLE} s")
    assert (drained.price_per_hour, deleted.price_per_hour) == (0.0, -F4)


def test_nodes_that_were_idle_for_different_times_are_told_in_one(look, run, cluster, now):
    """With what would spare all of them."""
    idle_cluster(cluster, run, now, count=1)
    deleted = look().changes[-1]
    longer = replace(deleted, node="htc-2", idle_seconds=500.0, spared_by="a timeout above 500 s")
    (group,) = folded([deleted, longer])
    said = " ".join(text for _, text in _lines_of_group(group, 200)).split()
    assert " ".join(said).endswith("min; what would spare it: a timeout above 500 s")


def test_nodes_that_are_off_are_started(look, scheduler, cluster):
    """They cost money from then on."""
    cluster.add_node("htc-1", "htc", state="Deallocated", target_state="Deallocated")
    scheduler.jobs = new_jobs(1)
    found = look()
    assert rows(found) == [("start", "htc-1", 1, "ForJobs")]
    assert (found.before.per_hour, found.after.per_hour) == (0.0, F4)


def test_nodes_are_joined_that_the_scheduler_does_not_know(look, scheduler, cluster):
    """Those that it knows are joined by every pass, which changes nothing; those that boot are
    not."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    cluster.add_node("htc-2", "htc", state="Ready", hostname="host-2")
    cluster.add_node("htc-3", "htc", state="Preparing", hostname="host-3")
    scheduler.hosts = [a_host("host-1")]
    found = look(autoscale={"scheduler_reports_hosts": True})
    assert rows(found) == [("join", "htc-2", 1, "Ready")]
    assert found.summary.joined == ("htc-1", "htc-2")


def test_failed_and_late_nodes_go(look, run, scheduler, cluster, now):
    """Each for its own reason."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    run()
    now.sleep(1801)
    cluster.add_node("htc-2", "htc", state="Failed")
    deleted = [row for row in look().changes if row.action == "delete"]
    assert [(row.node, row.code) for row in deleted] == [("htc-2", "Failed"), ("htc-1", "Overdue")]
    assert deleted[1].reason == "did not become ready within 1800 s"


def test_what_nodes_cost_before_and_after(look, run, scheduler, cluster, now):
    """Those that exist, without those that go, with those that come."""
    idle_cluster(cluster, run, now)
    found = look()
    assert (found.before.per_hour, found.after.per_hour) == (round(3 * F4, 6), 0.0)


def test_a_node_that_is_off_saves_nothing_when_it_goes(look, scheduler, cluster):
    """It cost nothing before; what nodes cost came to less than nothing."""
    cluster.add_node(
        "htc-1", "htc", state="Deallocated", target_state="Deallocated", hostname="host-1"
    )
    scheduler.hosts = [a_host("host-1")]
    scheduler.hosts[0].marked_for_deletion = True
    found = look()
    assert [(row.action, row.node, row.price_per_hour) for row in found.changes] == [
        ("delete", "htc-1", 0.0)
    ]
    assert (found.before.per_hour, found.after.per_hour) == (0.0, 0.0)


def test_a_size_of_unknown_price_is_in_no_figure(look, scheduler, monkeypatch):
    """It is counted beside them."""
    monkeypatch.setattr(pricing, "price_per_hour", lambda *size: None)
    scheduler.jobs = new_jobs(1)
    found = look()
    assert found.changes[0].price_per_hour is None
    assert str(found.after) == "$0.00/h and 1 node of unknown price"


def test_rows_have_a_json_form(look, run, scheduler, cluster, now):
    """They can be read back."""
    idle_cluster(cluster, run, now)
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    scheduler.jobs = [Job("1", {"ncpus": 8, "exclusive": True})]
    found = look()
    saved = json.loads(json.dumps(found.to_dict()))
    assert tuple(map(PlannedChange.from_dict, saved["changes"])) == found.changes
    assert saved["cost_per_hour"]["before"]["per_hour"] == found.before.per_hour


# -- it is the loop's own pass


def test_the_next_pass_does_it(look, run, scheduler, cluster, now):
    """With the same nodes in every part of the summary."""
    idle_cluster(cluster, run, now)
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    scheduler.jobs = [Job("1", {"ncpus": 8, "exclusive": True}, iterations=2)]
    foreseen = look().summary.fields()
    scheduler.jobs = [Job("1", {"ncpus": 8, "exclusive": True}, iterations=2)]
    done = run().fields()
    for key in ("requested", "created", "joined", "idle", "drained", "deleted", "refused"):
        assert foreseen[key] == done[key], key


def test_a_rehearsal_may_have_another_configuration(look, run, cluster, now):
    """Such as a longer timeout."""
    idle_cluster(cluster, run, now)
    assert look(idle_timeout=1000).changes == ()
    assert len(look().changes) == 6


def test_a_rehearsal_may_read_another_cluster(cluster, scheduler, now):
    """What stands around the binding, or in its place, is given."""

    class Smaller(PassingBinding):
        def get_cluster_status(self, nodes: bool = False):
            status = self.inner.get_cluster_status(nodes=nodes)
            for array in status.nodearrays:
                for bucket in array.buckets:
                    bucket.max_count = bucket.available_count = 2
            return status

    scheduler.jobs = new_jobs(5)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    found = rehearse(config, scheduler, new_binding=lambda own: Smaller(new_cluster_bindings(own)))
    assert rows(found) == [("create", None, 2, "ForJobs")]


def test_a_rehearsal_may_be_of_another_time(look, run, cluster, scheduler, now):
    """The clock of the process is as before afterwards."""
    idle_cluster(cluster, run, now)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    config["autoscale"] = {"scheduler_reports_hosts": False}
    at = MockClock(now.time() - IDLE)
    assert rehearse(config, scheduler, clock=at).changes == ()
    assert len(look().changes) == 6


@pytest.mark.parametrize("only", [False, True])
def test_demand_is_told_as_it_is_planned(cluster, scheduler, now, only):
    """Before its nodes look as if they had been created; and a rehearsal may end there."""
    told: list[list[bool]] = []
    scheduler.jobs = new_jobs(2)
    found = rehearse(
        {"cluster_name": "clusty", "_mock_bindings": cluster},
        scheduler,
        demand_known=lambda demand: told.append([node.exists for node in demand.new_nodes]),
        demand_only=only,
    )
    assert told == [[False, False]]
    assert bool(found.changes) is not only


def test_demand_alone_is_that_of_the_whole_pass(cluster, scheduler):
    """Also where the scheduler wants rid of a node, which gets no work then: `status` and `explain`
    said that a job would start there, and a plan that another node comes for it."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    for only in (True, False):
        scheduler.jobs, scheduler.hosts = new_jobs(1), [a_host("host-1", ncpus=4)]
        scheduler.hosts[0].marked_for_deletion = True
        scheduler._has_read = False
        found = rehearse(config, scheduler, demand_only=only)
        assert [node.nodearray for node in found.demand.new_nodes] == ["htc"], only


def test_what_several_clusters_are_asked_stands_in_their_order():
    """They are asked side by side; what is asked of one cluster stays in its order."""

    def seen(name: str) -> changes.Seen:
        return changes.Seen(name, name, None, "", "", None, True, ())

    asked = [("drain", "west/n-1"), ("delete", "west/n-1"), ("delete", "east/n-2")]
    asked += [("delete", "east/n-1"), ("drain", "east/n-3")]
    found = changes.in_turn([(action, [seen(name)]) for action, name in asked], ("east", "west"))
    names = [(action, nodes[0].name) for action, nodes in found]
    assert names == [asked[0], asked[2], asked[3], asked[1], asked[4]]


def test_a_driver_that_repeats_itself_is_found_out(look, run, scheduler, cluster, now):
    """As in a pass: nothing is deleted on the word of the first reading alone."""
    idle_cluster(cluster, run, now)
    reading = ([a_job("1")], [])
    scheduler._read_jobs_and_nodes = lambda config: reading
    found = look()
    assert "read anew" in str(found.summary.errors[0])
    assert {row.action for row in found.changes} == {"drain"}


def test_a_history_of_a_drivers_own_is_read_and_not_written(cluster, scheduler, now):
    """Whatever it keeps."""

    class Own(NullNodeHistory):
        updates = 0

        def update(self, nodes):
            Own.updates += 1

    scheduler.new_node_history = lambda config: Own()
    cluster.add_node("htc-1", "htc", state="Ready")
    rehearse({"cluster_name": "clusty", "_mock_bindings": cluster}, scheduler)
    assert Own.updates == 0


def test_hosts_on_premises_are_left_alone(look, scheduler, tmp_path):
    """The commands of the site are noted and not run."""
    touched = tmp_path / "touched"
    host = {"name": "rack-1", "resources": {"ncpus": 4}}
    host |= {"start": ["touch", str(touched)], "stop": ["true"]}
    scheduler.jobs = [Job("1", {"ncpus": 1, "node.nodearray": "on-premises"})]
    found = look(on_premises=[host])
    assert rows(found) == [("start_worker", "rack-1", 1, "ForJobs")]
    assert (found.before, found.after) == (Cost(), Cost())
    assert not touched.exists()


def test_a_state_that_is_locked_for_writing_is_read(look, run, scheduler, cluster, now, tmp_path):
    """By a loop that runs meanwhile."""
    idle_cluster(cluster, run, now)
    with sqlite3.connect(tmp_path / "requests.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(look().changes) == 6
    other.close()


def test_nodes_that_were_made_keep_what_was_asked_for(scheduler, cluster, now):
    """Attributes of a planned node are in its record."""
    node = a_node("htc-1", state="Off")
    recording = RecordingBinding(cluster, Recorder())
    recording.create_nodes([node], request_id="r1")
    (record,) = recording.get_nodes(request_id="r1").nodes
    found = (record["Name"], record["TargetState"], record["RequestId"])
    assert found == ("htc-1", "Started", "r1")
