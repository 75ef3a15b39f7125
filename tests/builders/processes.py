"""Processes of their own: Python code, programs, and real installers on real environments."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# an installer that compiles nothing, as what is imported is compiled then
HASTY = {**os.environ, "PIP_COMPILE": "0"}
# one that has no registry either, no directory of wheels, and no settings that name one
OFFLINE = {**HASTY, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_NO_INPUT": "1"}


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Return when something holds that another process brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments; nothing is asserted of it."""
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)


def python(code: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own; the completed process, of which nothing is
    asserted."""
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def succeeding(*command: object, **options: Any) -> str:
    """What a program prints, which has to succeed."""
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def an_environment(directory: Path) -> list[object]:
    """The beginning of pip commands on a new virtual environment in the directory."""
    succeeding("-m", "venv", "--without-pip", directory)
    return ["-m", "pip", "--python", directory / "bin" / "python"]


def needed_beside(directory: Path) -> Path:
    """A directory with all that is installed here but the library, to be put on PYTHONPATH."""
    needed = directory / "needed"
    needed.mkdir()
    for path in Path(pytest.__file__).parents[1].iterdir():
        if "hpc_autoscale" not in path.name:
            (needed / path.name).symlink_to(path)
    return needed
