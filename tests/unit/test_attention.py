"""Whether time between looks counts towards what somebody is patient for."""

from hpc.autoscale.attention import Attention


def test_what_is_looked_at_often_is_watched():
    """But for the time before the first look."""
    attention = Attention()
    assert [attention.goes_on(now, 60) for now in (100, 110, 140)] == [False, True, True]


def test_a_clock_that_was_set_and_a_long_pause_do_not_count():
    attention = Attention()
    assert [attention.goes_on(now, 60) for now in (100, 110, 50, 60, 91)] == [
        *(False, True, False, True),
        False,  # 31 seconds, where 60 are waited for
    ]


def test_looks_that_are_usually_far_apart_count():
    """Also where some come in pairs: the second one makes none of the next a pause."""
    attention = Attention()
    assert [attention.goes_on(now, 60) for now in (0, 300)] == [False, False]
    assert all(attention.goes_on(now, 60) for now in (600, 601, 900, 901, 1200))
