"""The units of systemd in the README and in the examples are such that systemd takes them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_README = re.findall(
    r"```ini\n(# /etc/systemd/system/\S+\n.*?)```",
    (ROOT / "README.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
FILES = sorted(ROOT.glob("examples/**/*.service"))
UNITS = [*IN_README, *(file.read_text(encoding="utf-8") for file in FILES)]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=["README", *(file.name for file in FILES)])
def test_systemd_takes_a_unit(unit, tmp_path):
    """But for the command, which is installed on no machine of ours."""
    text, commands = re.subn(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit)
    assert commands == 1
    path = tmp_path / "checked.service"
    path.write_text(text)
    verify = ["systemd-analyze", "verify", "--recursive-errors=no", str(path)]
    found = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


def test_there_are_such_units():
    assert len(IN_README) == 1
    assert len(FILES) == 2


@pytest.mark.parametrize("unit", UNITS, ids=["README", *(file.name for file in FILES)])
def test_a_loop_is_asked_to_end_and_its_commands_are_not(unit):
    assert "KillMode=mixed" in unit
    assert "Wants=network-online.target" in unit
