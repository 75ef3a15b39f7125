"""Find a newer interpreter than the one that runs this, for the tests that depend on it.

It prints the path of the newest one that has been released and can make virtual environments, or
nothing. It looks on PATH, and among those that pyenv has and does not put there. Called by the
Makefile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

FURTHEST = 30
"""Python 3.30 is not expected to be there before somebody reads this."""

# Debian's interpreters come without ensurepip, and then make no environment that pip is in.
PROBE = "import ensurepip, sys, venv; sys.exit(sys.version_info.releaselevel != 'final')"


def main() -> int:
    """Print what is found; the exit code."""
    path = newer_than(sys.version_info.minor)
    if path is not None:
        print(path)
    return 0


def newer_than(minor: int) -> str | None:
    """The newest interpreter above 3.`minor`; None where there is none."""
    names = (f"python3.{newer}" for newer in range(FURTHEST, minor, -1))
    return next((path for name in names for path in found(name) if runs(path)), None)


def found(name: str) -> Iterator[str]:
    """The paths where a program of this name may be."""
    for directory in os.get_exec_path():
        path = shutil.which(name, path=directory or os.curdir)
        if path is not None:
            yield path
    for version in pyenv("versions", "--bare"):
        if name == f"python{'.'.join(version.split('.')[:2])}":
            for prefix in pyenv("prefix", version):
                yield os.path.join(prefix, "bin", name)


@cache
def pyenv(*command: str) -> tuple[str, ...]:
    """The lines that pyenv prints; none where there is no pyenv."""
    try:
        done = subprocess.run(["pyenv", *command], capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


def runs(path: str) -> bool:
    """Whether an interpreter is a release that can make virtual environments.

    The shim of a version manager may exist and yet not run.
    """
    try:
        return subprocess.run([path, "-c", PROBE], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
