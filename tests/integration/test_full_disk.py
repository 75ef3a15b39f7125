"""A file system that is really full: a small one in memory, in a namespace of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the passes of `builders.full_disk` came to; skipped where the kernel, or a sandbox, lets
    nobody but root mount anything."""
    if shutil.which("unshare") is None:
        pytest.skip("no program unshare, to make a namespace with")
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    directory = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    tried = subprocess.run([*alone, *mount], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no file system of one's own can be mounted here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*alone, sys.executable, str(TESTS / "builders" / "full_disk.py"), str(directory)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_is_created_or_deleted_while_the_disk_is_full(told):
    """The errors name the file and what is wrong with it; nodes stay as they are, however long."""
    full = told["passes"][2:-1]
    assert [each["nodes"] for each in told["passes"][:2]] == [2, 2]
    assert [each["nodes"] for each in full] == [2] * 9
    assert "requests.db: database or disk is full" in full[0]["errors"][0]
    for each in full[1:]:
        assert "nodehistory.db" in each["errors"][0] and "full" in each["errors"][0]


def test_when_there_is_room_again_all_is_as_usual(told):
    """What was kept is still there, and what is wanted is made once."""
    assert told["passes"][-1] == {"jobs": 3, "errors": [], "nodes": 3}


def test_the_lock_holds_on_a_full_disk(told):
    """Its holder's number is missing, and the log says so."""
    assert any("lock.file" in line and "cannot be written" in line for line in told["lock"])
