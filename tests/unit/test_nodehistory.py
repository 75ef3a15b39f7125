"""What a node history learns from a pass, and what it answers."""

import pytest

from builders.history import History, a_started_node
from hpc.autoscale import clock
from hpc.autoscale.node.nodehistory import NodeHistoryError, NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodehistory.watching import Rhythm

DAY = 24 * 3600


@pytest.fixture
def history():
    with History() as made:
        yield made


@pytest.mark.parametrize("node_id", ["Mixed-CASE-id", "o'brien; DROP TABLE nodes", "ü", "%_"])
def test_ids_and_host_names_come_back_as_given(history, node_id):
    """Ids keep their case and may hold anything."""
    history.update([a_started_node(node_id, hostname="Host-A")])
    history.at += 301
    assert history.find_unmatched(300) == [(node_id, "Host-A", 1000.0)]


def test_a_node_is_idle_after_the_time_asked_for(history):
    """The limit itself is not yet idle, more is."""
    history.update([a_started_node()])
    history.at += 300
    assert history.idle(300) == []
    history.at += 1
    assert history.idle(300) == ["N-1"]


def test_a_node_with_another_host_name_is_idle_from_then_on(history):
    """As where a listing has the names of two nodes exchanged: what is known of the one host is
    nothing that is known of the node. In another spelling a name is the same."""
    node = a_started_node(hostname="host-1")
    history.update([node])
    for hostname, idle in [("HOST-1.example.com", ["N-1"]), ("host-2", []), ("host-1", [])]:
        history.at += 301
        node = a_started_node(hostname=hostname)
        history.update([node])
        assert history.idle(300) == idle
        assert (history.sightings()["N-1"].idle_passes > 0) is bool(idle)
    history.at += 301
    history.update([node])
    assert history.idle(300) == ["N-1"]


def test_a_needed_node_is_not_idle(history):
    """Being required restarts the idle clock, and so does any state but Ready."""
    node = a_started_node()
    history.update([node])
    for need in ("required", "state"):
        history.at += 1000
        node.required = need == "required"
        node.state = "Software" if need == "state" else "Ready"
        history.update([node])
        assert history.idle(300) == []
    node.state, node.required = "Ready", False
    history.at += 301
    history.update([node])
    assert history.idle(300) == ["N-1"]


def test_minus_one_asks_for_all(history):
    """A negative time gives every existing node (booting: each never ready), whatever the clock
    says."""
    history.update([a_started_node("A"), a_started_node("B", state="Software")])
    history.at -= 100
    assert sorted(history.idle(-1)) == ["A", "B"]
    assert history.booting(-1) == ["B"]


def test_booting_ends_with_the_first_ready(history):
    """A node that was ready once never counts as booting again; a new id does."""
    node = a_started_node(state="Software")
    history.update([node])
    history.at += 1801
    assert history.find_booting(1800) == [("N-1", "host-1", 1000.0)]
    node.state = "Ready"
    history.update([node])
    node.state = "Software"
    history.at += 5000
    history.update([node])
    assert history.booting() == []
    history.update([a_started_node("N-2", state="Software")])
    assert history.booting(-1) == ["N-2"]


def test_running_a_job_counts_as_ready(history):
    """A node that the integration knows to be running a job has booted, whatever its state says."""
    node = a_started_node(state="Started")
    node.metadata["_running_job_"] = True
    history.update([node])
    assert history.booting(-1) == []


def test_nodes_without_an_id_are_passed_over(history):
    """Planned and unmanaged nodes leave no row."""
    for nothing in (None, ""):
        history.update([a_started_node(nothing)])
        history.mark_ignored([a_started_node(nothing)])
    assert history.read() == {}
    assert history.conn.execute("SELECT count(*) FROM nodes").fetchone() == (0,)


def test_nodes_that_are_gone_are_not_returned(history):
    """A node that is no longer listed is neither idle nor booting."""
    history.update([a_started_node("A"), a_started_node("B", state="Software")])
    history.at += 5000
    history.update([])
    assert (history.idle(-1), history.booting(-1), history.read()) == ([], [], {})


def test_a_node_that_comes_back_has_a_new_idle_time_only(history):
    """One that was missing from a listing may have been at work: it is idle from now, and still was
    ready."""
    node = a_started_node()
    history.update([node])
    history.at += 1000
    history.update([])
    history.at += 1000
    history.update([node])
    assert history.idle(300) == []
    assert history.booting(-1) == []
    assert history.read()["N-1"].create_time == 1000.0


def test_records_of_gone_nodes_are_retired(history):
    """They are kept for seven days, or for as long as asked."""
    history.update([a_started_node()])
    history.update([])
    history.at += 7 * DAY
    history.update([])
    assert history.conn.execute("SELECT count(*) FROM nodes").fetchone() == (1,)
    history.at += 1
    history.update([])
    assert history.conn.execute("SELECT count(*) FROM nodes").fetchone() == (0,)
    history.update([a_started_node()])
    history.update([])
    history.at += 11
    history.retire_records(timeout=10, commit=False)
    assert history.conn.in_transaction
    history.conn.rollback()
    history.retire_records(timeout=10)
    assert history.conn.execute("SELECT count(*) FROM nodes").fetchone() == (0,)


def test_ignored_nodes(history):
    """Marks stay over updates and until undone, and unknown nodes can be marked."""
    known, unknown = a_started_node("A"), a_started_node("B")
    history.update([known])
    history.mark_ignored([known, unknown])
    history.update([known, unknown])
    assert [row[0] for row in history.find_ignored()] == ["A", "B"]
    history.unmark_ignored([known, a_started_node("C")])
    assert [row[0] for row in history.find_ignored()] == ["B"]
    assert set(history.read()) == {"A", "B"}


def test_later_facts_are_stored(history):
    """A host name that becomes known is stored; one that is unknown again does not erase it."""
    history.update([a_started_node(hostname=None)])
    history.update([a_started_node(hostname="late")])
    history.update([a_started_node(hostname=None)])
    assert history.find_unmatched(-1)[0][1] == "late"


def test_a_node_listed_twice_is_needed_if_either_is(history):
    """Two handles of one node make one record."""
    history.update([a_started_node("A")])
    history.at += 1000
    needed = a_started_node("A")
    needed.required = True
    history.update([needed, a_started_node("A")])
    assert history.idle() == []
    assert len(history.read()) == 1


def test_a_clock_set_back_does_not_age_nodes(history):
    """A node needed before the clock was set back is not idle for longer once the clock is right
    again."""
    node = a_started_node()
    node.required = True
    history.at = 5000.0
    history.update([node])
    history.at = 3000.0
    history.update([node])
    node.required = False
    history.at = 5100.0
    history.update([node])
    assert history.idle(300) == []


def test_a_deallocated_node_does_not_boot_until_it_is_started(history):
    """Its boot time begins when it was last seen at rest, also of one that was ready before; one
    that is ready again is no more late."""
    node, ready = a_started_node(state="Deallocated", exists=False), a_started_node("R")
    history.update([node, ready])
    ready.exists, ready.state = False, "Deallocated"
    for _ in range(40):
        history.at += 60
        history.update([node, ready])
    for started in (node, ready):
        started.exists, started.state = True, "Preparing"
    for _ in range(30):
        history.at += 60
        history.update([node, ready])
    assert (history.booting(1800), history.booting(1799)) == ([], ["N-1", "R"])
    ready.state = "Ready"
    history.at += 60
    history.update([node, ready])
    assert history.booting(1800) == ["N-1"]


def test_a_node_that_was_at_rest_boots_although_it_is_started_at_once(history):
    """The pass that starts it is the first that sees it at rest, as after a slow deallocation."""
    node = a_started_node()
    history.update([node])
    history.at += 7200
    node = a_started_node(state="Deallocated", exists=False)
    node._stand("Acquiring", "Started", True)
    node._stand("Preparing", "Started", True)
    history.update([node])
    node = a_started_node(state="Preparing")
    for _ in range(30):
        history.at += 61
        history.update([node])
    assert history.booting(1800) == ["N-1"]


def test_a_clock_set_back_while_booting_keeps_ready_nodes(history):
    """A node that became ready while the clock was behind is not taken for one that never was."""
    node = a_started_node(state="Software")
    history.at = 9000.0
    history.update([node])
    node.state = "Ready"
    history.at = 100.0
    history.update([node])
    history.at = 90000.0
    assert history.booting() == []


def test_times_from_a_wrong_clock_do_not_last(history):
    """Times days ahead come from a wrong clock; the next update brings them back, so that idle
    nodes end some day."""
    node = a_started_node()
    history.at = 3000 * DAY
    history.update([node])
    history.update([])
    history.update([node])
    history.at = 1000.0
    history.update([node])
    history.at += 301
    history.update([node])
    assert history.idle(300) == ["N-1"]


def test_since_when_nodes_are_ready(history):
    """From when each was first seen so, as long as it is there; once more after it was at rest."""
    booting, ready = a_started_node(state="Acquiring"), a_started_node()
    for node in (booting, ready, ready):
        history.update([node])
        history.at += 60
    assert history.ready_since() == {"N-1": history.at - 120}
    history.update([a_started_node(state="Deallocated", exists=False)])
    assert history.ready_since() == {}
    history.at += 60
    history.update([ready])
    assert history.ready_since() == {"N-1": history.at}
    history.update([])
    assert history.ready_since() == {}


def test_a_node_that_became_ready_by_a_wrong_clock_is_ready_since_it_was_put_right(history):
    """Else it would have all the time until then to be reported by the scheduler."""
    history.update([a_started_node(state="Acquiring")])
    for history.at in (3000 * DAY, 1060.0, 1120.0):
        history.update([a_started_node()])
    assert history.ready_since() == {"N-1": 1060.0}
    assert history.found_ready() == frozenset()


@pytest.mark.parametrize("ahead", [3600, 30 * DAY])
def test_a_node_that_was_ready_at_first_stays_one(history, ahead):
    """Whatever the clock said then, and although it is put right."""
    history.rhythm = Rhythm(60.0)
    history.at = DAY + ahead
    history.update([a_started_node()])
    history.at = float(DAY)
    history.update([a_started_node()])
    assert history.found_ready() == {"N-1"}
    assert history.read()["N-1"].create_time == DAY
    assert history.booting() == []


def test_gone_in_the_far_future_is_forgotten(history):
    """A record deleted at a time that only a wrong clock can have shown is removed."""
    history.at = 3000 * DAY
    history.update([a_started_node()])
    history.update([])
    history.at = 1000.0
    history.update([])
    assert history.conn.execute("SELECT count(*) FROM nodes").fetchone() == (0,)


def test_decorate_writes_times_and_what_is_left(history):
    """Remaining times follow the timeouts of the configuration, also those of one nodearray."""
    ready, booting = a_started_node("A"), a_started_node("B", state="Software", nodearray="hpc")
    history.update([ready, booting])
    history.at += 100
    config = {"idle_timeout": 500, "boot_timeout": {"hpc": 700, "default": 1}}
    history.decorate([ready, booting], config)
    assert (ready.create_time_unix, ready.last_match_time_unix, ready.delete_time_unix) == (
        1000.0,
        1000.0,
        None,
    )
    assert ready.idle_time_remaining == 400
    assert ready.create_time_remaining == -1
    assert booting.create_time_remaining == 600
    assert booting.idle_time_remaining == -1
    history.at += 5000
    history.decorate([ready, booting], config)
    assert (ready.idle_time_remaining, booting.create_time_remaining) == (0, 0)


def test_decorate_defaults_and_clock(history):
    """Without configuration the defaults hold, and a clock behind never gives more than the
    timeout."""
    ready, booting = a_started_node("A"), a_started_node("B", state="Software")
    history.update([ready, booting])
    history.at -= 500
    history.decorate([ready, booting])
    assert ready.idle_time_remaining == 300
    assert booting.create_time_remaining == 1800


def test_decorate_leaves_out_what_does_not_exist(history):
    """Planned nodes and nodes without id are left alone; new ones have all of their idle time, and
    of those that are kept or boot nothing is said before they are known."""
    planned, kept, new, nameless, booting = (
        a_started_node("A", exists=False),
        a_started_node("B", keep_alive=True),
        a_started_node("C"),
        a_started_node(None),
        a_started_node("D", state="Preparing"),
    )
    history.decorate([planned, kept, new, nameless, booting])
    assert planned.create_time_unix == nameless.create_time_unix == 0
    assert (kept.idle_time_remaining, booting.idle_time_remaining) == (0.0, 0.0)
    history.update([kept, booting])
    history.decorate([kept, booting])
    assert (kept.idle_time_remaining, booting.idle_time_remaining) == (-1, -1)
    assert (new.create_time_unix, new.idle_time_remaining) == (1000.0, 300)


def test_decorate_many(history):
    """More nodes than fit into one query."""
    nodes = [a_started_node(f"N{i}") for i in range(250)]
    history.update(nodes)
    history.at += 10
    history.decorate(nodes)
    assert {node.idle_time_remaining for node in nodes} == {290}


@pytest.mark.parametrize("block", ["1", "7", "1000", "0", "x", "", "-3"])
def test_insert_block(history, monkeypatch, block):
    """Any number of rows at a time, or a setting that is none, stores the same."""
    monkeypatch.setenv("SCALELIB_SQLITE_INSERT_BLOCK", block)
    history.update([a_started_node(f"N{i}") for i in range(30)])
    assert len(history.read()) == 30


def test_integrations_may_set_attributes_and_use_the_connection(history):
    """Undeclared attributes stay, and the connection answers SQL."""
    history.create_timeout = history.last_match_timeout = 5
    history.update([a_started_node()])
    assert history.conn.execute("SELECT node_id, ignore FROM nodes").fetchall() == [("N-1", 0)]
    assert history.create_timeout == 5


def test_an_update_after_an_open_transaction(history):
    """Work that a shell left uncommitted on the connection does not stop an update."""
    history.update([a_started_node()])
    history.conn.execute("UPDATE nodes SET hostname = 'x'")
    history.update([a_started_node()])
    assert not history.conn.in_transaction


def test_an_update_is_all_or_nothing(history):
    """When a node fails half-way nothing is stored, and the next update works."""

    class Broken:
        _node_id = "X"

        @property
        def required(self):
            raise OSError("no such thing")

    history.update([a_started_node("A")])
    with pytest.raises(OSError, match="no such thing"):
        history.update([a_started_node("B"), Broken()])
    history.update([a_started_node("A"), a_started_node("C")])
    assert set(history.read()) == {"A", "C"}


def test_errors_name_the_file(history):
    """What SQLite cannot do is one error of this library's own."""
    history.close()
    with pytest.raises(NodeHistoryError, match="node history :memory:"):
        history.find_unmatched()


def test_now_is_the_clock_of_the_process():
    """Time is true unix time, from the one clock of the library."""
    clock.use_clock(clock.MockClock(now=42.0))
    assert NullNodeHistory().now() == 42.0
    with SQLiteNodeHistory(":memory:") as history:
        assert history.now() == 42.0


def test_null_history():
    """The history without memory takes every known node for idle and booting, since ever."""
    history = NullNodeHistory()
    assert history.find_unmatched() == history.find_ignored() == []
    nodes = [a_started_node("A"), a_started_node(None)]
    history.update(nodes)
    history.mark_ignored(nodes)
    history.unmark_ignored(nodes)
    history.decorate(nodes, {})
    assert history.nodes == nodes
    assert history.find_unmatched(for_at_least=9) == [("A", "host-1", 0.0)]
    assert history.find_booting(for_at_least=9) == [("A", "host-1", 0.0)]
