"""For how long a node has been idle, and what its state file may look like."""

import json
from dataclasses import replace

import pytest

from hpc.autoscale.autostop.idleness import Idleness, StateError, read_state, write_state

GAP = 180


def seen(*looks):
    """What is known after looks, each a time and whether the node was at work."""
    state = Idleness()
    for now, is_busy in looks:
        state = state.after_look(now, is_busy, GAP)
    return state


def test_idle_time_runs_from_the_first_idle_look():
    """As long as every look since finds it idle."""
    assert seen((1000, False)).idle_seconds(1000) == 0
    assert seen((1000, False), (1060, False), (1120, False)).idle_seconds(1120) == 120
    assert seen((1000, False), (1060, True)).idle_seconds(1060) is None
    assert seen((1000, False), (1060, True), (1120, False)).idle_seconds(1180) == 60


def test_the_first_work_is_remembered():
    """Once; what comes later does not change it."""
    state = seen((1000, False), (1060, True), (1120, False), (1180, True))
    assert state.first_active_time == 1060
    assert seen((1000, False)).first_active_time is None


def test_unknown_is_not_idle():
    """And not work either."""
    state = seen((1000, False), (1060, None))
    assert (state.idle_seconds(1060), state.first_active_time) == (None, None)


def test_time_nobody_watched_is_not_idle_time():
    """After a longer pause it begins anew."""
    assert seen((1000, False), (1180, False)).idle_seconds(1180) == 180
    assert seen((1000, False), (1181, False)).idle_seconds(1181) == 0


@pytest.mark.parametrize("jump", [-1_000_000, -61, 1_000_000])
def test_a_clock_that_jumps(jump):
    """Begins idle time anew, in either direction."""
    state = seen((2_000_000, False), (2_000_060, False), (2_000_060 + jump, False))
    assert state.idle_seconds(2_000_060 + jump) == 0


@pytest.mark.parametrize("later", [(1120, True), (1120, None), (90_000, False), (900, False)])
def test_time_without_an_answer_begins_anew_with_idle_time(later):
    """Else one question without an answer would do, after hours of work or a clock that jumped."""
    state = replace(seen((1000, False), (1060, False)), away_since=1060.0)
    assert state.after_look(1120, False, GAP).away_since == 1060
    assert state.after_look(*later, GAP).away_since is None


def test_a_file_comes_back(tmp_path):
    """As it was written, with the two keys that other scripts read."""
    path = str(tmp_path / "state.json")
    state = Idleness(1.5, 2.0, 3.0, None, ("a",)).with_notice("b")
    write_state(path, state)
    assert read_state(path) == (state, None)
    found = json.loads((tmp_path / "state.json").read_text())
    assert (found["first_active_time"], found["idle_start_time"]) == (1.5, 2.0)
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_the_file_of_other_scripts(tmp_path):
    """Says whether the node has worked; its idle time was watched by somebody else."""
    path = tmp_path / "state.json"
    path.write_text('{"first_active_time": 500, "idle_start_time": 600}')
    state, problem = read_state(str(path))
    assert problem is None
    assert state.after_look(1000, False, GAP).idle_seconds(1000) == 0
    assert state.first_active_time == 500


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"idle_start_time": "1"}',
        b'{"idle_start_time": true}',
        b'{"idle_start_time": NaN}',
        b'{"idle_start_time": Infinity}',
        b'{"looked_at": -1}',
        b'{"notices": "x"}',
        b'{"first_active_time": [1]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file(tmp_path, content):
    """Says nothing, so that idle time begins anew, and is said to be damaged."""
    path = tmp_path / "state.json"
    path.write_bytes(content)
    state, problem = read_state(str(path))
    assert state == Idleness()
    assert str(path) in problem
    assert "begins anew" in problem


def test_no_file(tmp_path):
    """Is how it begins."""
    assert read_state(str(tmp_path / "none")) == (Idleness(), None)


def test_a_file_that_cannot_be_written(tmp_path):
    """Is an error: nobody would know for how long the node has been idle."""
    with pytest.raises(StateError, match="cannot be written"):
        write_state(str(tmp_path / "no" / "state.json"), Idleness())


def test_few_notices_are_kept(tmp_path):
    """The newest."""
    state = Idleness()
    for number in range(200):
        state = state.with_notice(str(number))
    assert (len(state.notices), state.notices[-1]) == (50, "199")
