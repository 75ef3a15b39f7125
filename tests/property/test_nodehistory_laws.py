"""Laws of the node history, under any sequence of passes and any behaviour of the clock."""

import itertools
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.node.nodehistory.draining import Drain, DrainState
from hpc.autoscale.node.nodehistory.watching import Rhythm

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


BEFORE = [(0, {}), (1, {}), (151, {}), (1, {"b-1": ("Ready", True)})]
SET_BACK = [*BEFORE, (-152, {}), (151, {"b-1": ("Ready", False)})]


@given(PASSES, st.integers(-2 * HOUR, 2 * HOUR))
@example([*SET_BACK, (301, {"b-1": ("Ready", False)})], 0)
def test_a_node_needed_within_the_window_is_never_idle(passes, later):
    """However the clock jumps: a node that an update saw needed at a time within the window is not
    returned. What was to be in the future, once the clock is set back, was then."""
    with History(":memory:") as history:
        needed: dict[str, float] = {}
        for seen in play(history, passes):
            needed = {node_id: min(at, history.at) for node_id, at in needed.items()}
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


def usual(times, rhythm):
    """The usual interval, worked out the long way: of the gaps of a second and more, the one that
    at most a third of them exceed."""
    gaps = [later - sooner for sooner, later in itertools.pairwise(times) if later - sooner >= 1]
    learnt = None
    if len(gaps) >= 3:
        learnt = min(g for g in gaps if sum(other > g for other in gaps) * 3 <= len(gaps))
    if rhythm.declared is not None:
        return max(rhythm.declared, learnt or 0)
    return max(learnt, 60) if learnt is not None else rhythm.assumed


class Watcher:
    """The oracle: for how long each node was seen idle and booting, added up pass by pass."""

    def __init__(self, rhythm):
        self.rhythm = rhythm
        self.times = []
        self.before = {}
        self.idle, self.booted, self.ready = {}, {}, set()

    def look(self, now, seen):
        """A pass; `seen` is the state of each node and whether it is needed."""
        most = usual(self.times[-21:], self.rhythm)
        gap = now - self.times[-1] if self.times else 0
        watched = gap if most is None or 0 <= gap <= 2 * most else 0
        for node_id, (state, required) in seen.items():
            is_idle = state == "Ready" and not required
            was_listed = node_id in self.before
            strict = self.rhythm.declared is not None
            counts = is_idle and was_listed and (not strict or self.before[node_id])
            self.idle[node_id] = self.idle.get(node_id, 0) + watched if counts else 0
            self.booted[node_id] = self.booted.get(node_id, 0) + (watched if was_listed else 0)
            if state == "Ready":
                self.ready.add(node_id)
        self.before = {i: s == "Ready" and not required for i, (s, required) in seen.items()}
        self.times.append(now)


RHYTHMS = st.builds(
    Rhythm,
    st.one_of(st.none(), st.sampled_from([60.0, 300.0])),
    st.sampled_from([30.0, 1200.0]),
)


@given(PASSES, RHYTHMS, st.integers(0, 4 * HOUR))
def test_time_that_nobody_watched_is_neither_idle_nor_boot_time(passes, rhythm, later):
    """However the clock jumps and however long the loop sleeps: idle time grows between two passes
    that both saw the node idle, boot time between two that both saw it, each by no more than twice
    the usual interval; so does what is answered between passes."""
    with History(":memory:") as history:
        history.rhythm = rhythm
        oracle = Watcher(rhythm)
        for seen in play(history, passes):
            oracle.look(history.at, seen)
            known = history.read()
            for node_id in seen:
                record = known[node_id]
                assert history.at - record.last_match_time == pytest.approx(oracle.idle[node_id])
                if node_id not in oracle.ready:
                    assert history.at - record.create_time == pytest.approx(oracle.booted[node_id])
            idle = {node_id for node_id, _, _ in history.find_unmatched(WINDOW)}
            assert idle == {i for i in seen if oracle.idle[i] > WINDOW}
            booting = {node_id for node_id, _, _ in history.find_booting(WINDOW)}
            assert booting == {i for i in set(seen) - oracle.ready if oracle.booted[i] > WINDOW}
        if not oracle.times:
            return
        most = usual(oracle.times[-21:], rhythm)
        watched = later if later <= 2 * most else 0
        history.at += later
        idle = {node_id for node_id, _, _ in history.find_unmatched(WINDOW)}
        assert idle == {i for i in oracle.before if oracle.idle[i] + watched > WINDOW}


@given(PASSES)
def test_callers_who_say_nothing_have_their_own_rhythm(passes):
    """While the clock runs forward only, a listed node is idle exactly if it was last needed, or
    came (back), longer ago than the window; once three gaps are known, without those that are
    longer than twice the usual one."""
    with History(":memory:") as history:
        oracle = Watcher(Rhythm())
        for seen in play(history, [(abs(step), seen) for step, seen in passes]):
            oracle.look(history.at, seen)
            idle = {node_id for node_id, _, _ in history.find_unmatched(WINDOW)}
            assert idle == {i for i in seen if oracle.idle[i] > WINDOW}


@given(st.floats(1, 6 * HOUR), st.integers(1, 20))
def test_any_steady_rhythm_ends_an_idle_node(interval, extra):
    """However seldom there is a pass, and whatever was assumed of it."""
    for rhythm in (Rhythm(), Rhythm(assumed=1200.0), Rhythm(declared=60.0)):
        with History(":memory:") as history:
            history.rhythm = rhythm
            passes = 5 + int(WINDOW / interval) + extra
            for _ in range(passes):
                history.at += interval
                history.update([make("a", "Ready", False)])
            assert [i for i, _, _ in history.find_unmatched(WINDOW)] == ["a"]


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


STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["update", "note", "drain", "undrain", "ignore", "read"]),
        st.integers(-400, 400),
        st.dictionaries(st.sampled_from(IDS), SEEN),
    ),
    max_size=15,
)


def all_that_is_known(history):
    """Every answer of a history."""
    return (
        history.read(),
        history.sightings(),
        history.drains(),
        history.updates(),
        history.find_unmatched(-1),
        history.find_booting(-1),
        set(history.found_ready()),
        history.ready_since(),
        sorted(history.gone()),
        [node_id in history.gone() for node_id in IDS],
        len(history.gone()),
    )


def do(history, what, seen):
    """Change the history, or ask it something."""
    nodes = [make(node_id, state, required) for node_id, (state, required) in seen.items()]
    ids = sorted(seen)
    if what == "update":
        history.update(nodes)
    elif what == "note":
        history.note_scheduler(ids[:1], ids[1:2], ids[2:])
    elif what in ("drain", "undrain"):
        to = Drain(DrainState.DRAINING, "idle", history.at) if what == "drain" else None
        history.note_drains(dict.fromkeys(ids, to))
    elif what == "ignore":
        history.mark_ignored(nodes)
    else:
        all_that_is_known(history)


@given(STEPS)
def test_what_is_kept_of_the_file_is_what_is_in_it(steps):
    """Of two histories of one file, changed by turns, each answers as one that has just been
    opened."""
    with TemporaryDirectory() as home:
        path = f"{home}/nodehistory.db"
        with History(path) as one, History(path) as other:
            for is_first, what, later, seen in steps:
                one.at = other.at = one.at + later
                do(one if is_first else other, what, seen)
                with History(path, read_only=True) as fresh:
                    fresh.at = one.at
                    expected = all_that_is_known(fresh)
                assert all_that_is_known(one) == all_that_is_known(other) == expected
