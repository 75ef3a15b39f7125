"""How many files a simple thing passes through; a ceiling that only goes down."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = {"the first job, placed on an existing node": 18, "a listing that becomes a manager": 25}


@pytest.fixture(scope="module")
def counted():
    """What the tool prints, as {task: number of files}."""
    tool = ROOT / "tools" / "count_files.py"
    done = subprocess.run(
        [sys.executable, str(tool)], capture_output=True, text=True, check=True, timeout=60
    )
    heads = [line for line in done.stdout.splitlines() if line.endswith(" files")]
    return {name: int(count.split()[0]) for name, count in (h.rsplit(": ", 1) for h in heads)}


@pytest.mark.parametrize("task", MOST)
def test_no_task_passes_through_more_files_than_before(counted, task):
    """Whoever needs another file may merge two that only make sense together."""
    assert 0 < counted[task] <= MOST[task]
