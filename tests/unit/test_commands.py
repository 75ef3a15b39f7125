"""Commands of the site: no shell, a deadline, and what they say as data."""

import os
import signal

import pytest

from hpc.autoscale import commands
from hpc.autoscale.commands import Ran, run, run_each


def test_what_comes_of_a_command():
    """Its exit code, and its last words on one line."""
    assert run(["true"], 20) == Ran(0, "")
    failed = run(["sh", "-c", 'printf "a\\nb \\033]0;x\\007" >&2; echo out; exit 3'], 20)
    assert failed == Ran(3, "a b \\x1b]0;x\\x07")
    assert failed.problem == "exit code 3: a b \\x1b]0;x\\x07"


def test_what_runs_on_is_not_waited_for(tmp_path):
    """A daemon that keeps stderr open."""
    pid = tmp_path / "pid"
    assert run(["sh", "-c", f'sleep 60 & echo $! > "{pid}"'], 20).is_done
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_very_long_line_is_cut():
    """Its end is what is shown."""
    script = "head -c 10000000 /dev/zero | tr '\\0' x >&2; printf END >&2"
    assert run(["sh", "-c", script], 20).text == "x" * 297 + "END"


def test_a_command_that_complains_for_ever_fills_no_disk():
    """This one waits until what it wrote is gone from the file."""
    is_large = 'test "$(stat -Lc %s /proc/self/fd/2)" -gt 1000000'
    script = f"head -c 3000000 /dev/zero >&2; while {is_large}; do sleep 0.02; done; echo END >&2"
    ran = run(["sh", "-c", script], 30)
    assert (ran.code, ran.text[-3:]) == (0, "END")


def test_nobody_waits_for_a_process_that_cannot_be_killed(monkeypatch):
    """As while it waits for a file server that is gone."""
    left = []
    monkeypatch.setattr("os.killpg", lambda pid, number: left.append(pid))
    monkeypatch.setattr("hpc.autoscale.commands._ENDS_WITHIN", 0.01, raising=False)
    assert run(["sleep", "30"], 0.01) == Ran(None, "timed out after 0.01 seconds")
    os.kill(left[0], signal.SIGKILL)
    os.waitpid(left[0], 0)


@pytest.mark.parametrize("command", [["/no/such"], ["a\0b"], ["/"]])
def test_what_cannot_be_run(command):
    """Has no exit code, and says why."""
    ran = run(command, 20)
    assert ran.code is None
    assert ran.problem


def test_each_by_its_name():
    """Side by side."""
    done = run_each({"a": ["true"], "b": ["false"]}, {"a": 20, "b": 20})
    assert {name: ran.code for name, ran in done.items()} == {"a": 0, "b": 1}
    assert run_each({}, {}) == {}


def test_commands_that_do_not_begin_in_time_are_not_run(monkeypatch, tmp_path):
    """So that very many that hang are waited for a bounded time."""
    monkeypatch.setattr(commands, "MOST_AT_ONCE", 2)
    hanging = {str(number): ["sleep", "60"] for number in range(200)}
    done = run_each(hanging, dict.fromkeys(hanging, 0.3), begin_within=0.1)
    assert set(done) == {"0", "1"}
    assert all(ran.code is None and "timed out" in ran.text for ran in done.values())
