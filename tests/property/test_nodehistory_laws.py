"""Laws of the node history, under any sequence of passes and any behaviour of the clock."""

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory

IDS = ("a", "A", "b-1", "B-1", "c")
HOUR = 3600
WINDOW = 300


class History(SQLiteNodeHistory):
    """A history whose clock the test sets."""

    at = 1_000_000.0

    def now(self):
        return self.at


def make(node_id, state, required):
    node = Node(
        node_id=DelayedNodeId(node_id, node_id),
        name=node_id,
        nodearray="htc",
        bucket_id="b",
        hostname=None,
        private_ip=None,
        instance_id=None,
        vm_size="unknown",
        location="unknown",
        spot=False,
        vcpu_count=1,
        memory=Memory(1, "g"),
        infiniband=False,
        state=state,
        target_state="Started",
        power_state="on",
        exists=True,
        placement_group=None,
        managed=True,
        resources={},
        software_configuration={},
        keep_alive=False,
    )
    node.required = required
    return node


SEEN = st.tuples(st.sampled_from(["Ready", "Software", "Failed"]), st.booleans())
PASSES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 400), st.integers(-8 * HOUR, 8 * HOUR)),
        st.dictionaries(st.sampled_from(IDS), SEEN),
    ),
    max_size=12,
)


def play(history, passes):
    """Run the passes; yields the nodes of each once they are learnt."""
    for step, seen in passes:
        history.at += step
        nodes = [make(node_id, state, required) for node_id, (state, required) in seen.items()]
        history.update(nodes)
        yield seen


@given(PASSES, st.integers(-2 * HOUR, 2 * HOUR))
def test_a_node_needed_within_the_window_is_never_idle(passes, later):
    """However the clock jumps: a node that an update saw needed at a time within the window is not
    returned."""
    with History(":memory:") as history:
        needed: dict[str, float] = {}
        for seen in play(history, passes):
            for node_id, (state, required) in seen.items():
                if required or state != "Ready":
                    needed[node_id] = max(history.at, needed.get(node_id, 0))
            idle = {node_id for node_id, _, _ in history.find_unmatched(WINDOW)}
            assert not {i for i in idle if needed.get(i, 0) >= history.at - WINDOW}
            assert idle <= set(seen)
        history.at += later
        for node_id, _, _ in history.find_unmatched(WINDOW):
            assert needed.get(node_id, 0) < history.at - WINDOW


@given(PASSES, st.integers(0, 8 * HOUR))
def test_a_node_that_was_ready_never_boots_again(passes, later):
    """However the clock jumps: once an update saw a node Ready it is not returned as booting."""
    with History(":memory:") as history:
        ready: set[str] = set()
        for seen in play(history, passes):
            ready |= {node_id for node_id, (state, _) in seen.items() if state == "Ready"}
            history.at += later
            booting = {node_id for node_id, _, _ in history.find_booting(-1)}
            assert not booting & ready
            assert booting == set(seen) - ready
            history.at -= later


@given(PASSES)
def test_with_a_steady_clock_idle_time_is_the_time_since_last_needed(passes):
    """While the clock runs forward only, a listed node is idle exactly if it was last needed, or
    came (back), longer ago than the window."""
    with History(":memory:") as history:
        since: dict[str, float] = {}
        before: set[str] = set()
        for seen in play(history, [(abs(step), seen) for step, seen in passes]):
            for node_id, (state, required) in seen.items():
                if required or state != "Ready" or node_id not in before:
                    since[node_id] = history.at
            before = set(seen)
            idle = {node_id for node_id, _, _ in history.find_unmatched(WINDOW)}
            assert idle == {i for i in seen if since[i] < history.at - WINDOW}


@given(PASSES)
def test_remaining_times_are_within_the_timeouts(passes):
    """Nodes never have more time left than the timeout, nor less than none."""
    with History(":memory:") as history:
        for seen in play(history, passes):
            nodes = [make(node_id, state, False) for node_id, (state, _) in seen.items()]
            history.decorate(nodes, {"idle_timeout": 100, "boot_timeout": 200})
            for node in nodes:
                assert -1 <= node.idle_time_remaining <= 100
                assert -1 <= node.create_time_remaining <= 200


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_text_is_stored_as_it_is(names):
    """Ids and host names come back as given, whatever they are made of."""
    nodes = []
    for node_id in names:
        if "\x00" not in node_id and node_id.isprintable():
            nodes.append(make(node_id, "Ready", False))
    with History(":memory:") as history:
        history.update(nodes)
        assert set(history.read()) == {node.delayed_node_id.node_id for node in nodes}
