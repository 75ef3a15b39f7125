"""Which interpreter the tests that depend on it are run with besides."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "newer_python.py"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one directory on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def a_program(path: Path, text: str) -> str:
    """Make a shell script; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def newer_than(minor: int) -> str | None:
    """What the tool finds."""
    return runpy.run_path(str(TOOL))["newer_than"](minor)


def test_the_newest_that_runs(path: Path) -> None:
    """Not a shim that ends with an error, not a file of another kind, and none that is not
    newer."""
    for name in ("python3.11", "python3.12", "python3.13"):
        a_program(path / name, "exit 0")
    a_program(path / "python3.15", "echo no such version; exit 127")
    (path / "python3.16").mkdir()
    assert newer_than(11) == str(path / "python3.13")
    assert newer_than(13) is None


def test_what_is_asked_of_it(path: Path) -> None:
    """A release, with venv and ensurepip; this interpreter is one."""
    (path / "python3.29").symlink_to(sys.executable)
    assert newer_than(28) == str(path / "python3.29")
    (path / "python3.29").unlink()
    hidden = (
        f'{sys.executable} -S -c \'import sys; sys.modules["ensurepip"] = None; '
        f'exec(sys.argv[2])\' "$@"'
    )
    a_program(path / "python3.29", f"exec {hidden}")
    assert newer_than(28) is None


def test_one_that_pyenv_has(path: Path, tmp_path: Path) -> None:
    """Its shim ends with an error; pyenv says where it is. An answer that is none is passed
    over."""
    interpreter = a_program(tmp_path / "versions" / "3.13.0" / "bin" / "python3.13", "exit 0")
    a_program(path / "python3.13", "exit 127")
    prefix = f'"prefix 3.13.0") echo {tmp_path}/versions/3.13.0;;'
    known = '"versions --bare") echo 3.1.3; echo 3.11.4/envs/x; echo 3.13.0;;'
    a_program(path / "pyenv", f'case "$*" in {prefix} {known} *) exit 1;; esac')
    assert newer_than(11) == interpreter
    a_program(path / "pyenv", "echo 3.13.0")
    assert newer_than(11) is None


def test_nothing_is_printed_where_there_is_none(path: Path) -> None:
    """And that is no error."""
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def make(work: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """What make does, with environments in a directory that are taken as ready."""
    for name in (".", "newer"):
        (work / name).mkdir(exist_ok=True)
        (work / name / ".installed").touch()
    variables = {key: value for key, value in os.environ.items() if "MAKE" not in key}
    words = ["make", "--no-print-directory", *command, f"VENV={work}", f"PYTHON={sys.executable}"]
    return subprocess.run(
        words, cwd=TOOL.parents[1], env=variables, capture_output=True, text=True, check=False
    )


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@needs_make
def test_the_run_tells_that_it_skips(tmp_path: Path) -> None:
    """In one line, and goes on."""
    done = make(tmp_path, "newer", "NEWER=")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1 and "are skipped" in done.stdout


@needs_make
def test_what_fails_on_the_newer_one_fails_the_run(tmp_path: Path) -> None:
    """It gets the tests, and is to take warnings for errors."""
    for code in (0, 1):
        a_program(tmp_path / "newer" / "bin" / "python", f'echo "$@"; exit {code}')
        done = make(tmp_path, "newer", "NEWER=python3.99")
        assert (done.returncode == 0) == (code == 0)
        for said in ("python3.99", "-W error -m pytest", "tests/unit/test_hpctypes.py"):
            assert said in done.stdout


@needs_make
def test_the_main_run_comes_last(tmp_path: Path) -> None:
    """`make test` ends with the closing line of all tests on the interpreter of the environment."""
    done = make(tmp_path, "--dry-run", "test", "NEWER=python3.99")
    assert done.returncode == 0, done.stderr
    runs = (line for line in done.stdout.splitlines() if "-m pytest" in line)
    started = [line.split()[0] for line in runs if "--collect-only" not in line]
    assert started == [f"{tmp_path}/newer/bin/python", f"{tmp_path}/bin/python"]


def test_what_is_run_on_it_is_there() -> None:
    """No name in the list of tests has become wrong."""
    lines = (TOOL.parents[1] / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (listed,) = (line for line in lines.splitlines() if line.startswith("NEWER_TESTS"))
    inside, outside = re.search(r"tests/unit/test_,([^)]*)\)(.*)", listed).groups()
    names = [f"tests/unit/test_{name}" for name in inside.split()] + outside.split()
    assert len(names) > 20
    assert [name for name in names if not list(TOOL.parents[1].glob(name))] == []
