"""Nodes on their way out: active, draining, drained, deleting, and back when there is demand."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.fake_scheduler import cluster, idle_cluster, now, raising, run, scheduler
from builders.nodes import a_planned_node
from hpc.autoscale.autoscaler.commanding import drain
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.leaving import KEPT_AFTER, Leaving
from hpc.autoscale.ccbindings.errors import BadRequest, CycleCloudUnreachable
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.guards import Asker, Facts, Gate, key_of
from hpc.autoscale.node.nodehistory import NodeHistoryError, SQLiteNodeHistory
from hpc.autoscale.node.nodehistory.draining import (
    TRANSITIONS,
    Drain,
    DrainState,
    may_become,
)
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


@pytest.fixture
def states(tmp_path):
    """The states of nodes that are not active, in the file, by the number of the node."""

    def read():
        with SQLiteNodeHistory(tmp_path / "nodehistory.db", read_only=True) as history:
            return {node_id[-1]: str(drain.state) for node_id, drain in history.drains().items()}

    return read


def test_a_node_goes_through_all_states(run, scheduler, cluster, now, states, monkeypatch):
    """Each is written down before what it stands for is commanded."""
    idle_cluster(cluster, run, now, count=1)
    seen = []

    def at(owner, name):
        real = getattr(owner, name)

        def noting(*args, **kwargs):
            seen.append((name, *states().values()))
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, noting)

    at(scheduler, "handle_draining")
    at(cluster, "get_cluster_status")
    at(cluster, "shutdown_nodes")
    assert len(run().deleted) == 1
    assert ("handle_draining", "draining") in seen
    assert ("get_cluster_status", "drained") in seen
    assert ("shutdown_nodes", "deleting") in seen
    run()
    assert states() == {}


def test_a_draining_node_is_taken_back_before_one_is_created(run, scheduler, cluster, now, states):
    """Each pass reads the file anew, so another process does it too."""
    idle_cluster(cluster, run, now, count=2)
    scheduler.answers["handle_draining"] = []
    assert run().deleted == ()
    assert set(states().values()) == {"draining"}
    del scheduler.answers["handle_draining"]
    scheduler.jobs = [a_job("new")]
    scheduler.calls.clear()
    summary = run()
    assert len(summary.undrained) == 1
    assert summary.created == ()
    order = [scheduler.calls.index(h) for h in ("handle_undraining", "add_nodes_to_cluster")]
    assert order == sorted(order)
    assert scheduler.given["handle_undraining"] == list(summary.undrained)


def test_a_node_that_the_driver_does_not_let_in_stays_on_its_way_out(
    run, scheduler, cluster, now, states
):
    """It is asked again in the next pass."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers.update(handle_draining=[], handle_undraining=[])
    run()
    scheduler.jobs = [a_job("new")]
    assert run().undrained == ()
    assert set(states().values()) == {"draining"}
    del scheduler.answers["handle_undraining"]
    scheduler.jobs = [a_job("new")]
    assert run().undrained == ("htc-1",)
    assert states() == {}


def test_a_return_that_cannot_be_written_down_is_none(
    run, scheduler, cluster, now, states, monkeypatch
):
    """The next process would not know of it, and asks the driver again."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    scheduler.jobs = [a_job("new")]
    with monkeypatch.context() as patch:
        error = NodeHistoryError("the disk is full")
        patch.setattr(SQLiteNodeHistory, "note_drains", raising(error))
        assert run().undrained == ()
    assert set(states().values()) == {"draining"}
    scheduler.jobs = [a_job("new")]
    assert run().undrained == ("htc-1",)


def test_a_node_that_was_deallocated_is_forgotten_also_where_it_is_to_start_again(
    run, scheduler, cluster, now, states
):
    """Where it is started again, nothing of before holds."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    assert set(states().values()) == {"draining"}
    node = cluster.nodes["htc-1"]
    node.state = node.target_state = "Deallocated"
    scheduler.jobs = [a_job("new")]
    assert run(autoscale={"max_new_nodes_per_pass": 0}).deferred == ("htc-1",)
    assert states() == {}


def test_an_error_while_undraining_stops_no_pass(run, scheduler, cluster, now, states):
    """It is an error of the pass; other nodes are joined."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    scheduler.jobs = [a_job("new")]
    scheduler.failing["handle_undraining"] = OSError("no scheduler")
    summary = run()
    assert "no scheduler" in str(summary.errors)
    assert summary.joined == ("htc-1",)
    assert set(states().values()) == {"draining"}


def test_work_that_still_runs_is_no_demand(run, scheduler, cluster, now, states):
    """A node that was busy when it was drained stays closed; a new job takes it back."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    scheduler.hosts = [a_host("host-1", running="old")]
    assert run().undrained == ()
    assert set(states().values()) == {"draining"}
    scheduler.jobs = [a_job("new")]
    assert run().undrained == ("htc-1",)


def test_a_node_that_is_to_be_kept_alive_is_taken_back(run, scheduler, cluster, now, states):
    """It would never go, and take no work."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    cluster.nodes["htc-1"].keep_alive = True
    assert run().undrained == ("htc-1",)


def test_a_delete_that_is_lost_is_tried_again(run, scheduler, cluster, now, states, monkeypatch):
    """A node that is still there goes on its way."""
    idle_cluster(cluster, run, now, count=1)
    with monkeypatch.context() as patch:
        error = CycleCloudUnreachable("server", "no answer")
        patch.setattr(cluster, "shutdown_nodes", raising(error))
        assert run().errors
    assert set(states().values()) == {"deleting"}
    assert run().deleted == ("htc-1",)


def test_a_delete_that_was_refused_is_called_off_by_demand(
    run, scheduler, cluster, now, states, monkeypatch
):
    """A node that is still there and wanted again is taken back, and none is created."""
    idle_cluster(cluster, run, now, count=1)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "shutdown_nodes", raising(BadRequest("server", 400, "no")))
        assert run().errors
    assert set(states().values()) == {"deleting"}
    scheduler.jobs = [a_job("new")]
    summary = run()
    assert (summary.undrained, summary.created, summary.deleted) == (("htc-1",), (), ())
    assert states() == {}


def test_a_delete_that_was_lost_is_not_called_off_by_demand(
    run, scheduler, cluster, now, states, monkeypatch
):
    """It may arrive at any moment: the work gets another node."""
    idle_cluster(cluster, run, now, count=1)
    with monkeypatch.context() as patch:
        error = CycleCloudUnreachable("server", "no answer")
        patch.setattr(cluster, "shutdown_nodes", raising(error))
        run()
    scheduler.jobs = [a_job("new")]
    summary = run()
    assert summary.undrained == ()
    assert len(summary.created) == 1


def test_states_that_cannot_be_read_stop_no_growth(run, scheduler, cluster, now, monkeypatch):
    """They are an error of the pass, which goes on as if no node was on its way out."""
    idle_cluster(cluster, run, now, count=1)
    monkeypatch.setattr(SQLiteNodeHistory, "drains", raising(NodeHistoryError("it is locked")))
    scheduler.jobs = [a_job("new", tasks=8)]
    summary = run()
    assert [error.phase for error in summary.errors] == ["reading the node history"]
    assert len(summary.created) == 1


def test_nothing_is_drained_that_could_not_be_written_down(
    run, scheduler, cluster, now, states, monkeypatch
):
    """The next process would not know of it."""
    idle_cluster(cluster, run, now)
    error = NodeHistoryError("the disk is full")
    monkeypatch.setattr(SQLiteNodeHistory, "note_drains", raising(error))
    summary = run()
    assert "the disk is full" in str(summary.errors)
    assert "handle_draining" not in scheduler.given
    assert summary.deleted == ()


def test_failed_nodes_go_without_being_drained(run, scheduler, cluster, states):
    """From active to deleting."""
    cluster.add_node("htc-1", "htc", state="Failed")
    assert run().deleted == ("htc-1",)
    assert set(states().values()) == {"deleting"}


def test_a_dry_run_takes_nothing_back(run, scheduler, cluster, now, states):
    """And changes no state."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.answers["handle_draining"] = []
    run()
    scheduler.jobs = [a_job("new")]
    scheduler.calls.clear()
    run(dry_run=True)
    assert "handle_undraining" not in scheduler.calls
    assert set(states().values()) == {"draining"}


def test_states_that_make_no_sense_are_left_out(tmp_path, states):
    """A file may have been written by somebody else."""
    with SQLiteNodeHistory(tmp_path / "nodehistory.db") as history:
        history.note_drains({"a1": Drain(DrainState.DRAINED, "idle", 5.0)})
    with closing(sqlite3.connect(tmp_path / "nodehistory.db")) as db:
        db.execute("INSERT INTO drains VALUES ('b2', 'melting', 'x', 1.0)")
        db.execute("INSERT INTO drains VALUES ('b3', 'drained', 'x', 'noon')")
        db.commit()
    assert states() == {"1": "drained"}


def test_a_file_of_before_gets_the_table(tmp_path, states):
    """Also where it is only read, which leaves it as it is."""
    path = tmp_path / "nodehistory.db"
    SQLiteNodeHistory(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE drains")
        db.commit()
    before = path.read_bytes()
    assert states() == {}
    assert path.read_bytes() == before
    with SQLiteNodeHistory(path) as history:
        history.note_drains({"a1": Drain(DrainState.DRAINED, "idle", 5.0)})
    assert states() == {"1": "drained"}


STATES = st.sampled_from(DrainState)


@given(STATES, STATES)
def test_a_change_is_in_the_table_or_there_is_none(before, after):
    """Nothing comes back from where it has gone, and only active nodes begin to go."""
    listed = any(before in each.before and after is each.after for each in TRANSITIONS)
    assert may_become(before, after) is listed
    if before is DrainState.GONE:
        assert not listed


def test_every_state_is_reached_and_can_be_left():
    after = {each.after for each in TRANSITIONS}
    before = {state for each in TRANSITIONS for state in each.before}
    assert after == set(DrainState)
    assert before == set(DrainState) - {DrainState.GONE}


class Kept:
    """A node history that keeps states in memory. The time is always 9."""

    def __init__(self, states):
        self.states = states

    def drains(self):
        return dict(self.states)

    def note_drains(self, changes):
        kept = {**self.states, **changes}
        self.states = {node_id: drain for node_id, drain in kept.items() if drain is not None}

    def now(self):
        return 9.0


@given(st.sampled_from([state for state in DrainState if state is not DrainState.GONE]), STATES)
def test_what_is_kept_of_a_node_that_moves(before, to):
    """A change that there is not changes no node; one that is none leaves the reason and the time.
    The reason of before holds where none is given."""
    moving, other = (a_planned_node(name=name, state="Ready") for name in ("htc-1", "htc-2"))
    moving.delayed_node_id.node_id, other.delayed_node_id.node_id = "a1", "b2"
    first = {} if before is DrainState.ACTIVE else {"a1": Drain(before, "idle", 5.0)}
    for why in ({}, {"a1": "overdue"}):
        history = Kept(first)
        leaving = Leaving(history, [moving, other], Faults())
        assert (leaving.state_of(moving), leaving.state_of(other)) == (before, DrainState.ACTIVE)
        if before is not to and not may_become(before, to):
            with pytest.raises(AutoscaleError, match=f"htc-1 is {before}, and cannot become {to}"):
                leaving.move([moving], to, why)
            assert history.states == first
            continue
        assert leaving.move([moving], to, why)
        reason = why.get(key_of(moving)) or ("idle" if first else "")
        expected = first if before is to else {"a1": Drain(to, reason, 9.0)}
        assert history.states == ({} if to in (DrainState.ACTIVE, DrainState.GONE) else expected)
        assert leaving.state_of(moving) is (DrainState.ACTIVE if to is DrainState.GONE else to)


def test_a_node_that_others_count_on_takes_the_place_of_no_other(scheduler):
    """One may go in a pass: what is not drained leaves it to a host on premises, which comes
    later."""
    nodes = [a_planned_node(name=name, state="Ready", managed=False) for name in ("a-1", "a-2")]
    gate, faults = Gate(Facts(Asker.LOOP)), Faults()
    gate.facts.max_deletes = 1
    leaving = Leaving(Kept({}), nodes, faults)
    claims = (lambda nodes: [], list)
    drained = [
        drain(scheduler, gate, [node], "draining", faults, leaving, claim)
        for node, claim in zip(nodes, claims, strict=True)
    ]
    assert drained == [[], nodes[1:]]


def test_what_may_stay_for_ever_is_drained_last():
    """So are nodes that the scheduler has kept for long, and those that are to be deleted already;
    not what it let go, however long ago."""
    long_ago, lately = 8.0 - KEPT_AFTER, 9.0 - KEPT_AFTER
    states = {
        "a-1": Drain(DrainState.DELETING, "idle", 9.0),
        "a-2": Drain(DrainState.DRAINING, "idle", long_ago),
        "a-3": Drain(DrainState.DRAINING, "idle", lately),
        "a-4": Drain(DrainState.DRAINED, "idle", long_ago),
    }
    nodes = [a_planned_node(name=f"a-{n}", state="Ready") for n in range(1, 6)]
    for node in nodes:
        node.delayed_node_id.node_id = node.name
    in_turn = Leaving(Kept(states), nodes, Faults()).in_turn(nodes)
    assert [node.name for node in in_turn] == ["a-3", "a-4", "a-5", "a-1", "a-2"]
