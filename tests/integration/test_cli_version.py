"""`azscale --version` imports next to nothing. What is counted is modules, not time."""

import json
import subprocess
import sys

import pytest

from hpc.autoscale import __version__

MODULES = """
import json, sys
from hpc.autoscale.cli import console_main
sys.argv[1:] = ["--version"]
console_main()
print(json.dumps(sorted(name for name in sys.modules if name.startswith("hpc.autoscale"))))
"""


@pytest.fixture(scope="module")
def said():
    """What is printed: the version, then the modules of the library that were imported."""
    command = [sys.executable, "-c", MODULES]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()


def test_the_version_is_said(said):
    """In one line."""
    assert said[0] == f"azscale {__version__}"


def test_the_loop_is_not_imported(said):
    """Nor the engine, nor anything else that decides something."""
    modules = json.loads(said[1])
    assert len(modules) <= 8
    assert not [name for name in modules if name.startswith("hpc.autoscale.autoscaler")]


def test_with_other_words_beside_it_says_the_same():
    """As the parser of the command line has it."""
    command = [sys.executable, "-m", "hpc.autoscale.cli", "--debug", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"azscale {__version__}\n"
