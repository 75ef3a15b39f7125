"""Section 9: `hpc.autoscale.node.delayednodeid` and `hpc.autoscale.node.nodehistory`."""

import os
import sqlite3

from builders.nodes import a_planned_node, names
from builders.published import row
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.nodehistory import NodeHistory, NullNodeHistory, SQLiteNodeHistory


def existing(number, state="Ready", **changed):
    """A node that the server knows."""
    name = f"htc-{number}"
    return a_planned_node(
        name=name,
        node_id=DelayedNodeId(name, node_id=f"Id-{number}"),
        hostname=f"ip-{number}",
        exists=True,
        state=state,
        target_state="Started",
        **changed,
    )


@row("delayednodeid.DelayedNodeId")
def test_a_node_id_that_is_still_to_come():
    """None until the server gives it; the transient id is there from the start and stays."""
    coming = DelayedNodeId("htc-1")
    known = DelayedNodeId("htc-2", node_id="id", operation_id="op", operation_offset=3)
    first = coming.transient_id
    coming.node_id = "id-1"
    assert (coming.name, coming.operation_id, coming.operation_offset) == ("htc-1", None, None)
    assert (coming.node_id, coming.transient_id) == ("id-1", first)
    assert (known.node_id, known.operation_id, known.operation_offset) == ("id", "op", 3)
    assert first != known.transient_id
    assert DelayedNodeId("x").to_json() == ""
    assert known.to_json() == "id"


@row("nodehistory.classes")
def test_a_history_is_a_file_in_the_working_directory(tmp_path):
    """Unless a path is given; `conn` is an sqlite3 connection, and callers keep things of their own
    on the object."""
    default, other = SQLiteNodeHistory(), SQLiteNodeHistory(str(tmp_path / "other.db"))
    default.create_timeout = 1800
    default.last_match_timeout = 300
    count = default.conn.execute("SELECT count(*) FROM nodes").fetchone()
    assert isinstance(default.conn, sqlite3.Connection)
    assert (count, default.create_timeout, default.read_only) == ((0,), 1800, False)
    assert sorted(os.listdir(tmp_path)) == ["nodehistory.db", "other.db"]
    for history in (default, other):
        assert isinstance(history, NodeHistory)
        history.close()


@row("nodehistory.classes")
def test_a_read_only_history_writes_nothing(tmp_path):
    """Also where there is no file yet."""
    history = SQLiteNodeHistory("h.db", read_only=True)
    history.update([existing(1)])
    assert history.find_unmatched(for_at_least=-1) == []
    assert os.listdir(tmp_path) == []


@row("nodehistory.classes")
def test_the_null_history_takes_every_node_for_idle_and_booting():
    """With the time 0, so that every timeout is over."""
    history: NodeHistory = NullNodeHistory()
    history.update([existing(1), a_planned_node()])
    assert history.find_unmatched() == [("Id-1", "ip-1", 0.0)]
    assert history.find_booting(for_at_least=1e9) == [("Id-1", "ip-1", 0.0)]


class History(SQLiteNodeHistory):
    """As upstream's tests derive it: with a clock of its own."""

    def __init__(self, path):
        super().__init__(path)
        self.time = 1000.0

    def now(self):
        return self.time


@row("nodehistory.questions")
def test_idle_nodes_are_found_after_their_time():
    """As (node id, host name, time last needed), ids in the case they have; needed ones are not
    found."""
    idle, busy = existing(1), existing(2)
    busy.assign("job")
    with History("h.db") as history:
        history.update([idle, busy])
        history.time += 300
        history.update([idle, busy])
        at_once, in_time = (history.find_unmatched(for_at_least=t) for t in (300, 299))
    assert at_once == []
    assert in_time == [("Id-1", "ip-1", 1000.0)]


@row("nodehistory.questions")
def test_booting_nodes_are_found_after_their_time():
    """Until they have been ready once; after that never again."""
    slow, ready = existing(1, "Preparing"), existing(2, "Preparing")
    with History("h.db") as history:
        history.update([slow, ready])
        history.time += 1000
        ready.state = "Ready"
        history.update([slow, ready])
        ready.state = "Preparing"
        history.time += 1000
        history.update([slow, ready])
        found = history.find_booting(for_at_least=1800)
        none_yet = history.find_booting(for_at_least=2000)
    assert found == [("Id-1", "ip-1", 1000.0)]
    assert none_yet == []


@row("nodehistory.find_ignored")
def test_ignored_nodes_by_id():
    """PBS keeps the first member of each tuple and leaves these nodes alone."""
    nodes = [existing(1), existing(2)]
    with History("h.db") as history:
        history.update(nodes)
        history.mark_ignored(nodes[:1])
        ignored = {found[0] for found in history.find_ignored()}
        kept = [n for n in nodes if n.delayed_node_id.node_id not in ignored]
        history.unmark_ignored(nodes)
        assert history.find_ignored() == []
    assert names(kept) == ["htc-2"]
    assert NullNodeHistory().find_ignored() == []
