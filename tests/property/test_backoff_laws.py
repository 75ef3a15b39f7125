"""Laws of back-off: how long it lasts, that failures lengthen it and successes and time shorten it,
and that what was filed is found again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.backoff.causes import FailureKind, of_a_node, of_a_refusal, plain
from hpc.autoscale.backoff.file import BackoffFile, Boot
from hpc.autoscale.backoff.law import Backoff, Policy, aged, allowance, failed, succeeded
from hpc.autoscale.backoff.subjects import BucketFacts, Reach, read_subject, subject, subjects_of

names = st.text(st.characters(blacklist_characters="\x1f", blacklist_categories=["Cs"]), min_size=1)
none = st.just("")
facts = st.builds(
    BucketFacts, names, names, names, st.booleans(), names, none | names, none | names
)
kinds = st.sampled_from(FailureKind)
draws = st.floats(0, 1)
policies = st.builds(
    Policy, ceiling=st.floats(1, 1e5), jitter=st.floats(0, 0.9), boot_failures=st.integers(1, 5)
)
# what happens: seconds pass, then it fails so many times, so long ago; or it succeeds
events = st.lists(
    st.tuples(st.floats(-1e4, 1e5), st.none() | st.tuples(kinds, draws, st.floats(0, 1e3))),
    max_size=25,
)


def lived(happened: list[tuple[float, tuple[FailureKind, float, float] | None]], policy: Policy):
    """Each state with the time and what it was before, for a subject to which this happens."""
    now, known = 1e6, None
    for seconds, failure in happened:
        now += seconds
        known = aged(known, now, policy) if known else None
        before = known
        if failure is not None:
            kind, draw, ago = failure
            known = failed(known, kind, "", now - ago, now, policy, lambda draw=draw: draw)
        elif known is not None:
            known = succeeded(known)
        yield now, before, known, failure


@given(events, policies)
def test_no_rest_is_longer_than_the_ceiling(happened, policy):
    """Whatever happens, and however the clock jumps."""
    for now, _, known, _ in lived(happened, policy):
        if known is not None:
            assert known.until <= now + policy.ceiling
            assert known.delay <= policy.ceiling


@given(events, policies)
def test_a_failure_never_shortens_a_rest(happened, policy):
    """Neither its end, nor its length, nor its level."""
    for _, before, known, failure in lived(happened, policy):
        if failure is not None and before is not None:
            assert known.until >= before.until
            assert known.delay >= before.delay
            assert known.level >= before.level
            assert known.streak > before.streak


@given(events, policies)
def test_successes_in_a_row_end_it(happened, policy):
    """Each one halves the level, so that there are few."""
    for _, _, known, _ in lived(happened, policy):
        for _ in range(6):
            known = succeeded(known) if known else None
        assert known is None


@given(events, policies, st.floats(0, 1e7), st.floats(0, 1e7))
def test_time_shortens_it_and_ends_it(happened, policy, sooner, later):
    """The level never rises by itself, and is gone after long enough."""
    sooner, later = sorted((sooner, later))
    for now, _, known, _ in lived(happened, policy):
        if known is None:
            continue
        levels = [
            (aged(known, now + s, policy) or Backoff(*_NOTHING)).level for s in (sooner, later)
        ]
        assert levels == sorted(levels, reverse=True)
        ended = now + 3 * policy.ceiling + (known.level + 1) * policy.ceiling
        assert aged(known, ended, policy) is None


_NOTHING = (FailureKind.BOOT, "", 0.0)


@given(events, policies, st.integers(0, 100))
def test_nothing_while_it_rests_and_one_when_the_rest_is_over(happened, policy, coming):
    """A single node, those on their way included, and twice as many after each success since; a
    gang gets its turn in the end."""
    succeeded_since = 0
    for now, before, known, failure in lived(happened, policy):
        if failure is None:
            succeeded_since += 1
        elif before is None or not before.level or now - failure[2] >= before.until:
            succeeded_since = 0  # else it was asked for before the rest
        if known is None or not known.level:
            continue
        if now < known.until:
            assert allowance(known, now, coming) == 0
        if failure is not None:
            assert allowance(known, known.until, coming) == max(0, 2**succeeded_since - coming)
        assert allowance(known, known.open_at, 0) is None


@given(facts, st.sampled_from([reach for reach in Reach if reach is not Reach.NODE]))
def test_what_a_failure_is_filed_under_is_what_its_bucket_is_looked_up_by(found, reach):
    """The key that is written is a key that is read."""
    assert subject(reach, found) in subjects_of(found)
    assert all(read_subject(each.key) == each for each in subjects_of(found))


@given(facts)
def test_spot_and_regular_nodes_share_nothing_but_the_subscription(found):
    """Nor does a family, a region or a size hold back the other market."""
    spot, regular = found._replace(spot=True), found._replace(spot=False)
    shared = set(subjects_of(spot)) & set(subjects_of(regular))
    assert {each.reach for each in shared} == {Reach.SUBSCRIPTION}


@given(st.text())
def test_any_message_says_something(message):
    """Whatever a server says is classified, and kept as one printable line."""
    assert of_a_node(message).kind in FailureKind
    assert of_a_refusal(message).kind in FailureKind
    assert plain(message).isprintable()
    assert len(plain(message)) <= 300


@given(
    st.dictionaries(
        facts.map(lambda f: subject(Reach.OFFER, f)),
        st.builds(
            Backoff,
            kinds,
            st.text(st.characters(blacklist_categories=["Cs"])),
            st.floats(0, 1e9),
            st.integers(0, 30),
            st.integers(0, 99),
            st.floats(0, 1e5),
            st.floats(0, 1e9),
            st.integers(0, 9),
        ),
        max_size=4,
    ),
    st.dictionaries(
        names,
        # NaN, which would be drawn of `empty_since`, is no time
        st.builds(
            Boot, st.floats(0, 1e9), st.booleans(), st.booleans(), empty_since=st.floats(0, 1e9)
        ),
        max_size=4,
    ),
    st.dictionaries(names, st.floats(0, 1e9), max_size=4),
)
def test_what_is_stored_is_read_again(backoffs, boots, sent):
    """And what is taken back is gone."""
    with TemporaryDirectory() as home:
        file = BackoffFile(str(Path(home) / "backoff.db"))
        file.write(backoffs, boots, sent)
        assert file.read() == (backoffs, boots, sent)
        file.write(dict.fromkeys(backoffs), dict.fromkeys(boots), dict.fromkeys(sent))
        assert file.read() == ({}, {}, {})
