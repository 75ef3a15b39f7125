"""Cases as data, replayed through the published interface: worked numbers, and upstream's defects
that are none here."""

import json

import pytest

from builders import case_replay
from builders.processes import python

ALL = case_replay.load()


@pytest.mark.parametrize("case", [case for _, case in ALL], ids=[name for name, _ in ALL])
def test_case(case):
    """What is expected of each step, and in the end, holds."""
    case_replay.replay(json.loads(json.dumps(case)))


def test_cases_say_what_holds():
    """Each has a name of its own, and one line that says what it shows."""
    names = [name for name, _ in ALL]
    assert len(set(names)) == len(names)
    for name, case in ALL:
        assert case["says"].strip(), name
        assert set(case) <= {
            "name",
            "says",
            "cluster",
            "config",
            "arguments",
            "history",
            "hosts",
            "jobs",
            "steps",
            "expect",
        }, name


def test_a_case_that_does_not_hold_is_found():
    """The replay does look."""
    (case,) = [case for name, case in ALL if name == "worked_numbers: more slots than fit"]
    for wrong in ({"slots": 41}, {"nodes": ["htc-1"]}, {"ok": False}, {"because": "nothing"}):
        changed = json.loads(json.dumps(case))
        changed["steps"][0]["expect"] = wrong
        with pytest.raises(case_replay.Mismatch):
            case_replay.replay(changed)


def test_cases_hold_without_assertions():
    """W9: nothing that must happen happens inside an assert."""
    paths = [str(path) for path in sorted(case_replay.CASES.glob("*.json"))]
    code = (
        "import sys, runpy; sys.argv[0] = 'case_replay.py'; "
        f"runpy.run_path({case_replay.__file__!r}, run_name='__main__')"
    )
    done = python(code, *paths, PYTHONOPTIMIZE="1")
    assert (done.returncode, done.stdout.strip()) == (0, str(len(ALL))), done.stderr
