"""Laws of autostop: nobody is told yes beyond what demand does without, whoever asks and when."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.autostop.decision import (
    RESERVED_SECONDS,
    Answer,
    Code,
    KnownNode,
    Surplus,
    decide,
    refusals,
)
from hpc.autoscale.autostop.idleness import Idleness
from hpc.autoscale.autostop.ledger import Ledger

POOLS = [("execute", "F4", ""), ("execute", "F8", ""), ("gpu", "F8", "")]
KEPT = Answer(Code.KEEP_ALIVE, "kept")


@st.composite
def clusters(draw):
    """Nodes in pools and groups, on some of which demand was placed."""
    found = []
    for pool in POOLS:
        for _ in range(draw(st.integers(0, 6))):
            wanted = draw(st.booleans())
            found.append((pool, None, wanted, wanted or draw(st.booleans())))
    for group in range(draw(st.integers(0, 2))):
        wanted = draw(st.booleans())
        size = draw(st.integers(1, 3))
        found += [(POOLS[0], f"g{group}", wanted, True)] * size
    return [
        KnownNode(
            f"id{i}",
            f"n{i}",
            pool,
            f"vm{i}",
            group,
            wanted,
            serves,
            KEPT if draw(st.integers(0, 7)) == 0 else None,
        )
        for i, (pool, group, wanted, serves) in enumerate(found)
    ]


def spare_of(nodes):
    """How many nodes of each pool demand does without, outside of groups."""
    return Counter(n.pool for n in nodes if n.group is None and n.serves and not n.wanted)


def check(nodes, told):
    """The laws, for the nodes that were told yes and are there or were."""
    by_id = {one.node_id: one for one in nodes}
    gone = [by_id[each] for each in told]
    assert not any(one.refusal for one in gone if one.group is None)
    alone = Counter(one.pool for one in gone if one.group is None and one.serves)
    assert all(count <= spare_of(nodes)[pool] for pool, count in alone.items())
    per_array = Counter(one.pool[0] for one in gone if one.group is None and one.serves)
    spare = Counter()
    for pool, count in spare_of(nodes).items():
        spare[pool[0]] += count
    assert all(count <= spare[name] for name, count in per_array.items())
    for group in {one.group for one in gone if one.group}:
        members = [one for one in nodes if one.group == group]
        assert not any(one.wanted or one.refusal for one in members)


@given(clusters(), st.data(), st.booleans())
def test_never_more_than_the_surplus(nodes, data, final):
    """However often nodes ask, in whatever order and together with whom; a no is never told while
    somebody could be spared."""
    if not nodes:
        return
    ids = [one.node_id for one in nodes]
    surplus = Surplus(nodes)
    reserved, told, asked = set(), set(), set()
    for batch in data.draw(st.lists(st.lists(st.sampled_from(ids), unique=True), max_size=6)):
        answers = decide(surplus, batch, reserved, asked, final)
        asked |= set(batch)
        told |= {each for each, answer in answers.items() if answer.accepted}
        assert told <= reserved
        check(nodes, told)
    everybody = decide(surplus, ids, reserved, asked, final)
    told |= {each for each, answer in everybody.items() if answer.accepted}
    check(nodes, told)
    for one in nodes:
        if everybody[one.node_id].code is Code.WANTED:
            assert surplus.spare(one.pool, reserved) <= 0


@given(clusters(), st.data(), st.booleans())
def test_a_demand_that_has_grown(nodes, data, final):
    """Takes back each yes of nodes that are deleted for it and ask again, and of no other; who
    was told yes and is silent counts as going."""
    if not nodes:
        return
    ids = [one.node_id for one in nodes]
    reserved = set()
    decide(Surplus(nodes), data.draw(st.lists(st.sampled_from(ids), unique=True)), reserved, ())
    grown = Surplus(replace(one, wanted=one.serves) for one in nodes)
    asking = data.draw(st.lists(st.sampled_from(ids), unique=True))
    answers = decide(grown, asking, was := set(reserved), (), final)
    for each in asking:
        one = grown.by_id[each]
        stands = each in reserved and (final or not one.serves)
        assert answers[each].accepted == (stands or not (one.serves or one.refusal))
    assert reserved - set(asking) <= was


@given(clusters(), st.data())
def test_the_same_answer(nodes, data):
    """Who was told yes is told yes again, whatever others were told meanwhile."""
    if not nodes:
        return
    ids = [one.node_id for one in nodes]
    reserved = set()
    first = decide(Surplus(nodes), data.draw(st.permutations(ids)), reserved, ())
    again = decide(Surplus(nodes), data.draw(st.permutations(ids)), reserved, ())
    assert {e for e, a in first.items() if a.accepted} <= {
        e for e, a in again.items() if a.accepted
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file that is made anew for each example."""
    path = tmp_path_factory.mktemp("ledger") / "autostop.db"

    def new():
        path.unlink(missing_ok=True)
        return str(path)

    return new


@given(
    st.integers(0, 8),
    st.integers(0, 8),
    st.lists(
        st.tuples(
            st.sampled_from(["asks", "claims", "goes", "looks"]),
            st.integers(0, 1),
            st.integers(0, 7),
            st.sampled_from([0, 1, 200]),
        ),
        max_size=25,
    ),
)
def test_two_that_decide_with_old_looks(file, count, wanted, steps):
    """Two processes with looks of different age, and nodes that go in between: what is left is
    never less than what is wanted, as long as nobody takes ten minutes to go."""
    path = file()
    ledgers = Ledger(path), Ledger(path)
    alive = [str(i) for i in range(count)]

    def look():
        nodes = [KnownNode(e, e, POOLS[0], wanted=i < wanted) for i, e in enumerate(alive)]
        return Surplus(nodes)

    looks = [look(), look()]
    looked = [0.0, 0.0]
    told: dict[str, float] = {}
    now = 0.0
    for what, who, which, later in steps:
        now += later
        for each, at in list(told.items()):  # nobody takes longer than a yes stands
            if now - at >= RESERVED_SECONDS - 250:
                told.pop(each)
                if each in alive:
                    alive.remove(each)
        if now - looked[who] >= 250 or what == "looks":
            looks[who], looked[who] = look(), now
        node = str(which)
        if what == "goes" and node in told and node in alive:
            alive.remove(node)
        if what in ("asks", "claims") and node in looks[who].by_id:
            if what == "asks":
                accepted = ledgers[who].decide(looks[who], [node], now)[node].accepted
            else:
                accepted = bool(ledgers[who].claim(looks[who], [node], now))
            if accepted:
                told.setdefault(node, now)
        staying = [each for each in alive if each not in told]
        assert len(staying) >= min(wanted, count)


@given(clusters(), st.data())
def test_a_no_that_is_repeated(nodes, data):
    """Is what would be decided anew, for every node outside of groups that would be told no."""
    if not nodes:
        return
    ids = [one.node_id for one in nodes]
    reserved = set(data.draw(st.lists(st.sampled_from(ids), unique=True)))
    surplus = Surplus(nodes)
    repeated = refusals(surplus, ids, reserved)
    for one in nodes:
        anew = decide(surplus, [one.node_id], set(reserved), ())[one.node_id]
        if one.group is not None:
            assert one.node_id not in repeated
        else:
            assert repeated.get(one.node_id) == (None if anew.accepted else anew)


@given(
    st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(-500, 500)), max_size=20)
)
def test_only_watched_time_is_idle_time(steps):
    """Idle time is never more than the time between looks that all found the node idle, with no
    pause too long and no clock that went back in between."""
    gap, now, state = 180, 10_000, Idleness()
    watched = None
    for is_busy, later in steps:
        now += later
        state = state.after_look(now, is_busy, gap)
        if is_busy is not False:
            watched = None
        elif watched is None or not 0 <= later <= gap:
            watched = 0
        else:
            watched += later
        assert state.idle_seconds(now) == watched
