"""For how long somebody is silent, as one sees who looks from time to time."""

from hpc.autoscale.clock import MockClock
from hpc.autoscale.silence import Silence


def looks(silence, clock, *seconds, heard=()):
    """What is given up in each of the looks that come after so many seconds; `a` and `b` are to be
    heard."""
    found = []
    for each in seconds:
        clock.now += each
        silence.look(["a", "b"], heard)
        found.append(sorted(silence.given_up))
    return found


def test_who_is_silent_for_the_whole_patience_is_given_up():
    clock = MockClock()
    silence = Silence(60, clock.time)
    found = looks(silence, clock, 0, 15, 15, 15, 15, heard=["b"])
    assert found == [[], [], [], [], ["a"]]
    assert silence.silent == {"a": 60}


def test_who_was_not_expected_before_has_been_silent_for_no_time():
    clock = MockClock()
    silence = Silence(60, clock.time)
    silence.look(["b"])
    clock.now += 20
    silence.look(["a", "b"])
    assert silence.silent == {"a": 0, "b": 20}


def test_who_was_heard_in_between_or_expected_no_more_begins_anew():
    clock = MockClock()
    silence = Silence(60, clock.time)
    looks(silence, clock, 0, 20, 20)
    silence.look(["a"], ["a"])
    assert silence.silent == {}
    assert looks(silence, clock, 20, 20) == [[], []]
    assert silence.silent == {"a": 40, "b": 20}


def test_however_far_apart_looks_are_three_of_them_have_to_find_nothing():
    """Also where some of them come in pairs."""
    clock = MockClock()
    assert looks(Silence(60, clock.time), clock, 0, 300, 1, 300, 1, 300) == [*[[]] * 5, ["a", "b"]]


def test_a_clock_that_is_set_makes_a_third_of_the_patience_at_most():
    clock = MockClock()
    assert looks(Silence(60, clock.time), clock, 0, 86400, -86400, 19)[-1] == []
    assert looks(Silence(60, clock.time), clock, 0, -3600, 20, 20, 20)[-1] == ["a", "b"]


def test_what_was_before_it_began_anew_does_not_count():
    clock = MockClock()
    silence = Silence(60, clock.time)
    looks(silence, clock, 0, 20, 20)
    clock.now += 20
    silence.begin_anew()
    assert silence.silent == {"a": 0, "b": 0}
    assert looks(silence, clock, 10, 20, 20, 20) == [[], [], [], ["a", "b"]]
