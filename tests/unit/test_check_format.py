"""What `make lint` says of the format of files."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS_BLACK_WANTS = """\
    first, second = both("first"), both(
        "and a second one that is longer than the rest of the line has room, which is little"
    )
"""

pytestmark = pytest.mark.skipif(
    not (Path(sys.executable).parent / "black").exists(), reason="black is not installed here"
)


def checked(directory: Path, text: str) -> tuple[int, str]:
    """The exit code for a file of this text, and what is said."""
    shutil.copy(ROOT / "pyproject.toml", directory)
    (directory / "module.py").write_text(text, encoding="utf-8")
    program = [sys.executable, ROOT / "tools" / "check_format.py"]
    ended = subprocess.run(program, cwd=directory, capture_output=True, encoding="utf-8")
    return ended.returncode, ended.stdout + ended.stderr


def test_black_has_the_last_word(tmp_path: Path) -> None:
    """Ruff would write this file in another way."""
    ruff = Path(sys.executable).parent / "ruff"
    assert checked(tmp_path, textwrap.dedent(AS_BLACK_WANTS)) == (0, "")
    assert subprocess.run([ruff, "format", "--check", "--quiet", tmp_path]).returncode == 1


def test_the_file_to_be_formatted_is_named(tmp_path: Path) -> None:
    code, said = checked(tmp_path, "x = {  }\n")
    assert code == 1
    assert "would reformat" in said and "module.py" in said


def test_a_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    code, said = checked(tmp_path, "x = (\n")
    assert code == 2
    assert "module.py" in said
